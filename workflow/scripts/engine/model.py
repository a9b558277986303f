"""Post-LN Transformer encoder of the BERT / XLM-R lineage, and its masked-language-model head.

Shapes: B rows, T tokens of a row, D width, H heads, K = D / H, N selected positions, V vocabulary.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from engine import by_hand
from engine.attention import DistanceBias, Gate, attend, distance_biases, distance_tables
from engine.masks import Mask
from engine.shape import ModelConfig
from engine.tokenizer import PAD

FIRST_POSITION = PAD + 1  # XLM-R numbers the first token of a row 2 and keeps row 1 of the table for padding


def heads_of(x_BTD: Tensor, parts: int, heads: int) -> tuple[Tensor, ...]:
    """`parts` tensors (B, H, T, K) out of one projection. Cut along it first: their gradients are then joined as it
    lies in memory, and not copied once more."""
    B, T, D = x_BTD.shape
    return tuple(part.transpose(1, 2) for part in x_BTD.view(B, T, parts, heads, D // parts // heads).unbind(2))


class SelfAttention(nn.Module):
    def __init__(self, config: ModelConfig):
        super().__init__()
        self.heads = config.heads
        self.dropout = config.attention_dropout
        self.query_key_value = nn.Linear(config.width, 3 * config.width)
        self.output = nn.Linear(config.width, config.width)
        self.gate = Gate(config) if config.relative_bias else None

    def forward(self, x_BTD: Tensor, mask: Mask | None, distance_bias: DistanceBias | None = None) -> Tensor:
        B, T, D = x_BTD.shape
        q, k, v = heads_of(self.query_key_value(x_BTD), 3, self.heads)
        gate_BHT = self.gate(q, x_BTD) if self.gate else None
        dropout = self.dropout if self.training else 0.0
        mixed_BHTK = attend(q, k, v, mask, dropout, distance_bias, gate_BHT)
        return self.output(mixed_BHTK.transpose(1, 2).reshape(B, T, D))


class ResidualNorm(nn.LayerNorm):
    """LN(x + f), as every sublayer ends; with Admin LN(x * omega + f), omega = 1 until engine/admin.py sets it."""

    def __init__(self, config: ModelConfig):
        super().__init__(config.width, eps=config.layer_norm_eps)
        self.residual = nn.Parameter(torch.ones(config.width)) if config.admin else None

    def forward(self, x_BTD: Tensor, f_BTD: Tensor) -> Tensor:
        if self.residual is not None:
            x_BTD = x_BTD * self.residual
        return super().forward(x_BTD + f_BTD)


class Block(nn.Module):
    """x <- LN(x + SelfAttention(x)); x <- LN(x + FFN(x))."""

    def __init__(self, config: ModelConfig):
        super().__init__()
        self.attention = SelfAttention(config)
        self.attention_norm = ResidualNorm(config)
        self.up = nn.Linear(config.width, config.ffn)
        self.down = nn.Linear(config.ffn, config.width)
        self.ffn_norm = ResidualNorm(config)
        self.dropout = nn.Dropout(config.dropout)

    def self_attend(self, x_BTD: Tensor, mask: Mask | None, distance_bias: DistanceBias | None = None) -> Tensor:
        return self.attention_norm(x_BTD, self.dropout(self.attention(x_BTD, mask, distance_bias)))

    def feed_forward(self, x_BTD: Tensor) -> Tensor:
        return self.ffn_norm(x_BTD, self.dropout(self.down(F.gelu(self.up(x_BTD)))))

    def forward(self, x_BTD: Tensor, mask: Mask | None, distance_bias: DistanceBias | None = None) -> Tensor:
        return self.feed_forward(self.self_attend(x_BTD, mask, distance_bias))


class CrossAttention(nn.Module):
    """x <- LN(x + Attention(query = x, key = value = memory)): what a decoder block has besides."""

    def __init__(self, config: ModelConfig):
        super().__init__()
        self.heads = config.heads
        self.attention_dropout = config.attention_dropout
        self.query = nn.Linear(config.width, config.width)
        self.key_value = nn.Linear(config.width, 2 * config.width)
        self.output = nn.Linear(config.width, config.width)
        self.norm = ResidualNorm(config)
        self.dropout = nn.Dropout(config.dropout)
        initialise(self, config.init_std)

    def forward(self, x_BTD: Tensor, memory_BSD: Tensor, mask: Mask | None) -> Tensor:
        B, T, D = x_BTD.shape
        q_BHTK = self.query(x_BTD).view(B, T, self.heads, -1).transpose(1, 2)
        k, v = heads_of(self.key_value(memory_BSD), 2, self.heads)
        dropout = self.attention_dropout if self.training else 0.0
        mixed_BHTK = attend(q_BHTK, k, v, mask, dropout)
        return self.norm(x_BTD, self.dropout(self.output(mixed_BHTK.transpose(1, 2).reshape(B, T, D))))


def decode(
    blocks: Sequence[Block],
    cross_attention: Sequence[CrossAttention],
    x_BTD: Tensor,
    memory_BSD: Tensor,
    self_mask: Mask | None,
    cross_mask: Mask | None,
    biases: Sequence[DistanceBias | None],
) -> Tensor:
    """Blocks as a decoder: each reads the memory between its self-attention and its FFN. All layers, one memory."""
    for block, cross, bias in zip(blocks, cross_attention, biases, strict=True):
        x_BTD = cross(block.self_attend(x_BTD, self_mask, bias), memory_BSD, cross_mask)
        x_BTD = block.feed_forward(x_BTD)
    return x_BTD


class Decoder(nn.Module):
    """Decoder blocks of their own. The tokens are embedded by the encoder, whose table is the output too."""

    def __init__(self, config: ModelConfig, layers: int):
        super().__init__()
        self.blocks = nn.ModuleList(Block(config) for _ in range(layers))
        self.cross_attention = nn.ModuleList(CrossAttention(config) for _ in range(layers))
        self.distances = distance_tables(config, layers)
        initialise(self, config.init_std)

    def forward(
        self,
        x_BTD: Tensor,
        positions_BT: Tensor,
        memory_BSD: Tensor,
        self_mask: Mask | None,
        cross_mask: Mask | None,
    ) -> Tensor:
        biases = distance_biases(self.distances, len(self.blocks), positions_BT, self_mask)
        return decode(self.blocks, self.cross_attention, x_BTD, memory_BSD, self_mask, cross_mask, biases)


class Encoder(nn.Module):
    def __init__(self, config: ModelConfig):
        super().__init__()
        self.config = config
        self.language_codes: list[str] = []  # of the rows of `languages`; a weights file says them
        self.tokens = nn.Embedding(config.vocabulary, config.width, padding_idx=PAD)
        if config.absolute_positions:
            self.positions = nn.Embedding(config.positions, config.width, padding_idx=PAD)
        if config.token_types:
            self.token_types = nn.Embedding(config.token_types, config.width)
        if config.languages:
            self.languages = nn.Embedding(config.languages, config.width)
        self.embedding_norm = nn.LayerNorm(config.width, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.distances = distance_tables(config, config.layers)
        initialise(self, config.init_std)

    def embed(
        self,
        tokens_BT: Tensor,
        positions_BT: Tensor | None = None,
        sides_BT: Tensor | None = None,
        languages_BT: Tensor | None = None,
        added_BTD: Tensor | None = None,
    ) -> Tensor:
        """LN of the sum of all embeddings (B, T, D). `added_BTD` is what an objective adds of its own."""
        x_BTD = self.tokens(tokens_BT)
        if self.config.absolute_positions:
            x_BTD = x_BTD + self.positions(numbered(tokens_BT) if positions_BT is None else positions_BT)
        if self.config.token_types:
            x_BTD = x_BTD + self.token_types(torch.zeros_like(tokens_BT) if sides_BT is None else sides_BT.long())
        if self.config.languages:
            if languages_BT is None:
                raise ValueError("a model with language embeddings must be told the language of each token")
            x_BTD = x_BTD + self.languages(languages_BT.long())
        if added_BTD is not None:
            x_BTD = x_BTD + added_BTD
        return self.dropout(self.embedding_norm(x_BTD))

    def forward(
        self,
        tokens_BT: Tensor,
        positions_BT: Tensor | None = None,
        mask: Mask | None = None,
        all_layers: bool = False,
        sides_BT: Tensor | None = None,
        languages_BT: Tensor | None = None,
        added_BTD: Tensor | None = None,
        layers: int | None = None,
    ) -> Tensor | list[Tensor]:
        """Last-layer states (B, T, D), or with all_layers the list [embeddings, layer 1, ..., layer L].

        layers: run only so many of them, 0 for the embeddings.
        mask: None, or real tokens as bool (B, T), or allowed[query, key] as bool (B, 1, T, T), or a block mask.
        """
        if isinstance(mask, Tensor) and mask.dim() == 2:
            mask = mask[:, None, None, :]
        x_BTD = self.embed(tokens_BT, positions_BT, sides_BT, languages_BT, added_BTD)
        states = [x_BTD]
        positions_BT = numbered(tokens_BT) if positions_BT is None else positions_BT
        biases = distance_biases(self.distances, len(self.blocks), positions_BT, mask)
        for block, bias in zip(self.blocks[:layers], biases[:layers], strict=True):
            x_BTD = block(x_BTD, mask, bias)
            if all_layers:
                states.append(x_BTD)
        return states if all_layers else x_BTD


def numbered(tokens_BT: Tensor) -> Tensor:
    """(1, T) positions of rows that begin at the first position."""
    return (torch.arange(tokens_BT.shape[1], device=tokens_BT.device) + FIRST_POSITION)[None]


class MaskedLanguageModelHead(nn.Module):
    """dense, GELU, LayerNorm, then the token table as the output matrix (tied) and a bias; for selected states only."""

    def __init__(self, config: ModelConfig):
        super().__init__()
        self.dense = nn.Linear(config.width, config.width)
        self.norm = nn.LayerNorm(config.width, eps=config.layer_norm_eps)
        self.bias = nn.Parameter(torch.zeros(config.vocabulary))
        initialise(self, config.init_std)

    def forward(self, states_ND: Tensor, token_table_VD: Tensor) -> Tensor:
        states_ND = self.norm(F.gelu(self.dense(states_ND)))
        return over_vocabulary(states_ND, token_table_VD, self.bias)  # (N, V)

    def cross_entropy(self, states_ND: Tensor, token_table_VD: Tensor, targets_N: Tensor) -> tuple[Tensor, Tensor]:
        """Summed, in fp32 at least, and the number of right guesses. One function: compiled, (N, V) is read twice and
        not ten times."""
        return by_hand.cross_entropy(self(by_hand.full_rows(states_ND), token_table_VD), targets_N)


def columns_of(device: torch.device) -> int:
    """250,002 pieces are no multiple of 8, and in bf16 cuBLAS then multiplies on an H100 as on an A100: 14 ms of the 95
    of a step (docs/gpu.md)."""
    return 64 if device.type == "cuda" else 1


def over_vocabulary(states_ND: Tensor, table_VD: Tensor, bias_V: Tensor) -> Tensor:
    """states table' + bias. Of a training in mixed precision on a GPU with rows of zeros below the table; elsewhere to
    write it down anew would take longer than it spares."""
    V, device = len(table_VD), states_ND.device
    missing = -V % columns_of(device)
    if not missing or not torch.is_grad_enabled() or not torch.is_autocast_enabled(device.type):
        return F.linear(states_ND, table_VD, bias_V)
    table_VD = F.pad(table_VD.to(torch.get_autocast_dtype(device.type)), (0, 0, 0, missing))
    return F.linear(states_ND, table_VD, F.pad(bias_V, (0, missing)))[:, :V]


def at_least_fp32(logits: Tensor) -> Tensor:
    return logits if logits.dtype == torch.float64 else logits.float()


class _Undrawn(TorchFunctionMode):
    """Leaves out torch's own initialisations."""

    def __torch_function__(self, function: Callable, types: tuple, args: tuple = (), kwargs: dict | None = None) -> Any:
        kwargs = kwargs or {}
        if getattr(function, "__module__", None) == nn.init.__name__:
            return kwargs["tensor"] if "tensor" in kwargs else args[0]
        return function(*args, **kwargs)


@contextmanager
def shapes_alone() -> Iterator[None]:
    """Models without memory and numbers, on the meta device. To draw none torch would import its compiler there,
    a second of every job that loads weights."""
    with torch.device("meta"), _Undrawn():
        yield


def initialise(module: nn.Module, std: float) -> None:
    """BERT's initialisation: N(0, std) matrices, zero biases, unit LayerNorms, zero padding rows."""
    if any(weight.is_meta for weight in module.parameters()):
        return  # who asks for shapes alone needs no weights drawn
    for part in module.modules():
        if isinstance(part, nn.Linear):
            nn.init.normal_(part.weight, std=std)
            if part.bias is not None:
                nn.init.zeros_(part.bias)
        elif isinstance(part, nn.Embedding):
            nn.init.normal_(part.weight, std=std)
            if part.padding_idx is not None:
                with torch.no_grad():
                    part.weight[part.padding_idx].zero_()
