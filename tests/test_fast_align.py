"""fast_align as a job: what it learns from, what it writes, and where the plan has it and where not."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

import fast_align
import plan.needs
import score
from archives import write_tar
from build_world import build_world
from common.errors import UserError
from common.identity import run_hash
from corpus.corpusio import zst_writer
from corpus.sides import open_sides
from engine import ibm2
from engine.alignments import diagonal, error_rate
from plan.claimed import all_needs, all_score_paths
from plan.data import data_of_runs
from plan.evidence import score_hash
from plan.load import load_config
from plan.needs import canonical_run, unfit
from plan.recipes import resolve_recipe, task_languages
from plan.runs import resolve_run, with_ancestors
from report.context import load_context
from report.scores import read_score_file
from report.tables import build
from split_corpus import pair_suffixes
from tasks import word_alignment
from trees import copy_tree, planned, snakemake

REPOSITORY = Path(__file__).resolve().parent.parent
ARCHIVE = "raw.githubusercontent.com/CZWin32768/XLM-Align/main/word_aligner/alignment-test-sets.tar.gz"
SETTING = "zero-shot-retrieval"
CORPORA = {"de-en": ["Europarl"], "en-fr": ["Europarl"], "en-ro": ["Europarl"]}


def call(module, **options) -> None:
    """The script's main; a list is an option of many words."""
    words = []
    for name, value in options.items():
        words.append(f"--{name.replace('_', '-')}")
        words += [str(one) for one in value] if isinstance(value, list) else [str(value)]
    old, sys.argv = sys.argv, ["script", *words]
    try:
        module.main()
    finally:
        sys.argv = old


def write_clean(folder: Path, corpus: str, pair: str, pairs: list[tuple[str, str]], shard: int = 0) -> Path:
    path = folder / corpus / pair / f"{shard}.clean.tsv.zst"
    path.parent.mkdir(parents=True, exist_ok=True)
    with zst_writer(path) as text:
        text.write("".join(f"{one}\t{other}\n" for one, other in pairs))
    return path


def write_recipe(path: Path, languages: list[str], **changes) -> Path:
    resolved = resolve_recipe(load_config(REPOSITORY, {"scale": "paper"}), "word-alignment", SETTING, "any")
    path.write_text(yaml.safe_dump({**resolved, "languages": languages, **changes}))
    return path


def write_run(path: Path, **changes) -> Path:
    run = {"name": "fast-align", "kind": "aligner", "numerics": 1, "data": {"bitext": {"corpora": CORPORA}}}
    path.write_text(yaml.safe_dump({**run, **changes}))
    return path


# --- the script ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Das Haus.", ["das", "haus", "."]),
        ("„Ja“, sagte er (leise)!", ["„", "ja", "“", ",", "sagte", "er", "(", "leise", ")", "!"]),
        ("l'homme, peut-être 3,5 %", ["l'homme", ",", "peut-être", "3,5", "%"]),
        ("यह घर है।", ["यह", "घर", "है", "।"]),
        (" ... ", [".", ".", "."]),
        ("", []),
    ],
)
def test_marks_at_the_ends_of_words_are_words(text, words):
    assert fast_align.words(text) == words


# Folder, its two sides, and two pairs of the corpus in alphabetical order of the codes.
MADE_UP = {
    "de": ("de-en", "das Haus .\nein Haus\n", "the house .\na house\n", [("Das Buch.", "The book."), ("Ein", "A")]),
    "fr": ("en-fr", "the house .\na house\n", "la maison .\nune maison\n", [("The book.", "Le livre."), ("A", "Un")]),
    "ro": ("ro-en", "casa .\no casă\n", "the house .\na house\n", [("The book.", "Cartea."), ("A", "O")]),
}


