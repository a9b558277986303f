"""VECO: masked language modelling within a sequence and across the two sequences of a pair.

IS  x sees x                                X <- FFN(SelfAttention(X))
CS  y sees y up to itself, and all of x     Y <- FFN(CrossAttention(SelfAttention(Y), X of the last layer))

Self-attention and FFN are the same modules in both.

L = IS(x) + IS(y) + CS(x -> y) + CS(y -> x) [+ TLM(x, y) for translations]          VECO, section 2

A masked token is predicted in its place, so nothing is shifted: its input is its own <mask>. All parts read one
corruption of the pair. The memory X is cut off from the gradient: CS trains the blocks, the cross-attention, the head
and the embeddings of y. Both sides lie in one row, so one pass of the encoder gives both memories and one pass of the
decoder both directions; for TLM the same row is read as one document.

In the first phase (schedule.first) the cross-attention is trained alone, so CS alone is computed; the pass of the
frozen encoder then leaves nothing for autograd.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from torch import Tensor, nn

from engine.attention import distance_biases
from engine.attention_rules import Rule, other_side, own_side, own_side_so_far
from engine.corruption import mask_tokens_per_side
from engine.dist import Ranks
from engine.model import CrossAttention, decode
from engine.objectives.base import Batch, Loss, Objective, joined, mlm_head
from engine.objectives.mlm import selected_cross_entropy
from engine.options import VecoPairsOptions

if TYPE_CHECKING:
    from engine.config import ObjectiveConfig

SEEN_OF_OWN_SIDE: dict[str, Rule] = {"causal": own_side_so_far, "full": own_side}


def head_and_cross_attention(model: nn.Module, objective: "ObjectiveConfig") -> dict[str, nn.Module]:
    config = model.encoder.config
    layers = nn.ModuleList(CrossAttention(config) for _ in range(config.layers))
    for layer in layers:
        nn.init.zeros_(layer.output.weight)  # it adds nothing to pre-trained blocks at first
    return mlm_head(model, objective) | {"cross_attention": layers}


def start(model: nn.Module, objective: "ObjectiveConfig", draw: Callable[[], list[Batch]], ranks: Ranks) -> None:
    """Fresh cross-attention (its output is still zero) takes the LayerNorm of its layer's self-attention: the FFN
    behind it was trained on states of that scale. Where the blocks are fresh too, the two are equal already."""
    for block, cross in zip(model.encoder.blocks, model.cross_attention, strict=True):
        if not cross.output.weight.any():
            cross.norm.load_state_dict(block.attention_norm.state_dict())


def parts(batch: Batch) -> tuple[str, ...]:
    if batch.first_phase:
        return ("cs",)
    options = batch.objective.options
    return ("is", "cs", "tlm") if isinstance(options, VecoPairsOptions) and options.tlm else ("is", "cs")


def count_parts(batch: Batch) -> dict[str, int]:
    return dict.fromkeys(parts(batch), len(batch.targets))


def veco_loss(model: nn.Module, batch: Batch) -> Loss:
    alone_BTD = batch.states(model.encoder, own_side)
    states_of = {
        "is": lambda: alone_BTD,
        "cs": lambda: crossed(model, batch, alone_BTD.detach()),
        "tlm": lambda: joined(batch).states(model.encoder),
    }
    sums, signals = {}, {}
    for part in parts(batch):
        states_ND = states_of[part]().flatten(0, 1)[batch.selected]
        sums[part], correct = selected_cross_entropy(model, states_ND, batch.targets)
        signals[f"{part}_accuracy"] = (correct, len(batch.targets))
    return Loss(sums, signals)


def crossed(model: nn.Module, batch: Batch, memory_BTD: Tensor) -> Tensor:
    """States (B, T, D) of each side as a decoder over the other side's memory."""
    encoder, fields, languages = model.encoder, batch.fields, batch.languages(model.encoder)
    own_mask = batch.mask(SEEN_OF_OWN_SIDE[batch.objective.options.cs_self])
    return decode(
        encoder.blocks,
        model.cross_attention,
        encoder.embed(batch.tokens, fields.position, fields.side, languages),
        memory_BTD,
        own_mask,
        batch.mask(other_side),
        distance_biases(encoder.distances, len(encoder.blocks), fields.position, own_mask),
    )


MONO = PAIRS = Objective(
    veco_loss,
    rule=own_side,
    modules=head_and_cross_attention,
    corrupt=mask_tokens_per_side,
    count=count_parts,
    start=start,
)
