"""What is compared without a score: printed values beside ours, sizes of corpora and models, and what rests on what."""

import csv
import dataclasses
import io
import json
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import compile_document
import count_corpus
import make_comparison
import make_document
import plan.needs
from common.errors import UserError
from corpus.corpusio import zst_writer
from costs import total
from made_up import entry, write_score
from plan import compare_specs
from plan.claimed import counted_data
from plan.load import load_config
from plan.needs import canonical_run, comparison_digest
from plan.recipes import recipe_of, resolve_recipe
from plan.runs import resolve_run
from report import comparisons
from report.comparison_cells import (
    OURS,
    PRINTED,
    SCALE,
    Comparison,
    Value,
    as_written,
    flops_by_papers,
    flops_of_ours,
    is_printed,
    parameters,
    written,
)
from report.comparison_html import render_html
from report.comparison_words import rows_of
from report.context import Context, load_context
from report.table_spec import load_spec
from report.tables import build
from trees import edit

ITEMS = {
    "corpora": ["ernie-m/table-09", "ernie-m/table-10", "veco/table-05", "veco/table-06"],
    "resources": ["ppa/table-01"],
    "hyperparameters": [
        *(f"ernie-m/table-{number}" for number in (11, 12, 13, 14)),
        *("veco/table-07", "veco/table-09", "xlm-e/table-06", "xlm-e/table-07"),
    ],
    "models": ["ppa/table-03", "veco/table-08", "xlm-e/table-02"],
}
ALL = [item for items in ITEMS.values() for item in items]


@pytest.fixture(scope="module")
def bare(repository, tmp_path_factory) -> Path:
    """As `tree` is, for those who change nothing."""
    root = tmp_path_factory.mktemp("bare")
    shutil.copytree(repository / "config", root / "config")
    return root


def context_of(root: Path, scale: str = "mini", **overrides: object) -> Context:
    pairs = [f"{key}={json.dumps(value)}" for key, value in overrides.items()]
    context, _, _ = load_context(root / "config/config.yaml", scale, root / f"results/{scale}/scores", pairs)
    return context


once = cache(context_of)  # of a tree that nobody changes


def compared(root: Path, item: str, scale: str = "mini", context=context_of, **overrides: object) -> Comparison:
    return comparisons.build(load_spec(root / f"config/tables/{item}.yaml"), context(root, scale, **overrides))


def cell(comparison: Comparison, row: str, column: str, source: str, block: str = "") -> Value:
    [found] = [
        line.cells[comparison.columns.index(column)]
        for one in comparison.blocks
        for own in one.rows
        for line in own.lines
        if block in one.title and (own.label, line.source) == (row, source)
    ]
    return found


# --- every item -----------------------------------------------------------------------------------------------------


def test_every_item_that_is_no_result_is_compared(bare):
    config = load_config(bare, {"scale": "mini"})
    found = {item: next(iter(spec["compare"])) for item, spec in config.tables.items() if "compare" in spec}
    assert found == {item: kind for kind, items in ITEMS.items() for item in items}


def test_they_are_those_of_the_index(papers):
    with open(papers / "index.csv", encoding="utf-8", newline="") as file:
        kinds = ("data-statistics", "hyperparameters", "model-comparison")
        listed = {f"{row['paper']}/{row['item']}" for row in csv.DictReader(file) if row["kind"] in kinds}
    assert listed == set(ALL)


@pytest.mark.parametrize("scale", ["smoke", "mini", "small", "paper"])
def test_every_item_is_written_without_any_result(bare, scale):
    context = once(bare, scale)
    for item in ALL:
        spec = load_spec(bare / f"config/tables/{item}.yaml")
        comparison = comparisons.build(spec, context)
        for render in make_comparison.RENDER.values():
            text = render(comparison)
            assert text == render(comparisons.build(spec, context)) and text.endswith("\n")
        header, rows = rows_of(comparison)
        assert {len(row) for row in rows} == {len(header)}
        tidy = list(csv.DictReader(io.StringIO(make_comparison.render_csv(comparison))))
        assert len(tidy) == sum(len(line.cells) for row in comparison.rows for line in row.lines)
        for line in tidy:  # a value or a reason, never both
            assert not (line["value"] and line["reason"])


