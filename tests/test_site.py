"""The pages for a browser: results/index.html, a table's own page, Snakemake's report.

Without Chromium the tests that look at them as a reader would are skipped; those that read the HTML run everywhere.
"""

import json
import re
import shutil
import statistics
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from urllib.parse import unquote

import pytest

import browser
import made_up
from common.identity import run_hash
from plan.evidence import score_hash
from plan.load import load_config
from plan.recipes import recipe_digest, recipe_key
from plan.runs import resolve_run
from report import html_tables, trainings
from report.trainings_html import training_row
from trees import copy_tree, snakemake

pytestmark = pytest.mark.dag

ITEMS = (
    "parallax/summary",
    "parallax/methods",  # the first screen's own
    "ernie-m/table-01",
    "ernie-m/table-16",  # the widest
    "xlm-e/table-02",  # a comparison, not of scores alone
    "parallax/tatoeba-by-layer",
    "ernie-m/figure-02",
)
SETTINGS = ("--config", "scores_from=reference", "seeds=[1,2,3]", f"items=[{','.join(ITEMS)}]")
PAGES = ("results/index.html", "results/tables/ernie-m/table-01.html", "results/tables/xlm-e/table-02.html")
VOID = {"meta", "img", "br", "input", "link", "hr"}
LOST = "xlm/xnli/cross-lingual-transfer/seed-2.json"


def training(run: str, seed: int) -> dict:
    cost = {"flops": 2e9, "flops_by_the_papers_counting": 3e9, "tokens": 1000.0 + seed, "steps": 40, "seconds": 7.5}
    cost |= {"parameters": {"all": 10, "encoder": 8, "training_only": 0}, "device": "a machine", "threads": 2}
    curves = {"mmlm/loss": [[step, 8.0 - step / 10] for step in (10, 20, 40)], "gradient_norm": [[10, 1.0]]}
    return {"run": run, "seed": seed, "scale": "mini", "run_hash": "x", "cost": cost, "curves": curves}


def hash_of_run(tree: Path, run: str) -> str:
    return run_hash(resolve_run(load_config(tree, {"scale": "mini"}), run))[:16]


def make_current(tree: Path) -> None:
    """The made-up scores become those of the configuration: of another they would not be read."""
    config, recipes = load_config(tree, {"scale": "mini", "runs": "all"}), {}
    for path in (tree / "reference/scores/mini").rglob("seed-*.json"):
        run, task, setting = path.parts[-4:-1]
        about = {"run_hash": score_hash(config, run, task, setting), "task_version": config.tasks[task]["version"]}
        path.write_text(json.dumps(json.loads(path.read_text()) | about))
        recipes[recipe_key(config, run, task, setting)] = recipe_digest(config, run, task, setting)
    (tree / "reference/recipes/mini.json").write_text(json.dumps(recipes))


@pytest.fixture(scope="module")
def tree(repository, tmp_path_factory) -> Path:
    """The whole way of `--config scores_from=reference`, with made-up scores in place of the repository's."""
    tree = copy_tree(repository, tmp_path_factory.mktemp("site"))
    for kind in ("scores", "trainings", "corpus"):
        shutil.rmtree(tree / "reference" / kind, ignore_errors=True)
    made_up.write_all(tree / "reference/scores/mini")
    make_current(tree)
    (tree / "reference/scores/mini" / LOST).unlink()  # a seed whose training diverged
    for run in ("xlm-r", "xlm"):
        for seed in (1, 2):
            path = tree / f"reference/trainings/mini/{run}/seed-{seed}.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(training(run, seed) | {"run_hash": hash_of_run(tree, run)}))
    formats = [f"results/tables/{item}.{kind}" for item in ITEMS[:5] for kind in ("csv", "md")]
    snakemake(tree, "--cores", "2", *SETTINGS, "--", *PAGES, "pages", "scores", *formats)
    return tree


# --- what the HTML says ---------------------------------------------------------------------------------------------


