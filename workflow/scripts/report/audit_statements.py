"""Checks of sentences of the papers against the papers' own tables."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction

from common.errors import UserError
from report.audit import DATA, Audit, Finding
from report.audit_numbers import Line, Number, Row, exactly, mean, parse, select, shown


def lines_of(audit: Audit, item: str, where: str) -> list[Line]:
    if item not in audit.lines:
        raise UserError(f"{where}: config/published/{item}.csv: no such file; mend the item")
    return audit.lines[item]


@dataclass(frozen=True)
class Statement:
    """One number, or word, of a paper's text."""

    item: str
    cells: dict[str, str]  # defaults of the operands
    says: dict
    where: str

    @property
    def printed(self) -> str:
        return self.says["printed"]

    def line(self, audit: Audit, wanted: dict[str, str]) -> tuple[Line, str]:
        """The one line that an operand names, and the column of its number."""
        wanted = {**self.cells, **wanted}
        column = wanted.pop("column", "value")
        item = wanted.pop("item", self.item)
        lines = lines_of(audit, item, self.where)
        if lines and item != self.cells.get("item", self.item):  # the defaults are of the other table
            wanted = {key: value for key, value in wanted.items() if key in lines[0].fields}
        found = select(lines, wanted, f"{self.where}, {item}")
        if len(found) > 1:
            raise UserError(f"{self.where}, {item}: {len(found)} lines fit {wanted}; say more")
        if column not in found[0].fields:
            raise UserError(f"{self.where}, {item}: no column {column!r}")
        return found[0], column

    def text(self, audit: Audit, wanted: dict[str, str]) -> str:
        line, column = self.line(audit, wanted)
        return line.fields[column]

    def number(self, audit: Audit, wanted: dict[str, str]) -> Number:
        line, column = self.line(audit, wanted)
        return line.number(column).times(Fraction(self.says.get("times", 1)))

    def numbers(self, audit: Audit) -> list[Number]:
        return [self.number(audit, wanted) for wanted in self.says["of"]]

    def row(self, audit: Audit, wanted: dict[str, str]) -> Row:
        wanted = {key: value for key, value in {**self.cells, **wanted}.items() if key != "language"}
        found = [row for row in audit.rows if all(getattr(row, key) == value for key, value in wanted.items())]
        if len(found) != 1:
            raise UserError(f"{self.where}: {len(found)} rows fit {wanted}, and not one")
        corrected = {id(one.row): one.corrected for one in audit.misplaced}
        return corrected.get(id(found[0]), found[0])


def statements_of(audit: Audit) -> Iterator[Statement]:
    for block in audit.data["statements"]:
        for says in block["says"]:
            where = f"{DATA}, statements, {block['item']}, {says.get('row')}, {says.get('column')}"
            yield Statement(block["item"], block["cells"], says, where)


def check_statements(audit: Audit) -> None:
    for statement in statements_of(audit):
        form = statement.says["form"]
        printed, recomputed = FORMS[form](audit, statement)
        audit.checked[CHECKS.get(form, "differences and ratios in the texts")] += 1
        if printed != recomputed:
            says = statement.says
            audit.findings.append(Finding(statement.item, says["row"], says["column"], printed, recomputed, "text"))


def _number_form(compute: Callable[..., Number]) -> Callable[[Audit, Statement], tuple[str, str]]:
    def form(audit: Audit, statement: Statement) -> tuple[str, str]:
        printed, recomputed = parse(statement.printed, statement.where), compute(*statement.numbers(audit))
        text = shown(recomputed, 2, strip=True)
        return statement.printed, statement.printed if printed.agrees(recomputed) else text

    return form


def _same(audit: Audit, statement: Statement) -> tuple[str, str]:
    """A repetition may be coarser than what it repeats; at the same precision it must be equal."""
    [number] = statement.numbers(audit)
    printed = parse(statement.printed, statement.where)
    finer = printed.high - printed.value <= number.high - number.value
    holds = printed.value == number.value if finer else printed.agrees(number)
    return statement.printed, statement.printed if holds else shown(number, 2, strip=True)


def _words(audit: Audit, statement: Statement) -> tuple[str, str]:
    [wanted] = statement.says["of"]
    text = statement.text(audit, wanted)
    if text.lower() == statement.printed.lower():
        return statement.printed, statement.printed
    return statement.printed, text.capitalize() if statement.printed[:1].isupper() else text


def _lead_of(audit: Audit, statement: Statement, pair: list[dict]) -> Number:
    a, b = (statement.number(audit, wanted) for wanted in pair)
    return a - b


