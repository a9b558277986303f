"""Claims: the intervals cover, pairing cancels what both systems share, verdicts follow from made-up scores, and a slip
in config/claims.yaml is found when the plan is read."""

import csv
import dataclasses
import json
import math
import re
import shutil
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import yaml

import evaluate_claims
import made_up
import make_ledger
import plan.check_claims
import report.verdicts
from common.csvfiles import read_rows
from common.errors import UserError
from made_up import entry
from plan import claims
from plan.check_claims import check_claims, differences
from plan.claimed import (
    all_needs,
    claim_needs,
    claim_trainings,
    links_here,
    looked_at_twice,
    measured_languages,
    second_look,
    untestable,
)
from plan.load import load_config
from plan.needs import canonical_run, needs
from plan.published_here import differences_here
from plan.runs import lineage, trained_run
from report import simulate_intervals
from report.intervals import (
    MOST_TRAININGS,
    Term,
    adjusted,
    central_share,
    estimate,
    holm,
    quantile_of_t,
    trainings_to_decide,
)
from report.ledger import control_words, unseen_words
from report.measured import LOOKED_TWICE, MARKS, Evidence
from report.scores import packed_items
from report.table_spec import PUBLISHED_ERROR, XTREME
from report.verdicts import evaluate, link_words, measured_words, to_json
from trees import copy_tree, edit

# --- the interval -----------------------------------------------------------------------------------------------------


def answers(generator, seeds, items, of_seeds, shared, lead):
    """Right or wrong, [seeds, items], of two systems: both find the same items hard (`hard`), one finds some harder
    than the other does (`own`), and seeds are better and worse. On average the first is ahead by `lead`."""
    hard, own = generator.normal(0, 0.1, items), generator.normal(0, shared, items)
    found = []
    for sign in (1, -1):
        luck = generator.normal(0, of_seeds / math.sqrt(2), (seeds, 1))
        chance = 0.5 + sign * (lead + own) / 2 + luck + hard
        found.append((generator.random((seeds, items)) < chance).astype(float))
    return found


def terms_of(first, second):
    ones = np.ones_like(first)
    return [Term(1.0, 100 * first.mean(1), first, ones), Term(-1.0, 100 * second.mean(1), second, ones)]


@pytest.mark.sampled(6)
@pytest.mark.parametrize("seeds", [3, 5])
@pytest.mark.parametrize("lead", [0.0, 0.06])
@pytest.mark.parametrize(("of_seeds", "shared"), [(0.0, 0.0), (0.02, 0.0), (0.02, 0.15), (0.06, 0.05)])
def test_interval_covers_the_truth(seeds, lead, of_seeds, shared):
    generator = np.random.default_rng(20_000 + seeds)
    covered, trials = 0, 1000
    for _ in range(trials):
        pair = answers(generator, seeds, 100, of_seeds, shared, lead)
        low, high = estimate(terms_of(*pair)).interval
        covered += low <= 100 * lead <= high
    most = 0.99 if of_seeds else 0.995  # where seeds differ by their items alone, these count twice
    assert 0.93 <= covered / trials <= most


RATIOS = ((0, 1), (1, 3), (1, 1), (3, 1), (1, 0))  # deviations of pre-training and of fine-tuning
DESIGNS = {3: ([1] * 3,), 5: ([1] * 5, [2, 2, 1], [5]), 6: ([1] * 6, [2] * 3), 10: ([1] * 10, [2] * 5, [4, 3, 3])}


def wrong_here(noise, design, of_training, of_tuning, trials):
    """How often the interval of the ledger leaves the truth out, of as many trials as give one."""
    generator = np.random.default_rng(11)
    drawn = np.concatenate(
        simulate_intervals.differences(generator, noise, design, of_training, of_tuning, trials), axis=1
    )
    ends = np.cumsum(design)
    groups = [list(range(end - tunings, end)) for end, tunings in zip(ends, design, strict=True)]
    found = [estimate([Term(1.0, values)], groups=groups).interval for values in drawn]
    given = [low > 0 or high < 0 for low, high in filter(None, found)]
    return len(given), sum(given)


@pytest.mark.parametrize("seeds", DESIGNS)
@pytest.mark.parametrize("noise", simulate_intervals.NOISES)
def test_the_interval_is_false_in_one_of_twenty_at_every_ratio(noise, seeds):
    """At most 5 % of false decisions where two methods do not differ, and what chance adds in so many trials: three of
    its deviations. The truth is covered as often. From fewer than three pre-trainings nothing is decided."""
    trials = 20_000
    for design in DESIGNS[seeds]:
        for ratio in RATIOS:
            found = simulate_intervals.wrong(CHOSEN, noise, design, *ratio, trials)
            assert found is None if len(design) < 3 else found <= 0.055, (design, ratio)


CHOSEN = next(iter(simulate_intervals.CANDIDATES))


@pytest.mark.parametrize("design", [[1] * 3, [2, 2, 1], [2] * 5])
def test_the_interval_of_the_simulation_is_that_of_the_ledger(design):
    given, count = wrong_here("normal", design, 1, 2, 300)
    assert given == 300 and count / 300 == simulate_intervals.wrong(CHOSEN, "normal", design, 1, 2, 300, seed=11)
    assert wrong_here("normal", [5], 1, 1, 20) == (0, 0)


def test_other_intervals_are_false_more_often():
    """What made the choice: each of the others is wrong for some design in one of ten or more."""
    worst = {
        name: max(
            simulate_intervals.wrong(name, "normal", design, *ratio, 1000) or 0
            for design in ([1] * 3, [2] * 3, [5])
            for ratio in ((1, 0), (1, 1))
        )
        for name in simulate_intervals.CANDIDATES
    }
    assert worst.pop(CHOSEN) < 0.07 and min(worst.values()) > 0.1


def test_fine_tunings_of_one_pre_training_are_one_difference():
    """Their mean counts, and more of them do not narrow what pre-trainings leave open."""
    values = np.array([1.0, 3.0, 5.0, 4.0, 6.0])
    found = estimate([Term(1.0, values)], groups=[[0, 3], [1, 4], [2]])
    assert found.by_training == (2.5, 4.5, 5.0) and found.mean == pytest.approx(4.0)
    assert found.interval == pytest.approx(estimate([Term(1.0, np.array([2.5, 4.5, 5.0]))]).interval)
    assert estimate([Term(1.0, values)], groups=[[0, 1, 2], [3, 4]]).interval is None


def test_the_variance_of_items_is_that_of_drawing_them():
    """To the first order: against a bootstrap of the items, for two systems, ratios of sums and two test sets."""
    generator = np.random.default_rng(6)
    terms, groups = [], [[0, 3], [1], [2]]
    for weight, length in ((1.0, 300), (-1.0, 300), (0.5, 200)):
        hard = generator.normal(0, 0.3, length)
        below = generator.integers(2, 9, (4, length)).astype(float)
        above = np.round(below * np.clip(0.5 + hard + generator.normal(0, 0.2, (4, length)), 0, 1))
        value = 100 * above.sum(1) / below.sum(1)
        terms.append(Term(weight, 100 - value if weight < 0 else value, above, below, inverted=weight < 0))
    found = estimate(terms, groups=groups)
    shifts = 0.0
    for length in (200, 300):
        times = generator.multinomial(length, np.full(length, 1 / length), size=4000).astype(float)
        for term in terms:
            if term.above.shape[1] == length:
                drawn = 100 * (times @ term.above.T) / (times @ term.below.T)
                shifts = shifts + term.weight * ((100 - drawn if term.inverted else drawn) - term.values)
    of_training = np.stack([shifts[:, group].mean(axis=1) for group in groups], axis=1)
    mean = of_training.mean(axis=1)
    own = ((of_training - mean[:, None]) ** 2).sum(axis=1).mean() / 2 / 3
    assert found.of_items == pytest.approx(mean.var() - own, rel=0.12)


def test_the_p_value_is_where_the_interval_reaches_the_margin():
    generator = np.random.default_rng(7)
    for seeds, items in ((3, 100), (6, 1000)):
        found = estimate(terms_of(*answers(generator, seeds, items, 0.02, 0.2, 0.05)))
        p = found.p_value(1.5)
        low, high = found.interval_at(1 - p)
        assert min(abs(low - 1.5), abs(high - 1.5)) < 1e-6
    alone = estimate([Term(1.0, np.array([14.5, 29.5, 13.6]))])
    assert alone.p_value(0.0) == pytest.approx(0.0652, abs=1e-3)  # Student's t of 19.2 / (8.93 / sqrt 3), two degrees
    assert estimate([Term(1.0, np.array([1.0, 2.0]))]).p_value(0.0) is None


def test_benjamini_and_hochberg():
    """The example of R's p.adjust(c(0.01, 0.02, 0.03, 0.04, 0.05), "BH"), an order that is not theirs, and values that
    would fall where p rises: 0.02 * 3 / 1 and 0.045 * 3 / 2 give way to 0.05."""
    assert adjusted([0.01, 0.02, 0.03, 0.04, 0.05]) == pytest.approx([0.05] * 5)
    assert adjusted([0.045, 0.05, 0.02]) == pytest.approx([0.05] * 3)
    assert adjusted([0.5, 0.001, 0.04]) == pytest.approx([0.5, 0.003, 0.06])
    assert adjusted([]) == []


def test_holm_never_lets_a_larger_p_pass_a_smaller():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.5, 0.001, 0.9]) == pytest.approx([1.0, 0.003, 1.0])
    assert holm([]) == []


def test_what_both_systems_share_cancels():
    """Items and seeds on which both are better by the same change nothing of the difference or its interval."""
    generator = np.random.default_rng(1)
    first, second = generator.random((3, 200)), generator.random((3, 200))
    of_items, of_seeds = generator.normal(0, 5, 200), generator.normal(0, 5, (3, 1))
    alone = estimate(terms_of(first, second))
    shared = estimate(terms_of(first + of_items + of_seeds, second + of_items + of_seeds))
    assert shared.mean == pytest.approx(alone.mean)
    assert shared.interval == pytest.approx(alone.interval)
    # one of them alone has that noise in full
    single = estimate(terms_of(first + of_items + of_seeds, second)[:1])
    assert single.interval[1] - single.interval[0] > 5 * (alone.interval[1] - alone.interval[0])


