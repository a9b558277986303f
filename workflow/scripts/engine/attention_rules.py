"""Who sees whom: one predicate per objective, over (query, key) token fields. True means that the query may look.

The same predicate becomes a boolean mask for scaled_dot_product_attention, or a block mask for FlexAttention on a GPU.
The document rule is always added: nothing sees padding or another document of its packed row.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, create_block_mask


class Tokens(NamedTuple):
    """What a rule may know of a token: tensors (B, T, 1) of the query, (B, 1, T) of the key."""

    document: Tensor
    side: Tensor
    selected: Tensor
    position: Tensor
    language: Tensor


Rule = Callable[[Tokens, Tokens], Tensor | bool]
Mask = Tensor | BlockMask


def full(query: Tokens, key: Tokens) -> bool:
    """MMLM, TLM: everything in the document."""
    return True


def own_side(query: Tokens, key: Tokens) -> Tensor:
    """Two sides in one row that never meet: each sentence is encoded alone."""
    return query.side == key.side


def boolean_mask(tokens: Tokens, rule: Rule) -> Tensor:
    """(B, 1, T, T) for scaled_dot_product_attention. A padding token sees itself, so that no softmax row is empty."""
    query = Tokens(*(field[:, :, None] for field in tokens))
    key = Tokens(*(field[:, None, :] for field in tokens))
    allowed = (query.document == key.document) & (key.document >= 0)
    allowed = allowed & rule(query, key)
    itself = torch.eye(allowed.shape[1], dtype=torch.bool, device=allowed.device)
    return (allowed | (itself & (query.document < 0)))[:, None]


def block_mask(tokens: Tokens, rule: Rule) -> BlockMask:
    """The same for FlexAttention, which skips the blocks in which nothing is allowed."""

    def allowed(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        query, key = Tokens(*(field[b, q] for field in tokens)), Tokens(*(field[b, k] for field in tokens))
        seen = (query.document == key.document) & (key.document >= 0) & rule(query, key)
        return seen | ((q == k) & (query.document < 0))

    B, T = tokens.document.shape
    return create_block_mask(allowed, B, None, T, T, device=tokens.document.device)
