"""The two sides of a parallel corpus, in whatever archive they were published."""

import gzip
import tarfile
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO

from common.archives import StrictHeader, damage_told, read_to_end
from common.errors import UserError, why_no_file

MOST_LISTED = 24  # names of members, in an error


def shown_name(path: Path, root: Path | None) -> str:
    """Name in the lists of rejects: <host>/<path> below `root`, so that it is the same on every machine."""
    if root is None:
        return path.name
    try:
        return path.relative_to(root).as_posix()
    except ValueError:
        raise UserError(f"{path}: lies not below --root {root}; pass the folder of downloads as --root") from None


@contextmanager
def open_sides(archive: Path, suffixes: list[tuple[str, ...]]) -> Iterator[tuple[str, BinaryIO, BinaryIO]]:
    """The two text members of a Moses .zip or of a tar, chosen by their names; yields the first one's name too."""
    if not archive.is_file():
        raise UserError(f"{archive}: {why_no_file(archive)}; run the download rule, or correct the path")
    with ExitStack() as opened:
        with damage_told(archive):
            if archive.suffix == ".zip":
                folder = opened.enter_context(zipfile.ZipFile(archive))
                a, b = choose_members(archive, folder.namelist(), suffixes)
                sides = [opened.enter_context(folder.open(name)) for name in (a, b)]
            else:
                # A compressed tar cannot be read at two places at once through one handle.
                one, two = (opened.enter_context(tarfile.open(archive, tarinfo=StrictHeader)) for _ in range(2))
                members = {member.name: member for member in one if member.isfile()}
                read_to_end(one.fileobj)
                a, b = choose_members(archive, list(members), suffixes)
                sides = [tar.extractfile(members[name]) for tar, name in ((one, a), (two, b))]
        first, second = (
            opened.enter_context(gzip.open(side)) if name.endswith(".gz") else side
            for name, side in zip((a, b), sides, strict=True)
        )
        yield a, first, second


def choose_members(archive: Path, names: list[str], suffixes: list[tuple[str, ...]]) -> tuple[str, str]:
    """The two members that are called the same but for their ends, `.de` and `.en`, or `.de.gz` and `.en.gz`.

    Of several it is the one that names the pair before them (WMT's archives hold more pairs than one).
    """
    members: list[dict[str, list[str]]] = [{}, {}]  # of each side, by what stands before the end
    for name in names:
        if name.rpartition("/")[2].startswith("."):
            continue  # what a Mac writes beside each file
        whole = name.removesuffix(".gz")
        for side, codes in zip(members, suffixes, strict=True):
            for code in codes:
                stem = whole.removesuffix(code)
                if stem != whole and stem[-1:] in ("", ".", "/"):
                    side.setdefault(stem, []).append(name)
    stems = sorted(set(members[0]) & set(members[1]))
    pairs = tuple(f".{a}-{b}." for x, y in (suffixes, suffixes[::-1]) for a in x for b in y)
    named = [stem for stem in stems if f".{stem}".replace("/", ".").endswith(pairs)]
    stems = named or stems
    if len(stems) == 1 and all(len(side[stems[0]]) == 1 for side in members):
        return members[0][stems[0]][0], members[1][stems[0]][0]
    found = [sorted(name for stem in stems or side for name in side[stem]) for side in members]
    ends = [" or ".join(f".{code}" for code in codes) for codes in suffixes]
    wrong = next((i for i in range(2) if len(found[i]) != 1), None)
    if wrong is None:
        what = f"no two members have one name but for their ends {ends[0]} and {ends[1]}"
    else:
        what = f"{len(found[wrong])} members end in {ends[wrong]}, expected one"
    raise UserError(f"{archive}: {what} (it holds {_listed(names)}); pass the two suffixes with --members")


def _listed(names: list[str]) -> str:
    rest = f" and {len(names) - MOST_LISTED} more" if len(names) > MOST_LISTED else ""
    return ", ".join(sorted(names)[:MOST_LISTED]) + rest
