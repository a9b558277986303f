"""Write results/index.html: what was found, tables, figures, claims, audit, trainings, sources.

It asks for nothing from elsewhere: styles and script are in it. Its pictures and the score files that it leads to lie
beside it, so it is read where it lies, or copied together with its folder.
"""

import argparse
import csv
import statistics
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import report.comparison_html
from common.atomic import write_text
from common.csvfiles import read_rows
from common.errors import UserError, run_main
from plan.figure_specs import WITHOUT_RUNS
from plan.needs import canonical_run
from report import comparisons, findings
from report.context import (
    Context,
    add_context_arguments,
    citations,
    expected_scores,
    item_name,
    load_context,
    load_expected,
    scale_words,
)
from report.findings_html import STYLE as FINDINGS_STYLE
from report.findings_html import findings_html
from report.html_tables import Body, Cell, HtmlTable, code, link, page, relative, render_table, text
from report.ledger import (
    control_words,
    measured_lines,
    numbers_of,
    read_ledger,
    reason_words,
    verdict_words,
)
from report.page_script import SCRIPT
from report.scores import BY_UPDATE, LESS_IS_BETTER, group_paths, read_content
from report.table_html import file_list, html_table
from report.table_spec import SCALE_LANGUAGES, item_key, paper_names
from report.table_words import MISSING
from report.tables import build, column_setting
from report.trainings import read_training
from report.trainings_html import machine_of, trainings_html

SUMMARY = "parallax/summary"  # the first table
READ_IN = {"mini": "docs/what-we-learnt.md", "real": "docs/real-results.md"}  # scale -> the page that reads its claims

STYLE = """
header { border-bottom: 2px solid var(--line); } header h1 { margin: 0.6em 0 0.2em; } header p { margin: 0.4em 0; }
.skip { position: absolute; left: 1rem; top: -6rem; background: var(--ground); padding: 0.5rem 1rem; }
.skip:focus { top: 0.5rem; }
nav > p { display: flex; flex-wrap: wrap; gap: 0.3rem 1.2rem; max-width: none; }
nav ul { list-style: none; margin: 0.2rem 0; padding: 0; } nav ul ul ul { padding-left: 1rem; }
nav details > ul > li > ul { columns: 22rem; column-gap: 2rem; } nav details > ul > li { margin: 0.5rem 0; }
nav details > ul > li > ul > li { padding: 0.1rem 0; }
details.item { border-top: 1px solid var(--thin); padding: 0.3rem 0; } details.item > summary { cursor: pointer; }
summary h4 { display: inline; font-size: 1rem; } summary .quiet { font-weight: normal; }
details.item[open] > summary .quiet { display: none; } .again { font-size: 0.85rem; margin: -1.5rem 0 1.5rem; }
details.fold { margin: 0.3rem 0; } details.fold > summary { cursor: pointer; font-weight: 600; }
.filter input { font: inherit; padding: 0.3rem 0.5rem; width: min(24rem, 100%); color: inherit;
  background: var(--ground); border: 1px solid var(--line); border-radius: 3px; }
::placeholder { color: var(--quiet); opacity: 1; }
thead button { font: inherit; color: inherit; background: none; border: 0; padding: 0; text-align: inherit;
  cursor: pointer; }
thead button:hover { text-decoration: underline; } thead button:focus-visible { outline: 3px solid var(--focus); }
[aria-sort=descending] button::after { content: " \\25BC"; } [aria-sort=ascending] button::after { content: " \\25B2"; }
dl { display: grid; grid-template-columns: minmax(6rem, max-content) 1fr; gap: 0.3rem 1rem; } dd { margin: 0; }
dt { font-weight: 600; }
figure { margin: 1rem 0 2rem; } figcaption { max-width: 48rem; }
figure img { background: #ffffff; padding: 0.5rem; width: 56rem; max-width: 100%; height: auto; display: block; }
.spark { display: block; overflow: visible; color: var(--link); }
.spark polyline { fill: none; stroke: currentColor; stroke-width: 1.4; vector-effect: non-scaling-stroke; }
.verdict { font-weight: 600; } .prose { min-width: 14rem; } #claims-table th[scope=row] { min-width: 12rem; }
footer { border-top: 1px solid var(--line); margin-top: 3rem; font-size: 0.85rem; }
@media (max-width: 40rem) { dl { grid-template-columns: 1fr; gap: 0; } dd { margin-bottom: 0.5rem; } }
@media print { nav, .skip, .filter, summary { display: none; } details.item > summary { display: block; }
  section + section h2 { break-before: page; }
  figure img { max-width: 22cm; max-height: 15cm; object-fit: contain; object-position: left; padding: 0; } }
"""


