"""The reference scores: only today's are kept, those of the repository are today's, and tables come of them alone."""

import copy
import dataclasses
import json
import random
import re
import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from types import ModuleType

import numpy as np
import pytest
from scipy.stats import ttest_ind

import keep_reference
import resolve_recipe
from beside import module_at
from common.errors import UserError
from common.identity import run_hash
from made_up import entry
from plan.claimed import all_score_paths, claim_needs, claim_paths, looked_at_twice, second_look
from plan.config import Config
from plan.evidence import is_current, score_hash, score_path, stale, training_paths
from plan.load import load_config
from plan.needs import score_paths
from plan.recipes import recipe_of
from plan.runs import resolve_run
from plan.seeds import pretrain_seed
from report.context import load_context
from report.scores import group_paths, read_content, scores_of
from report.table_text import render_markdown
from report.tables import build
from report.trainings import read_training
from trees import copy_tree, edit, planned, snakemake

REPOSITORY = Path(__file__).resolve().parent.parent
KEPT = sorted(path.name for path in (REPOSITORY / "reference/scores").glob("*"))
PLAIN = ("xlm-r", "xnli", "cross-lingual-transfer")


@pytest.fixture(scope="module")
def config() -> Config:
    return load_config(REPOSITORY, {"scale": "mini", "runs": "all"})


def write(results: Path, config: Config, need: tuple[str, str, str] = PLAIN, seed: int = 1, **changes) -> Path:
    run, task, setting = need
    content = {
        "run": run,
        "task": task,
        "setting": setting,
        "seed": seed,
        "scale": "mini",
        "commit": "0123456789abcdef",
    }
    content |= {"task_version": config.tasks[task]["version"]}
    content |= {"run_hash": score_hash(config, *need), "scores": [entry("en", 50.0)], **changes}
    path = results / "scores" / run / task / setting / f"seed-{seed}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))
    name = recipe_of(config, run)
    recipe = results / f"recipes/{task}/{setting}/{name}.yaml"
    recipe.parent.mkdir(parents=True, exist_ok=True)
    recipe.write_text(resolve_recipe.render(config, task, setting, name))
    return path


def test_what_is_finished_is_kept_once_with_its_provenance(tmp_path, config):
    results, reference = tmp_path / "results", tmp_path / "reference"
    paths = [write(results, config, seed=seed) for seed in (1, 2)]
    assert keep_reference.keep(config, results, reference, "a machine") == (2, [])
    for path in paths:
        kept = reference / "scores/mini" / path.relative_to(results / "scores")
        assert kept.read_bytes() == path.read_bytes()
    header, row = (line.split("\t") for line in (reference / "PROVENANCE.tsv").read_text().splitlines())
    said = dict(zip(header, row, strict=True))
    assert (said["scale"], said["run"], said["scores"], said["machine"]) == ("mini", "xlm-r", "2", "a machine")
    assert said["commits"] == "0123456789" and said["first"] <= said["last"]
    assert keep_reference.keep(config, results, reference, "a machine") == (0, [])
    write(results, config, seed=2, scores=[entry("en", 51.0)])
    write(results, config, ("random-init", *PLAIN[1:]))
    assert keep_reference.keep(config, results, reference, "another") == (2, [])
    rows = keep_reference.read_provenance(reference / "PROVENANCE.tsv")
    assert [(row["run"], row["scores"]) for row in rows] == [("random-init", "1"), ("xlm-r", "2")]
    assert [row["machine"] for row in rows] == ["another", "a machine; another"]  # nothing that was said is lost
    assert keep_reference.keep(config, results, reference, "a third") == (0, [])
    assert keep_reference.read_provenance(reference / "PROVENANCE.tsv") == rows


@pytest.mark.parametrize(
    ("change", "said"),
    [({"run_hash": "0" * 16}, "of another xlm-r"), ({"task_version": 0}, "of version 0 of xnli, which is at 1")],
)
def test_what_the_configuration_would_not_compute_today_is_refused(tmp_path, config, change, said):
    results, reference = tmp_path / "results", tmp_path / "reference"
    write(results, config)
    path = write(results, config, seed=2, **change)
    kept, refused = keep_reference.keep(config, results, reference, "a machine")
    assert kept == 1 and len(refused) == 1 and refused[0].startswith(f"{path}: {said}")
    assert [path.name for path in (reference / "scores").rglob("*.json")] == ["seed-1.json"]


