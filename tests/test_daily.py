"""What a person meets at the terminal: one line for a mistake, a failure's cause last, a run watched from outside."""

import dataclasses
import json
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from io import StringIO
from pathlib import Path

import pytest

import afterwards
import status
from common.errors import UserError
from engine.options import DESCRIPTIONS
from plan import check
from plan.load import load_config
from plan.objectives import OBJECTIVE_DATA
from plan.words import described, named_targets, unknown_target, what_this_is
from trees import copy_tree
from watch import events, terminal
from watch.python import wrong_python

REPOSITORY = Path(__file__).resolve().parent.parent


def not_of_another_make() -> dict[str, str]:
    """The environment without what `make test` tells the makes that it starts: they print their folders then."""
    return {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")}


@pytest.fixture(scope="module")
def tree(repository, tmp_path_factory) -> Path:
    return copy_tree(repository, tmp_path_factory.mktemp("daily"), own_reference=False)


def plainly(tree: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess:
    """A plain `snakemake` line, with the profile of the workflow."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    own = {name: value for name, value in os.environ.items() if not name.startswith("SNAKEMAKE")}
    return subprocess.run(
        [sys.executable, "-m", "snakemake", *arguments],
        cwd=tree, env=own | {"PATH": path} | environment, capture_output=True, text=True, check=False,
    )  # fmt: skip


def record(event: str, **said) -> logging.LogRecord:
    made = logging.LogRecord("snakemake", logging.INFO, "", 0, said.pop("msg", None), None, None)
    made.__dict__.update(said, event=event)
    return made


@pytest.fixture
def watch(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    stream = StringIO()
    made = terminal.Watch(
        "smoke", lambda: 2, lambda: False, "error: nothing makes {}".format, lambda: True, stream, tmp_path / "e"
    )
    yield made
    made.over.set()


def started(id_: int, rule: str, **wildcards: str) -> logging.LogRecord:
    return record("job_info", jobid=id_, rule_name=rule, wildcards=wildcards, log=[f"{rule}.log"], threads=1)


# --- mistakes: one line each that says the mend -----------------------------------------------------------------------


def errors(done: subprocess.CompletedProcess) -> list[str]:
    assert done.returncode != 0
    assert "Traceback" not in done.stdout + done.stderr, done.stderr
    said = (done.stdout + done.stderr).splitlines()  # a dry-run's own errors go to stdout
    return [line for line in said if "did you mean" in line or line.startswith("error: ")]


@pytest.mark.dag
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--config", "scale=smke"], "scale: 'smke' is unknown; did you mean 'smoke'?"),
        (["--config", "runs=[xml-r]"], "unknown run 'xml-r'; did you mean 'xlm-r'?"),
        (["--config", "items=[ernie-m/table-1]"], "'ernie-m/table-1'; did you mean 'ernie-m/table-01'?"),
        (["--config", "sede=[1]"], "sede: unknown key; did you mean 'seeds'?"),
        (["results/tables/ppa/table-1.tex"], "of this name; did you mean 'results/tables/ppa/table-01.tex'?"),
        (["--config", "download.offline=true", "--", "audit"], 'is given as "download={offline: true}"'),
        (["--config", "scale=smoke", "tables"], "write `--` between its settings and the targets: -- tables"),
    ],
)  # fmt: skip
def test_a_mistake_on_the_command_line_is_one_line_that_says_the_mend(tree, arguments, says):
    [line] = errors(plainly(tree, "--dry-run", *arguments))
    assert says in line


def test_seeds_that_are_none_are_told(tree):
    with pytest.raises(UserError, match=r"seeds.*must be"):
        load_config(tree, {"seeds": "one"})
    with pytest.raises(UserError, match=r"seeds"):
        load_config(tree, {"seeds": []})


def test_outside_of_the_environment_one_line_says_how_to_enter_it(tmp_path, monkeypatch):
    """A `python` without the packages comes first on PATH; one with them, or Snakemake's own, is right."""
    bare = tmp_path / "bare"
    bare.mkdir()
    (bare / "python").write_text("#!/bin/sh\nexit 1\n")
    (bare / "python").chmod(0o755)
    monkeypatch.setenv("PATH", str(bare))
    assert re.fullmatch(
        r"`python` is .*/bare/python, which lacks .*: \. /venv/bin/activate, .*", wrong_python("/venv/bin/python")
    )
    assert wrong_python(str(bare / "python3")) is None
    (bare / "python").write_text("#!/bin/sh\nexit 0\n")
    assert wrong_python("/venv/bin/python") is None
    monkeypatch.setenv("PATH", str(tmp_path))
    assert wrong_python("/venv/bin/python").startswith("no `python` on PATH")


@pytest.mark.parametrize(
    ("answers", "says"),
    [
        ({"version_info": 1}, "error: Python 3.9.1 is too old: install Python 3.11 or newer"),
        ({"ensurepip": 1}, "lacks the module venv: install it"),
    ],
)
@pytest.mark.parametrize("what", ["setup", "demo"])
def test_what_set_up_lacks_is_one_line(tmp_path, answers, says, what):
    """Before anything is installed. A Python that answers as an old one does, or without venv."""
    (tmp_path / "Makefile").write_text((REPOSITORY / "Makefile").read_text(encoding="utf-8"))
    for lock in ("requirements.lock", "requirements-demo.lock"):
        (tmp_path / lock).write_text("")
    tools = tmp_path / "tools"
    tools.mkdir()
    for tool in ("sh", "make", "test", "echo", "env"):
        if found := shutil.which(tool):
            (tools / tool).symlink_to(found)
    lines = [f'case "$*" in *{word}*) exit {status_};; esac' for word, status_ in answers.items()]
    text = "\n".join(["#!/bin/sh", 'case "$1" in --version) echo Python 3.9.1; exit 0;; esac', *lines, "exit 0", ""])
    (tools / "python3").write_text(text)
    (tools / "python3").chmod(0o755)
    environment = not_of_another_make()
    done = subprocess.run(
        ["make", what],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env=environment | {"PATH": str(tools)},
    )
    assert done.returncode != 0
    [line] = [line for line in done.stderr.splitlines() if "error: " in line]
    assert says in line


@pytest.mark.dag
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGHUP])
def test_after_ctrl_c_and_a_closed_terminal_the_same_line_goes_on(tree, how):
    """Without a word of incomplete files, failures or locks: the script is stopped in the middle of its output."""
    script = tree / "workflow/scripts/audit.py"
    kept = script.read_text(encoding="utf-8")
    slow = "import pathlib, time; pathlib.Path('results/tables/audit.tex').write_text('half'); time.sleep(60)"
    script.write_text(slow, encoding="utf-8")
    call = ["--cores", "1", "--config", "scale=smoke", "--", "results/tables/audit.tex"]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    half = tree / "results/tables/audit.tex"
    half.unlink(missing_ok=True)
    as_at_a_terminal = ["env", "--default-signal=INT,HUP"]  # ignored in what a script or nohup starts behind itself
    running = subprocess.Popen(
        [*as_at_a_terminal, sys.executable, "-m", "snakemake", *call],
        cwd=tree, env=os.environ | {"PATH": path}, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL,
        start_new_session=True,
    )  # fmt: skip
    try:
        deadline = time.monotonic() + 300
        while not half.exists() and time.monotonic() < deadline:
            time.sleep(0.1)
        os.killpg(running.pid, how)
        _, said = running.communicate(timeout=300)
    finally:
        running.kill()
        script.write_text(kept, encoding="utf-8")
    assert running.returncode != 0
    assert said.decode().splitlines()[-1] == terminal.STOPPED and "failed" not in said.decode()
    state = events.read_state(tree / events.EVENTS)
    assert (state.ended, state.failed, state.running) == ("stopped", [], {})
    assert not [*(tree / ".snakemake/locks").glob("*.lock")]
    done = plainly(tree, *call)
    assert done.returncode == 0, done.stderr
    assert "IncompleteFiles" not in done.stderr and half.read_text() != "half"


