"""The bill: FLOPs and memory against trainings that ran, paths against brute force, and what is done is not in it."""

import csv
import dataclasses
import gc
import io
import itertools
import json
import math
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import torch
import yaml

import bill
import pretrain
import ready
from billing import jobs
from billing import pricing as billing
from billing.machines import MACHINES, Rate, choose_rate, load_machines
from billing.memory import activation_bytes, advice, entering_bytes, memory_bytes, rows_that_fit, size_of, state_bytes
from billing.sample import estimate_training, heads_of, made_up, run_config
from common.errors import UserError
from common.identity import content_hash, run_hash
from engine import by_hand, checkpoint, cost
from engine.config import load_run
from engine.dist import LARGE
from engine.model import Block, CrossAttention
from engine.recomputing import recompute_parts
from engine.shape import ModelConfig
from engine.shards import open_shard, read_manifest
from mixes import MIXES, write
from plan import allocation
from plan.claimed import all_needs
from plan.load import load_config
from plan.recipes import bitext_settings, recipe_of, resolve_recipe, trained_as
from plan.runs import resolve_run
from plan.translators import resolve_translator
from small_corpus import VOCABULARY
from small_training import command
from training.assembly import (
    PretrainingModel,
    fill_in,
    frozen_weights,
    read_plan,
    tell_sources,
)
from training.finetuning import Bookmark


@pytest.fixture(scope="module")
def machines(repository):
    return load_machines(repository)


def rate_of(machines: dict, name: str = "h100") -> Rate:
    own = machines["machines"][name]
    return Rate(own["peak"], "peak", name, own["memory"])


# --- FLOPs -----------------------------------------------------------------------------------------------------------


def train(corpus: Path, folder: Path, mix: dict, **changes: object) -> None:
    write(folder, mix, **changes)
    torch.set_num_threads(1)
    assert pretrain.pretrain(pretrain.make_parser("").parse_args(command(corpus, folder)[2:])) == 0


def estimated(corpus: Path, folder: Path) -> tuple[dict, dict]:
    """FLOPs that the bill says of a run, and what its training wrote."""
    manifest = next((corpus / "shards").rglob("*.json"))
    run = fill_in(load_run(folder / "run.yaml"), read_manifest(manifest)["vocabulary_size"], folder / "run.yaml")
    sources, _ = read_plan(corpus / "plan.tsv", corpus / "shards")
    estimate = estimate_training(run, sources, 1, "")
    own = cost.flops(run, estimate.seen)
    return {name: value["ours"] for name, value in own.items()}, json.loads((folder / "cost.json").read_text())


@pytest.mark.parametrize("name", [*MIXES])
def test_flops_are_those_of_the_training(corpus, tmp_path, name):
    """All steps of so short a run are in the sample, so that nothing is left to estimate."""
    train(corpus, tmp_path, MIXES[name])
    found, written = estimated(corpus, tmp_path)
    # xlco fills its queue with the first items, and trains on the next ones
    assert sum(found.values()) == pytest.approx(written["flops"], rel=0.01 if name == "infoxlm" else 1e-9)
    assert set(found) == set(written["objectives"])


def test_a_sample_is_within_one_per_cent(corpus, tmp_path, monkeypatch):
    train(corpus, tmp_path, MIXES["ernie-m"], schedule={"steps": 150, "warmup_steps": 10})
    monkeypatch.setattr("billing.sample.SAMPLED_TOKENS", 30 * 8 * 24)
    found, written = estimated(corpus, tmp_path)
    assert sum(found.values()) == pytest.approx(written["flops"], rel=0.01)
    assert sum(found.values()) != written["flops"]


def test_fewer_rows_than_the_batch_stand_for_all(corpus, tmp_path, monkeypatch):
    train(corpus, tmp_path, MIXES["xlm"], batch={"rows": 64, "device_rows": 64})
    monkeypatch.setattr("billing.sample.SAMPLED_ROWS", 16)
    found, written = estimated(corpus, tmp_path)
    assert sum(found.values()) == pytest.approx(written["flops"], rel=0.03)  # 16 rows of 24 tokens are packed worse


def test_a_head_of_a_source_has_whole_documents(corpus, tmp_path, monkeypatch):
    monkeypatch.setattr("billing.sample.HEAD", 25)
    sources, _ = read_plan(corpus / "plan.tsv", corpus / "shards")
    for kind, own in heads_of(sources, tmp_path).items():
        for short, source in zip(own, sources[kind], strict=True):
            shard, whole = open_shard(short.manifests[0]), open_shard(source.manifests[0])
            size = len(shard.sentences) - 1
            assert 20 < size <= 25 and shard.documents.tolist() == whole.documents[: len(shard.documents)].tolist()
            assert shard.tokens.tolist() == whole.tokens[: whole.sentences[size]].tolist()
            assert (short.name, short.probability) == (source.name, source.probability)


