"""Encoded text on disk, written once and read through memory maps.

A shard is a JSON manifest `<name>.json` and three flat little-endian arrays beside it:

    <name>.tokens.bin     uint16 (uint32 from 65,536 ids on), model ids of all sentences, without <s> and </s>
    <name>.sentences.bin  int64 (S + 1,), where each sentence begins in the tokens
    <name>.documents.bin  int64 (D + 1,), where each document begins in the sentences

A sentence is a line of clean text. A document of a bitext is one pair: side a, then side b. The manifest holds counts,
the sha256 of the arrays, of the source text and of the vocabulary.
"""

import hashlib
import json
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from common import atomic
from common.atomic import atomic_path, write_json
from common.errors import UserError

VERSION = 1
ARRAYS = ("tokens", "sentences", "documents")
_OFFSET = np.dtype("<i8")


def token_dtype(vocabulary_size: int) -> np.dtype:
    return np.dtype("<u2") if vocabulary_size < 1 << 16 else np.dtype("<u4")


def sha256_of(path: str | Path) -> str:
    try:
        return atomic.sha256_of(path)
    except FileNotFoundError:
        raise UserError(f"{path}: no such file; run the rule that makes it, or correct the path") from None


def array_path(manifest: str | Path, array: str) -> Path:
    """`0.json` -> `0.tokens.bin`"""
    return Path(manifest).with_suffix(f".{array}.bin")


# Writing

EncodedBatch = tuple[np.ndarray, np.ndarray, np.ndarray]


def write_shard(
    manifest: str | Path,
    batches: Iterable[EncodedBatch],
    kind: str,
    vocabulary_size: int,
    vocabulary_sha256: str,
    source_sha256: str,
) -> dict:
    """Write a shard from a stream of (tokens (T,), sentence lengths (S,), document lengths in sentences (D,)).

    The manifest comes last, so a shard that has one is whole.
    """
    manifest = Path(manifest)
    dtypes = {"tokens": token_dtype(vocabulary_size), "sentences": _OFFSET, "documents": _OFFSET}
    digests = {array: hashlib.sha256() for array in ARRAYS}
    sizes = dict.fromkeys(ARRAYS, 0)
    ends = {"sentences": 0, "documents": 0}
    tokens = 0
    with ExitStack() as stack:
        streams = {
            array: stack.enter_context(open(stack.enter_context(atomic_path(array_path(manifest, array))), "wb"))
            for array in ARRAYS
        }

        def put(array: str, values: np.ndarray) -> None:
            data = np.ascontiguousarray(values, dtypes[array]).tobytes()
            streams[array].write(data)
            digests[array].update(data)
            sizes[array] += len(data)

        for array in ends:
            put(array, np.zeros(1))
        for ids, sentence_lengths, document_lengths in batches:
            if len(ids) != sentence_lengths.sum() or len(sentence_lengths) != document_lengths.sum():
                raise ValueError("lengths of a batch do not add up")
            put("tokens", ids)
            tokens += len(ids)
            for array, lengths in (("sentences", sentence_lengths), ("documents", document_lengths)):
                put(array, ends[array] + np.cumsum(lengths, dtype=np.int64))
                ends[array] += int(lengths.sum())
        for stream in streams.values():
            stream.flush()
    content = {
        "version": VERSION,
        "kind": kind,
        "dtype": dtypes["tokens"].name,
        "documents": sizes["documents"] // _OFFSET.itemsize - 1,
        "sentences": sizes["sentences"] // _OFFSET.itemsize - 1,
        "tokens": tokens,
        "vocabulary_size": vocabulary_size,
        "vocabulary_sha256": vocabulary_sha256,
        "source_sha256": source_sha256,
        "files": {
            array: {
                "name": array_path(manifest, array).name,
                "bytes": sizes[array],
                "sha256": digests[array].hexdigest(),
            }
            for array in ARRAYS
        },
    }
    write_json(manifest, content)
    return content


# Reading