def test_scores_of_a_setting_that_is_gone_are_taken_away(tmp_path, config):
    results, reference = tmp_path / "results", tmp_path / "reference"
    path = write(results, config)
    assert keep_reference.keep(config, results, reference, "a machine") == (1, [])
    renamed = path.parent.with_name("renamed-since") / path.name
    renamed.parent.mkdir()
    renamed.write_text(path.read_text().replace(PLAIN[2], "renamed-since"))
    old = reference / "scores/mini/xlm-r/xnli/renamed-since/seed-1.json"
    old.parent.mkdir()
    old.write_text(renamed.read_text())
    keep_reference.remove_outdated(config, reference)
    assert not old.exists() and [path.name for path in (reference / "scores").rglob("*.json")] == ["seed-1.json"]
    content = read_content(renamed, "mini")
    assert stale(config, content, results) == "of a setting that config/tasks/xnli.yaml no longer has"


def test_tables_of_the_reference_have_its_seeds_and_what_is_trained_has_fewer(config):
    of_reference = load_config(REPOSITORY, {"scale": "mini", "scores_from": "reference"}).seeds
    assert config.seeds == [1, 2, 3] and set(config.seeds) < set(of_reference)
    assert load_config(REPOSITORY, {"scale": "mini", "scores_from": "reference", "seeds": [2]}).seeds == [2]
    assert load_config(REPOSITORY, {"scale": "smoke", "scores_from": "reference"}).seeds == [1]


def test_the_seeds_of_the_reference_are_kept_and_no_others(tmp_path, config, monkeypatch):
    for seed in (1, 7, 13):
        write(tmp_path / "results", config, seed=seed)
    given = ["--scale", "mini", "--machine", "a machine", "--results", str(tmp_path / "results")]
    monkeypatch.setattr("sys.argv", ["keep_reference.py", *given, "--reference", str(tmp_path / "reference")])
    monkeypatch.chdir(REPOSITORY)
    keep_reference.main()
    kept = sorted(path.name for path in (tmp_path / "reference/scores").rglob("*.json"))
    assert kept == ["seed-1.json", "seed-7.json"]
    monkeypatch.setattr(
        "sys.argv", ["keep_reference.py", *given, "--reference", str(tmp_path / "reference"), "--seeds", "13"]
    )  # beside them, for a study that is not finished
    keep_reference.main()
    kept = sorted(path.name for path in (tmp_path / "reference/scores").rglob("*.json"))
    assert kept == ["seed-1.json", "seed-13.json", "seed-7.json"]


def test_a_score_of_another_recipe_is_refused_and_taken_away(tmp_path, config):
    """A changed number of epochs: the score that was kept before it goes, and does not come back."""
    results, reference = tmp_path / "results", tmp_path / "reference"
    path = write(results, config)
    assert keep_reference.keep(config, results, reference, "a machine") == (1, [])
    scale = copy.deepcopy(config.scale)
    scale["task_overrides"]["xnli"]["recipe"]["epochs"] = 9
    changed = dataclasses.replace(config, scale=scale, _recipes={})
    kept, (refused,) = keep_reference.keep(changed, results, reference, "a machine")
    assert kept == 0 and refused.startswith(f"{path}: of another recipe than config/tasks/xnli.yaml")
    assert not list((reference / "scores").rglob("*.json"))
    write(results, changed)
    assert keep_reference.keep(changed, results, reference, "a machine") == (1, [])


def test_reference_scores_of_another_configuration_are_not_read(repository, tmp_path):
    shutil.copytree(repository / "config", tmp_path / "config")
    shutil.copytree(repository / "reference", tmp_path / "reference")

    def read() -> set[str]:
        config = load_config(tmp_path, {"scores_from": "reference"})
        paths = [*all_score_paths(config), *training_paths(config, config.runs)]
        return {run for run in config.runs if any(f"/{run}/" in path for path in paths)}

    before = read()
    assert {"xlm-r", "random-init"} <= before
    edit(tmp_path, "config/runs/xlm-r.yaml", "weight_decay: 0.01", "weight_decay: 0.02")
    assert "xlm-r" not in read() < before and "random-init" in read()


