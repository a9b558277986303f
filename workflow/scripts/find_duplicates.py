"""Find exact, skeleton and near duplicates over all shards of a corpus, in memory that does not grow with the corpus.

Each shard is read on its own and its hashes go to a scratch file, ordered by partition (a range of hash values). Then
each partition is sorted on its own. There are as many partitions as shards, so both steps hold about one shard's
hashes. Near-duplicate documents come first, so that a line is never lost as the duplicate of one in a document that is
itself removed.

Output: one .npy per shard, sorted by place: (place, reasons), reasons = 1 exact | 2 skeleton | 4 near (the place of a
document's first line, and stands for the whole document).
"""

import argparse
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from atomic import atomic_path
from corpusio import (
    Batch,
    DuplicateThresholds,
    add_config_arguments,
    load_thresholds,
    read_batches,
    read_header,
)
from errors import UserError, run_main
from textfilters import band_hashes, exact_hashes, minhash, normalise, words_of

EXACT, SKELETON, NEAR = 1, 2, 4
DUPLICATE = np.dtype([("place", "<u8"), ("reasons", "u1")])

_RECORD = np.dtype([("hash", "<u8"), ("place", "<u8"), ("shard", "<u4"), ("row", "<u4")])  # row = document in its shard
_FOUND = np.dtype([("place", "<u8"), ("row", "<u4"), ("reasons", "u1")])
_BUFFER = 1 << 18  # records held before they are written
_PAIRS = 1 << 14  # candidate pairs whose signatures are compared at once


class Partitions:
    """Records on disk, to be read back one partition at a time."""

    def __init__(self, path: Path, count: int, dtype: np.dtype):
        self.path, self.count, self.dtype = path, count, dtype
        self.held: list[tuple[np.ndarray, np.ndarray]] = []
        self.size = 0
        self.runs: list[np.ndarray] = []  # per written run: number of records of each partition
        path.write_bytes(b"")

    def add(self, records: np.ndarray, partition: np.ndarray) -> None:
        self.held.append((records, partition))
        self.size += len(records)
        if self.size >= _BUFFER:
            self.flush()

    def flush(self) -> "Partitions":
        if self.size:
            records = np.concatenate([records for records, _ in self.held])
            partition = np.concatenate([partition for _, partition in self.held])
            with open(self.path, "ab") as out:
                records[np.argsort(partition, kind="stable")].tofile(out)
            self.runs.append(np.bincount(partition, minlength=self.count))
            self.held, self.size = [], 0
        return self

    def read(self, partition: int) -> np.ndarray:
        parts = [np.zeros(0, self.dtype)]
        with open(self.path, "rb") as source:
            begin = 0
            for run in self.runs:
                source.seek((begin + int(run[:partition].sum())) * self.dtype.itemsize)
                parts.append(np.fromfile(source, self.dtype, int(run[partition])))
                begin += int(run.sum())
        return np.concatenate(parts)


def partition_of(hashes: np.ndarray, count: int) -> np.ndarray:
    return ((hashes >> np.uint64(40)) * np.uint64(count) >> np.uint64(24)).astype(np.int64)


def _records(hashes: np.ndarray, places: np.ndarray, shard: int, rows: np.ndarray) -> np.ndarray:
    records = np.zeros(len(hashes), _RECORD)
    records["hash"], records["place"], records["shard"], records["row"] = hashes, places, shard, rows
    return records


