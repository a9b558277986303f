"""Tables as HTML: caption, headers with their scope, groups of rows, notes below, and a page that holds them.

Nothing here knows what a cell means: the scripts that write tables fill `HtmlTable` and take its text. Everything named
`html` is written as it is; whoever fills it escapes plain text with `text`.
"""

import html
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

WIDE, WIDEST = 10, 20  # columns from which a table is printed smaller


@dataclass(frozen=True)
class Cell:
    """One cell. With a `scope` (col, colgroup, row, rowgroup) it is a header."""

    html: str
    scope: str = ""
    columns: int = 1
    rows: int = 1
    kind: str = ""  # names of its CSS classes: number, published, ours, missing, quiet


@dataclass(frozen=True)
class Body:
    """Rows that belong together, below a title of their own where they have one."""

    html_title: str
    rows: Sequence[Sequence[Cell]]


@dataclass(frozen=True)
class HtmlTable:
    identity: str  # its id, one of a kind on its page
    name: str  # plain text, said to those who do not see it: ERNIE-M, table 1
    html_caption: str
    head: Sequence[Sequence[Cell]]
    bodies: Sequence[Body]
    html_notes: Sequence[str] = field(default_factory=tuple)

    @property
    def width(self) -> int:
        return max(sum(cell.columns for cell in row) for row in self.head)


def text(plain: object) -> str:
    """Plain text as HTML, in an attribute too."""
    return html.escape(str(plain), quote=True)


def code(plain: str) -> str:
    return f"<code>{text(plain)}</code>"


def link(html_text: str, target: str, title: str = "") -> str:
    told = f' title="{text(title)}"' if title else ""
    return f'<a href="{text(target)}"{told}>{html_text}</a>'


def relative(path: str | Path, page: str | Path) -> str:
    """How the file `page` names `path`: with forward slashes, from its folder."""
    return Path(os.path.relpath(path, Path(page).parent)).as_posix()


def render_cell(cell: Cell) -> str:
    tag, attributes = ("th" if cell.scope else "td"), ""
    for name, value in (("class", cell.kind), ("scope", cell.scope)):
        attributes += f' {name}="{text(value)}"' if value else ""
    for name, value in (("colspan", cell.columns), ("rowspan", cell.rows)):
        attributes += f' {name}="{value}"' if value > 1 else ""
    return f"<{tag}{attributes}>{cell.html}</{tag}>"


def render_row(row: Iterable[Cell]) -> str:
    return "<tr>" + "".join(map(render_cell, row)) + "</tr>"


def render_table(table: HtmlTable) -> str:
    """The table in a region that scrolls, by keyboard too, and its notes below."""
    size = " widest" if table.width >= WIDEST else " wide" if table.width >= WIDE else ""
    lines = [
        f'<div class="table{size}" id="{text(table.identity)}">',
        f'<div class="scroll" role="region" tabindex="0" aria-label="{text(table.name)}">',
        "<table>",
        f'<caption><div class="caption">{table.html_caption}</div></caption>',
        "<thead>",
        *map(render_row, table.head),
        "</thead>",
    ]
    for body in table.bodies:
        lines.append("<tbody>")
        if body.html_title:
            title = f'<span class="group">{body.html_title}</span>'
            lines.append(render_row([Cell(title, "rowgroup", columns=table.width)]))
        lines += [*map(render_row, body.rows), "</tbody>"]
    lines += ["</table>", "</div>"]
    if table.html_notes:
        lines += ['<ul class="notes">', *(f"<li>{note}</li>" for note in table.html_notes), "</ul>"]
    return "\n".join([*lines, "</div>"]) + "\n"


class Footnotes:
    """Footnotes of one table, lettered in the order of their first use; equal texts share a letter."""

    def __init__(self, identity: str) -> None:
        self.identity = identity
        self.letters: dict[str, str] = {}

    def mark(self, plain: str) -> str:
        """The letter of a note, which leads to it."""
        letter = self.letters.setdefault(plain, letter_of(len(self.letters)))
        return f'<sup><a href="#{text(self.identity)}-{letter}" aria-label="note {letter}">{letter}</a></sup>'

    @property
    def html_notes(self) -> list[str]:
        return [
            f'<span id="{text(self.identity)}-{letter}"><sup>{letter}</sup> {text(plain)}</span>'
            for plain, letter in self.letters.items()
        ]


def letter_of(index: int) -> str:
    """a, b, ..., z, aa, ab, ..."""
    first, last = divmod(index, 26)
    return (letter_of(first - 1) if first else "") + chr(ord("a") + last)


