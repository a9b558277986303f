"""Exports: transformers, which sees nothing but the folder, computes what our engine does.

Every model is exported here and read by one other process (LOADER), whose path has none of our scripts; the tests
compare what it wrote down. The models are small and random, with no weight at zero or one.
"""

import dataclasses
import io
import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import sentencepiece
import torch
import yaml
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn import functional as F

import export_model
import import_checkpoint
from common.errors import UserError
from common.typed import build
from engine import foreign_config, formats
from engine.assembly import Seq2Seq
from engine.beam import translate_rows
from engine.checkpoint import describe_model, load_encoder, load_weights, save_weights
from engine.config import RunConfig
from engine.heads import HEADS, encode, language_number
from engine.model import Encoder, MaskedLanguageModelHead
from engine.objectives import OBJECTIVES
from engine.objectives.rtd import DiscriminatorHead
from engine.options import DESCRIPTIONS
from engine.rows import pad, pair_rows, sentence_rows
from engine.shape import ModelConfig, RelativeBias
from engine.streams import Source
from engine.tokenizer import BOS, EOS, PAD, Tokenizer, load_tokenizer
from plan.config import Config
from plan.load import load_config
from plan.runs import data_languages, resolve_run
from plan.translators import FROM_WEIGHTS, resolve_translator
from report import model_card
from tasks.known import TASKS as TASK_MODULES
from training.assembly import PretrainingModel

pytest.importorskip("transformers", reason="install tests/requirements.txt (make test does)")
from huggingface_hub import ModelCard
from huggingface_hub.repocard_data import model_index_to_eval_results

TOLERANCE = 1e-5
SCRIPTS = Path(export_model.__file__).parent
LABELS = ["contradiction", "entailment", "neutral"]
LANGUAGES = ["de", "en", "hi"]
TEXTS = ["ka lo mi", "ru te sa no vi ka ka", "vi"]
PAIRS = [("ka lo", "mi ru te"), ("sa", "no"), ("vi ka lo ru", "te sa no mi ka lo")]
EVERYTHING = RelativeBias(16, 20, gate_input="hidden", gate_bias=True, gate_per_head=True, shared_by_layers=False)

# Reads each folder as a user would, and runs it on given rows.
LOADER = """
import importlib, json, sys
import torch, transformers

MBART = "transformers.models.mbart.modeling_mbart"
transformers.utils.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()
jobs, out = json.load(open(sys.argv[1])), {}
assert not any("workflow" in path for path in sys.path), sys.path
for name, job in jobs.items():
    said = out[name] = {}
    try:
        trust = {"trust_remote_code": True} if job["trust"] else {}
        own = transformers if hasattr(transformers, job["auto"]) else importlib.import_module(MBART)
        model, report = getattr(own, job["auto"]).from_pretrained(
            job["folder"], output_loading_info=True, **trust, **job["more"]
        )
        said["report"] = {key: sorted(map(str, found)) for key, found in report.items()}
        said["class"], said["dtype"] = type(model).__name__, str(model.dtype)
        said["id2label"] = model.config.id2label
        inputs = {key: torch.tensor(value) for key, value in job["inputs"].items()}
        with torch.no_grad():
            output = model.eval()(**inputs, output_hidden_states=True)
            said["states"] = getattr(output, "hidden_states", None)
            for key in ("logits", "start_logits", "end_logits", "last_hidden_state"):
                said[key] = getattr(output, key, None)
            for name, how in job["searches"].items():
                ids = model.generate(inputs["input_ids"], attention_mask=inputs["attention_mask"], **how)
                said[name] = ids.tolist()
            if "language_ids" in inputs:
                encoder = getattr(model, "encoder", model)
                said["languages"] = [encoder.language_number(code) for code in ("de", "en", "hi", "xx")]
                inputs["language_ids"][:] = 1
                english = encoder(**inputs).last_hidden_state
                del inputs["language_ids"]
                said["english"] = torch.equal(english, encoder(**inputs).last_hidden_state)
        if job["texts"]:
            tokenizer = transformers.AutoTokenizer.from_pretrained(job["folder"], **trust)
            said["alone"] = dict(tokenizer(job["texts"]))
            said["pairs"] = dict(tokenizer([a for a, _ in job["pairs"]], [b for _, b in job["pairs"]]))
            said["longest"] = tokenizer.model_max_length
            said["mask"] = tokenizer.mask_token_id
            said["decoded"] = tokenizer.batch_decode(said["alone"]["input_ids"], skip_special_tokens=True)
    except Exception as error:
        import traceback
        said["error"] = traceback.format_exc()
torch.save(out, sys.argv[2])
"""


SEARCHES = {  # what is said to generate(); the recipe's is in the folder
    "greedy": {"num_beams": 1, "length_penalty": 1.0},
    "beams": {"num_beams": 3, "length_penalty": 1.0},
    "recipe": {},
}


@dataclass
class Case:
    """A model to export: what it is in our files, and what transformers is to find."""

    model: dict = field(default_factory=dict)  # changes of CONFIG
    head: str | None = None  # mlm, dense or linear (a discriminator's), or a kind of task
    auto: str = "AutoModel"
    known_as: str | None = None  # the class that transformers makes of it
    decoder: int = 0


MMLM = {"head": "mlm", "auto": "AutoModelForMaskedLM"}
TASKS = {
    "classification": "AutoModelForSequenceClassification",
    "tagging": "AutoModelForTokenClassification",
    "question-answering": "AutoModelForQuestionAnswering",
}
TWO_SIDES = {"token_types": 2, "layer_norm_eps": 1e-12}  # mBERT
GATED = {"relative_bias": RelativeBias(16, 20)}
ALL_AT_ONCE = {"relative_bias": EVERYTHING, "languages": 3, "token_types": 2, "admin": True}
ALL_AT_ONCE |= {"absolute_positions": False}
CASES = {
    "xlm-r": Case(**MMLM, known_as="XLMRobertaForMaskedLM"),
    "encoder alone": Case(known_as="XLMRobertaModel"),
    "two sides": Case(TWO_SIDES, **MMLM, known_as="XLMRobertaForMaskedLM"),
    "gate": Case(GATED, known_as="ParallaxModel"),
    "gate, all variants": Case({"relative_bias": EVERYTHING}, **MMLM, known_as="ParallaxForMaskedLM"),
    "gate, discriminator": Case(GATED, "dense", "AutoModelForPreTraining", "ParallaxForPreTraining"),
    "gate, linear discriminator": Case(GATED, "linear", "AutoModelForPreTraining", "ParallaxForPreTraining"),
    "languages": Case({"languages": 3}, **MMLM, known_as="ParallaxForMaskedLM"),
    "admin": Case({"admin": True}, **MMLM, known_as="ParallaxForMaskedLM"),
    "all at once": Case(ALL_AT_ONCE, **MMLM, known_as="ParallaxForMaskedLM"),
    **{f"xlm-r, {kind}": Case(head=kind, auto=auto) for kind, auto in TASKS.items()},
    **{f"two sides, {kind}": Case({"token_types": 2}, kind, auto) for kind, auto in TASKS.items()},
    **{f"all at once, {kind}": Case(ALL_AT_ONCE, kind, auto) for kind, auto in TASKS.items()},
    **{
        f"translation, {layers} of 3": Case(
            {"admin": layers > 3}, None, "AutoModelForSeq2SeqLM", "ParallaxForTranslation", decoder=layers
        )
        for layers in (1, 3, 4)
    },
}