def test_made_up_text_has_the_assumed_lines_and_fills_rows(paper, tmp_path):
    sources = made_up(tmp_path, 250002, 30)
    for kind in ("mono", "bitext"):
        about = read_manifest(sources[kind][0].manifests[0])
        assert about["tokens"] / about["sentences"] == pytest.approx(30, rel=0.08)
    run = run_config(resolve_run(paper, "xlm-r"), 250002)
    estimate = estimate_training(run, sources, 1, "")
    slots = run.batch.rows * run.batch.row_length * run.schedule.steps
    assert 0.9 * slots < estimate.seen["mmlm"].tokens < slots
    assert estimate.padding == pytest.approx(1 - estimate.seen["mmlm"].tokens / slots)


# --- memory ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["xlm", "ernie-m", "ppa", "veco", "mbart"])
def test_states_have_the_bytes_that_a_step_leaves(corpus, tmp_path, name):
    mix = {key: value for key, value in MIXES[name].items() if key != "schedule"}
    data = {"mono": {"languages": ["de", "en", "hi"]}, "bitext": {"corpora": {"de-en": ["World"]}}}
    write(tmp_path, mix, data=data)
    values = yaml.safe_load((tmp_path / "run.yaml").read_text())
    run = fill_in(load_run(tmp_path / "run.yaml"), VOCABULARY, tmp_path / "run.yaml")
    sources, _ = read_plan(corpus / "plan.tsv", corpus / "shards")
    run = tell_sources(run, sources)
    model = PretrainingModel(run)
    optimizer = pretrain.new_optimizer(model, run, frozen_weights(model, run), 1)
    for weight in model.parameters():
        weight.grad = torch.zeros_like(weight) if weight.requires_grad else None
    optimizer.step()
    held = [*model.parameters(), *model.buffers(), *(w.grad for w in model.parameters() if w.grad is not None)]
    held += [own[key] for own in optimizer.state.values() for key in ("exp_avg", "exp_avg_sq")]
    expected = sum(tensor.numel() * tensor.element_size() for tensor in held)
    size = size_of(values, VOCABULARY)
    assert state_bytes(size, "replicate", 1) == expected
    assert size.all == sum(weight.numel() for weight in model.parameters())
    flat = 4 * sum(w.numel() for w in model.parameters() if w.requires_grad and w.numel() < LARGE)
    assert state_bytes(size, "replicate", 8) == state_bytes(size, "replicate", 1) + flat
    cut = state_bytes(size, "shard", 8)
    blocks = [w for key, w in model.named_parameters() if ".blocks." in key or "cross_attention." in key]
    assert size.sharded == sum(weight.numel() for weight in blocks)
    assert cut < state_bytes(size, "replicate", 8)


@pytest.mark.parametrize(
    ("precision", "cross", "dropout"), [*itertools.product(("fp32", "bf16"), (False, True), (0.0, 0.1))]
)
def test_activations_are_those_that_autograd_keeps(precision, cross, dropout, monkeypatch):
    monkeypatch.setattr(by_hand, "is_mixed_on_cpu", lambda tensor: False)  # a GPU's attention keeps no scores
    config = ModelConfig(1, 128, 4, 512, 130, 100, dropout=dropout, attention_dropout=0.0)
    B, T = 4, 64
    block, reads = Block(config).train(), CrossAttention(config).train() if cross else None
    weights = {p.data_ptr() for part in filter(None, (block, reads)) for p in part.parameters()}
    kept: dict[int, torch.Tensor] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        kept[tensor.untyped_storage().data_ptr()] = tensor
        return tensor

    x, memory = (torch.randn(B, T, config.width, requires_grad=True) for _ in range(2))
    with (
        torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor),
        torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"),
    ):
        x = block.self_attend(x, None)
        block.feed_forward(reads(x, memory, None) if cross else x)
    # casts of weights are kept too, once for all tokens
    own = [t for key, t in kept.items() if key not in weights and (t.shape[0] in (B, B * T))]
    measured = sum(tensor.untyped_storage().nbytes() for tensor in own) / (B * T)
    mask = 2 if precision == "bf16" else 4  # a CPU's masks are numbers
    assert activation_bytes(config, precision, cross, mask) == pytest.approx(measured, rel=0.05)


@pytest.mark.parametrize("cross", [False, True])
def test_recomputed_parts_keep_what_enters_them(cross):
    """What is allocated on the way forward and not freed: what enters each part but the first, and what leaves the
    last, which enters the next block."""
    config = ModelConfig(1, 128, 4, 512, 130, 100, dropout=0.1, attention_dropout=0.1)
    B, T = 4, 64
    block, reads = Block(config).train(), CrossAttention(config).train()
    recompute_parts(torch.nn.ModuleList([block, reads]))
    x, memory = (torch.randn(B, T, config.width, requires_grad=True) for _ in range(2))
    gc.collect()  # what other tests left would be freed meanwhile, and counted
    cpu = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=cpu, profile_memory=True) as seen:
        out = block.self_attend(x, None)
        out = block.feed_forward(reads(out, memory, None) if cross else out)
    kept = sum(event.self_cpu_memory_usage for event in seen.key_averages()) / (B * T)
    assert out.requires_grad and kept == pytest.approx(entering_bytes(config, cross), rel=0.05)
    assert kept < activation_bytes(config, "fp32", cross) / 5


