"""Comparisons of corpora and of resources: the sizes that papers print beside those that were counted."""

import json
from collections.abc import Iterable
from dataclasses import dataclass

from common.errors import UserError
from common.pairs import pair_with_english
from plan import compare_specs
from plan.evidence import corpus_counts
from plan.runs import resolve_run
from report.comparison_cells import PRINTED, SCALE, UNITS, Block, Comparison, Line, Row, Value
from report.context import Context


def load_counts(context: Context) -> dict | None:
    """kind -> corpus -> language or pair -> raw or kept -> quantity, from counts.json."""
    for path in (context.root / name for name in corpus_counts(context.config)):
        if path.exists():
            try:
                counts = json.loads(path.read_text(encoding="utf-8"))
                return {kind: counts[kind] for kind in ("mono", "bitext")}
            except (ValueError, TypeError, KeyError) as error:
                raise UserError(f"{path}: not the sizes of corpora ({error}); delete it and count again") from None
    return None


def no_counts(context: Context) -> str:
    return "no counts among the reference" if context.reference else "no corpus/counts.json; its job has not run"


@dataclass
class Counts:
    """The sizes of the corpora, and why one of them has none."""

    context: Context
    content: dict | None

    def of(self, sources: Iterable[tuple[str, str, str]], state: str, quantity: str) -> int | str:
        """The sum over sources, or why there is none."""
        if self.content is None:
            return no_counts(self.context)
        total = 0
        for kind, corpus, name in sources:
            found = self.content[kind].get(corpus, {}).get(name)
            if found is None:
                return f"{corpus} {name} is of no run that is trained here; say --config runs=all"
            total += found[state][quantity]
        return total

    def sources(self, run: str, kind: str) -> list[tuple[str, str, str]] | str:
        """What a run reads at this scale."""
        try:
            resolved = resolve_run(self.context.config, run)
        except UserError as error:
            return str(error)
        return compare_specs.text_read(resolved) if kind == "mono" else compare_specs.pairs_read(resolved)


def build_corpora(spec: dict, how: dict, context: Context, published: list[dict], count: bool) -> Comparison:
    counts, run, kind = Counts(context, load_counts(context)), how["run"], how["kind"]
    config = context.config
    written_run = config.runs[run]
    named = compare_specs.text_read(written_run) if kind == "mono" else compare_specs.pairs_read(written_run)
    sources = counts.sources(run, kind)
    values: dict[tuple[str, int], int | str] = {}
    names = [row[how["by"]] for row in published]
    for name in names:
        for index, column in enumerate(how["columns"]):
            values[name, index] = _size(name, column, counts, run, named, sources, context)
    units = [_unit([values[name, i] for name in names], column["unit"]) for i, column in enumerate(how["columns"])]
    rows = []
    for row in published:
        name, printed, ours = row[how["by"]], [], []
        for index, column in enumerate(how["columns"]):
            value = values[name, index]
            printed.append(Value(row[column["published"]]))
            ours.append(
                Value(reason=value) if isinstance(value, str) else Value(_in_unit(value, units[index], column, row))
            )
        rows.append(Row(name, [Line(PRINTED, printed), Line(SCALE, ours)]))
    headings = [column["heading"] for column in how["columns"]]
    comparison = Comparison(spec, context, headings, [Block("", rows)], across=how.get("across", 1))
    comparison.units = {PRINTED: [column["unit"] for column in how["columns"]], SCALE: units}
    return comparison


def _size(
    name: str, column: dict, counts: Counts, run: str, named: list, sources: list | str, context: Context
) -> int | str:
    if isinstance(sources, str):
        return sources
    own = sources if name == TOTAL else [source for source in sources if _is_of(name, source)]
    if not own:
        if any(_is_of(name, source) for source in named):
            return f"not at scale {context.scale}"
        return f"run {run} reads none"
    return counts.of(own, "kept", column["ours"])


TOTAL = "total"