@dataclass(frozen=True)
class Section:
    identity: str
    title: str
    html: str
    parts: Sequence[tuple[str, str, str]] = ()  # of the contents list: group, id, name


# --- tables and figures ---------------------------------------------------------------------------------------------


def in_order(specs: Mapping[str, dict], names: Mapping[str, str]) -> list[dict]:
    """By paper as papers.tsv has them, this project's own first; the summary opens."""
    papers = ["parallax", *(name for name in names if name != "parallax")]
    return sorted(
        specs.values(), key=lambda spec: (papers.index(spec["paper"]), item_key(spec) != SUMMARY, item_key(spec))
    )


def by_paper(specs: Iterable[dict]) -> dict[str, list[dict]]:
    grouped: dict[str, list[dict]] = {}
    for spec in specs:
        grouped.setdefault(spec["paper"], []).append(spec)
    return grouped


def item_table(spec: dict, context: Context, out: Path) -> HtmlTable:
    if "compare" not in spec:
        return html_table(build(spec, context), out)
    counted = context.config.settings.get("engine", True)
    comparison = comparisons.build(spec, context, counted)
    if not counted:
        comparison.notes.append("What the engine counts, parameters and FLOPs, is left out here (engine: false).")
    return report.comparison_html.html_table(comparison)


def tables_section(specs: Sequence[dict], context: Context, out: Path) -> Section:
    """Every table, folded where nothing of it was computed here."""
    names, cited = paper_names(context.root), citations(context)
    more = " CONFIG=scores_from=reference" if context.reference else ""  # else it would train
    lines = [
        '<p class="filter" hidden><label>Show tables and rows with <input id="filter" type="search" '
        'placeholder="xnli xlm-r"></label></p>'
    ]
    parts = []
    for paper, of_paper in by_paper(specs).items():
        lines.append(paper_heading(names[paper], cited.get(paper)))
        for spec in of_paper:
            table = item_table(spec, context, out)
            title, part = item_heading(spec, context)
            has_number = any("ours" in cell.kind and "missing" not in cell.kind for cell in cells_of(table))
            opened = " open" if has_number else ""
            command = f"make table T={item_key(spec)} SCALE={context.scale}{more}"
            told = spec["title"] if has_number else f"{spec['title']}; published numbers alone"
            lines += [
                f'<details class="item"{opened}><summary>{title} <span class="quiet">{text(told)}</span></summary>',
                render_table(table).rstrip("\n"),
                f'<p class="again">Made again by {code(command)}.</p>',
                "</details>",
            ]
            parts.append((names[paper], *part))
    return Section("tables", "Tables", "\n".join(lines), parts)


def cells_of(table: HtmlTable) -> Iterable[Cell]:
    return (cell for body in table.bodies for row in body.rows for cell in row if not cell.scope)


def paper_heading(name: str, citation: str | None) -> str:
    return f"<h3>{text(name)}</h3>" + (f"\n<p>{text(citation)}.</p>" if citation else "")


def item_heading(spec: dict, context: Context) -> tuple[str, tuple[str, str]]:
    """The heading of an item, and its id and name in the contents list. The caption has the title."""
    name, identity = item_name(spec, context), f"{spec['paper']}-{spec['item']}-title"
    short = name.partition(", ")[2]
    return f'<h4 id="{text(identity)}">{text(name)}</h4>', (identity, f"{short}: {spec['title']}")


def figures_section(specs: Sequence[dict], context: Context, folder: Path, out: Path) -> Section:
    names, cited = paper_names(context.root), citations(context)
    lines, parts = [], []
    for paper, of_paper in by_paper(specs).items():
        lines.append(paper_heading(names[paper], cited.get(paper)))
        for spec in of_paper:
            title, part = item_heading(spec, context)
            lines += [title, figure(spec, context, folder, out)]
            parts.append((names[paper], *part))
    return Section("figures", "Figures", "\n".join(lines), parts)