def test_everything_that_is_printed_is_shown_as_it_is(bare):
    """Each value of a CSV stands in the table, character by character."""
    context = once(bare)
    for item in ALL:
        spec = load_spec(bare / f"config/tables/{item}.yaml")
        shown = [c.text for row in comparisons.build(spec, context).rows for c in row.lines[0].cells]
        with open(bare / spec["published"], encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        names = {
            "language",
            "pair",
            "hyperparameter",
            "setting",
            "section",
            "resource",
            "model",
            "metric",
            "task",
            "note",
        }
        for row in rows:
            for column, value in row.items():
                if value and column not in names and item != "xlm-e/table-02":
                    assert value in shown, (item, column, value)
    terms = [c.text for row in compared(bare, "xlm-e/table-02", context=once).rows for c in row.lines[0].cells]
    assert {"9.6e21 + 1.7e20", "9.6e21", "9.5e19", "279M", "69.3"} <= set(terms)


def test_a_difference_is_explained_and_an_explanation_is_of_a_difference(bare):
    for item in [*ITEMS["hyperparameters"], *ITEMS["models"]]:
        comparison = compared(bare, item, "paper", context=once)
        told = next(iter(comparison.spec["compare"].values())).get("differs", {})
        differing = [c for row in comparison.rows for line in row.lines for c in line.cells if c.differs]
        assert all(c.note for c in differing), item
        assert {c.note for c in differing} == set(told.values()), item


def test_at_the_papers_scale_nothing_but_the_size_of_the_data_changes(bare):
    for item in ITEMS["hyperparameters"]:
        for row in compared(bare, item, "paper", context=once).rows:
            _, ours, scale = row.lines
            assert [c.text for c in ours.cells] == [c.text for c in scale.cells]


# --- notation -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value", "shown"),
    [
        ("5e-5", 5e-5, "5e-5"),
        ("0", 0.0, "0"),
        ("0.0", 0.0, "0"),
        ("240K", 240000, "240K"),
        ("12k", 12000, "12k"),
        ("1M", 2048 * 512, "1048576"),  # to the digit that is printed
        ("250k", 250002, "250k"),
        ("10%", 0.1, "10%"),
        ("12500 steps", 12500, "12500 steps"),
        ("15%/25%", [0.15, 0.25], "15%/25%"),
        ("1024/4096", [1024, 4096], "1024/4096"),
        ("(0.9, 0.98)", [0.9, 0.98], "(0.9, 0.98)"),
        ("[1e-5,2e-5,3e-5]", [1e-5, 2e-5, 3e-5], "{1,2,3}e-5"),
        ("[3e-6,5e-6,1e-5]", [3e-6, 5e-6, 1e-5], "{3,5,10}e-6"),
        ("{5,...,9}e-6", [5e-6, 6e-6, 7e-6, 8e-6, 9e-6], "{5,6,7,8,9}e-6"),
        ("{8,9,10,20}e-6", [8e-6, 9e-6, 1e-5, 2e-5], "{8,9,10,20}e-6"),
        ("{8,16,32}", [8, 16, 32], "{8,16,32}"),
        ("Linear", "linear", "Linear"),
        ("662M", 662_400_000, "662M"),
    ],
)
def test_notations_of_one_value(text, value, shown):
    assert is_printed(text, value)
    assert written(value, text) == shown
    assert is_printed(shown, value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("5e-5", 6e-5),
        ("240K", 241000),
        ("279M", 278_294_418),
        ("10%", 0.15),
        ("15%/25%", [0.25, 0.15]),
        ("15%/25%", 0.15),
        ("{8,16,32}", [8, 16]),
        ("{5,...,9}e-6", [5e-6, 9e-6]),
        ("Linear", "cosine"),
        ("Linear", 3),
        ("0.1", "none"),
    ],
)
def test_values_that_are_not_what_is_printed(text, value):
    assert not is_printed(text, value)


@pytest.mark.parametrize(
    ("value", "like", "shown"),
    [
        (20, "240K", "20"),
        (2500, "110k", "2500"),
        (0.1, "12500 steps", "10%"),
        (1e-4, "0.01", "1e-4"),
        (0.0, "2.0", "0"),
    ],
)
def test_no_digit_is_lost_in_the_notation_of_the_paper(value, like, shown):
    assert written(value, like) == shown


# --- hyper-parameters -----------------------------------------------------------------------------------------------


