"""The claims at every scale side by side."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from common.errors import UserError
from report import latex
from report.intervals import FEWEST_TRAININGS
from report.measured import (
    DIRECTION,
    ENOUGH,
    LEVEL,
    LOOKED_TWICE,
    MARKS,
    NO_DATA,
    NOT_REPRODUCED,
    NOT_TESTABLE,
    REPRODUCED,
    UNDECIDED,
    VERDICTS,
)
from report.verdicts import counts_of

DIFFER = "scales differ"
AGREED = (*VERDICTS[:3], DIFFER, *VERDICTS[3:])
ALL_MARKS = {**MARKS, DIFFER: "±"}
FAILING = 0.2  # the failure of the example: one training in five

METHOD = " ".join(
    f"""
    Each claim is a difference in favour of the paper, in points, beside the published one (`+1.9 of +17.8'), or a ratio
    of costs. Averages are over those languages of the paper's that a scale has; where the paper prints its cells by
    language, their difference over these languages stands beside its own (`+14.8 here'), and ours is a share of that.
    States are read as deep in the model as the paper reads them, also where a scale's tables read another layer.
    In square brackets: its {LEVEL:.0%} interval; of a chain of differences {LEVEL:.0%} hold for all at once.
    Fine-tunings of one pre-training are averaged; n counts the pre-trainings, over which the interval is Student's t,
    with what drawing other test items would change added to it. Both sides have the same seeds and items. Of fewer
    than {FEWEST_TRAININGS} pre-trainings there is no verdict: fine-tunings of one pre-training differ less than
    pre-trainings do, and a verdict on them would be about these weights, not about the method. An undecided claim may
    be tried again with more of them, and says so: then its interval is that of {1 - (1 - LEVEL) / 2:.1%}, so that in
    both tries together at most {1.5 * (1 - LEVEL):.1%} of all claims without a difference are decided, and not
    {2 * (1 - LEVEL):.0%}.
    + reproduced: the whole interval is on the claim's side, and the difference is at least {ENOUGH:.0%} of the
    published one. (+) direction only: it is on that side, and smaller. − not reproduced: the whole interval is on
    the other side. ? undecided: neither; where the whole interval lies below {ENOUGH:.0%} of the published difference,
    that is said. o no data, / not testable: no verdict, for the reason given.
    Arithmetic of pre-training, with that of all that a run starts from, is told where one side has a tenth more: what
    is gained may then be more training.
    As good as, and equal: within a margin by a rule of published numbers (tie in config/claims.yaml), equal by two
    one-sided tests.
    Corrected: what is still decided where {1 - LEVEL:.0%} of the decided claims of a scale may be false (Benjamini and
    Hochberg); counts of costs are no tests and stay. Over seeds alone: where it is not known what a test item adds,
    as of BLEU, of single layers and of averages with exact match.
    """.split()
)


def unseen_words(numbers: Iterable[int]) -> str:
    """What no interval from so few can tell."""
    shares = ", ".join(f"{(1 - FAILING) ** n:.0%} of the times with n = {n}" for n in numbers)
    return (
        "What n pre-trainings cannot show is a failure that none of them had: where one training in "
        f"{1 / FAILING:.0f} fails, none does in {shares}, and no interval knows of it. So a fine-tuning that fails on "
        "English dev is started again by its recipe's rule, and how often that was counts as a number of each method."
    )


def agreed(verdicts: Sequence[str]) -> str:
    """What all say; half an effect where one has no more; no data and not testable where one of them is that."""
    for missing in (NO_DATA, NOT_TESTABLE):
        if missing in verdicts:
            return missing
    held = [verdict in (REPRODUCED, DIRECTION) for verdict in verdicts]
    if all(held):
        return DIRECTION if DIRECTION in verdicts else REPRODUCED
    if any(held) and NOT_REPRODUCED in verdicts:
        return DIFFER
    return UNDECIDED if UNDECIDED in verdicts else NOT_REPRODUCED


def combine(found: Sequence[dict], agree: Sequence[str]) -> dict:
    """The ledger: of each claim of the first scale what every scale has of it, and the verdict of those that count."""
    by_scale = {one["scale"]: {claim["id"]: claim for claim in one["claims"]} for one in found}
    counting = [scale for scale in by_scale if scale in agree] or [found[0]["scale"]]
    shared = ("id", "paper", "paper_name", "where", "says", "note", "kind", "runs", "published", "published_words")
    rows = []
    for first in found[0]["claims"]:
        own = {scale: claims[first["id"]] for scale, claims in by_scale.items() if first["id"] in claims}
        verdicts = {
            key: agreed([own[scale][key] if scale in own else NO_DATA for scale in counting])
            for key in ("verdict", "verdict_corrected")
        }
        only = {
            scale: {key: value for key, value in claim.items() if key not in shared} for scale, claim in own.items()
        }
        about = {key: first[key] for key in shared}
        rows.append({**about, **verdicts, "mark": ALL_MARKS[verdicts["verdict"]], "by_scale": only})
    numbers = sorted({link["trainings"] for row in rows for one in row["by_scale"].values() for link in one["links"]})
    ledger = {
        "scale": found[0]["scale"],
        "scales": [{"scale": one["scale"], "words": one["words"]} for one in found],
        "agree": counting,
        "method": METHOD + " " + unseen_words([n for n in numbers if n >= FEWEST_TRAININGS] or [FEWEST_TRAININGS]),
        "claims": rows,
    }
    return {**ledger, "summary": summary(ledger)}


def summary(ledger: dict) -> list[dict]:
    """Rows of counts: each scale alone and corrected, and where those that count agree, by paper too."""
    rows, claims = [], ledger["claims"]
    for words, key in (("", "verdict"), (", corrected", "verdict_corrected")):
        for scale in (one["scale"] for one in ledger["scales"]):
            found = [row["by_scale"][scale][key] if scale in row["by_scale"] else NO_DATA for row in claims]
            rows.append({"name": f"{scale}{words}", "counts": agreed_counts(found)})
    if len(ledger["agree"]) > 1:
        both = " and ".join(ledger["agree"])
        for words, key in (("", "verdict"), (", corrected", "verdict_corrected")):
            rows.append({"name": f"{both} agree{words}", "counts": agreed_counts(row[key] for row in claims)})
    for paper in dict.fromkeys(row["paper_name"] for row in claims):
        own = [row["verdict"] for row in claims if row["paper_name"] == paper]
        rows.append({"name": f"of them {paper}", "counts": agreed_counts(own)})
    return rows


def agreed_counts(verdicts: Iterable[str]) -> dict[str, int]:
    verdicts = list(verdicts)
    return {**counts_of(verdicts), DIFFER: verdicts.count(DIFFER)}


@dataclass(frozen=True)
class Line:
    """One difference of a claim, with what each scale has measured of it."""

    paper: str
    name: str
    published: float | None
    at: dict[str, tuple[float, tuple[float, float] | None]]  # scale -> effect, interval


def lines_of(ledger: dict) -> list[Line]:
    """Every difference in points that a paper prints or a scale has measured, in the order of the claims."""
    found = []
    for claim in ledger["claims"]:
        if claim["kind"] == "cost":
            continue
        links = {scale: one["links"] for scale, one in claim["by_scale"].items()}
        for place, published in enumerate(claim["published"]):
            at = {
                scale: (own[place]["estimate"], own[place]["interval"])
                for scale, own in links.items()
                if len(own) > place
            }
            several = f" {place + 1}" if len(claim["published"]) > 1 else ""
            if at or published is not None:
                found.append(Line(claim["paper_name"], claim["id"] + several, published, at))
    return found


def shown_verdicts(ledger: dict) -> list[str]:
    return [verdict for verdict in AGREED if verdict != DIFFER or len(ledger["agree"]) > 1]


def measured_lines(one: dict) -> list[str]:
    """What was measured, a line a link, and the control's."""
    several = len(one["links"]) > 1
    return [(f"{link['words']}: " if several else "") + link["measured_words"] for link in one["links"]]


def numbers_of(one: dict) -> str:
    return "/".join(map(str, sorted({link["trainings"] for link in one["links"]})))


def verdict_words(one: dict) -> str:
    """`+ reproduced`, and what correction leaves of it."""
    words = f"{one['mark']} {one['verdict']}"
    lost = one.get("verdict_corrected", one["verdict"]) != one["verdict"]
    again = any(LOOKED_TWICE in link["notes"] for link in one["links"])
    return words + ", tried again" * again + ", not after correction" * lost


def reason_words(one: dict) -> list[str]:
    notes = dict.fromkeys(note for link in one["links"] for note in link["notes"])
    return [f"{words.rstrip('.')}." for words in (one["reason"], *notes) if words]


def control_words(one: dict) -> str | None:
    control = one.get("control")
    if not control:
        return None
    measured = "; ".join(measured_lines(control))
    said = f"{measured}: {control['verdict']}" if measured else f"{control['verdict']}, {control['reason']}"
    return f"Against {control['run']}, which goes on: {said}."


def render(ledger: dict) -> str:
    """The section of the document: how many claims hold, and each of them."""
    lines = ["% written by make_ledger.py", r"\section*{Claims}\label{claims}"]
    if not ledger["claims"]:
        return "\n".join([*lines, "No claim rests on the selected items alone.", ""])
    scales = [one["scale"] for one in ledger["scales"]]
    words = " ".join(one["words"] for one in ledger["scales"])
    lines += [latex.escape(f"{words} {ledger['method']}"), "", *summary_lines(ledger)]
    width = {1: (0.38, 0.5), 2: (0.3, 0.28), 3: (0.22, 0.215)}.get(len(scales), (0.2, 0.66 / len(scales)))
    both = len(ledger["agree"]) > 1
    column = r">{\raggedright\arraybackslash}p{%s\linewidth}"
    columns = "".join(column % of for of in (width[0], *[width[1]] * len(scales), *[0.09] * both))
    head = ["Claim (where)", *(f"Scale {scale}" for scale in scales), *["Agreed"] * both]
    lines += [
        r"\begingroup\footnotesize\setlength{\tabcolsep}{3pt}",
        rf"\begin{{longtable}}{{@{{}}{columns}@{{}}}}",
        r"\toprule",
        " & ".join(latex.escape(text) for text in head) + r" \\",
        r"\midrule",
        r"\endhead",
        r"\bottomrule",
        r"\endlastfoot",
    ]
    paper = None
    for claim in ledger["claims"]:
        if claim["paper"] != paper:
            lines += [] if paper is None else [r"\addlinespace[3pt]"]
            paper = claim["paper"]
            name = latex.escape(claim["paper_name"])
            lines.append(rf"\multicolumn{{{len(head)}}}{{@{{}}l}}{{\bfseries {name}}} \\*")
        lines += [row_of(claim, scales, both), r"\addlinespace[2pt]"]
    return "\n".join([*lines, r"\end{longtable}", r"\endgroup", ""])


def row_of(claim: dict, scales: Sequence[str], both: bool) -> str:
    says = f"{latex.escape(claim['says'])} ({latex.escape(claim['where'])})."
    says += rf" \textit{{{latex.escape(claim['note'])}}}" if claim["note"] else ""
    cells = [says, *(cell_of(claim, claim["by_scale"].get(scale)) for scale in scales)]
    if both:
        cells.append(rf"\textbf{{{latex.escape(claim['mark'])} {claim['verdict']}}}")
    return " & ".join(cells) + r" \\"


def cell_of(claim: dict, one: dict | None) -> str:
    if one is None:
        return "--"
    lines = [latex.escape(line) for line in measured_lines(one)]
    if lines:
        lines[-1] += f", $n$ = {numbers_of(one)}"
    else:
        lines = [f"-- of {latex.escape(words)}" for words in claim["published_words"]]
    verdict = rf"\textbf{{{latex.escape(verdict_words(one))}}}"
    reasons = " ".join(breakable(latex.escape(words)) for words in reason_words(one))
    lines.append(f"{verdict}: {reasons}" if reasons else f"{verdict}.")
    if control := control_words(one):
        lines.append(rf"\textit{{{breakable(latex.escape(control))}}}")
    return r"\newline ".join(lines)


def breakable(text: str) -> str:
    """A line may end within a path and a run's name."""
    return text.replace("/", r"/\allowbreak{}").replace("-", r"-\allowbreak{}").replace(r"-\allowbreak{}{}-", "-{}-")


def summary_lines(ledger: dict) -> list[str]:
    verdicts = shown_verdicts(ledger)
    lines = [
        r"\begingroup\footnotesize\setlength{\tabcolsep}{3pt}",
        r"\begin{tabular}{@{}l" + "r" * len(verdicts) + "@{}}",
        r"\toprule",
        " & ".join(["", *(latex.escape(verdict.removesuffix(" at this scale")) for verdict in verdicts)]) + r" \\",
        r"\midrule",
    ]
    for row in ledger["summary"]:
        lines.append(" & ".join([latex.escape(row["name"]), *(str(row["counts"][v]) for v in verdicts)]) + r" \\")
    return [*lines, r"\bottomrule", r"\end{tabular}\par\endgroup", ""]


def markdown(ledger: dict) -> str:
    """The counts, and below the verdicts side by side, for a README."""
    verdicts, scales = shown_verdicts(ledger), [one["scale"] for one in ledger["scales"]]
    lines = markdown_table(
        ["claims", *(verdict.removesuffix(" at this scale") for verdict in verdicts)],
        [[row["name"], *(str(row["counts"][verdict]) for verdict in verdicts)] for row in ledger["summary"]],
    )
    both = ["agreed"] * (len(ledger["agree"]) > 1)
    rows = []
    for claim in ledger["claims"]:
        cells = [markdown_cell(claim["by_scale"].get(scale)) for scale in scales]
        rows.append([f"`{claim['id']}`", *cells, *(f"**{claim['verdict']}**" for _ in both)])
    return "\n".join([*lines, "", *markdown_table(["claim", *scales, *both], rows), ""])


def markdown_cell(one: dict | None) -> str:
    return "--" if one is None else "<br>".join([*measured_lines(one), f"{verdict_words(one)}"])


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows)]


def read_ledger(path: Path, scale: str) -> dict:
    """What this script wrote of a scale, for the page and the figure."""
    try:
        ledger = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{path}: no such file; run make_ledger") from None
    except ValueError as error:
        raise UserError(f"{path}: not JSON ({error}); run make_ledger again") from None
    if not isinstance(ledger, dict) or not isinstance(ledger.get("claims"), list) or "summary" not in ledger:
        raise UserError(f"{path}: holds no 'claims' and 'summary'; run make_ledger again")
    if ledger.get("scale", scale) != scale:
        raise UserError(f"{path}, key 'scale': {ledger['scale']!r} where {scale!r} is expected; run it again")
    return ledger


def read_found(path: Path) -> dict:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        assert found["claims"] is not None and found["scale"] and found["words"]
    except FileNotFoundError:
        raise UserError(f"{path}: no such file; run evaluate_claims") from None
    except (ValueError, KeyError, TypeError, AssertionError) as error:
        raise UserError(f"{path}: not what evaluate_claims writes ({error}); run it again") from None
    return found
