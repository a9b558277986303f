"""Post-LN Transformer encoder of the BERT / XLM-R lineage, and its masked-language-model head.

Shapes: B rows, T tokens of a row, D width, H heads, K = D / H, N selected positions, V vocabulary.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engine.tokenizer import PAD
from errors import UserError

FIRST_POSITION = PAD + 1  # XLM-R numbers the first token of a row 2 and keeps row 1 of the table for padding


@dataclass(frozen=True)
class ModelConfig:
    layers: int
    width: int
    heads: int
    ffn: int
    positions: int  # rows of the position table: the longest row + 2
    vocabulary: int = 0  # filled in from the tokenizer
    dropout: float = 0.1
    attention_dropout: float = 0.1
    layer_norm_eps: float = 1e-5
    init_std: float = 0.02

    def __post_init__(self):
        if self.width % self.heads:
            raise UserError(f"model.heads: {self.heads} does not divide model.width {self.width}")


class SelfAttention(nn.Module):
    def __init__(self, config: ModelConfig):
        super().__init__()
        self.heads = config.heads
        self.dropout = config.attention_dropout
        self.query_key_value = nn.Linear(config.width, 3 * config.width)
        self.output = nn.Linear(config.width, config.width)

    def forward(self, x_BTD: Tensor, allowed: Tensor | None) -> Tensor:
        B, T, D = x_BTD.shape
        q, k, v = self.query_key_value(x_BTD).view(B, T, 3, self.heads, D // self.heads).permute(2, 0, 3, 1, 4)
        dropout = self.dropout if self.training else 0.0
        mixed_BHTK = F.scaled_dot_product_attention(q, k, v, attn_mask=allowed, dropout_p=dropout)
        return self.output(mixed_BHTK.transpose(1, 2).reshape(B, T, D))


class Block(nn.Module):
    """x <- LN(x + SelfAttention(x)); x <- LN(x + FFN(x))."""

    def __init__(self, config: ModelConfig):
        super().__init__()
        self.attention = SelfAttention(config)
        self.attention_norm = nn.LayerNorm(config.width, eps=config.layer_norm_eps)
        self.up = nn.Linear(config.width, config.ffn)
        self.down = nn.Linear(config.ffn, config.width)
        self.ffn_norm = nn.LayerNorm(config.width, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x_BTD: Tensor, allowed: Tensor | None) -> Tensor:
        x_BTD = self.attention_norm(x_BTD + self.dropout(self.attention(x_BTD, allowed)))
        return self.ffn_norm(x_BTD + self.dropout(self.down(F.gelu(self.up(x_BTD)))))


class Encoder(nn.Module):
    def __init__(self, config: ModelConfig):
        super().__init__()
        self.config = config
        self.tokens = nn.Embedding(config.vocabulary, config.width, padding_idx=PAD)
        self.positions = nn.Embedding(config.positions, config.width, padding_idx=PAD)
        self.embedding_norm = nn.LayerNorm(config.width, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        initialise(self, config.init_std)

    def forward(
        self,
        tokens_BT: Tensor,
        positions_BT: Tensor | None = None,
        mask: Tensor | None = None,
        all_layers: bool = False,
    ) -> Tensor | list[Tensor]:
        """Last-layer states (B, T, D), or with all_layers the list [embeddings, layer 1, ..., layer L].

        mask: None, or real tokens as bool (B, T), or allowed[query, key] as bool (B, 1, T, T).
        """
        if positions_BT is None:
            positions_BT = (torch.arange(tokens_BT.shape[1], device=tokens_BT.device) + FIRST_POSITION)[None]
        allowed = mask[:, None, None, :] if mask is not None and mask.dim() == 2 else mask
        x_BTD = self.dropout(self.embedding_norm(self.tokens(tokens_BT) + self.positions(positions_BT)))
        states = [x_BTD]
        for block in self.blocks:
            x_BTD = block(x_BTD, allowed)
            if all_layers:
                states.append(x_BTD)
        return states if all_layers else x_BTD


class MaskedLanguageModelHead(nn.Module):
    """dense, GELU, LayerNorm, then the token table as the output matrix (tied) and a bias; for selected states only."""

    def __init__(self, config: ModelConfig):
        super().__init__()
        self.dense = nn.Linear(config.width, config.width)
        self.norm = nn.LayerNorm(config.width, eps=config.layer_norm_eps)
        self.bias = nn.Parameter(torch.zeros(config.vocabulary))
        initialise(self, config.init_std)

    def forward(self, states_ND: Tensor, token_table_VD: Tensor) -> Tensor:
        return F.linear(self.norm(F.gelu(self.dense(states_ND))), token_table_VD, self.bias)  # (N, V)


def initialise(module: nn.Module, std: float) -> None:
    """BERT's initialisation: N(0, std) matrices, zero biases, unit LayerNorms, zero padding rows."""
    for part in module.modules():
        if isinstance(part, nn.Linear):
            nn.init.normal_(part.weight, std=std)
            nn.init.zeros_(part.bias)
        elif isinstance(part, nn.Embedding):
            nn.init.normal_(part.weight, std=std)
            with torch.no_grad():
                part.weight[PAD].zero_()
