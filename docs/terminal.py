"""Record what the terminal says, for docs/terminal.md: the demo, a main run, its status, and a failure in each stage.

    python docs/terminal.py

The commands run in a fresh copy of the tree, and each failure is a real one: something in the copy is broken for it.
Paths, times and numbers of processes become `...`, so that two recordings differ by what has changed.
"""

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parent.parent
SECONDS = 540  # beyond this a command hangs
FILE = "facebookresearch/LASER/main/data/tatoeba/v1/tatoeba.deu-eng.deu"  # of config/datasets.tsv
SCORE = "results/smoke/scores/xlm-r/xnli/cross-lingual-transfer/seed-1.json"
MAKE = 'make SCALE=smoke CONFIG="items=[ernie-m/table-01] runs=[xlm-r]"'
HEAD = """# What the terminal says

Recorded by `python docs/terminal.py`, which runs these commands in a fresh copy of the tree, in a pipe; on a terminal a
bar stands in place of the line a minute. Paths, times and dates are `...`. A failure ends with its cause and the mend,
and after the mend the same command goes on from where it was.
"""


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text, f"{path} no longer holds {old!r}: mend docs/terminal.py"
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


@contextmanager
def restored(path: Path) -> Iterator[Path]:
    """A file of the tree that may be damaged within."""
    kept, stat = path.read_bytes(), path.stat()
    try:
        yield path
    finally:
        path.parent.mkdir(parents=True, exist_ok=True)  # Snakemake takes away the empty folder of what failed
        path.write_bytes(kept)
        os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


@contextmanager
def nothing_broken(tree: Path) -> Iterator[None]:
    yield


class Silent(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def download_gone(tree: Path) -> Iterator[None]:
    """A server of this machine that lacks the file, in place of the real one."""
    with restored(tree / "config/datasets.tsv") as datasets, tempfile.TemporaryDirectory() as empty:
        server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Silent, directory=empty))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        edit(datasets, f"https://raw.githubusercontent.com/{FILE}", f"http://127.0.0.1:{server.server_port}/{FILE}")
        (tree / "port").write_text(str(server.server_port), encoding="utf-8")
        try:
            yield
        finally:
            server.shutdown()
            server.server_close()
            (tree / "port").unlink()