def test_what_does_not_fit_gets_rows_that_do(paper):
    values = resolve_run(paper, "xlm-r-large")
    run, size = run_config(values, 250002), size_of(values, 250002)
    room = 20e9
    rows = rows_that_fit(run, size, 64, room)
    assert 0 < rows < run.batch.device_rows or memory_bytes(run, size, 64) <= room
    assert memory_bytes(run, size, 64, rows) <= room < memory_bytes(run, size, 64, rows + 1)
    assert f"device_rows: {rows} " in advice(run, size, 64, room)
    assert "parallel: shard" in advice(run, size, 64, 10.5e9)
    many = dataclasses.replace(run, batch=dataclasses.replace(run.batch, rows=1 << 20, device_rows=1 << 14))
    again = dataclasses.replace(many, activations="recompute")
    assert rows_that_fit(again, size, 64, 80e9) > 2.5 * rows_that_fit(many, size, 64, 80e9)
    assert "even one row" in advice(run, size, 64, 1e9)


# --- paths -----------------------------------------------------------------------------------------------------------


def random_graph(draw: random.Random, size: int) -> tuple[list[list[int]], list[float]]:
    after = [[j for j in range(i) if draw.random() < 0.3] for i in range(size)]
    return after, [draw.randint(1, 20) / 2 for _ in range(size)]


def longest_by_trying(after: list[list[int]], seconds: list[float]) -> float:
    def ending(i: int) -> float:
        return seconds[i] + max((ending(j) for j in after[i]), default=0.0)

    return max(ending(i) for i in range(len(after)))


@pytest.mark.parametrize("seed", range(30))
def test_the_critical_path_is_the_longest_of_all(seed):
    draw = random.Random(seed)
    after, seconds = random_graph(draw, draw.randint(1, 12))
    path = jobs.critical_path(after, seconds)
    longest = longest_by_trying(after, seconds)
    assert sum(seconds[i] for i in path) == longest
    assert not after[path[0]] and all(a in after[b] for a, b in itertools.pairwise(path))
    free, _ = jobs.wall_time(after, seconds, {"jobs": 99}, lambda i: {"jobs": 1})
    one, most = jobs.wall_time(after, seconds, {"jobs": 1}, lambda i: {"jobs": 1})
    two, _ = jobs.wall_time(after, seconds, {"jobs": 2}, lambda i: {"jobs": 1})
    assert most == {"jobs": 1}
    assert free == longest and one == sum(seconds)
    assert max(longest, sum(seconds) / 2) <= two <= longest + (sum(seconds) - longest) / 2 + 1e-9  # Graham's bound


def test_jobs_that_take_more_of_a_limit_wait_for_it():
    uses = [{"gpus": 8.0}, {"gpus": 8.0}, {"gpus": 2.0}, {}]
    assert jobs.wall_time([[]] * 4, [10, 10, 3, 30], {"gpus": 10}, lambda i: uses[i]) == (30, {"gpus": 10})
    assert jobs.wall_time([[]] * 4, [10, 10, 3, 5], {"gpus": 8}, lambda i: uses[i]) == (23, {"gpus": 8})
    with pytest.raises(ValueError, match="more than there is"):
        jobs.wall_time([[]], [1], {"gpus": 4}, lambda i: {"gpus": 8.0})


def test_a_circle_has_no_order():
    assert jobs.in_order([[1], [], [0, 1]]) == [1, 0, 2]
    with pytest.raises(ValueError, match="circle"):
        jobs.in_order([[1], [0]])


# --- what is to be done ----------------------------------------------------------------------------------------------

SNAKEFILE = """
rule all:
    input: "c.txt"
rule first:
    output: "a.txt"
    params: text=config.get("text", "one")
    shell: "echo {params.text} > {output}"
rule second:
    input: "a.txt"
    output: "b-{name}.txt"
    resources: runtime=90
    threads: 3
    shell: "cp {input} {output}"
rule third:
    input: "b-x.txt", "b-y.txt"
    output: "c.txt"
    shell: "cat {input} > {output}"
"""


def snakemake(folder: Path, *arguments: str) -> None:
    command = [ready.python(), "-m", "snakemake", "--cores", "1", "--quiet", "all", "--", *arguments]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=120)


def rules_of(found: tuple[list[jobs.Job], int]) -> tuple[list[str], int]:
    return [job.rule for job in found[0]], found[1]


