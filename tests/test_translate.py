"""Translation by the scripts themselves on a tiny mini-world: from a run's weights to translations and scores."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import sentencepiece
import torch
import yaml

import ready
import score
import train_translator
import translate
import validate_translator
from build_world import build_world
from called import call
from common.errors import UserError
from common.identity import run_hash
from corpus.sides import open_sides
from engine.assembly import load_seq2seq
from engine.checkpoint import describe_model, load_weights, save_weights
from engine.config import load_run
from engine.shards import sha256_of, sha256_of_manifests, write_shard
from engine.tokenizer import Tokenizer
from plan.datasets import load_datasets
from plan.load import load_config
from plan.recipes import resolve_recipe
from plan.runs import resolve_run
from plan.translators import decoder_of, resolve_translator
from small_world import SETTINGS
from tasks.known import measure_of, task_module
from tasks.recipe import load_recipe, raw_paths
from training.assembly import PretrainingModel, fill_in
from training.initial import load_initial_weights
from training.predicting import translate_lines

REPOSITORY = Path(__file__).resolve().parent.parent
SCRIPTS = REPOSITORY / "workflow/scripts"
CONFIG = load_config(REPOSITORY, {"scale": "smoke"})
TASK = "wmt14-en-de"
# run -> where its decoder comes from
RUNS = {
    "transformer-xbig": "fresh",
    "deep-transformer": "fresh",
    "xlm-r-large": "fresh",
    "veco-large": "last",
    "veco-large-first-3": "first",
    "mbart": "own",
    "transformer-xbig-more-bilingual": "own",
}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory) -> SimpleNamespace:
    """A world, a vocabulary of its words, and encoded WMT pairs."""
    folder = tmp_path_factory.mktemp("translate")
    settings = {**SETTINGS, "translation": {"corpora": ["wmt14-nc-v9"], "train": 120, "dev": 12, "test": 20}}
    build_world(settings, REPOSITORY / "config/datasets.tsv", folder / "raw")
    archive = folder / "raw" / load_datasets(REPOSITORY / "config/datasets.tsv")["wmt14-nc-v9"].path
    with open_sides(archive, [("de",), ("en",)]) as (_, german, english):
        pairs = [(a.decode().strip(), b.decode().strip()) for a, b in zip(german, english, strict=True)]
    pairs = [(a, b) for a, b in pairs if a and b]
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([line for pair in pairs for line in pair]),
        model_prefix=str(folder / "spm"),
        vocab_size=500,
        hard_vocab_limit=False,
        num_threads=1,
        minloglevel=2,
    )
    tokenizer = Tokenizer(folder / "spm.model")
    sides = [ids for pair in pairs for ids in tokenizer.encode(pair)]
    lengths = torch.tensor([len(ids) for ids in sides]).numpy()
    batch = (torch.tensor([i for ids in sides for i in ids]).numpy(), lengths, 2 + 0 * lengths[::2])
    manifest = folder / "shards/bitext/wmt14-nc-v9/de-en/0.json"
    manifest.parent.mkdir(parents=True)
    sha = sha256_of(folder / "spm.model")
    write_shard(manifest, [batch], "bitext", tokenizer.vocabulary_size, sha, "source")
    plan_file = folder / "plan.tsv"
    plan_file.write_text(
        "kind\tcorpus\tname\tsentences\ttokens\tp\tq\tsha256\n"
        f"bitext\twmt14-nc-v9\tde-en\t{len(sides)}\t{lengths.sum()}\t1\t1\t{sha256_of_manifests([manifest])}\n"
    )
    return SimpleNamespace(
        folder=folder, raw=folder / "raw", spm=folder / "spm.model", plan=plan_file, pairs=len(pairs), done={}
    )


def setting_of(run: str) -> str:
    return "pretrained-init" if CONFIG.runs[run]["objectives"] else "random-init"


def recipe_file(tiny, run: str) -> Path:
    path = tiny.folder / f"{setting_of(run)}.yaml"
    path.write_text(yaml.safe_dump(resolve_recipe(CONFIG, TASK, setting_of(run), "xlm-r")))
    return path


def run_file(tiny, run: str, **changes) -> Path:
    path = tiny.folder / f"{run}.{len(changes)}.yaml"
    resolved = resolve_translator(CONFIG, run, TASK, setting_of(run))
    for key, value in changes.items():
        resolved[key] = {**resolved[key], **value}
    path.write_text(yaml.safe_dump(resolved))
    return path


def parent_weights(tiny, run: str) -> Path:
    """Random weights that say to be those of the run."""
    path = tiny.folder / f"{run}.parent.safetensors"
    if not path.exists():
        resolved = resolve_run(CONFIG, run)
        run_yaml = tiny.folder / f"{run}.parent.yaml"
        run_yaml.write_text(yaml.safe_dump(resolved))
        parent = fill_in(load_run(run_yaml), Tokenizer(tiny.spm).vocabulary_size, run_yaml)
        torch.manual_seed(5)
        model = PretrainingModel(_with_sources(parent))
        metadata = {"model": describe_model(parent.model), "run": run, "run_hash": run_hash(resolved)[:16]}
        save_weights(path, model, metadata | {"vocabulary_sha256": sha256_of(tiny.spm), "seed": "1"})
    return path


def _with_sources(run):
    """mBART has a vector of each language."""
    import dataclasses

    from engine.streams import Source

    sources = (Source("mono", "cc-100", "de", 0.5, ()), Source("mono", "cc-100", "en", 0.5, ()))
    return dataclasses.replace(
        run, objectives=tuple(dataclasses.replace(own, sources=sources) for own in run.objectives)
    )


def training_options(tiny, run: str, out: Path, **changes) -> dict:
    return {
        "run_file": run_file(tiny, run, **changes),
        "plan": tiny.plan,
        "shards": tiny.folder / "shards",
        "vocabulary": tiny.spm,
        "init": parent_weights(tiny, run),
        "seed": 1,
        "out": out / "model.safetensors",
        "log_json": out / "train.jsonl",
        "cost": out / "cost.json",
        "snapshots": out / "snapshots",
    }


def trained(tiny, run: str) -> Path:
    """The folder of a translation model."""
    if run not in tiny.done:
        out = tiny.folder / "models" / run
        call(train_translator, **training_options(tiny, run, out))
        tiny.done[run] = out
    return tiny.done[run]


def validated(tiny, run: str) -> Path:
    out = trained(tiny, run) / "validation.json"
    if not out.exists():
        files = {"recipe": recipe_file(tiny, run), "snapshots": trained(tiny, run) / "snapshots", "raw": tiny.raw}
        files |= {"cost": trained(tiny, run) / "cost.json", "plan": tiny.plan, "spm": tiny.spm}
        call(validate_translator, **files, out=out)
    return out


def job_options(tiny, run: str, out: Path) -> dict:
    files = {"recipe": recipe_file(tiny, run), "model": trained(tiny, run) / "model.safetensors", "spm": tiny.spm}
    files |= {"raw": tiny.raw, "validation": validated(tiny, run), "out": out}
    return {**files, "run": run, "scale": "smoke", "seed": 1, "pretrain_seed": 1}


def paths_of_task(tiny) -> dict[str, Path]:
    return raw_paths(load_recipe(recipe_file(tiny, "veco-large")), tiny.raw, REPOSITORY / "config/datasets.tsv")


def sources_of(tiny, part: str = "test") -> tuple[list[str], list[str]]:
    module = task_module(TASK)
    read = module.read_test if part == "test" else module.read_dev
    lines = read(paths_of_task(tiny), ["de"], {})["de"]
    return lines.sources, module.gold_of(lines)


@pytest.mark.parametrize("run", ["veco-large", "transformer-xbig"])
def test_from_a_runs_weights_to_a_score(tiny, tmp_path, run):
    call(translate, **job_options(tiny, run, tmp_path / "predictions"))
    options = {"recipe": recipe_file(tiny, run), "predictions": tmp_path / "predictions", "raw": tiny.raw}
    call(score, **options, out=tmp_path / "score.json")
    found = json.loads((tmp_path / "score.json").read_text())
    sources, gold = sources_of(tiny)
    said = (tmp_path / "predictions/test-de.txt").read_text().split("\n")[:-1]
    assert len(said) == len(sources) == 20
    values = {one["metric"]: one for one in found["scores"] if one["metric"] in ("sacrebleu", "bleu", "chrf")}
    for metric, one in values.items():
        assert one["value"] == pytest.approx(measure_of(TASK, metric)(gold, said), abs=1e-12)
        assert one["n"] == 20
    curve = [one for one in found["scores"] if one["metric"] == "sacrebleu-by-update"]
    assert [one["update"] for one in curve] == [10, 20]
    assert (found["run"], found["task"], found["pretrain_seed"]) == (run, TASK, 1)
    assert "beam=5" in found["signature"] and "tok:13a" in found["signature"]


@pytest.mark.parametrize(("run", "start"), RUNS.items())
def test_a_translation_model_starts_from_what_its_run_has(tiny, run, start):
    """Encoder and head are the run's, and of the decoder what the run has of it."""
    path = run_file(tiny, run)
    config = fill_in(load_run(path), Tokenizer(tiny.spm).vocabulary_size, path)
    torch.manual_seed(9)
    model = PretrainingModel(config)
    fresh = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    load_initial_weights(model, config.init, parent_weights(tiny, run))
    given, _ = load_weights(parent_weights(tiny, run))
    found, layers = model.state_dict(), len(model.decoder.blocks)
    assert layers == decoder_of(CONFIG, run)["layers"] and decoder_of(CONFIG, run)["start"] == start
    first = {"last": config.model.layers - layers, "first": 0}.get(start)
    for name, tensor in found.items():
        part, *rest = name.split(".", 3)
        if part != "decoder" or start == "own":
            expected = given[name]
        elif start == "fresh":
            expected = fresh[name]
        else:
            kind = "cross_attention" if rest[0] == "cross_attention" else "encoder.blocks"
            expected = given[f"{kind}.{first + int(rest[1])}.{rest[2]}"]
        assert torch.equal(tensor, expected), name
    if start == "first":
        assert layers < config.model.layers  # else it would be the last too


