"""The study without Snakemake: its steps read what earlier ones make, end in the scores of the plan, and go on."""

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import study
from common.errors import UserError
from plan.claimed import all_score_paths
from plan.load import load_config
from plan.runs import trained_run
from trees import copy_tree, snakemake

REPOSITORY = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def whole(repository) -> study.Study:
    config = load_config(repository, {"scale": "real"})
    runs = [trained_run(config, run) for run in config.scale["runs"]]
    return study.Study(config, runs, config.seeds, ["/mirror"], 1)


@pytest.mark.parametrize("run", load_config(REPOSITORY, {"scale": "real"}).scale["runs"])
def test_every_step_of_one_run_reads_what_is_there_by_then(whole, run):
    reads_what_is_there(study.Study(whole.config, [trained_run(whole.config, run)], [1], ["/mirror"], 1))


def test_every_step_reads_what_is_there_by_then(whole):
    made = reads_what_is_there(whole)
    assert {path for path in made if "/scores/" in path} == set(all_score_paths(whole.config))


def test_a_part_of_the_tasks_is_what_it_scores_and_the_training_is_the_same(whole):
    few = study.Study(whole.config, ["xlm-align-base"], [2], ["/mirror"], 1, ["tatoeba", "word-alignment"])
    all_of_it = study.Study(whole.config, ["xlm-align-base"], [2], ["/mirror"], 1)
    made = reads_what_is_there(few)
    wanted = {path for path in reads_what_is_there(all_of_it) if "/scores/" in path}
    kept = {path for path in wanted if {"tatoeba", "word-alignment"} & set(Path(path).parts)}
    assert {path for path in made if "/scores/" in path} == kept and 0 < len(kept) < len(wanted)
    trained = [[step for step in one.steps() if step.script == "pretrain"] for one in (few, all_of_it)]
    assert trained[0] == trained[1] and len(trained[0]) == 2


@pytest.mark.parametrize("flag", ["--runs", "--tasks"])
def test_a_name_that_is_not_known_is_refused(monkeypatch, repository, flag):
    monkeypatch.chdir(repository)
    monkeypatch.setattr(sys, "argv", ["study", flag, "tatoba", "--list"])
    with pytest.raises(UserError, match=f"{flag}: 'tatoba' is no file of config/"):
        study.main()


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (["--tasks", "xnli"], "--tasks xnli: nothing to score at scale real: its training text is not among"),
        (["--tasks", "tatoeba", "--runs", "fast-align"], "--tasks tatoeba: nothing to score at scale real: no table"),
        (["--runs", "xlm-e-deep"], "--runs xlm-e-deep: nothing to score at scale real: it is not among the scale's"),
        (["--runs", "xlm-r,fast-align", "--tasks", "tatoeba"], "--runs fast-align: nothing to score"),
    ],
)
def test_what_would_be_trained_and_not_scored_is_refused(monkeypatch, repository, asked, said):
    monkeypatch.chdir(repository)
    monkeypatch.setattr(sys, "argv", ["study", *asked, "--list"])
    with pytest.raises(UserError, match=said):
        study.main()


def reads_what_is_there(whole: study.Study) -> set[str]:
    made, known = set(), {"--out", "--counts", "--rejects", "--signatures", "--log-json", "--cost", "--dev-json"}
    for step in whole.steps():
        own = zip(["", *step.arguments], step.arguments, strict=False)
        reads = {value.partition("=")[2] or value for flag, value in own if flag not in known}
        folders = {"results/real/raw", "results/real/corpus", "results/real/shards"}
        for path in (path for path in reads if path.startswith("results/") and path not in folders):
            assert path in made or any(path.startswith(f"{one}/") for one in made), (step.script, path)
        made |= set(step.makes)
        made |= {value for flag, value in zip(step.arguments, step.arguments[1:], strict=False) if flag in known}
    return made


def test_its_steps_are_scripts(whole, repository):
    for script in {step.script for step in whole.steps()}:
        assert (repository / f"workflow/scripts/{script}.py").is_file()


# What a rule says aloud and a study leaves to the script: its default.
DEFAULTS = {
    "--config": ["config/cleaning.yaml"],
    "--datasets": ["config/datasets.tsv"],
    "--lock": ["config/datasets.lock.tsv"],
    "--max-parallel": ["4"],
    "--slots-dir": ["results/real/raw/.slots"],
    "--threads": ["1"],
}


