"""What a table says in every format: its numbers, notes, headings and labels."""

from dataclasses import replace

from plan.seeds import second_fine_tunings
from report import latex
from report.html_tables import Body as HtmlBody
from report.html_tables import Cell as HtmlCell
from report.html_tables import letter_of
from report.scores import EN_DEV, FINE_TUNED_ONCE, MEAN_DEV, OWN_DEV, Summary, seed_words
from report.table_spec import AVERAGE, GAP, OTHERS, Column
from report.tables import Cell, Group, Row, Table

MISSING = "--"
STAR = "∗"


BOLD = (
    "Bold: the best reproduced value of the block where it leads the next by more than their pooled deviation; "
    "untrained encoders and what is no better than chance do not compete."
)
CHANCE = "Chance, at this scale"


def number(value: float, decimals: int = 1) -> str:
    """One decimal, aligned on the point in a left-aligned column; or a whole number."""
    if decimals == 0:
        return f"{value:.0f}"
    text = f"{abs(value):.1f}"
    if value < 0 and text != "0.0":
        return f"{{-}}{text}"
    return rf"\phantom{{0}}{text}" if value < 9.95 else text


def reproduced_cell(cell: Cell, with_n: bool, decimals: int = 1) -> str:
    """`$61.3_{\\pm0.4}$`, in side-by-side tables `$61.3 \\pm 0.4$ (3)`; `--` where there is no score."""
    if cell.summary is None:
        return MISSING if cell.beyond is None else f"$>{cell.beyond}$"
    mean = number(cell.summary.mean, decimals)
    mean = rf"\mathbf{{{mean}}}" if cell.best else mean
    star = r"^{\ast}" if cell.partial else ""
    if with_n:
        deviation = "" if cell.summary.std is None else rf" \pm {cell.summary.std:.{decimals}f}"
        return f"${mean}{star}{deviation}$ ({cell.summary.n})"
    deviation = "" if cell.summary.std is None else rf"_{{\pm{cell.summary.std:.{decimals}f}}}"
    return f"${mean}{star}{deviation}$"


def published_cell(cell: Cell) -> str:
    if cell.published is None:
        return MISSING
    return rf"\phantom{{0}}{cell.published}" if float(cell.published) < 10 else cell.published


def summary_words(summary: Summary | None, decimals: int = 1) -> str:
    """`61.3 ± 0.4 (3)`."""
    if summary is None:
        return MISSING
    deviation = "" if summary.std is None else f" ± {summary.std:.{decimals}f}"
    return f"{round(summary.mean, decimals) + 0.0:.{decimals}f}{deviation} ({summary.n})"


class Notes:
    """Footnotes of one table, lettered in the order of their first use; equal texts share a letter."""

    def __init__(self) -> None:
        self.letters: dict[str, str] = {}

    def letter(self, text: str) -> str:
        return self.letters.setdefault(text, letter_of(len(self.letters)))

    def mark(self, text: str) -> str:
        return rf"\textsuperscript{{{self.letter(text)}}}"


def reproduced_cells(row: Row, table: Table, with_n: bool, notes: Notes) -> list[str]:
    return [
        reproduced_cell(cell, with_n, column.decimals) + (notes.mark(f"{cell.reason}.") if cell.told else "")
        for cell, column in zip(row.cells, table.columns, strict=True)
    ]


SELECTED_ON = {
    EN_DEV: "English dev data",
    MEAN_DEV: "the mean over the dev sets of all languages",
    OWN_DEV: "the dev set of the language that each model is for",
}


def usual_selection(table: Table) -> str | None:
    """What chose the weights behind most of a table's tasks and rows; None where nothing was fine-tuned."""
    rules = [rule for row in table.rows for rule in row.selection.values()]
    return max(SELECTED_ON, key=rules.count) if rules else None


def selection_words(table: Table) -> str:
    usual = usual_selection(table)
    if usual is None:
        return ""
    marked = any(rule != usual for row in table.rows for rule in row.selection.values())
    return f"Fine-tuned models: selected on {SELECTED_ON[usual]}{', unless marked' if marked else ''}."


