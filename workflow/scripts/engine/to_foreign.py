"""Our weights as a published checkpoint has them."""

import copy
from collections.abc import Iterable

import torch
from torch import Tensor

from common.errors import UserError
from engine.formats import (
    DTYPES,
    FORMATS,
    HEAD_KINDS,
    POOLER,
    XLM_ROBERTA,
    Format,
    Slot,
    buffer,
    class_of,
    copies_of_the_pooler,
    encoder_slots,
    full_name,
    group_slots,
    is_identity,
    listed,
)
from engine.model import FIRST_POSITION
from engine.prenorm import PreNormConfig
from engine.shape import ModelConfig
from engine.tokenizer import BOS, EOS, PAD


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
