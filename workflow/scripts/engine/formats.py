"""Published checkpoints in Hugging Face's layouts and our weights: pure functions between the two, in both directions.

What differs, for the encoders that ours can be:

    names      ours are those of engine/model.py; theirs differ by model_type, by age (gamma, beta) and by prefix
    q, k, v    three matrices of theirs are one of ours
    tokens     rows in the order of their ids, which `order` says: entry i is their id of our id i
    positions  our table has two unused rows before the first position, as XLM-R's and ERNIE-M's; BERT's has none
    numbers    ours are fp32; what was fp16 or bf16 goes back to the same bits

`kept` is what the way back needs and our weights do not say; it can be written as JSON.
"""

import copy
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from common.errors import UserError
from engine.model import FIRST_POSITION
from engine.prenorm import PreNormConfig
from engine.shape import ModelConfig, RelativeBias
from engine.tokenizer import BOS, EOS, PAD

SHOWN = 20  # names in an error, of each kind
MOST, MOST_LAYERS = 1 << 28, 1000  # of a size in a config; a list of names is made of the layers
DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
PREFIXES = ("roberta.", "bert.", "electra.", "ernie_m.", "model.", "")
BODY = ("embeddings.", "encoder.", "pooler.", "shared.", "decoder.")  # what a prefix stands before
POOLER = "pooler.dense"
HEAD_KINDS = {
    "classification": "ForSequenceClassification",
    "tagging": "ForTokenClassification",
    "question-answering": "ForQuestionAnswering",
}
MT5_ROW = 1024  # tokens that mT5 was trained on at once; its distances know no end


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
NOT_OURS = {  # classes whose tensors would fit, or nearly
    "ForMultipleChoice": "one score for each choice",
    "ForInformationExtraction": "two probabilities of each token",
    "ForCausalLM": "a decoder",
    "LMHeadModel": "a decoder",
    "ElectraForSequenceClassification": "GELU in the head, where ours has tanh",
}


# ---------------------------------------------------------------------------------------------------------------------
# config.json


def model_of(config: dict, where: str) -> ModelConfig | PreNormConfig:
    """The shape of our encoder, or an error for what it cannot be. `where`: the weights file, beside config.json."""
    path = Path(where).with_name("config.json")
    if "model_type" not in config:
        raise UserError(f"{path}: the key model_type is missing; known: {', '.join(FORMATS)}")
    if not isinstance(config["model_type"], str) or config["model_type"] not in FORMATS:
        raise UserError(f"{path}, model_type: {config['model_type']!r} is unknown; known: {', '.join(FORMATS)}")
    make = {"mbart": mbart_of, "mt5": mt5_of}.get(config["model_type"], post_norm_of)
    try:
        return make(config, path)
    except UserError as error:
        raise UserError(str(error) if str(path) in str(error) else f"{path}: {error}") from None


def post_norm_of(config: dict, path: Path) -> ModelConfig:
    kind = FORMATS[config["model_type"]]
    wanted = {"hidden_act": "gelu"}  # the exact one; gelu_new and the like are approximations
    wanted |= {"position_embedding_type": "absolute", "is_decoder": False, "add_cross_attention": False}
    check_kinds(config, wanted | {"pruned_heads": {}, "quantization_config": None}, path)
    width, heads = whole(config, "hidden_size", path), whole(config, "num_attention_heads", path)
    if width % heads:
        raise UserError(f"{path}, num_attention_heads: {heads} does not divide hidden_size {width}")
    if kind is ELECTRA and config.get("embedding_size", width) != width:
        raise UserError(
            f"{path}, embedding_size: {config['embedding_size']!r} is not hidden_size {width}; our encoder has "
            "embeddings of its own width only"
        )
    pad = config.get("pad_token_id", PAD)
    if kind.unused_positions and pad != PAD:
        raise UserError(
            f"{path}, pad_token_id: {pad!r}; {config['model_type']} numbers positions from the padding's id, and our "
            f"encoder knows {PAD} only"
        )
    return ModelConfig(
        layers=whole(config, "num_hidden_layers", path),
        width=width,
        heads=heads,
        ffn=whole(config, "intermediate_size", path),
        positions=whole(config, "max_position_embeddings", path) + FIRST_POSITION - kind.unused_positions,
        vocabulary=whole(config, "vocab_size", path),
        dropout=number(config, "hidden_dropout_prob", 0.1, path),
        attention_dropout=number(config, "attention_probs_dropout_prob", 0.1, path),
        layer_norm_eps=number(config, "layer_norm_eps", kind.layer_norm_eps, path),
        init_std=number(config, "initializer_range", 0.02, path),
        token_types=whole(config, "type_vocab_size", path) if "token_types" in kind.outside else 0,
    )


