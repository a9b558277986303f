"""Bring one file of config/datasets.tsv to this machine, whole or not at all.

Sources are asked in this order: the mirrors as given on the command line, the row's url, its fallback_urls. A mirror is
a folder or an http(s) address that holds <host>/<path of the url>. What arrives is kept beside the final path as
`.<name>.<source>.part` until size and sha256 are right, so a killed job continues where it stopped and the final path
never holds a partial file.

Two kinds of failure: 403, 404, a wrong checksum and the like give a source up; 429, 5xx, a broken or silent connection
are tried again with growing pauses. While one source pauses the next is asked, but one that just gave bytes goes on.
"""

import argparse
import contextlib
import fcntl
import os
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from common.atomic import keep_sum, sha256_of
from common.errors import UserError, plain, run_main
from fetching.folder import fetch_folder
from fetching.lock import expectation, record
from fetching.sources import CHUNK, Mirror, Patience, Source, SourceFailed, is_user_supplied, sources_of
from fetching.web import fetch_http, part_paths
from plan.datasets import DATASETS_TSV, Dataset, load_datasets

LONGEST_WAIT = 86_400  # seconds that an option may ask for


# ---------------------------------------------------------------- at most N downloads at once


@contextlib.contextmanager
def slot(directory: Path | None, count: int, label: str = "") -> Iterator[None]:
    """Hold one of `count` places shared by all processes that name the same directory; freed by the kernel on death."""
    if directory is None:
        yield
        return
    directory.mkdir(parents=True, exist_ok=True)
    told = False
    while True:
        for number in range(count):
            with open(directory / f"slot-{number}", "a") as handle:
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    continue
                yield
                return
        if not told:
            print(f"{label}: waiting, {count} downloads are running", file=sys.stderr, flush=True)
            told = True
        time.sleep(0.1 + 0.1 * random.random())


# ---------------------------------------------------------------- all sources in turn


def download(
    dataset: Dataset,
    out: str | Path,
    mirrors: list[Mirror],
    datasets: str | Path = DATASETS_TSV,
    lock: str | Path | None = None,
    offline: bool = False,
    patience: Patience | None = None,
    slots_dir: str | Path | None = None,
    max_parallel: int = 4,
) -> str:
    """Bring `dataset` to `out` and return the name of the source that gave it; a UserError lists what was tried."""
    patience = patience or Patience()
    out, lock = Path(out), Path(lock) if lock else None
    slots = Path(slots_dir) if slots_dir else None
    chance = random.Random(patience.seed)
    sources = sources_of(dataset, mirrors, offline)
    expected = expectation(dataset, datasets, lock)
    if expected.sha256 and out.is_file() and sha256_of(out) == expected.sha256:
        keep_sum(out, expected.sha256)
        print(f"{dataset.id}: {out} is there already and whole", file=sys.stderr)
        return str(out)
    while alive := [source for source in sources if not source.given_up]:
        # Order of the list among those that may be asked now; else the one whose pause ends first.
        now = time.monotonic()
        source = next((s for s in alive if s.not_before <= now), None) or min(alive, key=lambda s: s.not_before)
        if source.not_before > now:
            time.sleep(source.not_before - now)
        try:
            if source.folder is not None:
                fetch_folder(source, out, expected, lock, dataset)
            else:
                with slot(slots, max_parallel, dataset.id):
                    part, sha256 = fetch_http(source, out, expected, patience, dataset.id)
                if lock and not dataset.sha256:
                    record(lock, dataset, part.stat().st_size, sha256, source.url or "")
                keep_sum(out, sha256)
                os.replace(part, out)
            _forget_parts(sources, out)
            print(f"{dataset.id}: {out.stat().st_size} bytes from {source.name}", file=sys.stderr)
            return source.name
        except SourceFailed as failure:
            _note(source, failure, out, patience, chance)
            if source.folder is None or "no such file" not in str(failure):
                print(plain(f"{dataset.id}: {source.name}: {source.reasons[-1]}"), file=sys.stderr, flush=True)
    raise UserError(*_story(dataset, sources, datasets, lock, offline))