@pytest.fixture
def made_up(tmp_path) -> SimpleNamespace:
    archive = tmp_path / "raw" / ARCHIVE
    archive.parent.mkdir(parents=True)
    files = {}
    for folder, first, second, _ in MADE_UP.values():
        one, other = folder.split("-")
        files |= {f"{folder}/test.{one}": first, f"{folder}/test.{other}": second}
        files |= {f"{folder}/alignv2.txt": "1 1 1\n2 1 1\n"}
    write_tar(archive, files, "sets/")
    texts = [
        write_clean(tmp_path, "Europarl", "-".join(sorted((code, "en"))), [pair], shard)
        for code, (*_, pairs) in MADE_UP.items()
        for shard, pair in enumerate(pairs)
    ]
    recipe = write_recipe(tmp_path / "recipe.yaml", list(MADE_UP))
    return SimpleNamespace(folder=tmp_path, raw=tmp_path / "raw", recipe=recipe, texts=texts)


def predicted(made_up, seed: int = 1, limit: int | None = None, **changes) -> Path:
    bitext = {"corpora": CORPORA, **({"limit": limit} if limit else {})}
    run = write_run(made_up.folder / "run.yaml", data={"bitext": bitext})
    out = made_up.folder / f"predictions/seed-{seed}"
    options = {"run_file": run, "recipe": made_up.recipe, "raw": made_up.raw, "bitext": made_up.texts} | changes
    call(fast_align, **options, scale="smoke", seed=seed, out=out)
    return out


@pytest.mark.parametrize(("limit", "kept"), [(None, 2), (1, 1)])
def test_the_links_are_those_of_the_same_words_aligned_by_hand(made_up, limit, kept):
    """Sides in the order of the test sets, which for Romanian is not that of the corpus; two shards; a limit."""
    found = predicted(made_up, limit=limit)
    for language, (folder, first, second, beside) in MADE_UP.items():
        test = [
            (one.lower().split(), other.lower().split())
            for one, other in zip(first.splitlines(), second.splitlines(), strict=True)
        ]
        pairs = [[fast_align.words(side) for side in pair] for pair in beside[:kept]]
        if language == "ro":
            pairs = [[other, one] for one, other in pairs]
        gold = word_alignment.read_gold(made_up.raw / ARCHIVE, language)
        links = word_alignment.read_predictions(found / f"test-{language}.tsv", gold)
        assert links == ibm2.align(test, pairs), folder
    described = json.loads((found / "predictions.json").read_text())
    assert {code: about["pairs_beside"] for code, about in described["languages"].items()} == dict.fromkeys(
        MADE_UP, kept
    )


def test_every_seed_has_the_same_links(made_up):
    one, other = (predicted(made_up, seed) for seed in (1, 2))
    names = {"predictions.json", "SHA256SUMS", *(f"test-{code}.tsv" for code in MADE_UP)}
    assert {path.name for path in one.iterdir()} == names
    for path in one.glob("*.*"):  # not the sums, which are those of predictions.json too
        written, again = path.read_text(), (other / path.name).read_text()
        assert written == (again.replace('"seed": 2', '"seed": 1') if path.suffix == ".json" else again)


def test_a_language_without_pairs_learns_from_its_test_sentences(made_up):
    found = predicted(made_up, bitext=[])
    test = [(one.split(), other.split()) for one, other in (("das haus .", "the house ."), ("ein haus", "a house"))]
    gold = word_alignment.read_gold(made_up.raw / ARCHIVE, "de")
    assert word_alignment.read_predictions(found / "test-de.tsv", gold) == ibm2.align(test)


def test_what_is_no_job_of_an_aligner_is_refused(made_up):
    run = write_run(made_up.folder / "model.yaml", kind="pretrain")
    with pytest.raises(UserError, match=r"model\.yaml, kind: not aligner"):
        predicted(made_up, run_file=run)
    recipe = write_recipe(made_up.folder / "tuned.yaml", ["de"], model={"task": "xnli", "setting": "x"})
    with pytest.raises(UserError, match=r"tuned\.yaml: word-alignment, zero-shot-retrieval: an aligner has links"):
        predicted(made_up, recipe=recipe)
    with pytest.raises(UserError, match=r"0\.clean\.tsv\.zst: no such file"):
        predicted(made_up, bitext=[made_up.folder / "none/de-en/0.clean.tsv.zst"])
    assert not list((made_up.folder / "predictions").iterdir()), "whole or not at all"