@dataclass
class Element:
    tag: str
    attributes: dict[str, str]
    parent: "Element | None" = None
    children: list["Element"] = field(default_factory=list)
    words: list[str] = field(default_factory=list)

    def all(self, *tags: str) -> Iterator["Element"]:
        for child in self.children:
            if not tags or child.tag in tags:
                yield child
            yield from child.all(*tags)

    def text(self) -> str:
        return " ".join("".join(self.words).split())

    def get(self, name: str) -> str:
        return self.attributes.get(name, "")


class Reader(HTMLParser):
    """A tree of elements; a tag that is not closed, or another than the one that is open, is an error."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.root = self.open = Element("document", {})
        self.feed(text)
        self.close()
        assert self.open is self.root, f"<{self.open.tag}> is not closed"

    def handle_starttag(self, tag: str, attrs: list) -> None:
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), f"<{tag}>: an attribute stands twice: {names}"
        child = Element(tag, {name: value or "" for name, value in attrs}, self.open)
        self.open.children.append(child)
        self.open = self.open if tag in VOID else child

    def handle_startendtag(self, tag: str, attrs: list) -> None:
        self.open.children.append(Element(tag, dict(attrs), self.open))

    def handle_endtag(self, tag: str) -> None:
        assert tag == self.open.tag, f"</{tag}> where <{self.open.tag}> is open"
        self.open = self.open.parent

    def handle_data(self, data: str) -> None:
        element = self.open
        while element:
            element.words.append(data)
            element = element.parent


def read(path: Path) -> Element:
    return Reader(path.read_text(encoding="utf-8")).root


@pytest.fixture(scope="module", params=PAGES)
def page(tree, request) -> tuple[Path, Element]:
    path = tree / request.param
    return path, read(path)


@pytest.fixture(scope="module")
def site(tree) -> Element:
    return read(tree / "results/index.html")


def by_id(root: Element, identity: str) -> Element:
    [found] = [element for element in root.all() if element.get("id") == identity]
    return found


def test_a_page_asks_for_nothing_from_elsewhere(page):
    path, root = page
    assert not list(root.all("link", "iframe", "object", "base"))
    assert not [script for script in root.all("script") if script.attributes or path.name != "index.html"]
    style = "".join(element.text() for element in root.all("style"))
    assert "url(" not in style and "@import" not in style
    for element in root.all():
        for name in ("src", "srcset", "href", "poster", "data", "style"):
            assert not re.match(r"\s*(?:\w+:)?//", element.get(name)), (element.tag, element.attributes)
        assert not element.get("src") or (path.parent / element.get("src")).is_file(), path


def test_the_first_view_is_light(tree):
    """What is read before a picture comes into view; every item of the repository together is about 1.1 MB."""
    assert (tree / "results/index.html").stat().st_size < 600_000


def test_every_link_leads_somewhere(page, tree):
    path, root = page
    identities = [element.get("id") for element in root.all() if element.get("id")]
    assert len(identities) == len(set(identities)), "an id stands twice"
    leading = [element.get("href") for element in root.all("a")]
    assert leading or "table-02" in path.name
    for target in leading:
        if target.startswith("#"):
            assert target[1:] in identities, target
        else:
            found = (path.parent / unquote(target)).resolve()
            assert found.is_file() and found.is_relative_to(tree.resolve()), target


def test_tables_are_tables(page):
    _, root = page
    tables = list(root.all("table"))
    assert tables
    for table in tables:
        assert [child.tag for child in table.children][:2] == ["caption", "thead"] and table.children[0].text()
        region = table.parent
        assert (region.get("role"), region.get("tabindex")) == ("region", "0") and region.get("aria-label")
        for header in table.all("th"):
            assert header.get("scope") in ("col", "colgroup", "row", "rowgroup"), header.text()
        for row in (row for body in table.children if body.tag == "tbody" for row in body.children):
            assert any(cell.tag == "th" for cell in row.children) or "rowspan" in str(body_headers(row))
        width = columns(table.children[1])
        assert len(set(width)) == 1, f"{region.get('aria-label')}: head of {width} columns"
        for body in table.children[2:]:
            assert set(columns(body)) <= set(width), f"{region.get('aria-label')}: {columns(body)} columns"


def body_headers(row: Element) -> list[dict]:
    return [cell.attributes for line in row.parent.children for cell in line.children if cell.tag == "th"]


def columns(part: Element) -> list[int]:
    """How many columns each row of a part fills, with cells that hang down from rows above."""
    widths, hanging = [], []
    for row in part.children:
        width = len(hanging)
        below = [rows - 1 for rows in hanging if rows > 1]
        for cell in row.children:
            across, down = int(cell.get("colspan") or 1), int(cell.get("rowspan") or 1)
            width += across
            below += [down - 1] * across if down > 1 else []
        widths.append(width)
        hanging = below
    return widths


def test_headings_are_in_order_and_pictures_are_told(page):
    _, root = page
    levels = [int(element.tag[1]) for element in root.all("h1", "h2", "h3", "h4", "h5")]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels)), levels
    for picture in root.all("img"):
        assert len(picture.get("alt")) > 30, picture.get("alt")
    for drawing in root.all("svg"):
        assert drawing.get("role") == "img" and re.search(r"from [\d.]+ to [\d.]+", drawing.get("aria-label"))
    [html] = root.all("html")
    assert html.get("lang") == "en" and [title.text() for title in root.all("title")]


def test_the_page_has_landmarks_and_a_contents_list(site):
    for tag in ("header", "nav", "main", "footer"):
        assert len(list(site.all(tag))) == 1
    first = next(site.all("a"))
    assert (first.get("class"), first.get("href")) == ("skip", "#main")
    [contents] = site.all("nav")
    listed = {link.get("href")[1:] for link in contents.all("a")}
    sections = [title.get("id") for section in site.all("section") for title in section.all("h2")]
    assert (
        sections == ["findings", "about", "tables", "figures", "claims", "audit", "trainings", "files"]
        and {*sections} <= listed
    )
    assert {f"{item.replace('/', '-')}-title" for item in ITEMS} == listed - {*sections}


def test_every_number_is_that_of_its_files(site, tree):
    """ERNIE-M's table 1 from the score files that its cells lead to: mean, deviation and n of every language."""
    folder, checked = tree / "results", 0
    table = next(by_id(site, "ernie-m-table-01").all("table"))
    codes = [cell.text() for cell in next(table.all("thead")).children[-1].children][-16:]
    for row in table.all("tr"):
        cells = [cell for cell in row.children if cell.tag == "td" and "ours" in cell.get("class")]
        for code, cell in zip(codes, cells, strict=False):
            links = [link for link in cell.all("a") if link.get("href").endswith(".json")]
            assert len(links) == (1 if re.search(r"\d", cell.text()) else 0), cell.text()
            if not links:
                continue
            first = (folder / links[0].get("href")).resolve()
            values = []
            for file in sorted(first.parent.glob("seed-*.json")):
                scores = {score["language"]: score["value"] for score in json.loads(file.read_text())["scores"]}
                shown = [own for own in codes if own in scores] if code == "Avg" else [code]
                values.append(statistics.fmean(scores[own] for own in shown))
            number = f"{statistics.fmean(values):.1f} ± {statistics.stdev(values):.1f}"
            assert cell.text().replace("∗", "") == f"{number} ({len(values)})", (row.text(), code)
            told = links[0].get("title")
            assert all(f"{value:.2f}" in told for value in values), told
            checked += 1
    assert checked > 30


