"""Import of published checkpoints: their forward pass is ours in fp32, and the way back gives their bits.

The checkpoints are made here, by transformers, at random; ErnieM's by an older one in .venv/ernie-m (tests/ernie_m.py).
"""

import dataclasses
import json
import os
import pickle
import random
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import sentencepiece
import torch
import torch.nn.functional as F
import yaml
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

import import_checkpoint
import ready
from common.errors import UserError
from common.identity import run_hash
from engine.checkpoint import describe_model, load_encoder, load_weights, save_weights
from engine.config import InitConfig
from engine.formats import FORMATS, HEAD_KINDS
from engine.from_foreign import from_foreign, without_token_types
from engine.heads import AnswerHead, ClassificationHead, TaggingHead, encode
from engine.model import Encoder, MaskedLanguageModelHead
from engine.objectives.rtd import DiscriminatorHead
from engine.rows import pad
from engine.shape import ModelConfig, RelativeBias
from engine.to_foreign import to_foreign
from engine.tokenizer import BOS, EOS, PAD, id_order, load_tokenizer
from import_checkpoint import find_weights, read_config, read_tensors
from their_models import POSITIONS, VOCABULARY, WIDTH, made
from training.initial import fitted, load_initial_weights

transformers = pytest.importorskip("transformers", reason="install tests/requirements.txt (make test does)")

TOLERANCE = 1e-5
XLM_R_ORDER = list(range(VOCABULARY))
BERT_ORDER = id_order(VOCABULARY, bos=11, pad=0, eos=12, unk=10, mask=13)
MT5_ORDER = id_order(VOCABULARY, bos=VOCABULARY - 1, pad=0, eos=1, unk=2, mask=VOCABULARY - 2)
ORDERS = {"xlm-roberta": XLM_R_ORDER, "ernie_m": XLM_R_ORDER, "bert": BERT_ORDER, "electra": BERT_ORDER}
ORDERS |= {"mbart": XLM_R_ORDER, "mt5": MT5_ORDER}
CLASSES = [
    *(f"XLMRoberta{end}" for end in ("Model", "ForMaskedLM", "ForSequenceClassification", "ForTokenClassification")),
    *(f"Bert{end}" for end in ("Model", "ForMaskedLM", "ForPreTraining", "ForNextSentencePrediction")),
    *(f"Bert{end}" for end in ("ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering")),
    *(f"Electra{end}" for end in ("Model", "ForMaskedLM", "ForPreTraining", "ForTokenClassification")),
    "XLMRobertaForQuestionAnswering",
    "ElectraForQuestionAnswering",
]


def old_names(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """As files of 2019 have them."""
    return {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): tensor
        for name, tensor in state.items()
    }


def written(folder: Path, model: nn.Module, how: str) -> Path:
    model.save_pretrained(folder, max_shard_size="30KB" if how == "shards" else "1GB")
    if how in ("safetensors", "shards"):
        return folder
    for file in folder.glob("model*.safetensors"):
        file.unlink()
    state = {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}
    if how == "bin of 2019":
        prefix = "" if "embeddings.word_embeddings.weight" in state else f"{model.base_model_prefix}."
        state = old_names(state) | {f"{prefix}embeddings.position_ids": torch.arange(POSITIONS)[None]}
    if how == "shards of bin":
        shard_of = {name: f"pytorch_model-0000{number % 2 + 1}-of-00002.bin" for number, name in enumerate(state)}
        for shard in set(shard_of.values()):
            torch.save({name: tensor for name, tensor in state.items() if shard_of[name] == shard}, folder / shard)
        (folder / "pytorch_model.bin.index.json").write_text(json.dumps({"metadata": {}, "weight_map": shard_of}))
    else:
        torch.save(state, folder / "pytorch_model.bin", _use_new_zipfile_serialization=how == "bin")
    return folder


class Imported:
    """A checkpoint through our own file, as import_checkpoint.py takes it."""

    def __init__(self, folder: Path, order: list[int] | None = None):
        self.theirs_config, path = read_config(folder), find_weights(folder)
        self.theirs = read_tensors(path)
        self.order = order or ORDERS.get(self.theirs_config.get("model_type"), XLM_R_ORDER)
        model, weights, kept = from_foreign(self.theirs_config, dict(self.theirs), self.order, str(path))
        out = folder / "ours.safetensors"
        save_weights(out, weights, {"model": describe_model(model), "checkpoint": json.dumps(kept)})
        self.weights, self.metadata = load_weights(out)
        self.kept = json.loads(self.metadata["checkpoint"])
        self.encoder: Encoder = load_encoder(out)[0].eval()

    def module(self, name: str, module: nn.Module) -> nn.Module:
        own = {key.removeprefix(f"{name}."): value for key, value in self.weights.items() if key.startswith(f"{name}.")}
        module.load_state_dict(own)
        return module.eval()

    def exported(self) -> tuple[dict, dict[str, Tensor]]:
        return to_foreign(self.encoder.config, self.weights, self.kept, self.order)


def batch(rows: int = 4, length: int = 17) -> tuple[Tensor, Tensor, Tensor]:
    """Our tokens, which of them are real, and the side of each."""
    generator = torch.Generator().manual_seed(7)
    tokens = torch.randint(4, VOCABULARY, (rows, length), generator=generator)
    real = torch.arange(length)[None] < torch.tensor([[length], [1], [6], [length - 1]])[:rows]
    sides = (torch.arange(length)[None] > 5).long().expand(rows, length)
    return tokens.masked_fill(~real, PAD), real, sides


def inputs_for(model: nn.Module, order: list[int]) -> dict[str, Tensor]:
    tokens, real, sides = batch()
    given = {"input_ids": torch.tensor(order)[tokens], "attention_mask": real.long()}
    return given | ({"token_type_ids": sides} if getattr(model.config, "type_vocab_size", 0) > 1 else {})


def close(ours: Tensor, theirs: Tensor) -> None:
    assert ours.shape == theirs.shape and theirs.std() > 0.01
    assert float((ours - theirs).detach().abs().max()) <= TOLERANCE