def test_snakemake_says_what_is_done(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "Snakefile").write_text(SNAKEFILE)
    found, done = jobs.planned_jobs([], ["all"])
    assert ([job.rule for job in found], done) == (["first", "second", "second", "third", "all"], 0)
    assert [job.after for job in found] == [(), (0,), (0,), (1, 2), (3,)]
    assert (found[1].wildcards, found[1].runtime, found[1].threads) == ({"name": "x"}, 90, 3)
    assert found[1].outputs == ("b-x.txt",)

    snakemake(tmp_path, "b-x.txt")
    assert rules_of(jobs.planned_jobs([], ["all"])) == (["second", "third", "all"], 2)
    # the file is there, but it is of another text: a look at the files would not see it
    assert rules_of(jobs.planned_jobs(["text=two"], ["all"])) == (["first", "second", "second", "third", "all"], 0)
    snakemake(tmp_path, "c.txt")
    assert rules_of(jobs.planned_jobs([], ["c.txt"])) == ([], 4)


def test_mistakes_are_named(tmp_path, monkeypatch, machines, paper, repository):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "Snakefile").write_text(SNAKEFILE)
    with pytest.raises(UserError, match=r"nothing\.txt: No rule to produce nothing\.txt"):
        jobs.planned_jobs([], ["nothing.txt"])
    with pytest.raises(UserError, match=r"--config: .*'text'"):
        jobs.planned_jobs(["text"], ["all"])
    with pytest.raises(UserError, match="--machine: 'h300' is unknown; did you mean"):
        choose_rate(paper, machines, "h300", None, None)
    with pytest.raises(UserError, match="--flops-per-second: 0 is no rate"):
        choose_rate(paper, machines, None, None, 0)
    with pytest.raises(UserError, match="--utilisation: 40 is not between"):
        choose_rate(paper, machines, "h100", 40, None)
    silent = {**machines, "machines": {"h100": {**machines["machines"]["h100"], "peak": {}}}}
    with pytest.raises(UserError, match=r"h100\.peak: no FLOP/s"):
        choose_rate(paper, silent, "h100", None, None)
    volta = choose_rate(paper, machines, "v100", None, None)
    with pytest.raises(UserError, match=r"v100\.peak: no bf16, in which pretrain"):
        volta.of("bf16", "pretrain run=xlm-r")
    slow = yaml.safe_load((repository / MACHINES).read_text())
    slow["machines"]["h100"]["utilisation"] = 40
    (tmp_path / "config").mkdir()
    (tmp_path / "config/schemas").symlink_to(repository / "config/schemas")
    (tmp_path / MACHINES).write_text(yaml.safe_dump(slow))
    with pytest.raises(UserError, match=r"machines\.yaml, machines\.h100\.utilisation: must be at most 1, is 40"):
        load_machines(tmp_path)


# --- rates and prices ------------------------------------------------------------------------------------------------


def test_the_rate_is_given_or_a_machine_s_or_measured(paper, machines, tmp_path):
    assert choose_rate(paper, machines, None, None, 2e14).of("fp32", "") == 2e14
    assert choose_rate(paper, machines, "a100", 0.5, None).of("bf16", "") == 156e12
    bare = dataclasses.replace(paper, root=tmp_path)
    assert "assumed" in choose_rate(bare, machines, None, None, None).source
    (tmp_path / "results/paper/runs/xlm-r").mkdir(parents=True)
    (tmp_path / "results/paper/runs/xlm-r/run.yaml").write_text("precision: bf16\n")
    for seed, rate in enumerate((8e14, 4e14, 6e14, 0.0), start=1):  # the last ended at once
        folder = tmp_path / f"results/paper/runs/xlm-r/seed-{seed}"
        folder.mkdir(parents=True)
        content = {"flops_per_second": rate, "world_size": 4, "device": "a card"}
        (folder / "cost.json").write_text(json.dumps(content))
    found = choose_rate(bare, machines, None, None, None)
    assert found.of("bf16", "") == 1.5e14
    assert found.source == (
        "measured in 3 trainings of this scale on a card; fp32 and memory as of NVIDIA H100 SXM 80 GB (assumed)"
    )
    assert found.of("fp32", "") == pytest.approx(0.2 * 66.9e12)  # a card's bf16 says nothing of its fp32
    small = dataclasses.replace(bare, scale={**bare.scale, "resources": {}})
    assert choose_rate(small, machines, None, None, None).by_precision == {"bf16": 1.5e14, "fp32": 1.5e14}
    assert choose_rate(bare, machines, "h100", None, None).of("bf16", "") == pytest.approx(0.2 * 989.4e12)


def job(number: int, rule: str, after: tuple[int, ...] = (), runtime: float = 0, **wildcards: str) -> jobs.Job:
    outputs = (f"results/paper/raw/{wildcards['path']}",) if rule == "download" else ()
    return jobs.Job(number, rule, wildcards, outputs, 8, runtime, after)