def test_a_seed_without_a_score_has_a_footnote(site):
    item = by_id(site, "ernie-m-table-01")
    words = "2 of 3 seeds have a score; seed 2: not run, or training diverged."
    [note] = [note for note in item.all("li") if words in note.text()]
    letter = note.text().split()[0]
    marked = [row for row in item.all("th") if any(link.text() == letter for link in row.all("a"))]
    assert {row.text() for row in marked} == {f"Parallax, xlm{letter}"}
    assert [link.get("href")[1:] for link in marked[0].all("a")] == [next(note.all("span")).get("id")]


def test_claims_audit_trainings_and_files_are_all_there(site, tree):
    ledger = json.loads((tree / "results/mini/claims.json").read_text())
    rows = list(next(by_id(site, "claims-table").all("table")).all("tr"))
    for claim in ledger["claims"]:
        [row] = [row for row in rows if row.children[0].text().startswith(f"{claim['id']}{claim['says'][:10]}")]
        assert claim["verdict"] in row.text()
        assert f"{len(claim['files'])} file" in row.text() or not claim["files"]
    pages = [one for one in site.all("a") if one.text().startswith("docs/")]
    assert [one.text() for one in pages] == ["docs/what-we-learnt.md", "docs/real-results.md"]
    for one in pages:
        assert (tree / "results" / one.get("href")).resolve() == (tree / one.text()).resolve()
    printed = (tree / "results/tables/audit.csv").read_text(encoding="utf-8").count("\n") - 1
    assert printed > 10 and len(list(by_id(site, "audit-table").all("tr"))) >= printed
    trained = next(by_id(site, "trainings-table").all("tbody")).children
    assert [row.children[0].text() for row in trained] == ["xlm", "xlm-r"]
    assert [cell.text() for cell in trained[0].children[1:6]] == [
        "mmlm: 7.00 to 4.00",
        "1,001 to 1,002",
        "2.00e+09",
        "3.00e+09",
        "a machine, 2 threads",
    ]
    linked = {link.get("href") for link in by_id(site, "files-table").all("a")}
    files = {f"../{path.relative_to(tree)}" for path in (tree / "reference/scores/mini").rglob("*.json")}
    assert linked == {path for path in files if "random-init/xnli/translate-train-all" not in path}  # no row asks


