"""Retrieval of held-out pairs by layer, to choose a scale's rate, steps and layer without a test set:

    python benchmarks/held_out_retrieval.py MODEL ... --spm VOCABULARY --pairs de=FOREIGN,ENGLISH fr=FOREIGN,ENGLISH

One row for each model and readout: mean accuracy over languages and both directions at each layer, raw, and after
subtracting the mean of each language (of the first half of the pairs; the second half is searched in both rows).
"""

import argparse
import sys
from pathlib import Path

import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "workflow" / "scripts"))

from engine.checkpoint import load_encoder
from engine.heads import mean_states
from engine.retrieval import nearest
from engine.rows import sentence_rows
from engine.tokenizer import load_tokenizer


def accuracy(foreign_LND: Tensor, english_LND: Tensor) -> list[float]:
    """Of each layer, in %, the mean of both directions."""
    found = []
    for foreign_ND, english_ND in zip(foreign_LND, english_LND, strict=True):
        right = [number == line for way in nearest(english_ND, foreign_ND) for line, number in enumerate(way)]
        found.append(100 * sum(right) / len(right))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", type=Path, help="model.safetensors of pre-trained runs")
    parser.add_argument("--spm", required=True, help="vocabulary that they were trained with")
    parser.add_argument("--pairs", required=True, nargs="+", metavar="LANGUAGE=FOREIGN,ENGLISH")
    parser.add_argument("--lines", type=int, default=2000, help="of each language (default: %(default)s)")
    parser.add_argument("--max-length", type=int, default=96, help="pieces of a sentence (default: %(default)s)")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    tokenizer = load_tokenizer(arguments.spm)
    texts = {}
    for given in arguments.pairs:
        language, _, files = given.partition("=")
        texts[language] = [
            sentence_rows(
                tokenizer, Path(file).read_text(encoding="utf-8").splitlines()[: arguments.lines], arguments.max_length
            )
            for file in files.split(",")
        ]
    for path in arguments.models:
        encoder, _ = load_encoder(str(path))
        raw, centred = [], []
        for language, (foreign, english) in texts.items():
            states = [
                mean_states(encoder, foreign, language, 32, "cpu"),
                mean_states(encoder, english, "en", 32, "cpu"),
            ]
            half = len(foreign) // 2
            means = [side[:, :half].mean(1, keepdim=True) for side in states]
            raw.append(accuracy(*(side[:, half:] for side in states)))
            centred.append(accuracy(*(side[:, half:] - mean for side, mean in zip(states, means, strict=True))))
        for name, of_languages in (("raw", raw), ("centred", centred)):
            by_layer = [sum(layer) / len(layer) for layer in zip(*of_languages, strict=True)]
            print(f"{path}\t{name}\t" + "\t".join(f"{value:.1f}" for value in by_layer), flush=True)


if __name__ == "__main__":
    main()