@pytest.mark.parametrize("run", [run for run in RUNS if run not in ("veco-large", "transformer-xbig")])
def test_every_kind_of_start_trains_and_translates(tiny, tmp_path, run):
    call(translate, **job_options(tiny, run, tmp_path / "predictions"))
    assert len((tmp_path / "predictions/test-de.txt").read_text().split("\n")) == 21
    losses = [json.loads(line) for line in (trained(tiny, run) / "train.jsonl").read_text().splitlines()]
    assert losses[-1]["translation/nll"] < losses[0]["translation/nll"]


def test_the_residuals_of_a_deep_model_are_set_before_it_trains(tiny):
    weights, _ = load_weights(trained(tiny, "deep-transformer") / "snapshots/step-000000010.safetensors")
    residuals = [tensor for name, tensor in weights.items() if name.endswith("residual")]
    assert residuals and all((tensor - 1).abs().max() > 0.01 for tensor in residuals)


def test_the_weights_are_the_mean_of_the_last_snapshots(tiny):
    folder = trained(tiny, "veco-large")
    files = sorted((folder / "snapshots").glob("*.safetensors"))
    assert [file.name for file in files] == ["step-000000010.safetensors", "step-000000020.safetensors"]
    (first, _), (second, about) = (load_weights(file) for file in files)
    mean, metadata = load_weights(folder / "model.safetensors")
    assert mean.keys() == first.keys() and (metadata["averaged"], metadata["steps"], about["steps"]) == (
        "2",
        "20",
        "20",
    )
    for name, tensor in mean.items():
        assert torch.equal(tensor, ((first[name].double() + second[name].double()) / 2).float())
    assert not torch.equal(mean["decoder.blocks.0.up.weight"], second["decoder.blocks.0.up.weight"])


