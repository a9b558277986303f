"""What a pre-trained network is put together to be.

For understanding it is the encoder alone: engine/checkpoint.load_encoder takes `encoder.` out of any run's weights and
leaves VECO's cross-attention behind. For translation it is an encoder with a decoder:

    of mBART   its own decoder; the weights have the names of Seq2Seq as they are
    of VECO    all layers as the encoder; as the decoder copies of the last (or first) few, each with its
               cross-attention between self-attention and FFN       VECO, section 2.4
    of others  fresh decoder layers

Shapes: B rows, S tokens of a source, T of a target, D width, V vocabulary.
"""

import json
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor, nn

from common.errors import UserError
from common.typed import build
from engine.checkpoint import load_weights
from engine.model import Decoder, Encoder, MaskedLanguageModelHead, numbered
from engine.shape import ModelConfig


class Seq2Seq(nn.Module):
    """An encoder and a decoder that share the embeddings of their inputs and the output matrix."""

    def __init__(self, config: ModelConfig, decoder_layers: int):
        super().__init__()
        self.encoder = Encoder(config)
        self.decoder = Decoder(config, decoder_layers)
        self.mlm_head = MaskedLanguageModelHead(config)

    def decode(self, tokens_BT: Tensor, memory_BSD: Tensor, real_BS: Tensor) -> Tensor:
        """States (B, T, D) of target tokens that see the target up to themselves, and what is real of the source."""
        T = tokens_BT.shape[1]
        causal_TT = torch.ones(T, T, dtype=torch.bool, device=tokens_BT.device).tril()
        x_BTD, positions_BT = self.encoder.embed(tokens_BT), numbered(tokens_BT)
        return self.decoder(x_BTD, positions_BT, memory_BSD, causal_TT[None, None], real_BS[:, None, None, :])

    def logits(self, states_ND: Tensor) -> Tensor:
        return self.mlm_head(states_ND, self.encoder.tokens.weight)  # (N, V)

    def forward(self, source_BS: Tensor, real_BS: Tensor, target_BT: Tensor) -> Tensor:
        """Last states (B, T, D) of the decoder; what it is to predict at each place is the caller's matter."""
        return self.decode(target_BT, self.encoder(source_BS, mask=real_BS), real_BS)


def decoder_of_veco(
    weights: dict[str, Tensor], config: ModelConfig, decoder_layers: int, which: Literal["last", "first"] = "last"
) -> dict[str, Tensor]:
    """The weights of a decoder, `decoder.`, out of those of a VECO run: its layers are the encoder's last or first."""
    if not any(name.startswith("cross_attention.") for name in weights):
        raise UserError("the weights have no cross_attention: a decoder is made of those of a run with veco-mono")
    if not 0 < decoder_layers <= config.layers:
        raise UserError(f"decoder_layers: {decoder_layers} is not between 1 and the {config.layers} of the encoder")
    layers = list(range(config.layers))
    chosen = layers[-decoder_layers:] if which == "last" else layers[:decoder_layers]
    tables = [0] if config.relative_bias and config.relative_bias.shared_by_layers else chosen
    moved = {f"encoder.blocks.{layer}.": f"decoder.blocks.{i}." for i, layer in enumerate(chosen)}
    moved |= {f"cross_attention.{layer}.": f"decoder.cross_attention.{i}." for i, layer in enumerate(chosen)}
    moved |= {f"encoder.distances.{layer}.": f"decoder.distances.{i}." for i, layer in enumerate(tables)}
    return {
        ours + name.removeprefix(theirs): tensor.clone()
        for theirs, ours in moved.items()
        for name, tensor in weights.items()
        if name.startswith(theirs)
    }


def load_seq2seq(path: str | Path) -> tuple[Seq2Seq, dict[str, str]]:
    """The network of a weights file that holds an encoder and a decoder, and the file's metadata."""
    weights, metadata = load_weights(path)
    layers = {name.split(".")[2] for name in weights if name.startswith("decoder.blocks.")}
    if "model" not in metadata or not layers:
        raise UserError(
            f"{path}: no translation model (no `model` in its metadata, or no decoder); train_translator.py"
        )
    model = Seq2Seq(build(ModelConfig, json.loads(metadata["model"]), "model"), len(layers))
    own = {name: tensor for name, tensor in weights.items() if name.split(".")[0] in ("encoder", "decoder", "mlm_head")}
    try:
        model.load_state_dict(own)
    except RuntimeError as error:
        raise UserError(f"{path}: {error}") from None
    return model, metadata
