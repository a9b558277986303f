"""Verdicts on claims, from what was measured, and how a file says them."""

import math
from collections.abc import Iterable
from operator import attrgetter
from pathlib import Path
from statistics import fmean

from plan import claims
from plan.check_claims import differences
from plan.claimed import links_here, looked_at_twice, second_look, untestable
from plan.claims import Link
from plan.config import Config
from plan.published_here import differences_here
from report.intervals import FEWEST_TRAININGS, MOST_TRAININGS, adjusted, trainings_to_decide
from report.measured import (
    DECIDED,
    DIRECTION,
    ENOUGH,
    LEVEL,
    MARKS,
    NO_DATA,
    NOT_REPRODUCED,
    NOT_TESTABLE,
    NOTHING,
    REPRODUCED,
    UNDECIDED,
    VERDICTS,
    Evidence,
    Measured,
    Missing,
    Result,
    Untestable,
    check_there,
    measure,
)
from report.run_flops import flops_with_start
from report.table_spec import paper_names

UNLIKE = 1.1  # times the arithmetic of the other side: from there on it is said


def tried(config: Config, scores_root: Path, trainings_root: Path) -> list[dict]:
    """Every claim on the scores of one scale, as claims.json has it: each verdict alone and corrected."""
    names, once = paper_names(config.root), Evidence(config, scores_root, trainings_root)
    twice = [looked_at_twice(config, claim) for claim in config.claims]
    again = Evidence(second_look(config), scores_root, trainings_root, looks=2) if any(twice) else once
    asked = zip(config.claims, twice, strict=True)
    return corrected([to_json(evaluate(config, again if both else once, claim), names) for claim, both in asked])


def evaluate(config: Config, evidence: Evidence, claim: dict) -> Result:
    """One claim with what was measured of it."""
    if reason := untestable(config, claim):
        return Result(claim, NOT_TESTABLE, reason)
    evidence.used = set()
    try:
        check_there(config, evidence, claim)
        links = links_here(config, claim)
        if claims.kind_of(claim) == "cost" and "reach" in claim["cost"]:
            result = evaluate_reaching(evidence, claim, links)
        else:
            level = 1 - (1 - LEVEL) / len(links) / evidence.looks  # all of a chain, and every look, at once
            published = differences(claim["published"])
            if claims.kind_of(claim) == "cost":
                published = [None] * len(links)
            both = zip(links, published, differences_here(config, claim), strict=True)
            measured = [measure(evidence, link, level, *in_print) for link, *in_print in both]
            result = Result(claim, *verdict_of(measured), measured)
    except Missing as missing:
        return Result(claim, NO_DATA, str(missing))
    except Untestable as reason:
        return Result(claim, NOT_TESTABLE, str(reason))
    for one in result.measured:
        one.notes += arithmetic_words(evidence, one.link)
    result.files = sorted(evidence.used)
    if control := claims.control_of(claim):
        result.control = evaluate(config, evidence, control)
    return result


def arithmetic_words(evidence: Evidence, link: Link) -> list[str]:
    """What the sides of a difference cost, where they do not cost the same: part of a lead may be more training."""
    if link.of_costs:
        return []
    runs = [side.run for side in link.sides]
    counted = [evidence.costs(run, "ours") if run in evidence.config.pretrained else {} for run in runs]
    seeds = set(counted[0]) & set(counted[1])
    flops = [
        fmean(of[seed] for seed in seeds) if seeds else flops_with_start(evidence.config, run)
        for of, run in zip(counted, runs, strict=True)
    ]
    if not all(flops):  # untrained, an aligner, or a checkpoint
        return []
    less, more = sorted(zip(flops, runs, strict=True))
    ratio = more[0] / less[0]
    return [f"Pre-training took {more[1]} {ratio:.1f} times the arithmetic of {less[1]}."] if ratio >= UNLIKE else []


def verdict_of(measured: list[Measured]) -> tuple[str, str]:
    """A chain holds where every link does, and does not where one does not."""
    decided = [one.decided for one in measured]
    if NOT_REPRODUCED in decided:
        wrong = measured[decided.index(NOT_REPRODUCED)]
        return NOT_REPRODUCED, "" if len(measured) == 1 else f"{link_words(wrong.link)} does not hold"
    if UNDECIDED in decided:
        open_links = [one for one in measured if one.decided == UNDECIDED]
        too_small = [one for one in open_links if one.most is not None and one.most < ENOUGH]
        if not too_small:
            return UNDECIDED, advice(open_links)
        # Whether there is any difference stays open; that it is not the paper's does not.
        least = min(too_small, key=attrgetter("most"))
        of = "" if len(measured) == 1 else f" for {link_words(least.link)}"
        percent = math.ceil(round(100 * least.most, 6))
        return UNDECIDED, f"{advice(open_links)}; at most {percent} % of the published difference{of}"
    shares = [(one.share, one) for one in measured if one.share is not None and one.share < ENOUGH]
    if shares:
        least, one = min(shares, key=lambda pair: pair[0])
        of = "" if len(measured) == 1 else f" for {link_words(one.link)}"
        return DIRECTION, f"{math.floor(100 * least)} % of the published difference{of}"
    return REPRODUCED, ""