def figure(spec: dict, context: Context, folder: Path, out: Path) -> str:
    """The picture, which is read when a reader comes to it, what it shows in words, and the files that it rests on."""
    picture = folder / f"{item_key(spec)}.png"
    try:
        width, height = size_of_png(picture)
    except (FileNotFoundError, struct.error):
        raise UserError(f"{picture}: no such figure; run plot_figure") from None
    words = [f"<strong>{text(item_name(spec, context))}.</strong> {text(spec['title'])}."]
    words += [text(note) for note in spec.get("notes", [])]
    if key_files := sorted({path for path in expected_scores(spec, context) if path.exists()}):
        listed = file_list(key_files, out)
        words.append(f"<details><summary>Score files: {len(key_files)}</summary>\n{listed}\n</details>")
    return "\n".join(
        [
            f'<figure id="{spec["paper"]}-{spec["item"]}">',
            f'<img alt="{text(alternative(spec, context))}" src="{text(relative(picture, out))}" loading="lazy" '
            f'width="{width}" height="{height}">',
            f"<figcaption>{' '.join(words)}</figcaption>",
            "</figure>",
        ]
    )


def size_of_png(path: Path) -> tuple[int, int]:
    """Width and height in pixels, as the first chunk of a PNG has them."""
    with open(path, "rb") as file:
        return struct.unpack(">II", file.read(24)[16:])


KINDS_OF_FIGURES = {
    "masks": "Grids that show which token sees which in attention",
    "diagram": "Diagram",
    "simulation": "Line charts of the share of false verdicts by interval, simulated, a panel for each number of seeds",
    "effects": "Dot chart of the difference of every claim with its interval, at each scale and as published",
    "training": "Line chart of a signal of pre-training by step",
    "bars": "Bar chart",
    "points": "Dot chart of every pre-training, a panel for each task",
    "cost": "Scores over the operations of pre-training, one line for each method",
}


def alternative(spec: dict, context: Context) -> str:
    """What a figure shows, for those who do not see it: its kind, its lines, and where each reproduced line goes."""
    kind = next((name for name in KINDS_OF_FIGURES if name in spec), None)
    if kind is None:
        place = "epoch" if spec["columns"][0]["metric"].endswith(BY_UPDATE) else "layer"
        words = f"Line chart of {spec['columns'][0]['metric'].split('-by-')[0]} by {place}"
        return f"{words}: {spec['title']}. {'; '.join(curve_words(spec, context))}."
    if kind in WITHOUT_RUNS:
        panels = spec["masks"] if kind == "masks" else spec[kind].get("panels", [])
        named = [panel["title"] for panel in panels if "title" in panel]
        return f"{KINDS_OF_FIGURES[kind]}: {spec['title']}." + (f" Panels: {'; '.join(named)}." if named else "")
    lines = (
        bar_words(spec, context)
        if kind in ("bars", "points")
        else [row["label"] for group in spec["groups"] for row in group["rows"]]
    )
    if kind == "cost":
        lines = [group["title"] for group in spec["groups"]]
    return f"{KINDS_OF_FIGURES[kind]}: {spec['title']}. Shown: {'; '.join(dict.fromkeys(lines))}."


def bar_words(spec: dict, context: Context) -> list[str]:
    """Between which values a row's bars or points are: reproduced ones, and printed ones."""
    words = []
    for row in build(spec, context).rows:
        reproduced = [cell.summary.mean for cell in row.cells if cell.summary]
        printed = [float(cell.published) for cell in row.cells if cell.published is not None]
        named = (("reproduced", reproduced), ("published", printed))
        ranges = [f"{name} {min(values):.1f} to {max(values):.1f}" for name, values in named if values]
        words.append(f"{row.label}: {', '.join(ranges) or 'no number'}")
    return words


def curve_words(spec: dict, context: Context) -> list[str]:
    column, results = spec["columns"][0], load_expected(spec, context)
    task, metric = column["task"], column["metric"]
    place = "update" if metric.endswith(BY_UPDATE) else "layer"
    words = []
    for group in spec["groups"]:
        for row in group["rows"]:
            run = row.get("run")
            name = canonical_run(context.config, run, task) if run in context.runs else None
            one = results.get((name, task, column_setting(column, group)))
            found = one.languages(metric) if one else []
            if column["languages"] != SCALE_LANGUAGES:
                found = [code_ for code_ in found if code_ in column["languages"]]
            if not found:
                words.append(f"{row['label']}: published points only, or no score yet")
                continue
            means = {at: statistics.fmean(of.values()) for at, of in one.curves(metric, found, place).items()}
            first, last = min(means), max(means)
            less = metric.split("-by-")[0] in LESS_IS_BETTER
            best = (min if less else max)(means, key=means.__getitem__)
            words.append(
                f"{row['label']}: {means[first]:.1f} at {place} {first}, {means[last]:.1f} at {last}, "
                f"best {means[best]:.1f} at {best}"
            )
    return words