FIRST = job(0, "download", path="data.statmt.org/cc-100/am.txt.xz")
SOME = [
    FIRST,
    job(1, "split_corpus_mono", (0,), corpus="cc-100", lang="am"),
    job(2, "encode_corpus", (1,), kind="mono", corpus="cc-100", name="am", shard="0"),
    job(3, "pretrain", (2,), 1440, run="xlm-r", seed="1"),
    job(4, "finetune", (3,), 1440, run="xlm-r", task="xnli", setting="cross-lingual-transfer", seed="1"),
    job(5, "predict", (4,), 120, run="xlm-r", task="xnli", setting="cross-lingual-transfer", seed="1"),
    job(6, "score", (5,), 30, run="xlm-r", task="xnli", setting="cross-lingual-transfer", seed="1"),
]


def price(config, machines, rate, asked) -> list[billing.Bill]:
    with tempfile.TemporaryDirectory() as folder:
        return billing.Pricing(config, machines, rate, Path(folder)).bill(asked)


@pytest.fixture(scope="module")
def bare(paper, tmp_path_factory):
    """The configuration of the paper scale where nothing is done."""
    root = tmp_path_factory.mktemp("bare")
    (root / "config").symlink_to(paper.root / "config")
    return dataclasses.replace(paper, root=root)


@pytest.fixture(scope="module")
def bills(bare, machines):
    return price(bare, machines, rate_of(machines), SOME)


def test_what_was_made_ready_while_the_plan_was_waited_for_changes_no_bill(bills, bare, machines, tmp_path):
    """Three runs are sized and sampled ahead, and nothing more once the plan is there."""
    pricing = billing.Pricing(bare, machines, rate_of(machines), tmp_path)
    asked = iter([False] * 3)
    pricing.get_ready(enough=lambda: next(asked, True))
    [(_, sampled)] = pricing._samples.values()
    assert sampled and not list(asked)
    known = len(sampled)
    pricing.get_ready(enough=lambda: True)
    assert len(sampled) == known
    assert pricing.bill(SOME) == bills


def test_a_world_that_is_not_there_yet_is_not_charged_the_size_of_the_real_corpus(bare, repository, machines, tmp_path):
    """A plain `make plan` on a fresh clone: mini's text is megabytes, CC-100's 590 GB."""
    mini = dataclasses.replace(load_config(repository, {"scale": "mini"}), root=bare.root)
    pricing = billing.Pricing(mini, machines, rate_of(machines), tmp_path)
    world, line = mini.scale["world"], 12 * 8.0  # tokens of a line and bytes of a token that are assumed
    documents = {"en": world["documents"], "hi": world["documents"] * 0.5}
    for code, own in documents.items():
        assert pricing.text_of("mono", "cc-100", code) == pytest.approx(6 * own * line)
    assert pricing.text_of("bitext", "IITB", "en-hi") == pytest.approx(2 * 3000 * line)
    halves = [pricing.text_of("bitext", name, "en-fr") for name in ("Europarl", "MultiUN")]
    assert halves == [pytest.approx(3000 * line)] * 2
    assert pricing.text_of("bitext", "wmt14-nc-v9", "de-en") == pytest.approx(2 * 500 * line)
    assert pricing.text_of("bitext", "EUbookshop", "de-en") == 0
    clean = job(0, "clean_mono", corpus="cc-100", lang="en", shard="0")
    [found] = price(mini, machines, rate_of(machines, "cpu-core"), [clean])
    assert 5 < found.seconds < 60 and found.disk < 1e6


def test_jobs_cost_what_follows_from_the_configuration(bills, bare, machines):
    download, split, encode, training, finetuning, prediction, score = bills
    known = bare.datasets["cc-100/am"].bytes
    assert download.network == download.disk == known and "published" in download.basis
    text = known * machines["assumed"]["text_per_download"]["mono"]
    assert split.disk == pytest.approx(text / machines["assumed"]["text_per_archive"])
    assert encode.tokens == pytest.approx(text * 0.86 / 8 / bare.scale["shards"]["mono"])
    assert training.devices == 64 and training.device_hours == 64 * training.seconds / 3600
    start = machines["assumed"]["start"]["gpu"]
    assert training.seconds == pytest.approx(start + training.flops / (64 * 989.4e12))
    assert "made" not in training.basis and "30 tokens assumed" in training.basis
    # 392,702 rows, 5 epochs, of 1.7 lines of 30 tokens and marks; dev 20 times
    trained, scored = 392702 * 5 * 54, 2490 * 20 * 54
    assert finetuning.tokens == trained + scored
    block = 12 * (8 * 768**2 + 4 * 768 * 3072 + 4 * 54 * 768)
    assert finetuning.flops == pytest.approx((3 * trained + scored) * block)
    # so small batches are a matter of steps: 12 blocks, batches of 32
    assert finetuning.seconds == pytest.approx(start + 12 * 1.5e-3 * 5 * math.ceil(392702 / 32))
    assert finetuning.seconds > 3 * finetuning.flops / 989.4e12 and "1.5 ms a trained block" in finetuning.basis
    # what it keeps, while the new one is written: weights, moments, best weights
    size = size_of(resolve_run(bare, "xlm-r") | {"objectives": [], "init": None}, 250002).all
    assert billing.KEPT_AFTER == Bookmark.seconds < finetuning.seconds
    assert finetuning.scratch == 2 * 4 * size * (3 + 1) and prediction.scratch == 0
    assert prediction.tokens == 15 * 5010 * 54
    assert (score.flops, score.devices, score.seconds) == (0, 0, machines["assumed"]["start"]["cpu"])