def test_other_formats_are_of_the_same_spec(tree):
    text = (tree / "results/tables/ernie-m/table-01.csv").read_text(encoding="utf-8")
    assert text.startswith("paper,item,scale,setting") and ",xlm-r,xnli,en,accuracy,85.8," in text
    assert "| XLM-R base | published | 85.8 |" in (tree / "results/tables/ernie-m/table-01.md").read_text()
    assert (tree / "results/tables/xlm-e/table-02.csv").read_text().count("\n") > 5


def make_site(tree: Path, scores: str, out: Path) -> Path:
    command = [sys.executable, "workflow/scripts/make_site.py", "--scale", "mini", "--scores-root", scores]
    command += ["--override", f"items=[{','.join(ITEMS)}]", "--override", "runs=all", "--out", str(out)]
    subprocess.run(command, cwd=tree, check=True, capture_output=True, text=True)
    return out


def test_the_same_files_are_the_same_bytes_and_nothing_is_a_page_too(tree):
    pages = [make_site(tree, "no/scores", tree / f"results/again-{n}.html") for n in (1, 2)]
    assert pages[0].read_bytes() == pages[1].read_bytes()
    root = read(pages[0])
    assert "There is no score file at this scale yet." in root.text()
    assert not [link for link in root.all("a") if link.get("href").endswith(".json")]
    assert not re.search(r"(?<![\d.])0\.0(?!\d)", by_id(root, "ernie-m-table-01").text())


def test_text_is_escaped():
    odd = '<b> & "x"'
    row = [html_tables.Cell(html_tables.text(odd), "row"), html_tables.Cell(html_tables.link("1", odd, odd))]
    head = [[html_tables.Cell("a", "col"), html_tables.Cell("b", "col")]]
    table = html_tables.HtmlTable("t", odd, html_tables.text(odd), head, [html_tables.Body("", [row])])
    root = Reader(html_tables.page(odd, html_tables.render_table(table))).root
    assert next(root.all("caption")).text() == next(root.all("title")).text() == odd
    [link] = root.all("a")
    assert (link.get("href"), link.get("title")) == (odd, odd) and not list(root.all("b"))


def test_footnotes_go_on_after_z():
    assert [html_tables.letter_of(index) for index in (0, 25, 26, 51, 52, 701, 702)] == [
        "a",
        "z",
        "aa",
        "az",
        "ba",
        "zz",
        "aaa",
    ]


# --- Snakemake's own report -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def report(tree) -> Path:
    snakemake(tree, *SETTINGS, "--report", "results/report.html", "--", "pages", "scores")
    return tree / "results/report.html"