def test_a_changed_number_of_a_run_is_a_difference(tree):
    row, column = "Warmup steps", "Base"
    assert not cell(compared(tree, "ernie-m/table-11"), row, column, OURS).differs
    edit(tree, "config/runs/ernie-m-base.yaml", "warmup_steps: 10000", "warmup_steps: 9000")
    comparison = compared(tree, "ernie-m/table-11")
    changed = cell(comparison, row, column, OURS)
    assert (changed.text, changed.differs, changed.note) == ("9000", True, "")
    # large extends base and says nothing of the warm-up; small has its own
    assert cell(comparison, row, "Large", OURS).differs and not cell(comparison, row, "Small", OURS).differs
    assert rf"{make_comparison.UNLIKE_LATEX}\,9000" in make_comparison.render_latex(comparison)
    assert "≠ 9000" in make_comparison.render_markdown(comparison)
    assert "≠ 9000" in render_html(comparison)


def test_a_changed_number_of_a_recipe_is_a_difference_in_its_column(tree):
    edit(tree, "config/tasks/conll-ner.yaml", "train-all: {peak_lr: 3.0e-4,", "train-all: {peak_lr: 2.0e-4,")
    comparison = compared(tree, "ernie-m/table-12")
    differing = [
        (row.label, column)
        for row in comparison.rows
        for column, c in zip(comparison.columns, row.lines[1].cells, strict=True)
        if c.differs
    ]
    assert differing == [("Learning rate", "CoNLL (train-all)")]


def test_the_scale_is_what_the_plan_resolves(bare):
    config = load_config(bare, {"scale": "mini"})
    comparison = compared(bare, "ernie-m/table-11", context=once)
    for heading, run in (("Small", "ernie-m-small"), ("Base", "ernie-m-base"), ("Large", "ernie-m-large")):
        resolved = resolve_run(config, run)
        assert cell(comparison, "Layers", heading, SCALE).text == str(resolved["model"]["layers"])
        assert cell(comparison, "Adam beta2", heading, SCALE).text == str(resolved["optimizer"]["betas"][1])
    recipe = resolve_recipe(config, "xnli", "cross-lingual-transfer", recipe_of(config, "xlm-e-base"))["recipe"]
    comparison = compared(bare, "xlm-e/table-07", context=once)
    assert cell(comparison, "Epochs", "XNLI", SCALE).text == str(recipe["epochs"])
    assert cell(comparison, "Learning rate", "XNLI", SCALE).text == "1e-3" and recipe["peak_lr"] == 1e-3


@pytest.mark.parametrize("item", ["ernie-m/table-12", "ernie-m/table-13", "ernie-m/table-14", "xlm-e/table-07"])
def test_the_papers_recipes_are_those_that_the_plan_resolves(bare, item):
    """As written, by another way: the resolved recipe at the paper's scale, which adds a precision alone."""
    config = load_config(bare, {"scale": "paper"})
    for column in load_spec(bare / f"config/tables/{item}.yaml")["compare"]["hyperparameters"]["columns"]:
        run, task, setting = column["run"], column["task"], column["setting"]
        resolved = resolve_recipe(config, task, setting, recipe_of(config, run))["recipe"]
        own = as_written(config, run, task, setting).recipe
        assert own | {"precision": "bf16"} == {key: value for key, value in resolved.items() if key != "name"}


def test_resolving_a_run_changes_no_run_as_it_is_written(bare):
    config = load_config(bare, {"scale": "paper"})
    before = json.dumps(load_config(bare, {"scale": "paper"}).runs, sort_keys=True)
    small = dataclasses.replace(config, scale=load_config(bare, {"scale": "mini"}).scale, _resolved={}, _hashes={})
    for run in small.runs:
        resolve_run(small, run)
    assert json.dumps(small.runs, sort_keys=True) == before


# --- models ---------------------------------------------------------------------------------------------------------

V, POSITIONS = 250_002, 514


def encoder_by_hand(layers: int, h: int, f: int, extra: int = 0) -> int:
    """Embeddings with their LayerNorm, and of each layer four projections, the FFN and two LayerNorms."""
    block = 4 * (h * h + h) + (h * f + f) + (f * h + h) + 2 * 2 * h
    return (V + POSITIONS + extra) * h + 2 * h + layers * block


def head_by_hand(h: int) -> int:
    return h * h + h + 2 * h + V  # the output matrix is the table of tokens


