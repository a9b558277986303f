"""In which numbers products are computed: `precision: bf16` asks for bf16 wherever a machine multiplies it faster.

Every GPU does that this engine is for. A CPU does with tiles (AMX) or with AVX-512's products of bf16; any other
emulates them, at a fifth of its speed in fp32 (docs/measured.md). There bf16 would be slower and less exact, so fp32
is taken; the weights are fp32 in either case, and a checkpoint of the one goes on as the other.
"""

from contextlib import AbstractContextManager, nullcontext

import torch


def computed_in(precision: str, device: str) -> str:
    """What products of a run or recipe are computed in on this machine, `fp32` or `bf16`."""
    slow = device == "cpu" and not (torch.cpu._is_amx_tile_supported() or torch.cpu._is_avx512_bf16_supported())
    return "fp32" if slow else precision


def mixed_precision(precision: str, device: str) -> AbstractContextManager:
    """For a pass forward and its loss."""
    return torch.autocast(device, torch.bfloat16) if computed_in(precision, device) == "bf16" else nullcontext()