def test_the_report_holds_tables_and_figures_with_captions(report):
    text = report.read_text(encoding="utf-8")
    for category in ("Everything", "Tables", "Figures", "Provenance"):
        assert f'"{category}"' in text
    for words in ("XNLI accuracy by language", "Tatoeba accuracy by layer, every method", "at scale mini"):
        assert words in text
    for caption in ("Published numbers and ours side by side", "hollow markers are published numbers"):
        assert caption in text, caption
    assert not re.search(r"<(?:script|link|img)[^>]+(?:src|href)=[\"']?https?:", text)


# --- in a browser ---------------------------------------------------------------------------------------------------

needs_browser = pytest.mark.skipif(browser.executable() is None, reason="no Chromium: apt-get install chromium")

CONTRAST = """(() => {
  const channel = v => { v /= 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; };
  const parse = text => { const v = text.match(/[\\d.]+/g).map(Number); return v.length < 4 ? [...v, 1] : v; };
  const light = c => 0.2126 * channel(c[0]) + 0.7152 * channel(c[1]) + 0.0722 * channel(c[2]);
  const ground = e => { for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor);
    if (c[3] === 1) return c; } return [255, 255, 255, 1]; };
  const bad = [];
  for (const e of document.querySelectorAll('body *')) {
    const own = [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim());
    if (!own || !e.getClientRects().length) continue;
    const a = light(parse(getComputedStyle(e).color)), b = light(ground(e));
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) bad.push(e.tagName + '.' + e.className + ' ' + e.textContent.slice(0, 20) + ' ' + ratio);
  }
  return bad;
})()"""