def mbart_of(config: dict, path: Path) -> PreNormConfig:
    wanted = {"activation_function": "gelu", "normalize_before": True, "normalize_embedding": True}
    wanted |= {"add_final_layer_norm": True, "static_position_embeddings": False, "extra_pos_embeddings": 2}
    check_kinds(config, wanted | {"quantization_config": None}, path)
    width, heads = whole(config, "d_model", path), whole(config, "encoder_attention_heads", path)
    if width % heads:
        raise UserError(f"{path}, encoder_attention_heads: {heads} does not divide d_model {width}")
    return PreNormConfig(
        pre_norm="mbart",
        layers=whole(config, "encoder_layers", path),
        width=width,
        heads=heads,
        head_width=width // heads,
        ffn=whole(config, "encoder_ffn_dim", path),
        positions=whole(config, "max_position_embeddings", path) + FIRST_POSITION,
        vocabulary=whole(config, "vocab_size", path),
        dropout=number(config, "dropout", 0.1, path),
        attention_dropout=number(config, "attention_dropout", 0.0, path),
        init_std=number(config, "init_std", 0.02, path),
        scale_embeddings=bool(config.get("scale_embedding", False)),
    )


def mt5_of(config: dict, path: Path) -> PreNormConfig:
    check_kinds(config, {"feed_forward_proj": "gated-gelu", "quantization_config": None}, path)
    dropout = number(config, "dropout_rate", 0.1, path)
    return PreNormConfig(
        pre_norm="mt5",
        layers=whole(config, "num_layers", path),
        width=whole(config, "d_model", path),
        heads=whole(config, "num_heads", path),
        head_width=whole(config, "d_kv", path),
        ffn=whole(config, "d_ff", path),
        positions=MT5_ROW + FIRST_POSITION,
        vocabulary=whole(config, "vocab_size", path),
        dropout=dropout,
        attention_dropout=dropout,
        layer_norm_eps=number(config, "layer_norm_epsilon", 1e-6, path),
        relative_bias=RelativeBias(
            buckets=whole(config, "relative_attention_num_buckets", path),
            max_distance=whole(
                {"relative_attention_max_distance": 128} | config, "relative_attention_max_distance", path
            ),
        ),
    )


def check_kinds(config: dict, wanted: dict[str, object], path: Path) -> None:
    """What our encoder has in one kind only; a key that is not there has that kind by default."""
    for key, kind in wanted.items():
        if config.get(key) is not None and config[key] != kind:
            raise UserError(f"{path}, {key}: {config[key]!r}; our encoder has no other than {kind!r}")


def whole(config: dict, key: str, path: Path) -> int:
    if key not in config:
        raise UserError(f"{path}: the key {key} is missing")
    if isinstance(config[key], bool) or not isinstance(config[key], int) or config[key] < 1:
        raise UserError(f"{path}, {key}: {config[key]!r} is not a whole number above zero")
    most = MOST_LAYERS if key.endswith("layers") else MOST
    if config[key] > most:
        raise UserError(f"{path}, {key}: {config[key]:,} is more than any encoder has; at most {most:,}")
    return config[key]


def number(config: dict, key: str, default: float, path: Path) -> float:
    value = default if config.get(key) is None else config[key]
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:  # NaN is neither
        raise UserError(f"{path}, {key}: {value!r} is not a number from 0 to 1")
    return float(value)


def architecture_of(config: dict, kind: Format, path: Path, left_out: tuple[str, ...] = ()) -> str | None:
    """Their class without its family's name, ForMaskedLM for example."""
    names = config.get("architectures") or [None]
    if not isinstance(names, list) or not isinstance(names[0], str | None):
        raise UserError(f"{path}, architectures: {names!r} is not a list of names")
    name = names[0]
    if name is None:
        return None
    for end, what in NOT_OURS.items():
        if name.endswith(end) and not left_out:
            raise UserError(f"{path}, architectures: {name} is {what}; the engine has no such head, {LEAVE_OUT}")
    return max((end for end in kind.architectures if name.endswith(end)), key=len, default=None)


# ---------------------------------------------------------------------------------------------------------------------
# Names and shapes


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