# --- the profile ------------------------------------------------------------------------------------------------------


@pytest.mark.dag
def test_a_plain_dry_run_says_the_scale_and_what_is_to_be_done_by_stage(tree):
    done = plainly(tree, "--dry-run", "--config", "scale=smoke", "--", "results/tables/ernie-m/table-01.tex")
    assert done.returncode == 0
    first = next(line for line in done.stderr.splitlines() if line.startswith("Scale "))
    assert first.startswith("Scale smoke: ") and "mean nothing" in first and "--config scale=paper" in first
    counts = {line[:20].strip(): line for line in done.stderr.splitlines() if line.startswith("  ")}
    assert "pretrain 3" in counts["pre-training"] and next(iter(counts)) == "data"
    assert "rule pretrain" not in done.stdout + done.stderr and len(done.stdout + done.stderr) < 5000


@pytest.mark.dag
def test_on_a_cluster_the_profile_of_the_workflow_leaves_the_number_of_jobs_alone(tree):
    """What stands in profiles/default wins over --profile."""
    script = (
        "import sys; sys.argv = ['snakemake', *sys.argv[1:]]\n"
        "from snakemake.cli import parse_args\n"
        "args = parse_args(sys.argv[1:])[1]\n"
        "print(args.cores, args.jobs, args.rerun_incomplete, args.show_failed_logs)"
    )
    said = {}
    for name, own in {"here": [], "slurm": ["--profile", "slurm"]}.items():
        command = [sys.executable, "-c", script, *own, "--config", "scale=smoke", "--", "tables"]
        done = subprocess.run(command, cwd=tree, capture_output=True, text=True, check=True)
        said[name] = done.stdout.split()
    assert said["here"][0] not in ("None", "100") and said["here"][2:] == ["True", "True"]
    assert said["slurm"][0] == "None" and said["slurm"][1] == "100" and said["slurm"][2:] == ["True", "True"]