# --- claims and audit -----------------------------------------------------------------------------------------------


def claims_section(ledger: Mapping, context: Context, out: Path) -> Section:
    """What the papers say, what was measured at each scale, and the verdicts, which sign and word tell alike."""
    scales, both = [one["scale"] for one in ledger["scales"]], len(ledger["agree"]) > 1
    rows_of: dict[str, list[list[Cell]]] = {}
    for claim in ledger["claims"]:
        rows_of.setdefault(claim["paper_name"], []).append(claim_row(claim, scales, both, out))
    head = ("Claim", *(f"Scale {scale}" for scale in scales), *["Agreed"] * both, "Files")
    table = HtmlTable(
        identity="claims-table",
        name="Claims of the papers and what was measured",
        html_caption="<strong>Claims.</strong> A difference in favour of the paper in points, or a ratio of costs.",
        head=[[Cell(text(words), "col") for words in head]],
        bodies=[Body(text(paper), rows) for paper, rows in rows_of.items()],
    )
    words = [*(one["words"] for one in ledger["scales"]), ledger["method"]]
    lines = [f"<p>{text(one)}</p>" for one in words]
    if pages := [page for scale, page in READ_IN.items() if scale in scales]:
        links = ", ".join(link(text(page), relative(page, out)) for page in pages)
        lines.append(f"<p>Read, with the likely reasons: {links} ({code('make docs')} makes pages of them).</p>")
    return Section("claims", "Claims of the papers", "\n".join([*lines, render_table(table)]))


def claim_row(claim: Mapping, scales: Sequence[str], both: bool, out: Path) -> list[Cell]:
    says = f"{text(claim['says'])} ({text(claim['where'])})." + (f" {text(claim['note'])}" if claim.get("note") else "")
    found = [claim["by_scale"].get(scale) for scale in scales]
    files = sorted({file for one in found if one for file in one["files"]})
    listed = MISSING
    if files:
        items = "".join(f"<li>{link(text(file), relative(file, out))}</li>" for file in files)
        number = f"{len(files)} file{'s' if len(files) > 1 else ''}"
        listed = f"<details><summary>{number}</summary><ul>{items}</ul></details>"
    agreed = f'<span class="verdict">{text(claim["mark"])} {text(claim["verdict"])}</span>'
    return [
        Cell(f"{code(claim['id'])}<br>{says}", "row"),
        *(claim_cell(claim, one) for one in found),
        *[Cell(agreed)] * both,
        Cell(listed),
    ]


def claim_cell(claim: Mapping, one: Mapping | None) -> Cell:
    """What was measured at one scale beside the published number, the verdict, its reason, and the control."""
    if one is None:
        return Cell(MISSING)
    lines = [f"<strong>{text(words)}</strong>" for words in measured_lines(one)]
    if lines:
        lines[-1] += f", n = {numbers_of(one)}"
    else:
        lines = [f"{MISSING} of {text(words)}" for words in claim["published_words"]]
    lines.append(f'<span class="verdict">{text(verdict_words(one))}</span>')
    if reasons := reason_words(one):
        lines.append(text(" ".join(reasons)))
    if control := control_words(one):
        lines.append(text(control))
    return Cell("<br>".join(lines), kind="prose")


def read_csv(path: Path) -> list[dict[str, str]]:
    try:
        with open(path, encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))
    except FileNotFoundError:
        raise UserError(f"{path}: no such file; run the rule audit") from None


def audit_section(rows: Sequence[Mapping[str, str]], context: Context, shown: Iterable[str]) -> Section:
    """The findings by paper; each leads to the item, where this page shows it."""
    words = (
        "Derived numbers of the papers, computed again from the numbers that they print, where they do not come out."
    )
    if not rows:
        return Section("audit", "Audit of the papers", f"<p>{words} There is none.</p>")
    names, shown = paper_names(context.root), set(shown)
    rows_of: dict[str, list[list[Cell]]] = {}
    for row in rows:
        item = text(row["item"])
        if f"{row['paper']}/{row['item']}" in shown:
            item = link(item, f"#{row['paper']}-{row['item']}-title")
        cells = [Cell(text(row[name])) for name in ("row", "column", "printed", "recomputed", "kind")]
        cells.append(Cell(text(row["explanation"]), kind="prose"))
        rows_of.setdefault(row["paper"], []).append([Cell(item, "row"), *cells])
    table = HtmlTable(
        identity="audit-table",
        name="Audit: printed numbers that do not follow from others",
        html_caption=f"<strong>Audit.</strong> {words}",
        head=[
            [Cell(name, "col") for name in ("Item", "Row", "Column", "Printed", "Recomputed", "Kind", "Explanation")]
        ],
        bodies=[Body(text(names.get(paper, paper)), of_paper) for paper, of_paper in rows_of.items()],
    )
    return Section("audit", "Audit of the papers", render_table(table))


