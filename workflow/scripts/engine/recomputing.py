"""`activations: recompute`: the halves of a block and cross-attention keep what goes into them and nothing else, and
are computed again on the way back. The gradients are the same; a trained pass takes a third longer.

In place and by method, as engine/compiling.py: around what is compiled, and inside what is cut over devices.
"""

import functools
from collections.abc import Callable

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from engine.compiling import METHODS
from engine.model import Block, CrossAttention


def recompute_parts(model: nn.Module) -> None:
    for module in model.modules():
        for name in METHODS[type(module)] if isinstance(module, Block | CrossAttention) else ():
            setattr(module, name, functools.partial(computed_again, getattr(module, name)))


def computed_again(function: Callable, *arguments: object) -> object:
    """With the dropout of the first time."""
    if not torch.is_grad_enabled():
        return function(*arguments)
    return checkpoint(function, *arguments, use_reentrant=False)