def unusual_selections(row: Row, table: Table) -> list[str]:
    """By which other rules the weights behind a row were chosen, and of which tasks where not of all."""
    usual, tasks = usual_selection(table), [task for task, _ in row.selection]
    notes = []
    for rule in dict.fromkeys(rule for rule in row.selection.values() if rule != usual):
        of_rule = [
            task if tasks.count(task) == 1 else f"{task} {setting}"
            for (task, setting), own in row.selection.items()
            if own == rule
        ]
        words = "Selected" if len(of_rule) == len(tasks) else f"{', '.join(of_rule)}: selected"
        notes.append(f"{words} on {SELECTED_ON[rule]}.")
    return notes


def row_notes(row: Row, table: Table) -> list[str]:
    """What must be known of a row's reproduced numbers."""
    notes = unusual_selections(row, table)
    if row.run in table.context.borrowed and row.seeds:
        notes.append("Not trained here: the reference scores of the repository.")
    if row.canonical != row.run:
        notes.append(
            f"At this scale {row.run} is {row.canonical}: data, model, objectives and schedule are equal, "
            "so both show the same scores."
        )
    return (
        notes
        + chosen_layers(row)
        + trainings_seen_again(row)
        + lacking_seeds(row, table)
        + seeds_that_learnt_nothing(row)
    )


def trainings_seen_again(row: Row) -> list[str]:
    """Without fine-tuning two seeds of one pre-training have one score: its deviation is none."""
    by_numbers: dict[tuple[int, int], list[str]] = {}
    for (task, setting), numbers in row.again.items():
        by_numbers.setdefault(numbers, []).append(f"{task} {setting}")
    return [
        f"{', '.join(names)}: {seeds} seeds are {trainings} pre-training{'s' if trainings > 1 else ''} evaluated "
        "again, for nothing is fine-tuned: the deviation says nothing."
        for (seeds, trainings), names in by_numbers.items()
    ]


def chosen_layers(row: Row) -> list[str]:
    """At which layer a row retrieves, where pairs chose it for each seed."""
    notes = []
    for (task, setting), layer_of in row.layers.items():
        seeds_of: dict[int, list[int]] = {}
        for seed, layer in sorted(layer_of.items()):
            seeds_of.setdefault(layer, []).append(seed)
        words = [f"layer {layer} of {seed_words(seeds)}" for layer, seeds in sorted(seeds_of.items())]
        layers = "; ".join(words) if len(seeds_of) > 1 else f"layer {next(iter(seeds_of))}"
        notes.append(f"{task} {setting}: {layers}, chosen on sentence pairs that are no test.")
    return notes


def seeds_that_learnt_nothing(row: Row) -> list[str]:
    """A mean hides a seed that diverged in fine-tuning, so each is named; it counts all the same."""
    by_seeds: dict[tuple[int, ...], list[str]] = {}
    for (task, setting), seeds in row.at_chance.items():
        by_seeds.setdefault(seeds, []).append(f"{task} {setting}")
    return [
        f"{', '.join(dict.fromkeys(names))}: {seed_words(seeds)} no better "
        "than chance after fine-tuning (diverged, or nothing learnt), and counted."
        for seeds, names in by_seeds.items()
    ]


def lacking_seeds(row: Row, table: Table) -> list[str]:
    """Which seeds stand behind none of a row's numbers, by task where they differ. Training that diverges stops, so its
    seed has no score; where each pre-training was fine-tuned once, and others' twice, nothing is lost."""
    by_seeds: dict[tuple[int, ...], list[tuple[str, str]]] = {}
    for key, seeds in row.lacking.items():
        by_seeds.setdefault(seeds, []).append(key)
    second = tuple(sorted(second_fine_tunings(table.context.config, row.expected_seeds)))
    notes = []
    for seeds, keys in by_seeds.items():
        tasks = [task for task, setting in keys if seeds != second or (task, setting) in row.selection]
        expected = len(row.expected_seeds)
        known = f"{expected - len(seeds)} of {expected} seeds have a score"
        words = f"{known}; {seed_words(seeds)}: not run, or training diverged."
        if seeds == second:
            words = FINE_TUNED_ONCE
        if tasks:
            every = set(tasks) == tasks_of(table)
            named = f"{', '.join(dict.fromkeys(tasks))}: {words[0].lower()}{words[1:]}"
            notes.append(words if every else named)
    return notes


def tasks_of(table: Table) -> set[str]:
    """The tasks behind the columns; an average over tasks is none itself."""
    return {part.task for column in table.columns for part in sum(column.parts, ()) or (column,)}