@pytest.fixture(scope="module")
def everything(bare, machines):
    """At the paper's size, whatever tables select: each run, and each task and setting with the recipe of some run."""
    asked = [job(0, "pretrain", run=run, seed="1") for run in bare.pretrained]
    for run, task, setting in all_needs(bare):
        if run in {*bare.pretrained, *bare.imported}:
            trained = trained_as(bare, task, setting)
            kind = "train_translator" if bare.tasks[task]["kind"] == "translation" else None
            kind = kind or ("finetune_retrieval" if setting in bitext_settings(bare, task) else "finetune")
            rules = [kind] if trained == (task, setting) else []
            rules += ["translate", "validate_translator"] if kind == "train_translator" else ["predict"]
            asked += [job(0, rule, run=run, task=task, setting=setting, seed="1") for rule in rules]
    return price(bare, machines, rate_of(machines), asked)


def test_every_run_and_every_task_has_a_price(bare, everything):
    assert len(everything) > 500
    for own in everything:
        steps = resolve_run(bare, own.job.wildcards["run"]).get("schedule", {}).get("steps")
        assert (own.flops > 0 and own.seconds > 0) or (own.job.rule == "pretrain" and not steps), own.job.name
        assert own.basis and (
            own.memory > 0 or own.job.rule in ("predict", "translate", "validate_translator") or not steps
        )


def test_nodes_are_given_by_flops_that_are_near_the_bill_s(bare, everything):
    """Of each run and each translator: the rough count of allocation.py beside that of engine/cost.py."""
    names = ("run", "task", "setting")
    for own in everything:
        if own.job.rule in ("pretrain", "train_translator") and own.flops:
            asked = [own.job.wildcards[name] for name in names if name in own.job.wildcards]
            resolve = resolve_run if own.job.rule == "pretrain" else resolve_translator
            rough = allocation.rough_flops(resolve(bare, *asked))
            assert 1 / 1.5 < rough / own.flops < 1.5, own.job.name
    priced = {own.job.wildcards["run"] for own in everything if own.job.rule == "pretrain"}
    assert priced == {path.stem for path in (bare.root / "config/runs").glob("*.yaml")} - {"fast-align", *bare.imported}


def test_a_fine_tuning_in_bf16_holds_copies_of_the_weights(bare, machines):
    def priced(precision: str) -> billing.Bill:
        pricing = billing.Pricing(bare, machines, rate_of(machines), Path("none"))
        own, run = billing.Bill(SOME[4], devices=1), resolve_run(bare, "xlm-r")
        pricing.finish_finetuning(own, run_config(run, 250002).model, run, {"precision": precision}, 0, 0)
        return own

    assert priced("bf16").memory == priced("fp32").memory * 18 / 16


def test_small_steps_cost_time_on_gpus_alone(bare, machines):
    """Retrieval: its steps, and the blocks as far as the layer that is read; translation: a token of all at a time."""
    asked = [
        job(0, "finetune_retrieval", run="xlm-r", task="tatoeba", setting="retrieval-fine-tuned", seed="1"),
        job(1, "validate_translator", run="transformer-big", task="wmt14-en-de", setting="random-init", seed="1"),
    ]
    start, step = machines["assumed"]["start"]["gpu"], machines["assumed"]["step"]
    retrieval, translation = price(bare, machines, rate_of(machines), asked)
    assert retrieval.seconds == pytest.approx(start + 200000 * 7 * step)
    recipe = resolve_recipe(bare, "wmt14-en-de", "random-init", recipe_of(bare, "transformer-big"))
    batches = recipe["recipe"]["snapshots"] * recipe["counts"]["dev"]["de"] / 64
    assert translation.seconds == pytest.approx(start + batches * 32 * 6 * step / 3)
    without = dataclasses.replace(bare, scale={**bare.scale, "resources": {}})
    for own in price(without, machines, rate_of(machines, "cpu-core"), asked):
        assert "a trained block" not in own.basis


def test_two_grids_of_steps():
    """Batches of all rows, and the parts of a batch that a device takes at once."""
    assert billing.steps_of(100, 32, None) == 4 == billing.steps_of(100, 32, 64)
    assert billing.steps_of(100, 32, 12) == 4 * 3


def test_the_search_of_duplicates_has_files_that_go(bare, machines):
    """48 bytes a line of 130, 780 a document of 3,000."""
    pricing = billing.Pricing(bare, machines, rate_of(machines), Path("none"))
    found = pricing.of(job(0, "find_duplicates_mono", corpus="cc-100", lang="en"), set())
    text = pricing.text_of("mono", "cc-100", "en")
    assert found.scratch == pytest.approx(text * (48 / 130 + 780 / 3000), rel=0.01)