@pytest.mark.dag
def test_a_failed_job_ends_with_its_cause_and_is_made_again(tree):
    """Its own message last, without Snakemake's long command; and the same line again goes on."""
    script = tree / "workflow/scripts/audit.py"
    kept = script.read_text(encoding="utf-8")
    script.write_text("import sys; sys.exit('error: config/audit.yaml, here: is wrong; mend it')", encoding="utf-8")
    call = ["--cores", "1", "--config", "scale=smoke", "--", "results/tables/audit.tex"]
    try:
        done = plainly(tree, *call)
    finally:
        script.write_text(kept, encoding="utf-8")
    assert done.returncode != 0
    assert done.stderr.rstrip().splitlines()[-3:] == [
        "audit failed:",
        "  error: config/audit.yaml, here: is wrong; mend it",
        "  all that it said: results/smoke/logs/audit.log",
    ]
    assert done.stderr.count("is wrong; mend it") == 1
    assert "CalledProcessError" not in done.stderr and "set -euo pipefail" not in done.stderr
    shown = subprocess.run(
        [sys.executable, "workflow/scripts/status.py"], cwd=tree, capture_output=True, text=True, check=True
    )
    assert "Scale smoke: 0 of 1 jobs done; it failed." in shown.stdout
    assert "FAILED: audit\n    error: config/audit.yaml, here: is wrong; mend it" in shown.stdout
    done = plainly(tree, *call)
    assert done.returncode == 0 and "Finished jobid" not in done.stderr
    shown = subprocess.run([sys.executable, "workflow/scripts/status.py"], cwd=tree, capture_output=True, text=True)
    assert "Scale smoke: 1 of 1 jobs done; it is finished. Open: results/smoke/." in shown.stdout


def test_the_changes_name_every_command(repository):
    makefile = (repository / "Makefile").read_text(encoding="utf-8")
    commands = set(re.search(r"^\.PHONY: (.*)", makefile, re.MULTILINE)[1].split()) - {"all"}
    assert {"demo", "push", "curves"} <= commands, "what makes no file of its name is phony"
    changes = (repository / "CHANGELOG.md").read_text(encoding="utf-8")
    assert commands - set(re.findall(r"`make ([\w-]+)`", changes)) == set()


# --- watching ---------------------------------------------------------------------------------------------------------


def test_what_a_run_does_can_be_read_from_its_events(watch, tmp_path):
    watch.filter(record("run_info", stats={"pretrain": 2, "score": 3, "total": 5}))
    watch.filter(started(1, "pretrain", run="xlm", scale="smoke"))
    watch.filter(started(2, "score", run="xlm"))
    watch.filter(record("job_finished", job_id=2))
    with open(watch.path, "a") as file:
        file.write('{"event": "fini')  # the line that is being written
    state = events.read_state(watch.path)
    assert (state.jobs, state.jobs_done, state.done, [*state.running]) == (5, 1, {"score": 1}, [1])
    assert state.running[1].name == "pretrain run=xlm"
    (tmp_path / "pretrain.log").write_text("started\n")
    assert "pretrain, which nobody has measured here yet" in status.heading(state, True, time.time())
    assert "at least " in events.short_line(state, {}, time.time())
    (tmp_path / "pretrain.log").write_text("started\nstep 5/30  mmlm 6.1\rstep 9/30  mmlm 5.2\r")
    shown = "\n".join(status.lines(state, time.time()))
    assert "1 of 5 jobs done, 1 running" in shown and "step 9/30  mmlm 5.2" in shown and "6.1" not in shown
    assert "measured here" not in shown, "its steps say how long it takes"


