"""What a run costs: parameters and FLOPs, matrix products alone, training = 3 x forward."""

from engine.model import ModelConfig


def forward_flops_per_token(model: ModelConfig, row_length: float, selected_share: float) -> float:
    """L (24 h^2 + 4 s h) for the blocks, and the head's 2 h V + 2 h^2 at selected positions only."""
    h, s = model.width, row_length
    block = 4 * 2 * h * h + 2 * 2 * h * model.ffn + 4 * s * h
    head = 2 * h * model.vocabulary + 2 * h * h
    return model.layers * block + selected_share * head


def training_flops(model: ModelConfig, tokens: float, row_length: float, selected_share: float) -> float:
    return 3 * tokens * forward_flops_per_token(model, row_length, selected_share)
