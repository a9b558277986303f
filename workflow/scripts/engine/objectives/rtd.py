"""Replaced token detection on text of many languages (MRTD) and on translation pairs (TRTD): XLM-E, section 2.2.

A generator G fills in the masked tokens, the discriminator D (the encoder) says of every token whether it is G's.

L     = L_G + lambda L_D
L_G   = - sum_{m in M} log p_G(x_m | x without M)
L_D   = - sum_i log p_D(r_i | x with G's samples at M),   r_i = 1 where the sample is another token than x_i

Each is a mean over its own count, of selected tokens and of all tokens. The two objectives differ in their rows alone:
a pair is one document. The paper leaves open what the two networks share; here, as in COCO-LM, where its generator's
shape comes from: token and position tables and the embeddings' LayerNorm. Sampling cuts the gradient.

Shapes: N selected tokens, R real tokens (no padding) of the batch.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call

from common.errors import UserError
from engine import by_hand
from engine.attention import distance_biases, distance_tables
from engine.config import ObjectiveConfig
from engine.masks import Mask
from engine.model import Block, Encoder, MaskedLanguageModelHead, at_least_fp32, initialise
from engine.objectives.base import Batch, Loss, Objective
from engine.objectives.mlm import in_chunks
from engine.objectives.sampling import draws, evaluating, sample
from engine.shape import ModelConfig

SAMPLE = "the generator's sample"


class Generator(nn.Module):
    """Blocks, bias tables and head of its own, on the encoder's embeddings; its output matrix is the token table."""

    def __init__(self, config: ModelConfig, layers: int):
        super().__init__()
        self.blocks = nn.ModuleList(Block(config) for _ in range(layers))
        self.distances = distance_tables(config, layers)
        initialise(self, config.init_std)
        self.head = MaskedLanguageModelHead(config)

    def forward(self, x_BTD: Tensor, positions_BT: Tensor, mask: Mask) -> Tensor:
        biases = distance_biases(self.distances, len(self.blocks), positions_BT, mask)
        for block, bias in zip(self.blocks, biases, strict=True):
            x_BTD = block(x_BTD, mask, bias)
        return x_BTD


class DiscriminatorHead(nn.Module):
    """One logit per token, above zero for a replaced one: dense, GELU, linear (ELECTRA), or linear alone (COCO-LM)."""

    def __init__(self, config: ModelConfig, kind: str):
        super().__init__()
        self.kind = kind
        self.dense = nn.Linear(config.width, config.width) if kind == "dense" else None
        self.output = nn.Linear(config.width, 1)
        initialise(self, config.init_std)

    def forward(self, states_RD: Tensor) -> Tensor:
        if self.dense is not None:
            states_RD = F.gelu(self.dense(states_RD))
        return self.output(states_RD).squeeze(-1)  # (R,)


def generator_and_head(model: nn.Module, objective: ObjectiveConfig) -> dict[str, nn.Module]:
    wanted = (objective.options.generator_layers, objective.options.head)
    if hasattr(model, "generator"):
        found = (len(model.generator.blocks), model.discriminator_head.kind)
        if found != wanted:
            raise UserError(
                f"objective {objective.name}: options.generator_layers and options.head are {wanted}, but {found} in "
                "the objective before it; both train one generator and one head"
            )
        return {}
    config = model.encoder.config
    return {"generator": Generator(config, wanted[0]), "discriminator_head": DiscriminatorHead(config, wanted[1])}


def replaced_token_detection_loss(model: nn.Module, batch: Batch) -> Loss:
    mask = batch.mask()
    states_ND = generator_states(model, batch, mask)

    def predict(states_ND: Tensor, targets_N: Tensor, draws_N: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        logits_NV = generator_logits(model, states_ND)
        return *by_hand.cross_entropy(logits_NV, targets_N), sample_tokens(logits_NV, draws_N)

    parts = in_chunks(predict, states_ND, batch.targets, draws(batch, batch.selected, SAMPLE))
    generator_loss, right = (torch.stack(values).sum() for values in list(zip(*parts, strict=True))[:2])
    sampled_N = batch.extra["sampled"] if "sampled" in batch.extra else torch.cat([ids for *_, ids in parts])

    seen_BT = batch.original.flatten().index_copy(0, batch.selected, sampled_N).view_as(batch.original)
    real_R = batch.real
    replaced_R = (seen_BT != batch.original).flatten()[real_R]
    states_RD = discriminator_states(model.encoder, batch, seen_BT, mask).flatten(0, 1)[real_R]
    logits_R = at_least_fp32(model.discriminator_head(states_RD))
    discriminator_loss = F.binary_cross_entropy_with_logits(logits_R, replaced_R.to(logits_R.dtype), reduction="sum")

    found_R = logits_R.detach() > 0
    replaced, real = replaced_R.sum(), len(real_R)
    return Loss(
        {"generator_loss": generator_loss, "discriminator_loss": discriminator_loss},
        {
            "generator_accuracy": (right, len(batch.targets)),
            "replaced": (replaced, real),
            "accuracy_on_replaced": ((found_R & replaced_R).sum(), replaced),
            "accuracy_on_original": ((~found_R & ~replaced_R).sum(), real - replaced),
        },
    )


def generator_states(model: nn.Module, batch: Batch, mask: Mask) -> Tensor:
    """G's states of the selected tokens, (N, D)."""
    position_BT, languages = batch.fields.position, batch.languages(model.encoder)
    x_BTD = model.encoder.embed(batch.tokens, position_BT, batch.fields.side, languages)
    return model.generator(x_BTD, position_BT, mask).flatten(0, 1)[batch.selected]


def generator_logits(model: nn.Module, states_ND: Tensor) -> Tensor:
    """(N, V), or with rows at the end that do not count."""
    return model.generator.head(by_hand.full_rows(states_ND), model.encoder.tokens.weight)


def discriminator_states(encoder: Encoder, batch: Batch, seen_BT: Tensor, mask: Mask) -> Tensor:
    inputs = (seen_BT, batch.fields.position, mask, False, batch.fields.side, batch.languages(encoder))
    if batch.objective.options.share == "both":
        return encoder(*inputs)
    return functional_call(encoder, {"tokens.weight": encoder.tokens.weight.detach()}, inputs)


def sample_without_dropout(model: nn.Module, batch: Batch) -> None:
    if batch.objective.options.sampling == "train":
        return
    with evaluating(model.encoder, model.generator):
        states_ND = generator_states(model, batch, batch.mask())

        def predict(states_ND: Tensor, draws_N: Tensor) -> Tensor:
            return sample_tokens(generator_logits(model, states_ND), draws_N)

        parts = in_chunks(predict, states_ND, draws(batch, batch.selected, SAMPLE))
    batch.extra["sampled"] = torch.cat(parts)


def sample_tokens(logits_NV: Tensor, draws_N: Tensor) -> Tensor:
    """Any token but <mask>, which the discriminator never sees: it is the last one."""
    return sample(logits_NV[:, :-1], draws_N)


def count(batch: Batch) -> dict[str, int]:
    """Selected tokens, and all tokens, special ones included."""
    return {
        "generator_loss": len(batch.targets),
        "discriminator_loss": len(batch.real),
    }


def weights(objective: ObjectiveConfig) -> dict[str, float]:
    return {"discriminator_loss": objective.options.discriminator_weight}


MRTD = TRTD = Objective(
    replaced_token_detection_loss,
    modules=generator_and_head,
    training_only=("generator", "discriminator_head"),
    prepare=sample_without_dropout,
    count=count,
    weights=weights,
)
