"""Every mix of objectives, and its training in this process."""

import argparse
import json
from pathlib import Path

import torch
from safetensors.torch import load_file

import pretrain
from small_corpus import write_run
from small_training import command

STEPS = 20
ALL_MASKED = {"mask": 1.0, "random": 0.0, "keep": 0.0}
ERNIE_M = [
    {"name": "mmlm"},
    {"name": "btmlm", "options": {"start_share": 0.3}},
    {"name": "camlm", "mask": ALL_MASKED},
    {"name": "tlm"},
]
MIXES: dict[str, dict] = {
    "mbert": {"objectives": [{"name": "nsp", "pair_separators": 1}], "model": {"token_types": 2}},
    "xlm": {
        "objectives": [{"name": "mmlm"}, {"name": "tlm", "reset_positions": True}],
        "schedule": {"alternate": True},
        "model": {"languages": 3},
    },
    "ernie-m": {"objectives": ERNIE_M},
    "ernie-m-append-sample": {
        "objectives": [
            {"name": "btmlm", "options": {"decoding": "sample", "placement": "scattered", "languages": "all"}},
            {"name": "camlm", "mask": ALL_MASKED, "options": {"masks": "append", "siblings": True}},
        ]
    },
    "xlm-e": {
        "objectives": [
            {"name": "mrtd", "mask": ALL_MASKED, "options": {"generator_layers": 1}},
            {"name": "trtd", "mask": ALL_MASKED, "pair_separators": 1, "options": {"generator_layers": 1}},
        ],
        "model": {"relative_bias": {}},
    },
    "veco": {
        "objectives": [{"name": "veco-mono"}, {"name": "veco-pairs", "mask": {"rate": 0.25}}],
        "schedule": {"alternate": True, "first": {"steps": 5, "train": ["cross_attention"], "warmup_steps": 2}},
    },
    "ppa": {
        "objectives": [{"name": "ppa", "pair_separators": 1, "options": {"queue": 64, "momentum": 0.9}}],
        "model": {"token_types": 2},
    },
    "infoxlm": {
        "objectives": [
            {"name": "mmlm"},
            {"name": "tlm", "pair_separators": 1},
            {"name": "xlco", "options": {"queue": 64, "momentum": 0.9, "layer": 1}},
        ]
    },
    "xlm-align": {
        "objectives": [{"name": "mmlm"}, {"name": "dwa", "pair_separators": 1, "options": {"layer": 1}}],
    },
    "unicoder": {
        "objectives": [
            {"name": "mmlm"},
            {"name": "word-recovery"},
            {"name": "paraphrase"},
            {"name": "cross-lingual-mlm"},
        ]
    },
    "alm": {"objectives": [{"name": "code-switch"}]},
    "hictl": {"objectives": [{"name": "hictl"}]},
    "mbart": {"objectives": [{"name": "denoising", "options": {"decoder_layers": 2}}]},
    "mt5": {"objectives": [{"name": "spans", "options": {"decoder_layers": 2}}]},
}


def mixed(objectives: list[dict]) -> list[dict]:
    """Shares of a mask spec must sum to one: a test names those that it changes."""
    whole = {"rate": 0.15, "mask": 0.8, "random": 0.1, "keep": 0.1}
    return [objective | {"mask": whole | objective.get("mask", {})} for objective in objectives]


def write(folder: Path, mix: dict, **changes: object) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    write_run(folder / "run.yaml", steps=STEPS, **(mix | {"objectives": mixed(mix["objectives"])} | changes))


def arguments(corpus: Path, folder: Path) -> argparse.Namespace:
    return pretrain.make_parser("").parse_args(command(corpus, folder)[2:])


def train(corpus: Path, folder: Path, mix: dict, **changes: object) -> tuple[list[dict], dict[str, torch.Tensor]]:
    write(folder, mix, **changes)
    torch.set_num_threads(1)
    assert pretrain.pretrain(arguments(corpus, folder)) == 0
    return log(folder), load_file(folder / "model.safetensors")


def log(folder: Path) -> list[dict]:
    rows = [json.loads(line) for line in (folder / "train.jsonl").read_text().splitlines()]
    return [{name: value for name, value in row.items() if name != "tokens_per_second"} for row in rows]