def test_items_that_are_hard_for_one_system_alone_widen_the_interval():
    generator = np.random.default_rng(2)
    same = np.tile(generator.random(100) < 0.5, (3, 1)).astype(float)
    other = np.tile(generator.random(100) < 0.5, (3, 1)).astype(float)
    found = estimate(terms_of(same, other))  # three seeds that answer alike: items are the only noise
    spread = (same[0] - other[0]).std() * 100 / math.sqrt(100)
    assert found.of_trainings == 0
    assert math.sqrt(found.of_items) == pytest.approx(spread, rel=0.05)
    assert found.interval[1] - found.interval[0] == pytest.approx(2 * 1.96 * spread, rel=0.08)
    assert trainings_to_decide(found, found.mean - 1.5 * spread) is None  # no number of seeds helps
    assert trainings_to_decide(found, found.mean - 3 * spread) is not None


def test_pre_trainings_that_agree_by_luck_are_no_surer_than_their_items_let_them():
    """Each has 60 of 100 right, and not the same ones: their deviation is zero, and that of such numbers is not."""
    generator = np.random.default_rng(4)
    first, second = (np.stack([generator.permutation(np.arange(100) < 60) for _ in range(3)]) * 1.0 for _ in range(2))
    found = estimate(terms_of(first, second))
    adds = first - second - (first - second).mean(axis=0)
    of_three = 100**2 * (adds**2).sum() / 2 / 100 / 99  # what drawing 100 items gives to one pre-training's own part
    assert found.mean == pytest.approx(0) and np.var(found.by_training) == pytest.approx(0)
    assert found.of_answers == pytest.approx(of_three)
    assert found.interval[1] == pytest.approx(1.96 * math.sqrt(of_three / 3 + found.of_items), rel=1e-3)
    assert found.p_value(-found.interval[1]) == pytest.approx(0.05)
    # where they differ by more than that, the deviation is theirs
    apart = estimate(terms_of(np.stack([first[0], first[1] * 0, first[2]]), second))
    drawn = (quantile_of_t(0.95, 2) * np.std(apart.by_training, ddof=1)) ** 2 / 3
    assert apart.interval[1] - apart.mean == pytest.approx(math.sqrt(drawn + 1.96**2 * apart.of_items), rel=1e-3)


def test_ratio_of_sums_and_error_rates():
    """F1 as 2 x hits over predicted and gold: the deviation is that of the ratio, not of the items' own F1."""
    generator = np.random.default_rng(3)
    below = generator.integers(4, 12, (3, 400)).astype(float)
    above = np.floor(below * generator.random((3, 400)))
    value = 100 * above.sum(1) / below.sum(1)
    plain = estimate([Term(1.0, value, above, below)])
    error = estimate([Term(1.0, 100 - value, above, below, inverted=True)])
    assert error.interval == pytest.approx((100 - plain.interval[1], 100 - plain.interval[0]), abs=0.15)
    one = np.tile(above[:1], (3, 1)), np.tile(below[:1], (3, 1))
    same = estimate([Term(1.0, np.repeat(value[:1], 3), *one)])
    errors = 100 * (above[0] - value[0] / 100 * below[0]) / below[0].mean()
    assert math.sqrt(same.of_items) == pytest.approx(errors.std() / math.sqrt(400), rel=0.05)


def test_quantiles_of_t():
    """Printed tables of Student's t, two-sided 95 %."""
    printed = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 9: 2.262, 10: 2.228, 30: 2.042, 120: 1.980}
    assert {n: round(quantile_of_t(0.95, n), 3) for n in printed} == printed
    assert central_share(0.0, 5) == 0.0


def test_number_of_seeds_that_decides():
    """As many as make Student's interval narrower than the lead, and no fewer."""
    values = np.array([1.0, 4.0, -2.0, 3.0])
    found = estimate([Term(1.0, values)])
    needed = trainings_to_decide(found, 0.0)

    def half_width(seeds):
        return quantile_of_t(0.95, seeds - 1) * values.std(ddof=1) / math.sqrt(seeds)

    assert half_width(needed) < values.mean() <= half_width(needed - 1)
    assert trainings_to_decide(found, values.mean() - 0.01) == MOST_TRAININGS + 1


# --- verdicts on made-up scores ---------------------------------------------------------------------------------------

RUNS = {"good": "ernie-m-base", "bad": "xlm-r", "third": "infoxlm-base"}
LANGUAGES = ("ar", "de", "en", "es", "fr", "hi", "ru", "zh")


@cache
def mini():
    return load_config(Path(__file__).parents[1], {"scale": "mini", "runs": "all"})


@pytest.fixture
def config():
    return mini()


def write_score(*given, config=None, **more):
    """As a job of mini would have written it, or of another configuration."""
    return made_up.write_score(*given, config=config or mini(), **more)


@pytest.fixture
def roots(tmp_path):
    return tmp_path / "results/mini/scores", tmp_path / "results/mini/trainings"


def judge(config, roots, looks=1, **claim):
    claim = {"id": "made-up", "paper": "ernie-m", "where": "here", "says": "It is so", **claim}
    kind = claims.kind_of(claim)
    links = 1 if kind == "cost" else len(claims.links_of(claim, config.tasks))
    claim.setdefault("published", {"difference": [None] * links})
    check_claims([claim], config.runs, config.tasks, ["ernie-m"])
    return evaluate(config, Evidence(config, *roots, looks), claim)


def others(result):
    """Its notes but that on arithmetic, which a test of its own looks at."""
    return [note for note in result.measured[0].notes if "arithmetic" not in note]


def write_items(root, run, seeds=3, mean=60.0, of_seeds=0.0, items=100, gap=0.0, config=None):
    """XNLI with items: in each language the first so many are right; English is `gap` better."""
    for seed in range(1, seeds + 1):
        scores, kept = [], {}
        for code in LANGUAGES:
            right = round((mean + of_seeds * (seed - 2) + (gap if code == "en" else 0)) * items / 100)
            scores.append(entry(code, 100 * right / items))
            kept[code] = {"accuracy": packed_items([(float(i < right), 1) for i in range(items)])}
        path = write_score(root, run, "xnli", "cross-lingual-transfer", seed, scores, rule="en_dev", config=config)
        path.write_text(json.dumps({**json.loads(path.read_text()), "items": kept}))


def of_layers(values, codes, metric="accuracy", shift=1.0):
    """By layer, embeddings first; English to the others is above the other way by twice `shift`."""
    both = (("en-xx", shift), ("xx-en", -shift))
    scores = [entry(code, values[-1], metric, 0.25, len(values) - 1, "both") for code in codes]
    name = f"{metric}-by-layer"
    for layer, value in enumerate(values):
        scores += [entry(code, value + own, name, 0.25, layer, way) for way, own in both for code in codes]
    return scores


XNLI = {"task": "xnli", "metric": "accuracy", "setting": "cross-lingual-transfer"}


@pytest.mark.parametrize(
    ("good", "bad", "noise", "verdict"),
    [(80, 60, 0.5, "reproduced"), (60, 80, 0.5, "not reproduced"), (62, 60, 5, "undecided")],
)
@pytest.mark.parametrize("kind", ["better", "gap", "ordering", "settings"])
def test_verdicts(config, roots, kind, good, bad, noise, verdict):
    if kind == "gap":  # the run with the higher English is the one that loses more
        write_items(roots[0], RUNS["good"], mean=40, of_seeds=noise, gap=0)
        write_items(roots[0], RUNS["bad"], mean=40, gap=good - bad)
        test = {"run": RUNS["good"], "than": RUNS["bad"], **XNLI}
        if verdict == "undecided":  # noise of English alone
            for seed in (1, 2, 3):
                path = roots[0] / RUNS["good"] / "xnli/cross-lingual-transfer" / f"seed-{seed}.json"
                content = json.loads(path.read_text())
                right = 40 + 8 * (seed - 2)
                content["scores"][2]["value"] = float(right)
                content["items"]["en"]["accuracy"] = packed_items([(float(i < right), 1) for i in range(100)])
                path.write_text(json.dumps(content))
    elif kind == "settings":
        write_items(roots[0], RUNS["good"], mean=good, of_seeds=noise)
        for path in (roots[0] / RUNS["good"] / "xnli/cross-lingual-transfer").iterdir():
            other = roots[0] / RUNS["good"] / "xnli/translate-train-all" / path.name
            other.parent.mkdir(exist_ok=True, parents=True)
            content = json.loads(path.read_text())
            content |= {"setting": "translate-train-all"}
            del content["items"]  # of one setting alone: seeds decide
            shift = bad - good - noise * (content["seed"] - 2) * 2
            for score in content["scores"]:
                score["value"] += shift
            other.write_text(json.dumps(content))
        test = {"run": RUNS["good"], **XNLI, "than": "translate-train-all"}
    else:
        write_items(roots[0], RUNS["good"], mean=good, of_seeds=noise)
        write_items(roots[0], RUNS["bad"], mean=bad)
        test = {"run": RUNS["good"], "than": RUNS["bad"], **XNLI}
        if kind == "ordering":
            write_items(roots[0], RUNS["third"], mean=30)
            test = {"runs": [RUNS["good"], RUNS["bad"], RUNS["third"]], **XNLI}
    result = judge(config, roots, **{kind: test})
    assert result.verdict == verdict
    assert result.measured[0].found.mean == pytest.approx(good - bad, abs=0.6)
    if verdict == "undecided":
        assert "would decide" in result.reason
    if kind == "ordering" and verdict == "not reproduced":
        assert result.reason == "ernie-m-base > xlm-r does not hold"
        assert result.measured[0].found.level == pytest.approx(0.975)  # two links, 95 % together


def test_margin(config, roots):
    write_items(roots[0], RUNS["good"], mean=70, of_seeds=0.5)
    write_items(roots[0], RUNS["bad"], mean=60)
    test = {"run": RUNS["good"], "than": RUNS["bad"], **XNLI}
    assert judge(config, roots, better={**test, "margin": 3}).verdict == "reproduced"
    assert judge(config, roots, better={**test, "margin": 18}).verdict == "not reproduced"