# --- the score -------------------------------------------------------------------------------------------------------


def test_score_has_no_layers_of_it(made_up):
    path = made_up.folder / f"scores/fast-align/word-alignment/{SETTING}/seed-1.json"
    path.parent.mkdir(parents=True)
    call(score, recipe=made_up.recipe, predictions=predicted(made_up), raw=made_up.raw, out=path)
    found = {(one.language, one.metric): one for one in read_score_file(path, "smoke")}
    assert found.keys() == {(code, metric) for code in MADE_UP for metric in ("error-rate", "precision", "recall")}
    assert {one.layer for one in found.values()} == {None}
    for code in MADE_UP:
        gold = word_alignment.read_gold(made_up.raw / ARCHIVE, code)
        links = word_alignment.read_predictions(made_up.folder / f"predictions/seed-1/test-{code}.tsv", gold)
        assert found[code, "error-rate"].value == error_rate(gold, links)
    scored = json.loads(path.read_text())
    assert scored["signature"] == "error-rate|aligner=fast_align+grow-diag-final-and|version=1"
    assert (scored["run"], scored["pretrain_seed"]) == ("fast-align", None)
    assert scored["run_hash"] == run_hash(fast_align.read_run(made_up.folder / "run.yaml"))[:16]


def test_it_beats_the_diagonal_on_the_world_and_learns_from_its_pairs(tmp_path):
    config = load_config(REPOSITORY, {"scale": "smoke"})
    world = config.scale["world"] | {"documents": 20, "languages": {"en": 1.0, "de": 1.0, "hi": 1.0}}
    world |= {"bitext": {"de": ["Europarl"], "hi": ["IITB"]}}
    build_world(world, REPOSITORY / "config/datasets.tsv", tmp_path / "raw")
    texts = []
    for (pair, (corpus,)), id_ in zip(
        {"de-en": ["Europarl"], "en-hi": ["IITB"]}.items(), ("opus/Europarl/de-en", "iitb/en-hi"), strict=True
    ):
        dataset = config.datasets[id_]
        suffixes = pair_suffixes(pair, None, str(REPOSITORY / "config/languages.tsv"))
        with open_sides(tmp_path / "raw" / dataset.path, suffixes) as (_, first, second):
            sides = [[line.strip() for line in side.read().decode().split("\n")] for side in (first, second)]
        texts.append(write_clean(tmp_path, corpus, pair, [pair for pair in zip(*sides, strict=True) if all(pair)]))
    own = SimpleNamespace(folder=tmp_path, raw=tmp_path / "raw", texts=texts)
    own.recipe = write_recipe(tmp_path / "recipe.yaml", ["de", "hi"])
    alone, beside = predicted(own, seed=1, bitext=[]), predicted(own, seed=2)
    for language in ("de", "hi"):
        gold = word_alignment.read_gold(tmp_path / "raw" / ARCHIVE, language)
        rates = [
            error_rate(gold, word_alignment.read_predictions(folder / f"test-{language}.tsv", gold))
            for folder in (alone, beside)
        ]
        assert rates[1] < rates[0] < error_rate(gold, diagonal(gold)), (language, rates)


# --- the plan --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", ["smoke", "mini", "small", "paper"])
def test_an_aligner_has_pairs_and_nothing_else_of_a_scale(repository, scale):
    config = load_config(repository, {"scale": scale, "runs": "all"})
    resolved = resolve_run(config, "fast-align")
    assert resolved.keys() == {"name", "kind", "numerics", "data"}
    corpora = config.runs["fast-align"]["data"]["bitext"]["corpora"]
    kept = ["-".join(sorted((code, "en"))) for code in task_languages(config, "word-alignment")]
    assert resolved["data"]["bitext"]["corpora"] == {pair: corpora[pair] for pair in kept}
    assert ("limit" in resolved["data"]["bitext"]) != config.has_world
    assert data_of_runs(config, ["fast-align"]) == ([], sorted((corpora[pair][0], pair) for pair in kept))
    assert canonical_run(config, "fast-align") == "fast-align"
    assert with_ancestors(config, ["fast-align"]) == ["fast-align"]
    assert "fast-align" in config.listed and "fast-align" not in config.pretrained
    found = [need for need in all_needs(config) if need[0] == "fast-align"]
    assert found == [("fast-align", "word-alignment", SETTING)]
    paths = [path for path in all_score_paths(config) if "/fast-align/" in path]
    assert paths == [f"results/{scale}/scores/fast-align/word-alignment/{SETTING}/seed-1.json"]