def gated_bias_by_hand(layers: int, h: int, heads: int) -> int:
    return 32 * heads + layers * (2 * h // heads + heads)


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        ("xlm-r", encoder_by_hand(12, 768, 3072) + head_by_hand(768)),
        ("xlm-r-large", encoder_by_hand(24, 1024, 4096) + head_by_hand(1024)),
        # a decoder's sublayer of each block: four projections and a LayerNorm
        ("veco-large", encoder_by_hand(24, 1024, 4096) + 24 * (4 * 1024 * 1025 + 2 * 1024) + head_by_hand(1024)),
        # neither generator nor heads; a table of distances, and of each layer two gates and a weight of each head
        ("xlm-e-base", encoder_by_hand(12, 768, 3072) + gated_bias_by_hand(12, 768, 12)),
        ("mbert", encoder_by_hand(12, 768, 3072, extra=2) + head_by_hand(768)),
    ],
)
def test_parameters_are_those_by_hand(bare, run, expected):
    config = load_config(bare, {"scale": "paper"})
    found = parameters(as_written(config, run))
    if run == "mbert":  # and the judge of two neighbours
        assert 0 <= found - expected < 600_000
    else:
        assert found == expected


def test_xlm_r_base_has_the_parameters_of_transformers(bare):
    transformers = pytest.importorskip("transformers", reason="install tests/requirements.txt (make test does)")
    import torch

    config = transformers.XLMRobertaConfig(vocab_size=V, max_position_embeddings=POSITIONS, type_vocab_size=1)
    with torch.device("meta"):
        theirs = transformers.XLMRobertaForMaskedLM(config)
    tied = {id(weight): weight.numel() for weight in theirs.parameters()}
    segment = theirs.roberta.embeddings.token_type_embeddings.weight.numel()  # one vector, which ours has not
    ours = as_written(load_config(bare, {"scale": "paper"}), "xlm-r")
    output = theirs.lm_head.decoder.weight
    untied = output.numel() if output is not theirs.roberta.embeddings.word_embeddings.weight else 0
    bias = theirs.lm_head.decoder.bias.numel() if theirs.lm_head.decoder.bias is not theirs.lm_head.bias else 0
    assert parameters(ours) == sum(tied.values()) - segment - untied - bias


def test_flops_are_those_of_the_cost_module(bare, loaded):
    config = load_config(bare, {"scale": "paper"})
    for run in ("xlm-r", "xlm-e-base", "infoxlm-base"):
        own = as_written(config, run)
        assert flops_of_ours(own) == pytest.approx(total(loaded(run)), rel=1e-12)
        assert flops_by_papers(own) == pytest.approx(total(loaded(run), "papers"), rel=1e-12)
    # objectives that take turns see half of the steps each
    assert flops_of_ours(as_written(config, "veco-large")) == pytest.approx(total(loaded("veco-large")) / 2, rel=1e-12)


def write_training(root: Path, run: str, seed: int, flops: float) -> None:
    path = root / f"results/mini/trainings/{run}/seed-{seed}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    cost = {"flops": flops, "flops_by_the_papers_counting": 2 * flops, "tokens": 1, "steps": 1, "seconds": 1.0}
    about = {"run": run, "seed": seed, "scale": "mini", "run_hash": run, "cost": {**cost, "parameters": {}}}
    path.write_text(json.dumps({**about, "curves": {}}), encoding="utf-8")


def test_measured_flops_are_those_of_the_run_and_of_what_it_starts_from(tree):
    for seed, flops in ((1, 1e12), (2, 2e12), (3, 3e12)):
        write_training(tree, "xlm-r", seed, flops)
        write_training(tree, "infoxlm-base", seed, flops / 10)
    comparison = compared(tree, "xlm-e/table-02", runs="all")
    assert cell(comparison, "XLM-R base", "FLOPs (matrix products)", SCALE).text == "2.0e12"
    assert cell(comparison, "InfoXLM base", "FLOPs (papers' counting)", SCALE).text == "4.0e12 + 4.0e11"
    missing = cell(comparison, "mBERT", "FLOPs (matrix products)", SCALE)
    assert not missing.text and "training of mbert" in missing.reason
    unselected = cell(compared(tree, "xlm-e/table-02"), "InfoXLM base", "FLOPs (matrix products)", SCALE)
    assert "infoxlm-base is not trained here" in unselected.reason


TASKS = {
    "ud-pos": ["f1"],
    "wikiann-ner": ["f1"],
    "xquad": ["f1", "exact-match"],
    "mlqa": ["f1", "exact-match"],
    "tydiqa-goldp": ["f1", "exact-match"],
    "xnli": ["accuracy"],
    "paws-x": ["accuracy"],
}


