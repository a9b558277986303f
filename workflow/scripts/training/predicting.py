"""What predictions and translations say of themselves, and the decoding that both kinds of jobs need."""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace

from torch import Tensor

from corpus.characters import normalise
from engine.assembly import Seq2Seq
from engine.beam import translate_rows
from engine.model import Encoder
from engine.rows import sentence_rows
from engine.tokenizer import Tokenizer
from tasks.recipe import Recipe
from training.finetuning import longest_row


@dataclass
class Centre:
    """What centred retrieval takes from its sentence pairs."""

    means: dict[str, tuple[Tensor, Tensor]]  # language: of its sentences, and of their English; (layers, D) in fp64
    layer: int
    described: dict


def describe(
    args: SimpleNamespace,
    recipe: Recipe,
    encoder: Encoder,
    metadata: dict[str, str],
    centre: Centre | None,
    languages: dict,
) -> dict:
    pretrain_seed = metadata.get("pretrain_seed", metadata.get("seed"))
    layer = None if recipe.recipe.layer is None else recipe.recipe.layer_of(encoder.config.layers)
    return {
        "run": args.run,
        "scale": args.scale,
        "seed": args.seed,
        "pretrain_seed": int(pretrain_seed) if pretrain_seed else None,
        "task": recipe.task,
        "task_version": recipe.version,
        "setting": recipe.setting,
        "recipe": recipe.recipe.name,
        "max_length": longest_row(recipe, encoder),
        "split": "test",
        "run_hash": metadata.get("run_hash"),
        "commit": metadata.get("commit"),
        "dtype": str(next(encoder.parameters()).dtype).removeprefix("torch."),
        "layers": encoder.config.layers,
        "layer": centre.layer if centre else layer,
        **({"centred": centre.described} if centre else {}),
        "selection": json.loads(metadata["selection"]) if "selection" in metadata else None,
        "languages": languages,
    }


def translate_lines(
    model: Seq2Seq,
    tokenizer: Tokenizer,
    lines: Sequence[str],
    longest: int,
    beam: int,
    penalty: float,
    batch_rows: int,
    device: str,
) -> list[str]:
    """A line for each line: an empty one for an empty one. The text is normalised as that of training was, and a source
    of more than `longest` tokens with its two marks is cut."""
    texts = [normalise(line) for line in lines]
    asked = [number for number, text in enumerate(texts) if text]
    rows = sentence_rows(tokenizer, [texts[number] for number in asked], longest + 1)
    for number, row in zip(asked, rows, strict=True):
        if len(row) > longest:
            row[longest - 1 :] = row[-1:]
            print(f"line {number + 1}: longer than {longest - 2} pieces, cut there", file=sys.stderr)
    said = [""] * len(texts)
    for number, ids in zip(asked, translate_rows(model, rows, beam, penalty, batch_rows, device=device), strict=True):
        said[number] = tokenizer.decode(ids)
    return said