def test_what_ran_when_a_run_was_stopped_does_not_run(tmp_path, monkeypatch):
    job = events.Job(1, "finetune", {}, [])
    state = events.State(scale="mini", totals={"finetune": 2}, running={1: job}, ended="stopped")
    assert "finetune 0/2" in "\n".join(said := status.lines(state, 0.0)) and not [
        one for one in said if "running" in one
    ]
    monkeypatch.setattr("sys.argv", ["status.py", "--events", str(tmp_path / "other.txt")])
    (tmp_path / "other.txt").write_text("# Parallax\n")
    with pytest.raises(UserError, match=r"other\.txt: holds no event of a run yet"):
        status.main()


def test_a_run_that_is_finished_says_what_to_open_and_one_that_was_killed_to_unlock(tmp_path, monkeypatch):
    monkeypatch.setattr(status, "LOCKS", tmp_path)
    state = events.State(scale="mini", totals={"make_site": 1}, done={"make_site": 1}, ended="done")
    said = status.heading(state, False, 0.0)
    assert said == "Scale mini: 1 of 1 jobs done; it is finished. Open: results/index.html (make open)."
    state.ended = "stopped"
    again = "; it was stopped. Nothing runs now; the same command again goes on from there."
    assert status.heading(state, False, 0.0).endswith(again)
    (tmp_path / "0.input.lock").touch()
    assert status.heading(state, False, 0.0).endswith(
        "the same command again, after `make unlock`, goes on from there."
    )


def test_of_many_failures_the_first_is_said_last_and_the_rest_counted():
    jobs = [events.Job(number, "score", {"seed": str(number)}, []) for number in range(terminal.MOST_CAUSES + 2)]
    said = terminal.failures([terminal.failure(job) for job in jobs]).splitlines()
    assert said[0] == "2 more failed: make status names each."
    assert [line for line in said if line.endswith(" failed:")][-1] == "score seed=0 failed:"
    assert len(said) == 1 + 2 * terminal.MOST_CAUSES


def test_the_time_left_is_the_work_left_over_what_does_it_at_once():
    state = events.State(scale="smoke", cores=2, totals={"pretrain": 3, "score": 10}, done={"score": 4})
    job = events.Job(1, "pretrain", {}, [], started=100.0)
    state.running[1] = job
    # 3 x 50 s less 20 s, and 6 x 2 s, on two cores
    assert events.seconds_left(state, {"pretrain": 50.0, "score": 2.0}, now=120.0) == ((130 + 12) / 2, [])
    # one that takes long is not shared: of two jobs that run the last ends in 45 s
    state = events.State(cores=8, totals={"pretrain": 1}, running={1: job})
    assert events.seconds_left(state, {"pretrain": 50.0}, now=105.0) == (45.0, [])
    assert events.seconds_left(state, {}, now=105.0) == (0.0, ["pretrain"])
    # what this run has seen counts, not what another did
    state.seconds = {"pretrain": [80.0]}
    assert events.seconds_left(state, {"pretrain": 50.0}, now=105.0) == (75.0, [])
    assert events.seconds_left(events.State(cores=1, totals={"score": 4}), {"score": 3.0}, now=0.0) == (12.0, [])


def test_a_training_of_a_rule_that_nobody_knows_says_by_its_steps_how_long_it_takes(tmp_path):
    state = events.State(cores=2, totals={"pretrain": 3, "finetune": 9})
    for number, done in ((1, 500), (2, 1000)):
        log = tmp_path / f"{number}.log"
        log.write_text(f"reads shards\nstep 25/2000  mmlm 7.1  \rstep {done}/2000  mmlm 2.1  9 tokens/s  7 s left\n")
        state.running[number] = events.Job(number, "pretrain", {}, [str(log)], started=0.0)
    # three of 160 s, as the slower of two takes, less what two did; of fine-tunings nothing is known
    assert events.seconds_left(state, {}, now=40.0) == ((3 * 160 - 80) / 2, ["finetune"])
    assert ", at least 3 min left" in events.short_line(state, {}, now=40.0)
    assert events.seconds_left(state, {"pretrain": 60.0}, now=40.0) == ((3 * 60 - 80) / 2, ["finetune"])


