"""torch.compile of what takes the time: blocks, cross-attention, and the loss over the vocabulary.

In place and by method, so weights keep their names and VECO's decoder, which calls the halves of a block, is compiled
too. All layers share one compilation. Shapes: the widths of rows are multiples of a tile on a GPU, so few; the number
of rows, of selected tokens and of segments is left open by the compiler once it has seen a second one.
"""

import torch
from torch import nn

from engine.model import Block, CrossAttention, MaskedLanguageModelHead

METHODS: dict[type, tuple[str, ...]] = {
    Block: ("self_attend", "feed_forward"),
    CrossAttention: ("forward",),
    MaskedLanguageModelHead: ("cross_entropy",),
}
# Of the first shape on: logits are computed anew on the way back, and must not meet another compilation there.
ANY_SHAPE = ("cross_entropy",)
# Of one function: rules of attention, with and without gradient, training and evaluation, first shape and any shape.
VARIANTS = 64


def compile_parts(model: nn.Module, backend: str = "inductor") -> None:
    config = torch._dynamo.config
    config.recompile_limit = max(config.recompile_limit, VARIANTS)
    for module in model.modules():
        for name in METHODS.get(type(module), ()):
            dynamic = True if name in ANY_SHAPE else None
            setattr(module, name, torch.compile(getattr(module, name), backend=backend, dynamic=dynamic))
