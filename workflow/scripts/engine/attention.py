"""Attention with an optional gated relative position bias (XLM-E, section 2.3 and appendix).

    a_ij ~ exp(q_i . k_j / sqrt(d_k) + r_ij),   r_ij = d_{i-j} (1 + g_u + (1 - g_u) w g_r)
    g_u = sigmoid(q_i . u),  g_r = sigmoid(q_i . v)

The paper leaves open where the gates read, what is shared and how distances are bucketed. Here: the projected, unscaled
query; u and v per layer and shared by heads, w per head; one table d per network, a column per head; T5's 32
logarithmic buckets up to distance 128, the two directions apart. Public code of the same authors (WavLM, BEATs) writes
d (2 + a (b w - 1)) with two sigmoids a, b: the same function with the sign of u turned.

Shapes: B rows, H heads, T tokens, K = D / H, M distances of a table.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention.flex_attention import BlockMask, flex_attention

from engine import by_hand
from engine.masks import Mask, Segments
from engine.shape import ModelConfig

# FlexAttention has another kernel for fewer than 128 queries, for decoding: of training there is to be one alone.
KERNEL = {"FORCE_USE_FLEX_ATTENTION": True}
# Compilations of FlexAttention alone: rules, biases, types, first shape and any shape, with gradient or not.
VARIANTS = 256


@dataclass
class DistanceBias:
    """d of one table, for the positions of a batch. Distances beyond the table's ends count as its ends."""

    by_distance_MH: Tensor  # of the distances -max_distance ... max_distance
    positions_BT: Tensor
    dense_BHTT: Tensor | None = None  # of key position - query position; made once for all layers that share the table

    def index(self, distance: Tensor) -> Tensor:
        limit = len(self.by_distance_MH) // 2
        return distance.clamp(-limit, limit) + limit

    def as_matrix(self) -> "DistanceBias":
        """A field and no property that keeps itself: sharding hands layers a copy, and what is computed again must not
        find what it made the first time."""
        distance_BTT = self.positions_BT[:, None, :] - self.positions_BT[:, :, None]
        dense_BHTT = by_hand.of_distance(self.by_distance_MH, self.index(distance_BTT))
        return DistanceBias(self.by_distance_MH, self.positions_BT, dense_BHTT)


@cache
def distance_buckets(buckets: int, max_distance: int) -> list[int]:
    """T5's bucket of each distance (key - query) from -max_distance to max_distance, where the last bucket is reached.

    Half of the buckets for each direction; half of those are exact, the rest logarithmic. In whole numbers: a rounded
    logarithm would leave the borders to the machine.
    """
    half = buckets // 2
    exact = half // 2
    rest = half - exact

    def bucket(far: int) -> int:
        if far < exact:
            return far
        # the largest k <= rest * log(far / exact) / log(max_distance / exact)
        return exact + max(k for k in range(rest) if max_distance**k * exact ** (rest - k) <= far**rest)

    near_to_far = [bucket(far) for far in range(max_distance + 1)]
    return near_to_far[:0:-1] + near_to_far[:1] + [half + one for one in near_to_far[1:]]


class DistanceTable(nn.Module):
    def __init__(self, config: ModelConfig):
        super().__init__()
        bias = config.relative_bias
        self.table = nn.Embedding(bias.buckets, config.heads)
        bucket_M = torch.tensor(distance_buckets(bias.buckets, bias.max_distance))
        self.register_buffer("bucket_M", bucket_M, persistent=False)

    def forward(self, positions_BT: Tensor) -> DistanceBias:
        return DistanceBias(self.table(self.bucket_M), positions_BT)


def distance_tables(config: ModelConfig, layers: int) -> nn.ModuleList:
    """One for all layers, or one for each; none without a relative bias."""
    if not config.relative_bias:
        return nn.ModuleList()
    return nn.ModuleList(DistanceTable(config) for _ in range(1 if config.relative_bias.shared_by_layers else layers))


def distance_biases(
    tables: nn.ModuleList, layers: int, positions_BT: Tensor, mask: Mask | None = None
) -> list[DistanceBias | None]:
    """One per layer; layers that share a table share the bias. For a mask that wants the matrix it is made here, once
    and before the layers, which may be compiled."""
    biases = [table(positions_BT) for table in tables] or [None]
    if not isinstance(mask, BlockMask):
        biases = [bias.as_matrix() if bias else None for bias in biases]
    return biases * layers if len(biases) == 1 else biases


