"""What a comparison says in every format: its cells, notes, units and caption."""

from collections.abc import Iterator

from report.comparison_cells import OURS, SCALE, Comparison, Row, Value
from report.comparisons import build, missing_cells
from report.context import Context, scale_words
from report.table_words import MISSING, Notes

UNLIKE = "≠"
ROOM = 90  # characters of a line that are not printed smallest
WIDE = 9  # columns from which lines are printed on a turned page


def shown(value: Value) -> str:
    """A cell as plain text: `≠ 0.9`; `--` where there is none of ours, nothing where none is due."""
    text = value.text or (MISSING if value.reason else "")
    return f"{UNLIKE} {text}" if value.differs else text


def source_words(comparison: Comparison, source: str) -> str:
    """`published`, `Parallax` or `at mini`; sizes of corpora are of this scale alone."""
    if source == SCALE:
        return f"at {comparison.context.scale}" if OURS in comparison.sources else "Parallax"
    return source


def column_words(comparison: Comparison, index: int, source: str) -> str:
    """`published, GB` over one column of what stands side by side."""
    unit = unit_of(comparison, index, source)
    return source_words(comparison, source) + (f", {unit}" if unit else "")


def unit_of(comparison: Comparison, index: int, source: str) -> str:
    return comparison.units[source][index] if source in comparison.units else ""


def row_head(comparison: Comparison) -> str:
    kind, how = next(iter(comparison.spec["compare"].items()))
    return {"corpora": how.get("by", ""), "resources": "corpus", "models": "model"}.get(kind, "")


def side_cells(comparison: Comparison, row: Row) -> list[Value]:
    """The cells of one line: of each column what is printed, then ours."""
    return [line.cells[i] for i in range(len(comparison.columns)) for line in row.lines]


def rows(spec: dict, context: Context) -> tuple[list[str], list[list[str]]]:
    """Header and rows of plain text. Side by side a row is one line; else one for each source, which it names."""
    return rows_of(build(spec, context))


def rows_of(comparison: Comparison, notes: Notes | None = None) -> tuple[list[str], list[list[str]]]:
    """With `notes` a cell that has one gets its letter."""

    def marked(value: Value) -> str:
        mark = f"<sup>{notes.letter(value.note)}</sup>" if notes and value.note else ""
        return shown(value) + mark

    if comparison.side:
        header = [row_head(comparison)]
        for index, column in enumerate(comparison.columns):
            header += [f"{column} {column_words(comparison, index, source)}" for source in comparison.sources]
        return header, [[row.label, *map(marked, side_cells(comparison, row))] for row in comparison.rows]
    lines = []
    for block in comparison.blocks:
        if block.title:
            lines.append([block.title, *[""] * (1 + len(comparison.columns))])
        for row in block.rows:
            for line in row.lines:
                lines.append([row.label, source_words(comparison, line.source), *map(marked, line.cells)])
    return [row_head(comparison), "source", *comparison.columns], lines


def cells_of(comparison: Comparison) -> Iterator[Value]:
    for row in comparison.rows:
        for line in row.lines:
            yield from line.cells


def notes_of(comparison: Comparison, why: str = "the appendix of all.tex says why") -> list[str]:
    """What stands below the table, footnotes apart."""
    notes = []
    if any(cell.differs for cell in cells_of(comparison)):
        notes.append(f"{UNLIKE}: ours is not what is printed.")
    if OURS in comparison.sources:
        notes.append(
            "Parallax: what our files say, at the paper's own size. "
            f"At {comparison.context.scale}: what this scale makes of it."
        )
    else:
        notes.append(f"Parallax: ours at scale {comparison.context.scale}.")
    if any(cell.reason and not cell.text for cell in cells_of(comparison)):
        notes.append(f"{MISSING}: none of ours; {why}.")
    return [*notes, *comparison.notes, *comparison.spec.get("notes", [])]


def unit_words(comparison: Comparison) -> str:
    """Where several rows share a line, the heading has no room for units."""
    told = []
    for index, column in enumerate(comparison.columns):
        units = [
            f"{source_words(comparison, source)} in {UNIT_NAMES.get(unit, unit)}"
            for source in comparison.units
            if (unit := unit_of(comparison, index, source))
        ]
        told += [f"{column}: {', '.join(units)}"] if units else []
    return f"{'. '.join(told)}." if told else ""


UNIT_NAMES = {"k": "thousands", "M": "millions"}


def caption_words(comparison: Comparison) -> str:
    """Where something was counted or measured, what the data are; else what the scale is."""
    context = comparison.context
    if "hyperparameters" in comparison.spec["compare"] and context.description:
        return f"Scale {context.scale}: {context.description}."
    return scale_words(context)


def missing_notes(comparison: Comparison) -> list[str]:
    """A page of its own has no appendix that says why a cell is empty."""
    return [
        f"{MISSING} {row}{'' if cells == 'all' else f', {cells}'}: {reason}."
        for _, row, cells, reason in missing_cells(comparison.spec, comparison.context)
    ]