# --- trainings ------------------------------------------------------------------------------------------------------


def trainings_section(paths: Sequence[Path], context: Context, out: Path) -> Section:
    trainings = [(path, read_training(path, context.scale)) for path in sorted(paths)]
    if not trainings:
        return Section("trainings", "Trainings", "<p>No pre-training has left a record here.</p>")
    return Section("trainings", "Trainings", trainings_html(trainings, out))


# --- where the numbers come from ------------------------------------------------------------------------------------


def provenance(paths: Iterable[Path], context: Context) -> dict[Path, dict]:
    return {path: read_content(path, context.scale) for path in sorted(paths)}


def found_of(contents: Iterable[Mapping], name: str) -> list[str]:
    return sorted({str(content[name]) for content in contents if content.get(name) is not None})


def files_section(contents: Mapping[Path, dict], out: Path) -> Section:
    """A row for each run, task and setting: what it was made with, and every seed's file."""
    if not contents:
        return Section("files", "Score files", "<p>There is no score file at this scale yet.</p>")
    by_run: dict[str, list[list[Cell]]] = {}
    for (run, task, setting), of_seed in sorted(group_paths(contents).items()):
        behind = [contents[path] for _, path in sorted(of_seed.items())]
        seeds = ", ".join(link(f"seed {seed}", relative(path, out)) for seed, path in sorted(of_seed.items()))
        made = [found_of(behind, name) for name in ("task_version", "run_hash", "commit", "dtype")]
        made[2] = [commit[:12] for commit in made[2]]
        languages = sorted({score["language"] for content in behind for score in content["scores"]})
        by_run.setdefault(run, []).append(
            [
                Cell(text(task), "row"),
                Cell(text(setting)),
                Cell(text(" ".join(languages))),
                *(Cell(", ".join(map(code, values)) or MISSING) for values in made),
                Cell(seeds),
            ]
        )
    headings = ("Task", "Setting", "Languages", "Task version", "Run hash", "Commit", "Numbers", "Files")
    table = HtmlTable(
        identity="files-table",
        name="Score files",
        html_caption="<strong>Score files.</strong> Every reproduced number of this page is in one of them: value, "
        "number of test items, chance, seed, the hash of the run that was trained and the commit of the code.",
        head=[[Cell(text(words), "col") for words in headings]],
        bodies=[Body(code(run), rows) for run, rows in sorted(by_run.items())],
    )
    return Section("files", "Score files", render_table(table))


def reference_runs(context: Context) -> list[dict[str, str]]:
    """Where and when the reference scores of this scale were computed; nothing where the scores are our own."""
    path = context.root / "reference/PROVENANCE.tsv"
    if not context.reference or not path.exists():
        return []
    return [row for row in read_rows(path) if row["scale"] == context.scale]


def about_section(contents: Mapping[Path, dict], trainings: Sequence[Path], context: Context) -> Section:
    values = list(contents.values())
    machines = sorted({machine_of(read_training(path, context.scale).cost) for path in trainings})
    kept = reference_runs(context)
    machines += sorted({row["machine"] for row in kept})
    dates = sorted({row[name] for row in kept for name in ("first", "last")})
    runs = found_of(values, "run")
    facts = [
        ("Scale", f"{code(context.scale)}: {text(context.description)}"),
        ("Data", "the generated mini-world" if context.world else "real corpora and evaluation sets"),
        ("Scores from", "the reference scores of the repository" if context.reference else "runs of this workflow"),
        ("Seeds", text(", ".join(sorted(found_of(values, "seed"), key=int)) or "none yet")),
        ("Runs", ", ".join(map(code, runs)) or "none yet"),
        ("Score files", link(str(len(values)), "#files")),
        ("Code", ", ".join(code(commit[:12]) for commit in found_of(values, "commit")) or "not told"),
        ("Numbers", text(", ".join(found_of(values, "dtype"))) or "not told"),
        ("Machines", "<br>".join(map(text, machines)) or "not told"),
        *([("Dates", text(" to ".join(dict.fromkeys((dates[0], dates[-1])))))] if dates else []),
    ]
    lines = [
        f"<p>{text(scale_words(context))} Every table keeps the rows and columns of the paper's. Published numbers are "
        "copied as printed; errors of the papers are marked, not mended. Reproduced numbers are means over seeds with "
        "the sample standard deviation and the number of seeds in brackets; each leads to its score file, which says "
        "what was run. A cell without a number prints -- and is never a zero; the notes below its table say why.</p>",
        "<dl>",
        *(f"<dt>{name}</dt><dd>{words}</dd>" for name, words in facts),
        "</dl>",
    ]
    return Section("about", "About these numbers", "\n".join(lines))