def test_a_damaged_score_stops_it(tmp_path, config):
    path = write(tmp_path / "results", config, scores=[entry("en", 150.0)])
    with pytest.raises(UserError, match=rf"{path}.*not in percent"):
        keep_reference.keep(config, tmp_path / "results", tmp_path / "reference", "a machine")


@pytest.mark.parametrize("scale", KEPT)
def test_the_scores_of_the_repository_are_those_of_today_s_configuration(scale):
    """A changed run, scale, recipe or task has other scores: compute them again and call keep_reference.py."""
    config = load_config(REPOSITORY, {"scale": scale, "runs": "all"})
    root = REPOSITORY / f"reference/scores/{scale}"
    for (run, task, setting), of_seed in group_paths(root.rglob("*.json")).items():
        named = f"{run} {task} {setting}"
        for path in of_seed.values():
            assert is_current(config, path), f"{named}: of another run, recipe or version than today's"
            scores_of(read_content(path, scale), path)
    for path in sorted((REPOSITORY / f"reference/trainings/{scale}").rglob("*.json")):
        one = read_training(path, scale)
        assert one.run_hash == run_hash(resolve_run(config, one.run))[:16], one.run


def test_every_reference_score_has_its_provenance():
    rows = keep_reference.read_provenance(REPOSITORY / "reference/PROVENANCE.tsv")
    said = {(row["scale"], row["run"]): int(row["scores"]) for row in rows}
    found: dict[tuple[str, str], int] = {}
    for scale in KEPT:
        root = REPOSITORY / f"reference/scores/{scale}"
        for path in root.rglob("*.json"):
            run = path.relative_to(root).parts[0]
            found[scale, run] = found.get((scale, run), 0) + 1
    assert found and {key: count for key, count in said.items() if count} == found
    assert all(row["machine"] and row["first"] <= row["last"] for row in rows)


REPORT = {
    "audit", "collect_scores", "draw_diagram", "draw_effects", "evaluate_claims", "evaluate_claims_beside",
    "make_comparison", "make_document", "make_ledger", "make_site", "make_table", "plot_figure",
}  # fmt: skip


@pytest.mark.dag
def test_tables_from_the_reference_train_and_download_nothing(repository, tmp_path):
    tree = copy_tree(repository, tmp_path / "tree", own_reference=False)
    jobs = planned(
        tree, "results/tables/all.tex", "results/index.html", scale="mini", settings=("scores_from=reference",)
    )
    assert {"make_table", "plot_figure", "make_document", "make_site"} <= jobs.keys() <= REPORT


@pytest.fixture(scope="module")
def document(repository, tmp_path_factory) -> Path:
    """A tree with all tables and figures of the reference scores."""
    tree = copy_tree(repository, tmp_path_factory.mktemp("document") / "tree", own_reference=False)
    snakemake(tree, "--cores", "2", "--config", "scores_from=reference")
    return tree


def products(tree: Path) -> dict[str, bytes]:
    found = sorted([*tree.glob("results/tables/**/*"), *tree.glob("results/figures/**/*")])
    return {str(path.relative_to(tree)): path.read_bytes() for path in found if path.is_file()}


def some_of_each_kind(repository: Path) -> list[str]:
    """One table or figure of each that says other things of itself, and a few more."""
    specs = load_config(repository, {"scale": "mini", "engine": False}).specs
    kinds: dict[frozenset, list[str]] = {}
    for item, spec in specs.items():
        kinds.setdefault(frozenset(spec), []).append(item)
    rng = random.Random("kinds")
    one_of_each = {rng.choice(items) for items in kinds.values()}
    return sorted(one_of_each) + rng.sample(sorted(specs.keys() - one_of_each), 8)