def test_kills_change_no_weight(tiny, tmp_path):
    """kill -9 between checkpoints, snapshots and the end: the same files as without."""
    changes = {"checkpoint": {"every_steps": 3, "keep": 2, "snapshots": 8, "average": 4}}
    changes |= {"schedule": {"steps": 64, "warmup_steps": 5, "decay": "linear"}}
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    call(train_translator, **training_options(tiny, "veco-large", whole, **changes))
    options = training_options(tiny, "veco-large", killed, **changes)
    words = [str(part) for name, value in options.items() for part in (f"--{name.replace('_', '-')}", value)]
    command = [sys.executable, str(SCRIPTS / "train_translator.py"), *words]
    kills = 0
    for wanted in ("state/*/step-*.pt", "state/*/snapshots/step-000000024*", "state/*/snapshots/step-000000056*", None):
        process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=os.environ | {"OMP_NUM_THREADS": "1"}
        )
        if wanted is None:
            assert process.wait(timeout=120) == 0
            continue
        deadline = time.monotonic() + 60
        while process.poll() is None and not list(killed.glob(wanted)) and time.monotonic() < deadline:
            time.sleep(0.002)
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            kills += 1
        process.wait()
    assert kills >= 2
    for name in ("model.safetensors", *(f"snapshots/step-{step:09d}.safetensors" for step in range(8, 65, 8))):
        assert (whole / name).read_bytes() == (killed / name).read_bytes(), name
    assert sorted(p.name for p in (whole / "snapshots").iterdir()) == sorted(
        p.name for p in (killed / "snapshots").iterdir()
    )