# --- the page -------------------------------------------------------------------------------------------------------


def contents_list(sections: Sequence[Section]) -> str:
    """The sections in a line, and folded below it every table and figure."""
    leading = " ".join(link(text(section.title), f"#{section.identity}") for section in sections)
    lines = ['<nav aria-label="Contents">', f"<p>{leading}</p>"]
    lines += ['<details class="fold"><summary>All tables and figures</summary>', "<ul>"]
    for section in (section for section in sections if section.parts):
        groups: dict[str, list[str]] = {}
        for group, to, name in section.parts:
            groups.setdefault(group, []).append(f"<li>{link(text(name), f'#{to}')}</li>")
        lines += [f"<li>{text(section.title)}", "<ul>"]
        for group, items in groups.items():
            lines += [f"<li>{text(group)}", "<ul>", *items, "</ul>", "</li>"]
        lines += ["</ul>", "</li>"]
    return "\n".join([*lines, "</ul>", "</details>", "</nav>"])


def render_site(sections: Sequence[Section], context: Context) -> str:
    before = "\n".join(
        [
            '<a class="skip" href="#main">Skip to the numbers</a>',
            "<header>",
            "<h1>Parallax</h1>",
            "<p>Cross-lingual pre-training: published and reproduced numbers, "
            f"at scale {code(context.scale)}{' on a generated mini-world' if context.world else ''}.</p>",
            *([f"<p><strong>{text(scale_words(context))}</strong></p>"] if context.warning else []),
            contents_list(sections),
            "</header>",
        ]
    )
    main = "\n".join(
        f'<section aria-labelledby="{section.identity}">\n<h2 id="{section.identity}">{text(section.title)}</h2>\n'
        f"{section.html.strip()}\n</section>"
        for section in sections
    )
    after = (
        "<footer><p>Written by Parallax from specs, published numbers and score files: "
        "<code>snakemake --cores all results/index.html</code>. Code: MIT licence; the data sets have their own.</p>"
        f"</footer>\n<script>{SCRIPT}</script>"
    )
    title = f"Parallax: published and reproduced, scale {context.scale}"
    return page(title, main, STYLE + FINDINGS_STYLE, before, after)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add_context_arguments(parser)
    parser.add_argument("--figures", default=Path("results/figures"), type=Path, help="default: %(default)s")
    parser.add_argument("--trainings", nargs="*", default=[], type=Path, help="records of pre-trainings")
    parser.add_argument("--claims", type=Path, help="ledger.json of make_ledger; without it the page has no claims")
    parser.add_argument("--audit", type=Path, help="audit.csv of the papers' own numbers; without it the page has none")
    parser.add_argument("--out", required=True, type=Path, help="the page: results/index.html")
    args = parser.parse_args()
    context, table_specs, figure_specs = load_context(args.config, args.scale, args.scores_root, args.override)
    names = paper_names(context.root)
    specs = [*table_specs.values(), *figure_specs.values()]
    contents = provenance({path for spec in specs for path in expected_scores(spec, context) if path.exists()}, context)
    ledger = read_ledger(args.claims, context.scale) if args.claims else None
    found = findings.find(table_specs, context.config, args.scores_root, context.trainings_root)
    told = findings_html(found, ledger, context.config.tie, [*table_specs, *figure_specs])
    sections = [
        Section("findings", "What was found", told),
        about_section(contents, args.trainings, context),
        tables_section(in_order(table_specs, names), context, args.out),
        figures_section(in_order(figure_specs, names), context, args.figures, args.out),
    ]
    if ledger:
        sections.append(claims_section(ledger, context, args.out))
    if args.audit:
        sections.append(audit_section(read_csv(args.audit), context, {**table_specs, **figure_specs}))
    sections += [trainings_section(args.trainings, context, args.out), files_section(contents, args.out)]
    write_text(args.out, render_site(sections, context))


if __name__ == "__main__":
    run_main(main)