def test_a_table_says_why_an_aligner_has_no_score_of_another_task(repository, tmp_path):
    context, tables, _ = load_context(repository / "config/config.yaml", "mini", tmp_path)
    path = tmp_path / f"fast-align/word-alignment/{SETTING}/seed-1.json"
    path.parent.mkdir(parents=True)
    about = {"run": "fast-align", "task": "word-alignment", "setting": SETTING, "seed": 1, "scale": "mini"}
    entry = {"metric": "error-rate", "n": 150, "chance": 50.0, "layer": None, "direction": None}
    entries = [{**entry, "language": code, "value": value} for code, value in (("de", 10.0), ("fr", 5.0))]
    found = score_hash(context.config, "fast-align", "word-alignment", SETTING)
    path.write_text(json.dumps({**about, "task_version": 1, "run_hash": found, "scores": entries}))
    table = build(tables["parallax/tasks-retrieval"], context)
    (row,) = (row for row in table.rows if row.run == "fast-align")
    *others, aligned = row.cells
    assert (aligned.summary.mean, aligned.summary.n, row.expected_seeds) == (7.5, 1, (1,))
    retrieved = [(task, setting) for task in ("tatoeba", "flores") for setting in (SETTING, f"{SETTING}-centred")]
    for cell, (task, setting) in zip(others, [*retrieved, ("bucc", SETTING)], strict=True):
        needs = f"run fast-align aligns words and has no model: task {task}, {setting}, needs one"
        assert cell.reason == {"flores": "task flores is not for scale mini: the generated world has none"}.get(
            task, needs
        )


def test_a_figure_or_table_may_name_it_for_a_fine_tuned_task(repository):
    config = load_config(repository, {"scale": "mini"})
    spec = {
        "columns": [{"task": "xnli"}, {"task": "word-alignment", "setting": SETTING}],
        "groups": [{"setting": "cross-lingual-transfer", "rows": [{"run": "fast-align"}]}],
    }
    assert plan.needs.needs(config, spec) == [("fast-align", "word-alignment", SETTING)]
    assert unfit(config, "fast-align", "xnli", "cross-lingual-transfer").startswith("run fast-align aligns words")
    assert unfit(config, "fast-align", "word-alignment", SETTING) is None
    assert unfit(config, "xlm", "xnli", "cross-lingual-transfer") is None


@pytest.mark.dag
def test_its_pairs_are_cleaned_and_nothing_is_trained_for_it(repository, tmp_path):
    tree = copy_tree(repository, tmp_path / "tree", own_reference=False)
    scored = f"results/smoke/scores/fast-align/word-alignment/{SETTING}/seed-1.json"
    found = planned(tree, scored)
    assert (found["fast_align"], found["score"], found["clean_bitext"]) == (1, 1, 2)
    model = {"pretrain", "finetune", "predict", "encode_corpus", "plan_sampling_run", "train_vocabulary"}
    assert not found.keys() & (model | {"clean_mono"})
    beside = planned(tree, "models", "data", settings=("runs=[xlm-r,fast-align]",))
    assert beside == planned(tree, "models", "data", settings=("runs=[xlm-r]",))
    for path, said in (
        ("results/smoke/runs/fast-align/seed-1/model.safetensors", "No rule to produce"),
        ("results/smoke/predictions/fast-align/xnli/cross-lingual-transfer/seed-1", "No rule to produce"),
    ):
        done = snakemake(tree, "--dry-run", "--config", "scale=smoke", "--", path, check=False)
        assert done.returncode and said in done.stdout + done.stderr
