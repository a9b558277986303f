"""The run files: what each says of its paper, and that what it starts from fits, weight by weight."""

import copy
import dataclasses
import json
import math
from pathlib import Path

import pytest
import torch
import yaml

import plan.runs
import resolve_run
from common.errors import UserError
from common.identity import run_hash
from engine.checkpoint import load_encoder, load_weights
from engine.config import InitConfig, RunConfig, load_run
from engine.forms import FORMS
from engine.objectives import OBJECTIVES
from engine.options import DESCRIPTIONS
from engine.shards import read_manifest
from engine.streams import ItemOptions, Source, Stream
from mixes import arguments
from plan.config import Config
from plan.load import load_config
from plan.needs import canonical_run
from pretrain import pretrain
from small_corpus import VOCABULARY, write_corpus
from training.assembly import PretrainingModel, build_mixture, read_plan
from training.initial import load_initial_weights

REPOSITORY = Path(__file__).resolve().parent.parent
SCALES = ("smoke", "mini", "small", "paper")


@pytest.fixture(scope="module")
def smoke(repository):
    return load_config(repository, {"scale": "smoke"})


def pretrained(repository) -> list[str]:
    return load_config(repository, {"scale": "smoke"}).pretrained


def test_every_run_opens_with_its_paper_and_the_numbers_to_reach(repository):
    for path in sorted((repository / "config/runs").glob("*.yaml")):
        head = [line for line in path.read_text(encoding="utf-8").split("\n")[:10] if line.startswith("#")]
        assert any(line.startswith("# Paper: ") for line in head), path.name
        assert any(line.startswith("# Should reach: ") for line in head), path.name
        assert "\npaper: {id: " in path.read_text(encoding="utf-8"), path.name


def test_every_objective_has_a_run(repository):
    config = load_config(repository, {"scale": "paper"})
    used = {objective["name"] for name in config.pretrained for objective in config.runs[name]["objectives"]}
    assert used == set(DESCRIPTIONS)


@pytest.mark.parametrize("scale", SCALES)
def test_every_run_resolves_at_every_scale(repository, tmp_path, scale):
    config = load_config(repository, {"scale": scale})
    for name in config.pretrained:
        run = loaded(config, name, tmp_path)
        assert run.run_hash == "" and run.name == name
        if run.init:
            parent = plan.runs.resolve_run(config, config.runs[name]["init"]["run"])
            assert run.init.run_hash == run_hash(parent)[:16]


@pytest.mark.parametrize("scale", sorted(path.stem for path in (REPOSITORY / "config/scales").glob("*.yaml")))
def test_what_goes_on_from_a_training_draws_other_lines_and_masks(repository, scale):
    """Every run; a scale whose reference scores are older says that its runs replay."""
    config = load_config(repository, {"scale": scale})
    drawn = {name: draws(plan.runs.resolve_run(config, name)) for name in config.pretrained}
    before = {name: {*plan.runs.lineage(config, name)} & {*drawn} - {name} for name in drawn}
    replayed = {name for name in drawn for start in before[name] if drawn[name] & drawn[start]}
    if scale in ("mini", "mini-2", "mini-clone", "mini-long", "real"):
        assert {"xlm-r-continued", "mbert-continued"} <= replayed
        assert not any(" after " in name for names in drawn.values() for name in names)
    else:
        assert replayed == set()
        assert drawn["xlm-r-continued"] < drawn["ernie-m-base-exp2"] < drawn["ernie-m-base"], (
            "one start, the same lines"
        )


def draws(run: dict) -> set[str]:
    return {objective.get("draws") or objective["name"] for objective in run["objectives"]}