@pytest.mark.e2e
def test_the_reference_makes_the_same_document_twice(document, repository, tmp_path, request):
    """And its page alone without torch. The second time a few of each kind and a sixth of all; all with --whole."""
    first, without_torch = products(document), tmp_path / "none"
    tree = copy_tree(repository, tmp_path / "other", own_reference=False)
    (without_torch / "torch").mkdir(parents=True)
    (without_torch / "torch/__init__.py").write_text("raise ModuleNotFoundError(\"No module named 'torch'\")\n")
    whole = request.config.getoption("--whole")
    some = [] if whole else [f"items=[{','.join(some_of_each_kind(repository))}]"]
    page = (*some, "engine=false", "--", "results/index.html")  # as `make demo` does, which installs no torch
    snakemake(tree, "--cores", "2", "--config", "scores_from=reference", *page, PYTHONPATH=str(without_torch))
    said = (tree / "results/index.html").read_text(encoding="utf-8")
    assert "is left out here (engine: false)" in said and "veco/figure-01" not in said
    wanted = []
    if not whole:
        items = sorted(path for path in first if re.fullmatch(r"results/\w+/[\w-]+/[\w-]+\.(tex|pdf)", path))
        wanted = ["--", "results/tables/claims.tex", *random.Random("other").sample(items, len(items) // 6)]
    snakemake(tree, "--cores", "2", "--config", "scores_from=reference", *wanted)
    second = products(tree)
    assert "results/tables/all.tex" in first and len(second) > (30 if wanted else len(first) - 1)
    other = {name for name in second if first.get(name) != second[name]}
    of_fewer = {f"results/figures/parallax/effects-by-scale.{form}" for form in ("pdf", "png")}  # claims on some items
    assert other == (set() if whole else of_fewer)


@pytest.fixture(scope="module")
def quote(repository) -> ModuleType:
    return module_at(repository / "docs/quote.py")


@pytest.mark.parametrize(
    ("page", "tables", "claims"),
    [
        ("README.md", 1, 0),
        ("docs/measured.md", 3, 0),
        ("docs/real-results.md", 10, 2),
        ("docs/what-we-learnt.md", 8, 10),
    ],
)
def test_the_pages_quote_what_the_reference_scores_make(quote, repository, page, tables, claims):
    text = (repository / page).read_text(encoding="utf-8")
    assert quote.renewed(page) == text, "python docs/quote.py"
    shown = quote.tables_in(page)
    assert len(shown) == tables and all(len(table.splitlines()) > 3 for table in shown)
    assert len(quote.QUOTED.findall(text)) == text.count("> - `") >= claims


OVER_CONTROLS = {  # table of docs/real-results.md -> which
    "| over xlm-r |": ("ernie-m-base", "xlm-r-continued"),
    "| over mbert |": ("ppa-250k", "mbert-continued"),
}


def apart(repository: Path, key: Sequence[str], run: str, control: str, only: str = "") -> str:
    return apart_words(welch_of(repository, key, run, control, only))


def welch_of(repository: Path, key: Sequence[str], run: str, control: str, only: str = ""):
    """SciPy's test of a run's means and those of its control on real text, whose starts differ."""

    def counts(score: dict) -> bool:
        return score["metric"] == key[2] and score["language"] in (only.split() or {score["language"]} - {"en"})

    def means(run: str) -> list[float]:
        paths = sorted((repository / "reference/scores/real" / run / key[0] / key[1]).glob("seed-*.json"))
        scores = [json.loads(path.read_text())["scores"] for path in paths]
        return [fmean(score["value"] for score in one if counts(score)) for one in scores]

    return ttest_ind(means(run), means(control), equal_var=False)


def apart_words(found) -> str:
    interval = found.confidence_interval()
    mean, half = (interval.low + interval.high) / 2, (interval.high - interval.low) / 2
    return f"{mean:+.1f} ± {half:.1f}".replace("-", "−") if abs(mean) >= 0.05 else f"0.0 ± {half:.1f}"


def test_a_language_is_named_where_the_best_run_is_within_two_deviations_of_the_untrained(quote, monkeypatch):
    def files(_, task):
        values = {
            "random-init": {"de": (10, 12, 14), "hi": (10, 12, 14), "ar": (10, 12, 14)},  # 12 ± 2
            "xlm-r": {
                "de": (16, 17, 18),
                "hi": (11, 12, 13),
                "ar": (20, 30, 40),
            },  # ar: 18 above, and 2 x 10 of its own
            "xlm": {"de": (15, 16, 17), "hi": (15, 16, 17), "ar": (90,)},  # hi: 4 above, 2 x 2; of ar too few
        }
        scores = [
            (run, seed, {"language": language, "metric": "f1", "value": value})
            for run, by_language in values.items()
            for language, of_seeds in by_language.items()
            for seed, value in enumerate(of_seeds, 1)
        ]
        content = [
            ("cross-lingual-transfer", {"run": run, "pretrain_seed": seed, "scores": [score]})
            for run, seed, score in scores
        ]
        tuned = {"language": "hi", "metric": "f1", "value": 99}
        return task == "mlqa" and [
            *content,
            ("translate-train-all", {"run": "xlm-r", "pretrain_seed": 1, "scores": [tuned]}),
        ]

    monkeypatch.setattr(quote, "files_of", lambda scale, task: files(scale, task) or [])
    assert quote.near_untrained_of("mini").splitlines()[2:] == [
        "| mlqa | ar 12.0 ± 2.0, `xlm-r` 30.0 ± 10.0; hi 12.0 ± 2.0, `xlm` 16.0 ± 1.0 |",
        "| all tasks: above | 1 of 3 |",
    ]


@pytest.mark.parametrize("head", OVER_CONTROLS)
def test_the_page_quotes_a_method_over_its_control_as_unlike_pre_trainings(quote, repository, head):
    page = (repository / "docs/real-results.md").read_text(encoding="utf-8").partition(head)[2]
    rows = [[cell.strip() for cell in line.split("|")] for line in page.partition("\n\n")[0].splitlines()[2:]]
    said = {heading: ahead for _, heading, *_, ahead, _ in rows}
    found = {row: apart(repository, key, *OVER_CONTROLS[head]) for row, (_, *key) in quote.OF_CONTROLS.items()}
    better = {row: "−" if sign < 0 else "+" for row, (sign, *_) in quote.OF_CONTROLS.items()}
    assert said == {row: one.removeprefix(better[row]) for row, one in found.items()}


WITH_PAIRS, THE_OTHERS = "ar bg de es fr hi zh", "ru sw th tr ur"  # languages of PPA's text


def test_the_page_says_where_ppas_lead_lies(quote, repository):
    table = quote.with_pairs_of("real", "PPA less its control", *OVER_CONTROLS["| over mbert |"]).splitlines()[2:]
    said = {cells[1]: [cell.strip("*") for cell in cells[2:4]] for cells in (re.split(r" ?\| ?", one) for one in table)}
    assert said["alignment, errors fewer"][1] == "--" and len(said) == 7
    keys = {row: key for row, (_, *key) in quote.OF_CONTROLS.items()} | {
        "FLORES": ("flores", "zero-shot-retrieval", "accuracy")
    }
    for row in said.keys() - {"alignment, errors fewer"}:
        pair = [
            apart(repository, keys[row], *OVER_CONTROLS["| over mbert |"], only) for only in (WITH_PAIRS, THE_OTHERS)
        ]
        assert said[row] == pair, row


@pytest.mark.parametrize("label", ["over XLM-R's control", "over the control with TLM"])
def test_the_page_sets_every_method_beside_xlm_rs_controls(quote, repository, label):
    """By Welch's t; † are those that Holm's steps, from the smallest p on, leave decided among all of the table."""
    control, runs = quote.OVER_XLM_R[label]
    told = ("real", label, control, quote.OF_REAL[0], runs)
    rows = [re.split(r" ?\| ?", line)[1:-1] for line in quote.over_control_of(*told).splitlines()[2:]]
    said = {(row[0], key): cell for row in rows for cell, key in zip(row[1:], quote.OF_REAL[0].values(), strict=True)}
    welch = {
        (words, key): welch_of(repository, key, run, control)
        for words, run in runs.items()
        for key in quote.OF_REAL[0].values()
    }
    assert {cell: words.strip("*† ") for cell, words in said.items()} == {
        cell: apart_words(found) for cell, found in welch.items()
    }
    order = sorted(welch, key=lambda cell: welch[cell].pvalue)
    fails = [welch[cell].pvalue * (len(order) - step) > 0.05 for step, cell in enumerate(order)]
    assert {cell for cell, words in said.items() if words.endswith(" †")} == {*order[: fails.index(True)]} != set()


def test_the_page_sets_methods_beside_their_controls_at_every_layer(quote, repository):
    """By Welch's t of SciPy on what the score files hold of a layer, in which both directions of retrieval count."""
    rows, runs = quote.AT_LAYERS
    said = [re.split(r" ?\| ?", line)[1:-1] for line in quote.layers_of("real", "", rows, runs).splitlines()]
    found = [["", *map(str, range(5))], ["---"] * 6]
    for label, pair in runs.items():
        for row, (sign, task, setting, metric) in rows.items():
            curves = [layer_means(repository, run, task, setting, metric) for run in pair]
            cells = [
                apart_words(ttest_ind(*(sign * means[layer] for means in curves), equal_var=False))
                for layer in range(5)
            ]
            found.append([f"{label}, {row}", *cells])
    assert [[cell.strip("*") for cell in line] for line in said] == found


def layer_means(repository: Path, run: str, task: str, setting: str, metric: str) -> np.ndarray:
    """[layer, pre-training]: of all that its file holds in languages other than English; each has both directions or
    none."""
    means = []
    for path in sorted((repository / "reference/scores/real" / run / task / setting).glob("seed-*.json")):
        scores = [one for one in json.loads(path.read_text())["scores"] if one["language"] != "en"]
        of_layers = [one for one in scores if one["metric"] == f"{metric}-by-layer" and one["direction"] != "both"]
        means.append([fmean(one["value"] for one in of_layers if one["layer"] == layer) for layer in range(5)])
    return np.array(means).T


def test_averages_without_a_task_are_on_average_those_of_all(quote):
    """Each task is left out once, so the mean of what is left is the whole, which says what the claim's quote does."""
    (table,) = (one for one in quote.tables_in("docs/what-we-learnt.md") if one.startswith("| XTREME's average"))
    heads, _, whole, *without = ([cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines())
    for column, (claim, beside) in enumerate(quote.OF_AVERAGES.values(), 1):
        value, left = points_of(whole[column]), [points_of(row[column]) for row in without if row[column] != "--"]
        assert value == pytest.approx(fmean(left), abs=0.11) and len(left) in (7, 9), heads[column]
        assert len(set(left)) > 2, heads[column]
        said, verdict = whole[column].split("; ")
        if not beside:
            quoted = quote.quotes_of("mini")[claim]
            assert f": {said} of " in quoted and quoted.split("; ")[1].split(",")[0] == verdict


def points_of(cell: str) -> float:
    return float(cell.partition(" ")[0].replace("−", "-"))


@pytest.mark.parametrize("start", [0.0, 10.0])
def test_a_share_ends_where_the_test_of_it_does(quote, start):
    """With a start that never varies a share of its lead is a test of two means, SciPy's. A lead that may be none has
    no shares: nearly none of it is as possible as many times it, and with either sign."""
    control, run = [3.0, 3.4, 3.9], [8.0, 9.1, 8.4, 8.8]
    share, low, high = (int(one) / 100 for one in re.findall(r"\d+", words(quote, start, control, run)))

    def p_value(share: float) -> float:
        return ttest_ind(control, [share * one for one in run], equal_var=False).pvalue

    assert share == pytest.approx(fmean(control) / fmean(run), abs=0.006)
    assert min(p_value(low + 0.02), p_value(high - 0.02)) > 0.05 > max(p_value(low - 0.02), p_value(high + 0.02))
    assert words(quote, start, [3.0, 3.4, 3.9], [1.0, 7.0, 16.0]) == "–"
    assert words(quote, start, [-3.0, 3.0, 3.1], [-1.0, 1.0, 1.1]) == "–"


def words(quote, start: float, control: Sequence[float], run: Sequence[float]) -> str:
    return quote.share_words([start] * 3, *([start + one for one in those] for those in (control, run)))


def test_readme_quotes_differences_of_the_page(quote, repository):
    """Its bullets say them without a sign; one is of a setting that the page's table has no column for."""
    tuned = {"fine-tuned": ("tatoeba", "retrieval-fine-tuned", "accuracy")}
    known = quote.differences_of("", "real", *quote.OF_REAL, apart=True)
    known += quote.differences_of("", "real", tuned, {"": ("ernie-m-base", "xlm-r")}, apart=True)
    pairs = [(key, those) for _, *key in quote.OF_CONTROLS.values() for those in OVER_CONTROLS.values()]
    known += "".join(f"{apart(repository, key, *those)} " for key, those in pairs)
    for control, runs in quote.OVER_XLM_R.values():
        known += quote.over_control_of("real", "", control, quote.OF_REAL[0], runs)
    known += quote.with_pairs_of("real", "", *OVER_CONTROLS["| over mbert |"])
    text = (repository / "README.md").read_text(encoding="utf-8").partition("## On real languages")[2]
    said = re.findall(r"\d+\.\d ± \d+\.\d", text.partition("| model")[0])
    assert len(said) > 8 and {one for one in said if not re.search(rf"[+−]{re.escape(one)}[ *]", known)} == set()


def test_what_the_pages_quote_is_written_anew(quote):
    """A table by its first line, a claim by its name; what stands around them stays, and an unknown one is told."""
    table = "| model | XNLI |\n| --- | --- |\n| ours | 51.0 |"
    text = f"Before.\n\n{table.replace('51.0', '49.9')}\n\n> - `a`: +1.0; undecided\n\nAfter `a`.\n"
    renewed = quote.with_quotes(quote.with_table(text, table, "page.md"), {"a": "> - `a`: +2.0; reproduced"}, "page.md")
    assert renewed == f"Before.\n\n{table}\n\n> - `a`: +2.0; reproduced\n\nAfter `a`.\n"
    with pytest.raises(UserError, match=r"page.md: 0 tables begin with '\| run \| XNLI \|'"):
        quote.with_table(text, table.replace("model", "run"), "page.md")
    with pytest.raises(UserError, match=r"page\.md: quotes a, no claim of config/claims\.yaml"):
        quote.with_quotes(text, {}, "page.md")


def test_readmes_picture_shows_the_reference_scores(quote, repository, tmp_path):
    quote.draw_picture(tmp_path / "real.svg")
    assert (tmp_path / "real.svg").read_text() == (repository / "docs/real.svg").read_text(), "python docs/quote.py"


def claims_of(document: Path) -> list[list[str]]:
    """The rows of the table of claims, by cells."""
    lines = (document / "results/tables/claims.md").read_text(encoding="utf-8").splitlines()
    return [line.strip("| ").split(" | ") for line in lines if line.startswith("|")]


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("scale", "page", "least"), [("mini", "docs/what-we-learnt.md", 10), ("real", "docs/real-results.md", 2)]
)
def test_the_pages_quote_the_claims_as_the_reference_scores_make_them(repository, document, scale, page, least):
    rows = claims_of(document)
    [at] = {row.index(scale) for row in rows if row[0] == "claim"}
    of_scale = {row[0].strip("`"): row[at].split("<br>") for row in rows if row[0].startswith("`")}
    text = (repository / page).read_text(encoding="utf-8")
    quotes = re.findall(r"^> - `([\w-]+)`: (.+); (.+)$", text, flags=re.MULTILINE)
    assert len(quotes) == text.count("> - `") >= least
    for claim, found, verdict in quotes:
        *effects, said = of_scale[claim]
        assert (found, verdict) == ("; ".join(effects), said.split(" ", 1)[1]), claim


@pytest.mark.e2e
def test_readme_counts_the_claims_of_the_reference_scores(quote, repository, document):
    counts = {row[0]: row[1:] for row in claims_of(document) if row[0].startswith("mini")}
    reproduced, direction, refuted, _, undecided, _, impossible = counts["mini"]
    corrected = counts["mini, corrected"][0]
    ledger = json.loads((document / "results/mini/claims.json").read_text(encoding="utf-8"))
    tested = sum(claim["p_adjusted"] is not None for claim in ledger["claims"])
    told = (
        f"{reproduced} are reproduced ({corrected} of them after correction for the {tested} that have a test), "
        f"{refuted} are not, and "
    )
    alone = "is in its direction" if direction == "1" else "are in their direction"
    told += f"{direction} {alone} alone; {undecided} are undecided, {impossible} cannot be tried at this size"
    readme = " ".join((repository / "README.md").read_text(encoding="utf-8").split())
    assert told in readme
    ours = {claim["id"]: claim for claim in ledger["claims"] if claim["verdict"] == "reproduced"}
    [looks] = [line for line in quote.corrections_of("mini").splitlines() if line.startswith("| the same, six are two")]
    left = len(ours.keys() - set(re.findall("`([^`]+)`", looks)))
    beside = Counter(claim["control"]["verdict"] for claim in ours.values() if claim.get("control"))
    assert f"and {left} stay so where earlier looks at fewer pre-trainings count too" in readme
    assert beside.keys() == {"reproduced", "undecided"}
    stays = f"beside it {beside['reproduced']} stay, and {beside['undecided']} are undecided"
    assert f"For {beside.total()} of the {reproduced} there is a control that trains on for as long: {stays}" in readme


def test_readme_counts_the_claims_that_both_worlds_decide(quote, repository):
    here, there = ({claim["id"]: claim for claim in quote.claims_of(scale)} for scale in ("mini", "mini-2"))
    decided = {"reproduced", "not reproduced", "direction only"}
    alike = {}
    for which in ("verdict", "verdict_corrected"):
        pairs = [(here[claim][which], there[claim][which]) for claim in here.keys() & there.keys()]
        assert not [pair for pair in pairs if pair[0] != pair[1] and {*pair} <= decided]
        alike[which] = Counter(verdict for verdict, other in pairs if verdict == other)
    alone, corrected = alike.values()
    assert (
        f"**In both worlds** {alone['reproduced']} are reproduced "
        f"({corrected['reproduced']} after correction in each), {alone['not reproduced']} are not, "
        f"{alone['direction only']} are in their direction alone; none is decided opposite ways."
    ) in (repository / "README.md").read_text(encoding="utf-8")


BORROWED = "xlm-align-base"  # of parallax/methods, and not of those that a plain make trains


@pytest.fixture
def kept(repository, tmp_path, config) -> Path:
    """A repository that keeps one score of a run that is not trained."""
    shutil.copytree(repository / "config", tmp_path / "config")
    write(tmp_path / "made", config, (BORROWED, *PLAIN[1:]), scores=[entry(code, 50.0) for code in ("en", "de")])
    assert keep_reference.keep(config, tmp_path / "made", tmp_path / "reference", "a machine") == (1, [])
    return tmp_path


def methods(root: Path, *overrides: str):
    scores = "reference/scores/mini" if "scores_from=reference" in overrides else "results/mini/scores"
    context, tables, _ = load_context(root / "config/config.yaml", "mini", root / scores, overrides)
    table = build(tables["parallax/methods"], context)
    [row] = [row for row in table.rows if row.run == BORROWED]
    return table, row


def test_where_nothing_was_trained_a_finished_reference_score_is_shown_and_marked(kept):
    table, row = methods(kept)
    assert row.cells[0].summary.mean == 50.0 and row.cells[0].files[0].is_relative_to(kept / "reference")
    lacks = f"run {BORROWED} is not trained here, and has no such score in reference/"
    assert row.cells[2].reason == f"{lacks}; add it to `runs`, or say --config runs=all"
    assert "Not trained here: the reference scores of the repository." in render_markdown(table)
    config = load_config(kept, {"scale": "mini"})
    path = f"reference/scores/mini/{BORROWED}/xnli/cross-lingual-transfer/seed-1.json"
    assert path in score_paths(config, config.tables["parallax/methods"])
    assert path not in all_score_paths(config), "what is collected is what was trained here"
    for item, spec in config.figures.items():
        assert not [own for own in score_paths(config, spec) if own.startswith("reference/")], item


@pytest.mark.parametrize("override", ["runs=all", "scores_from=reference"])
def test_a_run_that_is_trained_here_shows_its_own_scores_alone(kept, override):
    table, row = methods(kept, override)
    assert not table.context.borrowed and "Not trained here" not in render_markdown(table)
    assert (row.cells[0].summary is not None) == (override == "scores_from=reference")


def test_a_reference_score_of_another_configuration_is_not_shown(kept):
    path = kept / f"reference/scores/mini/{BORROWED}/xnli/cross-lingual-transfer/seed-1.json"
    path.write_text(path.read_text().replace('"task_version": ', '"task_version": 9'))
    _, row = methods(kept)
    assert row.cells[0].summary is None and "no such score in reference/" in row.cells[0].reason


def test_what_is_looked_at_twice_has_all_seeds_of_the_second_look(repository):
    """Who adds those alone that speak for it decides anything."""
    kept = load_config(repository, {"scale": "mini", "scores_from": "reference"})
    again = second_look(kept)
    twice = [claim for claim in kept.claims if looked_at_twice(kept, claim)]
    assert twice, "no claim is looked at twice: remove this test"
    needed = claim_needs(again, twice)
    paths = [score_path(kept, *need, seed) for need in needed for seed in kept.scale["second_look"]["seeds"]]
    assert [path for path in paths if not (repository / path).exists()] == []
    assert {path for path in paths if is_current(kept, path)} == {*paths} <= {*claim_paths(kept)}
    assert {pretrain_seed(kept, seed) for seed in kept.scale["second_look"]["seeds"]} == {7, 8, 9, 10, 11, 12}