def again(manifest: Path) -> str:
    """The workflow knows of a shard by its manifest alone."""
    return f"delete {manifest} and encode the shard again: the same call does"


def read_manifest(path: str | Path) -> dict:
    path = Path(path)
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{path}: no such shard; run encode_corpus, or correct the path") from None
    except ValueError as error:
        raise UserError(f"{path}: not a shard manifest ({error}); {again(path)}") from None
    if not isinstance(manifest, dict) or manifest.get("version") != VERSION:
        raise UserError(f"{path}, key version: expected {VERSION}; {again(path)}")
    keys = ("kind", "dtype", "documents", "sentences", "tokens", "vocabulary_size", "vocabulary_sha256", "files")
    if missing := [key for key in keys if key not in manifest]:
        raise UserError(f"{path}, key {missing[0]}: missing; {again(path)}")
    return manifest


def _map(path: Path, manifest: dict, array: str, dtype: np.dtype, length: int, verify: bool) -> np.ndarray:
    file = array_path(path, array)
    if not file.exists():
        raise UserError(f"{file}: missing beside {path.name}; {again(path)}")
    size, recorded = file.stat().st_size, manifest["files"][array]
    if size != recorded["bytes"] or size != length * dtype.itemsize:
        raise UserError(
            f"{file}: {size} bytes, but the manifest says {recorded['bytes']} ({length} entries of {dtype.name}); "
            + again(path)
        )
    if verify and (digest := sha256_of(file)) != recorded["sha256"]:
        raise UserError(f"{file}: sha256 is {digest}, but the manifest says {recorded['sha256']}; {again(path)}")
    # an empty file cannot be mapped
    return np.memmap(file, dtype, "r", shape=(length,)) if length else np.zeros(0, dtype)


@dataclass(frozen=True)
class Shard:
    path: Path
    manifest: dict
    tokens: np.ndarray  # (T,) memory map
    sentences: np.ndarray  # int64 (S + 1,) memory map
    documents: np.ndarray  # int64 (D + 1,) memory map


def open_shard(path: str | Path, vocabulary_sha256: str | None = None, verify: bool = False) -> Shard:
    """Open one shard. Sizes are always checked; `verify` also checks every byte against the manifest's sha256."""
    path = Path(path)
    manifest = read_manifest(path)
    if vocabulary_sha256 is not None and manifest["vocabulary_sha256"] != vocabulary_sha256:
        raise UserError(
            f"{path}, key vocabulary_sha256: encoded with vocabulary {manifest['vocabulary_sha256'][:12]}, this "
            f"run's is {vocabulary_sha256[:12]}; encode the shard again with this vocabulary"
        )
    dtype = np.dtype(manifest["dtype"]).newbyteorder("<")
    shard = Shard(
        path,
        manifest,
        _map(path, manifest, "tokens", dtype, manifest["tokens"], verify),
        _map(path, manifest, "sentences", _OFFSET, manifest["sentences"] + 1, verify),
        _map(path, manifest, "documents", _OFFSET, manifest["documents"] + 1, verify),
    )
    for array, offsets, last in (
        ("sentences", shard.sentences, manifest["tokens"]),
        ("documents", shard.documents, manifest["sentences"]),
    ):
        if offsets[0] != 0 or offsets[-1] != last:
            raise UserError(f"{array_path(path, array)}: does not reach from 0 to {last}; {again(path)}")
    return shard