IN_BF16 = ["xlm-r", "all at once", "translation, 3 of 3"]


# ---------------------------------------------------------------------------------------------------------------------
# Our models


@pytest.fixture(scope="module")
def spm() -> bytes:
    """A vocabulary of made-up words, a few pieces each."""
    rng, words = random.Random(1), ["ka", "lo", "mi", "ru", "te", "sa", "no", "vi"]
    lines = [" ".join("".join(rng.choices(words, k=rng.randint(1, 3))) for _ in range(6)) for _ in range(300)]
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=model, vocab_size=60, model_type="bpe", minloglevel=2
    )
    return model.getvalue()


@pytest.fixture(scope="module")
def vocabulary(spm: bytes, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("vocabulary") / "spm.model"
    path.write_bytes(spm)
    return path


@pytest.fixture(scope="module")
def tokenizer(vocabulary: Path) -> Tokenizer:
    return load_tokenizer(vocabulary)


def shape(vocabulary: int, **changes: object) -> ModelConfig:
    return dataclasses.replace(ModelConfig(3, 32, 4, 48, 40, vocabulary, dropout=0.0, attention_dropout=0.0), **changes)


def unsettled(module: nn.Module, seed: int = 1) -> nn.Module:
    """No weight is like another, and attention is not uniform."""
    torch.manual_seed(seed)
    with torch.no_grad():
        for weight in module.parameters():
            if weight.dim() > 1:
                weight.normal_(std=0.2)
            else:
                weight.copy_((weight == 1).float() + 0.2 * torch.randn_like(weight))
    return module.eval()


def network(case: Case, config: ModelConfig) -> nn.Module:
    if case.decoder:
        return half_trained(unsettled(Seq2Seq(config, case.decoder)))
    model = nn.Module()
    model.encoder = Encoder(config)
    model.encoder.language_codes = LANGUAGES
    if case.head == "mlm":
        model.mlm_head = MaskedLanguageModelHead(config)
    elif case.head in ("dense", "linear"):
        model.discriminator_head = DiscriminatorHead(config, case.head)
    elif case.head:
        model.head = HEADS[case.head](config.width, 2 if case.head == "question-answering" else 3, 0.1)
    return unsettled(model)


def half_trained(model: Seq2Seq) -> Seq2Seq:
    """It has begun to learn to say a sentence backwards: what it says ends, is not the same all the time, and is so
    unsure that a search has something to weigh."""
    torch.manual_seed(2)
    optimizer = torch.optim.Adam(model.parameters(), 3e-3, fused=True)
    words = min(20, model.encoder.config.vocabulary - 1)
    for _ in range(400):
        drawn = [torch.randint(4, words, (int(torch.randint(1, 8, ())),)).tolist() for _ in range(16)]
        source_BS, real_BS = pad([[BOS, *row, EOS] for row in drawn])
        target_BT, real_BT = pad([[EOS, *row[::-1], EOS] for row in drawn])
        logits_NV = model.logits(model(source_BS, real_BS, target_BT[:, :-1])[real_BT[:, 1:]])
        optimizer.zero_grad()
        F.cross_entropy(logits_NV, target_BT[:, 1:][real_BT[:, 1:]]).backward()
        optimizer.step()
    with torch.no_grad():
        model.mlm_head.bias[[BOS, PAD, -1]] += 16.0  # would be said, were they not forbidden
    return model


def metadata_of(config: ModelConfig, vocabulary_sha256: str, kind: str | None = None) -> dict[str, str]:
    found = {"format": "pt", "model": describe_model(config), "run": "test", "run_hash": "0123456789abcdef"}
    found |= {"seed": "1", "steps": "30", "commit": "c" * 40, "vocabulary_sha256": vocabulary_sha256}
    if config.languages:
        found["languages"] = json.dumps(LANGUAGES)
    if kind in TASKS:
        labels = None if kind == "question-answering" else LABELS
        found |= {"task": "made-up", "setting": "zero-shot", "labels": json.dumps(labels), "pretrain_seed": "1"}
    return found


def export(out: Path, model: Path, vocabulary: Path, *more: object) -> Path:
    arguments = ["--model", model, "--vocabulary", vocabulary, "--out", out, *more]
    datasets = [] if "--datasets" in more else ["--datasets", SCRIPTS.parents[1] / "config/datasets.tsv"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["export_model.py", *map(str, [*arguments, *datasets])])
        export_model.main()
    return out


def save(path: Path, case: Case, tokenizer: Tokenizer) -> tuple[Path, nn.Module]:
    config = shape(tokenizer.vocabulary_size, **case.model)
    model = network(case, config)
    save_weights(path, model, metadata_of(config, tokenizer.sha256, case.head))
    return path, model


# ---------------------------------------------------------------------------------------------------------------------
# What they compute, and what transformers does


def rows_of(tokenizer: Tokenizer) -> list[list[int]]:
    """Alone and as pairs, of different lengths."""
    firsts, seconds = zip(*PAIRS, strict=True)
    return [*sentence_rows(tokenizer, TEXTS, 30), *pair_rows(tokenizer, firsts, seconds, 30)]


@torch.no_grad()
def ours(model: nn.Module, case: Case, tokenizer: Tokenizer) -> dict[str, object]:
    rows = rows_of(tokenizer)
    tokens_BT, real_BT = pad(rows)
    if case.decoder:
        targets_BT, _ = pad([[EOS, *row[1:-1]] for row in reversed(rows)])
        found = {"logits": model.logits(model(tokens_BT, real_BT, targets_BT)), "real": targets_BT != PAD}
        searches = {"greedy": (1, 1.0), "beams": (3, 1.0), "recipe": (6, 5.0)}
        return found | {name: translate_rows(model, rows, *how, most=0, extra=37) for name, how in searches.items()}
    languages = [LANGUAGES[i % len(LANGUAGES)] for i in range(len(rows))]
    states, real_BT = encode(model.encoder, rows, languages, all_layers=True)
    found = {"states": states, "real": real_BT}
    if case.head == "mlm":
        found["logits"] = model.mlm_head(states[-1], model.encoder.tokens.weight)
    elif case.head in ("dense", "linear"):
        found["logits"] = model.discriminator_head(states[-1])
    elif case.head == "question-answering":
        found["start_logits"], found["end_logits"] = model.head(states[-1], real_BT).unbind(1)
    elif case.head:
        found["logits"] = model.head(states[-1], real_BT)
    return found


def inputs_of(case: Case, tokenizer: Tokenizer, order: list[int] | None = None) -> dict[str, list]:
    """For transformers: ids as their files have them, sides and languages where the model knows them."""
    rows = rows_of(tokenizer)
    tokens_BT, real_BT = pad(rows)
    theirs = torch.tensor(order or tokenizer.order)
    found = {"input_ids": theirs[tokens_BT].tolist(), "attention_mask": real_BT.long().tolist()}
    if case.decoder:
        targets_BT, _ = pad([[EOS, *row[1:-1]] for row in reversed(rows)])
        return found | {"decoder_input_ids": theirs[targets_BT].tolist()}
    if case.model.get("token_types"):
        ends_BT = tokens_BT == EOS
        found["token_type_ids"] = (ends_BT.cumsum(1) - ends_BT.long()).clamp(max=1).tolist()
    if case.model.get("languages"):
        encoder = Encoder(shape(tokenizer.vocabulary_size, languages=3))
        encoder.language_codes = LANGUAGES
        found["language_ids"] = [language_number(encoder, LANGUAGES[i % 3]) for i in range(len(rows))]
    return found


def job_of(folder: Path, case: Case, tokenizer: Tokenizer) -> dict:
    config = json.loads((folder / "config.json").read_text())
    alone = case.auto == "AutoModel" and config["model_type"] == "xlm-roberta"
    return {
        "folder": str(folder),
        "auto": case.auto,
        "trust": "auto_map" in config,
        "more": {"add_pooling_layer": False} if alone else {},
        "inputs": inputs_of(case, tokenizer),
        "searches": SEARCHES if case.decoder else {},
        "texts": TEXTS,
        "pairs": PAIRS,
    }


def read_by_transformers(folder: Path, jobs: dict[str, dict]) -> dict[str, dict]:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "loader.py").write_text(LOADER)
    (folder / "jobs.json").write_text(json.dumps(jobs))
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "HF_"))}
    environment |= {"HF_HUB_OFFLINE": "1", "HF_HOME": str(folder / "home"), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "loader.py", "jobs.json", "out.pt"]
    subprocess.run(command, cwd=folder, env=environment, check=True, timeout=300)
    return torch.load(folder / "out.pt", weights_only=False)