def same_bits(found: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    assert sorted(found) == sorted(expected)
    for name, tensor in expected.items():
        assert found[name].dtype == tensor.dtype and found[name].shape == tensor.shape, name
        assert torch.equal(found[name].contiguous().view(torch.uint8), tensor.contiguous().view(torch.uint8)), name


def check_states(own: Imported, hidden_states: tuple[Tensor, ...]) -> list[Tensor]:
    tokens, real, sides = batch()
    sides = sides if own.encoder.config.token_types > 1 else None
    states = own.encoder(tokens, mask=real, all_layers=True, sides_BT=sides)
    assert len(states) == len(hidden_states) == own.encoder.config.layers + 1
    for ours, theirs in zip(states, hidden_states, strict=True):
        close(ours[real], theirs[real])
    return states


@torch.no_grad()
@pytest.mark.parametrize("name", CLASSES)
def test_a_checkpoint_computes_what_transformers_computes(tmp_path, name):
    theirs = made(name, **({"num_labels": 3} if "Classification" in name else {}))
    own = Imported(written(tmp_path, theirs, "safetensors"))
    expected = theirs(**inputs_for(theirs, own.order), output_hidden_states=True)
    states = check_states(own, expected.hidden_states)
    real, config = batch()[1], own.encoder.config
    seen = {key for key in expected if key != "hidden_states"}
    if name.endswith(("ForMaskedLM", "BertForPreTraining")):
        head = own.module("mlm_head", MaskedLanguageModelHead(config))
        logits = head(states[-1][real], own.encoder.tokens.weight)
        theirs_logits = expected["prediction_logits" if "prediction_logits" in expected else "logits"]
        close(logits, theirs_logits[real][:, torch.tensor(own.order)])
        seen -= {"prediction_logits", "logits"}
    if "pooler_output" in expected:
        pooler = own.module("pooler.dense", nn.Linear(WIDTH, WIDTH))
        close(torch.tanh(pooler(states[-1][:, 0])), expected.pooler_output)
        seen -= {"pooler_output"}
    if name in ("BertForPreTraining", "BertForNextSentencePrediction"):
        head = own.module("nsp_head", ClassificationHead(WIDTH, 2, 0.0))
        close(head(states[-1]), expected["seq_relationship_logits" if "PreTraining" in name else "logits"])
        seen -= {"seq_relationship_logits", "logits"}
    if name == "ElectraForPreTraining":
        head = own.module("discriminator_head", DiscriminatorHead(config, "dense"))
        close(head(states[-1][real]), expected.logits[real])
        seen -= {"logits"}
    if name.endswith("ForSequenceClassification"):
        close(own.module("head", ClassificationHead(WIDTH, 3, 0.0))(states[-1]), expected.logits)
        seen -= {"logits"}
    if name.endswith("ForTokenClassification"):
        close(own.module("head", TaggingHead(WIDTH, 3, 0.0))(states[-1])[real], expected.logits[real])
        seen -= {"logits"}
    if name.endswith("ForQuestionAnswering"):
        both = own.module("head", AnswerHead(WIDTH, 2, 0.0))(states[-1], real)
        for ours, key in zip(both.unbind(1), ("start_logits", "end_logits"), strict=True):
            close(ours[real], expected[key][real])
        seen -= {"start_logits", "end_logits"}
    expected_rest = {"last_hidden_state"} if name.endswith("Model") else set()
    assert seen == expected_rest, "an output that nothing is compared with"


@torch.no_grad()
@pytest.mark.parametrize("how", ["shards", "bin", "bin of 2019", "shards of bin"])
@pytest.mark.parametrize("name", ["XLMRobertaForMaskedLM", "BertForPreTraining", "ElectraModel"])
def test_every_kind_of_file_is_read(tmp_path, name, how):
    theirs = made(name)
    own = Imported(written(tmp_path, theirs, how))
    assert len(list(tmp_path.glob("*-of-*"))) > 1 or not how.startswith("shards")
    check_states(own, theirs(**inputs_for(theirs, own.order), output_hidden_states=True).hidden_states)
    config, tensors = own.exported()
    assert config == own.theirs_config
    same_bits(tensors, own.theirs)
    if how == "bin of 2019":
        assert any(name.endswith("LayerNorm.gamma") for name in tensors)
        assert any(name.endswith("position_ids") for name in tensors)
    if how != "shards" and name != "ElectraModel":  # a state dict names the output matrix beside the token table
        assert any(name.endswith("decoder.weight") for name in tensors)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", CLASSES)
def test_the_way_back_gives_the_same_bits(tmp_path, name, dtype):
    folder = written(tmp_path, made(name, num_labels=2).to(dtype), "safetensors")
    own = Imported(folder)
    assert all(tensor.dtype == torch.float32 for tensor in own.weights.values())
    config, tensors = own.exported()
    same_bits(tensors, load_file(folder / "model.safetensors"))
    assert json.dumps(config, indent=2, sort_keys=True) + "\n" == (folder / "config.json").read_text()


def test_each_tensor_keeps_its_own_precision(tmp_path):
    folder = written(tmp_path, made("XLMRobertaForMaskedLM").half(), "safetensors")
    tensors = load_file(folder / "model.safetensors")
    mixed = {name: tensor.float() if "LayerNorm" in name else tensor for name, tensor in tensors.items()}
    mixed = {name: tensor * 1.0001 if tensor.dtype == torch.float32 else tensor for name, tensor in mixed.items()}
    save_file(mixed, folder / "model.safetensors")
    same_bits(Imported(folder).exported()[1], mixed)


def test_what_was_trained_further_is_not_rounded_again(tmp_path):
    own = Imported(written(tmp_path, made("XLMRobertaModel").half(), "safetensors"))
    own.weights["encoder.blocks.1.up.weight"] *= 1.0001
    config, tensors = own.exported()
    assert {tensor.dtype for tensor in tensors.values()} == {torch.float32}
    assert torch.equal(tensors["encoder.layer.1.intermediate.dense.weight"], own.weights["encoder.blocks.1.up.weight"])
    assert (own.theirs_config["dtype"], config["dtype"]) == ("float16", "float32")


def test_ids_are_permuted_with_their_rows(tmp_path):
    theirs = made("BertForMaskedLM")
    own = Imported(written(tmp_path, theirs, "safetensors"))
    table = theirs.bert.embeddings.word_embeddings.weight
    assert torch.equal(own.encoder.tokens.weight[PAD], table[0])
    assert torch.equal(own.encoder.tokens.weight[VOCABULARY - 1], table[13])
    assert torch.equal(own.weights["mlm_head.bias"][0], theirs.cls.predictions.bias[11])
    assert own.encoder.config.positions == POSITIONS + 2
    assert not own.encoder.positions.weight[:2].any()


@torch.no_grad()
@pytest.mark.parametrize("how", ["safetensors", "bin of 2019"])
@pytest.mark.parametrize("name", ["BertForMaskedLM", "BertModel", "XLMRobertaModel"])
def test_a_fine_tuned_head_goes_back_in_the_layout_of_its_encoder(tmp_path, name, how):
    """As finetune.py leaves it: the encoder of a checkpoint, a head of ours, and nothing else."""
    own = Imported(written(tmp_path / "theirs", made(name), how))
    head = ClassificationHead(WIDTH, 2, 0.0, init_std=0.3).eval()
    weights = {name: tensor for name, tensor in own.weights.items() if name.startswith("encoder.")}
    weights |= {f"head.{name}": tensor for name, tensor in head.state_dict().items()}
    family = "Bert" if name.startswith("Bert") else "XLMRoberta"
    for kind, end in HEAD_KINDS.items():
        if kind != "classification":
            weights = {name: tensor for name, tensor in weights.items() if not name.startswith("head.dense")}
        config, tensors = to_foreign(own.encoder.config, weights, own.kept, own.order, kind)
        assert config["architectures"] == [family + end]
        back = tmp_path / kind
        back.mkdir()
        (back / "config.json").write_text(json.dumps(config))
        save_file(tensors, back / "model.safetensors", {"format": "pt"})
        theirs, loading = getattr(transformers, family + end).from_pretrained(back, output_loading_info=True)
        assert not loading["missing_keys"] and not loading["unexpected_keys"]
        expected = theirs.eval()(**inputs_for(theirs, own.order), output_hidden_states=True)
        states, real = check_states(own, expected.hidden_states)[-1], batch()[1]
        if kind == "classification":
            close(head(states), expected.logits)
        else:
            theirs_logits = expected.get("logits", None)
            starts_and_ends = [expected[key] for key in ("start_logits", "end_logits") if key in expected]
            logits = torch.stack(starts_and_ends, -1) if theirs_logits is None else theirs_logits
            close(head.output(states)[real], logits[real])


@torch.no_grad()
def test_the_one_token_type_can_go_into_the_positions(tmp_path):
    own = Imported(written(tmp_path, made("XLMRobertaModel"), "safetensors"))
    folded = without_token_types(own.weights)
    encoder = Encoder(dataclasses.replace(own.encoder.config, token_types=0)).eval()
    encoder.load_state_dict({k.removeprefix("encoder."): v for k, v in folded.items() if k.startswith("encoder.")})
    tokens, real, _ = batch()
    for ours, theirs in zip(
        encoder(tokens, mask=real, all_layers=True), own.encoder(tokens, mask=real, all_layers=True), strict=True
    ):
        close(ours[real], theirs[real])
    assert torch.equal(folded["encoder.positions.weight"][:2], own.weights["encoder.positions.weight"][:2])


def test_weights_of_ours_become_xlm_rs(tmp_path):
    """Without anything kept: a model of this project, which has no token types."""
    own = Imported(written(tmp_path, made("XLMRobertaForMaskedLM"), "safetensors"))
    model = json.loads(own.metadata["model"]) | {"token_types": 0}
    ours = type(own.encoder.config)(**model)
    weights = {name: tensor for name, tensor in own.weights.items() if "token_types" not in name}
    config, tensors = to_foreign(ours, weights, None, XLM_R_ORDER)
    assert config["architectures"] == ["XLMRobertaForMaskedLM"]
    theirs = transformers.XLMRobertaForMaskedLM(transformers.XLMRobertaConfig.from_dict(config)).eval()
    missing, unexpected = theirs.load_state_dict(tensors, strict=False)
    assert (sorted(missing), unexpected) == (["lm_head.decoder.bias", "lm_head.decoder.weight"], [])
    theirs.tie_weights()
    encoder = Encoder(ours).eval()
    encoder.load_state_dict({k.removeprefix("encoder."): v for k, v in weights.items() if k.startswith("encoder.")})
    tokens, real, _ = batch()
    with torch.no_grad():
        close(encoder(tokens, mask=real)[real], theirs.roberta(tokens, attention_mask=real.long())[0][real])
    for change in ({"languages": 3}, {"absolute_positions": False}, {"admin": True}):
        with pytest.raises(UserError, match=f"no place for model.{next(iter(change))}"):
            to_foreign(type(ours)(**model | change), weights, None, XLM_R_ORDER)


@torch.no_grad()
def test_xlm_r_base_at_its_full_size(tmp_path):
    torch.manual_seed(0)
    config = transformers.XLMRobertaConfig(
        vocab_size=250002, max_position_embeddings=514, type_vocab_size=1, layer_norm_eps=1e-5
    )
    theirs = transformers.XLMRobertaForMaskedLM(config).eval()
    for weight in theirs.parameters():
        if weight.dim() == 1:
            weight.add_(0.1 * torch.randn_like(weight))
    theirs.save_pretrained(tmp_path)
    order = list(range(250002))
    own = Imported(tmp_path, order)
    tokens, real, _ = batch()
    expected = theirs(tokens, attention_mask=real.long(), output_hidden_states=True)
    states = check_states(own, expected.hidden_states)
    head = own.module("mlm_head", MaskedLanguageModelHead(own.encoder.config))
    close(head(states[-1][real], own.encoder.tokens.weight), expected.logits[real])
    same_bits(own.exported()[1], load_file(tmp_path / "model.safetensors"))


# ---------------------------------------------------------------------------------------------------------------------
# ERNIE-M

ERNIE_M = [f"ErnieM{end}" for end in ("Model", "ForSequenceClassification", "ForTokenClassification")]
ERNIE_M.append("ErnieMForQuestionAnswering")


@pytest.fixture(scope="module")
def ernie_m(tmp_path_factory, repository) -> Path:
    packages = repository / ".venv/ernie-m"
    if not packages.exists():
        pytest.skip(
            "no transformers that has ErnieM: `make test` installs it (python -m pip install --no-deps --target "
            ".venv/ernie-m --requirement tests/requirements-ernie-m.txt)"
        )
    folder = tmp_path_factory.mktemp("ernie-m")
    tokens, real, _ = batch()
    save_file({"tokens": tokens, "real": real.long()}, folder / "inputs.safetensors")
    command = [sys.executable, repository / "tests/ernie_m.py", folder / "inputs.safetensors", folder, *ERNIE_M]
    subprocess.run(command, check=True, cwd=folder, env=os.environ | {"PYTHONPATH": str(packages)})
    return folder


@torch.no_grad()
@pytest.mark.parametrize("name", ERNIE_M)
def test_ernie_m_computes_what_transformers_computed(ernie_m, name):
    expected, own = load_file(ernie_m / f"{name}.safetensors"), Imported(ernie_m / name)
    real = batch()[1]
    states = check_states(own, tuple(expected[f"states.{layer}"] for layer in range(4)))
    seen = {key for key in expected if not key.startswith("states.")}
    if name == "ErnieMModel":
        pooler = own.module("pooler.dense", nn.Linear(WIDTH, WIDTH))
        close(torch.tanh(pooler(states[-1][:, 0])), expected["pooler_output"])
        seen -= {"pooler_output", "last_hidden_state"}
    elif name == "ErnieMForQuestionAnswering":
        both = own.module("head", AnswerHead(WIDTH, 2, 0.0))(states[-1], real)
        for ours, key in zip(both.unbind(1), ("start_logits", "end_logits"), strict=True):
            close(ours[real], expected[key][real])
        seen -= {"start_logits", "end_logits"}
    else:
        of_sequences = name.endswith("ForSequenceClassification")
        head = own.module("head", (ClassificationHead if of_sequences else TaggingHead)(WIDTH, 3, 0.0))
        places = slice(None) if of_sequences else real
        close(head(states[-1])[places], expected["logits"][places])
        seen -= {"logits"}
    assert not seen, "an output that nothing is compared with"


@pytest.mark.parametrize("name", ERNIE_M)
def test_ernie_m_goes_back_to_the_same_bits(ernie_m, name):
    own = Imported(ernie_m / name)
    config, tensors = own.exported()
    assert config == json.loads((ernie_m / name / "config.json").read_text())
    same_bits(tensors, own.theirs)


# ---------------------------------------------------------------------------------------------------------------------
# mBART and mT5

PRE_NORM = [
    *(f"MBart{end}" for end in ("Model", "ForConditionalGeneration")),
    *(f"MT5{end}" for end in ("EncoderModel", "Model", "ForConditionalGeneration")),
]


def of_the_encoder(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {
        name: tensor
        for name, tensor in tensors.items()
        if not name.startswith(("decoder.", "model.decoder.", "lm_head.", "final_logits_bias"))
    }


@torch.no_grad()
@pytest.mark.parametrize("how", ["safetensors", "bin"])
@pytest.mark.parametrize("name", PRE_NORM)
def test_the_encoders_of_mbart_and_mt5(tmp_path, name, how):
    theirs = made(name)
    own = Imported(written(tmp_path, theirs, how))
    expected = theirs.get_encoder()(**inputs_for(theirs, own.order), output_hidden_states=True)
    states = check_states(own, expected.hidden_states)
    tokens, real, _ = batch()
    close(states[-1][real], expected.last_hidden_state[real])
    for layers, state in enumerate(states):
        assert torch.equal(own.encoder(tokens, mask=real, layers=layers), state)
    config, tensors = own.exported()
    same_bits(tensors, of_the_encoder(own.theirs))
    whole = len(tensors) == len(own.theirs)
    assert config["architectures"] == ([name] if whole else ["MBartEncoder" if "MBart" in name else "MT5EncoderModel"])
    assert config == own.theirs_config | {"architectures": config["architectures"]}


@pytest.mark.parametrize("name", ["MBartModel", "MT5EncoderModel"])
def test_heads_read_and_train_them_like_any_encoder(tmp_path, name):
    encoder = Imported(written(tmp_path, made(name), "safetensors")).encoder
    tokens, real, _ = batch()
    rows = [row[own].tolist() for row, own in zip(tokens, real, strict=True)]
    states, found = encode(encoder, rows, ["en"] * len(rows))
    assert torch.equal(found, real)
    close(states[real], encoder(tokens, mask=real)[real])
    head = ClassificationHead(WIDTH, 2, 0.0)
    F.cross_entropy(head(states, found), torch.tensor([0, 1, 1, 0])).backward()
    silent = [name for name, weight in encoder.named_parameters() if not weight.grad.any()]
    assert silent == [], "a weight that nothing reads"


def test_mt5_goes_back_as_its_encoder(tmp_path):
    theirs = made("MT5ForConditionalGeneration")
    own = Imported(written(tmp_path / "theirs", theirs, "safetensors"))
    config, tensors = own.exported()
    back = tmp_path / "back"
    back.mkdir()
    (back / "config.json").write_text(json.dumps(config))
    save_file(tensors, back / "model.safetensors", {"format": "pt"})
    loaded = transformers.MT5EncoderModel.from_pretrained(back).eval()
    given = inputs_for(theirs, own.order)
    with torch.no_grad():
        assert torch.equal(loaded(**given)[0], theirs.get_encoder()(**given)[0])


def test_no_run_starts_where_the_same_distances_mean_something_else(tmp_path):
    """Neither shows in the shape of a tensor."""
    there = ModelConfig(3, WIDTH, 4, 96, POSITIONS, VOCABULARY, relative_bias=RelativeBias(8, 20))
    for key, value in (("max_distance", 40), ("gate_input", "hidden")):
        here = dataclasses.replace(there, relative_bias=dataclasses.replace(there.relative_bias, **{key: value}))
        expected = re.escape(f"model.relative_bias.{key} is {getattr(there.relative_bias, key)} there and {value} in")
        with pytest.raises(UserError, match=f"{expected} the run; set it to"):
            fitted({}, {"model": describe_model(there)}, here, tmp_path)
    assert fitted({}, {"model": describe_model(there)}, there, tmp_path) == {}


@pytest.mark.parametrize("imported", [True, False])
def test_the_mend_for_another_vocabulary_is_one_that_helps(tmp_path, imported):
    path = tmp_path / "model.safetensors"
    more = {"checkpoint": "{}"} if imported else {}
    save_weights(path, {"a": torch.zeros(1)}, {"vocabulary_sha256": "a" * 64} | more)
    mend = "in the scale write vocabulary: {of: xlm-r}" if imported else "train xlm-r again at this scale"
    with pytest.raises(UserError, match=f"of another vocabulary .*; {re.escape(mend)}"):
        load_initial_weights(nn.Module(), InitConfig("xlm-r"), path, "b" * 64)


# ---------------------------------------------------------------------------------------------------------------------
# What is refused


def told(folder: Path) -> str:
    with pytest.raises(UserError) as raised:
        Imported(folder)
    return str(raised.value)


class Payload:
    def __init__(self, file: Path):
        self.file = file

    def __reduce__(self) -> tuple:
        return os.system, (f"touch {self.file}",)


@pytest.mark.parametrize("how", ["zip", "pickle of torch", "bare pickle", "in a shard"])
def test_pickled_code_is_refused_and_does_not_run(tmp_path, how):
    folder = written(tmp_path, made("XLMRobertaModel"), "shards of bin" if how == "in a shard" else "bin")
    ran = tmp_path / "ran"
    path = folder / ("pytorch_model-00002-of-00002.bin" if how == "in a shard" else "pytorch_model.bin")
    state = torch.load(path, weights_only=True) | {"code": Payload(ran)}
    if how == "bare pickle":
        path.write_bytes(pickle.dumps(state, protocol=2))
    else:
        torch.save(state, path, _use_new_zipfile_serialization=how != "pickle of torch")
    said = told(folder)
    assert said.startswith(f"{path}: refused, it holds pickled code (") and "\n" not in said
    assert not ran.exists()
    torch.load(path, weights_only=False) if how != "bare pickle" else pickle.loads(path.read_bytes())
    assert ran.exists(), "the payload is one that would have run"


@pytest.mark.parametrize("kind", ["safetensors", "bin", "bin of 2019"])
@pytest.mark.parametrize("kept", [0, 5, 0.5, -3])
def test_a_torn_file_is_refused(tmp_path, kind, kept):
    folder = written(tmp_path, made("XLMRobertaModel"), kind)
    path = find_weights(folder)
    content = path.read_bytes()
    path.write_bytes(content[: int(kept * len(content)) if isinstance(kept, float) else kept])
    said = told(folder)
    assert said.startswith(f"{path}: not a whole") and said.endswith("download it again") and "\n" not in said


@pytest.mark.parametrize("how", ["bare pickle", "bin"])
def test_no_damage_to_a_pickle_ends_in_a_traceback(tmp_path, how):
    path = tmp_path / "pytorch_model.bin"
    state = {name: tensor.detach().clone() for name, tensor in made("XLMRobertaModel").state_dict().items()}
    torch.save(state, path, _use_new_zipfile_serialization=how == "bin")
    content, rng = path.read_bytes(), random.Random(1)
    damaged = [content[:end] for end in range(0, len(content), len(content) // 60)]
    start = content.index(b"embeddings")  # of the pickle, among the bytes of the tensors
    for place in [rng.randrange(start, start + 6000) for _ in range(60)]:
        changed = bytearray(content)
        changed[place] ^= 1 << rng.randrange(8)
        damaged.append(bytes(changed))
    refused = 0
    for bytes_ in damaged:
        path.write_bytes(bytes_)
        try:
            import_checkpoint.read_file(path)  # a changed name or number may make another state
        except UserError as error:
            assert str(error).startswith(f"{path}: ") and "\n" not in str(error)
            refused += 1
    assert refused > 60


def test_what_is_no_state_of_a_model_is_refused(tmp_path):
    folder = written(tmp_path, made("XLMRobertaModel"), "bin")
    for content in ({}, [torch.zeros(2)], {"model": {"a": torch.zeros(2)}}, {"a": torch.zeros(3).to_sparse()}):
        torch.save(content, folder / "pytorch_model.bin")
        assert "pytorch_model.bin: expected the state of a model" in told(folder)
    (folder / "pytorch_model.bin").write_text("version https://git-lfs.github.com/spec/v1\n")
    assert "pytorch_model.bin: not a whole file of tensors" in told(folder)
    (folder / "pytorch_model.bin").unlink()
    assert f"{folder}: no weights; expected model.safetensors" in told(folder)


def test_an_index_is_checked(tmp_path):
    folder = written(tmp_path, made("XLMRobertaModel"), "shards")
    path = folder / "model.safetensors.index.json"
    index = json.loads(path.read_text())
    shards = sorted(set(index["weight_map"].values()))
    for change, said in (
        ({"embeddings.word_embeddings.weight": "../../etc/passwd"}, "'../../etc/passwd' is not the name of a file"),
        ({"embeddings.word_embeddings.weight": "gone.safetensors"}, "gone.safetensors: no such file"),
        ({"another": shards[0]}, f"{shards[0]}: lacks another, unlike {path.name}"),
        ({"another": ".."}, "'..' is not the name of a file"),
        ({"another": ""}, "'' is not the name of a file"),
        ({"another": 3}, "weight_map: expected the file of each tensor"),
    ):
        path.write_text(json.dumps(index | {"weight_map": index["weight_map"] | change}))
        assert said in told(folder)
    path.write_text("{")
    assert f"{path}: no JSON" in told(folder)
    path.write_text(json.dumps(index))
    save_file(load_file(folder / shards[0]) | load_file(folder / shards[1]), folder / shards[0])
    assert f"{shards[1]}: holds " in told(folder)


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("XLMRobertaModel", {"model_type": None}, "model_type: None is unknown; known: xlm-roberta, bert, electra"),
        ("XLMRobertaModel", {"model_type": "gpt2"}, "model_type: 'gpt2' is unknown; known: xlm-roberta"),
        ("XLMRobertaModel", {"hidden_act": "gelu_new"}, "hidden_act: 'gelu_new'; our encoder has no other than 'gelu'"),
        ("BertModel", {"position_embedding_type": "relative_key"}, "position_embedding_type: 'relative_key'"),
        ("BertModel", {"is_decoder": True}, "is_decoder: True"),
        ("BertModel", {"add_cross_attention": True}, "add_cross_attention: True"),
        ("BertModel", {"pruned_heads": {"1": [0]}}, "pruned_heads: "),
        ("BertModel", {"quantization_config": {"bits": 8}}, "quantization_config: "),
        ("BertModel", {"num_attention_heads": 5}, "num_attention_heads: 5 does not divide hidden_size 32"),
        ("BertModel", {"hidden_size": "32"}, "hidden_size: '32' is not a whole number"),
        ("BertModel", {"hidden_dropout_prob": "a"}, "hidden_dropout_prob: 'a' is not a number"),
        ("BertModel", {"architectures": "BertModel"}, "architectures: 'BertModel' is not a list"),
        ("BertModel", {"architectures": ["BertForMultipleChoice"]}, "BertForMultipleChoice is one score for each"),
        ("BertModel", {"architectures": ["BertLMHeadModel"]}, "BertLMHeadModel is a decoder"),
        ("ElectraModel", {"embedding_size": 16}, "embedding_size: 16 is not hidden_size 32"),
        ("ElectraModel", {"architectures": ["ElectraForSequenceClassification"]}, "GELU in the head"),
        ("XLMRobertaModel", {"pad_token_id": 0}, "pad_token_id: 0"),
        ("MBartModel", {"activation_function": "relu"}, "activation_function: 'relu'"),
        ("MBartModel", {"normalize_before": False}, "normalize_before: False"),
        ("MBartModel", {"encoder_attention_heads": 5}, "encoder_attention_heads: 5 does not divide d_model 32"),
        ("MT5Model", {"feed_forward_proj": "relu"}, "feed_forward_proj: 'relu'"),
        ("MT5Model", {"relative_attention_num_buckets": 30}, "30 is not a multiple of 4"),
    ],
)
def test_what_our_encoder_cannot_be_is_refused_by_its_key(tmp_path, name, change, said):
    folder = written(tmp_path, made(name), "safetensors")
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    found = told(folder)
    assert found.startswith(str(path)) and said in found


def test_null_is_the_default(tmp_path):
    folder = written(tmp_path, made("BertModel"), "safetensors")
    path = folder / "config.json"
    expected = Imported(folder).encoder.config
    nulls = dict.fromkeys(("position_embedding_type", "is_decoder", "pruned_heads", "id2label", "hidden_dropout_prob"))
    path.write_text(json.dumps(json.loads(path.read_text()) | nulls))
    assert Imported(folder).encoder.config == expected


def test_a_config_that_lacks_keys_or_is_none_is_refused(tmp_path):
    folder = written(tmp_path, made("BertModel"), "safetensors")
    path = folder / "config.json"
    config = json.loads(path.read_text())
    for key in ("model_type", "hidden_size", "vocab_size", "type_vocab_size", "max_position_embeddings"):
        path.write_text(json.dumps({name: value for name, value in config.items() if name != key}))
        assert f"{path}: the key {key} is missing" in told(folder)
    path.write_text("no JSON")
    assert f"{path}: no JSON" in told(folder)
    path.write_text("[1]")
    assert f"{path}: expected an object" in told(folder)
    path.unlink()
    assert f"{path}: no such file" in told(folder)


def changed(folder: Path, change: dict[str, Tensor | None]) -> None:
    tensors = load_file(folder / "model.safetensors") | change
    tensors = {name: tensor for name, tensor in tensors.items() if tensor is not None}
    save_file(tensors, folder / "model.safetensors")


def test_all_that_does_not_fit_is_said_at_once(tmp_path):
    folder = written(tmp_path, made("XLMRobertaForMaskedLM"), "safetensors")
    changed(
        folder,
        {
            "lm_head.dense.bias": None,
            "roberta.encoder.layer.2.output.dense.weight": None,
            "adapter.weight": torch.zeros(3),
            "roberta.encoder.layer.0.intermediate.dense.weight": torch.zeros(WIDTH, 3 * WIDTH),
            "roberta.encoder.layer.1.attention.self.query.bias": torch.zeros(WIDTH, dtype=torch.int64),
            "roberta.embeddings.position_ids": torch.zeros(1, POSITIONS, dtype=torch.int64),
            "lm_head.decoder.weight": torch.zeros(VOCABULARY, WIDTH),
        },
    )
    said = told(folder)
    for part in (
        f"{folder / 'model.safetensors'}: not the weights of xlm-roberta",
        "2 missing (lm_head.dense.bias, roberta.encoder.layer.2.output.dense.weight)",
        "1 unexpected (adapter.weight)",
        f"intermediate.dense.weight [{WIDTH}, {3 * WIDTH}], not [{3 * WIDTH}, {WIDTH}]",
        "query.bias (torch.int64)",
        "roberta.embeddings.position_ids",
        "repeat, as in our encoder (lm_head.decoder.weight: embeddings.word_embeddings.weight)",
    ):
        assert part in said, part


def test_hundreds_of_names_are_counted(tmp_path):
    folder = written(tmp_path, made("XLMRobertaModel"), "safetensors")
    changed(folder, {f"more.{number:03}": torch.zeros(1) for number in range(300)})
    said = told(folder)
    assert "300 unexpected (more.000, more.001," in said and "and 280 more)" in said and "more.020" not in said


def test_one_tensor_under_two_names_is_refused(tmp_path):
    folder = written(tmp_path, made("BertModel"), "safetensors")
    changed(folder, {"embeddings.LayerNorm.gamma": torch.zeros(WIDTH)})
    names = {"embeddings.LayerNorm.gamma", "embeddings.LayerNorm.weight"}
    assert set(re.search(r"1 there under two names \((.*?)\)", told(folder))[1].split(" = ")) == names


def test_a_classifier_of_no_class_is_asked_about(tmp_path):
    folder = written(tmp_path, made("BertForSequenceClassification"), "safetensors")
    path = folder / "config.json"
    path.write_text(json.dumps({k: v for k, v in json.loads(path.read_text()).items() if k != "architectures"}))
    assert "architectures: does not say whether classifier.weight is that of BertForSequence" in told(folder)


def test_without_a_class_the_tensors_say_what_there_is(tmp_path):
    folder = written(tmp_path, made("BertForPreTraining"), "safetensors")
    path = folder / "config.json"
    path.write_text(json.dumps({k: v for k, v in json.loads(path.read_text()).items() if k != "architectures"}))
    own = Imported(folder)
    assert own.kept["groups"] == ["mlm_head", "pooler", "nsp_head"]
    same_bits(own.exported()[1], own.theirs)


# ---------------------------------------------------------------------------------------------------------------------
# The script

LABELS = {0: "entailment", 1: "neutral", 2: "contradiction"}


@pytest.fixture(scope="module")
def pieces(tmp_path_factory, repository) -> Path:
    """A SentencePiece model, as XLM-R's: with fewer ids than the token table has rows."""
    folder = tmp_path_factory.mktemp("pieces")
    write_vocabulary(folder, repository, "XLMRoberta")
    return folder / "sentencepiece.bpe.model"


def run_script(folder: Path, *more: str | Path) -> subprocess.CompletedProcess:
    script = Path(import_checkpoint.__file__)
    command = [ready.python(), script, "--checkpoint", folder, "--out", folder / "out/model.safetensors"]
    command += ["--tokenizer", folder / "out/tokenizer", *more]
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)


@torch.no_grad()
def test_the_script_brings_a_model_and_its_tokenizer(tmp_path, pieces):
    theirs = made("XLMRobertaForSequenceClassification", id2label=LABELS, num_labels=3)
    written(tmp_path, theirs, "safetensors")
    shutil.copyfile(pieces, tmp_path / "sentencepiece.bpe.model")
    run_file = tmp_path / "run.yaml"
    run_file.write_text("{name: published, kind: checkpoint, model: {layers: 3, width: 32, positions: 40}}\n")
    done = run_script(tmp_path, "--run-file", run_file)
    assert done.returncode == 0, done.stderr
    model = tmp_path / "out/model.safetensors"
    first = model.read_bytes()
    encoder, metadata = load_encoder(model)
    tokenizer = load_tokenizer(tmp_path / "out/tokenizer")
    assert metadata["vocabulary_sha256"] == tokenizer.sha256
    assert (metadata["run"], metadata["run_hash"]) == ("published", run_hash(yaml.safe_load(run_file.read_text()))[:16])
    assert json.loads(metadata["labels"]) == list(LABELS.values())

    order = torch.tensor(tokenizer.order)
    assert order.tolist() != XLM_R_ORDER, "<mask> moves behind the rows that no token has"
    rows = [[BOS, *ids, EOS] for ids in tokenizer.encode(["the cat sleeps", "a green house"])]
    tokens, real = pad(rows)
    states = encoder.eval()(tokens, mask=real, all_layers=True)
    expected = theirs(order[tokens], attention_mask=real.long(), output_hidden_states=True)
    for ours, their in zip(states, expected.hidden_states, strict=True):
        close(ours[real], their[real])
    weights, _ = load_weights(model)
    config, tensors = to_foreign(encoder.config, weights, json.loads(metadata["checkpoint"]), tokenizer.order)
    assert config == json.loads((tmp_path / "config.json").read_text())
    same_bits(tensors, load_file(tmp_path / "model.safetensors"))

    assert run_script(tmp_path, "--run-file", run_file).returncode == 0
    assert model.read_bytes() == first
    run_file.write_text("{name: published, model: {layers: 12}}\n")
    done = run_script(tmp_path, "--run-file", run_file)
    assert done.returncode == 2 and f"{run_file}, model.layers: 12, but {tmp_path / 'config.json'}" in done.stderr


@torch.no_grad()
@pytest.mark.parametrize("name", ["BertForMaskedLM", "MBartModel", "MT5EncoderModel"])
def test_the_script_knows_the_tokenizers_of_all(tmp_path, repository, name):
    """The tokens of a sentence, by our ids in our model, and by theirs in theirs."""
    theirs = made(name)
    written(tmp_path, theirs, "safetensors")
    write_vocabulary(tmp_path, repository, name)
    done = run_script(tmp_path, "--run", "published")
    assert done.returncode == 0, done.stderr
    tokenizer = load_tokenizer(tmp_path / "out/tokenizer")
    encoder = load_encoder(tmp_path / "out/model.safetensors")[0].eval()
    tokens, real = pad([[BOS, *ids, EOS] for ids in tokenizer.encode(["the run of a table", "engine"])])
    given = {"input_ids": torch.tensor(tokenizer.order)[tokens], "attention_mask": real.long()}
    body = getattr(theirs, "bert", None) or theirs.get_encoder()
    close(encoder(tokens, mask=real)[real], body(**given).last_hidden_state[real])


def write_vocabulary(folder: Path, repository: Path, name: str) -> None:
    if name.startswith("Bert"):
        words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "run", "of", "table", "##s"]
        tokens = [*words, *"abcdefghijklmnopqrstuvwxyz", *(f"##{letter}" for letter in "abdeghilnt")]
        (folder / "vocab.txt").write_text("".join(f"{token}\n" for token in tokens))
        (folder / "tokenizer_config.json").write_text('{"do_lower_case": false}')
        return
    ids = {"pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1} if name.startswith("MT5") else {}
    prefix = folder / ("spiece" if ids else "sentencepiece.bpe")
    lines = re.sub("[^a-z\n]+", " ", (repository / "README.md").read_text().lower()).split("\n")
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_prefix=str(prefix), vocab_size=50, num_threads=1, minloglevel=2, **ids
    )