def test_the_csv_adds_up_to_what_is_printed(bills, bare, machines):
    limits = bill.Limits(100, None, 4, 10)
    text, critical = bill.report(bills, 5, bare, rate_of(machines), limits)
    rows = [*csv.DictReader(io.StringIO(bill.as_csv(bills, critical)))]
    total = bill.total_of(bills)
    for column, expected in (
        ("tokens", total.tokens),
        ("flops", total.flops),
        ("gpu_hours", total.device_hours),
        ("core_hours", total.core_hours),
        ("disk_bytes", total.disk),
        ("network_bytes", total.network),
    ):
        assert sum(float(row[column]) for row in rows) == pytest.approx(expected, rel=1e-8), column
    last = next(line for line in text.splitlines() if line.startswith("total"))
    assert last.split() == " ".join(["total", *total.cells()]).split()
    by_rule = bill.sums(bills, lambda own: own.job.rule)
    assert sum(own.flops for own in by_rule.values()) == pytest.approx(total.flops)
    assert [row["critical"] for row in rows] == ["yes"] * 7 and critical == [*range(7)]  # each waits for the one before
    assert "7 jobs to run, 5 done" in text


def test_what_time_and_memory_do_not_allow_is_said(bills, bare, machines):
    slow = [dataclasses.replace(own, seconds=own.seconds * 500) for own in bills]
    text = "\n".join(bill.beyond_limits(slow, bill.Limits(100, None, 4, 2)))
    assert "1 jobs of finetune need more than the profile's 3 submissions of 24 h each" in text
    assert "1 jobs of predict need more than their runtime of 2 h and do not resume" in text
    assert "1 jobs of pretrain need more than the profile's 3 submissions of 24 h each" in text
    small = rate_of(machines)
    small = dataclasses.replace(small, memory=8e9)
    found = price(bare, machines, small, SOME)
    [line, *_] = [line for line in bill.unfit(found) if "pretrain" in line]
    assert "of 8.0 GB; batch.device_rows" in line
    with pytest.raises(UserError, match="--gpus: 8, but one job takes 64"):
        bill.report(bills, 0, bare, rate_of(machines), bill.Limits(100, 8, 4, 10))


def test_the_summary_says_what_its_numbers_leave_out(bills, bare, machines):
    def lines(own: list[billing.Bill]) -> str:
        return "\n".join(bill.summary(own, 0, bare, rate_of(machines), [0], bill.Limits(100, None, 4, 10)))

    text = lines(bills)
    assert "for want of" not in text  # scoring is in fp32, and has no such key
    assert "Without waiting in queues; 64 GPUs are taken for 64 times one." in text
    assert "come and go with checkpoints and the search of duplicates" in text
    short = dataclasses.replace(next(own for own in bills if not own.devices), seconds=1800.0)
    assert f"tokens: {short.job.threads / 2:.1f} core-hours." in lines([short]), "of a little, not none"
    assert "FLOPs of 1 training are counted" in text
    slow = [dataclasses.replace(own, precision=own.precision and "fp32") for own in bills]
    assert "100% of the GPU-hours compute in fp32" in lines(slow)
    slow = [dataclasses.replace(own, precision="fp32") if own.job.rule == "finetune" else own for own in bills]
    assert "for want of" not in lines(slow)  # less than one in a hundred


def test_a_plan_without_gpus_is_timed_on_the_cores_of_this_machine(bills, monkeypatch):
    """As plain `make` runs it; at most as many jobs as cores, and a job of more threads takes all of them."""
    limits = bill.Limits(100, None, 4, 10)
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    own = [dataclasses.replace(one, devices=0, seconds=100.0) for one in bills]
    for one, threads in zip(own, (1, 1, 1, 1, 8, 1, 1), strict=True):
        one.job = dataclasses.replace(one.job, threads=threads, after=())
    here = bill.for_plan(limits, own, None)
    assert here.cores == 2 and here.words() == "on 2 cores"
    seconds = bill.wall_time(own, here)[0]
    assert seconds == 400 and bill.wall_time(own, limits)[0] == 100
    assert bill.for_plan(limits, own, 100) == limits  # asked for as Slurm's jobs
    assert bill.for_plan(limits, bills, None) == limits  # GPUs: a cluster's
    asked = dataclasses.replace(limits, cores=1)
    assert bill.for_plan(asked, own, None) == asked and asked.words() == "on 1 core"
    assert bill.wall_time(own, asked)[0] == 700


def test_nothing_runs_in_no_job_and_on_no_gpu(tmp_path):
    (tmp_path / "profile.yaml").write_text("jobs: 7\n")
    assert bill.read_limits(tmp_path / "profile.yaml", None, None).jobs == 7
    for jobs_, gpus, cores, name in (
        (0, None, None, "jobs"),
        (-1, None, None, "jobs"),
        (None, 0, None, "gpus"),
        (None, None, 0, "cores"),
    ):
        with pytest.raises(UserError, match=f"--{name}: .* give at least 1"):
            bill.read_limits(tmp_path / "profile.yaml", jobs_, gpus, cores)


