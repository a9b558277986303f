"""Who sees whom: one predicate per objective, over (query, key) token fields. True means that the query may look.

The same predicate becomes a boolean mask here and can become a block mask on a GPU. The document rule is always added:
nothing sees padding or another document of its packed row.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor


class Tokens(NamedTuple):
    """What a rule may know of a token: tensors (B, T, 1) of the query, (B, 1, T) of the key."""

    document: Tensor
    side: Tensor
    selected: Tensor
    position: Tensor
    language: Tensor


Rule = Callable[[Tokens, Tokens], Tensor | bool]


def full(query: Tokens, key: Tokens) -> bool:
    """MMLM, TLM: everything in the document."""
    return True


def boolean_mask(tokens: Tokens, rule: Rule) -> Tensor:
    """(B, 1, T, T) for scaled_dot_product_attention. A padding token sees itself, so that no softmax row is empty."""
    query = Tokens(*(field[:, :, None] for field in tokens))
    key = Tokens(*(field[:, None, :] for field in tokens))
    allowed = (query.document == key.document) & (key.document >= 0)
    allowed = allowed & rule(query, key)
    itself = torch.eye(allowed.shape[1], dtype=torch.bool, device=allowed.device)
    return (allowed | (itself & (query.document < 0)))[:, None]
