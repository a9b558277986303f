"""Train the joint SentencePiece vocabulary on sentences drawn by the sampling plan, or take a given model over.

Unigram model, no normalisation (cleaning has done it), byte fallback so that any text comes back unchanged, <unk> 0,
<s> 1, </s> 2 as engine/tokenizer.py expects. Sentences are taken at even steps through each corpus, without random
numbers, and one thread trains: the same text gives the same bytes.
"""

import argparse
import io
import shutil
from collections.abc import Iterator
from pathlib import Path

from common.atomic import summed_path
from common.errors import UserError, run_main
from corpus.corpusio import read_lines
from corpus.sampling import PlanRow, read_plan

SPECIALS = 2  # ids of the model that are no pieces of the file: <pad> and <mask>


def quotas(rows: list[PlanRow], sentences: int) -> list[int]:
    """Sentences of each row; they sum to `sentences` (largest remainders first, then the order of the plan)."""
    total = sum(row.q for row in rows)
    exact = [sentences * row.q / total for row in rows]
    counts = [int(value) for value in exact]
    order = sorted(range(len(rows)), key=lambda i: (counts[i] - exact[i], i))
    for i in order[: sentences - sum(counts)]:
        counts[i] += 1
    return counts


def draws(available: int, wanted: int, index: int) -> int:
    """How often line `index` is taken, so that `wanted` draws lie evenly over `available` lines; above 1 if too few."""
    return (index + 1) * wanted // available - index * wanted // available


def lines_of(row: PlanRow, corpus: Path) -> Iterator[str]:
    """Every sentence (mono) or pair, as `a<TAB>b`, of a row."""
    source = row.source
    folder = corpus / source.kind / source.corpus / source.name
    suffix = ".clean.txt.zst" if source.kind == "mono" else ".clean.tsv.zst"
    shards = sorted(folder.glob(f"*{suffix}"), key=lambda path: int(path.name.split(".")[0]))
    if not shards:
        raise UserError(f"{folder}: no *{suffix}, though the plan names it; clean it first")
    for shard in shards:
        for line in read_lines(shard):
            if line:
                yield line


def sample(rows: list[PlanRow], corpus: Path, sentences: int) -> Iterator[str]:
    """About `sentences` lines (a pair is two); each row's share is its q."""
    for row, quota in zip(rows, quotas(rows, sentences), strict=True):
        wanted = quota if row.source.kind == "mono" else -(-quota // 2)
        seen = 0
        for seen, line in enumerate(lines_of(row, corpus), start=1):
            for _ in range(draws(row.source.size, wanted, seen - 1)):
                yield from line.split("\t")
        if seen != row.source.size:
            name = f"{row.source.kind}/{row.source.corpus}/{row.source.name}"
            raise UserError(f"{corpus}/{name}: {seen} lines, the plan says {row.source.size}; plan again")


def train(
    lines: Iterator[str], out: Path, size: int, character_coverage: float = 1.0, algorithm: str = "unigram"
) -> None:
    """Write a SentencePiece model of `size` model ids."""
    import sentencepiece

    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=lines,
            model_writer=model,
            model_type=algorithm,
            vocab_size=size - SPECIALS,
            character_coverage=character_coverage,
            normalization_rule_name="identity",
            remove_extra_whitespaces=False,
            add_dummy_prefix=True,
            byte_fallback=True,
            unk_id=0,
            bos_id=1,
            eos_id=2,
            pad_id=-1,
            max_sentence_length=1 << 20,
            input_sentence_size=0,
            shuffle_input_sentence=False,
            num_threads=1,
            minloglevel=2,
        )
    except RuntimeError as error:
        raise UserError(
            f"vocabulary.size {size}: SentencePiece cannot make that many from this text ({error}); change the scale's "
            "vocabulary.size, or give it more text"
        ) from None
    with summed_path(out) as temporary:
        temporary.write_bytes(model.getvalue())


def take_over(given: Path, out: Path) -> None:
    """Copy a published model, such as XLM-R's, once it is known to have the ids that we expect."""
    from engine.tokenizer import Tokenizer

    Tokenizer(given)
    with summed_path(out) as temporary:
        shutil.copyfile(given, temporary)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--given", type=Path, help="a SentencePiece model to take over; nothing is trained")
    parser.add_argument("--plan", type=Path, help="sampling plan, made by plan_sampling --counts")
    parser.add_argument("--corpus", type=Path, help="folder with mono/ and bitext/")
    parser.add_argument("--size", type=int, help="number of model ids: pieces, 256 bytes among them, and 2 specials")
    parser.add_argument("--sentences", type=int, help="sentences to draw")
    parser.add_argument(
        "--character-coverage", type=float, default=1.0, help="the rest is bytes (default: %(default)s)"
    )
    parser.add_argument("--algorithm", choices=("unigram", "bpe"), default="unigram", help="default: %(default)s")
    parser.add_argument("--out", type=Path, required=True, help="the model")
    args = parser.parse_args()
    if args.given:
        take_over(args.given, args.out)
        return
    for name in ("plan", "corpus", "size", "sentences"):
        if getattr(args, name) is None:
            raise UserError(f"--{name}: needed to train a vocabulary (or pass --given)")
    lines = sample(read_plan(args.plan), args.corpus, args.sentences)
    train(lines, args.out, args.size, args.character_coverage, args.algorithm)


if __name__ == "__main__":
    run_main(main)