def run_label(row: Row, notes: Notes, table: Table) -> str:
    marks = "".join(notes.mark(text) for text in row_notes(row, table))
    return latex.code(row.run) + marks


def seeds_label(row: Row) -> str:
    if not row.seeds:
        return ""
    return f", $n={row.seeds[0]}$" if len(row.seeds) == 1 else f", $n={row.seeds[0]}$--${row.seeds[-1]}$"


def model_label(row: Row, notes: Notes) -> str:
    text = latex.escape(row.label)
    for erratum in row.errata:
        text += notes.mark(f"Shown as printed; {erratum}.")
    return text


def needs_separator(group: Group, index: int) -> bool:
    """Does the first row that only we have stand here, below rows of the paper?"""
    row = group.rows[index]
    return row.model is None and index > 0 and group.rows[index - 1].model is not None


def plain_heading(column: Column) -> str:
    """A code, `Avg` or `Gap ↓`: the arrow says that less is better."""
    words = {AVERAGE: "Avg", OTHERS: "Others", GAP: "Gap"}.get(column.language, column.language)
    return f"{words} ↓" if column.less_is_better else words


def heading(column: Column) -> str:
    return latex.escape(plain_heading(column))


def plain_title(column: Column) -> str:
    return column.heading or column.task


def column_title(column: Column) -> str:
    return latex.escape(plain_title(column))


def spans_of(columns: list[Column]) -> list[list[Column]]:
    """Neighbours that share a title: XNLI over en, Avg."""
    spans: list[list[Column]] = []
    for column in columns:
        if spans and (spans[-1][0].task, spans[-1][0].heading) == (column.task, column.heading):
            spans[-1].append(column)
        else:
            spans.append([column])
    return spans


def only_averages(spans: list[list[Column]]) -> bool:
    """Is every column the average (or the gap) of another task, so that the titles say everything?"""
    return all(len(span) == 1 and span[0].is_derived for span in spans) and (
        len({span[0].language for span in spans}) == 1
    )


def only_one_language(spans: list[list[Column]]) -> bool:
    """Does every title stand for one column, of the one language that its task has here?"""
    return all(len(span) == 1 and span[0].languages == (span[0].language,) for span in spans)


def chance_words(value: float | None) -> str:
    return MISSING if value is None else number(value)


def partial_words(column: Column, partial: tuple[str, ...]) -> str:
    if column.parts:
        return "Mean over the tasks, each over the languages of this scale, not over those of the published average."
    what = "Gap" if column.language == GAP else "Mean"
    return (
        f"{what} over the {len(partial)} languages of this scale ({', '.join(partial)}), "
        f"not over those of the published {'gap' if column.language == GAP else 'average'}."
    )


def language_notes(table: Table) -> list[tuple[bool, str]]:
    """Over which languages the averages of this scale are taken; True where a star in the table leads to the note."""
    of_words: dict[str, list[str]] = {}
    for index, column in enumerate(table.columns):
        for partial in sorted({row.cells[index].partial for row in table.rows if row.cells[index].partial}):
            titles = of_words.setdefault(partial_words(column, partial), [])
            titles += [plain_title(column)] if plain_title(column) not in titles else []
    notes = []
    for words, titles in of_words.items():
        named = f"{', '.join(titles)}: " if len(of_words) > 1 else ""
        notes.append((True, f"{named}{words}"))
    notes += [(False, words) for words in same_columns(table)]
    by_languages: dict[tuple[str, ...], list[str]] = {}
    for column in table.columns:
        if column.of_scale and column.is_derived and column.languages:
            titles = by_languages.setdefault(column.languages, [])
            titles += [plain_title(column)] if plain_title(column) not in titles else []
    averages = {column.language for column in table.columns if column.of_scale}
    what = " and ".join(name for key, name in ((AVERAGE, "Avg"), (OTHERS, "Others"), (GAP, "Gap")) if key in averages)
    for languages, titles in by_languages.items():
        notes.append((False, f"{what} of {', '.join(titles)}: over {', '.join(languages)}."))
    return notes


