"""Masks out of predicates: boolean for scaled_dot_product_attention, in blocks for FlexAttention on a GPU.

The document rule is always added: nothing sees padding or another document of its packed row.
"""

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, create_block_mask

from engine.attention_rules import Rule, Tokens

Mask = Tensor | BlockMask


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