def test_the_script_refuses_the_vocabulary_of_another_model(tmp_path, pieces):
    written(tmp_path, made("XLMRobertaModel", vocab_size=40), "safetensors")
    shutil.copyfile(pieces, tmp_path / "sentencepiece.bpe.model")
    done = run_script(tmp_path, "--run", "published")
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert str(tmp_path / "sentencepiece.bpe.model") in done.stderr
    assert "52 tokens" in done.stderr and "40 rows" in done.stderr
    assert not list(tmp_path.glob("out/*"))


def test_the_script_leaves_out_what_it_is_told_to(tmp_path, pieces):
    folder = written(tmp_path, made("XLMRobertaModel"), "safetensors")
    shutil.copyfile(pieces, tmp_path / "sentencepiece.bpe.model")
    before = load_file(folder / "model.safetensors")
    changed(folder, {"adapter.weight": torch.zeros(3)})
    done = run_script(tmp_path, "--run", "published")
    assert done.returncode == 2 and "1 unexpected (adapter.weight)" in done.stderr
    assert not list(tmp_path.glob("out/*")), "a refused import leaves nothing behind"
    done = run_script(tmp_path, "--run", "published", "--leave-out", "nothing.")
    assert done.returncode == 2 and "--leave-out nothing.: no tensor of" in done.stderr
    assert run_script(tmp_path, "--run", "published", "--leave-out", "adapter.").returncode == 0
    weights, metadata = load_weights(tmp_path / "out/model.safetensors")
    kept, order = json.loads(metadata["checkpoint"]), load_tokenizer(tmp_path / "out/tokenizer").order
    same_bits(to_foreign(load_encoder(tmp_path / "out/model.safetensors")[0].config, weights, kept, order)[1], before)