class Gate(nn.Module):
    """1 + g_u + (1 - g_u) w g_r of every query: (B, H, T)."""

    def __init__(self, config: ModelConfig):
        super().__init__()
        self.config = config.relative_bias
        heads = config.heads if self.config.gate_per_head else 1
        self.u_v = nn.Parameter(torch.zeros(2, heads, config.width // config.heads))
        self.bias = nn.Parameter(torch.zeros(2, heads)) if self.config.gate_bias else None
        self.w = nn.Parameter(torch.ones(config.heads))

    def forward(self, query_BHTK: Tensor, x_BTD: Tensor) -> Tensor:
        B, H, T, K = query_BHTK.shape
        reads = query_BHTK if self.config.gate_input == "query" else x_BTD.view(B, T, H, K).transpose(1, 2)
        with torch.autocast(reads.device.type, enabled=False):  # the bias is as exact as its gate
            scores = torch.einsum("bhtk,ghk->gbht", reads.to(self.u_v.dtype), self.u_v.expand(2, H, K))
            if self.bias is not None:
                scores = scores + self.bias.expand(2, H)[:, None, :, None]
            g_u, g_r = scores.sigmoid()
            return 1 + g_u + (1 - g_u) * self.w[:, None] * g_r


def attend(
    q_BHTK: Tensor,
    k_BHTK: Tensor,
    v_BHTK: Tensor,
    mask: Mask | None,
    dropout: float = 0.0,
    bias: DistanceBias | None = None,
    gate_BHT: Tensor | None = None,
) -> Tensor:
    """softmax(q k / sqrt(K) + d gate) v over what the mask allows."""
    if isinstance(mask, BlockMask):
        assert not dropout, "FlexAttention has no dropout: give a boolean mask"
        return flexible(q_BHTK, k_BHTK, v_BHTK, mask, bias, gate_BHT)
    if isinstance(mask, Segments):
        assert bias is None, "flash attention adds nothing to its scores: give a boolean mask"
        return in_segments(q_BHTK, k_BHTK, v_BHTK, mask, dropout)
    return by_hand.attention(q_BHTK, k_BHTK, v_BHTK, mask, dropout, bias.dense_BHTT if bias else None, gate_BHT)


def flexible(
    q_BHTK: Tensor,
    k_BHTK: Tensor,
    v_BHTK: Tensor,
    mask: BlockMask,
    bias: DistanceBias | None,
    gate_BHT: Tensor | None,
) -> Tensor:
    mix = flex_attention if torch.compiler.is_dynamo_compiling() else compiled_flex_attention()
    if bias is None:
        return mix(q_BHTK, k_BHTK, v_BHTK, block_mask=mask, kernel_options=KERNEL)
    by_distance_MH, positions_BT = bias.by_distance_MH, bias.positions_BT.expand(len(q_BHTK), -1)

    def biased(score: Tensor, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        index = bias.index(positions_BT[b, k] - positions_BT[b, q])
        return score + by_distance_MH[index, h] * gate_BHT[b, h, q]

    return mix(q_BHTK, k_BHTK, v_BHTK, score_mod=biased, block_mask=mask, kernel_options=KERNEL)


@cache
def compiled_flex_attention() -> Callable[..., Tensor]:
    """On first use: the compiler takes seconds to import. In one graph: once there are too many variants it is an
    error, and not the matrix of all scores."""
    config = torch._dynamo.config
    config.recompile_limit = max(config.recompile_limit, VARIANTS)
    config.accumulated_recompile_limit = max(config.accumulated_recompile_limit, VARIANTS)
    return torch.compile(flex_attention, fullgraph=True)


def choose_kernels(device: torch.device) -> None:
    """For all of this process: no kernel that is known to be wrong, none that is slow in silence.

    cuDNN's attention, PyTorch's first choice on Hopper, finds no gradient (NaN) of a query with a mask where T % 128
    is 64 and all scores of the query are far below zero.
    """
    if device.type == "cuda":
        torch.backends.cuda.enable_cudnn_sdp(False)
        warnings.filterwarnings("error", message="flex_attention called without torch.compile")


def in_segments(q_BHTK: Tensor, k_BHTK: Tensor, v_BHTK: Tensor, mask: Segments, dropout: float) -> Tensor:
    """Flash attention over all rows as one, M = B T. On a CPU, which has no such kernel, segment by segment."""
    B, H, T, K = q_BHTK.shape
    q, k, v = (x.transpose(1, 2).reshape(B * T, H, K) for x in (q_BHTK, k_BHTK, v_BHTK))
    if q.is_cuda:
        ends, longest = mask.ends_S, mask.longest
        mixed_MHK, *_ = torch.ops.aten._flash_attention_forward(
            q, k, v, ends, ends, longest, longest, dropout, is_causal=False, return_debug_mask=False
        )
    else:
        sizes = mask.ends_S.diff().tolist()
        segments = zip(*(x.transpose(0, 1).split(sizes, dim=1) for x in (q, k, v)), strict=True)
        parts = [F.scaled_dot_product_attention(*own, dropout_p=dropout) for own in segments]
        mixed_MHK = torch.cat(parts, dim=1).transpose(0, 1)
    return mixed_MHK.reshape(B, T, H, K).transpose(1, 2)


def has_flash_attention(device: torch.device) -> bool:
    return (
        device.type == "cuda"
        and torch.backends.cuda.is_flash_attention_available()
        and torch.cuda.get_device_capability(device) >= (8, 0)
    )
