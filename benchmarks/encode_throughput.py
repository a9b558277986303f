"""Compare encoding to shards with SentencePiece's own batch encode: same text, same threads, same process.

The shard path reads compressed text, encodes, shifts ids, writes three arrays and hashes them; SentencePiece's part is
one call on a list in memory. They take turns, and the median of the ratios counts: the goal is at least 0.8.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPOSITORY / "workflow" / "scripts"))

from common.errors import UserError, run_main  # noqa: E402
from corpus.characters import normalise  # noqa: E402
from corpus.corpusio import read_lines, zst_writer  # noqa: E402
from encode_corpus import encoded_batches  # noqa: E402
from engine.shards import sha256_of, write_shard  # noqa: E402
from engine.tokenizer import load_tokenizer  # noqa: E402
from train_vocabulary import train  # noqa: E402

LINES = 100_000
GOAL = 0.8


def gather_lines(texts: list[Path]) -> list[str]:
    """LINES lines; a short text is repeated."""
    lines = [line for path in texts for raw in read_lines(path) if (line := normalise(raw))]
    if not lines:
        raise UserError(f"--text {' '.join(map(str, texts))}: no line in it; name files of text (.txt, .xz, .gz, .zst)")
    return (lines * (LINES // len(lines) + 1))[:LINES]


def generated_lines() -> list[str]:
    """Text without any file: words of random letters in two scripts, frequent ones more often."""
    import numpy as np

    rng = np.random.default_rng(0)
    words = [
        "".join(chr(first + int(i)) for i in rng.integers(0, 26, size=int(rng.integers(2, 9))))
        for first in (ord("a"), 0x0430)
        for _ in range(5000)
    ]
    ranks = np.minimum(rng.zipf(1.2, size=(LINES, 16)), len(words)) - 1
    return [" ".join(words[j] for j in row) for row in ranks]


def times_in_turns(runs: list[Callable[[], object]], repeats: int) -> list[list[float]]:
    """Wall times of each in seconds; they take turns, so that a busy machine disturbs all alike."""
    times: list[list[float]] = [[] for _ in runs]
    for _ in range(repeats):
        for mine, run in zip(times, runs, strict=True):
            start = time.perf_counter()
            run()
            mine.append(time.perf_counter() - start)
    return times


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", nargs="+", type=Path, help="text to encode (default: generated)")
    parser.add_argument("--vocabulary", type=Path, help="SentencePiece model (default: one trained on the text)")
    parser.add_argument("--vocabulary-size", type=int, default=4000, help="if one is trained (default: %(default)s)")
    parser.add_argument("--threads", type=int, default=1, help="of SentencePiece, both ways (default: %(default)s)")
    parser.add_argument("--repeats", type=int, default=15, help="turns of each; medians count (default: %(default)s)")
    parser.add_argument("--out", type=Path, help="write the result as JSON")
    args = parser.parse_args()
    lines = gather_lines(args.text) if args.text else generated_lines()
    with tempfile.TemporaryDirectory() as folder:
        vocabulary = args.vocabulary or Path(folder, "spm.model")
        if not args.vocabulary:
            train(iter(lines[:20000]), vocabulary, args.vocabulary_size)
        tokenizer = load_tokenizer(vocabulary)
        text = Path(folder, "0.clean.txt.zst")
        with zst_writer(text) as out:
            for i in range(0, len(lines), 8):  # documents of eight lines
                out.write("\n".join(lines[i : i + 8]) + "\n\n")
        tokens = sum(map(len, tokenizer.encode(lines, args.threads)))

        def shard() -> None:
            write_shard(
                Path(folder, "0.json"),
                encoded_batches(tokenizer, text, "mono", args.threads),
                "mono",
                tokenizer.vocabulary_size,
                tokenizer.sha256,
                sha256_of(text),
            )

        def batch(form: object) -> Callable[[], object]:
            return lambda: tokenizer.pieces.encode(lines, num_threads=args.threads, return_type=form)

        # its two forms of result, lists and arrays: the faster one is the measure; WordPiece has lists alone
        plain = [batch(int), batch("numpy")] if tokenizer.shifted else [lambda: tokenizer.encode(lines)]
        *forms, ours = times_in_turns([*plain, shard], args.repeats)
        theirs = min(forms, key=median)
    result = {
        "lines": len(lines),
        "tokens": tokens,
        "threads": args.threads,
        "vocabulary_size": tokenizer.vocabulary_size,
        "sentencepiece_tokens_per_second": round(tokens / median(theirs)),
        "shards_tokens_per_second": round(tokens / median(ours)),
        "ratio": round(median(their / our for their, our in zip(theirs, ours, strict=True)), 3),
        "goal": GOAL,
    }
    print(json.dumps(result, indent=1))
    if args.out:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        args.out.write_text(json.dumps(result, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    return 0 if result["ratio"] >= GOAL else 1


if __name__ == "__main__":
    run_main(main)
