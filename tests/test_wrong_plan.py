"""A resolved run or recipe that was changed on its way: no score of another model in silence."""

import os
import random
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import index_eval_sets
import made_up
import resolve_recipe
import resolve_run
import summarise_training
import train_vocabulary
from common.atomic import keep_sum, sha256_of
from common.errors import UserError
from common.yamlfiles import read_resolved
from corpus import cleaning, sampling
from engine.config import load_run
from engine.tokenizer import load_tokenizer
from plan.claims import Measure
from plan.evidence import check_hashes, score_hash
from plan.load import load_config
from report.context import load_context, load_expected
from report.measured import Evidence
from tasks.recipe import load_recipe
from training import assembly
from trees import copy_tree, snakemake

SEEDS = range(200)


@pytest.fixture(scope="module")
def resolved(repository, tmp_path_factory) -> dict[str, Path]:
    """A run and a recipe, as their scripts write them."""
    folder, config = tmp_path_factory.mktemp("resolved"), repository / "config"
    found = {"run": folder / "run.yaml", "recipe": folder / "default.yaml"}
    scale = ["--scale", str(config / "scales/smoke.yaml"), "--out"]
    calls = {
        resolve_run: ["--run", str(config / "runs/xlm-r.yaml"), *scale, str(found["run"])],
        resolve_recipe: [
            *("--task", str(config / "tasks/tatoeba.yaml"), "--setting", "zero-shot-retrieval", "--recipe", "default"),
            *(*scale, str(found["recipe"])),
        ],
    }
    with pytest.MonkeyPatch.context() as patched:
        for script, words in calls.items():
            patched.setattr(sys, "argv", ["script", *words])
            script.main()
    return found


READERS = {"run": load_run, "recipe": load_recipe}


@pytest.mark.parametrize("kind", READERS)
def test_a_changed_digit_with_the_time_of_the_file_is_told(resolved, kind):
    """200 digits and other characters, each with the file's own time, which Snakemake compares."""
    path, noise = resolved[kind], random.Random(kind)
    READERS[kind](path)
    whole, times = path.read_bytes(), path.stat()
    for _ in SEEDS:
        place = noise.randrange(len(whole))
        changed = bytearray(whole)
        changed[place] = noise.choice(b"0123456789") if noise.random() < 0.7 else noise.randrange(256)
        if changed == whole:
            continue
        path.write_bytes(changed)
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
        with pytest.raises(UserError, match=rf"{path.name}: not as it was written .* delete it, and run again"):
            READERS[kind](path)
    path.write_bytes(whole)
    READERS[kind](path)


def test_every_reader_of_a_run_looks_at_its_sum(resolved):
    path = resolved["run"]
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b"1", b"2"))
    for read in (
        load_run,
        read_resolved,
        lambda path: summarise_training.summarise(path, path, path, 1, "smoke"),
    ):
        with pytest.raises(UserError, match=r"run\.yaml: not as it was written"):
            read(path)
    path.write_bytes(whole)


def test_a_changed_sampling_plan_vocabulary_or_index_is_told(repository, tmp_path, monkeypatch):
    """What a training or a cleaning computes with: a digit of it, or a bit, is other weights."""
    plan, vocabulary, index, signatures, lid = (
        tmp_path / name for name in ("plan.tsv", "v.model", "i", "s", "lid.bin")
    )
    source = sampling.Source("mono", "cc-100", "de", 10, 50, "0" * 64)
    sampling.write_plan([sampling.PlanRow(source, 1.0, 1.0)], plan)
    train_vocabulary.train(iter(["ein Wort und noch eines", "zwei Worte"] * 20), vocabulary, 277)
    gold = tmp_path / "gold.txt"
    gold.write_text("a sentence of a test set that is long enough\n")
    asked = ["--task", f"text={gold}", "--config", str(repository / "config/cleaning.yaml")]
    monkeypatch.setattr(sys, "argv", ["script", *asked, "--signatures", str(signatures), "--out", str(index)])
    index_eval_sets.main()
    lid.write_bytes(b"no model: its sum is looked at first")
    keep_sum(lid, sha256_of(lid))
    near = '{"decontamination": {"similarity": 0.5}}'
    readers = {
        plan: (sampling.read_plan, lambda path: assembly.read_plan(path, tmp_path)),
        vocabulary: (load_tokenizer,),
        index: (cleaning.load_eval_index,),
        signatures: (lambda path: cleaning.load_near_index(path, repository / "config/cleaning.yaml", near),),
        lid: (lambda path: cleaning.open_language_id(path, "de", "config/languages.tsv", 5),),
    }
    for path, reads in readers.items():
        whole = path.read_bytes()
        for place in {0, len(whole) // 2, len(whole) - 2}:
            path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
            for read in reads:
                with pytest.raises(UserError, match=rf"{path.name}: not as it was written .* delete it"):
                    read(path)
        path.write_bytes(whole)
    for path in (plan, vocabulary, index, signatures):
        readers[path][0](path)


def test_what_older_versions_wrote_and_people_write_has_no_sum(resolved, tmp_path):
    (tmp_path / "run.yaml").write_bytes(resolved["run"].read_bytes())
    assert load_run(tmp_path / "run.yaml") == load_run(resolved["run"])


def test_collected_scores_are_of_the_run_that_the_configuration_has(repository):
    config = load_config(repository, {"scale": "smoke"})
    own = {"run": "xlm-r", "task": "tatoeba", "setting": "zero-shot-retrieval", "seed": 1}
    today = score_hash(config, "xlm-r", "tatoeba", "zero-shot-retrieval")
    check_hashes(config, [SimpleNamespace(**own, run_hash=today)])
    with pytest.raises(UserError, match=r"seed-1\.json: of another xlm-r \(run_hash 0+\) than config/ has"):
        check_hashes(config, [SimpleNamespace(**own, run_hash="0" * 16)])


def test_no_table_figure_or_claim_is_made_of_a_score_of_another_run(repository, tmp_path):
    """Also where one table alone is asked for, and nobody collects the scores."""
    context, tables, _ = load_context(repository / "config/config.yaml", "mini", tmp_path)
    need = ("xlm-r", "xnli", "cross-lingual-transfer")
    measure = Measure(*need[:2], need[2], "accuracy", ("en",))
    path = made_up.write_score(tmp_path, *need, 1, [made_up.entry("en", 60.0)], config=context.config)
    written, today = path.read_text(), score_hash(context.config, *need)
    for found, ok in ((today, True), ("0" * 16, False)):
        path.write_text(written.replace(today, found))
        reads = (
            lambda: load_expected(tables["ernie-m/table-01"], context),
            lambda: Evidence(context.config, tmp_path, tmp_path).results(measure),
        )
        for read in reads:
            if ok:
                assert read()
            else:
                with pytest.raises(UserError, match=r"seed-1\.json: of another xlm-r \(run_hash 0+\) than config/ has"):
                    read()


def test_a_deep_configuration_is_one_line_before_snakemake_reads_it(repository, tmp_path):
    tree = copy_tree(repository, tmp_path, own_reference=False)
    path = tree / "config/config.yaml"
    path.write_text(f"{path.read_text()}\ndeep: {'[' * 20_000}{']' * 20_000}\n")
    done = snakemake(tree, "--dry-run", check=False)
    said = done.stdout + done.stderr
    assert done.returncode and "nested too deep; no file here needs more than 100 levels" in said
    assert "config/config.yaml:" in said and "Traceback" not in said and "RecursionError" not in said
