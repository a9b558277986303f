"""Masks out of predicates: boolean for scaled_dot_product_attention, and on a GPU two that never become a matrix.

    dense     boolean, every rule                          slow on a GPU: no flash kernel takes a mask
    blocks    for FlexAttention, every rule                has no dropout
    segments  the ends of the runs that see themselves,    with dropout; no distance bias. Other rules get a dense mask
              for flash attention: rules full, own_side

The document rule is always added: nothing sees padding or another document of its packed row.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, create_block_mask

from engine.attention_rules import Rule, Tokens, full, own_side


@dataclass(frozen=True)
class Segments:
    """Rows laid end to end and cut: a token sees what lies between the same two cuts."""

    ends_S: Tensor  # int32, 0 first
    longest: int  # no segment is longer


Mask = Tensor | BlockMask | Segments


def boolean_mask(tokens: Tokens, rule: Rule, keys: Tokens | None = None) -> Tensor:
    """(B, 1, T, T) for scaled_dot_product_attention, or (B, 1, T, S) with other tokens as keys. A padding token sees
    itself (of other tokens, all), so that no softmax row is empty."""
    query = Tokens(*(field[:, :, None] for field in tokens))
    key = Tokens(*(field[:, None, :] for field in keys or tokens))
    allowed = (query.document == key.document) & (key.document >= 0)
    allowed = allowed & rule(query, key)
    itself = True if keys else torch.eye(allowed.shape[1], dtype=torch.bool, device=allowed.device)
    return (allowed | (itself & (query.document < 0)))[:, None]


def block_mask(tokens: Tokens, rule: Rule, keys: Tokens | None = None) -> BlockMask:
    """The same for FlexAttention, which skips the blocks in which nothing is allowed."""
    others = keys or tokens

    def allowed(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        query, key = Tokens(*(field[b, q] for field in tokens)), Tokens(*(field[b, k] for field in others))
        seen = (query.document == key.document) & (key.document >= 0) & rule(query, key)
        itself = query.document < 0 if keys else (q == k) & (query.document < 0)
        return seen | itself

    B, T = tokens.document.shape
    return create_block_mask(allowed, B, None, T, others.document.shape[1], device=tokens.document.device)


def segment_ends(tokens: Tokens, rule: Rule) -> Tensor | None:
    """The cuts between documents, or between their sides, and padding; None where such a run has a hole in it, and for
    rules that cannot be said in runs. On the host: how many there are decides what is launched."""
    if rule not in (full, own_side):
        return None
    B, T = tokens.document.shape
    part_BT = 2 * tokens.document.long() + (tokens.side.long() if rule is own_side else 0)
    part_BT = part_BT.masked_fill(tokens.document < 0, -1)
    begins_BT = torch.ones_like(part_BT, dtype=torch.bool)
    begins_BT[:, 1:] = part_BT[:, 1:] != part_BT[:, :-1]
    starts_S = begins_BT.flatten().nonzero().squeeze(1)
    row_S, part_S = starts_S // T, part_BT.flatten()[starts_S]
    real_S = part_S >= 0
    if len((row_S * 2 * (T + 1) + part_S)[real_S].unique()) < int(real_S.sum()):
        return None
    return torch.cat([starts_S, starts_S.new_tensor([B * T])]).int()
