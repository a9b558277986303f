"""Published checkpoints in Hugging Face's layouts and our weights: which tensor is which.

foreign_config.py reads their config.json, from_foreign.py and to_foreign.py are pure functions between the two.

What differs, for the encoders that ours can be:

    names      ours are those of engine/model.py; theirs differ by model_type, by age (gamma, beta) and by prefix
    q, k, v    three matrices of theirs are one of ours
    tokens     rows in the order of their ids, which `order` says: entry i is their id of our id i
    positions  our table has two unused rows before the first position, as XLM-R's and ERNIE-M's; BERT's has none
    numbers    ours are fp32; what was fp16 or bf16 goes back to the same bits

`kept` is what the way back needs and our weights do not say; it can be written as JSON.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from engine.model import FIRST_POSITION
from engine.prenorm import PreNormConfig
from engine.shape import ModelConfig

SHOWN = 20  # names in an error, of each kind
DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
PREFIXES = ("roberta.", "bert.", "electra.", "ernie_m.", "model.", "")
BODY = ("embeddings.", "encoder.", "pooler.", "shared.", "decoder.")  # what a prefix stands before
POOLER = "pooler.dense"
HEAD_KINDS = {
    "classification": "ForSequenceClassification",
    "tagging": "ForTokenClassification",
    "question-answering": "ForQuestionAnswering",
}


class Slot(NamedTuple):
    """A tensor of theirs, without prefix, and where it lies in ours."""

    theirs: str
    ours: str
    shape: tuple[int | None, ...]  # None: any number, of classes
    how: str = "whole"  # or tokens, positions, query, key, value


@dataclass(frozen=True)
class Format:
    name: str  # of their classes, before ForMaskedLM and the like
    prefix: str
    outside: dict[str, str]  # our parts of the encoder outside its blocks: theirs
    layer: str
    block: dict[str, str]  # our parts of a block: theirs
    architectures: dict[str, tuple[str, ...]]  # of their classes: the groups that each must have
    groups: dict[str, dict[str, str]] = field(default_factory=dict)  # what may be there besides: {ours: theirs}
    ties: dict[str, str] = field(default_factory=dict)  # the same tensor again
    unused_positions: int = FIRST_POSITION  # rows of their table before the first position
    layer_norm_eps: float = 1e-12  # where config.json does not say
    biases: bool = True
    pools_in_head: bool = False  # the dense layer of a classifier is the pooler
    decoder: tuple[str, ...] = ()  # what is not taken: a decoder and its head
    encoder_class: str = ""  # their class of the encoder alone


BERT_OUTSIDE = {
    "tokens": "embeddings.word_embeddings",
    "positions": "embeddings.position_embeddings",
    "token_types": "embeddings.token_type_embeddings",
    "embedding_norm": "embeddings.LayerNorm",
}
BERT_BLOCK = {
    "attention.query": "attention.self.query",
    "attention.key": "attention.self.key",
    "attention.value": "attention.self.value",
    "attention.output": "attention.output.dense",
    "attention_norm": "attention.output.LayerNorm",
    "up": "intermediate.dense",
    "down": "output.dense",
    "ffn_norm": "output.LayerNorm",
}
ERNIE_M_OUTSIDE = {
    "tokens": "embeddings.word_embeddings",
    "positions": "embeddings.position_embeddings",
    "embedding_norm": "embeddings.layer_norm",
}
ERNIE_M_BLOCK = {
    "attention.query": "self_attn.self_attn.q_proj",
    "attention.key": "self_attn.self_attn.k_proj",
    "attention.value": "self_attn.self_attn.v_proj",
    "attention.output": "self_attn.out_proj",
    "attention_norm": "norm1",
    "up": "linear1",
    "down": "linear2",
    "ffn_norm": "norm2",
}
TAGGING = {"head.output": "classifier"}
ANSWERS = {"head.output": "qa_outputs"}
ENCODER_ALONE = {"Model": ()} | {HEAD_KINDS[kind]: (kind,) for kind in ("tagging", "question-answering")}

XLM_ROBERTA = Format(
    name="XLMRoberta",
    prefix="roberta.",
    outside=BERT_OUTSIDE,
    layer="encoder.layer.{}.",
    block=BERT_BLOCK,
    groups={
        "mlm_head": {"mlm_head.dense": "lm_head.dense", "mlm_head.norm": "lm_head.layer_norm", "mlm_head": "lm_head"},
        "pooler": {POOLER: POOLER},
        "classification": {"head.dense": "classifier.dense", "head.output": "classifier.out_proj"},
        "tagging": TAGGING,
        "question-answering": ANSWERS,
    },
    architectures=ENCODER_ALONE | {"ForMaskedLM": ("mlm_head",), "ForSequenceClassification": ("classification",)},
    ties={"lm_head.decoder.weight": "embeddings.word_embeddings.weight", "lm_head.decoder.bias": "lm_head.bias"},
)
BERT = Format(
    name="Bert",
    prefix="bert.",
    outside=BERT_OUTSIDE,
    layer="encoder.layer.{}.",
    block=BERT_BLOCK,
    unused_positions=0,
    groups={
        "mlm_head": {
            "mlm_head.dense": "cls.predictions.transform.dense",
            "mlm_head.norm": "cls.predictions.transform.LayerNorm",
            "mlm_head": "cls.predictions",
        },
        "pooler": {POOLER: POOLER},
        "nsp_head": {"nsp_head.output": "cls.seq_relationship"},
        "classification": {"head.output": "classifier"},
        "tagging": TAGGING,
        "question-answering": ANSWERS,
    },
    architectures=ENCODER_ALONE
    | {
        "ForMaskedLM": ("mlm_head",),
        "ForPreTraining": ("mlm_head", "pooler", "nsp_head"),
        "ForNextSentencePrediction": ("pooler", "nsp_head"),
        "ForSequenceClassification": ("pooler", "classification"),
    },
    ties={
        "cls.predictions.decoder.weight": "embeddings.word_embeddings.weight",
        "cls.predictions.decoder.bias": "cls.predictions.bias",
    },
    pools_in_head=True,
)
ELECTRA = Format(
    name="Electra",
    prefix="electra.",
    outside=BERT_OUTSIDE,
    layer="encoder.layer.{}.",
    block=BERT_BLOCK,
    unused_positions=0,
    groups={
        "mlm_head": {
            "mlm_head.dense": "generator_predictions.dense",
            "mlm_head.norm": "generator_predictions.LayerNorm",
            "mlm_head": "generator_lm_head",
        },
        "discriminator_head": {
            "discriminator_head.dense": "discriminator_predictions.dense",
            "discriminator_head.output": "discriminator_predictions.dense_prediction",
        },
        "tagging": TAGGING,
        "question-answering": ANSWERS,
    },
    architectures=ENCODER_ALONE | {"ForMaskedLM": ("mlm_head",), "ForPreTraining": ("discriminator_head",)},
    ties={"generator_lm_head.weight": "embeddings.word_embeddings.weight"},
)
ERNIE_M = Format(
    name="ErnieM",
    prefix="ernie_m.",
    outside=ERNIE_M_OUTSIDE,
    layer="encoder.layers.{}.",
    block=ERNIE_M_BLOCK,
    layer_norm_eps=1e-5,
    groups={
        "pooler": {POOLER: POOLER},
        "classification": {"head.output": "classifier"},
        "tagging": TAGGING,
        "question-answering": ANSWERS,
    },
    architectures=ENCODER_ALONE | {"ForSequenceClassification": ("pooler", "classification")},
    pools_in_head=True,
)
MBART = Format(
    name="MBart",
    prefix="model.",
    outside={
        "tokens": "shared",
        "positions": "encoder.embed_positions",
        "embedding_norm": "encoder.layernorm_embedding",
        "final_norm": "encoder.layer_norm",
    },
    layer="encoder.layers.{}.",
    block={
        "attention.query": "self_attn.q_proj",
        "attention.key": "self_attn.k_proj",
        "attention.value": "self_attn.v_proj",
        "attention.output": "self_attn.out_proj",
        "attention_norm": "self_attn_layer_norm",
        "up": "fc1",
        "down": "fc2",
        "ffn_norm": "final_layer_norm",
    },
    architectures={"Model": (), "ForConditionalGeneration": ()},
    ties={"encoder.embed_tokens.weight": "shared.weight"},
    decoder=("decoder.", "lm_head.", "final_logits_bias"),
    encoder_class="MBartEncoder",
)
MT5 = Format(
    name="MT5",
    prefix="",
    outside={
        "tokens": "shared",
        "distances.0.table": "encoder.block.0.layer.0.SelfAttention.relative_attention_bias",
        "final_norm": "encoder.final_layer_norm",
    },
    layer="encoder.block.{}.",
    block={
        "attention.query": "layer.0.SelfAttention.q",
        "attention.key": "layer.0.SelfAttention.k",
        "attention.value": "layer.0.SelfAttention.v",
        "attention.output": "layer.0.SelfAttention.o",
        "attention_norm": "layer.0.layer_norm",
        "gate": "layer.1.DenseReluDense.wi_0",
        "up": "layer.1.DenseReluDense.wi_1",
        "down": "layer.1.DenseReluDense.wo",
        "ffn_norm": "layer.1.layer_norm",
    },
    architectures={"Model": (), "EncoderModel": (), "ForConditionalGeneration": ()},
    ties={"encoder.embed_tokens.weight": "shared.weight"},
    biases=False,
    decoder=("decoder.", "lm_head."),
    encoder_class="MT5EncoderModel",
)
FORMATS = {"xlm-roberta": XLM_ROBERTA, "bert": BERT, "electra": ELECTRA, "ernie_m": ERNIE_M, "mbart": MBART, "mt5": MT5}
LEAVE_OUT = "or leave the head out: --leave-out lm_head."


def encoder_slots(kind: Format, model: ModelConfig | PreNormConfig) -> Iterator[Slot]:
    D, attended = model.width, model.width
    tables = {
        "tokens": (model.vocabulary, D),
        "positions": (model.positions - FIRST_POSITION + kind.unused_positions, D),
        "token_types": (model.token_types, D),
    }
    if isinstance(model, PreNormConfig):
        attended = model.heads * model.head_width
        tables["distances.0.table"] = (model.relative_bias.buckets if model.relative_bias else 0, model.heads)
    for part, theirs in kind.outside.items():
        if part not in tables:
            yield from affine(theirs, f"encoder.{part}", (D,), biases=kind.biases)
        elif all(tables[part]):
            how = part if part in ("tokens", "positions") else "whole"
            yield Slot(f"{theirs}.weight", f"encoder.{part}.weight", tables[part], how)
    shapes = dict.fromkeys(("query", "key", "value"), (attended, D)) | dict.fromkeys(("up", "gate"), (model.ffn, D))
    shapes |= {"output": (D, attended), "down": (D, model.ffn), "attention_norm": (D,), "ffn_norm": (D,)}
    for layer in range(model.layers):
        for part, theirs in kind.block.items():
            before, _, last = f"encoder.blocks.{layer}.{part}".rpartition(".")
            third = last in ("query", "key", "value")
            ours = f"{before}.query_key_value" if third else f"{before}.{last}"
            name, how = kind.layer.format(layer) + theirs, last if third else "whole"
            yield from affine(name, ours, shapes[last], how, kind.biases)


def affine(
    theirs: str, ours: str, shape: tuple[int | None, ...], how: str = "whole", biases: bool = True
) -> Iterator[Slot]:
    """A matrix or a norm, and its bias."""
    yield Slot(f"{theirs}.weight", f"{ours}.weight", shape, how)
    if biases:
        yield Slot(f"{theirs}.bias", f"{ours}.bias", shape[:1], how)


def group_slots(kind: Format, group: str, model: ModelConfig | PreNormConfig) -> Iterator[Slot]:
    D = model.width
    classes = {"nsp_head": 2, "discriminator_head": 1, "question-answering": 2}.get(group)
    for ours, theirs in kind.groups[group].items():
        if ours == "mlm_head":
            yield Slot(f"{theirs}.bias", "mlm_head.bias", (model.vocabulary,), "tokens")
        elif ours == "mlm_head.norm":
            yield from affine(theirs, ours, (D,))
        else:
            yield from affine(theirs, ours, (classes, D) if ours.endswith(".output") else (D, D))


def copies_of_the_pooler(kind: Format, groups: Iterable[str]) -> list[str]:
    """Our heads hold the dense layer below them; BERT's share it."""
    inside = {"nsp_head": "nsp_head.dense", "classification": "head.dense"} if kind.pools_in_head else {}
    return [inside[group] for group in groups if group in inside]


def full_name(name: str, prefix: str) -> str:
    return prefix + name if name.startswith(BODY) else name


def buffer(name: str, dtype: torch.dtype, shape: list[int]) -> Tensor:
    """Older files hold these: 0, 1, 2 ... and zeros."""
    if name.endswith("token_type_ids"):
        return torch.zeros(shape, dtype=dtype)
    return torch.arange(shape[-1] if shape else 1, dtype=dtype).expand(shape).contiguous()


def is_identity(order: list[int]) -> bool:
    return all(i == own for i, own in enumerate(order))


def listed(problems: dict[str, list[str]]) -> str:
    said = []
    for what, names in problems.items():
        rest = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
        said.append(f"{len(names)} {what} ({', '.join(names[:SHOWN])}{rest})")
    return "; ".join(said)


def class_of(groups: list[str], kind: Format) -> str:
    """The class that has most of these groups and needs no other."""
    fitting = [end for end, needed in kind.architectures.items() if set(needed) <= set(groups)]
    return max(fitting, key=lambda end: len(kind.architectures[end]))