@pytest.fixture(scope="module")
def chromium(tmp_path_factory) -> Iterator[browser.Browser]:
    with browser.chromium(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@needs_browser
def test_a_browser_has_nothing_to_complain_of(chromium, page):
    path, _ = page
    chromium.media()
    chromium.open(path)
    assert chromium.complaints == []
    assert chromium.requests == [path.resolve().as_uri()], "a picture is read before a reader comes to it"
    pictures = "[...document.images]"
    chromium.evaluate(f"{pictures}.forEach(image => {{ image.loading = 'eager'; }})")
    chromium.evaluate(f"Promise.all({pictures}.map(image => image.decode()))")
    assert chromium.evaluate(f"{pictures}.every(image => image.complete && image.naturalWidth > 100)")
    assert all(url.startswith("file:") for url in chromium.requests)


@needs_browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_its_ground(chromium, page, scheme):
    chromium.media("screen", scheme)
    chromium.open(page[0])
    dark = chromium.evaluate("getComputedStyle(document.documentElement).backgroundColor") != "rgb(255, 255, 255)"
    assert dark == (scheme == "dark")
    assert chromium.evaluate(CONTRAST) == []
    chromium.evaluate("document.querySelectorAll('details').forEach(e => { e.open = true; })")
    assert chromium.evaluate(CONTRAST) == [], "what was folded"


@needs_browser
@pytest.mark.parametrize("width", [1280, 768, 375])
def test_the_first_screen_answers(chromium, tree, width):
    """What was found begins on the first screen, above every table of a paper, and nothing sticks out of it."""
    chromium.media()
    chromium.open(tree / "results/index.html", width=width, height=800)
    top = "document.querySelector('{}').getBoundingClientRect().top"
    assert chromium.evaluate(top.format(".lead")) < 800
    assert chromium.evaluate(top.format("#which-method")) < chromium.evaluate(top.format("#tables"))
    assert chromium.evaluate("document.documentElement.scrollWidth") <= width


@needs_browser
def test_a_table_is_sorted_by_its_heads(chromium, tree):
    chromium.media()
    chromium.open(tree / "results/index.html")
    head = "document.querySelector('#files-table thead button')"
    assert chromium.evaluate(f"{head}.tabIndex") == 0, "no key reaches it"
    first = "[...document.querySelector('#files-table tbody').rows].slice(1).map(row => row.cells[0].textContent)"
    for order, reverse in (("descending", True), ("ascending", False)):
        chromium.evaluate(f"{head}.click()")
        tasks = chromium.evaluate(first)
        assert len(tasks) > 2 and tasks == sorted(tasks, reverse=reverse)
        assert chromium.evaluate(f"{head}.parentElement.getAttribute('aria-sort')") == order


@needs_browser
def test_a_models_lines_stay_together_when_a_table_is_sorted(chromium, tree):
    """Published and reproduced lines of a model move as one, by the reproduced number, within their group."""
    chromium.media()
    chromium.open(tree / "results/index.html")
    bodies = "[...document.querySelectorAll('#ernie-m-table-01 tbody')]"
    rows = f"{bodies}.map(body => [...body.rows].map(row => row.innerText))"
    before = chromium.evaluate(rows)
    heads = "[...document.querySelectorAll('#ernie-m-table-01 thead button')]"
    chromium.evaluate(f"{heads}.find(button => button.textContent === 'en').click()")
    after = chromium.evaluate(rows)
    assert [sorted(body) for body in after] == [sorted(body) for body in before] and after != before
    pairs = {tuple(body[i : i + 2]) for body in before for i in range(len(body)) if "published" in body[i]}
    own = [pair for pair in pairs if "Parallax" in pair[1]]
    for first, second in own:
        [body] = [body for body in after if first in body and second in body]
        assert body[body.index(first) + 1] == second


@needs_browser
def test_a_word_leaves_what_it_is_in(chromium, tree):
    chromium.media()
    chromium.open(tree / "results/index.html")
    shown = "[...document.querySelectorAll('details.item')].filter(e => !e.hidden).map(e => e.querySelector('h4').id)"
    everything = chromium.evaluate(shown)
    box = "document.getElementById('filter')"
    put = f"{box}.value = '{{}}', {box}.dispatchEvent(new Event('input'))"
    chromium.evaluate(put.format("InfoXLM"))
    some = chromium.evaluate(shown)
    assert "ernie-m-table-01-title" in some and 0 < len(some) < len(everything)
    visible = (
        "[...document.querySelectorAll('#ernie-m-table-01 tbody tr')].filter(e => !e.hidden).map(e => e.innerText)"
    )
    assert any("InfoXLM" in row for row in chromium.evaluate(visible))
    assert not any(row.startswith("Unicoder") for row in chromium.evaluate(visible))
    chromium.evaluate(put.format(""))
    assert chromium.evaluate(shown) == everything


@needs_browser
def test_a_link_opens_what_is_folded(chromium, tree):
    chromium.media()
    chromium.open(tree / "results/index.html")
    closed = "document.querySelector('details.item:not([open])')"
    target = chromium.evaluate(f"{closed} && {closed}.querySelector('h4').id")
    assert target, "a table without a number of ours is folded"
    chromium.evaluate(f"location.hash = '#{target}'")
    chromium.evaluate("new Promise(done => setTimeout(done, 200))")
    assert chromium.evaluate(f"document.getElementById('{target}').closest('details').open")


@needs_browser
def test_a_narrow_screen_scrolls_tables_and_not_the_page(chromium, page):
    chromium.media()
    chromium.open(page[0], width=360, height=700)
    assert chromium.evaluate("document.documentElement.scrollWidth") <= 360
    wider = "[...document.querySelectorAll('.scroll')].filter(e => e.scrollWidth > e.clientWidth).length"
    assert chromium.evaluate(wider) >= 1


@needs_browser
def test_the_keyboard_reaches_the_skip_link_and_the_tables(chromium, tree):
    chromium.media()
    chromium.open(tree / "results/index.html")
    active = "document.activeElement"
    chromium.press("Tab", 9)
    assert chromium.evaluate(f"{active}.className") == "skip"
    assert chromium.evaluate(f"{active}.getBoundingClientRect().top") >= 0
    chromium.press("Enter", 13)
    assert chromium.evaluate("location.hash") == "#main"
    seen = []
    for _ in range(40):
        chromium.press("Tab", 9)
        seen.append(chromium.evaluate(f"[{active}.className, getComputedStyle({active}).outlineStyle]"))
        if seen[-1][0] == "scroll":
            break
    assert seen[-1][0] == "scroll" and all(outline == "solid" for _, outline in seen)
    chromium.open(tree / "results/index.html", width=360, height=700)
    first = "document.querySelector('#ernie-m-table-01 .scroll')"
    chromium.evaluate(f"{first}.focus()")
    for _ in range(5):
        chromium.press("ArrowRight", 39)
    chromium.evaluate("new Promise(done => setTimeout(done, 500))")
    assert chromium.evaluate(f"{first}.scrollLeft") > 0


@needs_browser
def test_every_control_is_reached_by_tab_and_obeys_enter_or_space(chromium, tree):
    """What a mouse can do on the page a keyboard can: fold and unfold, sort, filter, follow a link."""
    chromium.media()
    chromium.open(tree / "results/index.html")
    controls = "[...document.querySelectorAll('a[href], button, input, select, summary, [onclick], [role=button]')]"
    assert chromium.evaluate(f"{controls}.filter(e => e.tabIndex < 0).map(e => e.outerHTML.slice(0, 80))") == []
    order = "[...document.querySelectorAll('[tabindex]')].filter(e => e.tabIndex > 0).length"
    assert chromium.evaluate(order) == 0, "the order of Tab is that of the page"
    active = "document.activeElement"
    shown = f"{controls}.filter(e => e.checkVisibility()).indexOf({active})"
    reached = []
    for _ in range(80):
        chromium.press("Tab", 9)
        reached.append(chromium.evaluate(shown))
    reached = [number for number in reached if number >= 0]  # the others are boxes that scroll
    assert len(reached) > 40 and reached == list(range(len(reached))), "Tab leaves a control out"

    for key, code, text in (("Enter", 13, "\r"), (" ", 32, " ")):
        chromium.evaluate("document.querySelector('details.item > summary').focus()")
        before = chromium.evaluate(f"{active}.parentElement.open")
        chromium.type(key, code, text)
        assert chromium.evaluate(f"{active}.parentElement.open") is not before, f"{key!r} does not fold"
        chromium.evaluate("document.querySelector('#files-table').closest('details')?.setAttribute('open', '')")
        chromium.evaluate("document.querySelector('#files-table thead button').focus()")
        sorted_ = f"{active}.parentElement.getAttribute('aria-sort')"
        before = chromium.evaluate(sorted_)
        chromium.type(key, code, text)
        assert chromium.evaluate(sorted_) != before, f"{key!r} does not sort"


@needs_browser
def test_print_has_the_tables_whole_and_no_contents_list(chromium, tree):
    chromium.media("print")
    chromium.open(tree / "results/index.html", width=1046, height=718)  # A4 on its side without margins
    hidden = "getComputedStyle(document.querySelector('{}')).display"
    assert [chromium.evaluate(hidden.format(tag)) for tag in ("nav", ".skip")] == ["none", "none"]
    tables = "[...document.querySelectorAll('table')]"
    wide = f"{tables}.filter(e => e.getBoundingClientRect().right > innerWidth)"
    assert chromium.evaluate(f"{wide}.map(e => e.parentElement.ariaLabel)") == []
    chromium.media("")
    printed = chromium.pdf()
    assert printed.startswith(b"%PDF")
    if shutil.which("pdftotext") is None:
        pytest.skip("no pdftotext: apt-get install poppler-utils")
    text = subprocess.run(["pdftotext", "-layout", "-", "-"], input=printed, capture_output=True, check=True).stdout
    words = " ".join(text.decode().split())
    for item in ("ERNIE-M, table 1. XNLI", "ERNIE-M, table 16. Tatoeba", "Claims. A diff", "Audit. Derived"):
        assert item in words, item
    assert "Skip to the numbers" not in words


@needs_browser
def test_the_report_opens_without_a_network(chromium, report):
    chromium.media()
    chromium.open(report)
    chromium.evaluate(
        "new Promise(done => { const look = () => document.body.innerText.includes('Figures') ? done() : "
        "setTimeout(look, 50); look(); })"
    )
    elsewhere = [url for url in chromium.requests if not re.match(r"(?:data|blob|file):", url)]
    assert elsewhere == []


def test_how_long_a_training_took_changes_no_byte():
    rows = []
    for seconds in (7.5, 9.25):
        content = training("xlm-r", 1)
        cost = content["cost"] | {"seconds": seconds}
        one = trainings.Training("xlm-r", 1, "0" * 16, cost, {})
        rows.append(training_row([(Path("seed-1.json"), one)], Path("index.html")))
    assert rows[0] == rows[1]
