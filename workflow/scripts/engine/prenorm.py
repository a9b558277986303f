"""The encoders of mBART and mT5, which normalise before each sublayer: for reading states and for fine-tuning.

                   mBART                                  mT5
    embeddings     LN(sqrt(D) tokens + positions)         tokens
    sublayer       x + f(LN(x)), with biases              x + f(x / rms(x) * g), without
    attention      softmax(q k / sqrt(K)) v               softmax(q k + d) v, K H may differ from D;
                                                          one table d by distance for all layers
    FFN            W2 gelu(W1 x)                          W2 (gelu(V x) * W1 x), gelu by tanh
    after the last layer both normalise once more

They have Encoder's interface, so that whatever evaluates or fine-tunes takes either. Nothing here is pre-trained.

Shapes: B rows, T tokens of a row, D width, H heads, K width of a head.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch.nn.functional as F
from torch import Tensor, nn

from common.errors import UserError
from engine.attention import DistanceBias, distance_biases, distance_tables
from engine.model import heads_of, initialise, numbered
from engine.shape import RelativeBias, check_sizes
from engine.tokenizer import PAD


@dataclass(frozen=True)
class PreNormConfig:
    pre_norm: str  # mbart or mt5
    layers: int
    width: int
    heads: int
    head_width: int
    ffn: int
    positions: int  # as in ModelConfig; mT5 has no table, and the longest row that it was trained on
    vocabulary: int
    dropout: float = 0.1
    attention_dropout: float = 0.0
    layer_norm_eps: float = 1e-5
    init_std: float = 0.02
    scale_embeddings: bool = False
    relative_bias: RelativeBias | None = None  # of mT5, whose bias has no gate
    token_types: ClassVar[int] = 0
    languages: ClassVar[int] = 0

    def __post_init__(self):
        check_sizes(self)
        if self.pre_norm not in ("mbart", "mt5"):
            raise UserError(f"model.pre_norm: {self.pre_norm!r} is unknown; known: mbart, mt5")
        if bool(self.relative_bias) != self.is_mt5:
            raise UserError(f"model.relative_bias: mt5 has one and mbart has none; found {self.relative_bias}")

    @property
    def is_mt5(self) -> bool:
        return self.pre_norm == "mt5"


def norm_of(config: PreNormConfig) -> nn.Module:
    return (nn.RMSNorm if config.is_mt5 else nn.LayerNorm)(config.width, eps=config.layer_norm_eps)


class PreNormAttention(nn.Module):
    def __init__(self, config: PreNormConfig):
        super().__init__()
        self.config = config
        inner, with_bias = config.heads * config.head_width, not config.is_mt5
        self.query_key_value = nn.Linear(config.width, 3 * inner, bias=with_bias)
        self.output = nn.Linear(inner, config.width, bias=with_bias)

    def forward(self, x_BTD: Tensor, mask: Tensor | None, bias: DistanceBias | None) -> Tensor:
        B, T, _ = x_BTD.shape
        q, k, v = heads_of(self.query_key_value(x_BTD), 3, self.config.heads)
        if bias is not None:
            d_BHTT = bias.dense_BHTT
            mask = (d_BHTT if mask is None else d_BHTT.masked_fill(~mask, -math.inf)).to(q.dtype)
        mixed_BHTK = F.scaled_dot_product_attention(
            q,
            k,
            v,
            attn_mask=mask,
            dropout_p=self.config.attention_dropout if self.training else 0.0,
            scale=1.0 if self.config.is_mt5 else None,
        )
        return self.output(mixed_BHTK.transpose(1, 2).reshape(B, T, -1))


class PreNormBlock(nn.Module):
    """x <- x + SelfAttention(N(x)); x <- x + FFN(N(x))."""

    def __init__(self, config: PreNormConfig):
        super().__init__()
        with_bias = not config.is_mt5
        self.attention_norm = norm_of(config)
        self.attention = PreNormAttention(config)
        self.ffn_norm = norm_of(config)
        self.up = nn.Linear(config.width, config.ffn, bias=with_bias)
        self.gate = nn.Linear(config.width, config.ffn, bias=False) if config.is_mt5 else None
        self.down = nn.Linear(config.ffn, config.width, bias=with_bias)
        self.dropout = nn.Dropout(config.dropout)

    def feed_forward(self, x_BTD: Tensor) -> Tensor:
        if self.gate is None:
            return self.down(F.gelu(self.up(x_BTD)))
        return self.down(self.dropout(F.gelu(self.gate(x_BTD), approximate="tanh") * self.up(x_BTD)))

    def forward(self, x_BTD: Tensor, mask: Tensor | None, bias: DistanceBias | None) -> Tensor:
        x_BTD = x_BTD + self.dropout(self.attention(self.attention_norm(x_BTD), mask, bias))
        return x_BTD + self.dropout(self.feed_forward(self.ffn_norm(x_BTD)))


class PreNormEncoder(nn.Module):
    def __init__(self, config: PreNormConfig):
        super().__init__()
        self.config = config
        self.language_codes: list[str] = []
        self.tokens = nn.Embedding(config.vocabulary, config.width, padding_idx=PAD)
        if not config.is_mt5:
            self.positions = nn.Embedding(config.positions, config.width, padding_idx=PAD)
            self.embedding_norm = norm_of(config)
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = nn.ModuleList(PreNormBlock(config) for _ in range(config.layers))
        self.distances = distance_tables(config, config.layers)
        self.final_norm = norm_of(config)
        initialise(self, config.init_std)

    def embed(self, tokens_BT: Tensor, positions_BT: Tensor) -> Tensor:
        x_BTD = self.tokens(tokens_BT) * (math.sqrt(self.config.width) if self.config.scale_embeddings else 1.0)
        return self.dropout(x_BTD if self.config.is_mt5 else self.embedding_norm(x_BTD + self.positions(positions_BT)))

    def forward(
        self,
        tokens_BT: Tensor,
        positions_BT: Tensor | None = None,
        mask: Tensor | None = None,
        all_layers: bool = False,
        sides_BT: Tensor | None = None,
        languages_BT: Tensor | None = None,
        added_BTD: Tensor | None = None,
        layers: int | None = None,
    ) -> Tensor | list[Tensor]:
        """As Encoder's. The state of the last layer is normalised, those of the layers before it are not."""
        if sides_BT is not None or languages_BT is not None or added_BTD is not None:
            raise ValueError("the encoders of mBART and mT5 embed tokens and positions alone")
        if mask is not None and mask.dim() == 2:
            mask = mask[:, None, None, :]
        positions_BT = numbered(tokens_BT) if positions_BT is None else positions_BT
        x_BTD = self.embed(tokens_BT, positions_BT)
        states = [x_BTD]
        biases = distance_biases(self.distances, len(self.blocks), positions_BT)
        for layer, (block, bias) in enumerate(zip(self.blocks[:layers], biases[:layers], strict=True), start=1):
            x_BTD = block(x_BTD, mask, bias)
            if layer == len(self.blocks):
                x_BTD = self.dropout(self.final_norm(x_BTD)) if self.config.is_mt5 else self.final_norm(x_BTD)
            if all_layers:
                states.append(x_BTD)
        return states if all_layers else x_BTD