def test_a_small_part_of_the_published_effect_is_its_direction_alone(config, roots):
    write_items(roots[0], RUNS["good"], mean=64, of_seeds=0.5)
    write_items(roots[0], RUNS["bad"], mean=60)
    test = {"run": RUNS["good"], "than": RUNS["bad"], **XNLI}
    result = judge(config, roots, better=test, published={"difference": 40.0})
    assert (result.verdict, result.reason) == ("direction only", "10 % of the published difference")
    assert measured_words(result.measured[0]).endswith(" of +40.0")
    assert judge(config, roots, better=test, published={"difference": 8.0}).verdict == "reproduced"
    assert judge(config, roots, better=test, published={"difference": 8.1}).verdict == "direction only"
    assert judge(config, roots, better=test, published={"difference": None}).verdict == "reproduced"
    other = {"run": RUNS["bad"], "than": RUNS["good"], **XNLI}
    assert judge(config, roots, better=other, published={"difference": 40.0}).verdict == "not reproduced"
    write_items(roots[0], RUNS["good"], mean=80, of_seeds=0.5)
    write_items(roots[0], RUNS["third"], mean=30)
    chain = {"runs": [RUNS["good"], RUNS["bad"], RUNS["third"]], **XNLI}
    result = judge(config, roots, ordering=chain, published={"difference": [20.0, 100.0]})
    assert (result.verdict, result.reason) == (
        "direction only",
        "30 % of the published difference for xlm-r > infoxlm-base",
    )


def claim_of(config, name):
    return next(claim for claim in config.claims if claim["id"] == name)


def test_ours_is_a_share_of_the_published_difference_in_our_languages(repository, config, roots):
    """By hand: VECO's table 18 in mini's seven languages, and table 12 in two of BUCC's four."""
    rows = list(csv.DictReader((repository / "config/published/veco/table-18.csv").open(encoding="utf-8")))
    zero_shot = [row for row in rows if row["setting"] == "cross-lingual-transfer"]
    in_print = {(row["model"], row["language"]): float(row["value"]) for row in zero_shot}
    codes = ("ar", "de", "es", "fr", "hi", "ru", "zh")
    leads = [in_print["veco-large", code] - in_print["xlm-r-large", code] for code in codes]
    assert differences_here(config, claim_of(config, "veco-tatoeba")) == [pytest.approx(sum(leads) / 7, abs=0.005)]
    assert sum(leads) / 7 < 17.8 - 2
    assert differences_here(config, claim_of(config, "veco-xtreme")) == [pytest.approx(4.51)]
    # Less is better of a gap and of errors: in favour of the claim both are positive.
    assert differences_here(config, claim_of(config, "ernie-m-gap-mlqa")) == [pytest.approx(0.52)]
    assert differences_here(config, claim_of(config, "xlm-e-alignment")) == [pytest.approx(1.45, abs=0.006)]
    # Of mBERT the table has the rows of two other papers: those of the quoted one. Bulgarian alone is lacking here.
    assert differences_here(config, claim_of(config, "ppa-xnli-transfer")) == [pytest.approx(4.51, abs=0.006)]

    test = {"run": "veco-large", "than": "xlm-r", **XNLI}
    claim = {"published": claim_of(config, "ernie-m-xnli-transfer")["published"], "better": test}
    write_items(roots[0], "veco-large", mean=64, of_seeds=0.1, items=1000)
    write_items(roots[0], "xlm-r", mean=60, items=1000)
    assert judge(config, roots, **claim).measured[0].share == pytest.approx(4 / 0.6)
    claim["published"] = {**claim["published"], "better": {"model": "xlm-r-base"}, "than": [{"model": "ernie-m-base"}]}
    behind = judge(config, roots, **claim)  # a lead that the paper has not in these languages: ours is no share of it
    assert (behind.verdict, behind.measured[0].share, behind.measured[0].published_here) == ("reproduced", None, -0.6)


@pytest.mark.parametrize("scale", ["mini", "mini-2", "real", "small", "paper", "smoke"])
def test_where_a_paper_prints_no_other_average_there_is_none(repository, scale):
    """Every claim at every scale: a scale with all the languages has the printed difference alone."""
    config = load_config(repository, {"scale": scale, "runs": "all"})
    for claim in config.claims:
        found = differences_here(config, claim)
        assert len(found) == len(claims.links_of(claim, config.tasks))
        for link, own in zip(claims.links_of(claim, config.tasks), found, strict=True):
            measures = claims.measures_of([link])
            whole = all(set(measured_languages(config, one)) == set(one.languages) for one in measures)
            assert own is None or not whole, claim["id"]
    told = sum(any(differences_here(config, claim)) for claim in config.claims)
    assert told >= 10 or scale == "paper"


def test_a_file_of_cells_by_language_that_holds_none(config):
    """A table of hyper-parameters has neither models nor languages: the printed difference stands alone."""
    claim = claim_of(config, "veco-tatoeba")
    other = {**claim, "published": {**claim["published"], "by_language": ["xlm-e/table-07"]}}
    assert differences_here(config, other) == [None]


def test_a_file_of_cells_by_language_that_is_not_there(repository):
    claim = {"id": "made-up", "published": {"difference": 1.0, "by_language": ["veco/table-99"]}}
    with pytest.raises(
        UserError, match=r"made-up, published\.by_language: config/published/veco/table-99\.csv: no such"
    ):
        plan.check_claims.quoted(repository, claim)


@pytest.mark.parametrize(("deep", "verdict"), [((10, 20, 30, 5), "reproduced"), ((10, 20, 5, 30), "not reproduced")])
@pytest.mark.parametrize("direction", ["en-xx", "both"])
def test_states_are_read_as_deep_as_the_paper_reads_them(config, roots, deep, verdict, direction):
    """Tatoeba's layer of mini's tables is 3; the paper's 7, or 9, of 12 is 2 of 3."""
    for seed in (1, 2, 3):
        for run, values in (("xlm-e-base", deep), ("xlm-r", (17, 17, 17, 17))):
            scores = of_layers([value + seed / 10 * (run == "xlm-r") for value in values], LANGUAGES[:2])
            write_score(roots[0], run, "tatoeba", "zero-shot-retrieval", seed, scores)
    test = {"task": "tatoeba", "metric": "accuracy", "setting": "zero-shot-retrieval", "languages": ["ar", "de"]}
    result = judge(config, roots, better={"run": "xlm-e-base", "than": "xlm-r", **test, "direction": direction})
    assert result.verdict == verdict
    assert result.measured[0].found.mean == pytest.approx(deep[2] - 17.2)
    words = (
        "Read at layer 2, as deep as in the paper, and not at the layer of the tables: tatoeba of xlm-e-base and xlm-r."
    )
    assert words in result.measured[0].notes


def test_states_that_were_trained_at_a_layer_are_read_there(config):
    """ERNIE-M's fine-tuning for retrieval trains the layer that mini's tables read."""
    for name, layers in (
        ("ernie-m-tatoeba-fine-tuned", [None, 2]),
        ("ernie-m-tatoeba", [2, 2]),
        ("veco-bucc", [None] * 2),
    ):
        measures = claims.measures_of(links_here(config, claim_of(config, name)))
        assert [one.layer for one in measures] == layers, name


def test_each_side_is_read_as_deep_as_its_own_paper_reads_it(repository):
    """At real, of four layers, XLM-E's 9 of 12 is 3 as in the tables, and XLM-R's 7 of 12 is 2."""
    config = load_config(repository, {"scale": "real", "runs": "all"})
    links = links_here(config, claim_of(config, "xlm-e-tatoeba-order"))
    read = [(one.run, one.layer) for one in claims.measures_of(links)]
    assert read == [("infoxlm-base", 2), ("xlm-e-base", None), ("xlm-e-base", None), ("xlm-r", 2)]


def test_at_paper_claims_read_what_the_tables_read(repository):
    config = load_config(repository, {"scale": "paper", "runs": "all"})
    measures = [one for claim in config.claims for one in claims.measures_of(links_here(config, claim))]
    assert len(measures) > 100 and {one.layer for one in measures} == {None}


def test_an_open_difference_far_below_the_published_one_says_so(config, roots):
    write_items(roots[0], RUNS["good"], mean=62, of_seeds=1)
    write_items(roots[0], RUNS["bad"], mean=60)
    test = {"run": RUNS["good"], "than": RUNS["bad"], **XNLI}
    alone = judge(config, roots, better=test)
    low, high = alone.measured[0].interval
    assert alone.verdict == "undecided" and low < 0 < high
    for share, added in ((0.51, ""), (0.482, "; at most 49 % of the published difference")):
        result = judge(config, roots, better=test, published={"difference": high / share})
        assert (result.verdict, result.reason) == ("undecided", alone.reason + added)
    chain = {"runs": [RUNS["good"], RUNS["bad"], RUNS["third"]], **XNLI}
    write_items(roots[0], RUNS["third"], mean=30)
    result = judge(config, roots, ordering=chain, published={"difference": [1000.0, 40.0]})
    assert re.search(r"; at most \d+ % of the published difference for ernie-m-base > xlm-r$", result.reason)


@pytest.mark.parametrize(
    ("mean", "of_seeds", "within", "verdict"),
    [
        (60, 1, 3.0, "reproduced"),  # 90 % of Student's t of three: 1.69 x 1 either way
        (60, 1, 1.6, "undecided"),
        (61, 1, 2.5, "undecided"),
        (70, 1, 3.0, "not reproduced"),
        (50, 1, 3.0, "not reproduced"),
        (63, 1, 3.0, "undecided"),
    ],
)
def test_equality_by_two_one_sided_tests(config, roots, mean, of_seeds, within, verdict):
    """Items do not count here: both sides answer the same ones alike but for the mean."""
    for run, average, spread in ((RUNS["good"], mean, of_seeds), (RUNS["bad"], 60, 0)):
        for seed in (1, 2, 3):
            scores = [entry(code, average + spread * (seed - 2)) for code in LANGUAGES]
            write_score(roots[0], run, "xnli", "cross-lingual-transfer", seed, scores, rule="en_dev")
    result = judge(config, roots, equal={"run": RUNS["good"], "than": RUNS["bad"], **XNLI, "within": within})
    assert result.verdict == verdict
    tested = result.measured[0].p_value
    assert (min(tested) <= 0.05) == (verdict != "undecided") and (result.p_value <= 0.05) == (verdict != "undecided")
    assert link_words(result.measured[0].link) == f"ernie-m-base = xlm-r within {within:g}"


