"""The first screen of the page: what was found, which method to take, and which is ahead of which."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence

from report.comparison_cells import power
from report.findings import METHODS, Ahead, Findings, Reached, Task
from report.html_tables import Body, Cell, HtmlTable, code, link, render_table, text
from report.intervals import FEWEST_TRAININGS
from report.ledger import Line, lines_of, shown_verdicts
from report.measured import DIRECTION, LEVEL, NOT_REPRODUCED, REPRODUCED, UNDECIDED
from report.scores import NOT_LEARNT
from report.table_words import MISSING
from report.verdicts import points

COLOURS = {REPRODUCED: "yes", DIRECTION: "half", NOT_REPRODUCED: "no", UNDECIDED: "open"}  # of bars; others have none
WIDTH, LINE = 220, 9  # of a drawn effect: pixels across, and down for each scale

STYLE = """
.lead { padding-left: 1.2rem; max-width: 56rem; } .lead li { margin: 0.35rem 0; }
.bar { display: flex; width: 14rem; height: 0.9rem; margin-top: 0.25rem; background: var(--shade); }
.bar i { display: block; height: 100%; } .bar .yes { background: #2c8a4b; } .bar .half { background: #93c7a3; }
.bar .no { background: #c94f4f; } .bar .open { background: #d8b34a; }
td.up { color: var(--good); font-weight: 700; } td.down { color: var(--bad); font-weight: 700; }
td.same { color: var(--quiet); }
[id^=matrix] td, [id^=matrix] thead th + th { text-align: right; } [id^=matrix] abbr { text-decoration: none; }
#which-method-table td, [id^=matrix] th[scope=row] { min-width: 9rem; }
#claims-counts th[scope=row] { white-space: nowrap; }
@media (max-width: 60rem) { .bar { width: 6rem; } }
.effect { display: block; color: var(--text); } .effect .axis { stroke: var(--line); stroke-width: 1; }
.effect .span { stroke: currentColor; stroke-width: 1.3; } .effect circle { fill: currentColor; }
.effect .s1 { color: var(--link); } .effect .s2 { color: var(--focus); }
.effect .published { fill: none; stroke: var(--quiet); stroke-width: 1.3; }
.key .effect { display: inline-block; vertical-align: middle; }
"""


def findings_html(findings: Findings | None, ledger: Mapping | None, tie: float, shown: Sequence[str]) -> str:
    """`tie`: the points that count as equal; `shown`: the items of the page, to which words lead."""
    leads = [*method_leads(findings), *([claims_lead(ledger)] if ledger else [])]
    parts = ['<ul class="lead">', *(f"<li>{words}</li>" for words in leads), "</ul>"]
    if ledger:
        parts.append(render_table(verdict_table(ledger)))
    if findings and findings.tasks:
        parts += ['<h3 id="which-method">Which method should I use?</h3>', render_table(choice_table(findings, tie))]
        parts += ['<h3 id="ahead">Is one method ahead of another?</h3>', matrices(findings)]
    if ledger and (lines := [line for line in lines_of(ledger) if line.at]):
        parts += ['<h3 id="effects">Effects by scale</h3>', effects(lines, ledger, shown)]
    return "\n".join(parts)


# --- in words -------------------------------------------------------------------------------------------------------


def method_leads(findings: Findings | None) -> list[str]:
    if findings is None:
        return [f"Which method to use is told where the table <code>{METHODS}</code> is among the chosen items."]
    if not findings.tasks:
        return ["No two methods have scores of one task at this scale yet: nothing can be said of which is better."]
    words = []
    for parallel, have in ((True, "With sentence pairs"), (False, "With text alone")):
        tasks = findings.of_all(parallel)
        best = Counter(run for task in tasks if (run := findings.best(task, parallel)))
        if best and findings.number(parallel) == 1:
            [(run, number)] = best.items()
            label = text(findings.methods[run].label)
            words.append(
                f"{have} one method is here, <strong>{label}</strong>, above chance in {number} of {len(tasks)} tasks."
            )
        elif best:
            told = ", ".join(
                f"<strong>{text(findings.methods[run].label)}</strong> in {number}"
                for run, number in best.most_common()
            )
            every = f"the {len(tasks)} tasks that all {findings.number(parallel)} methods have"
            words.append(f"{have}, the best on average, of {every}: {told}.")
    tested = [one for one in findings.pairs.values() if one.p is not None]
    decided = sum(one.decided for one in tested)
    rest = len(findings.pairs) - len(tested)
    those = f"{decided} {'is' if decided == 1 else 'are'}"
    told = f"Of {len(findings.pairs)} comparisons of two methods in a task, {those} decided"
    if rest:
        told += f"; {rest} have fewer than {FEWEST_TRAININGS} pre-trainings of both and decide nothing yet"
    return [*words, f"{told}. {link('Which', '#ahead')}."]


def claims_lead(ledger: Mapping) -> str:
    row = ledger["summary"][0]
    told = ", ".join(f"{row['counts'][one]} {one}" for one in shown_verdicts(ledger) if row["counts"][one])
    claims = link(f"{len(ledger['claims'])} claims", "#claims")
    return f"Of {claims} of the papers, at scale {text(row['name'])}: {told}.{corrected_words(ledger, row['name'])}"


def corrected_words(ledger: Mapping, scale: str) -> str:
    """For how many the verdicts were corrected, how many stand, and how narrowly."""
    found = [claim["by_scale"][scale] for claim in ledger["claims"] if scale in claim["by_scale"]]
    tested = [one["p_adjusted"] for one in found if one["p_adjusted"] is not None]
    stand = [p for p in tested if p <= 1 - LEVEL]
    if not tested:
        return ""
    weakest = f", the weakest with a corrected p of {max(stand):.4f}" if stand else ""
    return f" Corrected for the {len(tested)} that have a test, {len(stand)} still stand{weakest}."


# --- verdicts -------------------------------------------------------------------------------------------------------


def verdict_table(ledger: Mapping) -> HtmlTable:
    """A row for each scale and for where those that count agree; in brackets what correction leaves."""
    verdicts, rows = shown_verdicts(ledger), {row["name"]: row["counts"] for row in ledger["summary"]}
    names = [name for name in rows if f"{name}, corrected" in rows]
    lines = []
    for name in names:
        alone, corrected = rows[name], rows[f"{name}, corrected"]
        cells = [f"{alone[one]}" + (f" ({corrected[one]})" if corrected[one] != alone[one] else "") for one in verdicts]
        lines.append(
            [
                Cell(text(name), "row"),
                Cell(bar(alone)),
                *(Cell(words, kind="number quiet" if words == "0" else "number") for words in cells),
            ]
        )
    return HtmlTable(
        identity="claims-counts",
        name="Claims by verdict and scale",
        html_caption="<strong>What was found of the papers' claims</strong>, by scale. In brackets, where it differs: "
        "after correction for the number of those that have a test.",
        head=[[Cell("Scale", "col"), Cell("Share", "col"), *(Cell(text(words), "col") for words in verdicts)]],
        bodies=[Body("", lines)],
    )


def bar(counts: Mapping[str, int]) -> str:
    """The shares of those verdicts that say something; the numbers stand beside it."""
    whole = sum(counts.values()) or 1
    parts = (
        f'<i class="{kind}" style="width:{100 * counts[verdict] / whole:.1f}%"></i>'
        for verdict, kind in COLOURS.items()
        if counts.get(verdict)
    )
    return f'<span class="bar" aria-hidden="true">{"".join(parts)}</span>'


# --- which method ---------------------------------------------------------------------------------------------------


def choice_table(findings: Findings, tie: float) -> HtmlTable:
    head = (
        "Task",
        "Best with text alone",
        "Best with sentence pairs",
        "Untrained",
        "Chance",
        "Ahead, decided, of",
        "Cheapest close to the best",
    )
    rows = []
    for task in findings.tasks:
        best = findings.best(task)
        beaten = findings.beaten(task, best) if best else []
        ahead = ", ".join(text(findings.methods[run].label) for run in beaten) or "none yet"
        cheapest = findings.cheapest(task, tie)
        rows.append(
            [
                Cell(f'{task_name(task)}<br><span class="quiet">{text(task.task)}</span>', "row"),
                *(best_cell(findings, task, parallel) for parallel in (False, True)),
                untrained_cell(findings.untrained.get(task)),
                Cell(f"{abs(chance):.1f}") if (chance := findings.chance.get(task)) is not None else missing(),
                Cell(ahead if beaten else f'<span class="quiet">{ahead}</span>'),
                method_cell(findings, task, cheapest),
            ]
        )
    return HtmlTable(
        identity="which-method-table",
        name="Which method each task is best served by",
        html_caption="<strong>By task, data and cost.</strong> Means over the languages other than English and over "
        "pre-trainings, in brackets how many, and of how many methods with a score where others have none; FLOPs of "
        "pre-training with all that it starts from. The best on average is not always decided: the column \u201cAhead, "
        "decided, of\u201d names those that it is decidedly ahead of. Untrained: an encoder of random weights, "
        "fine-tuned where the others are; what is not above it was not learnt in pre-training.",
        head=[[Cell(text(words), "col") for words in head]],
        bodies=[Body("", rows)],
        html_notes=[
            f"Close: within {tie:g} points of the best, the tie of <code>config/claims.yaml</code>. A control goes on "
            "from its start without the method. No best: the highest mean is within "
            f"{NOT_LEARNT:g} point of chance, or two methods have it. FLOPs were counted in training; with ≈ they are "
            "of the configuration, every row taken as full. Nothing here is written by hand.",
        ],
    )


def task_name(task: Task) -> str:
    return text(task.heading) + (" ↓" if task.less_is_better else "")


def missing() -> Cell:
    return Cell(MISSING, kind="missing")


def untrained_cell(one: Reached | None) -> Cell:
    if one is None:
        return missing()
    kept = ' <span class="quiet">of the reference</span>' if one.of_reference else ""
    return Cell(f"{abs(one.mean):.1f} ({one.trainings}){kept}")


def best_cell(findings: Findings, task: Task, parallel: bool) -> Cell:
    run, tried, every = findings.best(task, parallel), len(findings.tried(task, parallel)), findings.number(parallel)
    if run is None:
        return Cell(f'<span class="quiet">none of {tried}</span>') if tried else missing()
    return method_cell(findings, task, run, f"of {tried} of {every} methods; " if tried < every else "")


def method_cell(findings: Findings, task: Task, run: str | None, among: str = "") -> Cell:
    if run is None:
        return missing()
    method, one = findings.methods[run], findings.scores[task][run]
    cost = (
        "cost not known"
        if method.flops is None
        else "no training"
        if not method.flops
        else f"{'' if method.counted else '≈'}{power(method.flops)} FLOPs"
    )
    return Cell(
        f'{text(method.label)}<br>{abs(one.mean):.1f} ({one.trainings}), <span class="quiet">{among}{cost}</span>'
    )


# --- each against each ----------------------------------------------------------------------------------------------


def matrices(findings: Findings) -> str:
    words = (
        "Row minus column, in points, positive where the row is better; over the pre-trainings that both have, paired "
        "with test items (the order is that of all pre-trainings of each: with more of one than of the other it may "
        "differ). With "
        f"a star: decided at {LEVEL:.0%} after Benjamini and Hochberg over all comparisons of all tasks below. Grey: "
        f"fewer than {FEWEST_TRAININGS} pre-trainings of both, no test."
    )
    lines = [f"<p>{words}</p>"]
    for place, task in enumerate(findings.tasks):
        title = f'{task_name(task)}, <span class="quiet">{text(task.task)}, {text(task.setting)}</span>'
        lines += [
            f'<details class="fold"{" open" if place == 0 else ""}><summary>{title}</summary>',
            render_table(matrix(findings, task, place)).rstrip("\n"),
            "</details>",
        ]
    return "\n".join(lines)


def matrix(findings: Findings, task: Task, place: int) -> HtmlTable:
    runs = list(findings.scores[task])
    rows = []
    for number, run in enumerate(runs, start=1):
        name = f"{number} {text(findings.methods[run].label)}"
        rows.append([Cell(name, "row"), *(pair_cell(findings, task, run, other) for other in runs)])
    heads = [f'<abbr title="{text(findings.methods[run].label)}">{n}</abbr>' for n, run in enumerate(runs, start=1)]
    return HtmlTable(
        identity=f"matrix-{place + 1}",
        name=f"{task.heading}: each method against each",
        html_caption=f"<strong>{task_name(task)}.</strong> The best on average first.",
        head=[[Cell("Row minus column", "col"), *(Cell(words, "col") for words in heads)]],
        bodies=[Body("", rows)],
    )


def pair_cell(findings: Findings, task: Task, run: str, other: str) -> Cell:
    if run == other:
        return Cell("·", kind="number same")
    found = findings.ahead(task, run, other)
    if found is None:
        return Cell(MISSING, kind="number missing")
    difference, interval, one = found
    kind = ("up" if difference > 0 else "down") if one.decided else "" if one.p is not None else "quiet"
    shown = f"{points(difference)}{'*' if one.decided else ''}"
    return Cell(f'<abbr title="{text(pair_words(interval, one))}">{shown}</abbr>', kind=f"number {kind}".strip())


def pair_words(interval: tuple[float, float] | None, one: Ahead) -> str:
    n = len(one.found.by_training)
    if interval is None or one.p is None:
        return f"{n} pre-training{'s' if n > 1 else ''} of both: no test"
    low, high = map(points, interval)
    return f"{LEVEL:.0%}: {low} to {high}, n = {n}, p = {one.p:.3f}, corrected {one.adjusted:.3f}"


# --- effects --------------------------------------------------------------------------------------------------------


def effects(lines: Sequence[Line], ledger: Mapping, shown: Sequence[str]) -> str:
    scales = [one["scale"] for one in ledger["scales"]]
    measured = [scale for scale in scales if any(scale in line.at for line in lines)]
    table = HtmlTable(
        identity="effects-table",
        name="Effects of claims by scale",
        html_caption="<strong>Points in favour of the paper</strong>, with 95 % intervals; none from fewer than three "
        "pre-trainings. Drawn on one axis for all rows, which is compressed far from zero: "
        f'<span class="key">{" ".join(key_words(measured))}</span>',
        head=[[Cell(text(words), "col") for words in ("Claim", "Published", *measured, "Drawn")]],
        bodies=[Body(text(paper), of_paper) for paper, of_paper in effect_rows(lines, measured).items()],
    )
    drawn = "parallax/effects-by-scale"
    more = f"<p>{link('All claims in one figure', '#parallax-effects-by-scale-title')}.</p>" if drawn in shown else ""
    return render_table(table) + more


def key_words(scales: Sequence[str]) -> list[str]:
    return [
        f'<svg class="effect" width="10" height="10" role="img" aria-label="mark of {text(name)}: from 0 to 0">'
        f"{mark}</svg> {text(name)}"
        for name, mark in [
            ("published", diamond(5, 5)),
            *((scale, f'<g class="s{n}"><circle cx="5" cy="5" r="3"/></g>') for n, scale in enumerate(scales)),
        ]
    ]


def effect_rows(lines: Sequence[Line], scales: Sequence[str]) -> dict[str, list[list[Cell]]]:
    ends = [value for line in lines for value in (line.published, *extremes(line)) if value is not None]
    reach = max(map(abs, ends)) or 1.0
    rows: dict[str, list[list[Cell]]] = {}
    for line in lines:
        published = MISSING if line.published is None else points(line.published)
        cells = [effect_words(line.at[scale]) if scale in line.at else MISSING for scale in scales]
        rows.setdefault(line.paper, []).append(
            [
                Cell(code(line.name), "row"),
                *(Cell(text(words), kind="number") for words in (published, *cells)),
                Cell(drawing(line, scales, reach)),
            ]
        )
    return rows


def extremes(line: Line) -> list[float]:
    return [value for effect, interval in line.at.values() for value in (effect, *(interval or ()))]


def effect_words(at: tuple[float, tuple[float, float] | None]) -> str:
    effect, interval = at
    return points(effect) + (f" [{', '.join(map(points, interval))}]" if interval else "")


def drawing(line: Line, scales: Sequence[str], reach: float) -> str:
    """The published difference as a diamond; below each other the scales' effects with their intervals."""

    def x(value: float) -> float:
        return WIDTH / 2 + (WIDTH / 2 - 6) * math.copysign(math.log1p(abs(value)), value) / math.log1p(reach)

    height = LINE * (len(scales) + 1)
    parts = [f'<line class="axis" x1="{WIDTH / 2}" x2="{WIDTH / 2}" y1="0" y2="{height}"/>']
    if line.published is not None:
        parts.append(diamond(x(line.published), LINE / 2))
    for place, scale in enumerate(scales):
        if scale not in line.at:
            continue
        effect, interval = line.at[scale]
        y = LINE * (place + 1.5)
        span = ""
        if interval:
            span = f'<line class="span" x1="{x(interval[0]):.1f}" x2="{x(interval[1]):.1f}" y1="{y}" y2="{y}"/>'
        parts.append(f'<g class="s{place}">{span}<circle cx="{x(effect):.1f}" cy="{y}" r="2.6"/></g>')
    found = extremes(line)
    words = f"Effect of {line.name}: from {abs(min(found)):.1f} to {abs(max(found)):.1f} in size"
    return (
        f'<svg class="effect" role="img" aria-label="{text(words)}" width="{WIDTH}" height="{height}" '
        f'viewBox="0 0 {WIDTH} {height}">{"".join(parts)}</svg>'
    )


def diamond(x: float, y: float) -> str:
    return f'<path class="published" d="M{x - 4:.1f} {y}L{x:.1f} {y - 4}L{x + 4:.1f} {y}L{x:.1f} {y + 4}Z"/>'
