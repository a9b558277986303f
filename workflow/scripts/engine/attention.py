"""Attention with an optional gated relative position bias (XLM-E, section 2.3 and appendix).

    a_ij ~ exp(q_i . k_j / sqrt(d_k) + r_ij),   r_ij = d_{i-j} (1 + g_u + (1 - g_u) w g_r)
    g_u = sigmoid(q_i . u),  g_r = sigmoid(q_i . v)

The paper leaves open where the gates read, what is shared and how distances are bucketed. Here: the projected, unscaled
query; u and v per layer and shared by heads, w per head; one table d per network, a column per head; T5's 32
logarithmic buckets up to distance 128, the two directions apart. Public code of the same authors (WavLM, BEATs) writes
d (2 + a (b w - 1)) with two sigmoids a, b: the same function with the sign of u turned.

Shapes: B rows, H heads, T tokens, K = D / H, S buckets.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention.flex_attention import BlockMask, flex_attention

from engine.attention_rules import Mask

if TYPE_CHECKING:
    from engine.model import ModelConfig


@dataclass
class DistanceBias:
    """d of one table, and the bucket of every (query, key) of the batch."""

    table_SH: Tensor
    positions_BT: Tensor
    buckets: int
    max_distance: int

    def buckets_of(self, distance: Tensor) -> Tensor:
        return distance_bucket(distance, self.buckets, self.max_distance)

    def dense(self) -> Tensor:
        """(B, H, T, T), of key position - query position."""
        distance_BTT = self.positions_BT[:, None, :] - self.positions_BT[:, :, None]
        return self.table_SH[self.buckets_of(distance_BTT)].permute(0, 3, 1, 2)


def distance_bucket(distance: Tensor, buckets: int, max_distance: int) -> Tensor:
    """T5's: half of the buckets for each direction; half of those exact, the rest logarithmic up to max_distance."""
    half = buckets // 2
    exact = half // 2
    far = distance.abs()
    scale = (half - exact) / math.log(max_distance / exact)
    logarithmic = exact + ((far.clamp(min=1).double() / exact).log() * scale).long()
    bucket = torch.where(far < exact, far, logarithmic.clamp(max=half - 1))
    return bucket + half * (distance > 0)


class DistanceTable(nn.Module):
    def __init__(self, config: "ModelConfig"):
        super().__init__()
        self.bias = config.relative_bias
        self.table = nn.Embedding(self.bias.buckets, config.heads)

    def forward(self, positions_BT: Tensor) -> DistanceBias:
        return DistanceBias(self.table.weight, positions_BT, self.bias.buckets, self.bias.max_distance)


class Gate(nn.Module):
    """1 + g_u + (1 - g_u) w g_r of every query: (B, H, T)."""

    def __init__(self, config: "ModelConfig"):
        super().__init__()
        self.config = config.relative_bias
        heads = config.heads if self.config.gate_per_head else 1
        self.u_v = nn.Parameter(torch.zeros(2, heads, config.width // config.heads))
        self.bias = nn.Parameter(torch.zeros(2, heads)) if self.config.gate_bias else None
        self.w = nn.Parameter(torch.ones(config.heads))

    def forward(self, query_BHTK: Tensor, x_BTD: Tensor) -> Tensor:
        B, H, T, K = query_BHTK.shape
        reads = query_BHTK if self.config.gate_input == "query" else x_BTD.view(B, T, H, K).transpose(1, 2)
        scores = torch.einsum("bhtk,ghk->gbht", reads, self.u_v.expand(2, H, K))
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
    if bias is not None:
        added_BHTT = bias.dense() * gate_BHT[..., None]
        mask = (added_BHTT if mask is None else added_BHTT.masked_fill(~mask, -math.inf)).to(q_BHTK.dtype)
    return F.scaled_dot_product_attention(q_BHTK, k_BHTK, v_BHTK, attn_mask=mask, dropout_p=dropout)


def flexible(q_BHTK, k_BHTK, v_BHTK, mask: BlockMask, bias: DistanceBias | None, gate_BHT: Tensor | None) -> Tensor:
    if bias is None:
        return compiled_flex_attention()(q_BHTK, k_BHTK, v_BHTK, block_mask=mask)
    table_SH, positions_BT = bias.table_SH, bias.positions_BT

    def biased(score: Tensor, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        distance = positions_BT[b, k] - positions_BT[b, q]
        return score + table_SH[bias.buckets_of(distance), h] * gate_BHT[b, h, q]

    return compiled_flex_attention()(q_BHTK, k_BHTK, v_BHTK, score_mod=biased, block_mask=mask)


@cache
def compiled_flex_attention() -> Callable[..., Tensor]:
    return torch.compile(flex_attention)  # on first use: the compiler takes seconds to import