def advice(open_links: list[Measured]) -> str:
    """What would decide, if the numbers stay as they are."""
    fewest = min(len(one.found.by_training) for one in open_links)
    if any(one.interval is None for one in open_links):
        return f"{fewest} pre-training{'s' if fewest > 1 else ''}; at least {FEWEST_TRAININGS} are needed"
    # a difference within the margins of an equality is closest to leaving one of them
    margins = [
        one.margin if one.link.within is None else math.copysign(one.link.within, one.found.mean) for one in open_links
    ]
    needed = [trainings_to_decide(one.found, margin) for one, margin in zip(open_links, margins, strict=True)]
    if None in needed:
        same = all(one.found.of_trainings == 0 and one.found.mean == one.margin for one in open_links)
        return "no difference in any seed" if same else "more test items, not pre-trainings, would decide"
    if max(needed) > MOST_TRAININGS:
        return f"more than {MOST_TRAININGS} pre-trainings would decide, if the difference stays"
    return f"{max(needed)} pre-trainings would decide, if the difference stays"


def evaluate_one(claim: dict, score: Measured, cost: Measured) -> Result:
    """A claim on one training and no other: it has to be as good as it is cheap."""
    run = score.link.better.run
    misses = [(score, "is not there"), (cost, "costs too much")]
    if missed := [words for one, words in misses if one.decided == NOT_REPRODUCED]:
        return Result(claim, NOT_REPRODUCED, f"{run} {' and '.join(missed)}", [score, cost])
    verdict, reason = verdict_of([score, cost])
    if verdict == UNDECIDED and score.found.mean < score.margin:
        reason = f"{run} is not there on average; {reason}"
    return Result(claim, verdict, reason, [score, cost])


def evaluate_reaching(evidence: Evidence, claim: dict, links: list[Link]) -> Result:
    """Of several trainings the cheapest that is as good as the other run on average, and its cost."""
    level = 1 - (1 - LEVEL) / evidence.looks
    tried = [tuple(measure(evidence, link, level) for link in links[i : i + 2]) for i in range(0, len(links), 2)]
    if len(tried) == 1:
        return evaluate_one(claim, *tried[0])
    tried.sort(key=lambda pair: (-pair[1].found.mean, pair[1].link.better.run))  # the cheapest first
    there = [pair for pair in tried if pair[0].found.mean >= pair[0].margin]
    if not there:
        open_ones = [pair for pair in tried if pair[0].decided != NOT_REPRODUCED]
        nearest = max(open_ones or tried, key=lambda pair: pair[0].found.mean)
        words = "none of the trainings tried is there"
        if not open_ones:
            return Result(claim, NOT_REPRODUCED, words, [*nearest], all_fail=[score for score, _ in tried])
        words += f" on average; {advice([score for score, _ in open_ones])}"
        return Result(claim, UNDECIDED, words, [*nearest])
    score, cost = there[0]
    if cost.decided == REPRODUCED:
        decided = score.decided == REPRODUCED
        return Result(claim, *((REPRODUCED, "") if decided else (UNDECIDED, advice([score]))), [score, cost])
    if cost.decided == UNDECIDED:
        return Result(claim, UNDECIDED, advice([cost]), [score, cost])
    if there[0] is tried[0]:
        words = f"{score.link.better.run} is there, and nothing cheaper was tried"
        return Result(claim, UNDECIDED, words, [score, cost])
    cheaper = [one for one, _ in tried[: tried.index(there[0])]]
    if any(one.decided != NOT_REPRODUCED for one in cheaper):  # one of them may be there too
        open_ones = [one for one in cheaper if one.decided == UNDECIDED]
        words = f"{score.link.better.run} is the cheapest that is there on average; {advice(open_ones)}"
        return Result(claim, UNDECIDED, words, [score, cost])
    words = f"{score.link.better.run} is the cheapest that is there"
    return Result(claim, NOT_REPRODUCED, words, [score, cost], all_fail=cheaper)


def link_words(link: Link) -> str:
    """`ernie-m-base > xlm-r`, or what else tells the two sides apart."""
    if link.of_costs:
        above, below = link.sides if link.at_most else link.sides[::-1]
        return f"cost of {above.run} / {below.run}"
    names = []
    for side, other in (link.sides, link.sides[::-1]):
        (_, one), (_, another) = side.measures[0], other.measures[0]
        if side.run != other.run:
            names.append(side.run)
        elif one.depth != another.depth:
            names.append(f"layer {one.depth[0]}")
        else:
            names.append(one.setting)
    if link.within is not None:
        return f"{' = '.join(names)} within {link.within:g}"
    return " > ".join(names) + (f" − {-link.margin:g}" if link.margin < 0 else "")