@pytest.mark.parametrize("how", ["option", "run file"])
def test_a_head_can_be_left_out(tmp_path, pieces, how):
    folder = written(tmp_path, made("XLMRobertaForMaskedLM"), "safetensors")
    shutil.copyfile(pieces, tmp_path / "sentencepiece.bpe.model")
    before = load_file(folder / "model.safetensors")
    changed(folder, {"lm_head.dense.weight": None})
    done = run_script(tmp_path, "--run", "published")
    assert done.returncode == 2 and "leave the head out: --leave-out lm_head." in done.stderr
    (tmp_path / "run.yaml").write_text("{name: published, model: {}, source: {folder: x, leave_out: [lm_head.]}}\n")
    arguments = (
        ["--run", "published", "--leave-out", "lm_head."] if how == "option" else ["--run-file", tmp_path / "run.yaml"]
    )
    done = run_script(tmp_path, *arguments)
    assert done.returncode == 0, done.stderr
    weights, metadata = load_weights(tmp_path / "out/model.safetensors")
    kept, order = json.loads(metadata["checkpoint"]), load_tokenizer(tmp_path / "out/tokenizer").order
    assert kept["groups"] == [] and kept["config"]["architectures"] == ["XLMRobertaModel"]
    encoder = load_encoder(tmp_path / "out/model.safetensors")[0]
    config, tensors = to_foreign(encoder.config, weights, kept, order)
    same_bits(tensors, {name: tensor for name, tensor in before.items() if not name.startswith("lm_head.")})
    assert config["architectures"] == ["XLMRobertaModel"]


