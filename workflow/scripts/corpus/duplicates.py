"""Lines and documents that repeat: exact, the same letters, or nearly the same, over all shards of a corpus.

Each shard is read once, on its own: the hashes of its lines go to scratch files ordered by partition (a range of hash
values), the MinHash signatures of its documents to another. Then the signatures are read, some bands at a time, and
their hashes put into partitions too. As many partitions as it takes are made, so that one fits into what a process may
hold (--held-mb); one that does not is read in windows, from the front of the corpus to its end. The scratch files lie
beside the output; a run that was killed leaves them, and the next one does not read the shards again that were done.

Near-duplicate documents come first, so that a line is never lost as the duplicate of one in a document that is itself
removed. A document is near-duplicate if its signature is like that of the first of its bucket, or of the one before
it. Nearly every document of a large corpus shares a bucket with some other, so records carry two bits of each value of
the signature: whole signatures are only read where those agree often enough.
"""

import fcntl
import json
import shutil
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO

import numpy as np

from common.atomic import atomic_path, told, write_json
from common.errors import UserError
from corpus.characters import codes_of, normalise_lines
from corpus.corpusio import Batch, DuplicateThresholds, read_batches, read_header
from corpus.likeness import band_hashes, minhash
from corpus.words import exact_hashes, words_of

EXACT, SKELETON, NEAR = 1, 2, 4
DUPLICATE = np.dtype([("place", "<u8"), ("reasons", "u1")])
SCRATCH = ".duplicates"

_VERSION = 1  # of the scratch files
HELD = 1 << 27  # bytes of records that a process holds at once; its peak is about four times that
_LINE = np.dtype([("hash", "<u8"), ("place", "<u8"), ("shard", "<u4"), ("row", "<u4")])  # row = document in its shard
_DOCUMENT = np.dtype([("place", "<u8"), ("large", "?")])
_FOUND = np.dtype([("place", "<u8"), ("row", "<u4"), ("reasons", "u1")])
_SMALLEST_LINE = 16  # bytes of a compressed shard per line, at least: how many partitions there will be
_BANDS = 8  # put into partitions at once: scratch files no larger than the signatures
_DOCUMENTS = 1 << 14  # whose signatures are read at once
_PAIRS = 1 << 14  # candidate pairs whose signatures are compared at once
_GAP = 32  # signatures that are read and not used, rather than to begin another read
_SPAN = 1 << 12  # signatures of one read
_ROWS = 15  # bits: found records are ordered by so many documents of a shard


def write(stream: BinaryIO, records: np.ndarray) -> None:
    """As tofile, which does not say that the disk is full."""
    stream.write(np.ascontiguousarray(records).view(np.uint8).data)


