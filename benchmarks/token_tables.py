"""Whether a table of tokens finds translations by the tokens that both sides share, and what training makes of that:

    python benchmarks/token_tables.py MODEL ... --spm VOCABULARY --pairs de=FOREIGN,ENGLISH fr=FOREIGN,ENGLISH

A sentence is the mean of its tokens' vectors, without any layer. One row for each model's table and one for a table of
random vectors of its size: in how many directions it spreads (state_dimensions.py), and the mean accuracy over
languages and both directions, raw, without the mean of each language, and that once more after whitening: the same
table, spread alike in all directions. Vectors that are all at right angles count shared tokens and nothing else.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import torch
from held_out_retrieval import accuracy as by_layer
from state_dimensions import dimensions
from torch import Tensor

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "workflow" / "scripts"))

from common.errors import run_main
from engine.checkpoint import load_encoder
from engine.tokenizer import load_tokenizer

Pairs = dict[str, tuple[list[list[int]], list[list[int]]]]  # language -> (foreign, English) sentences of tokens


def accuracy(table_VD: Tensor, pairs: Pairs, centred: bool) -> float:
    found = []
    for sides in pairs.values():
        foreign_ND, english_ND = (torch.stack([table_VD[ids].mean(0) for ids in side]) for side in sides)
        if centred:
            foreign_ND, english_ND = foreign_ND - foreign_ND.mean(0), english_ND - english_ND.mean(0)
        found += by_layer(foreign_ND[None], english_ND[None])
    return sum(found) / len(found)


def whitened(table_VD: Tensor, seen: Sequence[int]) -> Tensor:
    """Around the mean of the tokens that are seen, with variance 1 along each of their principal axes."""
    around_VD = table_VD.double() - table_VD[seen].double().mean(0)
    variances_D, axes_DD = torch.linalg.eigh(around_VD[seen].T @ around_VD[seen] / len(seen))
    return (around_VD @ axes_DD / variances_D.sqrt()).to(table_VD)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", type=Path, help="model.safetensors of pre-trained runs of one size")
    parser.add_argument("--spm", required=True, help="vocabulary that they were trained with")
    parser.add_argument("--pairs", required=True, nargs="+", metavar="LANGUAGE=FOREIGN,ENGLISH")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    tokenizer = load_tokenizer(arguments.spm)
    pairs: Pairs = {}
    for given in arguments.pairs:
        language, _, files = given.partition("=")
        foreign, english = (Path(file).read_text(encoding="utf-8").splitlines() for file in files.split(","))
        pairs[language] = tokenizer.encode(foreign), tokenizer.encode(english)
    seen = sorted({token for sides in pairs.values() for side in sides for ids in side for token in ids})
    with torch.no_grad():
        tables = {str(path): load_encoder(str(path))[0].tokens.weight.float() for path in arguments.models}
        size = next(iter(tables.values())).shape
        tables["random"] = torch.randn(size, generator=torch.Generator().manual_seed(0))
        print("table\tdirections\traw\tcentred\twhitened")
        for name, table_VD in tables.items():
            whole_VD = whitened(table_VD, seen)
            values = (
                accuracy(table_VD, pairs, False),
                accuracy(table_VD, pairs, True),
                accuracy(whole_VD, pairs, True),
            )
            print(f"{name}\t{dimensions(table_VD[seen]):.0f}\t" + "\t".join(f"{value:.1f}" for value in values))


if __name__ == "__main__":
    run_main(main)
