"""Kill jobs, workers and Snakemake at random moments of the smoke scale; the tables must be those of a quiet run.

    python tests/faults/kill.py --rounds 30 --seed 1 --out kills.json      (make faults)
    python tests/faults/kill.py --rounds 10 --through slurm                daemons too, on a cluster of tests/slurm

A round starts from a finished tree. The outputs of one rule or job and what follows from them are removed; then
something is killed once or several times, each time when a random job has started, plus a random pause. After each kill
the workflow is called again as a user would call it: `make smoke`, and `make unlock` where Snakemake asks for it.
In the end every table, figure and scores.tsv is compared byte by byte with the undisturbed tree.

Trees: `whole`, the smoke scale; `narrow`, one table of one run, of which every step is redone in a short time;
`workers`, the same trained by torchrun with two processes. What is killed, when and where follows from --seed and the
number of the round; the very moment depends on the machine. Only processes that this script has started are ended, by
their ids.
"""

import argparse
import contextlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

import psutil

REPOSITORY = Path(__file__).resolve().parent.parent.parent
KEPT = ("Makefile", "Snakefile", "config", "workflow", "envs", "reference", "slurm", "requirements.lock")
COMPARED = ("results/smoke/scores.tsv", "results/tables/**/*.tex", "results/figures/**/*.p*")
NARROW = ("items=[ernie-m/table-05]", "runs=[xlm-r]")
TABLE = "results/tables/ernie-m/table-05.tex"
STARTED = re.compile(r"^(?:local)?rule (\w+):$", re.MULTILINE)
ASKS_TO_UNLOCK = "Directory cannot be locked"
PAUSE = 1.5  # seconds at most between the start of the chosen job and the kill
MARK = "PARALLAX_FAULTS_ROUND"  # in the environment of everything that a round starts
HUNG = 400.0  # seconds after which a call is taken for one that does not end
CALLS = 6  # a round that needs more calls than this after its last kill does not recover


@dataclass(frozen=True)
class Tree:
    config: tuple[str, ...]
    targets: tuple[str, ...]
    scale: str = ""  # appended to config/scales/smoke.yaml


TREES = {
    "whole": Tree((), ("tables", "results/smoke/scores.tsv")),
    "narrow": Tree(NARROW, ("results/smoke/scores.tsv", TABLE)),
    "workers": Tree(NARROW, ("results/smoke/scores.tsv", TABLE), "resources: {pretrain: {gpu: 2}}\n"),
}
# The outputs of the narrow tree in the order in which they come about. A round removes those of one rule and of all
# that come later.
STAGES = {
    "build_world": "world/MANIFEST.tsv",
    "download": "raw/*/**/*.*",
    "split_corpus": "corpus/*/*/*/*.raw.zst",
    "find_duplicates": "corpus/*/*/*/*.duplicates.npy",
    "train_language_id": "corpus/language-id.bin",
    "index_eval_sets": "corpus/eval-index.npy",
    "train_pair_model": "corpus/*/*/*/pair-model.npz",
    "clean": "corpus/*/*/*/*.clean.t*.zst",
    "plan_sampling_vocabulary": "vocab/sampling_plan.tsv",
    "train_vocabulary": "vocab/spm.model",
    "encode_corpus": "shards/*/*/*/*.json",
    "resolve_run": "runs/*/run.yaml",
    "plan_sampling_run": "runs/*/sampling_plan.tsv",
    "pretrain": "runs/*/*/model.safetensors",
    "finetune": "finetuned/*/*/*/*/model.safetensors",
    "predict": "predictions/*/*/*/seed-*",
    "score": "scores/*/*/*/seed-*.json",
    "collect_scores": "scores.tsv",
}
# Of the whole tree: one fine-tuning, prediction or score with what follows from it, or another single file.
EVALUATION = {"finetune": "finetuned", "predict": "predictions", "score": "scores"}
SINGLE = {
    "summarise_training": "results/smoke/trainings/*/seed-*.json",
    "make_table": "results/tables/*/*.tex",
    "plot_figure": "results/figures/*/*.png",
}
STARTS = {"narrow": [*STAGES], "workers": ["encode_corpus", "resolve_run", "pretrain"], "whole": [*EVALUATION, *SINGLE]}
# What is killed, and how often beside the others.
KILLS = {
    "job KILL": 6,
    "job TERM": 3,
    "snakemake KILL": 3,  # its jobs live on, beside those of the next call
    "everything KILL": 4,  # the power goes
    "everything INT": 2,  # Ctrl-C
    "snakemake TERM": 2,
}
WORKER_KILLS = {"worker KILL": 4, "job KILL": 1, "everything KILL": 1}
SUBMIT = ["--profile", "slurm", "--local-cores", "2", "--slurm-init-seconds-before-status-checks", "1"]
SLURM_KILLS = {"slurmd KILL": 2, "slurmctld KILL": 2, "job KILL": 2, "snakemake KILL": 1}