def test_in_a_pipe_there_is_a_line_now_and_then_and_the_first_failure_is_said_last(watch, monkeypatch, tmp_path):
    monkeypatch.setattr(terminal, "EVERY", 0.0)
    watch.filter(record("run_info", stats={"pretrain": 2, "total": 2}))
    for number, words in ((1, "error: config/x.yaml, key: wrong"), (2, "later trouble")):
        (tmp_path / "pretrain.log").write_text(f"Traceback\n{words}\nmore\n" if number == 1 else words)
        watch.filter(started(number, "pretrain", seed=str(number)))
        watch.filter(record("job_error", jobid=number, shellcmd="python ..."))
    deadline = time.monotonic() + 60
    while "2 FAILED" not in watch.stream.getvalue() and time.monotonic() < deadline:
        time.sleep(0.1)
    watch.over.set()
    text = watch.stream.getvalue()
    assert "2 jobs to run:" in text and "0 of 2 jobs, 0 running" in text and "2 FAILED" in text
    assert watch.last.splitlines()[-3:-1] == ["pretrain seed=1 failed:", "  error: config/x.yaml, key: wrong"]
    assert "pretrain seed=2 failed:\n  error: later trouble" in watch.last
    assert "FAILED: pretrain seed=1" in text and "config/x.yaml" not in text, "the cause twice"
    assert "\r" not in text and "\x1b" not in text


def test_a_cause_of_several_lines_is_one_with_its_mend(tmp_path):
    (tmp_path / "a.log").write_text(
        "error: datasets.tsv, id a: no source gave the file\n  http://h/a: HTTP 404\nto mend: correct the url\n"
    )
    said = events.cause(events.Job(1, "download", {}, [str(tmp_path / "a.log")]))
    assert said == "error: datasets.tsv, id a: no source gave the file; http://h/a: HTTP 404; to mend: correct the url"


def test_a_job_that_was_killed_says_what_to_do(tmp_path):
    (tmp_path / "empty.log").write_text("")
    broken = (
        'Traceback (most recent call last):\n  File "{}", line 12, in <module>\n  File "torch/x.py", line 3, in f\n'
    )
    broken = broken.format("/home/me/parallax/workflow/scripts/engine/objectives/flat.py")
    broken += "TypeError: Objective.__init__() got an unexpected keyword argument 'prepair'\n"
    (tmp_path / "broken.log").write_text(broken)
    words = "error: TypeError: Objective.__init__() got an unexpected keyword argument 'prepair' "
    words += "(workflow/scripts/engine/objectives/flat.py, line 12)"
    assert events.cause(events.Job(1, "pretrain", {}, [str(tmp_path / "broken.log")])) == words
    (tmp_path / "broken.log").write_text(f"{broken}error: this is a fault of Parallax, or\n")
    said = events.cause(events.Job(1, "pretrain", {}, [str(tmp_path / "broken.log")]))
    assert said == f"{words}; this is a fault of Parallax, or"
    assert "want of memory" in events.cause(events.Job(1, "pretrain", {}, [str(tmp_path / "empty.log")]))


def test_every_rule_has_its_stage(repository):
    rules = set()
    for path in (repository / "workflow/rules").glob("*.smk"):
        rules |= set(re.findall(r"^rule (\w+):", path.read_text(encoding="utf-8"), re.MULTILINE))
    named = {rule for own in events.STAGES.values() for rule in own}
    assert named <= rules
    assert {
        rule for rule in rules - named if rule.startswith(("train_", "pretrain", "finetune", "clean_", "predict"))
    } == set()


def test_a_scale_that_extends_smoke_keeps_its_warning(repository, tmp_path):
    shutil.copytree(repository / "config", tmp_path / "config")
    own = "name: mine\nextends: smoke\ndescription: mine\n"
    (tmp_path / "config/scales/mine.yaml").write_text(own)
    config = load_config(tmp_path, {"scale": "mine"})
    assert described(config.scale) == "mine; the numbers mean nothing"
    assert "mean nothing" in what_this_is(config)


