"""Learn which words of one language stand for which of the other, from a bounded sample of a bitext itself.

IBM model 1 (Brown et al. 1993) in both directions. Misaligned pairs are few and their words agree on nothing, so they
hardly disturb it. A pair's score is how much better, in nats per word, each side is predicted by the other than by word
frequency alone.
"""

import argparse
from pathlib import Path

from common.errors import run_main
from corpus.corpusio import add_config_arguments, load_thresholds
from corpus.pair_model import sample_pairs, save, train_pair_model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shards", nargs="+", type=Path, required=True, help="all shards of one bitext, in order")
    parser.add_argument("--out", type=Path, required=True, help="the model, .npz")
    add_config_arguments(parser)
    args = parser.parse_args()
    thresholds = load_thresholds(args.config, "pair_model", args.overrides)
    left, right = sample_pairs(args.shards, thresholds)
    model = train_pair_model(left, right, thresholds)
    save(model, args.out)
    print(f"{len(left)} pairs, {len(model.vocabularies[0])} x {len(model.vocabularies[1])} words")


if __name__ == "__main__":
    run_main(main)
