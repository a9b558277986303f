"""Models of transformers, small and at random."""

import pytest
import torch
from torch import nn

transformers = pytest.importorskip("transformers", reason="install tests/requirements.txt (make test does)")

VOCABULARY, WIDTH, POSITIONS = 60, 32, 40
SHAPE = {
    "vocab_size": VOCABULARY,
    "hidden_size": WIDTH,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 3 * WIDTH,
    "max_position_embeddings": POSITIONS,
}
MBART = {"encoder_layers": 3, "encoder_attention_heads": 4, "encoder_ffn_dim": 96, "scale_embedding": True}
MBART |= {"decoder_layers": 1, "decoder_attention_heads": 2, "decoder_ffn_dim": 32, "d_model": WIDTH}
MT5 = {"num_layers": 3, "num_heads": 3, "d_kv": 10, "d_ff": 96, "num_decoder_layers": 1, "d_model": WIDTH}
CONFIGS = {
    "XLMRoberta": lambda **more: transformers.XLMRobertaConfig(**SHAPE | {"type_vocab_size": 1} | more),
    "Bert": lambda **more: transformers.BertConfig(**SHAPE | more),
    "Electra": lambda **more: transformers.ElectraConfig(**SHAPE | {"embedding_size": WIDTH} | more),
    "MBart": lambda **more: transformers.MBartConfig(
        **{"vocab_size": VOCABULARY, "max_position_embeddings": POSITIONS} | MBART | more
    ),
    "MT5": lambda **more: transformers.MT5Config(
        **{"vocab_size": VOCABULARY, "relative_attention_max_distance": 12, "relative_attention_num_buckets": 8}
        | MT5
        | more
    ),
}


def made(name: str, seed: int = 1, **more: object) -> nn.Module:
    """A model of theirs in which no weight is zero, one or like another; padding rows too."""
    family = next(family for family in CONFIGS if name.startswith(family))
    torch.manual_seed(seed)
    model = getattr(transformers, name)(CONFIGS[family](**more)).eval()
    unsettle(model)
    return model


def unsettle(model: nn.Module) -> None:
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() > 1:
                weight.normal_(std=0.15)
            else:
                weight.copy_((weight == 1).float() + 0.2 * torch.randn_like(weight))