def test_a_run_whose_changes_a_scale_overrides_is_told(repository, tmp_path):
    """It would be planned as its parent, and nobody would know why."""
    shutil.copytree(repository / "config", tmp_path / "config")
    run = "name: mine\nextends: xlm\noptimizer: {peak_lr: 1.0e-3}\nschedule: {warmup_steps: 123}\n"
    (tmp_path / "config/runs/mine.yaml").write_text(run)
    words = what_this_is(load_config(tmp_path, {"runs": ["mine", "xlm", "ernie-m-base"]}))
    assert "mine is xlm here, and is not trained again" in words and words.count(" here, and") == 1
    assert "config/scales/mini.yaml, run_overrides or objective_overrides." in words
    for asked in ({}, {"runs": "all"}):  # not by name: of a person's own runs alone
        assert what_this_is(load_config(tmp_path, asked)).count("is not trained again") == 1
    own = "objective_overrides: {tlm: {weight: 2.0, mask: {rate: 0.4}}, mmlm: {mask: {rate: 0.3}}}\n"
    (tmp_path / "config/runs/mine.yaml").write_text(run + own)
    words = what_this_is(load_config(tmp_path, {"runs": ["mine", "ernie-m-base"]}))
    assert " here, and" not in words and words.count("in place of") == 3
    assert (
        " mine: config/scales/mini.yaml has optimizer.peak_lr 0.005 in place of 0.001, schedule.warmup_steps 200 in "
        "place of 123, tlm.mask.rate 0.3 in place of 0.4."
    ) in words
    assert "in place of" not in what_this_is(load_config(tmp_path, {"runs": ["xlm", "ernie-m-base"]}))


def test_an_objective_that_a_scale_does_not_know_is_told(repository, tmp_path, monkeypatch):
    """Others are masked more there: beside them it would look worse, or better, for that alone."""
    shutil.copytree(repository / "config", tmp_path / "config")
    objective = "{name: flat, weight: 1.0, mask: {rate: 0.15, mask: 0.8, random: 0.1, keep: 0.1}}"
    run = f"name: mine\nextends: xlm-r\nobjectives: [{objective}]\n"
    (tmp_path / "config/runs/mine.yaml").write_text(run)
    real, names = check.names_in, dict.fromkeys(("OBJECTIVES", "PASSES"), tuple(DESCRIPTIONS))
    monkeypatch.setattr(check, "names_in", lambda file, table: names.get(table) or real(file, table))
    monkeypatch.setitem(DESCRIPTIONS, "flat", dataclasses.replace(DESCRIPTIONS["mmlm"], form="block"))
    monkeypatch.setitem(OBJECTIVE_DATA, "flat", "mono")
    for table in names:
        told = rf"^config/runs/mine\.yaml, objectives\[0\]: 'flat' is not in {table} of \S+; add it there"
        with pytest.raises(UserError, match=told):
            load_config(tmp_path)
        names[table] = tuple(DESCRIPTIONS)
    with pytest.raises(UserError, match="DESCRIPTIONS, 'flat': unknown form 'block'; did you mean 'blocks'"):
        load_config(tmp_path)
    monkeypatch.setattr(check, "check_declared", lambda *_: None)
    words = what_this_is(load_config(tmp_path, {"runs": ["mine", "xlm-r"]}))
    assert (
        " mine: flat is as its file says, and others are as config/scales/mini.yaml says, objective_overrides."
    ) in words


def test_a_run_that_nothing_shows_is_told(repository):
    """It would be trained, and never evaluated."""
    words = what_this_is(load_config(repository, {"runs": ["xlm-r", "alm"]}))
    assert "No table or figure shows alm, so nothing evaluates it: make new-table." in words
    for runs in (["xlm-r"], "all", None):
        assert "No table" not in what_this_is(load_config(repository, {"runs": runs}))


# --- the end of a call ------------------------------------------------------------------------------------------------


def timed(tree: Path, rule: str, name: str, seconds: float) -> None:
    path = tree / f"results/mini/benchmarks/{rule}/{name}.tsv"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"s\tcpu_time\n{seconds}\t1\n")


def test_rules_of_one_script_know_how_long_they_took(tmp_path):
    timed(tmp_path, "split_corpus", "mono/cc-100/en", 3.0)
    timed(tmp_path, "clean_mono", "cc-100/en/0", 5.0)
    rules = ["split_corpus_mono", "split_corpus_bitext", "clean_mono", "score"]
    assert events.benchmarked("mini", rules, tmp_path) == dict.fromkeys(rules[:2], 3.0) | {"clean_mono": 5.0}