def _is_of(name: str, source: tuple[str, str, str]) -> bool:
    """A language is that of a text, or of its pair with English."""
    return source[2] in (name, pair_with_english(name))


def _unit(values: Iterable[int | str], printed: str) -> str:
    """The unit of the paper, or the largest smaller one in which the largest of our numbers is at least 1."""
    largest = max((value for value in values if not isinstance(value, str)), default=UNITS[printed])
    family = ("GB", "MB", "kB", "B") if printed.endswith("B") else ("M", "k", "")
    smaller = family[family.index(printed) :]
    return next((unit for unit in smaller if largest >= UNITS[unit]), smaller[-1])


def _in_unit(value: float, unit: str, column: dict, row: dict) -> str:
    decimals = len(row[column["published"]].partition(".")[2]) if unit == column["unit"] else 1
    return f"{value / UNITS[unit]:.{decimals if UNITS[unit] > 1 else 0}f}"


def build_resources(spec: dict, how: dict, context: Context, published: list[dict], count: bool) -> Comparison:
    counts, languages = Counts(context, load_counts(context)), how["languages"]
    with_total = "total" in published[0]
    blocks = []
    for group in how["groups"]:
        rows = []
        for row in group["rows"]:
            [printed] = [
                own for own in published if (own["section"], own["resource"]) == (group["section"], row["published"])
            ]
            shown = [printed[code] for code in languages] + ([printed["total"]] if with_total else [])
            ours = [_pairs(row, code, printed[code], counts, context) for code in languages]
            cells = [_pair_cell(value) for value in ours]
            if with_total:
                cells.append(_total(ours, printed["total"], row))
            lines = [Line(PRINTED, [Value(text) for text in shown])]
            if "why" not in row:
                lines.append(Line(SCALE, cells))
            else:
                lines.append(Line(SCALE, [Value(reason=row["why"]) if text else Value() for text in shown]))
            rows.append(Row(row["published"], lines, row.get("run", "")))
        blocks.append(Block(group["title"], rows))
    headings = [*languages, *(["Total"] if with_total else [])]
    return Comparison(spec, context, headings, blocks, side=False)


def _pairs(row: dict, code: str, printed: str, counts: Counts, context: Context) -> int | str | None:
    """Pairs of a language with English; None where neither the paper nor the run has any."""
    if "why" in row:
        return None
    pair, state = pair_with_english(code), row.get("state", "kept")
    if "run" not in row:
        return counts.of([("bitext", row["corpus"], pair)], state, "pairs") if printed else None
    sources = counts.sources(row["run"], "bitext")
    named = [own for own in compare_specs.pairs_read(context.config.runs[row["run"]]) if own[2] == pair]
    if isinstance(sources, str):
        return sources
    if "corpus" in row:
        named, sources = ([own for own in some if own[1] == row["corpus"]] for some in (named, sources))
    own = [source for source in sources if source[2] == pair]
    if not own:
        if not named:
            return f"run {row['run']} reads none" if printed else None
        return f"not at scale {context.scale}"
    found = counts.of(own, "kept" if state == "taken" else state, "pairs")
    limit = resolve_run(context.config, row["run"])["data"]["bitext"].get("limit")
    return min(found, limit) if state == "taken" and limit and isinstance(found, int) else found


def _pair_cell(value: int | str | None) -> Value:
    if value is None:
        return Value()
    return Value(reason=value) if isinstance(value, str) else Value(pair_words(value))


def _total(values: list[int | str | None], printed: str, row: dict) -> Value:
    numbers = [value for value in values if isinstance(value, int)]
    if not printed and "run" not in row:
        return Value()
    if not numbers:
        return Value(reason=next((value for value in values if isinstance(value, str)), "")) if printed else Value()
    return Value(pair_words(sum(numbers)))


def pair_words(value: int) -> str:
    """2.1M, 250k, 15000."""
    if value >= 1e6:
        return f"{value / 1e6:.1f}M"
    return f"{value / 1e3:.0f}k" if value >= 1e5 else str(value)