def _leads(audit: Audit, statement: Statement) -> tuple[str, str]:
    ends = [parse(text, statement.where) for text in statement.printed.split(" to ")]
    allowed = Number(ends[0].value, ends[0].low, ends[-1].high)
    holds, words = True, []
    for name, pairs in statement.says["pairs"].items():
        leads = [_lead_of(audit, statement, pair) for pair in pairs]
        holds &= all(lead.agrees(allowed) for lead in leads)
        values = sorted({lead.value for lead in leads})
        span = " to ".join(dict.fromkeys(shown(value, 1) for value in (values[0], values[-1])))
        words.append(f"({name} {span})" if name else span)
    return statement.printed, statement.printed if holds else " ".join(words)


def _compared(sign: int):
    def form(audit: Audit, statement: Statement) -> tuple[str, str]:
        if statement.says.get("leads"):
            first, *others = (_lead_of(audit, statement, pair) for pair in statement.says["pairs"])
        else:
            first, *others = statement.numbers(audit)
        holds = all(sign * first.value > sign * other.value for other in others)
        values = ", ".join(shown(number, 2, strip=True) for number in (first, *others))
        return statement.printed, statement.printed if holds else values

    return form


def _in_languages(share: Fraction):
    def form(audit: Audit, statement: Statement) -> tuple[str, str]:
        a, b = (statement.row(audit, wanted) for wanted in statement.says["of"])
        common = [code for code in b.languages if code in a.languages]
        equal = statement.says.get("equal", False)
        good = [
            code
            for code in common
            if (
                a.numbers[code].value == b.numbers[code].value
                if equal
                else a.numbers[code].value > b.numbers[code].value
            )
        ]
        holds = len(good) == len(common) if share == 1 else len(good) > share * len(common)
        return statement.printed, statement.printed if holds else f"{len(good)} of {len(common)}"

    return form


def _best(audit: Audit, statement: Statement) -> tuple[str, str]:
    """The system with the mark must have the best number of the group in each metric."""
    says, sign = statement.says, -1 if statement.says.get("lowest") else 1
    wanted = {**statement.cells, **says["among"]}
    lines = lines_of(audit, wanted.pop("item", statement.item), statement.where)
    systems: dict[str, list[Number]] = {}
    texts: dict[str, list[str]] = {}
    for metric in says["metrics"]:
        for line in select(lines, {**wanted, "metric": metric}, statement.where):
            systems.setdefault(line.fields["model"], []).append(line.number("value"))
            texts.setdefault(line.fields["model"], []).append(line.fields["value"])
    marked = systems.get(statement.printed)
    if marked is None:
        raise UserError(f"{statement.where}: {statement.printed} has no such number")
    holds = all(
        sign * marked[i].value >= sign * numbers[i].value for numbers in systems.values() for i in range(len(numbers))
    )
    best = max(systems, key=lambda model: sign * systems[model][0].value)

    def words(of: str, model: str) -> str:
        return f"{of}: {' / '.join(texts[model])} ({model})"

    printed = words("bold", statement.printed)
    return printed, printed if holds else words("best", best)


def _order(audit: Audit, statement: Statement) -> tuple[str, str]:
    texts = " and ".join(statement.text(audit, wanted) for wanted in statement.says["of"])
    pattern = statement.says.get("shown", "{}")
    return pattern.format(statement.printed), pattern.format(texts)


def _columns(audit: Audit, statement: Statement) -> tuple[str, str]:
    known = lines_of(audit, statement.cells["item"], statement.where)[0].fields
    return statement.printed, ", ".join(code for code in statement.printed.split(", ") if code in known)


def _count(audit: Audit, statement: Statement, languages: bool) -> tuple[str, str]:
    [(column, value)] = statement.says["but"].items()
    lines = lines_of(audit, statement.cells["item"], statement.where)
    names = [line.fields[column] for line in lines if line.fields[column] != value]
    found = {code for name in names for code in name.split("-")} if languages else set(names)
    return statement.printed, str(len(found))


# A form gives what is printed and what comes out, equal where the statement holds.
FORMS = {
    "same": _same,
    "words": _words,
    "mean": _number_form(lambda *numbers: mean(numbers)),
    "lead": _number_form(lambda a, b: a - b),
    "share": _number_form(lambda a, b: (a / b).times(100)),
    "less": _number_form(lambda a, b: exactly(100) - (a / b).times(100)),
    "more": _number_form(lambda a, b: (a / b).times(100) - exactly(100)),
    "times": _number_form(lambda a, b: a / b),
    "leads": _leads,
    "above": _compared(1),
    "below": _compared(-1),
    "every": _in_languages(Fraction(1)),
    "most": _in_languages(Fraction(1, 2)),
    "best": _best,
    "order": _order,
    "columns": _columns,
    "lines": lambda audit, statement: _count(audit, statement, languages=False),
    "languages": lambda audit, statement: _count(audit, statement, languages=True),
    "against": lambda audit, statement: (statement.printed, statement.says["found"]),
}
WORDS = ("words", "above", "below", "every", "most", "order", "columns", "against")
CHECKS = {"same": "repetitions in the texts", "best": "marks for the best number"} | dict.fromkeys(
    WORDS, "statements in words"
)