def test_what_the_snakefile_makes_by_name_is_offered_for_a_slip(repository):
    text = (repository / "Snakefile").read_text(encoding="utf-8")
    rules = {*re.findall(r"^rule (\w+):", text, re.MULTILINE)}
    assert "apart" in rules and rules <= {*named_targets(load_config(repository, {}))}


@pytest.mark.parametrize(
    ("target", "mend"),
    [
        ("results/mini/scores/xlm-r/xnli/cross-lingual-transfer/seed-1.json", "give --config scale=mini"),
        (
            "results/smoke/scores/xlmr/xnli/cross-lingual-transfer/seed-1.json",
            "run 'xlmr' is unknown; did you mean 'xlm-r'?",
        ),
        ("results/smoke/runs/xlmr/seed-1/model.safetensors", "run 'xlmr' is unknown; did you mean 'xlm-r'?"),
        ("results/smoke/scores/xlm-r/xnly/cross-lingual-transfer/seed-1.json", "did you mean 'xnli'?"),
        ("results/smoke/finetuned/xlm-r/xnli/translate-train-al/seed-1", "did you mean 'translate-train-all'?"),
        ("results/smoke/scores/xlm-r/xnli/cross-lingual-transfer/seed-x.json", "--list"),
        ("results/smoke/nothing", "--list"),
        ("results/tables/ernie-m/table-1.tex", "did you mean 'results/tables/ernie-m/table-01.tex'?"),
        ("tabels", "did you mean 'tables'?"),
    ],
)
def test_a_target_that_nothing_makes_is_told_with_what_was_meant(repository, target, mend):
    said = unknown_target(load_config(repository, {"scale": "smoke"}), target)
    assert said.startswith(f"error: {target}: nothing makes a file of this name; ") and mend in said
    assert "\n" not in said


def test_a_finished_call_says_what_it_trained_and_found_and_what_is_next(repository, tmp_path, monkeypatch):
    shutil.copytree(repository / "config", tmp_path / "config")
    monkeypatch.chdir(tmp_path)
    for seed in (1, 2, 3):
        (tmp_path / f"results/mini/runs/xlm/seed-{seed}").mkdir(parents=True)
        timed(tmp_path, "pretrain", f"xlm/seed-{seed}", 100.0)
        timed(tmp_path, "finetune", f"xlm/xnli/cross-lingual-transfer/seed-{seed}", 20.0)
    (tmp_path / "results/mini/runs/ernie-m-base/seed-1").mkdir(parents=True)  # of another call
    timed(tmp_path, "pretrain", "ernie-m-base/seed-1", 100.0)
    link = {"words": "a > b", "measured_words": "+5.2 [+1.0, +9.4] of +1.1", "unit": "points", "level": 0.95}
    claim = {"says": "A is ahead of B", "paper_name": "P"}
    undecided = {
        **claim,
        "verdict": "undecided",
        "verdict_corrected": "undecided",
        "links": [{**link, "interval": [-1, 2]}],
    }
    decided = {
        **claim,
        "verdict": "reproduced",
        "verdict_corrected": "reproduced",
        "links": [{**link, "interval": [1.0, 9.4]}],
    }
    by_a_hair = {**decided, "verdict_corrected": "undecided", "says": "A is ahead of C"}
    (tmp_path / "results/mini/claims.json").write_text(json.dumps({"claims": [undecided, by_a_hair, decided]}))
    config = load_config(tmp_path, {"scale": "mini"})
    trained, found, opened, _, after = afterwards.lines(config, cores=2)
    assert trained.startswith("Trained and evaluated: xlm, 3 seeds, in 6 min")
    assert (
        found == "Reproduced: A is ahead of B (P). a > b: +5.2 [+1.0, +9.4] points, 95 % interval; the paper has +1.1."
    )
    assert "make open" in opened
    count, hours = re.search(r"trains the (\d+) other runs .*, some ([\d.]+) h on this", after).groups()
    assert float(hours) == pytest.approx(int(count) * 360 / 2 / 3600, abs=0.06)
    assert afterwards.headline([undecided], None).startswith("No claim is decided: of 1, 1 could be tried")
    assert "A is ahead of C" in afterwards.headline([undecided, by_a_hair], None)
    narrower = {**decided["links"][0], "measured_words": "+5.2 [+1.0, +9.4] of +1.1 (+0.6 here)"}
    said = afterwards.headline([{**decided, "links": [narrower]}], None)
    assert said.endswith("; the paper has +1.1 (+0.6 in these languages).")
    # of numbers that mean nothing, none is a finding
    assert "mean nothing" in afterwards.headline([decided], "the numbers mean nothing")
    reference = load_config(tmp_path, {"scale": "mini", "scores_from": "reference"})
    demo = afterwards.lines(reference, cores=2)
    assert demo[0].startswith("Nothing was trained") and demo[2].startswith("Open: results/index.html")
    assert "reference/scores/mini/" in demo[3], "make demo writes no scores.tsv"
    assert "make CONFIG=scores_from=reference" in demo[2] and "make CONFIG=runs=all trains" in after
    # what is advised is of the scale that was asked for
    real = afterwards.lines(load_config(tmp_path, {"scale": "real"}), cores=2)
    assert "make SCALE=real CONFIG=runs=all trains" in real[4] and "make plan SCALE=real CONFIG=runs=all" in real[4]
    of_real = load_config(tmp_path, {"scale": "real", "scores_from": "reference"})
    assert "make SCALE=real CONFIG=scores_from=reference" in afterwards.lines(of_real, cores=2)[2]