def options_of(words: list[str]) -> dict[str, list[str]]:
    """Option -> its values in any order, as `--name value` or `--name=value`; one without values is a switch."""
    found, name = {}, ""
    for word in words:
        first, equals, value = word.partition("=")
        if word.startswith("--"):
            name = first
            found.setdefault(name, []).extend([value] if equals else [])
        else:
            found.setdefault(name, []).append(word)
    return {name: sorted(values) for name, values in found.items()}


@pytest.mark.dag
def test_its_commands_are_those_of_the_rules(repository, tmp_path):
    """A study writes the calls of the rules a second time: a flag that one of them forgets would make other numbers."""
    tree = copy_tree(repository, tmp_path / "tree", own_reference=False)
    config = load_config(tree, {"scale": "real"})
    runs = ["ppa-250k", "ernie-m-base", "xlm-align-base", "fast-align"]
    steps = [*study.Study(config, runs, [1], ["/mirror"], 1).steps()]
    targets = [file for step in steps for file in step.makes if "/scores/" in file or "/trainings/" in file]
    words = [
        "--dry-run",
        "--printshellcmds",
        "--config",
        "scale=real",
        "mirrors=[/mirror]",
        "seeds=[1]",
        "--",
        *targets,
    ]
    planned = snakemake(tree, *words)
    calls = re.findall(
        r"python workflow/scripts/(\w+)\.py (.*) > \S+ 2>&1$", planned.stdout + planned.stderr, re.MULTILINE
    )
    rules = [(script, options_of(shlex.split(line))) for script, line in calls]
    own = [(step.script, options_of(step.arguments)) for step in steps]
    of_rules, of_study = ({(script, *told["--out"]): told for script, told in found} for found in (rules, own))
    assert of_study.keys() == of_rules.keys() and len(of_study) > 400
    for step, told in of_study.items():
        for name, values in of_rules[step].items():
            assert told.get(name, DEFAULTS.get(name, [])) == values, (step, name)
        assert told.keys() <= of_rules[step].keys(), step


def test_a_step_that_saves_goes_on_and_one_that_fails_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(study, "SCRIPTS", tmp_path)
    out, log = tmp_path / "made", tmp_path / "logs/log"
    step = study.Step([str(out)], "pretrain", [])
    (tmp_path / "pretrain.py").write_text("import sys\nprint(sys.argv[1:])\nraise SystemExit(75)\n", encoding="utf-8")
    assert study.carry_out(step, log, 5.5, study.Processes({})) is False
    assert log.read_text(encoding="utf-8") == "['--budget', '5']\n"
    with pytest.raises(UserError, match=r"pretrain failed \(status 75\); read .*log, mend it"):
        study.carry_out(step, log, None, study.Processes({}))
    (tmp_path / "pretrain.py").write_text("", encoding="utf-8")
    with pytest.raises(UserError, match="pretrain failed"):  # it ends well and makes nothing
        study.carry_out(step, log, None, study.Processes({}))
    (tmp_path / "pretrain.py").write_text(f"open({str(out)!r}, 'w').close()", encoding="utf-8")
    assert study.carry_out(step, log, 5.5, study.Processes({})) is True


def test_seeds_that_the_scale_does_not_have_are_refused(monkeypatch, repository):
    monkeypatch.chdir(repository)
    monkeypatch.setattr(sys, "argv", ["study", "--list", "--seeds", "1,77"])
    with pytest.raises(UserError, match="--seeds: the scale has no 77; it has 1, 2, 3"):
        study.main()


def test_no_jobs_at_a_time_are_refused(monkeypatch, repository):
    monkeypatch.chdir(repository)
    monkeypatch.setattr(sys, "argv", ["study", "--jobs", "0", "--list"])
    with pytest.raises(UserError, match="--jobs 0: give 1 or more"):
        study.main()


def test_a_scale_with_a_world_is_refused(monkeypatch, repository):
    monkeypatch.chdir(repository)
    monkeypatch.setattr(sys, "argv", ["study", "--scale", "mini"])
    with pytest.raises(UserError, match="has a generated world"):
        study.main()