def test_a_head_that_is_not_ours_can_be_left_out(tmp_path):
    folder = written(tmp_path, made("ElectraForSequenceClassification", num_labels=3), "safetensors")
    config, path = read_config(folder), find_weights(folder)
    with pytest.raises(UserError, match=r"GELU in the head.*or leave the head out"):
        from_foreign(config, read_tensors(path), BERT_ORDER, str(path))
    tensors = import_checkpoint.leave_out(read_tensors(path), ("classifier.",), path)
    _, weights, kept = from_foreign(config, tensors, BERT_ORDER, str(path), ("classifier.",))
    assert all(name.startswith("encoder.") for name in weights)
    assert kept["config"]["architectures"] == ["ElectraModel"]


def test_the_page_names_every_format(repository):
    page = (repository / "docs/extending.md").read_text()
    assert [name for name in FORMATS if f"\n| `{name}` | " not in page] == []


def test_labels_are_one_for_each_class(tmp_path):
    path = tmp_path / "config.json"
    assert import_checkpoint.labels_of({}, "classification", 2, path) == ["LABEL_0", "LABEL_1"]
    assert import_checkpoint.labels_of({"id2label": {"1": "b", "0": "a"}}, "tagging", 2, path) == ["a", "b"]
    assert import_checkpoint.labels_of({"id2label": {"0": "a"}}, "question-answering", 2, path) is None
    assert import_checkpoint.labels_of({"id2label": None}, "classification", 1, path) == ["LABEL_0"]
    with pytest.raises(UserError, match="id2label: expected a name for each of the 3 classes"):
        import_checkpoint.labels_of({"id2label": {"0": "a", "1": "b"}}, "tagging", 3, path)


def test_of_two_files_of_weights_safetensors_is_read(tmp_path):
    for name in ("pytorch_model.bin", "model.safetensors", "pytorch_model.bin.index.json"):
        (tmp_path / name).touch()
    assert find_weights(tmp_path) == tmp_path / "model.safetensors"
