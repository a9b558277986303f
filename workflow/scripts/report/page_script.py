"""The few lines of script of the page: opening what a link leads to, sorting by a column, showing what a word is in.

Without it the page is whole: nothing is hidden that a reader cannot open. It asks for nothing from elsewhere.
"""

# A block is a row with those that hang from its first cell: a model's published, reproduced and difference lines.
SCRIPT = """
(() => {
  const all = (what, within = document) => [...within.querySelectorAll(what)];
  const reveal = () => {
    const id = decodeURIComponent(location.hash.slice(1)), at = id && document.getElementById(id);
    for (let e = at; e; e = e.parentElement) if (e.tagName === 'DETAILS') e.open = true;
    if (at) at.scrollIntoView();
  };
  addEventListener('hashchange', reveal); reveal();
  let closed = [];
  addEventListener('beforeprint', () => { closed = all('details:not([open])'); closed.forEach(d => d.open = true); });
  addEventListener('afterprint', () => closed.forEach(d => d.open = false));

  const blocks = body => {
    const found = [];
    let left = 0;
    for (const row of body.rows) {
      if (left > 0) { found.at(-1).push(row); left--; continue; }
      found.push([row]);
      left = (row.cells[0].rowSpan || 1) - 1;
    }
    return found;
  };
  const isTitle = block => block.length === 1 && block[0].cells[0].scope === 'rowgroup';
  // The cell of a row below a column: cells that hang down from the row before take their place.
  const cellAt = (row, column, shift) => {
    let at = shift;
    for (const cell of row.cells) { at += cell.colSpan; if (at > column) return cell; }
  };
  const valueOf = (block, column) => {
    const lines = block.map((row, n) => [row, n && block[0].cells[0].rowSpan > 1 ? 1 : 0]);
    const own = column > 0 && lines.find(([row]) => row.querySelector('.ours')) || lines[0];
    const words = (cellAt(own[0], column, own[1]) || lines[0][0].cells[0]).textContent.trim().replace('\\u2212', '-');
    const number = words.match(/^[+>]?(-?[\\d,]*\\.?\\d+(?:e[+-]?\\d+)?)/i);
    return number ? parseFloat(number[1].replace(/,/g, '')) : words;
  };
  const sort = (table, column, down) => {
    for (const body of table.tBodies) {
      let run = [];
      const put = before => {
        run.map(block => [valueOf(block, column), block]).sort(([a], [b]) => {
          if (typeof a !== typeof b) return typeof a === 'number' ? -1 : 1;
          return (typeof a === 'number' ? a - b : a.localeCompare(b)) * (down ? -1 : 1);
        }).forEach(([, block]) => block.forEach(row => body.insertBefore(row, before)));
        run = [];
      };
      for (const block of blocks(body)) { if (isTitle(block)) put(block[0]); else run.push(block); }
      put(null);
    }
  };
  for (const table of all('table')) {
    const heads = [];
    [...table.tHead.rows].forEach((row, r) => {
      let column = 0;
      for (const cell of row.cells) {
        while (heads[r] && heads[r][column]) column++;
        for (let down = 0; down < cell.rowSpan; down++)
          for (let across = 0; across < cell.colSpan; across++) (heads[r + down] ||= [])[column + across] = cell;
        column += cell.colSpan;
      }
    });
    (heads.at(-1) || []).forEach((cell, column) => {
      if (cell.scope !== 'col' || cell.querySelector('button')) return;
      const button = document.createElement('button');
      button.type = 'button';
      button.append(...cell.childNodes);
      button.addEventListener('click', () => {
        const down = cell.getAttribute('aria-sort') !== 'descending';
        all('[aria-sort]', table.tHead).forEach(other => other.removeAttribute('aria-sort'));
        cell.setAttribute('aria-sort', down ? 'descending' : 'ascending');
        sort(table, column, down);
      });
      cell.append(button);
    });
  }

  const box = document.getElementById('filter');
  if (!box) return;
  box.closest('.filter').hidden = false;
  const items = all('details.item');
  const before = new Map(items.map(item => [item, item.open]));
  box.addEventListener('input', () => {
    const words = box.value.toLowerCase().split(/\\s+/).filter(Boolean);
    const has = text => words.every(word => text.toLowerCase().includes(word));
    for (const item of items) {
      const titled = has(item.querySelector('summary').textContent);
      let any = false;
      for (const body of all('tbody', item)) for (const block of blocks(body)) {
        const show = !words.length || titled || isTitle(block) || has(block.map(row => row.textContent).join(' '));
        block.forEach(row => { row.hidden = !show; });
        any ||= show && !isTitle(block);
      }
      item.hidden = words.length > 0 && !any && !titled;
      item.open = words.length ? !item.hidden : before.get(item);
    }
  });
})();
"""
