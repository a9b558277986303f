"""Import of published checkpoints: their forward pass is ours in fp32, and the way back gives their bits.

The checkpoints are made here, by transformers, at random; ErnieM's by an older one in .venv/ernie-m (tests/ernie_m.py).
"""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from engine.checkpoint import describe_model, load_encoder, load_weights, save_weights
from engine.formats import from_foreign, to_foreign
from engine.heads import AnswerHead, ClassificationHead, TaggingHead
from engine.model import Encoder, MaskedLanguageModelHead
from engine.objectives.rtd import DiscriminatorHead
from engine.tokenizer import PAD, id_order
from errors import UserError
from import_checkpoint import find_weights, read_config, read_tensors

transformers = pytest.importorskip("transformers", reason="install tests/requirements.txt (make test does)")

TOLERANCE = 1e-5
VOCABULARY, WIDTH, POSITIONS = 60, 32, 40
XLM_R_ORDER = list(range(VOCABULARY))
BERT_ORDER = id_order(VOCABULARY, bos=11, pad=0, eos=12, unk=10, mask=13)
ORDERS = {"xlm-roberta": XLM_R_ORDER, "ernie_m": XLM_R_ORDER, "bert": BERT_ORDER, "electra": BERT_ORDER}
SHAPE = {
    "vocab_size": VOCABULARY,
    "hidden_size": WIDTH,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 3 * WIDTH,
    "max_position_embeddings": POSITIONS,
}
CONFIGS = {
    "XLMRoberta": lambda **more: transformers.XLMRobertaConfig(**SHAPE | {"type_vocab_size": 1} | more),
    "Bert": lambda **more: transformers.BertConfig(**SHAPE | more),
    "Electra": lambda **more: transformers.ElectraConfig(**SHAPE | {"embedding_size": WIDTH} | more),
}
CLASSES = [
    *(f"XLMRoberta{end}" for end in ("Model", "ForMaskedLM", "ForSequenceClassification", "ForTokenClassification")),
    *(f"Bert{end}" for end in ("Model", "ForMaskedLM", "ForPreTraining", "ForNextSentencePrediction")),
    *(f"Bert{end}" for end in ("ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering")),
    *(f"Electra{end}" for end in ("Model", "ForMaskedLM", "ForPreTraining", "ForTokenClassification")),
    "XLMRobertaForQuestionAnswering",
    "ElectraForQuestionAnswering",
]


def made(name: str, seed: int = 1, **more: object) -> nn.Module:
    """A model of theirs in which no weight is zero, one or like another; padding rows too."""
    family = next(family for family in CONFIGS if name.startswith(family))
    torch.manual_seed(seed)
    model = getattr(transformers, name)(CONFIGS[family](**more)).eval()
    unsettle(model)
    return model


def unsettle(model: nn.Module) -> None:
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() > 1:
                weight.normal_(std=0.15)
            else:
                weight.copy_((weight == 1).float() + 0.2 * torch.randn_like(weight))


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
        self.order = order or ORDERS[self.theirs_config["model_type"]]
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
    assert float((ours - theirs).abs().max()) <= TOLERANCE


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


def test_a_fine_tuned_head_goes_back_in_the_layout_of_its_encoder(tmp_path):
    """As finetune.py leaves it: the encoder of BertForMaskedLM, a head of ours, and nothing else."""
    own = Imported(written(tmp_path, made("BertForMaskedLM"), "safetensors"))
    head = ClassificationHead(WIDTH, 3, 0.0, init_std=0.3).eval()
    weights = {name: tensor for name, tensor in own.weights.items() if name.startswith("encoder.")}
    weights |= {f"head.{name}": tensor for name, tensor in head.state_dict().items()}
    config, tensors = to_foreign(own.encoder.config, weights, own.kept, own.order)
    assert config["architectures"] == ["BertForSequenceClassification"]
    theirs = transformers.BertForSequenceClassification(transformers.BertConfig.from_dict(config | {"num_labels": 3}))
    theirs.load_state_dict(tensors)
    with torch.no_grad():
        expected = theirs.eval()(**inputs_for(theirs, own.order), output_hidden_states=True)
        close(head(check_states(own, expected.hidden_states)[-1]), expected.logits)
    for kind, end in (("tagging", "ForTokenClassification"), ("question-answering", "ForQuestionAnswering")):
        flat = {name: tensor for name, tensor in weights.items() if not name.startswith("head.dense")}
        flat |= {"head.output.weight": torch.zeros(2, WIDTH), "head.output.bias": torch.zeros(2)}
        assert to_foreign(own.encoder.config, flat, own.kept, own.order, kind)[0]["architectures"] == [f"Bert{end}"]


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