def test_as_good_as_is_behind_by_less_than_the_margin(config, roots):
    """A lag of half a point is no lag where a point is a tie, and one where nothing is."""
    write_training(roots[1], "xlm", 8e9)
    write_training(roots[1], "xlm-e-base-steps-25", 1e9)
    write_training(roots[1], "xlm-e-base-steps-50", 2e9)
    for run, average, spread in (("xlm", 60, 0), ("xlm-e-base-steps-25", 20, 0), ("xlm-e-base-steps-50", 59.5, 0.1)):
        for seed in (1, 2, 3):
            scores = [entry(code, average + spread * (seed - 2)) for code in LANGUAGES]
            write_score(roots[0], run, "xnli", "cross-lingual-transfer", seed, scores, rule="en_dev")
    names = ["xlm-e-base-steps-25", "xlm-e-base-steps-50"]
    test = {"runs": names, "than": "xlm", "times": 3.5}
    assert judge(config, roots, cost={**test, "reach": {**XNLI, "margin": 1.0}}).verdict == "reproduced"
    result = judge(config, roots, cost={**test, "reach": {**XNLI, "margin": 0.0}})
    assert (result.verdict, result.reason) == ("not reproduced", "none of the trainings tried is there")


def test_a_control_has_a_verdict_of_its_own(config, roots):
    """Ahead of what it started from, and not of that simply going on."""
    write_items(roots[0], RUNS["good"], mean=80, of_seeds=0.5)
    write_items(roots[0], RUNS["bad"], mean=60)
    test = {"run": RUNS["good"], "than": RUNS["bad"], **XNLI}
    result = judge(config, roots, better=test, control={"run": RUNS["third"]}, published={"difference": 40})
    assert result.verdict == "reproduced" and result.control.verdict == "no data"
    write_items(roots[0], RUNS["third"], mean=90)
    result = judge(config, roots, better=test, control={"run": RUNS["third"]}, published={"difference": 40})
    assert (result.verdict, result.control.verdict) == ("reproduced", "not reproduced")
    found = to_json(result, {"ernie-m": "ERNIE-M"})
    assert control_words(found) == (
        f"Against infoxlm-base, which goes on: {measured_words(result.control.measured[0])}: not reproduced."
    )
    assert len(found["files"]) == 6 and len(found["control"]["files"]) == 6


def test_a_lead_that_more_training_may_have_paid_for_says_so(config, roots):
    """With all that a run starts from: ERNIE-M goes on from XLM-R, and XLM does not."""
    for run, mean in (("ernie-m-base", 70), ("xlm-r", 60), ("xlm", 60)):
        write_items(roots[0], run, mean=mean)
    words = {}
    for flops in ({}, {"xlm-r": 1e9, "ernie-m-base": 4e9, "xlm": 4.6e9}):
        for run, cost in flops.items():
            write_training(roots[1], run, cost)
        for than in ("xlm-r", "xlm"):
            [one] = judge(config, roots, better={"run": "ernie-m-base", "than": than, **XNLI}).measured
            words[bool(flops), than] = [note for note in one.notes if "arithmetic" in note]
    assert words[True, "xlm-r"] == ["Pre-training took ernie-m-base 5.0 times the arithmetic of xlm-r."]
    assert words[True, "xlm"] == []  # 5.0 to 4.6
    [by_configuration] = words[False, "xlm-r"]  # nothing was counted: every row is taken for full
    assert re.fullmatch(r"Pre-training took ernie-m-base 3\.\d times the arithmetic of xlm-r\.", by_configuration)
    # an aligner is not trained by us
    write_score(roots[0], "fast-align", "word-alignment", "zero-shot-retrieval", 1, [entry("de", 20, "error-rate")])
    write_score(roots[0], "xlm", "word-alignment", "zero-shot-retrieval", 1, [entry("de", 30, "error-rate")])
    test = {"task": "word-alignment", "metric": "error-rate", "setting": "zero-shot-retrieval", "languages": ["de"]}
    [one] = judge(config, roots, better={"run": "xlm", "than": "fast-align", **test}).measured
    assert not any("arithmetic" in note for note in one.notes)


def test_what_our_configuration_decides_is_no_finding(config, roots):
    claim = next(claim for claim in config.claims if claim["id"] == "ernie-m-cost")
    result = evaluate(config, Evidence(config, *roots), claim)
    assert (result.verdict, result.reason) == ("not testable at this scale", claim["by_construction"])


def test_a_cost_is_a_count_and_no_test(config, roots):
    """Three seeds that differ by a thousandth would have a p of nothing, and let others pass the correction."""
    for run, flops in (("xlm-r", 3e9), ("xlm", 2e9)):
        write_training(roots[1], run, flops)
    result = judge(config, roots, cost={"runs": ["xlm"], "than": "xlm-r", "at_most": 0.7})
    assert (result.verdict, result.p_value) == ("reproduced", None)


def test_fine_tunings_of_one_pre_training_decide_nothing(repository, roots):
    """Five of them, far apart from five of the other: nothing follows for the methods."""
    shared = load_config(repository, {"scale": "mini", "runs": "all", "seeds": [1, 2, 3, 4, 5]})
    shared.scale["pretrain_seeds"] = 3
    del shared.scale["fine_tunings"]
    write_items(roots[0], RUNS["good"], seeds=5, mean=80, of_seeds=0.5)
    write_items(roots[0], RUNS["bad"], seeds=5, mean=60)
    test = {"run": RUNS["good"], "than": RUNS["bad"], **XNLI}
    one = dataclasses.replace(shared, scale=shared.scale | {"pretrain_seeds": 1})
    result = judge(one, roots, better=test)
    assert (result.verdict, result.reason) == ("undecided", "1 pre-training; at least 3 are needed")
    assert others(result)[-1] == "5 fine-tunings of 1 pre-training."
    result = judge(shared, roots, better=test)
    assert result.verdict == "reproduced" and len(result.measured[0].found.by_training) == 3
    assert result.measured[0].found.by_training[0] == pytest.approx(np.mean(result.measured[0].found.by_seed[::3]))


def test_second_fine_tunings_of_one_side_alone_are_told(repository, roots):
    """Nobody asked for the others: no seed was lost."""
    twice = load_config(repository, {"scale": "mini", "runs": "all", "seeds": [1, 2, 3, 7, 8, 9]})
    write_items(roots[0], RUNS["good"], seeds=9, mean=70, of_seeds=3)
    write_items(roots[0], RUNS["bad"], seeds=3, mean=60, of_seeds=3)
    test = {"run": RUNS["good"], "than": RUNS["bad"], **XNLI}
    result = judge(twice, roots, better=test)
    assert result.measured[0].seeds == [1, 2, 3]
    assert others(result) == ["Each pre-training was fine-tuned once, not twice."]


def test_a_second_look_adds_seeds_and_halves_the_error_of_each(roots):
    """Who tries again until it is decided errs more often than the level says; a second look has half of its error."""
    config = mini()
    by_seed = config.scale | {
        "second_look": {"claims": ["made-up"], "seeds": [13, 14, 15]},
        "reference_seeds": [1, 2, 3],
    }
    kept = dataclasses.replace(config, scale=by_seed, settings=config.settings | {"scores_from": "reference"})
    claim, other = {"id": "made-up"}, {"id": "another"}
    assert looked_at_twice(kept, claim) and not looked_at_twice(kept, other)
    assert not looked_at_twice(dataclasses.replace(config, scale=by_seed), claim), "a user's own seeds are his"
    again = second_look(kept)
    assert again.seeds == [1, 2, 3, 13, 14, 15] and kept.seeds == [1, 2, 3]
    assert not looked_at_twice(again, claim)
    seeds = dataclasses.replace(again, settings=again.settings | {"scores_from": None})  # read what is written here
    for run, mean, of_seeds in (("good", 61, 1.5), ("bad", 60, 0.5)):
        write_items(roots[0], RUNS[run], seeds=15, mean=mean, of_seeds=of_seeds)
    test = {"better": {"run": RUNS["good"], "than": RUNS["bad"], **XNLI}}
    once, twice = (judge(seeds, roots, looks=looks, **test) for looks in (1, 2))
    assert len(twice.measured[0].found.by_training) == 6
    assert (once.measured[0].found.level, twice.measured[0].found.level) == (0.95, 0.975)
    assert twice.p_value == pytest.approx(min(1, 2 * once.p_value)) and 0 < once.p_value < 0.5
    assert others(twice) == [LOOKED_TWICE] and others(once) == []


def test_a_second_look_of_an_unknown_claim_is_refused(repository, tmp_path):
    tree = copy_tree(repository, tmp_path / "tree")
    edit(tree, "config/scales/mini.yaml", "  claims:\n", "  claims:\n    - ernie-m-xnli\n")
    with pytest.raises(UserError, match=r"config/scales/mini.yaml, second_look.claims: .*ernie-m-xnli'.*did you mean"):
        load_config(tree, {"scale": "mini"})
    edit(tree, "config/scales/mini.yaml", "    - ernie-m-xnli\n", "")
    edit(tree, "config/scales/mini.yaml", "  seeds: [13, ", "  seeds: [19, 8, ")
    with pytest.raises(UserError, match=r"second_look.seeds: 8 stands on pre-training 2, which the seeds of the first"):
        load_config(tree, {"scale": "mini"})


@pytest.mark.parametrize(("kind", "words"), [("better", "and counts"), ("gap", "with a gap of nothing")])
def test_a_fine_tuning_that_taught_nothing_is_told(config, roots, kind, words):
    """It counts in a mean; in a gap to English it looks best."""
    write_items(roots[0], RUNS["good"], mean=80, of_seeds=1, gap=5)
    write_items(roots[0], RUNS["bad"], mean=60, gap=20)
    path = roots[0] / RUNS["bad"] / "xnli/cross-lingual-transfer/seed-2.json"
    content = json.loads(path.read_text())
    for score in content["scores"]:
        score |= {"value": 34.0, "chance": 100 / 3}
        content["items"][score["language"]]["accuracy"] = packed_items([(float(i < 34), 1) for i in range(100)])
    path.write_text(json.dumps(content))
    result = judge(config, roots, **{kind: {"run": RUNS["good"], "than": RUNS["bad"], **XNLI}})
    assert others(result) == [f"{RUNS['bad']}: fine-tuning on xnli taught seed 2 nothing, {words}."]