def same_columns(table: Table) -> list[str]:
    """Averages over languages that differ in the paper and not at this scale, which has only some of them."""
    by_values: dict[tuple, list[str]] = {}
    for index, column in enumerate(table.columns):
        values = tuple(tuple(sorted(row.cells[index].values.items())) for row in table.rows)
        if column.is_derived and not column.parts and any(values):
            kind = (column.task, column.metric, column.setting, column.direction, column.language)
            by_values.setdefault((*kind, values), []).append(plain_title(column))
    return [
        f"{' and '.join(titles)}: the same languages at this scale, and so the same reproduced numbers."
        for titles in by_values.values()
        if len(titles) > 1
    ]


def meaning_notes(table: Table) -> list[str]:
    """What the derived columns are, and where less is better."""
    notes = []
    if any(column.language == GAP for column in table.columns):
        notes.append("Gap: English minus the mean of the other languages.")
    for column in table.columns:
        if not column.parts:
            continue
        of = "gaps" if column.language == GAP else "averages over languages"
        words = f"{column.heading}: unweighted mean over {len(column.parts)} tasks of their {of}"
        if doubled := [parts[0].task for parts in column.parts if len(parts) > 1]:
            words += f", of {', '.join(doubled)} the mean of F1 and exact match"
        notes.append(f"{words}; only where every task has a score.")
    directions: dict[str, dict[str, None]] = {}
    behind = [part for column in table.columns for parts in column.parts for part in parts]
    for column in [*table.columns, *behind]:
        if column.direction:
            directions.setdefault(column.direction, {})[column.heading or column.task] = None
    notes += [f"{'; '.join(titles)}: {DIRECTION_WORDS[direction]}." for direction, titles in directions.items()]
    notes += reach_words(table)
    if any(column.less_is_better for column in table.columns):
        notes.append("↓: less is better.")
    return notes


def reach_words(table: Table) -> list[str]:
    return [
        f"{column.heading}: the first snapshot that scores at least {level(column)} on validation data, greedily, "
        f"where {column.reaches} ends on average over seeds; >N: no seed gets there in N updates."
        for column in table.columns
        if column.reaches
    ]


def level(column: Column) -> str:
    return "as much" if column.target is None else f"{column.target:.1f}"


DIRECTION_WORDS = {
    "en-xx": "English sentences look for those of the other language",
    "xx-en": "sentences of the other language look for English ones",
    "both": "mean of both directions",
}


def columns_of(table: Table, begin: int, end: int) -> Table:
    groups = [
        replace(
            group,
            settings=group.settings[begin:end],
            rows=[replace(row, cells=row.cells[begin:end]) for row in group.rows],
        )
        for group in table.groups
    ]
    return replace(table, columns=table.columns[begin:end], chance=table.chance[begin:end], groups=groups)


def any_missing(table: Table) -> bool:
    return any(
        (row.run is not None and cell.summary is None and cell.beyond is None)
        or (row.model is not None and cell.published is None)
        for row in table.rows
        for cell in row.cells
    )


def difference(cell: Cell, table: Table) -> float | None:
    """Reproduced minus published, where they are of the same languages of real data."""
    if cell.summary is None or cell.published is None or cell.partial or table.context.world:
        return None
    return cell.summary.mean - float(cell.published)


def html_chance(table: Table) -> HtmlBody:
    cells = [HtmlCell(MISSING if value is None else f"{value:.1f}", kind="number") for value in table.chance]
    return HtmlBody("", [[HtmlCell(CHANCE, "row", columns=2), *cells]])


def missing_notes(table: Table) -> list[str]:
    """Why reproduced numbers are missing: whole rows, then columns, of one reason together."""
    rows: dict[str, dict[str, None]] = {}
    columns: dict[str, dict[str, None]] = {}
    for row in (row for row in table.rows if row.run is not None):
        reasons = [cell.reason for cell in row.cells if cell.summary is None and cell.beyond is None and not cell.told]
        if len(reasons) == len(row.cells) and len(set(reasons)) == 1:
            rows.setdefault(reasons[0], {})[f"{row.label} ({row.run})"] = None
            continue
        for cell, column in zip(row.cells, table.columns, strict=True):
            if cell.summary is None and cell.beyond is None and not cell.told:
                name = " ".join(dict.fromkeys([plain_title(column), plain_heading(column)]))
                columns.setdefault(cell.reason, {})[name] = None
    return [f"{'; '.join(names)}: {reason}." for of in (rows, columns) for reason, names in of.items()]