# Contrast of text with its ground is at least 4.5 to 1 in both schemes; tests/test_site.py measures it in a browser.
STYLE = """
:root { color-scheme: light dark; --ground: #ffffff; --text: #1b1d20; --quiet: #55595f; --link: #0b4f9c;
  --shade: #eef2f6; --line: #8a9099; --thin: #d4d9df; --focus: #b34700; --good: #14622c; --bad: #9c1c1c; }
@media (prefers-color-scheme: dark) { :root { --ground: #15181c; --text: #e7e9ec; --quiet: #aab1ba; --link: #8fc0ff;
  --shade: #212830; --line: #7d8590; --thin: #3a424c; --focus: #ffb070; --good: #7fd89a; --bad: #ff9d9d; } }
* { box-sizing: border-box; }
html { background: var(--ground); color: var(--text); font: 100%/1.5 system-ui, "Helvetica Neue", Arial, sans-serif; }
body { margin: 0 auto; max-width: 100rem; padding: 0 1rem 3rem; overflow-wrap: break-word; }
h1, h2, h3 { line-height: 1.25; margin: 1.6em 0 0.5em; }
p, ul.notes, dl { max-width: 48rem; }
a { color: var(--link); }
a:focus-visible, .scroll:focus-visible, summary:focus-visible, input:focus-visible {
  outline: 3px solid var(--focus); outline-offset: 2px; }
code { font-family: ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; font-size: 0.9em; }
.table { margin: 1rem 0 2rem; }
.scroll { overflow-x: auto; max-width: 100%; }
table { border-collapse: collapse; border-top: 2px solid var(--line); border-bottom: 2px solid var(--line);
  font-size: 0.85rem; font-variant-numeric: tabular-nums; }
caption { caption-side: top; text-align: left; }
.caption { position: sticky; left: 0; max-width: min(48rem, calc(100vw - 2.5rem)); padding: 0 0 0.4rem; }
th, td { padding: 0.15rem 0.4rem; text-align: left; vertical-align: top; font-weight: normal; }
thead th { border-bottom: 1px solid var(--line); font-weight: 600; vertical-align: bottom; }
thead th[scope=colgroup] { text-align: center; }
tbody { border-top: 1px solid var(--line); }
tbody th[scope=rowgroup] { font-weight: 600; }
.group { position: sticky; left: 0.5rem; display: inline-block; max-width: calc(100vw - 3rem); white-space: normal; }
tbody tr { border-top: 1px solid var(--thin); }
tbody th[scope=row] { max-width: 22rem; } tbody th code { white-space: nowrap; }
.number { white-space: nowrap; }
td.ours, th.ours { background: var(--shade); }
.missing, .quiet, .published.missing { color: var(--quiet); }
.notes { font-size: 0.85rem; padding-left: 1.2rem; margin: 0.4rem 0; }
@media print {
  @page { size: A4 landscape; margin: 10mm; }
  :root { color-scheme: light; --ground: #fff; --text: #000; --quiet: #444; --link: #000; --shade: #eee; --line: #555;
    --thin: #bbb; --good: #000; --bad: #000; }
  body { max-width: none; padding: 0; font-size: 9pt; }
  a { text-decoration: none; }
  .scroll { overflow: visible; }
  table { font-size: 7.5pt; }
  .wide table { font-size: 6pt; } .wide th, .wide td { padding: 0.1rem 0.2rem; } .wide .number { white-space: normal; }
  .widest table { font-size: 4.6pt; } .widest th, .widest td { padding: 0.1rem 0.1rem; }
  .widest .number { white-space: normal; }
  .caption { max-width: 48rem; position: static; font-size: 8pt; } .group { position: static; }
  .notes { font-size: 7pt; max-width: none; } thead { display: table-header-group; }
  table, tr, figure { break-inside: avoid; } h1, h2, h3, h4, caption { break-after: avoid; }
}
"""


def page(title: str, html_main: str, style: str = "", html_before: str = "", html_after: str = "") -> str:
    """A whole document that asks for nothing from elsewhere; `html_before` and `html_after` stand around its main."""
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{text(title)}</title>",
            f"<style>{STYLE}{style}</style>",
            "</head>",
            "<body>",
            *([html_before] if html_before else []),
            '<main id="main">',
            html_main.rstrip("\n"),
            "</main>",
            *([html_after] if html_after else []),
            "</body>",
            "</html>",
            "",
        ]
    )
