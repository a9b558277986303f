"""Sampling plans: from how often each language or pair is drawn to a table, and back."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from common.atomic import check_sum, write_summed
from common.errors import UserError

COLUMNS = ("kind", "corpus", "name", "sentences", "tokens", "p", "q", "sha256")
KINDS = ("mono", "bitext")


@dataclass(frozen=True)
class Source:
    """One corpus of one language or pair, all shards together."""

    kind: str
    corpus: str
    name: str
    sentences: int  # pairs count twice, once per side
    tokens: int  # words, before there is a vocabulary
    sha256: str

    @property
    def key(self) -> tuple[str, str, str]:
        return self.kind, self.corpus, self.name

    @property
    def size(self) -> int:
        """What p counts: sentences, or pairs."""
        return self.sentences // 2 if self.kind == "bitext" else self.sentences


@dataclass(frozen=True)
class PlanRow:
    source: Source
    p: float
    q: float


def plan(sources: Sequence[Source], alpha: dict[str, float], limit: int | None = None) -> list[PlanRow]:
    """Rows sorted by kind, name and corpus; `limit` is the largest number of pairs that a language pair counts with."""
    rows = []
    for kind in KINDS:
        mine = sorted((s for s in sources if s.kind == kind), key=lambda s: (s.name, s.corpus))
        sizes: dict[str, int] = {}
        for source in mine:
            sizes[source.name] = sizes.get(source.name, 0) + source.size
        counted = {name: min(size, limit) if limit and kind == "bitext" else size for name, size in sizes.items()}
        total = sum(counted.values())
        weights = {name: (size / total) ** alpha[kind] if size else 0.0 for name, size in counted.items()}
        whole = sum(weights.values())
        for s in mine if total else ():
            of_name = s.size / sizes[s.name] if s.size else 0.0
            rows.append(PlanRow(s, counted[s.name] * of_name / total, weights[s.name] / whole * of_name))
    return rows


def write_plan(rows: list[PlanRow], path: Path) -> None:
    lines = ["\t".join(COLUMNS)]
    for row in rows:
        s = row.source
        lines.append(
            f"{s.kind}\t{s.corpus}\t{s.name}\t{s.sentences}\t{s.tokens}\t{row.p:.12g}\t{row.q:.12g}\t{s.sha256}"
        )
    write_summed(path, "\n".join(lines) + "\n")


def read_plan(path: str | Path) -> list[PlanRow]:
    check_sum(path, "delete it, and run again")
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        raise UserError(f"{path}: no such plan; run plan_sampling") from None
    if not lines or tuple(lines[0].split("\t")) != COLUMNS:
        raise UserError(f"{path}:1: expected the columns {' '.join(COLUMNS)}; run plan_sampling again")
    rows = []
    for number, line in enumerate(lines[1:], start=2):
        cells = line.split("\t")
        try:
            kind, corpus, name, sentences, tokens, p, q, sha256 = cells
            rows.append(PlanRow(Source(kind, corpus, name, int(sentences), int(tokens), sha256), float(p), float(q)))
        except ValueError:
            raise UserError(f"{path}:{number}: {len(cells)} cells or a bad number; run plan_sampling again") from None
    return rows


def _group(paths: Sequence[Path]) -> dict[tuple[str, str, str], list[Path]]:
    """Files by (kind, corpus, name), read from `<kind>/<corpus>/<name>/<shard>...`; shards in their order."""
    groups: dict[tuple[str, str, str], list[Path]] = {}
    for path in paths:
        parts = path.parts[-4:-1]
        if len(parts) != 3 or parts[0] not in KINDS or not path.name.split(".")[0].isdigit():
            raise UserError(
                f"{path}: expected <mono or bitext>/<corpus>/<language or pair>/<shard>...; correct the path"
            )
        groups.setdefault(tuple(parts), []).append(path)
    for shards in groups.values():
        shards.sort(key=lambda path: int(path.name.split(".")[0]))
    return groups


def _source(key: tuple[str, str, str], shards: list[Path], tokens: str) -> Source:
    digest = hashlib.sha256()
    counts = {"sentences": 0, tokens: 0}
    for path in shards:
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            raise UserError(f"{path}: no such file; make the shard first") from None
        digest.update(data)
        try:
            content = json.loads(data)
            content = content.get("out", content)  # counts of cleaning, or a shard's manifest
            for count in counts:
                counts[count] += content[count]
        except (ValueError, KeyError, TypeError, AttributeError):
            raise UserError(f"{path}: no counts of sentences and {tokens} in it; make the shard again") from None
    return Source(*key, counts["sentences"], counts[tokens], digest.hexdigest())


def sources_of_counts(paths: Sequence[Path]) -> list[Source]:
    return [_source(key, shards, "words") for key, shards in sorted(_group(paths).items())]


def sources_of_run(run: dict, path: Path, manifests: Sequence[Path]) -> tuple[list[Source], dict[str, float]]:
    """The sources that a resolved run names, and its alphas; every one must have a manifest, and no other may."""
    data = run.get("data") or {}
    wanted: set[tuple[str, str, str]] = set()
    alpha: dict[str, float] = dict.fromkeys(KINDS, 1.0)
    try:
        if mono := data.get("mono"):
            wanted |= {("mono", mono["corpus"], language) for language in mono["languages"]}
            alpha["mono"] = float(mono["alpha"])
        if bitext := data.get("bitext"):
            wanted |= {("bitext", corpus, pair) for pair, names in bitext["corpora"].items() for corpus in names}
            alpha["bitext"] = float(bitext["alpha"])
    except (KeyError, TypeError) as error:
        raise UserError(f"{path}, key data: {error} is missing or of the wrong type; resolve the run again") from None
    groups = _group(manifests)
    if missing := sorted(wanted - groups.keys()):
        raise UserError(
            f"--manifests: none for {'/'.join(missing[0])}, which {path} names; encode it and pass its shards"
        )
    if extra := sorted(groups.keys() - wanted):
        raise UserError(f"--manifests: {'/'.join(extra[0])} is not in the data of {path}; leave its shards out")
    sources = [_source(key, shards, "tokens") for key, shards in sorted(groups.items())]
    if bitext and bitext.get("limit"):
        bounds = bounds_of_pairs(run)
        sources = [
            replace(source, sentences=2 * sum(suitable_pairs(shard, *bounds) for shard in groups[source.key]))
            if source.kind == "bitext"
            else source
            for source in sources
        ]
    return sources, alpha


def bounds_of_pairs(run: dict) -> tuple[int, int | None]:
    """Least tokens of a side, and most of both, of the pairs that a run's objectives take."""
    options = [objective.get("options") or {} for objective in run.get("objectives") or []]
    least = max([one["least_tokens"] for one in options if one.get("least_tokens")], default=1)
    most = min([one["most_tokens"] for one in options if one.get("most_tokens")], default=None)
    return least, most


def suitable_pairs(manifest: Path, least: int, most: int | None) -> int:
    # No other plan needs the arrays of its shards: numpy would take longer than all of it.
    import numpy as np

    from engine.shards import open_shards

    lengths = open_shards([manifest]).sentence_lengths().reshape(-1, 2)  # (pairs, 2)
    suitable = lengths.min(1) >= least
    if most is not None:
        suitable &= lengths.sum(1) <= most
    return int(np.count_nonzero(suitable))
