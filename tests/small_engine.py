"""Tiny models and batches for the tests of the engine, with the embeddings' activations at hand."""

import dataclasses

import torch
from torch import Tensor

from engine.assembly import Seq2Seq
from engine.config import BatchConfig, ObjectiveConfig, OptimizerConfig, RunConfig, ScheduleConfig
from engine.data import Mixture
from engine.dist import Ranks
from engine.model import Encoder
from engine.objectives.base import Batch
from engine.shape import ModelConfig
from small_corpus import VOCABULARY
from training.assembly import PretrainingModel, next_batches

CONFIG = ModelConfig(3, 16, 2, 32, 60, VOCABULARY, dropout=0.0, attention_dropout=0.0, init_std=0.2)


def run_of(*objectives: ObjectiveConfig, device_rows: int = 99, **model: object) -> RunConfig:
    return RunConfig(
        name="test",
        data={},
        model=dataclasses.replace(CONFIG, **model),
        objectives=objectives,
        batch=BatchConfig(rows=8, row_length=32, device_rows=device_rows),
        optimizer=OptimizerConfig(peak_lr=1e-2),
        schedule=ScheduleConfig(steps=10, warmup_steps=1),
    )


def model_of(run: RunConfig, seed: int = 1) -> PretrainingModel:
    torch.manual_seed(seed)
    return PretrainingModel(run).eval()


def batches_of(own: Mixture, objective: ObjectiveConfig, step: int = 1, **options: object) -> list[Batch]:
    return next_batches(run_of(objective, **options), objective, own, Ranks(), step)


def watch_embeddings(encoder: Encoder) -> list[Tensor]:
    """The activations after the embedding's LayerNorm of every pass from now on, to differentiate with respect to:
    the tables are tied, so their own gradients say nothing about who saw whom."""
    seen: list[Tensor] = []

    def note(_module: torch.nn.Module, _inputs: tuple, output: Tensor) -> Tensor:
        output = output if output.requires_grad else output.requires_grad_()
        seen.append(output)
        return output

    encoder.embedding_norm.register_forward_hook(note)
    return seen


def seq2seq(vocabulary: int, seed: int = 0, std: float = 0.5, **changes) -> Seq2Seq:
    torch.manual_seed(seed)
    model = Seq2Seq(ModelConfig(2, 16, 2, 32, 30, vocabulary, init_std=std, **changes), 2)
    rng = torch.Generator().manual_seed(seed)
    with torch.no_grad():  # sharper than a new model is, so that searches differ
        model.mlm_head.bias.normal_(generator=rng)
        for name, weight in model.named_parameters():
            if name.endswith(".residual"):
                weight.uniform_(0.5, 2.0, generator=rng)
    return model.eval()