def test_pairs_are_right_where_one_run_has_more_seeds(repository, roots, monkeypatch):
    """Six pre-trainings of one and three of the other: where both have all seeds, those that share a pre-training of
    either side are one draw; where one lacks some, the common ones count, each beside its own."""
    six = load_config(repository, {"scale": "mini", "runs": "all", "seeds": [1, 2, 3, 4, 5, 6]})
    write_items(roots[0], RUNS["good"], seeds=6, mean=70, of_seeds=3)
    write_items(roots[0], RUNS["bad"], seeds=6, mean=60, of_seeds=3)
    test = {"run": RUNS["good"], "than": RUNS["bad"], **XNLI}
    more = {RUNS["good"]: 6, RUNS["bad"]: 3}
    monkeypatch.setattr(
        "report.measured.pretrain_seed", lambda config, seed, run=None: (seed - 1) % more.get(run, 6) + 1
    )
    result = judge(six, roots, better=test)
    assert len(result.measured[0].found.by_training) == 3 and result.measured[0].seeds == [1, 2, 3, 4, 5, 6]
    assert result.measured[0].found.by_seed == pytest.approx([10] * 6)  # each beside its own: what they share cancels
    for seed in (4, 5, 6):
        (roots[0] / RUNS["bad"] / "xnli/cross-lingual-transfer" / f"seed-{seed}.json").unlink()
    result = judge(six, roots, better=test)
    assert result.measured[0].seeds == [1, 2, 3] and result.measured[0].found.by_seed == pytest.approx([10] * 3)
    assert "3 of 6 seeds have a score of both sides." in result.measured[0].notes


def test_too_few_seeds_is_undecided_and_no_file_is_no_data(config, roots):
    test = {"run": RUNS["good"], "than": RUNS["bad"], **XNLI}
    result = judge(config, roots, better=test)
    assert result.verdict == "no data" and not result.measured
    assert "scores/ernie-m-base/xnli/cross-lingual-transfer/seed-1.json and 5 more: not there" in result.reason
    write_items(roots[0], RUNS["good"], seeds=1, mean=90)
    assert judge(config, roots, better=test).verdict == "no data"
    write_items(roots[0], RUNS["bad"], seeds=3, mean=20)
    result = judge(config, roots, better=test)
    assert (result.verdict, result.reason) == ("undecided", "1 pre-training; at least 3 are needed")
    assert result.measured[0].found.interval is None
    assert result.measured[0].found.mean == pytest.approx(70)


def test_a_run_that_is_not_trained_has_no_data(repository, roots):
    few = load_config(repository, {"scale": "mini", "runs": ["xlm-r"]})
    write_items(roots[0], RUNS["good"], mean=80)
    write_items(roots[0], RUNS["bad"], mean=60)
    result = judge(few, roots, better={"run": RUNS["good"], "than": RUNS["bad"], **XNLI})
    assert (result.verdict, result.reason) == ("no data", "run ernie-m-base is not trained here; --config runs=all")


def test_reference_scores_that_are_not_kept(repository, roots):
    kept = load_config(repository, {"scale": "mini", "scores_from": "reference"})
    result = judge(kept, roots, better={"run": RUNS["good"], "than": RUNS["bad"], **XNLI})
    assert result.verdict == "no data" and result.reason.endswith("not among the reference scores")


def test_equal_runs_are_not_testable(config, roots):
    result = judge(config, roots, better={"run": "ppa-2m", "than": "ppa-250k", **XNLI})
    assert result.verdict == "not testable at this scale"
    assert result.reason == "ppa-2m and ppa-250k are one and the same run here"
    test = {"run": "xlm-r", "task": "tatoeba", "metric": "accuracy-by-layer", "setting": "zero-shot-retrieval"}
    result = judge(config, roots, layers={**test, "layer": 9, "than": [7], "of": 12})
    assert result.reason == "layers 9 and 7 of 12 are both layer 2 of the model here"


def test_languages_that_a_scale_lacks(config, roots):
    result = judge(config, roots, gap={"run": "xlm", "than": "xlm-r", **XNLI, "languages": ["en", "sw"]})
    assert result.verdict == "not testable at this scale" and "needs English and another" in result.reason
    result = judge(config, roots, better={"run": "xlm", "than": "xlm-r", **XNLI, "languages": ["sw", "th"]})
    assert result.verdict == "not testable at this scale"
    write_items(roots[0], "xlm", mean=80, of_seeds=0.5)
    write_items(roots[0], "xlm-r", mean=60)
    result = judge(config, roots, better={"run": "xlm", "than": "xlm-r", **XNLI, "languages": ["de", "fr", "sw"]})
    assert result.verdict == "reproduced" and result.measured[0].languages == {"xnli": ["de", "fr"]}


def test_items_are_used_and_checked(config, roots):
    write_items(roots[0], RUNS["good"], mean=70, of_seeds=1)
    write_items(roots[0], RUNS["bad"], mean=60)
    test = {"run": RUNS["good"], "than": RUNS["bad"], **XNLI}
    result = judge(config, roots, better=test)
    assert result.measured[0].found.with_items and not others(result)
    assert len(result.files) == 6
    path = roots[0] / RUNS["bad"] / "xnli/cross-lingual-transfer/seed-2.json"
    content = json.loads(path.read_text())
    content["scores"][0]["value"] += 1
    path.write_text(json.dumps(content))
    with pytest.raises(UserError, match="items of a seed do not make up its score"):
        judge(config, roots, better=test)
    del content["items"]
    path.write_text(json.dumps(content))
    result = judge(config, roots, better=test)
    assert not result.measured[0].found.with_items
    assert others(result) == ["Over seeds alone."]


def test_error_rates_are_better_when_lower_and_an_aligner_has_one_number(config, roots):
    """XLM-R makes 40 % of errors and fast_align 55: fixed, it needs no seeds of its own."""

    def write(run, seed, errors):
        scores = [entry(code, errors, "error-rate") for code in ("de", "fr", "hi")]
        path = write_score(roots[0], run, "word-alignment", "zero-shot-retrieval", seed, scores)
        right = round(100 - errors)
        kept = {"error-rate": packed_items([(1.0 if i < right else 0.0, 1) for i in range(100)])}
        content = json.loads(path.read_text()) | {"items": dict.fromkeys(("de", "fr", "hi"), kept)}
        path.write_text(json.dumps(content))

    for seed in (1, 2, 3):
        write("xlm-r", seed, 38.0 + seed)
    write("fast-align", 1, 55.0)
    test = {"task": "word-alignment", "metric": "error-rate", "setting": "zero-shot-retrieval"}
    result = judge(config, roots, better={"run": "xlm-r", "than": "fast-align", **test})
    assert result.verdict == "reproduced" and result.measured[0].found.with_items
    assert result.measured[0].found.mean == pytest.approx(15)
    assert judge(config, roots, better={"run": "fast-align", "than": "xlm-r", **test}).verdict == "not reproduced"


CHECKPOINT = """name: mine
kind: checkpoint
numerics: 1
source: {folder: checkpoints/mine}
model: {layers: 2, width: 32, heads: 4, ffn: 64, positions: 66, vocabulary: 1202}
finetune_recipe: xlm-r
"""


@pytest.mark.parametrize(("mean", "decided"), [(80, "reproduced"), (40, "not reproduced"), (60, "undecided")])
def test_a_checkpoint_has_one_number_but_where_it_is_fine_tuned(repository, tmp_path, roots, mean, decided):
    """Fine-tuned with one seed of three it is one draw of many, and no verdict follows."""
    shutil.copytree(repository / "config", tmp_path / "config")
    (tmp_path / "config/runs/mine.yaml").write_text(CHECKPOINT, encoding="utf-8")
    own = load_config(tmp_path, {"scale": "mini", "runs": "all"})
    write_items(roots[0], "mine", seeds=1, mean=mean, config=own)
    write_items(roots[0], "xlm-r", mean=60, of_seeds=1, config=own)
    result = judge(own, roots, better={"run": "mine", "than": "xlm-r", **XNLI})
    assert (result.verdict, result.reason) == ("undecided", "1 pre-training; at least 3 are needed")
    assert result.measured[0].seeds == [1]
    for run, of_seeds in (("mine", [mean]), ("xlm-r", [59, 60, 61])):
        for seed, value in enumerate(of_seeds, start=1):
            scores = of_layers([value] * 4, ("ar", "de"))
            write_score(roots[0], run, "tatoeba", "zero-shot-retrieval", seed, scores, config=own)
    test = {"task": "tatoeba", "metric": "accuracy", "setting": "zero-shot-retrieval", "languages": ["ar", "de"]}
    result = judge(own, roots, better={"run": "mine", "than": "xlm-r", **test})
    assert (result.verdict, result.measured[0].seeds) == (decided, [1, 2, 3])


@pytest.mark.parametrize(
    ("curve", "verdict"),
    [((5, 20, 30, 10), "reproduced"), ((5, 20, 30, 40), "not reproduced"), ((29, 20, 30, 10), "undecided")],
)
def test_layers(config, roots, curve, verdict):
    """Layer 7 of 12 is layer 2 of mini's three; it has to be above layers 0 and 3."""
    for seed in (1, 2, 3):
        scores = []
        for layer, value in enumerate(curve):
            value += 2 * (seed - 2) * (layer == 2)
            for direction, shift in (("en-xx", 1), ("xx-en", -1)):
                name = "accuracy-by-layer"
                scores += [entry(c, value + shift, name, 0.25, layer, direction) for c in LANGUAGES if c != "en"]
        write_score(roots[0], "xlm-r", "tatoeba", "zero-shot-retrieval", seed, scores)
    test = {"run": "xlm-r", "task": "tatoeba", "metric": "accuracy-by-layer", "setting": "zero-shot-retrieval"}
    result = judge(config, roots, layers={**test, "layer": 7, "than": [0, 12], "of": 12})
    assert result.verdict == verdict
    assert [one.found.mean for one in result.measured] == pytest.approx([curve[2] - curve[0], curve[2] - curve[3]])