def test_numbers_are_readable():
    assert [bill.number_of(count, "training") for count in (1, 1200)] == ["1 training", "1,200 trainings"]
    assert [bill.short(value) for value in (0, 0.5, 123, 99999, 1.234e21)] == ["0", "0.5", "123", "99,999", "1.23e21"]
    assert [bill.size_words(value) for value in (0, 12, 3.2e9, 6.41e12, 250e12)] == [
        "0", "12 B", "3.2 GB", "6.4 TB", "250 TB"
    ]  # fmt: skip
    assert [bill.time_words(value) for value in (30, 90, 7200, 5 * 86400)] == ["30 s", "1.5 min", "2.0 h", "5.0 days"]


# --- as a person runs it ---------------------------------------------------------------------------------------------


@pytest.mark.dag
def test_the_script_bills_the_smoke_scale(repository, tmp_path):
    for name in ("config", "workflow", "Snakefile", "slurm", "reference", "envs"):
        (tmp_path / name).symlink_to(repository / name)
    command = [sys.executable, "workflow/scripts/bill.py", "--config", "scale=smoke", "--csv", "plan.csv"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=environment, timeout=300)
    assert done.returncode == 0, done.stderr
    rows = [*csv.DictReader(io.StringIO((tmp_path / "plan.csv").read_text()))]
    assert f"Scale smoke: {len(rows):,} jobs to run, 0 done" in done.stdout
    assert {row["run"] for row in rows if row["rule"] == "pretrain"} == {"random-init", "xlm", "xlm-r"}
    for row in rows:
        assert all(int(other) < int(row["job"]) for other in row["after"].split())
    wrong = subprocess.run(
        [*command[:2], "--config", "scale=smok"], cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert wrong.returncode == 2 and "scale: 'smok' is unknown; did you mean 'smoke'" in wrong.stderr
    assert "Traceback" not in wrong.stderr


def test_what_a_training_has_done_is_not_billed(corpus, bare, machines, tmp_path):
    """Of its own state alone: not of another seed, and not of a run that has changed since."""
    config = dataclasses.replace(bare, root=tmp_path)
    values = resolve_run(bare, "xlm-r")
    place = tmp_path / "results/paper/runs/xlm-r"
    place.mkdir(parents=True)
    (tmp_path / "results/paper/shards").symlink_to(corpus / "shards")
    (place / "sampling_plan.tsv").write_text((corpus / "plan.tsv").read_text())

    def priced(seed: str) -> billing.Bill:
        return price(config, machines, rate_of(machines), [job(0, "pretrain", run="xlm-r", seed=seed)])[0]

    whole = priced("1")
    data = content_hash((corpus / "plan.tsv").read_text())
    folder = place / "seed-1/state" / content_hash([run_hash(values)[:16], data, 1])
    for step in (0.25, 0.5):
        checkpoint.save_state(folder, round(step * values["schedule"]["steps"]), {}, 2)
    checkpoint.save_state(folder.with_name("another"), values["schedule"]["steps"], {}, 2)
    half = priced("1")
    assert half.flops == pytest.approx(whole.flops / 2) and half.tokens == pytest.approx(whole.tokens / 2)
    assert "50% of its steps are done" in half.basis
    assert "are done" not in priced("2").basis


def test_a_plan_that_is_still_to_be_made_is_the_one_that_will_be(corpus, bare, machines, tmp_path):
    """The shards are there, and no run has read them yet."""
    (tmp_path / "results/paper").mkdir(parents=True)
    (tmp_path / "results/paper/shards").symlink_to(corpus / "shards")
    config = dataclasses.replace(bare, root=tmp_path, scale={**bare.scale, "shards": {"mono": 2, "bitext": 2}})
    mono = {"corpus": "cc-100", "languages": ["de", "en", "hi"], "alpha": 0.5}
    bitext = {"corpora": {"de-en": ["World"], "en-hi": ["World"]}, "alpha": 1.0}
    pricing = billing.Pricing(config, machines, rate_of(machines), tmp_path)
    path = pricing.plan_of({"name": "some", "data": {"mono": mono, "bitext": bitext}})
    sources, _ = read_plan(path, corpus / "shards")
    assert [source.name for source in sources["bitext"]] == ["de-en", "en-hi"]
    sizes = {
        own.name: sum(read_manifest(manifest)["sentences"] for manifest in own.manifests) for own in sources["mono"]
    }
    weights = {name: size**0.5 for name, size in sizes.items()}
    for own in sources["mono"]:
        assert own.probability == pytest.approx(weights[own.name] / sum(weights.values()))
    assert pricing.sentence_tokens < 12  # of the first shards, and no longer an assumption