def hash_shard(
    path: Path, kind: str, shard: int, count: int, thresholds: DuplicateThresholds, scratch: Path
) -> tuple[dict[str, Partitions], int]:
    """Write the shard's hashes of lines, skeletons and bands, and its signatures; return where, and its documents."""
    stores = {name: Partitions(scratch / f"{shard}.{name}", count, _RECORD) for name in ("exact", "skeleton", "band")}
    documents = 0
    with open(scratch / f"{shard}.signatures", "wb") as signature_file:
        for batch in read_batches(path, kind):
            texts = batch_texts(batch)
            words = words_of(texts)
            places = np.array(batch.places, np.uint64)
            starts = np.array(batch.starts, np.int64)
            rows = documents + np.searchsorted(starts, np.arange(len(texts)), side="right") - 1
            exact = exact_hashes(texts)
            stores["exact"].add(_records(exact, places, shard, rows), partition_of(exact, count))
            long = words.skeleton_lengths >= thresholds.skeleton_characters
            skeleton = words.skeletons[long]
            stores["skeleton"].add(_records(skeleton, places[long], shard, rows[long]), partition_of(skeleton, count))
            if kind == "mono":
                size = thresholds.bands * thresholds.rows
                signatures, shingles = minhash(
                    words, starts, thresholds.shingle_words, thresholds.shingle_characters, size
                )
                signatures.tofile(signature_file)
                large = shingles >= thresholds.smallest_document
                bands = band_hashes(signatures[large], thresholds.bands, thresholds.rows)  # (D, bands)
                document = documents + np.flatnonzero(large)
                stores["band"].add(
                    _records(
                        bands.ravel(),
                        np.repeat(places[starts[large]], thresholds.bands),
                        shard,
                        np.repeat(document, thresholds.bands),
                    ),
                    partition_of(bands.ravel(), count),
                )
            documents += len(starts)
    return {name: store.flush() for name, store in stores.items()}, documents


def batch_texts(batch: Batch) -> list[str]:
    """What is compared: the normalised line, or both sides of a pair."""
    if not batch.others:
        return [normalise(text) for text in batch.texts]
    return [f"{normalise(a)} \x1f {normalise(b)}" for a, b in zip(batch.texts, batch.others, strict=True)]


def near_in_partition(records: np.ndarray, signatures: list[np.memmap], similarity: float) -> Iterator[np.ndarray]:
    """Documents of one partition that are like an earlier one: the first of their bucket, or the one before them."""
    records = records[np.lexsort((records["place"], records["hash"]))]
    new = np.append(True, records["hash"][1:] != records["hash"][:-1])[: len(records)]
    leader = np.maximum.accumulate(np.where(new, np.arange(len(records)), 0))
    later = np.flatnonzero(~new)
    pairs = np.concatenate([np.stack([later, leader[later]], 1), np.stack([later, later - 1], 1)])
    for begin in range(0, len(pairs), _PAIRS):
        ours, theirs = records[pairs[begin : begin + _PAIRS, 0]], records[pairs[begin : begin + _PAIRS, 1]]
        equal = _signatures(ours, signatures) == _signatures(theirs, signatures)
        yield ours[equal.mean(axis=1) >= similarity]


def _signatures(records: np.ndarray, signatures: list[np.memmap]) -> np.ndarray:
    out = np.zeros((len(records), signatures[0].shape[1]), np.uint32)
    for shard in np.unique(records["shard"]).tolist():
        mine = records["shard"] == shard
        out[mine] = signatures[shard][records["row"][mine]]
    return out


def _found(records: np.ndarray, reason: int) -> np.ndarray:
    found = np.zeros(len(records), _FOUND)
    found["place"], found["row"], found["reasons"] = records["place"], records["row"], reason
    return found