# ---------------------------------------------------------------------------------------------------------------------
# From theirs


def from_foreign(
    config: dict, tensors: dict[str, Tensor], order: list[int], where: str, left_out: tuple[str, ...] = ()
) -> tuple[ModelConfig | PreNormConfig, dict[str, Tensor], dict]:
    """Our model's shape, its weights, and what to_foreign needs to write the same tensors again: all but a decoder's.

    Tensors that need no change are not copied. All that does not fit is one error. `left_out`: how the names of tensors
    begin that were taken away, so that their head is not missed.
    """
    model = model_of(config, where)
    kind = FORMATS[config["model_type"]]
    architecture = architecture_of(config, kind, Path(where).with_name("config.json"), left_out)
    if sorted(order) != list(range(model.vocabulary)):
        raise ValueError(f"{where}: the order of the ids is none of {model.vocabulary} ids")
    problems: dict[str, list[str]] = defaultdict(list)  # what is wrong -> the tensors of which it is
    prefix = prefix_of(tensors, kind)
    found, renamed, twice = canonical_names(tensors, prefix)
    if twice:
        problems["there under two names"] += twice
    buffers = take_buffers(found, renamed, prefix, problems)
    decoder = [name for name in found if kind.decoder and name.startswith(kind.decoder)]
    for name in decoder:
        del found[name]
    copies = take_copies(found, renamed, kind, prefix, problems)
    expected = expected_groups(kind, architecture, model, prefix, left_out)
    groups = groups_of(set(found), kind, expected, model, where)
    slots = [*encoder_slots(kind, model), *(slot for group in groups for slot in group_slots(kind, group, model))]
    wanted = {slot.theirs: slot for slot in slots}
    names = {name: renamed.get(name, full_name(name, prefix)) for name in {*found, *wanted}}
    check_tensors(found, wanted, names, problems)
    if problems:
        mend = f"; {LEAVE_OUT}" if lacks_a_head(problems.get("missing", []), kind, groups, model, prefix) else ""
        said = listed(problems)
        raise UserError(f"{where}: not the weights of {config['model_type']} in its config.json: {said}{mend}")

    if left_out:
        config = config | {"architectures": [kind.name + class_of(groups, kind)]}
    weights = take(found, slots, model, order, kind)
    for ours in copies_of_the_pooler(kind, groups):
        for part in ("weight", "bias"):
            weights[f"{ours}.{part}"] = weights[f"{POOLER}.{part}"].clone()
    dtypes = {names[name]: found[name].dtype for name in wanted}
    common = Counter(dtypes.values()).most_common(1)[0][0]
    kept = {
        "format": config["model_type"],
        "config": config,
        "groups": groups,
        "head": next((group for group in groups if group in HEAD_KINDS), None),
        "prefix": prefix,
        "renamed": dict(sorted(renamed.items())),
        "copies": dict(sorted(copies.items())),
        "buffers": buffers,
        "decoder": len(decoder),
        "dtype": str(common).removeprefix("torch."),
        "dtypes": {
            name: str(dtype).removeprefix("torch.") for name, dtype in sorted(dtypes.items()) if dtype != common
        },
    }
    return model, weights, kept


def take_buffers(
    found: dict[str, Tensor], renamed: dict[str, str], prefix: str, problems: dict[str, list[str]]
) -> dict[str, list]:
    """Tensors that only count, taken out of those that were found: name in the file -> ours, type and shape."""
    buffers = {}
    for name in sorted(set(found) & {"embeddings.position_ids", "embeddings.token_type_ids"}):
        tensor = found.pop(name)
        whole_numbers = tensor.dtype in (torch.int64, torch.int32)
        if not whole_numbers or not torch.equal(tensor, buffer(name, tensor.dtype, list(tensor.shape))):
            problems["not counted as the engine counts"].append(full_name(name, prefix))
        dtype = str(tensor.dtype).removeprefix("torch.")
        buffers[renamed.get(name, full_name(name, prefix))] = [name, dtype, list(tensor.shape)]
    return buffers


