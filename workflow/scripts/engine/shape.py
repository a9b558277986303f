"""The shape of a model, as a run or a file of weights says it."""

from dataclasses import dataclass

from common.errors import UserError

# The least and the most of what a shape says; more has no encoder, and no memory would hold it.
SIZES = {
    "layers": (0, 1000),
    "width": (1, 10**6),
    "heads": (1, 10**4),
    "head_width": (1, 10**6),
    "ffn": (1, 10**6),
    "positions": (3, 10**6),
    "vocabulary": (0, 10**7),
    "dropout": (0, 1),
    "attention_dropout": (0, 1),
    "layer_norm_eps": (0, 1),
    "init_std": (0, 10),
    "token_types": (0, 10**4),
    "languages": (0, 10**4),
}


def check_sizes(config: object) -> None:
    for name, value in vars(config).items():
        low, high = SIZES.get(name, (None, None))
        if low is not None and not low <= value <= high:
            raise UserError(f"model.{name}: {value} is not between {low:,} and {high:,}")


@dataclass(frozen=True)
class RelativeBias:
    """Gated relative position bias (XLM-E); engine/attention.py has the equations and the reasons of the defaults."""

    buckets: int = 32
    max_distance: int = 128
    gate_input: str = "query"  # or hidden: the layer's raw input, split into heads
    gate_bias: bool = False
    gate_per_head: bool = False
    shared_by_layers: bool = True

    def __post_init__(self):
        if self.gate_input not in ("query", "hidden"):
            raise UserError(f"model.relative_bias.gate_input: `{self.gate_input}` is unknown; known: query, hidden")
        if self.buckets < 4 or self.buckets % 4:
            raise UserError(f"model.relative_bias.buckets: {self.buckets} is not a multiple of 4")
        if self.max_distance <= self.buckets // 4:
            raise UserError(
                f"model.relative_bias.max_distance: {self.max_distance} is not above the {self.buckets // 4} "
                "distances that have buckets of their own; raise it or lower buckets"
            )


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
    absolute_positions: bool = True
    token_types: int = 0  # 2 in mBERT: which side of a pair a token is on
    languages: int = 0  # 15 in XLM: a vector per language, added to every token
    relative_bias: RelativeBias | None = None
    admin: bool = False  # residuals of learned size, set before training: for very deep models (engine/admin.py)

    def __post_init__(self):
        check_sizes(self)
        if self.width % self.heads:
            raise UserError(f"model.heads: {self.heads} does not divide model.width {self.width}")