@pytest.mark.parametrize("run", ["veco-large", "deep-transformer"])
def test_two_processes_train_the_model_of_one(tiny, tmp_path, run):
    """The same losses, snapshots and mean; for deep-transformer the residuals are set on both ranks alike."""
    alone, together = tmp_path / "alone", tmp_path / "together"
    still = {"model": {"dropout": 0.0, "attention_dropout": 0.0}}  # it draws anew on each rank
    call(train_translator, **training_options(tiny, run, alone, **still))
    options = training_options(tiny, run, together, **still)
    words = [str(part) for name, value in options.items() for part in (f"--{name.replace('_', '-')}", value)]
    done = subprocess.run(
        [*ready.torchrun(), str(SCRIPTS / "train_translator.py"), *words, "--world-size", "2"],
        capture_output=True,
        text=True,
        timeout=300,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    losses = [
        [json.loads(line)["translation/nll"] for line in (folder / "train.jsonl").read_text().splitlines()]
        for folder in (alone, together)
    ]
    assert losses[1] == pytest.approx(losses[0], abs=1e-4)
    names = sorted(path.relative_to(alone) for path in alone.rglob("*.safetensors"))
    assert names == sorted(path.relative_to(together) for path in together.rglob("*.safetensors")) and len(names) == 3
    for name in names:
        one, two = load_weights(alone / name)[0], load_weights(together / name)[0]
        assert one.keys() == two.keys()
        assert all(torch.allclose(one[key], two[key], atol=2e-3) for key in one), name


def test_the_curve_is_that_of_the_snapshots_on_dev(tiny):
    run = "veco-large"
    curve = json.loads(validated(tiny, run).read_text())["de"]
    sources, gold = sources_of(tiny, "dev")
    assert curve["n"] == len(gold) == 12
    tokenizer = Tokenizer(tiny.spm)
    cost = json.loads((trained(tiny, run) / "cost.json").read_text())
    for point in curve["points"]:
        model, _ = load_seq2seq(trained(tiny, run) / f"snapshots/step-{point['update']:09d}.safetensors")
        model.eval()
        said = translate_lines(model, tokenizer, sources, 64, 1, 1.0, 3, "cpu")
        assert point["sacrebleu"] == pytest.approx(measure_of(TASK, "sacrebleu")(gold, said), abs=1e-12)
        total, tokens = 0.0, 0
        for source, reference in zip(tokenizer.encode(sources), tokenizer.encode(gold), strict=True):
            row = torch.tensor([[0, *source, 2]])
            states = model(row, torch.ones_like(row, dtype=torch.bool), torch.tensor([[2, *reference]]))[0]
            says = torch.tensor([*reference, 2])
            total -= model.logits(states).log_softmax(-1)[torch.arange(len(says)), says].sum().item()
            tokens += len(says)
        assert point["loss"] == pytest.approx(total / tokens, rel=1e-5)
        pairs = cost["objectives"]["translation"]["items"] * point["update"] / cost["steps"]
        assert point["epoch"] == pytest.approx(pairs / tiny.pairs)


def test_translating_looks_at_no_reference(tiny, tmp_path, monkeypatch):
    module = task_module(TASK)
    call(translate, **job_options(tiny, "veco-large", tmp_path / "seeing"))
    read = module.read_test
    blind = {
        language: lines._replace(references=None) for language, lines in read(paths_of_task(tiny), ["de"], {}).items()
    }
    monkeypatch.setattr(module, "read_test", lambda *_: blind)
    call(translate, **job_options(tiny, "veco-large", tmp_path / "blind"))
    for name in ("test-de.txt", "predictions.json"):
        assert (tmp_path / "seeing" / name).read_bytes() == (tmp_path / "blind" / name).read_bytes()


def test_line_counts_of_the_upstream_files_are_asserted(tiny, tmp_path):
    with pytest.raises(UserError, match=r"20 rows where the upstream file has 3003"):
        call(translate, **job_options(tiny, "veco-large", tmp_path / "predictions"), counts="upstream")
    assert not (tmp_path / "predictions").exists()


def by_hand(tiny, text: bytes, *extra: str) -> subprocess.CompletedProcess:
    model = trained(tiny, "veco-large") / "model.safetensors"
    command = [ready.python(), str(SCRIPTS / "translate.py"), "--model", str(model), "--spm", str(tiny.spm), *extra]
    return subprocess.run(command, input=text, capture_output=True, timeout=120)


def test_by_hand_a_line_for_a_line(tiny, tmp_path):
    """What the job says; an empty line for an empty one; only a line feed ends a line."""
    call(translate, **job_options(tiny, "veco-large", tmp_path / "predictions"))
    said = (tmp_path / "predictions/test-de.txt").read_bytes().split(b"\n")[:-1]
    sources, _ = sources_of(tiny)
    done = by_hand(tiny, "\n".join([*sources, "", "a b\u2028c"]).encode(), "--batch", "3")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.split(b"\n")
    assert lines[: len(said)] == said and lines[len(said)] == b"" and len(lines) == len(said) + 3
    other = by_hand(tiny, sources[0].encode(), "--beam", "1", "--penalty", "0")
    assert other.returncode == 0 and other.stdout.count(b"\n") == 1


def test_a_long_line_is_cut_and_told(tiny):
    sources, _ = sources_of(tiny)
    done = by_hand(tiny, (" ".join(sources * 3) + "\n").encode())
    assert done.returncode == 0 and done.stdout.count(b"\n") == 1
    assert b"line 1: longer than 62 pieces, cut there" in done.stderr


def test_bad_input_is_told(tiny, tmp_path):
    done = by_hand(tiny, b"good\nb\xffd\n")
    assert done.returncode == 2 and b"standard input, line 2: not UTF-8" in done.stderr and not done.stdout
    done = by_hand(tiny, b"a\n", "--batch", "0")
    assert done.returncode == 2 and b"--batch 0: at least 1" in done.stderr
    done = by_hand(tiny, b"a\n", "--recipe", "x")
    assert done.returncode == 2 and b"--raw, --validation, --run, --scale, --seed, --out missing" in done.stderr
    options = job_options(tiny, "veco-large", tmp_path / "predictions")
    with pytest.raises(UserError, match="no translation model"):
        call(translate, **{**options, "model": parent_weights(tiny, "xlm-r-large")})
    (tmp_path / "validation.json").write_text("{}")
    with pytest.raises(UserError, match="not what validate_translator"):
        call(translate, **{**options, "validation": tmp_path / "validation.json"})
    assert not (tmp_path / "predictions").exists()
    with pytest.raises(UserError, match="not of veco-large"):
        options = training_options(tiny, "veco-large", tmp_path / "model")
        call(train_translator, **{**options, "init": parent_weights(tiny, "xlm-r-large")})