def _note(source: Source, failure: SourceFailed, out: Path, patience: Patience, chance: random.Random) -> None:
    """Give the source up, or set when it may be asked again."""
    source.wrong_sums = failure.sums
    source.tries += 1
    reason = str(failure)
    if failure.again and source.url is not None:
        part = part_paths(out, source.url)[0]
        size = part.stat().st_size if part.exists() else 0
        worth = CHUNK if source.size is None else max(1, min(CHUNK, source.size // 100))
        progress = size >= source.best + worth
        source.best = max(source.best, size) if progress else source.best
        source.failures = 0 if progress else source.failures + failure.cost
        if failure.pause is not None and failure.pause > patience.longest_retry_after:
            reason += f", asks to wait {failure.pause:.0f} s, longer than --max-retry-after"
            source.given_up = True
        elif source.failures >= patience.attempts:
            reason += f" (given up after {source.tries} tries)"
            source.given_up = True
        else:
            growth = min(max(source.failures - 1, 0), 30)
            pause = min(patience.back_off * 2**growth, patience.longest_pause) * (0.5 + 0.5 * chance.random())
            if progress:
                pause = 0.0
            pause = max(pause, failure.pause or 0.0)
            source.not_before = time.monotonic() + pause
            if pause:
                reason += f"; again in {pause:.1f} s"
    else:
        source.given_up = True
    source.reasons.append(reason)


def _forget_parts(sources: list[Source], out: Path) -> None:
    for source in sources:
        if source.url is not None:
            for path in part_paths(out, source.url):
                path.unlink(missing_ok=True)


def _story(
    dataset: Dataset, sources: list[Source], datasets: str | Path, lock: Path | None, offline: bool
) -> list[str]:
    """What was tried, why each failed, and the mend: a line each."""
    lines = [f"{datasets}, id {dataset.id}: no source gave the file"]
    for source in sources:
        lines.append(f"  {source.name}: {source.reasons[-1]}")
    supplied = is_user_supplied(dataset.url)
    if supplied:
        lines.append(f"  the network has none: {dataset.note} ({dataset.licence})")
    elif not sources:
        lines.append("  none to ask: no mirror is given and --offline forbids the network")
    if any(source.wrong_sums for source in sources):
        if dataset.sha256 or not lock:
            where = f"bytes and sha256 of {dataset.id} in {datasets}"
        else:
            where = f"the line of {dataset.id} in {lock}"
        lines.append(
            f"to mend: the source differs from what was published or first downloaded. If you trust the new file, "
            f"correct {where}; if not, give a --mirror that has the old one. For a folder of excerpts or generated "
            f"data use --unchecked-mirror."
        )
    else:
        mend = f"to mend: place the file at <mirror>/{dataset.path} and give --mirror <mirror>"
        if supplied:
            lines.append(mend + ", or leave its language out of the task.")
        else:
            lines.append(mend + ", or correct the url" + (", or run without --offline." if offline else "."))
    return lines


# ---------------------------------------------------------------- command line


class _AddMirror(argparse.Action):
    """Both mirror options fill one list, because the order between them matters."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        value: str,
        option_string: str | None = None,
    ) -> None:
        checked = option_string != "--unchecked-mirror"
        if not checked and value.startswith(("https://", "http://")):
            parser.error("--unchecked-mirror takes a folder")
        namespace.mirrors.append(Mirror(value, checked))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.set_defaults(mirrors=[])
    parser.add_argument("--dataset", required=True, metavar="ID", help="id of the row, such as opus/MultiUN/ar-en")
    parser.add_argument(
        "--datasets", default=DATASETS_TSV, metavar="TSV", help="table of sources (default: %(default)s)"
    )
    parser.add_argument("--out", required=True, metavar="PATH", help="final path of the file")
    parser.add_argument(
        "--mirror",
        action=_AddMirror,
        metavar="PLACE",
        help="folder or http(s) address that holds <host>/<path>; repeat for several, asked in the order given",
    )
    parser.add_argument(
        "--unchecked-mirror",
        action=_AddMirror,
        metavar="FOLDER",
        help="the same for a folder whose bytes are not upstream's (excerpts, stand-ins, the mini-world): its files "
        "are compared with its own MANIFEST.tsv, where there is one, and never recorded in the lock file",
    )
    parser.add_argument(
        "--lock",
        metavar="TSV",
        help="where sums that nobody publishes are recorded at the first download and enforced after",
    )
    parser.add_argument("--offline", action="store_true", help="ask the mirrors only, never upstream")
    parser.add_argument(
        "--attempts",
        type=int,
        default=25,
        metavar="N",
        help="failures in a row of one source before it is given up; one that brought 1 MB, or a hundredth of the file "
        "is none (default: %(default)s)",
    )
    parser.add_argument(
        "--back-off",
        type=float,
        default=1.0,
        metavar="S",
        help="pause after the first failure, doubled each time up to one minute, less a random part of up to half; "
        "Retry-After is obeyed on top (default: %(default)s)",
    )
    parser.add_argument(
        "--max-retry-after",
        type=float,
        default=3600.0,
        metavar="S",
        help="a source that asks for a longer wait is given up (default: %(default)s)",
    )
    parser.add_argument(
        "--stall-timeout",
        type=float,
        default=60.0,
        metavar="S",
        help="a connection that gives less than 1 kB in this time is closed and tried again (default: %(default)s)",
    )
    parser.add_argument("--seed", type=int, metavar="N", help="seed of the random part of pauses (default: none)")
    parser.add_argument(
        "--max-parallel",
        type=int,
        default=4,
        metavar="N",
        help="downloads at once over all processes with the same --slots-dir (default: %(default)s)",
    )
    parser.add_argument("--slots-dir", metavar="DIR", help="folder of the lock files that count them (default: no cap)")
    return parser


def main() -> None:
    parser = _parser()
    arguments = parser.parse_args()
    if arguments.attempts < 1 or arguments.max_parallel < 1:
        parser.error("--attempts and --max-parallel are at least 1")
    # Not NaN either, which is not equal to, above or below any number.
    if not (0 < arguments.stall_timeout <= LONGEST_WAIT and 0 <= arguments.back_off <= LONGEST_WAIT):
        parser.error(f"--stall-timeout is above 0, --back-off not below 0, both at most {LONGEST_WAIT:,} s")
    if arguments.lock == "":
        parser.error("--lock: an empty name; give the name of a file, or leave it out")
    datasets = load_datasets(arguments.datasets)
    if arguments.dataset not in datasets:
        raise UserError(f"{arguments.datasets}, column id: no row {arguments.dataset!r}; add it or correct --dataset")
    for mirror in arguments.mirrors:
        if not mirror.is_http and not Path(mirror.place).is_dir():
            raise UserError(f"mirror {mirror.place}: no such folder; correct it, or leave it out")
    download(
        datasets[arguments.dataset],
        arguments.out,
        arguments.mirrors,
        arguments.datasets,
        arguments.lock,
        arguments.offline,
        Patience(
            attempts=arguments.attempts,
            back_off=arguments.back_off,
            longest_retry_after=arguments.max_retry_after,
            stall=arguments.stall_timeout,
            seed=arguments.seed,
        ),
        arguments.slots_dir,
        arguments.max_parallel,
    )


if __name__ == "__main__":
    run_main(main)