@pytest.fixture(scope="module")
def exported(
    tokenizer: Tokenizer, vocabulary: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, tuple[nn.Module, Path]]:
    root, found = tmp_path_factory.mktemp("exported"), {}
    recipe = {"task": "wmt14-en-de", "version": 1, "kind": "translation", "metric": "bleu", "metrics": ["bleu"]}
    recipe |= {"chance": {"bleu": "0"}, "datasets": {}, "languages": ["de"], "counts": {}, "setting": "pretrained-init"}
    recipe["recipe"] = {"name": "default", "max_length": 30, "beam": 6, "penalty": 5.0, "snapshots": 1}
    (root / "recipe.yaml").write_text(yaml.safe_dump(recipe))
    for name, case in CASES.items():
        path, model = save(root / name / "model.safetensors", case, tokenizer)
        more = ["--recipe", root / "recipe.yaml"] if case.decoder else []
        found[name] = (model, export(root / name / "out", path, vocabulary, *more))
    return found


@pytest.fixture(scope="module")
def theirs(exported: dict, tokenizer: Tokenizer, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict]:
    jobs = {name: job_of(folder, CASES[name], tokenizer) for name, (_, folder) in exported.items()}
    jobs |= {f"{name}, bf16": jobs[name] | {"more": {"dtype": "bfloat16"}, "searches": {}} for name in IN_BF16}
    return read_by_transformers(tmp_path_factory.mktemp("theirs"), jobs)


def largest_difference(ours: Tensor, theirs: Tensor) -> float:
    assert ours.shape == theirs.shape
    return (ours - theirs).abs().max().item()


@pytest.mark.parametrize("name", CASES)
def test_transformers_computes_what_the_engine_does(name, exported, theirs, tokenizer):
    case, found = CASES[name], theirs[name]
    assert "error" not in found, found["error"]
    assert not any(found["report"][key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    assert found["dtype"] == "torch.float32"
    if case.known_as:
        assert found["class"] == case.known_as
    expected = ours(exported[name][0], case, tokenizer)
    real_BT = expected["real"]
    if "states" in expected:
        assert len(found["states"]) == 4
        for own, other in zip(expected["states"], found["states"], strict=True):
            assert own[real_BT].std() > 0.1  # there is something to compare
            assert largest_difference(own[real_BT], other[real_BT]) <= TOLERANCE
    for key in ("logits", "start_logits", "end_logits"):
        if key in expected:
            whole = case.head == "classification"
            own, other = (one[key] if whole else one[key][real_BT] for one in (expected, found))
            assert own.std() > 0.1
            assert largest_difference(own, other) <= TOLERANCE


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.decoder])
@pytest.mark.parametrize("search", ["greedy", "beams", "recipe"])
def test_generate_says_what_our_search_says(name, search, exported, theirs, tokenizer):
    said = [row[1 : row.index(EOS, 1) if EOS in row[1:] else None] for row in theirs[name][search]]
    expected = ours(exported[name][0], CASES[name], tokenizer)[search]
    assert len({len(row) for row in expected}) > 1 and max(map(len, expected)) < 37  # none reaches the limit
    assert said == expected


def test_the_search_of_the_recipe_is_in_the_folder(exported, vocabulary, tmp_path):
    folder = exported["translation, 1 of 3"][1]
    without = export(tmp_path / "out", folder.parent / "model.safetensors", vocabulary)
    for own, expected in ((folder, (6, 5.0)), (without, (5, 1.0))):
        settings = json.loads((own / "generation_config.json").read_text())
        assert (settings["num_beams"], settings["length_penalty"]) == expected


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.model.get("languages")])
def test_languages_have_the_numbers_that_they_were_trained_with(name, theirs):
    assert theirs[name]["languages"] == [0, 1, 2, 1]  # one that nobody knows passes for English
    assert theirs[name]["english"]


@pytest.mark.parametrize("name", IN_BF16)
def test_the_weights_can_be_read_as_bf16(name, theirs):
    found, whole = theirs[f"{name}, bf16"], theirs[name]
    assert "error" not in found, found["error"]
    assert found["dtype"] == "torch.bfloat16"
    off = (found["logits"].float() - whole["logits"]).square().mean().sqrt() / whole["logits"].std()
    assert 0 < off < 0.05


