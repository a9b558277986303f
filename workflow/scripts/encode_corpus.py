"""Encode clean text with the vocabulary into a memory-mapped shard (the format is described in engine/shards.py)."""

import argparse
from array import array
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path

import numpy as np

from common.errors import UserError, run_main
from corpus.lines import read_utf8_lines
from engine.shards import EncodedBatch, sha256_of, token_dtype, write_shard
from engine.tokenizer import UNK, Tokenizer, load_tokenizer

_BATCH = 2048  # sentences encoded at once; more fall out of the processor's cache, and are slower
_LONG = 36  # tokens of an average sentence


def read_mono(path: Path) -> Iterator[tuple[list[bytes], list[int]]]:
    """Sentences and the number of them in each document, in batches; only a blank line ends a document."""
    sentences: list[bytes] = []
    lengths: list[int] = []
    held = 0
    for line in chain(read_utf8_lines(path), [b""]):
        if line:
            sentences.append(line)
            held += 1
        elif held:
            lengths.append(held)
            held = 0
            if len(sentences) >= _BATCH:
                yield sentences, lengths
                sentences, lengths = [], []
    if sentences:
        yield sentences, lengths


def read_bitext(path: Path) -> Iterator[tuple[list[bytes], list[int]]]:
    lines = enumerate(read_utf8_lines(path), start=1)
    while batch := list(islice(lines, _BATCH // 2)):
        sentences: list[bytes] = []
        for number, line in batch:
            sides = line.split(b"\t")
            if len(sides) != 2 or not all(sides):
                raise UserError(f"{path}:{number}: expected two sides separated by a tab; clean the bitext again")
            sentences += sides
        yield sentences, [2] * len(batch)


def _concatenate(lists: list[list[int]]) -> np.ndarray:
    """int32 (sum of lengths,); array.fromlist is faster than an iterator over the numbers."""
    numbers = array("i")
    for piece_ids in lists:
        numbers.fromlist(piece_ids)
    return np.frombuffer(numbers, np.int32)


def encode(
    tokenizer: Tokenizer, sentences: list[str] | list[bytes], threads: int = 1, long: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Model ids (T,) of all sentences and their lengths (S,); `long` is only faster or slower."""
    if not tokenizer.shifted:
        lists = tokenizer.encode([s if isinstance(s, str) else s.decode() for s in sentences])
        lengths = np.fromiter(map(len, lists), np.int64, len(lists))
        return _concatenate(lists).astype(token_dtype(tokenizer.vocabulary_size)), lengths
    # Of SentencePiece's two forms of result, lists cost more per token and arrays more per sentence.
    pieces = tokenizer.pieces.encode(sentences, num_threads=threads, return_type="numpy" if long else int)
    lengths = np.fromiter(map(len, pieces), np.int64, len(pieces))
    ids = np.concatenate(pieces) if long else _concatenate(pieces)
    ids += 1  # the layout of XLM-R: piece id + 1, and <unk> is no piece of text
    ids[ids == 1] = UNK
    return ids.astype(token_dtype(tokenizer.vocabulary_size)), lengths


def encoded_batches(tokenizer: Tokenizer, path: Path, kind: str, threads: int) -> Iterator[EncodedBatch]:
    long = False
    for sentences, documents in (read_mono if kind == "mono" else read_bitext)(path):
        ids, lengths = encode(tokenizer, sentences, threads, long)
        long = len(ids) > _LONG * len(lengths)  # the next batch will be like this one
        yield ids, lengths, np.array(documents, np.int64)


def kind_of(path: Path) -> str:
    for suffix, kind in ((".tsv.zst", "bitext"), (".txt.zst", "mono")):
        if path.name.endswith(suffix):
            return kind
    raise UserError(f"{path}: neither text (.txt.zst) nor pairs (.tsv.zst)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--text", type=Path, required=True, help="clean text (.txt.zst) or pairs (.tsv.zst)")
    parser.add_argument("--vocabulary", type=Path, required=True, help="SentencePiece model, or folder of an import")
    parser.add_argument("--out", type=Path, required=True, help="the manifest, .json; the arrays lie beside it")
    parser.add_argument("--threads", type=int, default=1, help="threads of SentencePiece (default: %(default)s)")
    args = parser.parse_args()
    if args.out.suffix != ".json":
        raise UserError(f"--out {args.out}: the manifest's name ends in .json")
    kind = kind_of(args.text)
    tokenizer = load_tokenizer(args.vocabulary)
    manifest = write_shard(
        args.out,
        encoded_batches(tokenizer, args.text, kind, args.threads),
        kind,
        tokenizer.vocabulary_size,
        tokenizer.sha256,
        sha256_of(args.text),
    )
    print(f"{manifest['documents']} documents, {manifest['sentences']} sentences, {manifest['tokens']} tokens")


if __name__ == "__main__":
    run_main(main)