class Shards:
    """Several shards as one sequence of documents, sentences and tokens, numbered through in the order given."""

    def __init__(self, shards: Sequence[Shard]):
        self.shards = list(shards)
        self.manifests = [shard.manifest for shard in self.shards]
        self.tokens = [shard.tokens for shard in self.shards]
        # first global number of each shard, and the total at the end; (shards + 1,)
        self.document_base = self._base("documents")
        self.sentence_base = self._base("sentences")
        self.token_base = self._base("tokens")
        self.num_documents = int(self.document_base[-1])
        self.num_sentences = int(self.sentence_base[-1])
        self.num_tokens = int(self.token_base[-1])

    def _base(self, key: str) -> np.ndarray:
        return np.cumsum([0, *(manifest[key] for manifest in self.manifests)], dtype=np.int64)

    def sentence_lengths(self) -> np.ndarray:
        """int32 (num_sentences,), in tokens."""
        parts = [np.diff(shard.sentences).astype(np.int32) for shard in self.shards]
        return np.concatenate([np.zeros(0, np.int32), *parts])

    def document_lengths(self) -> np.ndarray:
        """int64 (num_documents,), in sentences."""
        return np.diff(self.document_offsets())

    def token_offsets(self) -> np.ndarray:
        """int64 (num_sentences + 1,): global number of each sentence's first token."""
        return self._offsets([shard.sentences for shard in self.shards], self.token_base)

    def document_offsets(self) -> np.ndarray:
        """int64 (num_documents + 1,): global number of each document's first sentence."""
        return self._offsets([shard.documents for shard in self.shards], self.sentence_base)

    @staticmethod
    def _offsets(parts: list[np.ndarray], base: np.ndarray) -> np.ndarray:
        return np.concatenate([np.zeros(1, np.int64), *(base[i] + part[1:] for i, part in enumerate(parts))])

    def sentence(self, number: int) -> np.ndarray:
        """The token ids of one sentence: a view, nothing is copied."""
        if not 0 <= number < self.num_sentences:
            raise IndexError(f"sentence {number} of {self.num_sentences}")
        i = int(np.searchsorted(self.sentence_base, number, side="right")) - 1
        local = number - int(self.sentence_base[i])
        begin, end = self.shards[i].sentences[local : local + 2]
        return self.tokens[i][begin:end]

    def gather(self, sentences: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Tokens int32 (sum of lengths,) of the given sentences one after the other, and offsets int64 (n + 1,)."""
        sentences = np.asarray(sentences, np.int64)
        owner = np.searchsorted(self.sentence_base, sentences, side="right") - 1
        begins, lengths = np.zeros_like(sentences), np.zeros_like(sentences)
        present = np.unique(owner).tolist()
        for i in present:
            mine = owner == i
            local = sentences[mine] - self.sentence_base[i]
            begins[mine] = self.shards[i].sentences[local]
            lengths[mine] = self.shards[i].sentences[local + 1] - begins[mine]
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        # where each output token stands in its own shard
        where = np.arange(offsets[-1]) + np.repeat(begins - offsets[:-1], lengths)
        if len(present) == 1:
            return self.tokens[present[0]][where].astype(np.int32), offsets
        out = np.zeros(int(offsets[-1]), np.int32)
        token_owner = np.repeat(owner, lengths)
        for i in present:
            mine = token_owner == i
            out[mine] = self.tokens[i][where[mine]]
        return out, offsets


def verify_shards(manifests: Iterable[str | Path], rank: int = 0, ranks: int = 1) -> None:
    """Read every byte of these shards against their manifests, each shard on one rank: what a training does before its
    first step, since a changed byte is a valid token."""
    for path in sorted(set(map(str, manifests)))[rank::ranks]:
        open_shard(path, verify=True)


def sha256_of_manifests(manifests: Iterable[str | Path]) -> str:
    """What a sampling plan says of a source."""
    digest = hashlib.sha256()
    for path in manifests:
        digest.update(Path(path).read_bytes())
    return digest.hexdigest()


def open_shards(paths: Sequence[str | Path], vocabulary_sha256: str | None = None) -> Shards:
    """Open shards by their manifests; all must have the same kind and vocabulary."""
    shards = [open_shard(path, vocabulary_sha256) for path in paths]
    for key in ("kind", "vocabulary_sha256", "vocabulary_size"):
        for shard in shards[1:]:
            if shard.manifest[key] != shards[0].manifest[key]:
                raise UserError(
                    f"{shard.path}, key {key}: {shard.manifest[key]}, but {shards[0].path} has "
                    f"{shards[0].manifest[key]}; encode both with the same vocabulary, and open one kind at a time"
                )
    return Shards(shards)