def measured_words(one: Measured) -> str:
    """`+1.2 [−0.3, +2.7] of +5.0`, the published one, of costs `0.79 times [0.78, 0.80]`."""
    ends = () if one.interval is None else one.interval
    if one.link.of_costs:
        sign = -1 if one.link.at_most else 1
        text = f"{times(sign * one.found.mean)} times"
        words = sorted(sign * end for end in ends)
        return f"{text} [{', '.join(map(times, words))}]" if ends else text
    text = f"{points(one.found.mean)} [{', '.join(map(points, ends))}]" if ends else points(one.found.mean)
    if one.published is None:
        return text
    here = "" if one.published_here is None else f" ({published_points(one.published_here)} here)"
    return f"{text} of {published_points(one.published)}{here}"


def published_points(value: float) -> str:
    return f"{value:+}".replace("-", "−")


def times(logarithm: float) -> str:
    value = math.exp(logarithm)
    return f"{value:.2f}" if value < 10 else f"{value:.0f}"


def points(value: float) -> str:
    return f"{value:+.1f}".replace("-", "−") if abs(value) >= 0.05 else "0.0"


def published_words(claim: dict) -> list[str]:
    costs = claims.kind_of(claim) == "cost"
    words = []
    for difference in differences(claim["published"]):
        if difference is None:
            words.append(NOTHING)
        else:
            words.append(f"{difference} times" if costs else published_points(difference))
    return words


def rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 6) + 0.0


def to_json(result: Result, names: dict[str, str]) -> dict:
    claim = result.claim
    return {
        "id": claim["id"],
        "paper": claim["paper"],
        "paper_name": names[claim["paper"]],
        "where": claim["where"],
        "says": claim["says"],
        "note": claim.get("note"),
        "kind": claims.kind_of(claim),
        "runs": claims.runs_of(claim),
        "published": differences(claim["published"]),
        "published_words": published_words(claim),
        **verdict_json(result),
        "p_value": rounded(result.p_value),
        "files": result.files,
        "control": None
        if result.control is None
        else {"run": claim["control"]["run"], **verdict_json(result.control), "files": result.control.files},
    }


def verdict_json(result: Result) -> dict:
    return {
        "verdict": result.verdict,
        "mark": MARKS[result.verdict],
        "reason": result.reason,
        "links": [link_json(one) for one in result.measured],
    }


def link_json(one: Measured) -> dict:
    found = one.found
    return {
        "words": link_words(one.link),
        "measured_words": measured_words(one),
        "unit": "logarithm of times" if one.link.of_costs else "points",
        "estimate": rounded(found.mean),
        "interval": None if one.interval is None else [rounded(end) for end in one.interval],
        "level": rounded(found.level),
        "margin": rounded(one.margin),
        "within": one.link.within,
        "published": one.published,
        "published_here": one.published_here,
        "share": rounded(one.share),
        "languages": one.languages,
        "seeds": one.seeds,
        "by_seed": [rounded(value) for value in found.by_seed],
        "trainings": len(found.by_training),
        "by_training": [rounded(value) for value in found.by_training],
        "items_counted": found.with_items,
        "variance": {"between_trainings": rounded(found.of_trainings), "of_items": rounded(found.of_items)},
        "verdict": one.decided,
        "notes": one.notes,
    }


def corrected(found: list[dict]) -> list[dict]:
    """With each claim its verdict after Benjamini and Hochberg over the claims of the scale: what is no longer decided
    at the same level is undecided. Counts are no tests and keep theirs."""
    tested = [claim for claim in found if claim["p_value"] is not None]
    of_all = dict(zip((claim["id"] for claim in tested), adjusted([claim["p_value"] for claim in tested]), strict=True))
    for claim in found:
        p = of_all.get(claim["id"])
        open_again = p is not None and p > 1 - LEVEL and claim["verdict"] in DECIDED
        claim["p_adjusted"] = rounded(p)
        claim["verdict_corrected"] = UNDECIDED if open_again else claim["verdict"]
    return found


def counts_of(verdicts: Iterable[str]) -> dict[str, int]:
    verdicts = list(verdicts)
    return {verdict: verdicts.count(verdict) for verdict in VERDICTS}


def words_of_verdicts(config: Config) -> str:
    """What a reader must know of all verdicts of a scale."""
    if config.scale.get("warning"):
        return f"Scale {config.scale_name}: this scale tests the code, its verdicts mean nothing."
    world = "the generated mini-world" if config.has_world else "real data"
    return f"Scale {config.scale_name}, {world}: a verdict is of this scale, and not of the paper's."