def take_copies(
    found: dict[str, Tensor], renamed: dict[str, str], kind: Format, prefix: str, problems: dict[str, list[str]]
) -> dict[str, str]:
    """Tensors that repeat another one, taken out of those that were found: name in the file -> the tensor repeated."""
    copies = {}
    for name, original in kind.ties.items():
        if name not in found:
            continue
        tensor, actual = found.pop(name), renamed.pop(name, full_name(name, prefix))
        if original not in found:  # it is there under this name alone
            found[original] = tensor
            renamed[original] = actual
        elif tensor.dtype != found[original].dtype or not torch.equal(tensor, found[original]):
            problems["unlike the tensor that they should repeat, as in our encoder"].append(f"{actual}: {original}")
        else:
            copies[actual] = original
    return copies


def check_tensors(
    found: dict[str, Tensor], wanted: dict[str, Slot], names: dict[str, str], problems: dict[str, list[str]]
) -> None:
    """Is each of the wanted tensors there, with its shape and finite, and no other? `names` are those in the file."""
    for name, actual in sorted(names.items(), key=lambda item: item[1]):
        if name not in found or name not in wanted:
            problems["missing" if name in wanted else "unexpected"].append(actual)
            continue
        shape, tensor = wanted[name].shape, found[name]
        if len(tensor.shape) != len(shape) or any(b not in (None, a) for a, b in zip(tensor.shape, shape, strict=True)):
            said = f"{actual} {list(tensor.shape)}, not {['any' if size is None else size for size in shape]}"
            problems["of another shape than config.json says"].append(said)
        elif tensor.dtype not in DTYPES.values():
            problems["of a type other than fp32, fp16 and bf16"].append(f"{actual} ({tensor.dtype})")
        elif not torch.isfinite(tensor).all():
            problems["with NaN or infinity among their numbers"].append(actual)


def prefix_of(tensors: Iterable[str], kind: Format) -> str:
    names = list(tensors)
    for prefix in (kind.prefix, *PREFIXES):
        if any(name.startswith((f"{prefix}embeddings.", f"{prefix}shared.")) for name in names):
            return prefix
    return kind.prefix


def full_name(name: str, prefix: str) -> str:
    return prefix + name if name.startswith(BODY) else name


def canonical_names(tensors: dict[str, Tensor], prefix: str) -> tuple[dict[str, Tensor], dict[str, str], list[str]]:
    """Tensors by today's name without prefix, {that name: the name in the file} where the two differ otherwise, and
    what is there twice."""
    found, renamed, twice = {}, {}, []
    for actual, tensor in tensors.items():
        name = actual.removeprefix(prefix) if actual.removeprefix(prefix).startswith(BODY) else actual
        for old, new in (("LayerNorm.gamma", "LayerNorm.weight"), ("LayerNorm.beta", "LayerNorm.bias")):
            if name.endswith(old):
                name = name.removesuffix(old) + new
        if name in found:
            twice.append(f"{renamed.get(name, full_name(name, prefix))} = {actual}")
            continue
        found[name] = tensor
        if actual != full_name(name, prefix):
            renamed[name] = actual
    return found, renamed, twice


def buffer(name: str, dtype: torch.dtype, shape: list[int]) -> Tensor:
    """Older files hold these: 0, 1, 2 ... and zeros."""
    if name.endswith("token_type_ids"):
        return torch.zeros(shape, dtype=dtype)
    return torch.arange(shape[-1] if shape else 1, dtype=dtype).expand(shape).contiguous()


def expected_groups(
    kind: Format,
    architecture: str | None,
    model: ModelConfig | PreNormConfig,
    prefix: str,
    left_out: tuple[str, ...],
) -> set[str]:
    """What its class must have, but for what was left out whole."""
    groups = set()
    for group in kind.architectures.get(architecture, ()):
        names = [full_name(slot.theirs, prefix) for slot in group_slots(kind, group, model)]
        if not all(name.startswith(left_out) for name in names):
            groups.add(group)
    return groups


def lacks_a_head(
    missing: list[str], kind: Format, groups: Iterable[str], model: ModelConfig | PreNormConfig, prefix: str
) -> bool:
    slots = (slot for group in groups for slot in group_slots(kind, group, model))
    return bool(set(missing) & {full_name(slot.theirs, prefix) for slot in slots})


def groups_of(
    found: set[str], kind: Format, expected: set[str], model: ModelConfig | PreNormConfig, where: str
) -> list[str]:
    """What there is besides the encoder: what its class must have, and what any tensor is of."""
    groups = set(expected)
    for group in kind.groups:
        names = {slot.theirs for slot in group_slots(kind, group, model)}
        if names & found and group not in HEAD_KINDS:
            groups.add(group)
        elif names & found and not groups & set(HEAD_KINDS):
            if kind.pools_in_head and "classifier.weight" in names:
                raise UserError(
                    f"{Path(where).with_name('config.json')}, architectures: does not say whether classifier.weight is "
                    f"that of {kind.name}ForSequenceClassification or of {kind.name}ForTokenClassification; name one"
                )
            groups.add(group)
    return [group for group in kind.groups if group in groups]