class Partitions:
    """Records on disk, to be read back one partition at a time, in the order in which they came."""

    def __init__(self, path: Path, count: int, dtype: np.dtype, held: int):
        self.path, self.count, self.dtype = path, count, dtype
        self.most = max(1, held // dtype.itemsize)
        self.waiting: list[tuple[np.ndarray, np.ndarray]] = []
        self.size = 0
        self.written = 0
        self.runs: list[np.ndarray] = []  # of each written run, where each partition begins and the last one ends
        path.write_bytes(b"")

    def add(self, records: np.ndarray, partition: np.ndarray) -> None:
        self.waiting.append((records, partition))
        self.size += len(records)
        if self.size >= self.most:
            self.flush()

    def flush(self) -> None:
        if not self.size:
            return
        records = np.concatenate([records for records, _ in self.waiting])
        partition = np.concatenate([partition for _, partition in self.waiting])
        self.waiting, self.size = [], 0
        with open(self.path, "ab") as out:
            write(out, records[np.argsort(partition, kind="stable")])
        sizes = np.bincount(partition, minlength=self.count)
        self.runs.append(self.written + np.concatenate([[0], np.cumsum(sizes)]))
        self.written += len(records)

    def close(self) -> "Stored":
        self.flush()
        with open(f"{self.path}.runs", "wb") as out:
            for run in self.runs:
                write(out, run.astype(np.int64))
        return Stored(self.path, self.count, self.dtype)


class Stored:
    """The partitions of one file that is written."""

    def __init__(self, path: Path, count: int, dtype: np.dtype):
        self.path, self.count, self.dtype = path, count, dtype

    def segments(self, begin: int, end: int) -> tuple[np.ndarray, np.ndarray]:
        """Where the partitions [begin, end) lie in each run: begins and ends, in records."""
        if not self.path.stat().st_size:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        runs = np.memmap(f"{self.path}.runs", np.int64, "r").reshape(-1, self.count + 1)
        return np.array(runs[:, begin]), np.array(runs[:, end])

    def read(self, begin: int, end: int, most: int | None = None) -> Iterator[np.ndarray]:
        """Pieces of the partitions [begin, end), none larger than `most`."""
        with open(self.path, "rb") as source:
            for first, last in zip(*(bounds.tolist() for bounds in self.segments(begin, end)), strict=True):
                for at in range(first, last, most or max(1, last - first)):
                    source.seek(at * self.dtype.itemsize)
                    yield np.fromfile(source, self.dtype, min(last - at, most or last))


def partition_of(hashes: np.ndarray, count: int) -> np.ndarray:
    return ((hashes >> np.uint64(40)) * np.uint64(count) >> np.uint64(24)).astype(np.int64)


def partitions_for(records: int, dtype: np.dtype, held: int) -> int:
    return max(1, -(-records * dtype.itemsize * 2 // held))


def windows_of(stores: list[Stored], partition: int, held: int) -> Iterator[np.ndarray]:
    """One partition of all stores, from the front of the corpus to its end: at once if it fits, else in windows.

    Each store has its records in the order of their places.
    """
    dtype = stores[0].dtype
    most = max(1, held // dtype.itemsize)
    sizes = []
    for store in stores:
        begins, ends = store.segments(partition, partition + 1)
        sizes.append(int((ends - begins).sum()))
    if sum(sizes) <= most:
        pieces = [piece for store in stores for piece in store.read(partition, partition + 1)]
        yield np.concatenate([np.zeros(0, dtype), *pieces])
        return
    share = max(2 * _BANDS, most // len(stores))  # more than the records of one place
    readers = [store.read(partition, partition + 1, share) for store in stores]
    left = [np.zeros(0, dtype) for _ in stores]
    while True:
        for i, reader in enumerate(readers):
            pieces = [left[i]]
            size = len(left[i])
            while readers[i] is not None and size < share:
                piece = next(reader, None)
                if piece is None:
                    readers[i] = None
                else:
                    pieces.append(piece)
                    size += len(piece)
            left[i] = np.concatenate(pieces)
        going = [part["place"][-1] for part, reader in zip(left, readers, strict=True) if reader is not None]
        if not going:
            yield np.concatenate(left)
            return
        limit = min(going)
        cuts = [int(np.searchsorted(part["place"], limit)) for part in left]  # all of a place in one window
        yield np.concatenate([part[:cut] for part, cut in zip(left, cuts, strict=True)])
        left = [part[cut:] for part, cut in zip(left, cuts, strict=True)]


def batch_texts(batch: Batch) -> tuple[list[str], np.ndarray]:
    """What is compared, with its codes: the normalised line, or both sides of a pair."""
    texts, codes = normalise_lines(batch.texts)
    if not batch.others:
        return texts, codes
    texts = [f"{a} \x1f {b}" for a, b in zip(texts, normalise_lines(batch.others)[0], strict=True)]
    return texts, codes_of(texts)


def _lines(hashes: np.ndarray, places: np.ndarray, shard: int | np.ndarray, rows: np.ndarray) -> np.ndarray:
    records = np.zeros(len(hashes), _LINE)
    records["hash"], records["place"], records["shard"], records["row"] = hashes, places, shard, rows
    return records


def hash_shard(
    path: Path, kind: str, shard: int, count: int, thresholds: DuplicateThresholds, scratch: Path, held: int
) -> int:
    """Write the shard's hashes of lines and skeletons, and its documents with their signatures; return how many."""
    done = scratch / f"{shard}.done.json"
    if done.exists():
        return json.loads(done.read_text(encoding="utf-8"))["documents"]
    exact, skeleton = (
        Partitions(scratch / f"{shard}.{name}", count, _LINE, held // 2) for name in ("exact", "skeleton")
    )
    documents = 0
    with open(scratch / f"{shard}.signatures", "wb") as signed, open(scratch / f"{shard}.documents", "wb") as listed:
        for batch in read_batches(path, kind):
            texts, codes = batch_texts(batch)
            words = words_of(texts, codes)
            places = np.array(batch.places, np.uint64)
            starts = np.array(batch.starts, np.int64)
            rows = documents + np.searchsorted(starts, np.arange(len(texts)), side="right") - 1
            hashes = exact_hashes(texts, codes)
            exact.add(_lines(hashes, places, shard, rows), partition_of(hashes, count))
            long = words.skeleton_lengths >= thresholds.skeleton_characters
            hashes = words.skeletons[long]
            skeleton.add(_lines(hashes, places[long], shard, rows[long]), partition_of(hashes, count))
            if kind == "mono":
                size = thresholds.bands * thresholds.rows
                signatures, shingles = minhash(
                    words, starts, thresholds.shingle_words, thresholds.shingle_characters, size
                )
                write(signed, signatures)
                heads = np.zeros(len(starts), _DOCUMENT)
                heads["place"], heads["large"] = places[starts], shingles >= thresholds.smallest_document
                write(listed, heads)
            documents += len(starts)
    exact.close()
    skeleton.close()
    write_json(done, {"documents": documents})
    return documents


def band_dtype(thresholds: DuplicateThresholds) -> np.dtype:
    words = -(-thresholds.bands * thresholds.rows // 32)
    return np.dtype([("hash", "<u8"), ("place", "<u8"), ("shard", "<u4"), ("row", "<u4"), ("sketch", "<u8", (words,))])


def sketches(signatures: np.ndarray) -> np.ndarray:
    """uint64 (D, words): two bits of each value."""
    padding = -signatures.shape[1] % 32
    bits = np.pad(signatures & np.uint32(3), ((0, 0), (0, padding))).astype(np.uint64)
    shifted = bits.reshape(len(bits), bits.shape[1] // 32, 32) << (np.uint64(2) * np.arange(32, dtype=np.uint64))
    return np.bitwise_or.reduce(shifted, axis=2)


def most_equal(a: np.ndarray, b: np.ndarray, values: int) -> np.ndarray:
    """How many of the values may be equal, by their sketches (P, words)."""
    odd = a ^ b
    different = (odd | odd >> np.uint64(1)) & np.uint64(0x5555555555555555)
    return values - np.bitwise_count(different).sum(axis=1, dtype=np.int64)


def band_shard(
    shard: int, bands: list[int], count: int, thresholds: DuplicateThresholds, scratch: Path, held: int
) -> None:
    """Put these bands of a shard's documents into partitions."""
    size = thresholds.bands * thresholds.rows
    dtype = band_dtype(thresholds)
    store = Partitions(scratch / f"{shard}.bands", count, dtype, held // 2)
    first = 0
    with open(scratch / f"{shard}.signatures", "rb") as signed, open(scratch / f"{shard}.documents", "rb") as listed:
        while len(heads := np.fromfile(listed, _DOCUMENT, _DOCUMENTS)):
            signatures = np.fromfile(signed, np.uint32, len(heads) * size).reshape(-1, size)
            large = np.flatnonzero(heads["large"])
            hashes = band_hashes(signatures[large], thresholds.bands, thresholds.rows)[:, bands]  # (D, bands)
            records = np.zeros(hashes.shape, dtype)
            records["hash"], records["shard"] = hashes, shard
            records["place"], records["row"] = heads["place"][large, None], (first + large)[:, None]
            records["sketch"] = sketches(signatures[large])[:, None]
            store.add(records.ravel(), partition_of(hashes.ravel(), count))
            first += len(heads)
    store.close()


def candidates(windows: Iterable[np.ndarray]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """(later, earlier) records of one partition: each with the first of its bucket, and with the one before it."""
    heads = tails = None  # of the windows before: the first and the last record of each bucket, sorted by hash
    for records in windows:
        if heads is not None:  # they lie before all of this window
            records = np.concatenate([heads, tails, records])
        records = records[np.lexsort((records["place"], records["hash"]))]
        new = np.append(True, records["hash"][1:] != records["hash"][:-1])[: len(records)]
        first = np.flatnonzero(new)
        leader = first[np.cumsum(new) - 1]
        later = np.flatnonzero(~new)
        if heads is not None:  # compared before
            again = np.append(False, records["place"][1:] == records["place"][:-1])[: len(records)]
            seen = np.isin(records["place"], tails["place"]) if len(tails) else np.zeros(len(records), bool)
            later = later[~(again | seen)[later]]
        yield records[later], records[leader[later]]
        yield records[later], records[later - 1]
        heads, tails = records[first], records[np.append(first[1:], len(records))[: len(first)] - 1]


class Signatures:
    """Rows of the signature files, read in the order in which they lie there."""

    def __init__(self, scratch: Path, size: int):
        self.scratch, self.size = scratch, size

    def __call__(self, records: np.ndarray) -> np.ndarray:
        """uint32 (P, size)"""
        out = np.zeros((len(records), self.size), np.uint32)
        for shard in np.unique(records["shard"]).tolist():
            mine = np.flatnonzero(records["shard"] == shard)
            rows, where = np.unique(records["row"][mine].astype(np.int64), return_inverse=True)
            out[mine] = self._rows(self.scratch / f"{shard}.signatures", rows)[where]
        return out

    def _rows(self, path: Path, rows: np.ndarray) -> np.ndarray:
        out = np.zeros((len(rows), self.size), np.uint32)
        cuts = np.flatnonzero((np.diff(rows) > _GAP) | (np.diff(rows // _SPAN) > 0)) + 1
        bounds = [0, *cuts.tolist(), len(rows)]
        with open(path, "rb") as source:
            for begin, end in pairwise(bounds):
                first, last = int(rows[begin]), int(rows[end - 1])
                source.seek(first * self.size * 4)
                block = np.fromfile(source, np.uint32, (last - first + 1) * self.size).reshape(-1, self.size)
                out[begin:end] = block[rows[begin:end] - first]
        return out


def near_in_partition(
    partition: int,
    parts: int,
    shards: int,
    thresholds: DuplicateThresholds,
    scratch: Path,
    dropped: "Dropped",
    held: int,
) -> Path:
    """A file of the documents of one partition that are like an earlier one, some more than once."""
    dtype = band_dtype(thresholds)
    stores = [Stored(scratch / f"{shard}.bands", parts, dtype) for shard in range(shards)]
    values = thresholds.bands * thresholds.rows
    signatures = Signatures(scratch, values)
    flags = dropped.load()
    found = scratch / f"near.{partition}"
    with open(found, "wb") as out:
        for ours, theirs in candidates(windows_of(stores, partition, held)):
            like = np.flatnonzero(
                (most_equal(ours["sketch"], theirs["sketch"], values) / values >= thresholds.similarity)
                & ~flags(ours["shard"], ours["row"])
            )
            for begin in range(0, len(like), _PAIRS):
                pairs = like[begin : begin + _PAIRS]
                equal = signatures(ours[pairs]) == signatures(theirs[pairs])
                near = ours[pairs[equal.mean(axis=1) >= thresholds.similarity]]
                write(out, _lines(near["hash"], near["place"], near["shard"], near["row"]))
    return found


class Dropped:
    """Which documents are near duplicates: a bit each, in memory while it is read or written, else in a file."""

    def __init__(self, path: Path, documents: list[int]):
        self.path = path
        self.base = np.concatenate([[0], np.cumsum(documents)]).astype(np.int64)
        self.bits: np.ndarray | None = None

    def empty(self) -> "Dropped":
        self.bits = np.zeros(int(self.base[-1]) // 8 + 1, np.uint8)
        return self

    def save(self) -> None:
        self.bits.tofile(self.path)

    def load(self) -> "Dropped":
        """A copy of its own for the process that asks."""
        other = Dropped.__new__(Dropped)
        other.path, other.base, other.bits = self.path, self.base, np.fromfile(self.path, np.uint8)
        return other

    def __call__(self, shard: np.ndarray, row: np.ndarray) -> np.ndarray:
        document = self.base[shard] + row
        return (self.bits[document >> 3] >> (document & 7).astype(np.uint8)) & 1 != 0

    def add(self, shard: np.ndarray, row: np.ndarray) -> None:
        document = self.base[shard] + row
        np.bitwise_or.at(self.bits, document >> 3, np.uint8(1) << (document & 7).astype(np.uint8))

    def __getstate__(self) -> dict:
        return {"path": self.path, "base": self.base, "bits": None}


def repeated_in_partition(
    name: str, partition: int, parts: int, shards: int, scratch: Path, dropped: Dropped, held: int
) -> Path:
    """A file of the records of one partition whose hash stands in an earlier one, dropped documents left out."""
    stores = [Stored(scratch / f"{shard}.{name}", parts, _LINE) for shard in range(shards)]
    flags = dropped.load()
    seen = np.zeros(0, np.uint64)
    found = scratch / f"{name}.{partition}"
    with open(found, "wb") as out:
        for records in windows_of(stores, partition, held):
            records = records[~flags(records["shard"], records["row"])]
            records = records[np.lexsort((records["place"], records["hash"]))]
            again = np.append(False, records["hash"][1:] == records["hash"][:-1])[: len(records)]
            if len(seen):
                again |= np.isin(records["hash"], seen)
            write(out, records[again])
            seen = np.union1d(seen, records["hash"][~again])
    return found


def taken(path: Path) -> Iterator[np.ndarray]:
    """The records of a file, in pieces; then it is removed."""
    with open(path, "rb") as stream:
        while len(records := np.fromfile(stream, _LINE, 1 << 18)):
            yield records
    path.unlink()


def find_duplicates(
    shards: list[Path], out: list[Path], thresholds: DuplicateThresholds, threads: int = 1, held: int = HELD
) -> dict[str, int]:
    """Write each shard's duplicates; return how many there are by kind."""
    kinds = {read_header(path).kind for path in shards}
    if len(kinds) != 1:
        raise UserError(f"{shards[0].parent}: shards of mono text and of bitext together; pass one corpus at a time")
    kind = kinds.pop()
    lines = sum(path.stat().st_size for path in shards) // _SMALLEST_LINE
    count = partitions_for(lines, _LINE, held)
    key = {
        "version": _VERSION,
        "shards": [[str(path), path.stat().st_size, path.stat().st_mtime_ns] for path in shards],
        "thresholds": asdict(thresholds),
        "partitions": count,
    }
    with scratch_folder(out[0].parent, key) as scratch, mapper(threads) as each:
        numbers = range(len(shards))
        documents = list(
            each(hash_shard, [(path, kind, i, count, thresholds, scratch, held) for i, path in enumerate(shards)])
        )
        dropped = Dropped(scratch / "dropped", documents).empty()
        dropped.save()
        blocks = np.cumsum([0, *((number >> _ROWS) + 1 for number in documents)])  # of found records, by shard
        found = Partitions(scratch / "found", int(blocks[-1]), _FOUND, held // 2)

        def find(records: np.ndarray, reason: int) -> None:
            rows = np.zeros(len(records), _FOUND)
            rows["place"], rows["row"], rows["reasons"] = records["place"], records["row"], reason
            found.add(rows, blocks[records["shard"]] + (records["row"] >> _ROWS))

        for first in range(0, thresholds.bands if kind == "mono" else 0, _BANDS):
            bands = list(range(first, min(first + _BANDS, thresholds.bands)))
            parts = partitions_for(sum(documents) * len(bands), band_dtype(thresholds), held)
            for _ in each(band_shard, [(i, bands, parts, thresholds, scratch, held) for i in numbers]):
                pass
            tasks = [(part, parts, len(shards), thresholds, scratch, dropped, held) for part in range(parts)]
            for path in each(near_in_partition, tasks):
                for near in taken(path):
                    near = near[np.unique(near["place"], return_index=True)[1]]
                    near = near[~dropped(near["shard"], near["row"])]
                    dropped.add(near["shard"], near["row"])
                    find(near, NEAR)
            dropped.save()
        for name, reason in (("exact", EXACT), ("skeleton", SKELETON)):
            tasks = [(name, part, count, len(shards), scratch, dropped, held) for part in range(count)]
            for path in each(repeated_in_partition, tasks):
                for records in taken(path):
                    find(records, reason)
        stored = found.close()
        totals = {"exact": 0, "skeleton": 0, "near": 0}
        for shard, path in enumerate(out):
            merged = merged_blocks(stored, int(blocks[shard]), int(blocks[shard + 1]))
            for name, number in write_duplicates(path, merged, scratch / "body").items():
                totals[name] += number
    return totals


def merged_blocks(stored: Stored, begin: int, end: int) -> Iterator[np.ndarray]:
    for block in range(begin, end):
        yield merge_reasons(np.concatenate([np.zeros(0, _FOUND), *stored.read(block, block + 1)]))


def merge_reasons(found: np.ndarray) -> np.ndarray:
    """One row per place, its reasons joined."""
    found = found[np.argsort(found["place"], kind="stable")]
    first = np.flatnonzero(np.append(True, found["place"][1:] != found["place"][:-1])[: len(found)])
    duplicates = np.zeros(len(first), DUPLICATE)
    duplicates["place"] = found["place"][first]
    if len(first):
        duplicates["reasons"] = np.bitwise_or.reduceat(found["reasons"], first)
    return duplicates


def write_duplicates(path: Path, pieces: Iterable[np.ndarray], body: Path) -> dict[str, int]:
    """Write what np.save would write of all pieces together, whose number stands in front; return it by kind."""
    totals = {"exact": 0, "skeleton": 0, "near": 0}
    length = 0
    with open(body, "wb") as stream:
        for duplicates in pieces:
            write(stream, duplicates)
            length += len(duplicates)
            reasons = duplicates["reasons"]
            totals["exact"] += int(np.sum((reasons & EXACT) != 0))
            totals["skeleton"] += int(np.sum((reasons & (EXACT | SKELETON)) == SKELETON))
            totals["near"] += int(np.sum((reasons & NEAR) != 0))
    header = np.lib.format.header_data_from_array_1_0(np.zeros(0, DUPLICATE)) | {"shape": (length,)}
    with atomic_path(path) as temporary, open(temporary, "wb") as stream, open(body, "rb") as source:
        np.lib.format.write_array_header_1_0(stream, header)
        shutil.copyfileobj(source, stream, 1 << 20)
    return totals


@contextmanager
def scratch_folder(parent: Path, key: dict) -> Iterator[Path]:
    """A folder that outlives a kill; what lies in it is used again if it was made of the same shards."""
    scratch = parent / SCRATCH
    scratch.mkdir(parents=True, exist_ok=True)
    with told(scratch), open(scratch / "lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(f"{scratch}: another find_duplicates works there; wait for it, or end it") from None
        written = scratch / "key.json"
        if not written.exists() or json.loads(written.read_text(encoding="utf-8")) != key:
            for path in scratch.iterdir():
                if path.name != "lock":
                    path.unlink()
            write_json(written, key)
        try:
            yield scratch
        except Exception:  # it would come again, and the disk may be full; only a kill leaves what was done
            shutil.rmtree(scratch)
            raise
        shutil.rmtree(scratch)


@contextmanager
def mapper(threads: int) -> Iterator[Callable[[Callable, list[tuple]], Iterator]]:
    """Call a function on argument tuples, in `threads` processes if there are several; results keep their order."""
    if threads <= 1:
        yield lambda function, arguments: (function(*argument) for argument in arguments)
        return
    with ProcessPoolExecutor(threads) as executor:
        yield lambda function, arguments: executor.map(function, *zip(*arguments, strict=True))