RANDOM = ("transformer-xbig", "random-init")
REACHES = {
    **{"run": "veco-large", "setting": "pretrained-init", "than": RANDOM[0], "than_setting": RANDOM[1]},
    **{"task": "wmt14-en-de", "metric": "sacrebleu-by-update", "share": 0.2857},
}


def write_curves(config, root, run, setting, curves):
    """One curve a seed: update -> sacreBLEU."""
    for seed, curve in enumerate(curves, start=1):
        scores = [
            entry("de", value, "sacrebleu-by-update", None) | {"update": update, "epoch": update / 8}
            for update, value in curve.items()
        ]
        write_score(root, canonical_run(config, run, "wmt14-en-de"), "wmt14-en-de", setting, seed, scores)


@pytest.mark.parametrize(
    ("early", "verdict"), [((60, 62, 64), "reproduced"), ((20, 22, 24), "not reproduced"), ((30, 52, 74), "undecided")]
)
def test_reaches(config, roots, early, verdict):
    """After 100 of 400 updates as good as the other after 400, which is 50, 48 and 52 there."""
    write_curves(config, roots[0], "veco-large", "pretrained-init", [{100: value, 400: 90.0} for value in early])
    write_curves(config, roots[0], *RANDOM, [{100: 1.0, 400: value} for value in (50, 48, 52)])
    result = judge(config, roots, reaches=REACHES)
    assert result.verdict == verdict
    assert result.measured[0].found.mean == pytest.approx(sum(early) / 3 - 50)


def test_reaches_takes_no_later_snapshot(config, roots):
    """With snapshots at a half and at the end, a score after 10 of 35 epochs is not known."""
    write_curves(
        config, roots[0], "veco-large", "pretrained-init", [{200: 80.0 + seed, 400: 90.0} for seed in (1, 2, 3)]
    )
    write_curves(config, roots[0], *RANDOM, [{200: 1.0, 400: value} for value in (50, 48, 52)])
    result = judge(config, roots, reaches=REACHES)
    assert (result.verdict, result.measured) == ("not testable at this scale", [])
    late = "the first snapshot of veco-large is of update 200 of 400, and the claim is of 29 % of the updates"
    assert result.reason == late
    assert judge(config, roots, reaches={**REACHES, "share": 0.5}).verdict == "reproduced"


def write_training(root, run, flops, seeds=3):
    for seed in range(1, seeds + 1):
        path = root / run / f"seed-{seed}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        cost = {"flops": flops * (1 + seed / 1000), "flops_by_the_papers_counting": 2 * flops * (1 + seed / 1000)}
        path.write_text(json.dumps({"run": run, "seed": seed, "cost": cost, "curves": {}}))


def test_costs_are_those_of_all_that_a_run_starts_from(config, roots):
    """InfoXLM starts from XLM-R: 3 + 1 against XLM's 2."""
    for run, flops in (("xlm-r", 3e9), ("infoxlm-base", 1e9), ("xlm", 2e9)):
        write_training(roots[1], run, flops)
    result = judge(config, roots, cost={"runs": ["infoxlm-base"], "than": "xlm", "at_most": 2.1})
    assert result.verdict == "reproduced"
    assert math.exp(result.measured[0].found.mean) == pytest.approx(0.5)
    assert (
        judge(config, roots, cost={"runs": ["infoxlm-base"], "than": "xlm", "at_most": 1.9}).verdict == "not reproduced"
    )
    assert judge(config, roots, cost={"runs": ["xlm"], "than": "infoxlm-base", "times": 1.9}).verdict == "reproduced"
    (roots[1] / "xlm-r/seed-2.json").unlink()  # two seeds are left
    result = judge(config, roots, cost={"runs": ["xlm"], "than": "infoxlm-base", "times": 1.9})
    assert result.verdict == "reproduced" and result.measured[0].notes == ["A count of 2 seeds."]  # it hardly varies
    shutil.rmtree(roots[1] / "xlm-r")
    result = judge(config, roots, cost={"runs": ["xlm"], "than": "infoxlm-base", "times": 1.9})
    assert (result.verdict, result.reason) == ("no data", "trainings/xlm-r/seed-1.json and 2 more: not there")


def test_a_claim_asks_for_the_costs_of_all_that_its_runs_start_from(config):
    """XLM and XLM-E start from nothing; InfoXLM from XLM-R, which the claim does not name."""
    for run, more in (("xlm-e-base", set()), ("infoxlm-base", {"xlm-r"})):
        asked = claim_trainings(config, [{"id": "c", "cost": {"runs": [run], "than": "xlm", "at_most": 2.1}}])
        assert {Path(path).parent.name for path in asked} == {run, "xlm"} | more
        assert len(asked) == len({run, "xlm"} | more) * len(config.seeds)


@pytest.mark.parametrize(
    ("scores", "times", "verdict", "reason"),
    [
        ((20, 20, 70, 80), 1.9, "reproduced", ""),
        ((20, 20, 70, 80), 3.5, "not reproduced", "xlm-e-base-steps-75 is the cheapest that is there"),
        ((90, 20, 70, 80), 9.0, "undecided", "xlm-e-base-steps-25 is there, and nothing cheaper was tried"),
        ((20, 30, 40, 50), 1.9, "not reproduced", "none of the trainings tried is there"),
    ],
)
def test_cost_to_reach(config, roots, scores, times, verdict, reason):
    """Four budgets of XLM-E against XLM at 60: the cheapest that is as good counts. XLM costs 8, they 1, 2, 3 and 4."""
    names = ["xlm-e-base-steps-25", "xlm-e-base-steps-50", "xlm-e-base-steps-75", "xlm-e-base"]
    write_items(roots[0], "xlm", mean=60, of_seeds=1)
    write_training(roots[1], "xlm", 8e9)
    for cost, (run, mean) in enumerate(zip(names, scores, strict=True), start=1):
        write_items(roots[0], run, mean=mean)
        write_training(roots[1], run, cost * 1e9)
    result = judge(config, roots, cost={"runs": names, "than": "xlm", "times": times, "reach": XNLI})
    assert (result.verdict, result.reason) == (verdict, reason)
    if verdict == "not reproduced":  # for that each of the trainings, or of the cheaper ones, has to be too low
        low = [run for run, mean in zip(names, scores, strict=True) if mean < 60]
        alone = [judge(config, roots, better={"run": run, "than": "xlm", **XNLI}).p_value for run in low]
        assert result.p_value == pytest.approx(max(alone)) and result.p_value > 1e-5


def test_cost_to_reach_is_open_while_a_cheaper_training_may_be_there(config, roots):
    """A quarter of the steps is below on average, but its seeds differ too much to say so."""
    write_items(roots[0], "xlm", mean=60, of_seeds=1)
    write_training(roots[1], "xlm", 8e9)
    for cost, (run, mean, of_seeds) in enumerate(
        (("xlm-e-base-steps-25", 59, 9), ("xlm-e-base-steps-50", 70, 1)), start=1
    ):
        write_items(roots[0], run, mean=mean, of_seeds=of_seeds)
        write_training(roots[1], run, cost * 1e9)
    names = ["xlm-e-base-steps-25", "xlm-e-base-steps-50"]
    result = judge(config, roots, cost={"runs": names, "than": "xlm", "times": 5, "reach": XNLI})
    assert result.verdict == "undecided"
    assert result.reason.startswith("xlm-e-base-steps-50 is the cheapest that is there on average; ")


@pytest.mark.parametrize(
    ("noise", "verdict", "reason"),
    [
        ((0, 0), "not reproduced", "none of the trainings tried is there"),
        ((9, 0), "undecided", "none of the trainings tried is there on average; "),
        ((0, 9), "undecided", "none of the trainings tried is there on average; "),
    ],
)
def test_cost_to_reach_is_open_while_any_training_may_be_there(config, roots, noise, verdict, reason):
    """All are below on average. One whose seeds differ too much may be there, be it the highest of them or not."""
    write_items(roots[0], "xlm", mean=60, of_seeds=1)
    write_training(roots[1], "xlm", 8e9)
    names = ["xlm-e-base-steps-25", "xlm-e-base-steps-50"]
    for cost, (run, mean, of_seeds) in enumerate(zip(names, (54, 55), noise, strict=True), start=1):
        write_items(roots[0], run, mean=mean, of_seeds=of_seeds)
        write_training(roots[1], run, cost * 1e9)
    result = judge(config, roots, cost={"runs": names, "than": "xlm", "times": 2, "reach": XNLI})
    assert result.verdict == verdict
    assert result.reason == reason if verdict == "not reproduced" else result.reason.startswith(reason)
    shown = names[1] if not any(noise) else names[noise.index(9)]  # what the verdict rests on
    assert result.measured[0].link.better.run == shown


@pytest.mark.parametrize(
    ("mean", "noise", "times", "verdict", "reason"),
    [
        (80, 1, 1.9, "reproduced", ""),
        (80, 1, 2.1, "not reproduced", "xlm-e-base costs too much"),
        (59, 9, 2.1, "not reproduced", "xlm-e-base costs too much"),
        (20, 1, 1.9, "not reproduced", "xlm-e-base is not there"),
        (20, 1, 2.1, "not reproduced", "xlm-e-base is not there and costs too much"),
        (61, 9, 1.9, "undecided", "more than 100 pre-trainings would decide, if the difference stays"),
        (59, 9, 1.9, "undecided", "xlm-e-base is not there on average; more than 100 "),
    ],
)
def test_cost_to_reach_of_one_training(config, roots, mean, noise, times, verdict, reason):
    """The claim is on this training, at half the cost of the other: that a cheaper one might do saves nothing."""
    write_items(roots[0], "xlm", mean=60, of_seeds=1)
    write_items(roots[0], "xlm-e-base", mean=mean, of_seeds=noise)
    write_training(roots[1], "xlm", 8e9)
    write_training(roots[1], "xlm-e-base", 4e9)
    overrides = {key: value for key, value in config.scale["run_overrides"].items() if key != "schedule"}
    own_steps = dataclasses.replace(config, scale=config.scale | {"run_overrides": overrides})
    result = judge(own_steps, roots, cost={"runs": ["xlm-e-base"], "than": "xlm", "times": times, "reach": XNLI})
    assert result.verdict == verdict
    assert result.reason.startswith(reason) and bool(result.reason) == bool(reason)
    assert [one.found.level for one in result.measured] == [0.95] * 2  # a cost is a count, so only one may err
    if "costs too much" in result.reason:  # which no correction takes back
        assert result.p_value is None