@pytest.mark.parametrize("name", CASES)
def test_the_tokenizer_gives_our_ids(name, theirs, tokenizer):
    found = theirs[name]
    assert found["alone"]["input_ids"] == sentence_rows(tokenizer, TEXTS, 40)
    firsts, seconds = zip(*PAIRS, strict=True)
    assert found["pairs"]["input_ids"] == pair_rows(tokenizer, firsts, seconds, 40)
    assert found["mask"] == tokenizer.mask and found["longest"] == 38
    assert found["decoded"] == TEXTS


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.model.get("token_types")])
def test_the_tokenizer_tells_the_sides_that_our_encoder_sees(name, theirs, tokenizer):
    sides = inputs_of(CASES[name], tokenizer)["token_type_ids"][len(TEXTS) :]
    found = theirs[name]["pairs"]["token_type_ids"]
    assert any(map(any, found))
    assert found == [own[: len(other)] for own, other in zip(sides, found, strict=True)]


@pytest.mark.parametrize("kind", ["classification", "tagging"])
def test_labels_go_with_their_classes(kind, theirs):
    for before in ("xlm-r", "two sides", "all at once"):
        assert theirs[f"{before}, {kind}"]["id2label"] == dict(enumerate(LABELS))


def test_the_same_model_gives_the_same_bytes(exported, vocabulary, tmp_path):
    for name in ("xlm-r", "all at once, classification", "translation, 1 of 3"):
        before = exported[name][1]
        more = ["--recipe", before.parents[1] / "recipe.yaml"] if CASES[name].decoder else []
        again = export(tmp_path / name, before.parent / "model.safetensors", vocabulary, *more)
        names = sorted(path.name for path in before.iterdir())
        assert names == sorted(path.name for path in again.iterdir())
        assert all((before / own).read_bytes() == (again / own).read_bytes() for own in names)


# ---------------------------------------------------------------------------------------------------------------------
# Every run of config/runs


def configuration(repository: Path) -> Config:
    return load_config(repository, {"scale": "smoke"})


SMOKE = configuration(SCRIPTS.parents[1])
RUNS = sorted(name for name in SMOKE.pretrained if name not in getattr(SMOKE, "not_here", ()))
TRANSLATED = ["veco-large", "deep-transformer", "mbart", "xlm-r-large", "random-init"]


def resolved(name: str) -> RunConfig:
    """A run at scale smoke, or `run@task` one of its translation models, with sources as the plan would have them."""
    run, _, task = name.partition("@")
    values = resolve_translator(SMOKE, run, task, FROM_WEIGHTS) if task else resolve_run(SMOKE, run)
    config = build(RunConfig, values | {"name": name}, "")
    others = sorted(data_languages(values["data"]) - {"en"})
    sources = tuple(Source("bitext", "Europarl", "-".join(sorted(("en", code))), 1.0, ()) for code in others)
    objectives = tuple(dataclasses.replace(own, sources=sources) for own in config.objectives)
    return dataclasses.replace(config, objectives=objectives)


def trained(name: str, tokenizer: Tokenizer, path: Path) -> RunConfig:
    """The weights file that pretrain.py would write of the run, with random weights."""
    run = resolved(name)
    run = dataclasses.replace(run, model=dataclasses.replace(run.model, vocabulary=tokenizer.vocabulary_size))
    model = unsettled(PretrainingModel(run))
    left_out = {part for own in run.objectives for part in OBJECTIVES[own.name].training_only}
    weights = {key: value for key, value in model.state_dict().items() if key.partition(".")[0] not in left_out}
    save_weights(path, weights, metadata_of(run.model, tokenizer.sha256) | {"run": name})
    return run


@pytest.fixture(scope="module")
def methods(tokenizer, vocabulary, tmp_path_factory) -> dict[str, tuple[RunConfig, Path, dict]]:
    """Every method, exported and read by transformers."""
    root, found, jobs = tmp_path_factory.mktemp("methods"), {}, {}
    for name in [*RUNS, *(f"{run}@wmt14-en-de" for run in TRANSLATED)]:
        run = trained(name, tokenizer, root / name / "model.safetensors")
        folder = export(root / name / "out", root / name / "model.safetensors", vocabulary)
        config = json.loads((folder / "config.json").read_text())
        decoder = config.get("decoder_layers", 0)
        auto = export_model.auto_class_of(config["architectures"][0]) if not decoder else "AutoModelForSeq2SeqLM"
        model = {"token_types": run.model.token_types, "languages": run.model.languages}
        jobs[name] = job_of(folder, Case(model, auto=auto, decoder=decoder), tokenizer) | {"texts": [], "searches": {}}
        found[name] = (run, folder, config)
    said = read_by_transformers(tmp_path_factory.mktemp("read"), jobs)
    return {name: (*own, said[name]) for name, own in found.items()}


