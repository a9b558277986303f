"""Published weights as ours, with what the way back needs."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path

import torch
from torch import Tensor

from common.errors import UserError
from engine.foreign_config import architecture_of, model_of
from engine.formats import (
    BODY,
    DTYPES,
    FORMATS,
    HEAD_KINDS,
    LEAVE_OUT,
    POOLER,
    PREFIXES,
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


def without_token_types(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """Of weights with one token type, for a model that has none: every token gets its vector, so the positions can
    carry it. The same function but for the rounding of one sum."""
    name = "encoder.positions.weight"
    kept = {own: tensor for own, tensor in weights.items() if own != "encoder.token_types.weight"}
    unused, used = weights[name][:FIRST_POSITION], weights[name][FIRST_POSITION:]
    return kept | {name: torch.cat([unused, used + weights["encoder.token_types.weight"]])}
