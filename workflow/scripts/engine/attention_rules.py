"""Who sees whom: one predicate per objective, over (query, key) token fields. True means that the query may look.

engine/masks.py makes masks of them and adds that nothing sees another document of its row. Nothing but operators here,
and no torch: NumPy arrays do as well.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from torch import Tensor


class Tokens(NamedTuple):
    """What a rule may know of a token: tensors (B, T, 1) of the query, (B, 1, T) of the key."""

    document: "Tensor"
    side: "Tensor"
    selected: "Tensor"
    position: "Tensor"
    language: "Tensor"


Rule = Callable[[Tokens, Tokens], "Tensor | bool"]


def full(query: Tokens, key: Tokens) -> bool:
    """MMLM, TLM: everything in the document."""
    return True


def own_side(query: Tokens, key: Tokens) -> "Tensor":
    """Two sides in one row that never meet: each sentence is encoded alone."""
    return query.side == key.side


def own_side_so_far(query: Tokens, key: Tokens) -> "Tensor":
    """A decoder's self-attention: a token sees its own side up to itself."""
    return (query.side == key.side) & (key.position <= query.position)


def other_side(query: Tokens, key: Tokens) -> "Tensor":
    """A decoder's cross-attention: the memory is the other side."""
    return query.side != key.side


def camlm(query: Tokens, key: Tokens) -> "Tensor":
    """CAMLM, and BTMLM's first stage: what is not selected sees the like of its own side, a mask sees what is not
    selected of the other side, and itself. Were the others not confined to their side, or could one mask see another of
    the other side, then a mask's own sentence would reach it two layers up."""
    return _context(query, key) | (_masks_of_one_side(query, key) & (query.position == key.position))


def camlm_siblings(query: Tokens, key: Tokens) -> "Tensor":
    """The same, and the masks of one side see each other."""
    return _context(query, key) | _masks_of_one_side(query, key)


def _context(query: Tokens, key: Tokens) -> "Tensor":
    return ~key.selected & ((query.side == key.side) ^ query.selected)


def _masks_of_one_side(query: Tokens, key: Tokens) -> "Tensor":
    return query.selected & key.selected & (query.side == key.side)