def test_the_average_is_the_one_of_the_table_of_scores(tree):
    root, context = tree / "results/mini/scores", context_of(tree, runs="all")
    for number, (task, metrics) in enumerate(TASKS.items()):
        for seed in (1, 2, 3):
            scores = [entry("en", 50 + number + seed, metric) for metric in metrics]
            write_score(root, "xlm-r", task, "cross-lingual-transfer", seed, scores, config=context.config)
    table = build(load_spec(tree / "config/tables/xlm-e/table-01.yaml"), context)
    [row] = [row for row in table.rows if row.run == "xlm-r"]
    average = row.cells[[column.heading for column in table.columns].index("Average")].summary
    assert average.n == 3 and average.mean == 55
    shown = cell(
        comparisons.build(load_spec(tree / "config/tables/xlm-e/table-02.yaml"), context), "XLM-R base", "XTREME", SCALE
    )
    assert shown.text == "55.0 ± 1.0 (3)"


def test_a_comparison_needs_the_scores_of_its_own_rows_alone(bare):
    config = load_config(bare, {"scale": "mini", "runs": "all"})
    needs = plan.needs.needs(config, config.tables["xlm-e/table-02"])
    assert {task for _, task, _ in needs} == set(TASKS)
    assert {run for run, _, _ in needs} == {
        canonical_run(config, row["run"]) for row in config.tables["xlm-e/table-02"]["compare"]["models"]["rows"]
    }
    assert set(needs) <= set(plan.needs.needs(config, config.tables["xlm-e/table-01"]))
    assert not any(plan.needs.needs(config, config.tables[item]) for item in ALL if item != "xlm-e/table-02")


# --- corpora --------------------------------------------------------------------------------------------------------


def write_clean(folder: Path, shard: int, kind: str, lines: list[str], raw: int) -> None:
    """Clean text with the counts that cleaning writes; an empty line ends a document."""
    suffix = {"mono": "txt", "bitext": "tsv"}[kind]
    folder.mkdir(parents=True, exist_ok=True)
    with zst_writer(folder / f"{shard}.clean.{suffix}.zst") as out:
        out.writelines(f"{line}\n" for line in lines)
    texts = [line for line in lines if line]
    documents = sum(not line for line in lines) if kind == "mono" else len(texts)
    sentences = len(texts) * (1 if kind == "mono" else 2)
    out = {"documents": documents, "sentences": sentences, "words": 7, "characters": 9}
    content = {"kind": kind, "in": {"documents": raw, "sentences": 3 * raw}, "out": out, "rejected": {}}
    (folder / f"{shard}.clean.json").write_text(json.dumps(content), encoding="utf-8")


def test_counts_are_those_by_hand(tmp_path):
    corpus = tmp_path / "corpus"
    write_clean(corpus / "mono/cc-100/de", 0, "mono", ["äb", "c", "", "dd", ""], raw=4)
    write_clean(corpus / "mono/cc-100/de", 1, "mono", ["€", ""], raw=1)
    write_clean(corpus / "bitext/IITB/en-hi", 0, "bitext", ["one\tएक", "two\tदो"], raw=5)
    paths = sorted(corpus.rglob("*.clean.json"))
    out = tmp_path / "counts.json"
    command = [sys.executable, count_corpus.__file__, "--counts", *map(str, paths), "--out", str(out)]
    subprocess.run(command, check=True, capture_output=True)
    kept = {"documents": 3, "sentences": 4, "words": 14, "characters": 18, "bytes": 3 + 1 + 2 + 3}
    pairs = {"pairs": 2, "sentences": 4, "words": 7, "characters": 9, "bytes": 3 + 6 + 3 + 6}
    assert json.loads(out.read_text()) == {
        "mono": {"cc-100": {"de": {"raw": {"documents": 5, "sentences": 15}, "kept": kept}}},
        "bitext": {"IITB": {"en-hi": {"raw": {"pairs": 5, "sentences": 15}, "kept": pairs}}},
    }
    assert count_corpus.count(paths[::-1]) == count_corpus.count(paths)