def listed(problems: dict[str, list[str]]) -> str:
    said = []
    for what, names in problems.items():
        rest = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
        said.append(f"{len(names)} {what} ({', '.join(names[:SHOWN])}{rest})")
    return "; ".join(said)


def take(
    found: dict[str, Tensor], slots: list[Slot], model: ModelConfig | PreNormConfig, order: list[int], kind: Format
) -> dict[str, Tensor]:
    weights: dict[str, Tensor] = {}
    thirds: dict[str, dict[str, Tensor]] = {}
    for slot in slots:
        tensor = found[slot.theirs].float()
        if slot.how == "tokens":
            tensor = tensor if is_identity(order) else tensor[torch.tensor(order)]
        elif slot.how == "positions" and kind.unused_positions != FIRST_POSITION:
            tensor = torch.cat([tensor.new_zeros(FIRST_POSITION - kind.unused_positions, model.width), tensor])
        if slot.how in ("query", "key", "value"):
            thirds.setdefault(slot.ours, {})[slot.how] = tensor
        else:
            weights[slot.ours] = tensor
    for ours, parts in thirds.items():
        weights[ours] = torch.cat([parts[how] for how in ("query", "key", "value")])
    return weights


def is_identity(order: list[int]) -> bool:
    return all(i == own for i, own in enumerate(order))