@pytest.mark.parametrize("name", [*RUNS, *(f"{run}@wmt14-en-de" for run in TRANSLATED)])
def test_every_method_is_exported(name, methods, tokenizer):
    run, folder, config, said = methods[name]
    assert "error" not in said, said["error"]
    assert not any(said["report"][key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    beyond = run.model.relative_bias or run.model.languages or run.model.admin
    with_decoder = any(own.name in ("denoising", "spans", "translation") for own in run.objectives)
    assert config["model_type"] == ("parallax" if beyond or with_decoder else "xlm-roberta")
    assert (folder / "modeling_parallax.py").exists() == (config["model_type"] == "parallax")
    weights, _ = load_weights(folder.parent / "model.safetensors")
    if with_decoder:
        assert said["class"] == "ParallaxForTranslation"
        return
    encoder = Encoder(run.model).eval()
    encoder.load_state_dict({key[8:]: value for key, value in weights.items() if key.startswith("encoder.")})
    encoder.language_codes = LANGUAGES
    rows = rows_of(tokenizer)
    with torch.no_grad():
        states, real_BT = encode(encoder, rows, [LANGUAGES[i % 3] for i in range(len(rows))], all_layers=True)
    for own, other in zip(states, said["states"], strict=True):
        assert largest_difference(own[real_BT], other[real_BT]) <= TOLERANCE
    card = (folder / "README.md").read_text()
    assert ("cross-attention" in card) == any(key.startswith("cross_attention.") for key in weights)


def test_a_decoder_that_no_search_of_ours_knows_is_refused(tokenizer, vocabulary, tmp_path):
    for key, value in (("relative_bias", RelativeBias()), ("languages", 3)):
        config = shape(tokenizer.vocabulary_size, **{key: value})
        path = tmp_path / key / "model.safetensors"
        save_weights(path, unsettled(Seq2Seq(config, 1)), metadata_of(config, tokenizer.sha256))
        with pytest.raises(UserError, match=f"model.{key}; no decoder of ours knows .*nothing to export"):
            export(tmp_path / key / "out", path, vocabulary)


def test_the_card_knows_every_objective():
    assert set(model_card.METHODS) == set(DESCRIPTIONS)
    assert model_card.method_line("of-my-own") == "`of-my-own`", "a run of somebody's objective can be exported"


# ---------------------------------------------------------------------------------------------------------------------
# The model card


def front_matter(folder: Path) -> tuple[dict, str]:
    _, head, text = (folder / "README.md").read_text().split("---\n", 2)
    return yaml.safe_load(head), text


@pytest.fixture()
def with_run(tokenizer, vocabulary, tmp_path, repository) -> Iterator:
    """Exports a run with all that a card may say."""

    def make(name: str, scale: str, *more: object) -> tuple[dict, str]:
        (tmp_path / scale).mkdir()
        trained(name, tokenizer, tmp_path / scale / "model.safetensors")
        config = load_config(repository, {"scale": scale})
        resolved = resolve_run(config, name) | {"run_hash": "0123456789abcdef"}
        (tmp_path / scale / "run.yaml").write_text(yaml.safe_dump(resolved))
        given = ["--run-file", tmp_path / scale / "run.yaml", "--scale", repository / f"config/scales/{scale}.yaml"]
        path = tmp_path / scale / "model.safetensors"
        return front_matter(export(tmp_path / scale / "out", path, vocabulary, *given, *more))

    return make


def test_a_run_file_that_the_weights_are_not_of_is_refused(tokenizer, vocabulary, tmp_path, repository):
    """That of config/runs has the languages and corpora of the paper: a card would claim them of a toy."""
    path = tmp_path / "model.safetensors"
    trained("xlm-r", tokenizer, path)
    with pytest.raises(
        UserError, match=r"xlm-r\.yaml: is not what \S+ was trained by .* give the run\.yaml in its folder"
    ):
        export(tmp_path / "out", path, vocabulary, "--run-file", repository / "config/runs/xlm-r.yaml")


def test_the_card_names_the_licence_of_each_corpus(with_run, repository):
    head, text = with_run("xlm-e-base", "paper")
    data = resolve_run(load_config(repository, {"scale": "paper"}), "xlm-e-base")["data"]
    corpora = {"cc-100"} | {name for names in data["bitext"]["corpora"].values() for name in names}
    assert set(head["data_licences"]) == corpora
    datasets = load_config(repository).datasets
    assert head["data_licences"]["cc-100"] == datasets["cc-100/de"].licence
    assert head["data_licences"]["IITB"] == datasets["iitb/en-hi"].licence
    for corpus in corpora:
        stated = {one.licence for id_, one in datasets.items() if id_.startswith(f"opus/{corpus}/")}
        unclear = any(licence.startswith("not stated") for licence in stated)
        assert ("unclear" in head["data_licences"][corpus]) == unclear
        assert f"| {corpus} | " in text
    assert "The licence is unclear of: " in text and "MultiUN" in text.partition("The licence is unclear of: ")[2]
    assert head["language"] == sorted(data_languages(data))
    assert head["library_name"] == "transformers" and head["pipeline_tag"] == "feature-extraction"
    assert "xlm-e-base" in head["tags"] and head["license"] == "other"


def test_the_card_says_what_the_scale_is_worth(with_run):
    assert "the numbers of this model mean nothing" in with_run("xlm-r", "smoke")[1]
    _, mini = with_run("xlm-r", "mini")
    assert "knows no real language" in mini and "mean nothing**" not in mini
    _, paper = with_run("xlm-r", "paper")
    assert "knows no real language" not in paper


def test_the_card_says_where_the_model_comes_from(with_run, tmp_path, tokenizer):
    cost = {"run": "xlm", "tokens": 1234567.0, "flops": 5.0e15, "flops_by_the_papers_counting": 6.0e15}
    cost |= {"parameters": {"encoder": 4321}, "world_size": 8, "device": "H200", "torch": "2.13"}
    (tmp_path / "cost.json").write_text(json.dumps(cost))
    score = {"run": "xlm", "task": "xnli", "setting": "zero-shot", "scale": "paper", "task_version": 1}
    score |= {"run_hash": "0123456789abcdef", "selection": None}
    files = []
    for seed, value in ((1, 70.0), (2, 80.0)):
        values = {"de": value, "en": value + 1}
        own = [{"language": code, "metric": "accuracy", "value": one, "n": 9} for code, one in values.items()]
        files.append(tmp_path / f"scores/xlm/xnli/zero-shot/seed-{seed}.json")
        files[-1].parent.mkdir(parents=True, exist_ok=True)
        files[-1].write_text(json.dumps(score | {"seed": seed, "scores": own}))
    older = tmp_path / "scores/xlm/xnli/older/seed-1.json"
    older.parent.mkdir()
    older.write_text(json.dumps(score | {"setting": "older", "seed": 1, "run_hash": "f" * 16, "scores": own}))
    head, text = with_run("xlm", "paper", "--cost", tmp_path / "cost.json", "--scores", *files, older)
    for value in ("0123456789abcdef", "c" * 40, tokenizer.sha256, "1234567", "5e+15", "6e+15", "4321", "| seed | 1 |"):
        assert value in text
    assert "| xnli | zero-shot | accuracy | 75.5 ± 7.1 | de, en | 1, 2 |" in text
    assert "| older |" not in text  # the score of other weights
    (result,) = model_index_to_eval_results(head["model-index"])[1]  # the hub's own reading
    assert (result.task_type, result.dataset_type, result.dataset_name) == ("text-classification", "xnli", "xnli")
    assert (result.metric_type, result.metric_value, result.metric_args["std"]) == ("accuracy", 75.5, 7.1)
    for words in (model_card.XLM, model_card.XLM_R, "bfloat16", "AutoModelForMaskedLM.from_pretrained"):
        assert words in text


def test_no_score_of_made_up_text_is_called_one_of_the_real_data(with_run, tmp_path):
    score = {"run": "xlm-r", "task": "xnli", "setting": "zero-shot", "scale": "mini", "task_version": 1, "seed": 1}
    own = [{"language": code, "metric": "accuracy", "value": 70.0, "n": 9} for code in ("de", "en")]
    path = tmp_path / "scores/xlm-r/xnli/zero-shot/seed-1.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(score | {"run_hash": "0123456789abcdef", "selection": None, "scores": own}))
    head, text = with_run("xlm-r", "mini", "--scores", path)
    card = ModelCard(f"---\n{yaml.safe_dump(head)}---\n{text}")
    (result,) = card.data.eval_results
    assert (result.dataset_type, result.metric_value) == ("generated-mini-world", 70.0)
    assert result.dataset_name == "generated mini world, in the form of xnli" and "| xnli | zero-shot | " in text
    unknown = model_card.model_index("xlm-r", [shown_score()], None)
    assert unknown[0]["results"][0]["dataset"]["type"] == "data-of-unknown-scale"
    assert model_card.model_index("xlm-r", [], None) is None


def shown_score() -> model_card.ShownScore:
    return model_card.ShownScore("xnli", "zero-shot", "accuracy", model_card.Summary(70.0, None, 1), ("de",), (1,))


def test_the_hub_has_a_kind_for_each_task():
    assert set(TASK_MODULES) - set(model_card.TASK_TYPES) == {"word-alignment"}
    assert set(model_card.TASK_TYPES) <= set(TASK_MODULES)


def test_a_published_checkpoint_has_a_licence_too(with_run, tmp_path, repository):
    config = load_config(repository, {"scale": "paper"})
    hub, local = resolve_run(config, "hub-mbert"), tmp_path / "local.yaml"
    before = tmp_path / "before.yaml"
    before.write_text(yaml.safe_dump(hub))
    local.write_text(yaml.safe_dump(hub | {"name": "mine", "source": {"folder": "somewhere"}}))
    head, _ = with_run("ppa-250k", "smoke", "--before", before, local)
    name = hub["source"]["hub"]
    stated = {one.licence for id_, one in config.datasets.items() if id_.startswith(f"hub/{name}/")}
    assert stated and set(head["data_licences"][name].split("; ")) == stated
    assert head["data_licences"]["checkpoint of mine"].startswith("unclear")


def test_a_run_answers_for_the_data_of_those_before_it(with_run, tmp_path):
    before = tmp_path / "before.yaml"
    before.write_text(yaml.safe_dump(resolve_run(SMOKE, "mbert")))
    head, text = with_run("ppa-250k", "smoke", "--before", before)
    assert "cc-100" in head["data_licences"] and "`mbert`" in text


# ---------------------------------------------------------------------------------------------------------------------
# Published checkpoints


def import_(folder: Path, out: Path) -> tuple[Path, Path]:
    with pytest.MonkeyPatch.context() as patch:
        arguments = [
            "--checkpoint",
            folder,
            "--run",
            "theirs",
            "--out",
            out / "m.safetensors",
            "--tokenizer",
            out / "t",
        ]
        patch.setattr(sys, "argv", ["import_checkpoint.py", *map(str, arguments)])
        import_checkpoint.main()
    return out / "m.safetensors", out / "t"


WORDS = ["[PAD]", "ka", "[UNK]", "lo", "[CLS]", "[SEP]", "[MASK]", "mi", "ru", "te", "sa", "no", "vi", "##ka", "##lo"]


def published(family: str, folder: Path, spm: bytes, rows: int) -> Path:
    """A checkpoint that transformers writes, with the files of its tokenizer."""
    import transformers

    small = {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 48}
    if family == "XLMRoberta":
        config = transformers.XLMRobertaConfig(**small, vocab_size=rows, max_position_embeddings=40, type_vocab_size=1)
    elif family in ("Bert", "Electra"):
        config = getattr(transformers, f"{family}Config")(
            **small, vocab_size=len(WORDS), max_position_embeddings=38, pad_token_id=0
        )
        config.embedding_size = 32
    elif family == "MBart":
        both = {f"{side}_{key}": value for side in ("encoder", "decoder") for key, value in MBART.items()}
        config = transformers.MBartConfig(vocab_size=rows, d_model=32, max_position_embeddings=38, **both)
    elif family == "MT5":
        config = transformers.MT5Config(vocab_size=rows + 9, d_model=32, d_kv=10, d_ff=48, num_layers=3, num_heads=4)
    else:
        return published_ernie_m(folder, spm, small)
    end = "ForConditionalGeneration" if config.is_encoder_decoder else "ForMaskedLM"
    unsettled(getattr(transformers, f"{family}{end}")(config)).save_pretrained(folder)
    write_vocabulary(family, folder, spm)
    return folder


MBART = {"layers": 3, "attention_heads": 4, "ffn_dim": 48}


def published_ernie_m(folder: Path, spm: bytes, small: dict) -> Path:
    """transformers 5 has no such model; the names of its tensors are tested in test_import.py."""
    config = {"model_type": "ernie_m", "architectures": ["ErnieMModel"], "hidden_act": "gelu", "dtype": "float32"}
    config |= {**small, "vocab_size": len(WORDS), "max_position_embeddings": 38, "layer_norm_eps": 1e-5}
    model = foreign_config.model_of(config, str(folder / "model.safetensors"))
    slots = [*formats.encoder_slots(formats.ERNIE_M, model), *formats.group_slots(formats.ERNIE_M, "pooler", model)]
    folder.mkdir(parents=True)
    generator = torch.Generator().manual_seed(1)
    tensors = {slot.theirs: torch.randn(slot.shape, generator=generator) for slot in slots}
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    (folder / "config.json").write_text(json.dumps(config))
    write_vocabulary("ErnieM", folder, spm)
    return folder


def write_vocabulary(family: str, folder: Path, spm: bytes) -> None:
    if family in ("XLMRoberta", "MBart", "ErnieM"):
        (folder / "sentencepiece.bpe.model").write_bytes(spm)
    if family in ("Bert", "Electra", "ErnieM"):
        (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n")
        (folder / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": False}))
    if family == "MT5":
        words, model = [" ".join(WORDS[number:]) for number in range(len(WORDS))], io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(words),
            model_writer=model,
            vocab_size=40,
            minloglevel=2,
            hard_vocab_limit=False,
            **{"pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1},
        )
        (folder / "spiece.model").write_bytes(model.getvalue())


FAMILIES = {
    "XLMRoberta": "AutoModelForMaskedLM",
    "Bert": "AutoModelForMaskedLM",
    "Electra": "AutoModelForMaskedLM",
    "ErnieM": "AutoModel",
    "MBart": "MBartEncoder",
    "MT5": "MT5EncoderModel",
}


@pytest.fixture(scope="module")
def checkpoints(spm, tokenizer, tmp_path_factory) -> dict[str, tuple[Path, Path, Path]]:
    """Of each family the checkpoint, our weights file, and the export."""
    root, found = tmp_path_factory.mktemp("checkpoints"), {}
    for family in FAMILIES:
        folder = published(family, root / family / "published", spm, tokenizer.vocabulary_size)
        path, own_tokenizer = import_(folder, root / family)
        found[family] = folder, path, export(root / family / "out", path, own_tokenizer)
    return found


def test_every_format_is_exported_here():
    import transformers

    config_of = {"ErnieM": "ernie_m"}
    found = {
        config_of.get(family) or getattr(transformers, f"{family}Config").model_type
        for family in FAMILIES  # a format that is added to FORMATS belongs here too
    }
    assert found == set(formats.FORMATS)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_checkpoint_goes_back_as_it_came(family, checkpoints):
    folder, _, out = checkpoints[family]
    before, after = (json.loads((own / "config.json").read_text()) for own in (folder, out))
    without_decoder = FAMILIES[family] if family in ("MBart", "MT5") else None
    assert after == (before | {"architectures": [without_decoder]} if without_decoder else before)
    before, after = load_file(folder / "model.safetensors"), load_file(out / "model.safetensors")
    if without_decoder:
        before = {name: tensor for name, tensor in before.items() if "decoder." not in name}
        before = {name: before[name] for name in before if name not in ("lm_head.weight", "final_logits_bias")}
    if family == "MBart":
        before = {name.removeprefix("model.").removeprefix("encoder."): tensor for name, tensor in before.items()}
        before["embed_tokens.weight"] = before.pop("shared.weight")
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) and before[name].dtype == after[name].dtype for name in before)
    card = (out / "README.md").read_text()
    assert "published checkpoint" in card and "with encoder and decoder" not in card
    assert FAMILIES[family] in card and "text2text" not in card and "pipeline_tag: translation" not in card


def code_of(card: str) -> str:
    """With texts that a small vocabulary does not cut into more pieces than a small model reads."""
    code = card.partition("```python\n")[2].partition("```")[0]
    return code.replace("A question or premise.", "ka").replace("A context or hypothesis.", "lo")


@pytest.mark.parametrize("name", [name for name in CASES if "all at once" not in name or name == "all at once"])
def test_the_code_of_the_card_runs(name, exported, monkeypatch):
    folder = exported[name][1]
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    exec(code_of((folder / "README.md").read_text()).replace('"this-folder"', repr(str(folder))), {})


@pytest.mark.parametrize("end", ["ForPreTraining", "ForNextSentencePrediction"])
def test_the_code_of_the_card_runs_for_each_class_of_bert(end, spm, tmp_path):
    import transformers

    folder = published("Bert", tmp_path / "published", spm, 0)
    config = transformers.BertConfig.from_pretrained(folder)
    unsettled(getattr(transformers, f"Bert{end}")(config)).half().save_pretrained(folder)
    out = export(tmp_path / "out", *import_(folder, tmp_path))
    card = (out / "README.md").read_text()
    exec(code_of(card).replace('"this-folder"', repr(str(out))), {})
    assert f"AutoModel{end}.from_pretrained" in card
    assert "The weights are float16." in card and "bf16" not in card


def test_the_card_of_a_checkpoint_calls_no_text_of_it_made_up(spm, tmp_path, repository):
    scale = ["--scale", repository / "config/scales/mini.yaml"]
    path, own_tokenizer = import_(published("Bert", tmp_path / "published", spm, 0), tmp_path)
    card = (export(tmp_path / "out", path, own_tokenizer, *scale) / "README.md").read_text()
    assert "mini-world" not in card and "no real language" not in card


def test_transformers_reads_each_checkpoint_whole(checkpoints, tmp_path):
    """Nothing of what it reads is random, and the states are those of our encoder."""
    rows_BT = torch.tensor([[0, 4, 5, 6, 7, 2], [0, 8, 9, 10, 2, 1]])
    jobs, expected = {}, {}
    for family, auto in FAMILIES.items():
        if family == "ErnieM":  # which transformers 5 does not read
            continue
        _, path, out = checkpoints[family]
        encoder, order = load_encoder(path)[0].eval(), torch.tensor(load_tokenizer(path.with_name("t")).order)
        with torch.no_grad():
            expected[family] = encoder(rows_BT, mask=rows_BT != PAD)
        inputs = {"input_ids": order[rows_BT].tolist(), "attention_mask": (rows_BT != PAD).long().tolist()}
        jobs[family] = {"folder": str(out), "auto": auto, "trust": False, "more": {}, "inputs": inputs}
        jobs[family] |= {"searches": {}, "texts": []}
    for family, said in read_by_transformers(tmp_path, jobs).items():
        assert "error" not in said, said["error"]
        assert not any(said["report"][key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys")), family
        last = said["last_hidden_state"] if said["last_hidden_state"] is not None else said["states"][-1]
        real_BT = rows_BT != PAD
        assert largest_difference(expected[family][real_BT], last[real_BT]) <= TOLERANCE


def test_what_was_made_of_a_checkpoint_keeps_its_tokenizer(spm, tmp_path):
    """mBERT's vocabulary numbers its padding 0: a run that goes on from it, and models that are fine-tuned from it, are
    written in BERT's layout, whose positions do not hang on that number; ours with its ids."""
    folder = published("Bert", tmp_path / "published", spm, 0)
    path, own_tokenizer = import_(folder, tmp_path)
    own = load_tokenizer(own_tokenizer)
    assert own.order != sorted(own.order)
    _, metadata = load_weights(path)
    made = metadata_of(shape(len(WORDS), token_types=2), own.sha256, "classification")
    cases = {
        "goes on": (Case({"token_types": 2}, **MMLM), False),
        "fine-tuned": (
            Case({"token_types": 2, "layer_norm_eps": 1e-12}, "classification", TASKS["classification"]),
            True,
        ),
        "gated": (Case({"token_types": 2, **GATED}, **MMLM), False),
        "translates": (Case(auto="AutoModelForSeq2SeqLM", decoder=2), False),
    }
    jobs, models = {}, {}
    for name, (case, kept) in cases.items():
        config = shape(len(WORDS), **case.model)
        models[name] = network(case, config)
        more = {"checkpoint": metadata["checkpoint"]} if kept else {}
        own_metadata = (made if case.head == "classification" else metadata_of(config, own.sha256)) | more
        save_weights(tmp_path / name / "m.safetensors", models[name], own_metadata)
        folder = export(tmp_path / name / "out", tmp_path / name / "m.safetensors", own_tokenizer)
        jobs[name] = job_of(folder, case, own)
    found = read_by_transformers(tmp_path / "theirs", jobs)
    for name, (case, _) in cases.items():
        assert "error" not in found[name], found[name]["error"]
        expected = ours(models[name], case, own)
        real_BT = expected["real"]
        whole = case.head == "classification"
        own_logits, other = (one["logits"] if whole else one["logits"][real_BT] for one in (expected, found[name]))
        other = other if whole else other[:, own.order]
        assert largest_difference(own_logits, other) <= TOLERANCE, name
        ids = [[own.order[i] for i in row] for row in sentence_rows(own, TEXTS, 40)]
        assert found[name]["alone"]["input_ids"] == ids
    assert [found[name]["class"] for name in ("goes on", "fine-tuned")] == [
        "BertForMaskedLM",
        "BertForSequenceClassification",
    ]
    said = [[i for i in row[1:] if i not in (own.order[EOS], own.order[PAD])] for row in found["translates"]["beams"]]
    expected = ours(models["translates"], cases["translates"][0], own)["beams"]
    assert said == [[own.order[i] for i in row] for row in expected]


@torch.no_grad()
@pytest.mark.parametrize("types", [0, 1])
def test_a_model_without_sides_takes_the_pairs_of_berts_tokenizer(types, spm, tmp_path):
    """Which gives the second text type 1, whether there is a row for it or not."""
    import transformers

    _, own_tokenizer = import_(published("Bert", tmp_path / "published", spm, 0), tmp_path)
    own, case = load_tokenizer(own_tokenizer), Case({"token_types": types}, **MMLM)
    path, model = save(tmp_path / "m.safetensors", case, own)
    folder = export(tmp_path / "out", path, own_tokenizer)
    theirs = transformers.BertForMaskedLM.from_pretrained(folder).eval()
    given = transformers.AutoTokenizer.from_pretrained(folder)("ka lo", "mi ru te", return_tensors="pt")
    assert given["token_type_ids"].any() and theirs.config.type_vocab_size == 2
    rows = pair_rows(own, ["ka lo"], ["mi ru te"], 30)
    assert given["input_ids"].tolist() == [[own.order[i] for i in row] for row in rows]
    tokens_BT, real_BT = pad(rows)
    logits = model.mlm_head(model.encoder(tokens_BT, mask=real_BT), model.encoder.tokens.weight)
    assert largest_difference(logits[0], theirs(**given).logits[0][:, own.order]) <= TOLERANCE


def test_what_goes_on_from_ernie_m_names_its_tokenizer(spm, tmp_path, repository):
    """Its files under another model_type would be read by the tokenizer of that one."""
    _, own_tokenizer = import_(published("ErnieM", tmp_path / "published", spm, 0), tmp_path)
    own = load_tokenizer(own_tokenizer)
    for name, change in (("alike", {}), ("gated", GATED)):
        path, _ = save(tmp_path / name / "m.safetensors", Case(change, **MMLM), own)
        folder = export(tmp_path / name / "out", path, own_tokenizer)
        settings = json.loads((folder / "tokenizer_config.json").read_text())
        assert settings == {"do_lower_case": False, "tokenizer_class": "ErnieMTokenizer"}
        assert json.loads((folder / "config.json").read_text())["model_type"] != "ernie_m"
        assert "tokenizer is ERNIE-M's and needs transformers 4.46" in (folder / "README.md").read_text()
    packages = repository / ".venv/ernie-m"
    if not packages.exists():
        pytest.skip("no transformers that has ErnieM: `make test` installs it")
    code = "import sys, transformers as t; f = t.AutoTokenizer.from_pretrained(sys.argv[1]); print(type(f).__name__)"
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "alike/out"],
        env=os.environ | {"PYTHONPATH": str(packages), "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.strip() == "ErnieMTokenizer", done.stderr


# ---------------------------------------------------------------------------------------------------------------------
# Errors


@pytest.fixture()
def fine_tuned(tokenizer, tmp_path) -> Path:
    return save(tmp_path / "model.safetensors", Case(head="classification"), tokenizer)[0]


def rewritten(path: Path, **metadata: str | None) -> Path:
    weights, found = load_weights(path)
    found = {key: value for key, value in (found | metadata).items() if value is not None}
    save_weights(path, weights, found)
    return path


def test_a_head_without_labels_is_refused(fine_tuned, vocabulary, tmp_path):
    for labels, words in ((None, "no `labels`"), ("null", "no labels for them"), ('["a"]', "3 classes .* 1 labels")):
        with pytest.raises(UserError, match=f"model.safetensors: .*{words}.*fine-tune it again"):
            export(tmp_path / "out", rewritten(fine_tuned, labels=labels), vocabulary)
    assert not (tmp_path / "out").exists()


def test_the_vocabulary_must_be_that_of_the_model(fine_tuned, vocabulary, tmp_path):
    with pytest.raises(UserError, match=r"missing.model: no such vocabulary"):
        export(tmp_path / "out", fine_tuned, tmp_path / "missing.model")
    with pytest.raises(UserError, match=r"spm.model: not the vocabulary that .*model.safetensors was trained with"):
        export(tmp_path / "out", rewritten(fine_tuned, vocabulary_sha256="0" * 64), vocabulary)
    _, metadata = load_weights(fine_tuned)
    model = json.dumps(json.loads(metadata["model"]) | {"vocabulary": 7})
    with pytest.raises(UserError, match=r"spm.model: has 62 ids, and .*model.safetensors 7"):
        export(tmp_path / "out", rewritten(fine_tuned, vocabulary_sha256=None, model=model), vocabulary)
    assert not (tmp_path / "out").exists()


def test_what_is_there_is_not_written_over(fine_tuned, vocabulary, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("mine")
    with pytest.raises(UserError, match="out: is there already"):
        export(tmp_path / "out", fine_tuned, vocabulary)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["mine.txt"]


def test_run_and_cost_must_be_those_of_the_model(fine_tuned, vocabulary, tmp_path):
    (tmp_path / "run.yaml").write_text("name: other\nobjectives: []\n")
    with pytest.raises(UserError, match=r"run.yaml: is run other, but .* is of run test"):
        export(tmp_path / "out", fine_tuned, vocabulary, "--run-file", tmp_path / "run.yaml")
    (tmp_path / "cost.json").write_text("{}")
    with pytest.raises(UserError, match=r"cost.json: key 'run' is missing"):
        export(tmp_path / "out", fine_tuned, vocabulary, "--cost", tmp_path / "cost.json")
    assert not (tmp_path / "out").exists()


def test_a_failed_export_leaves_nothing_behind(fine_tuned, vocabulary, tmp_path, monkeypatch):
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(export_model, "write_hugging_face_tokenizer", full)
    with pytest.raises((UserError, OSError)):
        export(tmp_path / "out", fine_tuned, vocabulary)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.safetensors"]


def test_help_says_what_it_reads(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["export_model.py", "--help"])
    with pytest.raises(SystemExit):
        export_model.main()
    said = capsys.readouterr().out
    for word in ("--model", "--vocabulary", "--run-file", "--scores", "--datasets", "trust_remote_code"):
        assert word in said


def test_special_ids_are_those_of_the_config(exported):
    for _, folder in exported.values():
        config = json.loads((folder / "config.json").read_text())
        assert [config[f"{name}_token_id"] for name in ("bos", "pad", "eos")] == [BOS, PAD, EOS]