def test_counts_that_are_none_are_an_error(tmp_path):
    path = tmp_path / "mono/cc-100/de/0.clean.json"
    with pytest.raises(UserError, match="no such file; clean the shard first"):
        count_corpus.count([path])
    path.parent.mkdir(parents=True)
    path.write_text("{}")
    with pytest.raises(UserError, match="no counts of cleaning"):
        count_corpus.count([path])
    with pytest.raises(UserError, match="expected <mono or bitext>"):
        count_corpus.count([tmp_path / "0.clean.json"])
    write_clean(path.parent, 0, "mono", ["a", ""], raw=1)
    text = path.with_name("0.clean.txt.zst")
    text.write_bytes(text.read_bytes()[:-3])
    with pytest.raises(UserError, match=r"0\.clean\.txt\.zst: broken"):
        count_corpus.count([path])
    text.unlink()
    with pytest.raises(UserError, match=r"0\.clean\.txt\.zst: no such file; clean the shard first"):
        count_corpus.count([path])


def write_counts(root: Path, scale: str, pairs: dict[tuple[str, str], int], sizes: dict[str, int]) -> None:
    content = {"mono": {"cc-100": {}}, "bitext": {}}
    for code, size in sizes.items():
        kept = {"documents": size // 100, "sentences": size // 10, "bytes": size}
        content["mono"]["cc-100"][code] = {"raw": {}, "kept": kept}
    for (corpus, pair), number in pairs.items():
        states = {"raw": {"pairs": 2 * number}, "kept": {"pairs": number, "bytes": 50 * number}}
        content["bitext"].setdefault(corpus, {})[pair] = states
    path = root / f"results/{scale}/corpus/counts.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(content), encoding="utf-8")


def test_text_is_that_of_the_run_in_a_unit_that_shows_it(tree):
    write_counts(tree, "mini", {}, {"en": 250_000, "de": 1_500})
    comparison = compared(tree, "ernie-m/table-09")
    assert cell(comparison, "en", "Size", SCALE).text == "250.0" and comparison.units[SCALE] == ["kB"]
    assert cell(comparison, "de", "Size", SCALE).text == "1.5"
    assert cell(comparison, "af", "Size", SCALE).reason == "not at scale mini"
    assert "no run that is trained here" in cell(comparison, "fr", "Size", SCALE).reason
    comparison = compared(tree, "veco/table-05")
    assert comparison.units == {PRINTED: ["M", "M", "GB"], SCALE: ["k", "k", "kB"]}
    assert [c.text for c in comparison.rows[7].lines[1].cells] == ["2.5", "25.0", "250.0"], "English"


PPA = {
    **{("MultiUN", pair): 9_000_000 for pair in ("ar-en", "en-zh", "en-fr", "en-es")},
    **{("Europarl", pair): 1_900_000 for pair in ("de-en", "en-es", "en-fr")},
    ("Europarl", "bg-en"): 400_000,
    ("EUbookshop", "bg-en"): 67_000,
    ("EUbookshop", "de-en"): 9_600_000,
    ("IITB", "en-hi"): 800_000,
}


def test_pairs_are_counted_by_resource_and_a_setting_takes_its_limit(tree):
    write_counts(tree, "paper", PPA, {})
    comparison = compared(tree, "ppa/table-01", "paper")

    def row(label: str, block: str) -> list[str]:
        return [cell(comparison, label, column, SCALE, block).text for column in comparison.columns]

    assert row("MultiUN", "Original")[:2] == ["18.0M", "18.0M"], "before cleaning, whoever reads it"
    assert row("MultiUN", "Considered") == ["", "", "", "", "9.0M", "9.0M", "", "18.0M"]
    assert row("Total", "Considered") == ["1.9M", "1.9M", "1.9M", "467k", "9.0M", "9.0M", "800k", "25.0M"]
    assert row("PPA (250k)", "Used for PPA") == [*["250k"] * 7, "1.8M"]
    assert row("PPA (600k)", "Used for PPA") == [*["600k"] * 3, "467k", *["600k"] * 3, "4.1M"]
    assert row("PPA (2M)", "Used for PPA")[3:7] == ["467k", "2.0M", "2.0M", "800k"]


def test_a_total_is_that_of_all_pairs_that_the_run_reads(tree):
    config = load_config(tree, {"scale": "paper"})
    sources = compare_specs.pairs_read(resolve_run(config, "veco-large"))
    write_counts(tree, "paper", {(corpus, pair): 1_000 for _, corpus, pair in sources}, {})
    comparison = compared(tree, "veco/table-06", "paper")
    assert cell(comparison, "en-fr", "Pairs", SCALE).text == "2.00", "two corpora"
    assert cell(comparison, "total", "Pairs", SCALE).text == f"{len(sources)}.00"
    without = [row.label for row in comparison.rows if row.lines[1].cells[0].reason]
    assert len(without) == 833 and not any("en" in label.split("-") for label in without)


def test_the_corpora_that_are_counted_are_those_of_the_runs(bare):
    def counted(**overrides: object) -> tuple[set[str], set[str]]:
        mono, bitext = counted_data(load_config(bare, overrides))
        return {name for _, name in mono}, {name for _, name in bitext}

    config = load_config(bare, {"scale": "mini"})
    assert counted(scale="mini")[0] == set(config.scale["languages"])
    assert counted(scale="mini", runs=["random-init"]) == (set(), set()), (
        "nothing is cleaned for a run that reads nothing"
    )
    assert counted(scale="mini", items=["ernie-m/table-01"]) == (set(), set())
    mono, bitext = counted(scale="paper", items=["veco/table-05"])
    assert len(mono) == 50 and len(bitext) == 46


# --- what rests on what ---------------------------------------------------------------------------------------------


def digests(root: Path) -> dict[str, str]:
    config = load_config(root, {"scale": "mini"})
    return {item: comparison_digest(config, config.tables[item]) for item in ALL}


@pytest.mark.parametrize(
    ("file", "old", "new", "changed"),
    [
        (
            "config/runs/xlm-e-base.yaml",
            "clip: 2.0}",
            "clip: 1.5}",
            {"xlm-e/table-02", "xlm-e/table-06", "xlm-e/table-07"},
        ),
        ("config/runs/veco-small-bili.yaml", "rows: 4096", "rows: 4095", {"veco/table-07"}),
        ("config/tasks/tatoeba.yaml", "steps: 200000, batch: 32", "steps: 100000, batch: 32", {"ernie-m/table-14"}),
        ("config/runs/xlm-e-base.yaml", "# XLM-E base:", "# XLM-E base, again:", set()),
        ("config/runs/hictl-15.yaml", "name: hictl-15", "name: hictl-15  # a comment", set()),
    ],
)
def test_an_edit_changes_the_digest_of_what_shows_it(tree, file, old, new, changed):
    before = digests(tree)
    edit(tree, file, old, new)
    after = digests(tree)
    assert {item for item in ALL if before[item] != after[item]} == changed


WRONG = [
    ("ernie-m/table-11", "run: ernie-m-base}", "run: ernie-m-bas}", "unknown run 'ernie-m-bas'; did you mean"),
    ("ernie-m/table-11", "model.layers", "model.layer", "unknown key of a run 'layer'; did you mean 'layers'"),
    ("ernie-m/table-11", "optimizer.betas[0]", "optimizer.betas[2]", "Adam's betas have [0] and [1]"),
    ("ernie-m/table-11", "      Layers: model.layers\n", "", "nothing says what 'Layers' is"),
    ("ernie-m/table-11", "Hidden size: model", "Hiden size: model", "nothing says what 'Hidden size' is"),
    ("ernie-m/table-11", "published: small,", "published: tiny,", "unknown column of the CSV 'tiny'"),
    ("ernie-m/table-11", "Adam beta1: &betas", "Adam beta: &betas", "unknown row, column or 'row, column' 'Adam beta'"),
    ("ernie-m/table-12", "task: xnli,", "task: xnl,", "unknown task 'xnl'; did you mean 'xnli'"),
    ("ernie-m/table-12", "recipe.epochs", "recipe.epoch", "unknown key of a recipe 'epoch'; did you mean 'epochs'"),
    ("ernie-m/table-12", "setting: train-all}", "setting: trainall}", "unknown setting of conll-ner 'trainall'"),
    ("xlm-e/table-06", "objectives.mrtd.options.generator_layers", "objectives.mrt.options.x", "did you mean 'mrtd'"),
    ("xlm-e/table-06", "generator_layers", "generator_layer", "unknown key of a run 'generator_layer'"),
    ("xlm-e/table-02", "column: Average", "column: Averag", "did you mean 'Average'"),
    ("xlm-e/table-02", "table: xlm-e/table-01", "table: xlm-e/table-1", "did you mean 'xlm-e/table-01'"),
    ("xlm-e/table-02", "published: mbert,", "published: mbrt,", "model of the CSV 'mbrt'; did you mean 'mbert'"),
    ("xlm-e/table-02", "key: flops.ours", "key: flops.our", "unknown key of a run 'flops'"),
    ("ppa/table-01", "corpus: IITB, state", "corpus: IITD, state", "corpus of a run 'IITD'; did you mean 'IITB'"),
    ("ppa/table-01", "section: considered", "section: considerd", "did you mean 'considered'"),
    ("ppa/table-01", "published: Total,", "published: Totall,", "unknown resource of the CSV 'Totall'"),
    ("veco/table-05", "kind: mono", "kind: text", "compare.corpora.kind: 'text' is unknown"),
    ("veco/table-05", "across: 2", "acros: 2", "compare.corpora.acros: unknown key; did you mean 'across'"),
    ("veco/table-05", "config/published/veco/table-05.csv", "config/nowhere.csv", "nowhere.csv: no such file"),
    ("veco/table-05", "  corpora:", "  corpra:", "compare.corpra: unknown key; did you mean 'corpora'"),
    ("veco/table-05", "title: Monolingual text by language\n", "", "key 'title' is missing"),
]  # fmt: skip


@pytest.mark.parametrize(("item", "old", "new", "told"), WRONG)
def test_a_mistake_is_one_line_with_file_and_key(tree, item, old, new, told):
    edit(tree, f"config/tables/{item}.yaml", old, new)
    with pytest.raises(UserError) as caught:
        load_config(tree, {"scale": "mini"})
    assert str(caught.value).startswith(f"config/tables/{item}.yaml") and "\n" not in str(caught.value)
    assert told in str(caught.value)


# --- what is missing, and how it looks ------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", ["mini", "paper"])
def test_every_missing_cell_is_listed_with_its_reason(bare, scale):
    context = once(bare, scale)
    for item in ALL:
        spec = load_spec(bare / f"config/tables/{item}.yaml")
        listed = comparisons.missing_cells(spec, context)
        reasons = {c.reason for row in comparisons.build(spec, context).rows for line in row.lines for c in line.cells}
        assert {reason for *_, reason in listed} == reasons - {""}
        assert all(len(line) == 4 and all(line) for line in listed)
        make_document.render_missing([(item, listed)])


def test_a_footnote_has_its_letter_in_every_format(bare):
    comparison = compared(bare, "ernie-m/table-11", context=once)
    told = comparison.spec["compare"]["hyperparameters"]["differs"]["Adam beta1"]
    for render, mark, note in (
        ("latex", r"\,0.9\textsuperscript{a}", r"\textsuperscript{a} "),
        ("markdown", "| ≠ 0.9<sup>a</sup> |", f"<sup>a</sup> {told}"),
        ("html", 'aria-label="note a"', f"<sup>a</sup> {told}"),
    ):
        text = make_comparison.RENDER[render](comparison)
        assert mark in text and text.count(note) == (7 if render == "latex" else 1)


def test_what_is_missing_is_found_without_a_model(bare):
    """The document lists it where there is no torch."""
    code = (
        "import sys, pathlib; from report import comparisons, context as contexts\n"
        f"root = pathlib.Path({str(bare)!r})\n"
        "context, specs, _ = contexts.load_context(root / 'config/config.yaml', 'mini', root / 'scores')\n"
        "for spec in specs.values():\n"
        "    if 'compare' in spec: comparisons.missing_cells(spec, context)\n"
        "assert 'torch' not in sys.modules\n"
    )
    scripts = Path(make_comparison.__file__).parent
    subprocess.run([sys.executable, "-c", code], cwd=scripts, check=True)


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not on PATH")
@pytest.mark.parametrize("scale", ["mini", "paper"])
def test_every_item_fits_its_page(tree, scale):
    config = load_config(tree, {"scale": scale, "runs": "all"})
    mono, bitext = counted_data(config)
    huge = {code: 512_512_345_678 if scale == "paper" else 345_678 for _, code in mono}
    write_counts(tree, scale, dict.fromkeys(bitext, 60_392_550 if scale == "paper" else 6_039), huge)
    context = context_of(tree, scale, runs="all")
    lines = [make_document.PREAMBLE, r"\begin{document}"]
    for item in ALL:
        comparison = comparisons.build(load_spec(tree / f"config/tables/{item}.yaml"), context)
        lines += [make_comparison.render_latex(comparison), r"\clearpage"]
    tex = tree / "all.tex"
    tex.write_text("\n".join([*lines, r"\end{document}", ""]), encoding="utf-8")
    (tree / "out").mkdir()
    compile_document.compile_document(tex, tree / "out")
    log = (tree / "out/all.log").read_text(encoding="utf-8", errors="replace")
    assert re.findall(r"Overfull \\[hv]box.*|Missing character.*", log) == []