# --- make -------------------------------------------------------------------------------------------------------------


def test_the_short_commands_print_the_line_that_they_stand_for(tmp_path):
    text = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
    (tmp_path / "Makefile").write_text(text.replace(": setup", ":").replace(": $(DEMO_STAMP)", ":"))
    for name in ("snakemake", "python"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    for words, line in {
        "table T=ernie-m/table-01": "--config runs=all -- results/tables/ernie-m/table-01.tex",
        "table T=mine/table-01 CONFIG=runs=[mine]": "--config runs=[mine] -- results/tables/mine/table-01.tex",
        "train RUN=xlm-r SCALE=smoke": "--config scale=smoke runs=[xlm-r] -- models training",
        "smoke": "--config scale=smoke -- tables results/index.html",
        "pdf CONFIG=seeds=[1]": "--config seeds=[1] -- results/tables/all.pdf",
        "all": "tables results/index.html",
        "demo": "--config scores_from=reference engine=false -- results/index.html",
    }.items():
        done = subprocess.run(
            ["make", *words.split(), "CORES=2"], cwd=tmp_path, capture_output=True, text=True, check=True,
            env=not_of_another_make() | {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"},
        )  # fmt: skip
        assert done.stdout.splitlines()[0] == f"snakemake --cores 2 {line}", words


def test_nothing_is_set_that_a_person_gives():
    """Left out, it would be something else than nothing: RUNS of `make new-table` all that there are."""
    text = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
    given = {*re.findall(r"\b([A-Z]+)=", text.partition("\n\n")[0])}
    assert {"RUN", "RUNS", "TASKS", "CONFIG", "SCALE"} <= given
    assert given.isdisjoint(re.findall(r"^([A-Z_]+) :?= ", text, re.MULTILINE))


def test_events_are_json_lines(watch):
    watch.filter(record("run_info", stats={"score": 1, "total": 1}))
    assert [json.loads(line)["event"] for line in watch.path.read_text().splitlines()] == ["run"]


# --- what belongs to a project ----------------------------------------------------------------------------------------


def test_the_version_is_the_same_wherever_it_stands(repository):
    import tomllib

    import yaml

    version = tomllib.loads((repository / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    assert yaml.safe_load((repository / "CITATION.cff").read_text(encoding="utf-8"))["version"] == version
    assert (
        re.search(r"^## (\S+)", (repository / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)[1] == version
    )


def test_continuous_integration_and_the_pages_call_commands_that_exist(repository):
    """Every make target that a page or a workflow of CI names is one, and README's files of docs are there."""
    targets = set(re.findall(r"^([a-z-]+):(?!=)", (repository / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    pages = [repository / "README.md", repository / "CONTRIBUTING.md", *(repository / "docs").glob("*.md")]
    pages += (repository / ".github/workflows").glob("*.yml")
    for path in pages:
        named = set(re.findall(r"(?:^|`|run: )make ([a-z-]+)", path.read_text(encoding="utf-8"), re.MULTILINE))
        assert named <= targets, f"{path.name}: make {', '.join(sorted(named - targets))}"
    readme = (repository / "README.md").read_text(encoding="utf-8")
    assert len(readme.splitlines()) <= 120
    for name in re.findall(r"`(docs/[\w.-]+)`", readme):
        assert (repository / name).exists(), name
