"""In how many directions the states of an encoder spread, layer by layer:

    python benchmarks/state_dimensions.py --spm VOCABULARY --text LINES MODEL ...

LINES is a file of sentences of one language. Of the states of all their tokens, around their mean, l_1 ... l_D are the
variances along the principal axes, and

dimensions = (l_1 + ... + l_D)^2 / (l_1^2 + ... + l_D^2)     from 1, all along one axis, to D, all alike

One row for each model: layer 0 is the embeddings, the last one is what tasks are read from. It says where the variance
lies, not what can be read from the states: small directions may hold much, and those of random weights are many.
"""

import argparse
import sys
from pathlib import Path

import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "workflow" / "scripts"))

from common.errors import UserError, run_main
from engine.checkpoint import load_encoder
from engine.heads import encode
from engine.rows import sentence_rows
from engine.tokenizer import load_tokenizer

ROWS = 32  # at once


def dimensions(states_ND: Tensor) -> float:
    """Of vectors that are not all equal."""
    states_ND = states_ND.double()
    variances_D = torch.linalg.svdvals(states_ND - states_ND.mean(0)).square()
    return (variances_D.sum().square() / variances_D.square().sum()).item()


@torch.no_grad()
def token_states(path: Path, rows: list[list[int]], language: str) -> list[Tensor]:
    """(tokens, D) of each layer."""
    encoder, _ = load_encoder(path)
    encoder.eval()
    batches = []
    for first in range(0, len(rows), ROWS):
        batch = rows[first : first + ROWS]
        layers, real_BT = encode(encoder, batch, [language] * len(batch), all_layers=True)
        batches.append([states_BTD[real_BT] for states_BTD in layers])
    return [torch.cat(layer) for layer in zip(*batches, strict=True)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", type=Path, help="model.safetensors of pre-trained runs")
    parser.add_argument("--spm", required=True, help="vocabulary that they were trained with")
    parser.add_argument("--text", required=True, type=Path, help="sentences, one a line")
    parser.add_argument("--language", default="en", help="theirs, for models that embed it (default: %(default)s)")
    parser.add_argument("--lines", type=int, default=300, help="of the file, the first (default: %(default)s)")
    parser.add_argument("--max-length", type=int, default=64, help="pieces of a sentence (default: %(default)s)")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    lines = [line for line in arguments.text.read_text(encoding="utf-8").splitlines() if line.strip()]
    if not lines:
        raise UserError(f"{arguments.text}: no sentences; give a file with one a line")
    rows = sentence_rows(load_tokenizer(arguments.spm), lines[: arguments.lines], arguments.max_length)
    for path in arguments.models:
        found = [dimensions(states_ND) for states_ND in token_states(path, rows, arguments.language)]
        print(f"{path}\t" + "\t".join(f"{value:.1f}" for value in found), flush=True)


if __name__ == "__main__":
    run_main(main)