def test_the_lines_and_masks_of_a_run_that_goes_on_are_new_and_those_of_its_like(smoke, sources, tmp_path):
    by_kind = {kind: [one for one in sources if one.kind == kind] for kind in ("mono", "bitext")}

    def keys(name: str, **changed: str | None) -> list[int]:
        """What the masks of the first lines are drawn by."""
        run = loaded(smoke, name, tmp_path)
        own = next(objective for objective in run.objectives if objective.name == "mmlm")
        return build_mixture(run, dataclasses.replace(own, **changed), by_kind, 1, "test").draw(40)[:, 4].tolist()

    start, control, method = (keys(name) for name in ("xlm-r", "xlm-r-continued", "ernie-m-base"))
    assert control == method and not {*start} & {*control}
    assert keys("xlm-r-continued", draws=None) == start, "by its own name alone it begins as the first one did"


def loaded(config: Config, name: str, folder) -> RunConfig:
    path = folder / f"{name}.yaml"
    path.write_text(resolve_run.render(config, name), encoding="utf-8")
    return load_run(path)


HEADLINE = ("xlm-r", "xlm", "ernie-m-base", "xlm-e-base", "veco-large", "ppa-250k", "infoxlm-base", "xlm-align-base")


@pytest.mark.parametrize("name", HEADLINE)
def test_the_headline_runs_keep_their_proportions_at_mini(repository, tmp_path, name):
    config = load_config(repository, {"scale": "mini"})
    run = loaded(config, name, tmp_path)
    pairs = config.scale["world"]["pairs"] * len(config.scale["world"]["bitext"])
    steps = run.schedule.steps
    assert steps == config.scale["run_overrides"]["schedule"]["steps"]
    for objective in run.objectives:
        options = vars(objective.options)
        of_an_item = 2 if objective.name == "xlco" else 1
        assert options.get("queue", 0) * of_an_item <= 0.25 * pairs
        if momentum := options.get("momentum"):
            assert math.log(0.5) / math.log(momentum) <= 0.05 * steps  # half-life
        assert 1 <= options.get("layer", 1) <= run.model.layers
        assert options.get("generator_layers", 1) < run.model.layers
        assert (objective.row_length, objective.packing) == (None, True)
    if first := run.schedule.first:
        assert first.steps == round(0.05 * steps) and first.steps + run.schedule.warmup_steps < steps
    ernie = {objective.name: objective.rows for objective in run.objectives}
    if name == "ernie-m-base":
        assert set(ernie.values()) == {run.batch.rows // 2}, "text and pairs get as many rows as in xlm"


# --- what a run starts from -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sources(tmp_path_factory) -> tuple[Source, ...]:
    folder = tmp_path_factory.mktemp("shards")
    write_corpus(folder, shards=1)
    return tuple(Source(*path.relative_to(folder).parts[:3], 1.0, (path,)) for path in sorted(folder.rglob("*.json")))


def model_of(run: RunConfig, sources: tuple[Source, ...]) -> PretrainingModel:
    objectives = tuple(dataclasses.replace(objective, sources=sources) for objective in run.objectives)
    model = dataclasses.replace(run.model, vocabulary=VOCABULARY)
    return PretrainingModel(dataclasses.replace(run, model=model, objectives=objectives))


def final_weights(run: RunConfig, model: PretrainingModel) -> dict[str, torch.Tensor]:
    left_out = {name for objective in run.objectives for name in OBJECTIVES[objective.name].training_only}
    return {name: tensor for name, tensor in model.state_dict().items() if name.split(".")[0] not in left_out}


def continued(repository) -> list[str]:
    runs = load_config(repository, {"scale": "smoke"}).runs
    return sorted(name for name, run in runs.items() if "init" in run)


@pytest.mark.parametrize("name", continued(REPOSITORY))
def test_a_run_copies_all_that_it_can_and_names_the_rest(smoke, sources, tmp_path, name):
    run = loaded(smoke, name, tmp_path)
    parent = loaded(smoke, run.init.run, tmp_path)
    given = final_weights(parent, model_of(parent, sources))
    own = model_of(run, sources).state_dict()
    fresh = {weight for weight in own if weight.startswith(run.init.fresh)} if run.init.fresh else set()
    assert {w: own[w].shape for w in own if w not in fresh} == {w: given[w].shape for w in own if w not in fresh}
    assert not fresh & set(given), "what the other run has is copied"
    for prefix in run.init.fresh:
        assert any(weight.startswith(prefix) for weight in fresh), f"{prefix} names no weight"
    copied = {weight.split(".")[0] for weight in own} - {weight.split(".")[0] for weight in fresh}
    assert "encoder" in copied
    if run.schedule.first:
        assert set(run.schedule.first.train) <= {weight.split(".")[0] for weight in own}


def test_a_limit_takes_the_first_pairs_of_each_shard_every_epoch(sources, tmp_path):
    folder = sources[0].manifests[0].parents[3]
    lines, whole = ["kind\tcorpus\tname\tsentences\tq"], {}
    for source in sources:
        whole[source.name] = read_manifest(source.manifests[0])["documents"]
        lines.append(f"{source.kind}\t{source.corpus}\t{source.name}\t{2 * whole[source.name]}\t1")
    (tmp_path / "plan.tsv").write_text("\n".join(lines) + "\n")
    limited, everything, unlimited = (read_plan(tmp_path / "plan.tsv", folder, limit)[0] for limit in (20, 10**6, None))
    assert [source.share for source in limited["bitext"]] == [20 / whole[s.name] for s in limited["bitext"]]
    assert {source.share for source in limited["mono"]} == {1.0} and everything == unlimited
    stream = Stream(limited["bitext"][0], FORMS["pairs"], ItemOptions(32), seed=1)
    for _ in range(2):
        assert sorted(stream.take(20)[:, 1]) == list(range(20))


# --- training --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def briefly(smoke, corpus, tmp_path_factory):
    """Train a run of smoke for four steps, after the run that it starts from; runs that are equal there once."""
    folder = tmp_path_factory.mktemp("runs")

    def train(name: str) -> Path:
        name = canonical_run(smoke, name)
        out = folder / name / "model.safetensors"
        if not out.exists():
            out.parent.mkdir()
            run = copy.deepcopy(plan.runs.resolve_run(smoke, name))
            run["schedule"] |= {"steps": 4, "warmup_steps": 1} if run["objectives"] else {}
            run["schedule"].get("first", {}).update(steps=1, warmup_steps=0)
            own = arguments(corpus, out.parent)
            if init := run.get("init"):
                own.init = train(init["run"])
                init["run_hash"] = load_weights(own.init)[1]["run_hash"]
            own.run_file.write_text(yaml.safe_dump(run), encoding="utf-8")
            torch.set_num_threads(1)
            assert pretrain(own) == 0
        return out

    return train


@pytest.mark.parametrize("name", pretrained(REPOSITORY))
def test_every_run_trains(smoke, briefly, name):
    out = briefly(name)
    cost = json.loads((out.parent / "cost.json").read_text(encoding="utf-8"))
    lines = (out.parent / "train.jsonl").read_text(encoding="utf-8").splitlines()
    losses = json.loads(lines[-1]) if lines else {}
    assert cost["steps"] == (4 if smoke.runs[name]["objectives"] else 0)
    objectives = {own["name"] for own in smoke.runs[name]["objectives"]}
    if not smoke.runs[name]["schedule"].get("alternate"):
        assert {key.split("/")[0] for key in losses if "/" in key} == objectives
    assert all(math.isfinite(value) for value in losses.values())
    encoder, metadata = load_encoder(out)  # as fine-tuning reads it
    assert sum(weight.numel() for weight in encoder.parameters()) == cost["parameters"]["encoder"]
    assert metadata["run"] == out.parent.name
    assert set(cost["objectives"]) <= objectives and (cost["flops"] > 0) == bool(objectives)


def test_weights_of_another_run_are_refused(briefly):
    path = briefly("xlm-r")
    own = load_weights(path)[1]["run_hash"]
    with pytest.raises(UserError, match=rf"weights of run xlm-r \({own}\), not of xlm-r \(0000\); train xlm-r again"):
        load_initial_weights(torch.nn.Module(), InitConfig("xlm-r", run_hash="0000"), path)