@contextmanager
def text_damaged(tree: Path) -> Iterator[None]:
    """A shard of raw text that lost its second half, as a full disk leaves it."""
    with restored(tree / "results/smoke/corpus/mono/cc-100/de/0.raw.zst") as shard:
        shard.write_bytes(shard.read_bytes()[: shard.stat().st_size // 2])
        yield


@contextmanager
def rate_too_high(tree: Path) -> Iterator[None]:
    with restored(tree / "config/scales/smoke.yaml") as scale:
        edit(scale, "peak_lr: 4.0e-3", "peak_lr: 10")
        yield


@contextmanager
def answers_cut(tree: Path) -> Iterator[None]:
    """Predictions whose last line is gone, to be scored again."""
    answers = tree / "results/smoke/predictions/xlm-r/xnli/cross-lingual-transfer/seed-1/test-de.tsv"
    score = tree / SCORE
    with restored(answers), restored(score):
        lines = answers.read_text(encoding="utf-8").splitlines(keepends=True)
        answers.write_text("".join(lines[:-1]), encoding="utf-8")
        score.unlink()
        yield


@contextmanager
def score_edited(tree: Path) -> Iterator[None]:
    score = tree / SCORE
    with restored(score):
        text = score.read_text(encoding="utf-8")
        score.write_text(re.sub(r'("value": )[\d.]+', r"\g<1>101.0", text, count=1), encoding="utf-8")
        yield


@contextmanager
def under_way(tree: Path) -> Iterator[None]:
    """The main run with a longer training, until that has told its losses; then Ctrl-C."""
    log, began = tree / "results/smoke/logs/pretrain/xlm-r/seed-1.log", time.time()
    with restored(tree / "config/scales/smoke.yaml") as scale:
        edit(scale, "schedule: {steps: 30,", "schedule: {steps: 30000,")
        with subprocess.Popen(
            **shell(MAKE, tree), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        ) as run:
            try:
                while not (log.exists() and log.stat().st_mtime > began and "\nstep " in log.read_text()):
                    assert run.poll() is None and time.time() < began + SECONDS, "no training began"
                    time.sleep(0.1)
                yield
            finally:
                os.killpg(run.pid, signal.SIGINT)


# Title, what is broken, and the command. They are recorded in this order, in one tree.
PARTS = [
    ("The demo", nothing_broken, "make demo"),
    ("A main run", nothing_broken, MAKE),
    ("Its status, from another terminal, when it has ended", nothing_broken, "make status"),
    (
        "A download that is not there",
        download_gone,
        f"snakemake --cores 2 --config scale=real -- results/real/raw/files.example/{FILE}",
    ),
    ("Cleaning: a shard of text that lost its end", text_damaged, MAKE),
    ("Scoring: predictions that lost a line", answers_cut, f"snakemake --cores 2 --config scale=smoke -- {SCORE}"),
    ("A table: a score that was edited", score_edited, MAKE),
    ("Training: a learning rate of 10", rate_too_high, MAKE),
    ("The status after a failure", nothing_broken, "make status"),
    ("The status of a run under way, from another terminal", under_way, "make status"),
]


def neutral(said: str, tree: Path) -> str:
    """Without what belongs to one machine or one hour."""
    said = re.sub(rf"(?:{re.escape(str(tree))}|/[^\s:'\"]*)/(?=\.snakemake/|results/|workflow/|config/)", "", said)
    said = said.replace(str(tree), "parallax").replace(str(Path.home()), "~")
    for pattern, word in (
        (r"127\.0\.0\.1:\d+", "files.example"),
        (r"\b[0-9a-f]{64}\b", "..."),
        (r"\d{4}-\d\d-\d\dT\d{6}\.\d+\.snakemake", "...snakemake"),
        (r"^\d\d:\d\d ", "..:.. "),
        (r"\b\d+:\d\d:\d\d(?:\.\d+)?", "..."),
        (r"\b\d+ h(?: \d+ min)?\b|\b\d+ min(?: \d+ s)?\b|\b\d+(?:\.\d+)? s\b", "..."),
        (r"\b\d[\d,]* tokens/s", "... tokens/s"),
        (r"(Provided cores: )\d+", r"\1..."),
        (r"/(?:usr/)?bin/bash", "bash"),
        (r"[ \t]+$", ""),
    ):
        said = re.sub(pattern, word, said, flags=re.MULTILINE)
    return said.strip()


def fresh_copy(to: Path) -> Path:
    command = ["git", "ls-files", "-z"]
    names = subprocess.run(command, cwd=REPOSITORY, check=True, capture_output=True, text=True).stdout.split("\0")
    for name in filter(None, names):
        (to / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(REPOSITORY / name, to / name)
    (to / ".venv").symlink_to(sys.prefix)
    return to


def shell(command: str, tree: Path) -> dict[str, Any]:
    """How a command is called in the tree; set-up is done already."""
    port = tree / "port"
    line = command.replace("files.example", f"127.0.0.1:{port.read_text()}" if port.exists() else "")
    line = re.sub(r"^make", "make --no-print-directory -o .venv/.installed -o .venv/.installed-for-demo", line)
    own = {name: value for name, value in os.environ.items() if not name.startswith(("SNAKEMAKE", "MAKE", "MFLAGS"))}
    path = f"{tree}/.venv/bin{os.pathsep}{os.environ['PATH']}"
    env = own | {"PATH": path, "OMP_NUM_THREADS": "1"}
    return {"args": ["bash", "-c", line], "cwd": tree, "env": env, "stdin": subprocess.DEVNULL}


def record(command: str, tree: Path) -> str:
    """What it says, in a pipe."""
    done = subprocess.run(
        **shell(command, tree), timeout=SECONDS, text=True, check=False,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    return neutral(done.stdout, tree)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=REPOSITORY / "docs/terminal.md", metavar="PATH", help="the page")
    arguments = parser.parse_args()
    page = HEAD
    with tempfile.TemporaryDirectory() as folder:
        tree = fresh_copy(Path(folder) / "parallax")
        for title, broken, command in PARTS:
            print(f"{title}: {command}", file=sys.stderr, flush=True)
            with broken(tree):
                page += f"\n## {title}\n\n```\n$ {command}\n{record(command, tree)}\n```\n"
    arguments.out.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