def test_xtreme_average_is_that_of_the_tables(config):
    assert {task: claims.xtreme_metrics(config.tasks[task]) for task in XTREME} == XTREME
    claim = next(claim for claim in config.claims if claim["id"] == "veco-xtreme-translate-train-all")
    side = claims.links_of(claim, config.tasks)[0].better
    assert sum(weight for weight, _ in side.measures) == pytest.approx(1)
    weights = {(one.task, one.metric): round(weight, 4) for weight, one in side.measures}
    assert weights["xnli", "accuracy"] == round(1 / 9, 4) and weights["mlqa", "exact-match"] == round(1 / 18, 4)


def test_seeds_that_share_their_encoder_count_once(repository, roots):
    """Retrieval reads the encoder as it is: five seeds of fine-tuning from one pre-training are one number."""
    shared = load_config(repository, {"scale": "mini", "runs": "all", "seeds": [1, 2, 3, 4, 5]})
    shared.scale["pretrain_seeds"] = 3
    for run, value in (("xlm", 30.0), ("xlm-r", 10.0)):
        for seed in range(1, 6):
            scores = of_layers([value + (seed - 1) % 3] * 4, LANGUAGES[:2])
            write_score(roots[0], run, "tatoeba", "zero-shot-retrieval", seed, scores)
    test = {"task": "tatoeba", "metric": "accuracy", "setting": "zero-shot-retrieval", "languages": ["ar", "de"]}
    result = judge(shared, roots, better={"run": "xlm", "than": "xlm-r", **test})
    assert result.measured[0].seeds == [1, 2, 3]


# --- the whole script -------------------------------------------------------------------------------------------------


def run_script(monkeypatch, roots, out, *options):
    arguments = ["evaluate_claims.py", "--scale", "mini", "--scores-root", str(roots[0]), "--trainings-root"]
    monkeypatch.setattr("sys.argv", [*arguments, str(roots[1]), "--out", str(out / "claims.json"), *options])
    evaluate_claims.main()
    return (out / "claims.json").read_bytes()


def run_ledger(monkeypatch, out, *found, agree=()):
    paths = [str(out / name) for name in ("claims.tex", "ledger.json", "claims.md")]
    outs = [part for pair in zip(("--out-tex", "--out-json", "--out-md"), paths, strict=True) for part in pair]
    monkeypatch.setattr("sys.argv", ["make_ledger.py", "--claims", *map(str, found), "--agree", *agree, *outs])
    make_ledger.main()
    return [Path(path).read_text(encoding="utf-8") for path in paths]


def test_numbers_of_one_scale(monkeypatch, repository, roots, tmp_path):
    monkeypatch.chdir(repository)
    write_items(roots[0], RUNS["good"], mean=80, of_seeds=1)
    write_items(roots[0], RUNS["bad"], mean=60)
    first = run_script(monkeypatch, roots, tmp_path / "one", "--override", "runs=all")
    assert first == run_script(monkeypatch, roots, tmp_path / "two", "--override", "runs=all")
    content = json.loads(first)
    by_id = {claim["id"]: claim for claim in content["claims"]}
    own = by_id["ernie-m-xnli-transfer"]
    assert own["verdict"] == "reproduced" and own["mark"] == "+"
    link = own["links"][0]
    assert link["estimate"] == pytest.approx(20) and link["seeds"] == [1, 2, 3] and link["trainings"] == 3
    # In mini's eight languages table 1 of the paper has 630.7 for ERNIE-M and 625.9 for XLM-R.
    assert link["share"] == pytest.approx(20 / 0.6) and link["measured_words"].endswith("] of +1.1 (+0.6 here)")
    assert link["interval"][0] > 0 and len(own["files"]) == 6
    assert sum(content["counts"].values()) == len(content["claims"]) == len(by_id) >= 25
    assert by_id["ppa-xnli-transfer"]["verdict"] == "no data" and by_id["ppa-xnli-transfer"]["p_value"] is None


def one_scale(path, scale, **verdicts):
    """A scale's claims.json with made-up verdicts: id -> (verdict, p)."""
    link = {"words": "a > b", "measured_words": "+1.9 [+0.4, +3.4] of +17.8", "trainings": 3, "notes": []}
    found = [
        {
            **{"id": name, "paper": "veco", "paper_name": "VECO", "where": "table 1", "says": "It is 5 % better"},
            **{"note": None, "kind": "better", "runs": ["a", "b"], "published": [17.8], "published_words": ["+17.8"]},
            **{"verdict": verdict, "mark": MARKS[verdict], "reason": "", "p_value": p, "files": []},
            **{"links": [] if verdict == "no data" else [link], "control": None},
        }
        for name, (verdict, p) in verdicts.items()
    ]
    path.write_text(
        json.dumps({"scale": scale, "words": f"Scale {scale}.", "claims": report.verdicts.corrected(found)})
    )
    return path


def test_worlds_stand_side_by_side_and_have_to_agree(monkeypatch, tmp_path):
    """Reproduced where both worlds say so; half an effect where one has no more; worlds that contradict each other say
    that; a third scale has a column and no vote; what correction takes away is counted apart."""
    one = one_scale(
        tmp_path / "1.json", "mini", a=("reproduced", 0.001), b=("reproduced", 0.04), c=("reproduced", 0.03),
        d=("not reproduced", 0.001), e=("undecided", 0.5), f=("reproduced", 0.001),
    )  # fmt: skip
    two = one_scale(
        tmp_path / "2.json", "mini-2", a=("reproduced", 0.001), b=("direction only", 0.001), c=("undecided", 0.2),
        d=("reproduced", 0.001), e=("not reproduced", 0.01), f=("no data", None),
    )  # fmt: skip
    three = one_scale(tmp_path / "3.json", "real", a=("not reproduced", 0.001))
    text, content, markdown = run_ledger(monkeypatch, tmp_path, one, two, three, agree=("mini", "mini-2"))
    ledger = json.loads(content)
    rows = {claim["id"]: claim for claim in ledger["claims"]}
    verdicts = {name: row["verdict"] for name, row in rows.items()}
    assert verdicts == {
        **{"a": "reproduced", "b": "direction only", "c": "undecided", "d": "scales differ", "e": "undecided"},
        "f": "no data",
    }
    assert rows["b"]["by_scale"]["mini"]["verdict_corrected"] == "reproduced"  # 0.04 x 6 / 5
    assert rows["b"]["by_scale"]["mini"]["p_adjusted"] == pytest.approx(0.048)
    assert "real" not in rows["b"]["by_scale"] and rows["a"]["by_scale"]["real"]["verdict"] == "not reproduced"
    counts = {row["name"]: row["counts"] for row in ledger["summary"]}
    assert counts["mini"]["reproduced"] == 4 and counts["mini-2"]["reproduced"] == 2
    assert counts["mini and mini-2 agree"]["reproduced"] == 1 and counts["real"]["no data"] == 5
    assert counts["of them VECO"] == counts["mini and mini-2 agree"]
    assert text.startswith("% written by") and r"\section*{Claims}" in text and r"\documentclass" not in text
    assert text.count(r"\textbf{+ reproduced}") == 1 + 4 + 2 and "+1.9 [+0.4, +3.4] of +17.8" in text
    assert "-- of +17.8" in text and r"It is 5 \% better" in text
    assert "| `b` | +1.9 [+0.4, +3.4] of +17.8<br>+ reproduced | " in markdown
    alone = json.loads(run_ledger(monkeypatch, tmp_path, two, one)[1])
    assert alone["agree"] == ["mini-2"] and alone["claims"][3]["verdict"] == "reproduced"
    assert not any("agree" in row["name"] for row in alone["summary"])


def test_correction_leaves_what_would_be_decided_among_so_many():
    """Nineteen differences that are none and one that is: of three that look decided one is left; a count stays."""
    found = [{"id": f"none-{i}", "verdict": "undecided", "p_value": 0.1 + i / 25} for i in range(17)]
    found += [{"id": "luck", "verdict": "reproduced", "p_value": 0.04}, {"id": "bad", "verdict": "not reproduced"}]
    found[-1]["p_value"] = 0.03
    found += [{"id": "real", "verdict": "direction only", "p_value": 0.001}]
    found += [{"id": "count", "verdict": "reproduced", "p_value": None}]
    after = {one["id"]: one["verdict_corrected"] for one in report.verdicts.corrected(found)}
    decided = {name: verdict for name, verdict in after.items() if verdict != "undecided"}
    assert decided == {"real": "direction only", "count": "reproduced"}


def test_what_few_trainings_cannot_see_is_said():
    words = unseen_words([3, 6])
    assert "one training in 5 fails, none does in 51% of the times with n = 3, 26% of the times with n = 6" in words


# --- config/claims.yaml -----------------------------------------------------------------------------------------------


def test_claims_name_what_exists_and_cover_the_papers(config):
    assert len(config.claims) >= 25
    assert {claim["paper"] for claim in config.claims} == {"ernie-m", "xlm-e", "veco", "ppa"}
    assert {claims.kind_of(claim) for claim in config.claims} == set(claims.KINDS)


def test_published_differences_are_those_of_the_printed_cells(repository, config):
    """In favour of the claim: errors and gaps are better when they are lower."""
    quoted = 0
    for claim in config.claims:
        links = claims.links_of(claim, config.tasks)
        cells = plan.check_claims.quoted(repository, claim)
        for link, difference, pair in zip(links, differences(claim["published"]), cells, strict=False):
            if difference is None or pair is None:
                continue
            lower = claims.kind_of(claim) == "gap" or any(m.metric == "error-rate" for m in claims.measures_of([link]))
            found = pair[1] - pair[0] if lower else pair[0] - pair[1]
            assert found == pytest.approx(difference, abs=0.006), claim["id"]
            quoted += 1
    assert quoted >= 50