COPY = """
import pathlib, sys, time
out, wanted = pathlib.Path(sys.argv[2]), sys.argv[3:]
(out.parent / f"{out.name}.begun").write_text("")
if wanted == ["meet"]:  # goes on when another has begun beside it, and takes its time
    until = time.monotonic() + 30
    while len(list(out.parent.glob("*.begun"))) < 2 and time.monotonic() < until:
        time.sleep(0.01)
    assert len(list(out.parent.glob("*.begun"))) == 2
    time.sleep(0.5)
elif wanted == ["fail"]:
    sys.exit(1)
else:
    for place in map(pathlib.Path, wanted):
        assert place.is_file() or {"1", "2"} <= {path.name for path in place.glob("*")}
out.write_text("")
"""


@pytest.fixture()
def copies(tmp_path, monkeypatch):
    """Steps that need a file, a folder or nothing; and what `follow` does with them."""
    (tmp_path / "copy.py").write_text(COPY, encoding="utf-8")
    monkeypatch.setattr(study, "SCRIPTS", tmp_path)

    def step(name: str, *wanted: str) -> study.Step:
        out = str(tmp_path / name)
        return study.Step(
            [out], "copy", ["--out", out, *(own if own in ("meet", "fail") else str(tmp_path / own) for own in wanted)]
        )

    def made(jobs: int, *steps: study.Step, until: float | None = None) -> set[str]:
        study.follow(list(steps), jobs, until, tmp_path / "logs", study.Processes({}))
        return {Path(step.makes[0]).name for step in steps if Path(step.makes[0]).exists()}

    return step, made


def test_several_steps_run_at_once_and_none_before_what_it_reads(copies):
    step, made = copies
    steps = [step("a/1", "meet"), step("a/2", "meet"), step("b/1", "a"), step("c/1", "b/1"), step("d/1")]
    assert made(3, *steps) == {"1", "2"}  # each, or `follow` would have raised


def test_after_a_failure_nothing_new_begins_and_it_is_named(copies, tmp_path):
    step, made = copies
    steps = [step("a/1", "fail"), step("b/1"), step("c/1", "b/1"), step("d/1")]
    with pytest.raises(UserError, match=r"copy failed \(status 1\); read .*copy-.*a-1.log"):
        made(1, *steps)
    assert not (tmp_path / "b/1").exists() and not (tmp_path / "d/1").exists()


def test_of_two_failures_both_are_named(copies, capsys):
    step, made = copies
    with pytest.raises(UserError, match="copy failed") as first:
        made(2, step("a/1", "fail"), step("a/2", "fail"))
    told = str(first.value) + capsys.readouterr().err
    assert "a-1.log" in told and "a-2.log" in told


def test_after_its_time_nothing_begins(copies):
    step, made = copies
    assert made(1, step("a/1"), until=time.monotonic() + 0.5) == set()
    assert made(1, step("a/1"), until=time.monotonic() + 60) == {"1"}


TWO_TRAININGS = """
import signal, sys
from pathlib import Path
import study
here = Path(sys.argv[1])
study.SCRIPTS = here
processes = study.Processes({})
signal.signal(signal.SIGTERM, processes.end)
steps = [study.Step([str(here / name)], "wait", [str(here / name)]) for name in ("a", "b", "c")]
study.follow(steps, 2, None, here / "logs", processes)
"""
WAIT = """
import signal, sys, time
from pathlib import Path
def save(*_):
    Path(sys.argv[1] + ".saved").touch()
    sys.exit(75)
signal.signal(signal.SIGTERM, save)
Path(sys.argv[1] + ".begun").touch()
time.sleep(60)
"""


def test_what_runs_is_told_to_end_with_it_and_saves(tmp_path, repository):
    (tmp_path / "wait.py").write_text(WAIT, encoding="utf-8")
    command = [sys.executable, "-c", TWO_TRAININGS, str(tmp_path)]
    scripts = {"PYTHONPATH": str(repository / "workflow/scripts")}
    with subprocess.Popen(command, env=os.environ | scripts, stderr=subprocess.PIPE, text=True) as process:
        until = time.monotonic() + 60
        while len(list(tmp_path.glob("*.begun"))) < 2 and time.monotonic() < until:
            time.sleep(0.05)
        process.terminate()
        assert process.wait(30) == 128 + signal.SIGTERM, process.stderr.read()
    assert {path.name for path in tmp_path.glob("*.saved")} == {"a.saved", "b.saved"}
    assert not (tmp_path / "c.begun").exists()