def without_token_types(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """Of weights with one token type, for a model that has none: every token gets its vector, so the positions can
    carry it. The same function but for the rounding of one sum."""
    name = "encoder.positions.weight"
    kept = {own: tensor for own, tensor in weights.items() if own != "encoder.token_types.weight"}
    unused, used = weights[name][:FIRST_POSITION], weights[name][FIRST_POSITION:]
    return kept | {name: torch.cat([unused, used + weights["encoder.token_types.weight"]])}


# ---------------------------------------------------------------------------------------------------------------------
# To theirs


def to_foreign(
    model: ModelConfig | PreNormConfig,
    weights: dict[str, Tensor],
    kept: dict | None,
    order: list[int],
    head: str | None = None,
) -> tuple[dict, dict[str, Tensor]]:
    """config.json and tensors. Weights that from_foreign made become the same again, bit for bit. Trained further, or
    with other modules, they are written in the same layout; without `kept`, in XLM-R's.

    head: classification, tagging or question-answering, where the weights have one and `kept` does not say which.
    """
    kept = kept or own_layout(model)
    kind = FORMATS[kept["format"]]
    groups = groups_in(weights, kind, head or kept["head"])
    if groups != kept["groups"]:  # another class, whose files have the names of today
        kept = kept | {"prefix": kind.prefix, "renamed": {}, "copies": {}, "buffers": {}}
    prefix, renamed = kept["prefix"], kept["renamed"]
    slots = [*encoder_slots(kind, model), *(slot for group in groups for slot in group_slots(kind, group, model))]
    weights = dict(weights)
    for ours in copies_of_the_pooler(kind, groups):
        for part in ("weight", "bias"):
            own = weights.pop(f"{ours}.{part}")
            if ours == "head.dense" or f"{POOLER}.{part}" not in weights:  # the head was trained, the pooler was not
                weights[f"{POOLER}.{part}"] = own
    if "token_types" in kind.outside and not model.token_types:  # theirs cannot do without
        slots.append(Slot(f"{kind.outside['token_types']}.weight", "encoder.token_types.weight", (1, model.width)))
        weights["encoder.token_types.weight"] = torch.zeros(1, model.width)
    problems = {
        "not in the weights": sorted({slot.ours for slot in slots} - set(weights)),
        f"without a place in {kept['format']}": sorted(set(weights) - {slot.ours for slot in slots}),
    }
    if any(problems.values()):
        raise UserError(f"cannot be written as {kept['format']}: {listed({k: v for k, v in problems.items() if v})}")

    tensors = {slot.theirs: give(weights[slot.ours], slot, order, kind) for slot in slots}
    names = {name: renamed.get(name, full_name(name, prefix)) for name in tensors}
    dtypes = {name: DTYPES[kept["dtypes"].get(names[name], kept["dtype"])] for name in tensors}
    lossless = all(same_as(tensor, dtypes[name]) for name, tensor in tensors.items())
    if lossless:  # else they were trained further, in fp32
        tensors = {name: tensor.to(dtypes[name]) for name, tensor in tensors.items()}
    out = {names[name]: tensor for name, tensor in tensors.items()}
    for actual, original in kept["copies"].items():
        out[actual] = tensors[original].clone()
    for actual, (name, dtype, shape) in kept["buffers"].items():
        out[actual] = buffer(name, getattr(torch, dtype), shape)

    config = copy.deepcopy(kept["config"])
    if groups != kept["groups"]:
        config["architectures"] = [kind.name + class_of(groups, kind)]
    if kept["decoder"]:
        config["architectures"] = [kind.encoder_class]
    if not lossless:
        config = {key: "float32" if key in ("dtype", "torch_dtype") else value for key, value in config.items()}
    return config, out


def same_as(tensor: Tensor, dtype: torch.dtype) -> bool:
    return tensor.dtype == dtype or torch.equal(tensor.to(dtype).float(), tensor)


def groups_in(weights: Iterable[str], kind: Format, head: str | None) -> list[str]:
    modules = {name.partition(".")[0] for name in weights}
    groups = modules & set(kind.groups)
    if "head" in modules:
        dense = "head.dense.weight" in weights
        kinds = [known for known in HEAD_KINDS if (known == "classification") == dense]
        chosen = kinds[0] if len(kinds) == 1 else head
        if chosen not in kinds:
            raise ValueError(f"head: {head!r} is none of {', '.join(kinds)}, as the shape of the weights' head is")
        if chosen not in kind.groups:
            raise UserError(f"{kind.name}: its {HEAD_KINDS[chosen]} is another head than ours")
        groups |= {chosen} | ({"pooler"} if chosen == "classification" and kind.pools_in_head else set())
    if "nsp_head" in groups:
        groups.add("pooler")
    return [group for group in kind.groups if group in groups]


def class_of(groups: list[str], kind: Format) -> str:
    """The class that has most of these groups and needs no other."""
    fitting = [end for end, needed in kind.architectures.items() if set(needed) <= set(groups)]
    return max(fitting, key=lambda end: len(kind.architectures[end]))


def give(tensor: Tensor, slot: Slot, order: list[int], kind: Format) -> Tensor:
    if slot.how == "tokens" and not is_identity(order):
        theirs = torch.empty_like(tensor)
        theirs[torch.tensor(order)] = tensor
        return theirs
    if slot.how == "positions":
        return tensor[FIRST_POSITION - kind.unused_positions :].contiguous()
    if slot.how in ("query", "key", "value"):
        return tensor.chunk(3)[("query", "key", "value").index(slot.how)].contiguous()
    return tensor


def own_layout(model: ModelConfig | PreNormConfig) -> dict:
    """What from_foreign would have kept of an XLM-R of this shape."""
    if isinstance(model, PreNormConfig):
        raise UserError(f"XLM-R's layout has no place for model.pre_norm {model.pre_norm}")
    lacking = [key for key in ("relative_bias", "languages", "admin") if getattr(model, key)]
    lacking += [] if model.absolute_positions else ["absolute_positions: false"]
    if lacking:
        raise UserError(f"XLM-R's layout has no place for model.{', model.'.join(lacking)}")
    config = {
        "attention_probs_dropout_prob": model.attention_dropout,
        "bos_token_id": BOS,
        "dtype": "float32",
        "eos_token_id": EOS,
        "hidden_act": "gelu",
        "hidden_dropout_prob": model.dropout,
        "hidden_size": model.width,
        "initializer_range": model.init_std,
        "intermediate_size": model.ffn,
        "layer_norm_eps": model.layer_norm_eps,
        "max_position_embeddings": model.positions,
        "model_type": "xlm-roberta",
        "num_attention_heads": model.heads,
        "num_hidden_layers": model.layers,
        "pad_token_id": PAD,
        "type_vocab_size": max(1, model.token_types),
        "vocab_size": model.vocabulary,
    }
    kept = {"format": "xlm-roberta", "config": config, "groups": None, "head": None, "prefix": XLM_ROBERTA.prefix}
    return kept | {"renamed": {}, "copies": {}, "buffers": {}, "decoder": 0, "dtype": "float32", "dtypes": {}}