def test_a_difference_from_a_cell_that_is_wrong_says_so(repository, config):
    """The note of a claim has the difference that follows where config/published/errata.csv corrects a quoted cell."""
    errata = [row for row in read_rows(repository / "config/published/errata.csv") if is_error(row)]
    noted = []
    for claim in config.claims:
        published = claim["published"]
        if "better" not in published:
            continue
        shared = published.get("cells", {})
        cells = [{**shared, **(cell or {})} for cell in (published["better"], *published["than"])]
        firsts = cells if "ordering" in claim else [cells[0]] * len(cells)
        for above, below, pair in zip(firsts, cells[1:], plan.check_claims.quoted(repository, claim), strict=False):
            if pair is None:
                continue
            right = corrected(errata, above, pair[0]), corrected(errata, below, pair[1])
            if right != pair:
                noted.append(claim["id"])
                assert f"makes the lead {abs(right[0] - right[1]):.1f}." in claim.get("note", ""), claim["id"]
    assert noted == ["ernie-m-gap-mlqa", "veco-xtreme"]


def is_error(row):
    return row["explanation"].startswith(PUBLISHED_ERROR)


def corrected(errata, cell, value):
    """The number as it should be: an erratum names the file, the row and what is printed there."""
    rows = (cell["model"], f"{cell.get('setting')} / {cell['model']}")
    for row in errata:
        if f"{row['paper']}/{row['item']}" == cell["file"] and row["row"] in rows and row["printed"] == f"{value}":
            return float(row["recomputed"])
    return value


def test_a_claim_of_a_run_over_what_it_goes_on_from_names_its_control(config):
    """Every run that is compared with its own start has one; a control goes on from what the claim compares with."""
    for claim in config.claims:
        test = claim[claims.kind_of(claim)]
        starts = [trained_run(config, run) for run in lineage(config, test["run"])[1:]] if "run" in test else []
        goes_on = claims.kind_of(claim) in ("better", "gap") and trained_run(config, test["than"]) in starts
        longer = claim["id"] == "ppa-mlqa-xlm-r"  # XLM-R is trained half as long here
        assert (goes_on or longer) == ("control" in claim), claim["id"]
        if "control" in claim:
            control = config.runs[claim["control"]["run"]]["init"]["run"]
            assert trained_run(config, control) == trained_run(config, test["than"])


def test_a_tie_is_half_of_the_median_lead_that_is_quoted(repository, config):
    """The rule that config/claims.yaml states: of differences in points on tasks of understanding."""
    tasks, leads = {"xnli", "paws-x", "conll-ner", "mlqa"}, []
    for claim in config.claims:
        kind = claims.kind_of(claim)
        if kind in ("better", "gap", "ordering", "settings"):
            test = claim[kind]
            leads += differences(claim["published"]) if "xtreme" in test or test["task"] in tasks else []
    tie = yaml.safe_load((repository / "config/claims.yaml").read_text())["tie"]
    assert tie == pytest.approx(np.median(leads) / 2) and len(leads) > 30
    used = [link for claim in config.claims for link in claims.links_of(claim, config.tasks)]
    assert {link.within for link in used if link.within} == {tie} and {-link.margin for link in used} >= {tie}


def test_the_best_layer_of_xlm_e_is_compared_with_that_of_xlm_r(config):
    """Section 4.5: XLM-R is best at layer 7 and XLM-E at layer 9. Where these are one layer, nothing can be said."""
    for identity in ("xlm-e-middle-layers", "xlm-e-higher-best-layer"):
        claim = next(claim for claim in config.claims if claim["id"] == identity)
        depths = [
            tuple(side.measures[0][1].depth for side in link.sides) for link in claims.links_of(claim, config.tasks)
        ]
        assert ((9, 12), (7, 12)) in depths
        assert all(f"layer {of[0]}" in claim["says"] for pair in depths for of in pair if of[0])
        assert untestable(config, claim) == "layers 9 and 7 of 12 are both layer 2 of the model here"


def test_the_cost_of_one_training_is_no_finding_where_the_scale_sets_the_steps(config, repository):
    claim = next(claim for claim in config.claims if claim["id"] == "xlm-e-one-percent")
    assert "as many steps" in untestable(config, claim)
    assert untestable(load_config(repository, {"scale": "paper"}), claim) is None


def test_a_plain_plan_trains_nothing_for_a_claim(repository):
    """Claims on runs that are not chosen ask for nothing, and those on others for no run of their own."""
    few = load_config(repository, {"scale": "mini"})
    assert claim_needs(few)
    assert {run for run, _, _ in claim_needs(few)} <= {canonical_run(few, run) for run in few.selected}
    every = load_config(repository, {"scale": "mini", "runs": "all"})
    assert {run for run, _, _ in claim_needs(every)} > {run for run, _, _ in claim_needs(few)}
    assert set(claim_needs(every)) <= set(all_needs(every))


def test_a_part_of_the_document_computes_nothing_for_claims(repository):
    """The claims beside a table rest on its scores alone, and on trainings that it needs anyway."""
    one = load_config(repository, {"scale": "mini", "runs": "all", "items": ["ernie-m/table-08"]})
    found = set(needs(one, one.tables["ernie-m/table-08"]))
    assert set(all_needs(one)) == found
    assert {claim["id"] for claim in one.claims} > {"ernie-m-small-conll", "ernie-m-small-xnli"}
    assert set(claim_needs(one)) <= found and all(claim["paper"] == "ernie-m" for claim in one.claims)
    paper = load_config(repository, {"scale": "mini", "runs": "all", "papers": ["ppa"]})
    assert set(claim_needs(paper)) <= {need for spec in paper.specs.values() for need in needs(paper, spec)}
    assert "ppa-tlm" in {claim["id"] for claim in paper.claims}
    assert not load_config(repository, {"scale": "mini", "items": ["ernie-m/figure-02"]}).claims


def test_a_part_without_claims_says_so(monkeypatch, repository, roots, tmp_path):
    monkeypatch.chdir(repository)
    run_script(monkeypatch, roots, tmp_path, "--override", "items=[ernie-m/figure-02]")
    section, _, _ = run_ledger(monkeypatch, tmp_path, tmp_path / "claims.json")
    assert "No claim rests on the selected items alone." in section


GOOD = {
    "id": "good",
    "paper": "ppa",
    "where": "abstract",
    "says": "It is better",
    "published": {"difference": 1.0},
    "better": {
        "run": "xlm",
        "than": "xlm-r",
        "task": "xnli",
        "metric": "accuracy",
        "setting": "cross-lingual-transfer",
    },
}


def changed(test=None, **changes):
    return {**GOOD, **changes, "better": {**GOOD["better"], **(test or {})}}


@pytest.mark.parametrize(
    ("claim", "message"),
    [
        (changed({"run": "xml"}), r"claim good, better: xml: unknown run 'xml'; did you mean 'xlm'"),
        (changed({"task": "xnl"}), r"better\.task: unknown task 'xnl'; did you mean 'xnli'"),
        (changed({"metric": "acuracy"}), r"better\.metric: unknown metric of xnli 'acuracy'; did you mean 'accuracy'"),
        (
            changed({"setting": "translate-train-al"}),
            r"better\.setting: unknown setting of xnli.*'translate-train-all'",
        ),
        (changed({"than_setting": "zero"}), r"better\.than_setting: unknown setting of xnli 'zero'"),
        (changed({"languages": ["dee"]}), r"better\.languages: unknown language of xnli 'dee'; did you mean 'de'"),
        (changed({"langauges": ["de"]}), r"claim good, better\.langauges: unknown key; did you mean 'languages'"),
        (changed({"layer": 3}), r"'layer' and 'of' go with a metric by layer"),
        (changed({"direction": "en-xx"}), r"better\.direction: is for retrieval"),
        (changed(paper="pap"), r"claim good, paper: unknown paper 'pap'; did you mean 'ppa'"),
        (changed(published={"difference": [1, 2]}), r"published\.difference: 2 numbers for 1 links"),
        (
            changed(settings={**XNLI, "run": "xlm", "than": "translate-train-all"}),
            "needs exactly one test, has better, set",
        ),
        (changed(control={"run": "xml"}), r"claim good, control\.run: unknown run 'xml'; did you mean 'xlm'"),
        (changed({"than": "xlm"}), "claim good, better: both sides are the same; name another run, setting or layer"),
        (changed(control={"run": "xlm-r"}), r"claim good, control\.run: xlm-r is a side of the claim already"),
        (changed(published={"difference": -1.3}), r"published\.difference: must be above 0, in favour of the claim"),
        (changed(published={"difference": 0}), r"published\.difference: must be above 0"),
        ({key: GOOD[key] for key in GOOD if key != "better"}, "needs exactly one test, has none"),
        ({key: GOOD[key] for key in GOOD if key != "says"}, "claim good: key 'says' is missing"),
    ],
)
def test_slips_are_found_when_the_plan_is_read(repository, tmp_path, claim, message):
    shutil.copytree(repository / "config", tmp_path / "config")
    file = tmp_path / "config/claims.yaml"
    file.write_text(yaml.safe_dump({"claims": [claim]}))
    with pytest.raises(UserError, match=r"^config/claims\.yaml, .*" + message):
        load_config(tmp_path, {"scale": "mini"})


def test_other_shapes_of_the_file(repository, tmp_path):
    shutil.copytree(repository / "config", tmp_path / "config")
    file = tmp_path / "config/claims.yaml"
    for content, message in (
        ({"claims": [GOOD, GOOD]}, "claim good: this id stands twice"),
        ({"claim": [GOOD]}, "must hold the key 'claims'"),
        ({"claims": [GOOD], "tie": "much"}, "tie: must be a number of points, 0 to 100, is 'much'"),
        ({"claims": ["good"]}, "claim number 1: must be a mapping"),
    ):
        file.write_text(yaml.safe_dump(content))
        with pytest.raises(UserError, match=message):
            load_config(tmp_path, {"scale": "mini"})
    file.write_text(yaml.safe_dump({"claims": [GOOD]}))
    assert [claim["id"] for claim in load_config(tmp_path, {"scale": "smoke"}).claims] == ["good"]


def test_a_quoted_cell_that_is_not_printed(repository):
    cell = {"file": "ernie-m/table-06", "setting": "cross-lingual-transfer", "task": "xnli", "language": "avg"}
    claim = {
        **GOOD,
        "published": {"difference": 1.0, "cells": cell, "better": {"model": "exp9"}, "than": [{"model": "x"}]},
    }
    with pytest.raises(UserError, match=r"claim good, published: ernie-m/table-06\.csv has 0 rows of .*exp9"):
        plan.check_claims.quoted(Path(repository), claim)