def find_duplicates(
    shards: list[Path], out: list[Path], thresholds: DuplicateThresholds, threads: int = 1
) -> dict[str, int]:
    """Write each shard's duplicates; return how many there are by kind."""
    count = len(shards)
    kinds = {read_header(path).kind for path in shards}
    if len(kinds) != 1:
        raise UserError(f"{shards[0].parent}: shards of mono text and of bitext together; pass one corpus at a time")
    kind = kinds.pop()
    out[0].parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".duplicates-", dir=out[0].parent) as folder, mapper(threads) as each:
        scratch = Path(folder)
        hashed = list(each(hash_shard, [(path, kind, i, count, thresholds, scratch) for i, path in enumerate(shards)]))
        stores = [store for store, _ in hashed]
        documents = [number for _, number in hashed]
        base = np.concatenate([[0], np.cumsum(documents)])  # first document of each shard in `dropped`
        dropped = np.memmap(scratch / "dropped", bool, "w+", shape=(int(base[-1]) + 1,))  # near duplicates, by document
        found = Partitions(scratch / "found", count, _FOUND)  # a partition here is a shard
        if kind == "mono":
            signatures = [
                np.memmap(scratch / f"{i}.signatures", np.uint32, "r").reshape(-1, thresholds.bands * thresholds.rows)
                if documents[i]
                else np.zeros((0, thresholds.bands * thresholds.rows), np.uint32)
                for i in range(count)
            ]
            for partition in range(count):
                records = np.concatenate([store["band"].read(partition) for store in stores])
                for near in near_in_partition(records, signatures, thresholds.similarity):
                    document = base[near["shard"]] + near["row"]
                    document, first = np.unique(document, return_index=True)
                    near = near[first[~dropped[document]]]
                    dropped[document] = True
                    found.add(_found(near, NEAR), near["shard"].astype(np.int64))
        for name, reason in (("exact", EXACT), ("skeleton", SKELETON)):
            for partition in range(count):
                records = np.concatenate([store[name].read(partition) for store in stores])
                records = records[~dropped[base[records["shard"]] + records["row"]]]
                records = records[np.lexsort((records["place"], records["hash"]))]
                again = records[1:][records["hash"][1:] == records["hash"][:-1]]
                found.add(_found(again, reason), again["shard"].astype(np.int64))
        found.flush()
        totals = {"exact": 0, "skeleton": 0, "near": 0}
        for shard, path in enumerate(out):
            duplicates = merge_reasons(found.read(shard))
            totals["exact"] += int(np.sum((duplicates["reasons"] & EXACT) != 0))
            totals["skeleton"] += int(np.sum((duplicates["reasons"] & (EXACT | SKELETON)) == SKELETON))
            totals["near"] += int(np.sum((duplicates["reasons"] & NEAR) != 0))
            with atomic_path(path) as temporary, open(temporary, "wb") as stream:
                np.save(stream, duplicates)
    return totals


def merge_reasons(found: np.ndarray) -> np.ndarray:
    """One row per place, its reasons joined."""
    found = found[np.argsort(found["place"], kind="stable")]
    first = np.flatnonzero(np.append(True, found["place"][1:] != found["place"][:-1])[: len(found)])
    duplicates = np.zeros(len(first), DUPLICATE)
    duplicates["place"] = found["place"][first]
    if len(first):
        duplicates["reasons"] = np.bitwise_or.reduceat(found["reasons"], first)
    return duplicates


@contextmanager
def mapper(threads: int) -> Iterator[Callable]:
    """Call a function on argument tuples, in `threads` processes if there are several; results keep their order."""
    if threads <= 1:
        yield lambda function, arguments: [function(*argument) for argument in arguments]
        return
    with ProcessPoolExecutor(threads) as executor:
        yield lambda function, arguments: executor.map(function, *zip(*arguments, strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shards", nargs="+", type=Path, required=True, help="all shards of one corpus, in order")
    parser.add_argument("--out", nargs="+", type=Path, required=True, help="one .npy per shard, in the same order")
    parser.add_argument("--threads", type=int, default=1, help="processes that read shards (default: %(default)s)")
    add_config_arguments(parser)
    args = parser.parse_args()
    if len(args.shards) != len(args.out):
        raise UserError(f"--out: {len(args.out)} files for {len(args.shards)} shards; name one for each")
    thresholds = load_thresholds(args.config, "duplicates", args.overrides)
    totals = find_duplicates(args.shards, args.out, thresholds, args.threads)
    print(f"{totals['exact']} exact, {totals['skeleton']} skeleton, {totals['near']} near-duplicate documents")


if __name__ == "__main__":
    run_main(main)