@dataclass(frozen=True)
class Options:
    folder: Path
    cores: int
    slurm: "Slurm | None" = None

    @property
    def environment(self) -> dict[str, str]:
        own = dict(self.slurm.environment) if self.slurm else dict(os.environ)
        path = f"{Path(sys.executable).parent}{os.pathsep}{own['PATH']}"
        return own | {"PATH": path, "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive"}

    def is_busy(self) -> bool:
        return self.slurm is not None and bool(self.slurm.jobs())


@dataclass
class Kill:
    what: str
    planned_after: int  # so many jobs of this call have started
    pause: float
    rule: str | None = None  # of the script that ran
    second: float | None = None  # since the round began
    pid: int | None = None


@dataclass
class Round:
    seed: int
    number: int
    tree: str
    start: str  # the rule whose output was removed
    removed: list[str]
    kills: list[Kill] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)  # how each ended
    seconds: float = 0.0
    left_over: int = 0  # temporary files that the killed left
    result: str = ""

    @property
    def done(self) -> list[Kill]:
        return [kill for kill in self.kills if kill.second is not None]


# --- trees ------------------------------------------------------------------------------------------------------------


def copy_repository(tree: Path) -> None:
    shutil.rmtree(tree, ignore_errors=True)
    tree.mkdir(parents=True)
    for kept in KEPT:
        if (REPOSITORY / kept).is_dir():
            shutil.copytree(REPOSITORY / kept, tree / kept, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(REPOSITORY / kept, tree / kept)


def make_tree(name: str, folder: Path) -> Path:
    tree = folder / name
    if (tree / "finished").exists():
        return tree
    copy_repository(tree)
    with open(tree / "config/scales/smoke.yaml", "a", encoding="utf-8") as file:
        file.write(TREES[name].scale)
    return tree


def command(name: str, options: Options, *extra: str) -> list[str]:
    """As the Makefile has it."""
    tree = TREES[name]
    how = SUBMIT if options.slurm else ["--cores", str(options.cores)]
    scheduler = ["--scheduler", "greedy", "--rerun-incomplete"]
    call = [sys.executable, "-m", "snakemake", *how, *scheduler, *extra, "--config", "scale=smoke", *tree.config]
    return [*call, "--", *tree.targets]


def products(tree: Path) -> dict[str, bytes]:
    return {str(path.relative_to(tree)): path.read_bytes() for glob in COMPARED for path in sorted(tree.glob(glob))}


def differences(found: dict[str, bytes], expected: dict[str, bytes]) -> list[str]:
    return sorted(name for name in found.keys() | expected.keys() if found.get(name) != expected.get(name))


# --- processes --------------------------------------------------------------------------------------------------------


class Call:
    """One call of Snakemake, in a session of its own, and what it says."""

    def __init__(self, name: str, tree: Path, options: Options, *extra: str):
        self.log = tree / "call.log"
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                command(name, options, *extra),
                cwd=tree,
                env=options.environment | {MARK: str(tree)},
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.started = time.monotonic()

    def text(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")

    def jobs_started(self) -> int:
        return len(STARTED.findall(self.text()))

    def jobs_planned(self) -> int:
        found = re.search(r"^total +(\d+)$", self.text(), re.MULTILINE)
        return int(found[1]) if found else 0

    def ended(self) -> bool:
        return self.process.poll() is not None or time.monotonic() - self.started > HUNG


def at_work(tree: Path) -> list[psutil.Process]:
    """All processes of a round: they have inherited its mark. Also those whose Snakemake is gone."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.environ().get(MARK) == str(tree) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def end_all(tree: Path) -> None:
    """Whatever happens to a round, nothing of it stays behind."""
    for process in at_work(tree):
        with contextlib.suppress(psutil.Error):
            process.kill()


def script_of(process: psutil.Process) -> str | None:
    """The name of the rule's script that a process runs; a shell or torchrun that only starts it is none."""
    with contextlib.suppress(psutil.Error, IndexError):
        words = process.cmdline()
        for word in words[1:4]:
            if word.startswith("workflow/scripts/") and word.endswith(".py"):
                return Path(word).stem
    return None


def strike(kill: Kill, call: Call, tree: Path, options: Options) -> bool:
    """Send the signal; False where there is nothing of that kind, or, of daemons, no job that would notice."""
    target, how = kill.what.split()
    number = getattr(signal, f"SIG{how}")
    everyone = at_work(tree)
    scripts = [(process, name) for process in everyone if (name := script_of(process))]
    if target == "worker":
        scripts = [(process, name) for process, name in scripts if "LOCAL_RANK" in environment_of(process)]
    if target in ("job", "worker"):
        if not scripts:
            return False
        process, kill.rule = scripts[kill.planned_after % len(scripts)]
        kill.pid = process.pid
        with contextlib.suppress(psutil.Error):
            process.send_signal(number)
            return True
        return False
    kill.rule = ",".join(sorted({name for _, name in scripts})) or None
    if options.slurm and target in options.slurm.daemons:
        if not scripts:
            return False
        options.slurm.kill(target, number)
        return True
    kill.pid = call.process.pid
    with contextlib.suppress(ProcessLookupError):
        os.kill(call.process.pid, number)
    if target == "everything":
        for process in everyone:
            if process.pid != call.process.pid:
                with contextlib.suppress(psutil.Error):
                    process.send_signal(number)
    return True


def environment_of(process: psutil.Process) -> dict[str, str]:
    with contextlib.suppress(psutil.Error):
        return process.environ()
    return {}


# --- a round ----------------------------------------------------------------------------------------------------------


def plan_round(seed: int, number: int, options: Options, trees: list[str]) -> Round:
    rng = random.Random(f"{seed}/{number}")
    starts = [(tree, rule) for tree in trees for rule in STARTS[tree]]
    order = list(starts)
    random.Random(f"{seed}/{number // len(starts)}").shuffle(order)  # each once before any comes again
    tree, rule = order[number % len(starts)]
    kinds = SLURM_KILLS if options.slurm else WORKER_KILLS if tree == "workers" else KILLS
    found = Round(seed, number, tree, rule, to_remove(options.folder / tree, tree, rule, rng))
    for _ in range(rng.choice((1, 2, 2, 3))):
        what = rng.choices(list(kinds), list(kinds.values()))[0]
        found.kills.append(Kill(what, rng.randrange(1_000_000), rng.uniform(0, PAUSE)))
    return found


def to_remove(folder: Path, tree: str, rule: str, rng: random.Random) -> list[str]:
    smoke = folder / "results/smoke"
    if rule in SINGLE:
        files = [rng.choice(sorted(folder.glob(SINGLE[rule]))), folder / "results/tables/all.tex"]
    elif tree == "whole":
        kinds = [*EVALUATION.values()]
        kind = EVALUATION[rule]
        place = rng.choice(sorted((smoke / kind).glob("*/*/*/seed-*"))).relative_to(smoke / kind).with_suffix("")
        files = [smoke / later / place for later in kinds[kinds.index(kind) :]]
        files += [(smoke / "scores" / place).with_suffix(".json"), smoke / "scores.tsv"]
    else:
        rules = [*STAGES]
        globs = [STAGES[later] for later in rules[rules.index(rule) :]]
        files = [path for glob in globs for path in smoke.glob(glob)] + [folder / TABLE]
    return sorted({str(path.relative_to(folder)) for path in files if path.exists()})


def play(one: Round, options: Options) -> None:
    """Remove, kill, call again, until the workflow is through."""
    source, tree = options.folder / one.tree, options.folder / "round"
    shutil.rmtree(tree, ignore_errors=True)
    shutil.copytree(source, tree, symlinks=True)  # whole files: through hard links the quiet tree would change as well
    for gone in (tree / name for name in one.removed):
        shutil.rmtree(gone) if gone.is_dir() else gone.unlink(missing_ok=True)
    begun, waiting, in_peace, text = time.monotonic(), list(one.kills), 0, ""
    try:
        while in_peace < CALLS:
            call = Call(one.tree, tree, options)
            if waiting and wait_and_strike(waiting.pop(0), call, tree, options, begun):
                in_peace = 0
            else:
                in_peace += 1
            while not call.ended():
                if options.slurm:
                    options.slurm.hurry()
                time.sleep(0.1)
            text = call.text()
            one.calls.append(ending(call.process.poll(), text))
            if ASKS_TO_UNLOCK in text:
                unlock = [sys.executable, "-m", "snakemake", "--unlock", "--config", "scale=smoke"]
                subprocess.run(unlock, cwd=tree, env=options.environment, capture_output=True, check=True, timeout=120)
            elif one.calls[-1] in ("finished", "hung"):
                break
        while (at_work(tree) or options.is_busy()) and time.monotonic() - begun < 2 * HUNG:
            time.sleep(0.1)  # jobs of a killed Snakemake that are still at work: what they write counts too
    finally:
        if options.slurm:
            options.slurm.cancel()
        end_all(tree)
    wrong = differences(products(tree), products(source))
    one.left_over = len(list(tree.glob("results/**/.*.tmp")))
    one.seconds = round(time.monotonic() - begun, 1)
    if one.calls[-1] != "finished":
        one.result = "does not end: " + text[-1500:]
    else:
        one.result = "identical" if not wrong else f"{len(wrong)} files differ: {', '.join(wrong[:5])}"


def wait_and_strike(kill: Kill, call: Call, tree: Path, options: Options, begun: float) -> bool:
    """The kill, when the chosen job has started and the pause is over; False when the workflow was faster."""
    due = None
    while not call.ended():
        planned = call.jobs_planned()
        # Workers live in one job alone: the first moment counts that has any. After the last jobs it would be too late.
        chosen = 0 if kill.what.startswith("worker") else 1 + kill.planned_after % max(1, planned - 2)
        if due is None and planned and call.jobs_started() >= chosen:
            due = time.monotonic() + kill.pause
        if due is not None and time.monotonic() >= due and strike(kill, call, tree, options):
            kill.second = round(time.monotonic() - begun, 2)
            return True
        time.sleep(0.05)
    return False


def ending(status: int | None, text: str) -> str:
    if status is None:
        return "hung"
    if status == 0:
        return "finished"
    if ASKS_TO_UNLOCK in text:
        return "asks to unlock"
    return f"status {status}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10, help="default: %(default)s")
    parser.add_argument("--first", type=int, default=0, help="number of the first round (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=1e9, help="begin no round after so many seconds")
    parser.add_argument("--seed", type=int, default=1, help="default: %(default)s")
    parser.add_argument("--trees", nargs="+", choices=sorted(TREES), default=sorted(TREES))
    parser.add_argument("--cores", type=int, default=os.cpu_count(), help="default: all")
    parser.add_argument("--folder", type=Path, default=REPOSITORY / "results/faults", help="default: results/faults")
    parser.add_argument("--out", type=Path, help="JSON of all rounds, added to what it holds")
    parser.add_argument("--through", choices=("local", "slurm"), default="local", help="who runs the jobs")
    args = parser.parse_args()
    begun = time.monotonic()
    with cluster(args.through, min(args.seconds, 6 * 3600)) as slurm:
        options = Options(args.folder.resolve(), args.cores, slurm)
        for name in args.trees:
            undisturbed(name, options)
        rounds = []
        for number in range(args.first, args.first + args.rounds):
            if time.monotonic() - begun > args.seconds:
                print(f"out of time before round {number}", flush=True)
                break
            one = plan_round(args.seed, number, options, args.trees)
            play(one, options)
            rounds.append(one)
            kills = ", ".join(f"{kill.what} in {kill.rule} at {kill.second} s" for kill in one.done) or "none in time"
            print(
                f"round {number}: {one.tree} from {one.start}; {kills}; {', '.join(one.calls)}; {one.seconds} s: "
                f"{one.result}",
                flush=True,
            )
            if args.out:
                add(args.out, one)
            if one.result != "identical":
                (options.folder / "round").rename(options.folder / f"failed-{args.seed}-{number}-{int(time.time())}")
    good = [one for one in rounds if one.result == "identical"]
    kills, of_good = (sum(len(one.done) for one in some) for some in (rounds, good))
    print(f"{len(good)} of {len(rounds)} rounds identical; {of_good} of {kills} kills in them")
    return 0 if len(good) == len(rounds) else 1


def undisturbed(name: str, options: Options) -> None:
    tree = make_tree(name, options.folder)
    if (tree / "finished").exists():
        return
    call = Call(name, tree, options)
    try:
        call.process.wait(3 * HUNG)
    finally:
        end_all(tree)
    if call.process.returncode != 0:
        raise SystemExit(f"error: the undisturbed run of {name} failed: {call.log}")
    (tree / "finished").touch()


def add(path: Path, one: Round) -> None:
    rounds = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps([*rounds, asdict(one)], indent=1) + "\n", encoding="utf-8")
    temporary.replace(path)


# --- Slurm ------------------------------------------------------------------------------------------------------------


class Slurm:
    """The loopback cluster of tests/slurm, whose killed daemons come back as systemd would have it."""

    daemons = ("slurmd", "slurmctld")

    def __init__(self, module, running, seconds: float):
        self.module, self.running, self.seconds, self.dead = module, running, seconds, set()
        self.environment = running.environment

    def jobs(self, states: str = "pending,running,completing") -> list[dict[str, str]]:
        with contextlib.suppress(RuntimeError, subprocess.TimeoutExpired):
            return self.running.jobs(states)
        return []

    def hurry(self) -> None:
        """Who was put back into the queue waits two minutes there; not here."""
        time.sleep(1)
        for job in self.jobs("pending"):
            if job["reason"] == "BeginTime":
                self.running.call("scontrol", "update", f"JobId={job['id']}", "StartTime=now", check=False)

    def cancel(self) -> None:
        for job in self.jobs():
            self.running.call("scancel", job["id"], check=False)

    def kill(self, target: str, number: int) -> None:
        daemon = "slurmd-n1" if target == "slurmd" else target
        self.running.kill(daemon, number)
        self.dead.add(daemon)
        time.sleep(3)
        self.revive()

    def revive(self) -> None:
        for daemon in sorted(self.dead):
            if daemon == "slurmctld":
                self.module.spawn(self.running, daemon, self.seconds, "slurmctld", "-D")
            else:
                self.running.start_node(daemon.removeprefix("slurmd-"), self.seconds)
        self.dead.clear()


@contextlib.contextmanager
def cluster(through: str, seconds: float) -> Iterator[Slurm | None]:
    if through == "local":
        yield None
        return
    sys.path.insert(0, str(REPOSITORY / "tests/slurm"))
    import cluster as module

    with module.running(seconds) as running:
        yield Slurm(module, running, seconds)


if __name__ == "__main__":
    sys.exit(main())
