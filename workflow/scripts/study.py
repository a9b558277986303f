"""Compute a scale's runs and scores without Snakemake, script by script, on one machine:

  python workflow/scripts/study.py --scale real --device cuda --jobs 8 --budget 1700 --mirror /data/mirror
  python workflow/scripts/study.py --scale real --device cpu --seeds 1 --runs xlm-r,xlm --only 2

What is there is not made again, so that the same command goes on where the last one ended; a training that was stopped
goes on from its last checkpoint. After --budget seconds nothing new begins, and a training saves and ends. It is for a
rented GPU that has Python and no more: models this small leave most of it idle, so --jobs lets several share it. The
workflow sees what has changed since, and makes the tables of these files. Told to end (SIGTERM, Ctrl-C, a
lost terminal), it tells what runs, and a training saves.
"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from pathlib import Path
from types import FrameType
from typing import IO, NamedTuple

from common.errors import STOPPED_STATUS, UserError, run_main
from common.pairs import pair_with_english
from plan.claimed import all_needs
from plan.config import Config
from plan.data import corpus_languages, data_of_runs, vocabulary_data
from plan.datasets import bitext_ids, mono_ids
from plan.evidence import score_path, seeds_of
from plan.load import load_config
from plan.recipes import (
    DEV_PARTS,
    HELD_OUT_PARTS,
    TEST_PARTS,
    TRAIN_PARTS,
    gold_datasets,
    recipe_datasets,
    recipe_of,
    resolve_recipe,
    task_languages,
    trained_as,
)
from plan.runs import resolve_run, trained_run, vocabulary_path, weights_path, with_ancestors
from plan.seeds import pretrain_seed
from plan.sources import is_gathered, labelled_text

SCRIPTS = Path(__file__).parent
LOCK = "config/datasets.lock.tsv"  # the workflow's too


class Step(NamedTuple):
    makes: list[str]  # the files by which it is known to be done
    script: str
    arguments: list[str]


class Study:
    """The steps of a scale, in an order in which each finds what it reads."""

    def __init__(
        self,
        config: Config,
        runs: list[str],
        seeds: list[int],
        mirrors: list[str],
        threads: int,
        tasks: list[str] | None = None,
    ):
        self.config, self.seeds, self.mirrors, self.threads = config, seeds, mirrors, threads
        self.needs = [
            (run, task, job) for run, task, job in all_needs(config) if run in runs and (tasks is None or task in tasks)
        ]
        self.runs = with_ancestors(config, [*runs, *(run for run, _, _ in self.needs)])
        self.runs.sort(key=lambda run: len(self.lineage(run)))
        self.at = f"results/{config.scale_name}"
        self.overrides = ["--overrides", json.dumps(config.scale.get("cleaning", {}), sort_keys=True)]
        self.mono, self.bitext = data_of_runs(config, self.runs)
        self.mono = sorted({*self.mono, *vocabulary_data(config)})
        self.bitext = sorted({*self.bitext, *self.read_by_tasks()})

    def read_by_tasks(self) -> set[tuple[str, str]]:
        """(corpus, pair) that fine-tuning for retrieval trains on or centred retrieval takes its means of."""
        resolved = [
            resolve_recipe(self.config, task, job, recipe_of(self.config, run)) for run, task, job in self.needs
        ]
        corpora = [recipe[use]["corpora"] for recipe in resolved for use in ("bitext", "centre") if use in recipe]
        return {(corpus, pair) for pairs in corpora for pair, names in pairs.items() for corpus in names}

    def lineage(self, run: str) -> list[str]:
        init = resolve_run(self.config, run).get("init")
        return [run, *(self.lineage(init["run"]) if init else [])]

    def raw(self, ids: list[str]) -> list[str]:
        return [f"{self.at}/raw/{self.config.datasets[id_].path}" for id_ in ids]

    def steps(self) -> Iterator[Step]:
        yield from self.downloads()
        yield from self.cleaning()
        yield from self.encoding()
        for seed in self.seeds:
            for run in self.runs:
                yield from self.training(run, pretrain_seed(self.config, seed))
            for run, task, job in self.needs:
                if seed in seeds_of(self.config, run):  # an aligner draws nothing: it has one
                    yield from self.evaluation(run, task, job, seed)

    def downloads(self) -> Iterator[Step]:
        known = (self.config.datasets, self.config.languages)
        ids = {id_ for corpus, code in self.mono for id_ in mono_ids(corpus, code, *known)}
        ids |= {id_ for corpus, pair in self.bitext for id_ in bitext_ids(corpus, pair, *known)}
        ids |= {id_ for _, id_ in labelled_text(self.config)} | {id_ for _, id_ in self.gold()}
        for run, task, job in self.needs:
            recipe = resolve_recipe(self.config, task, job, recipe_of(self.config, run))
            ids |= set(recipe_datasets(recipe, (*TRAIN_PARTS, *TEST_PARTS, *DEV_PARTS, *HELD_OUT_PARTS)))
        mirrors = [f"--mirror={mirror}" for mirror in self.mirrors]
        for id_ in sorted(ids):
            [out] = self.raw([id_])
            yield Step([out], "download", ["--dataset", id_, *mirrors, "--lock", LOCK, "--out", out])

    def gold(self) -> list[tuple[str, str]]:
        config, codes = self.config, corpus_languages(self.config)
        tasks = sorted(config.scale["decontaminate"])
        return [
            (task, id_) for task in tasks for id_ in gold_datasets(config, task, task_languages(config, task, codes))
        ]

    def cleaning(self) -> Iterator[Step]:
        known, corpus = (self.config.datasets, self.config.languages), f"{self.at}/corpus"
        identifier = f"{corpus}/language-id.bin"
        texts = [f"{code}={path}" for code, id_ in labelled_text(self.config) for path in self.raw([id_])]
        yield Step([identifier], "train_language_id", ["--text", *texts, "--out", identifier, *self.overrides])
        index, near = f"{corpus}/eval-index.npy", f"{corpus}/eval-signatures.npy"
        gold = [f"{task}={path}" for task, id_ in self.gold() for path in self.raw([id_])]
        yield Step(
            [index, near], "index_eval_sets", ["--task", *gold, "--out", index, "--signatures", near, *self.overrides]
        )
        asked = ["--language-id", identifier, "--eval-index", index, "--eval-signatures", near]
        root = ["--root", f"{self.at}/raw"]
        for kind, name, code in [("mono", *one) for one in self.mono] + [("bitext", *one) for one in self.bitext]:
            folder = f"{corpus}/{kind}/{name}/{code}/0"
            raw, twice = f"{folder}.raw.zst", f"{folder}.duplicates.npy"
            ids = (mono_ids if kind == "mono" else bitext_ids)(name, code, *known)
            gathered = is_gathered(self.config, ids[0])
            if kind == "mono":
                alone = self.raw([id_ for id_ in ids if self.config.datasets[id_].kind == "sentences"])
                form = ["--gathered", *(["--alone", *alone] if alone else [])] if gathered else []
                yield Step([raw], "split_corpus", ["mono", "--text", *self.raw(ids), *form, *root, "--out", raw])
            else:
                form = ["--aligned" if gathered else "--archive", *self.raw(ids), "--pair", code]
                yield Step([raw], "split_corpus", ["bitext", *form, *root, "--out", raw])
            yield Step([twice], "find_duplicates", ["--shards", raw, "--out", twice, *self.overrides])
            clean = f"{folder}.clean.{'txt' if kind == 'mono' else 'tsv'}.zst"
            what = ["--language", code]
            if kind == "bitext":
                model = f"{corpus}/{kind}/{name}/{code}/pair-model.npz"
                yield Step([model], "train_pair_model", ["--shards", raw, "--out", model, *self.overrides])
                what = ["--pair", code, "--pair-model", model]
            out = ["--out", clean, "--counts", f"{folder}.clean.json", "--rejects", f"{folder}.rejects.tsv.zst"]
            arguments = ["--shard", raw, "--duplicates", twice, *asked, *what, *out, *self.overrides]
            yield Step([clean, f"{folder}.clean.json"], f"clean_{kind}", arguments)

    def encoding(self) -> Iterator[Step]:
        corpus, plan, chosen = (
            f"{self.at}/corpus",
            f"{self.at}/vocab/sampling_plan.tsv",
            self.config.scale["vocabulary"],
        )
        counts = [f"{corpus}/mono/{name}/{code}/0.clean.json" for name, code in vocabulary_data(self.config)]
        alpha = ["--alpha", str(chosen.get("alpha", 0.3))]
        yield Step([plan], "plan_sampling", ["--counts", *counts, *alpha, "--out", plan])
        size = ["--size", str(chosen["size"]), "--sentences", str(chosen["sentences"])]
        size += ["--character-coverage", str(chosen["character_coverage"])]
        size += ["--algorithm", chosen.get("algorithm", "unigram")]
        spm = vocabulary_path(self.config)
        yield Step([spm], "train_vocabulary", ["--plan", plan, "--corpus", corpus, *size, "--out", spm])
        for stem, suffix in self.texts(self.mono, self.bitext):
            out = f"{self.at}/shards/{stem}.json"
            text = f"{corpus}/{stem}.clean.{suffix}.zst"
            yield Step([out], "encode_corpus", ["--text", text, "--vocabulary", spm, "--out", out])

    def texts(self, mono: list, bitext: list) -> list[tuple[str, str]]:
        return [(f"mono/{corpus}/{code}/0", "txt") for corpus, code in mono] + [
            (f"bitext/{corpus}/{pair}/0", "tsv") for corpus, pair in bitext
        ]

    def training(self, run: str, seed: int) -> Iterator[Step]:
        folder, scale = f"{self.at}/runs/{run}", self.config.scale_name
        resolved, plan = f"{folder}/run.yaml", f"{folder}/sampling_plan.tsv"
        files = ["--run", f"config/runs/{run}.yaml", "--scale", f"config/scales/{scale}.yaml"]
        yield Step([resolved], "resolve_run", [*files, "--out", resolved])
        if run not in self.config.pretrained:
            return
        shards = [f"{self.at}/shards/{stem}.json" for stem, _ in self.texts(*data_of_runs(self.config, [run]))]
        yield Step([plan], "plan_sampling", ["--run", resolved, "--manifests", *shards, "--out", plan])
        out = weights_path(self.config, run, seed)
        log, cost = (str(Path(out).with_name(name)) for name in ("train.jsonl", "cost.json"))
        init = resolve_run(self.config, run).get("init")
        start = ["--init", weights_path(self.config, init["run"], seed)] if init else []
        told = ["--run-file", resolved, "--plan", plan, "--shards", f"{self.at}/shards", "--seed", str(seed), *start]
        told += ["--vocabulary", vocabulary_path(self.config), "--threads", str(self.threads), "--world-size", "1"]
        yield Step([out, log, cost], "pretrain", [*told, "--out", out, "--log-json", log, "--cost", cost])
        short = f"{self.at}/trainings/{run}/seed-{seed}.json"
        told = ["--run-file", resolved, "--log-json", log, "--cost", cost, "--seed", str(seed), "--scale", scale]
        yield Step([short], "summarise_training", [*told, "--out", short])

    def evaluation(self, run: str, task: str, job: str, seed: int) -> Iterator[Step]:
        config, name = self.config, recipe_of(self.config, run)
        resolved = resolve_recipe(config, task, job, name)
        recipe, scale = f"{self.at}/recipes/{task}/{job}/{name}.yaml", config.scale_name
        files = ["--task", f"config/tasks/{task}.yaml", "--setting", job, "--recipe", name]
        yield Step([recipe], "resolve_recipe", [*files, "--scale", f"config/scales/{scale}.yaml", "--out", recipe])
        read = ["--recipe", recipe, "--raw", f"{self.at}/raw", "--counts", "upstream"]
        predictions = f"{self.at}/predictions/{run}/{task}/{job}/seed-{seed}"
        who = ["--scale", scale, "--seed", str(seed), "--out", predictions]
        if config.runs[run]["kind"] == "aligner":
            pairs = set(map(pair_with_english, task_languages(config, task)))
            own = [one for one in data_of_runs(config, [run])[1] if one[1] in pairs]
            text = ["--bitext", *self.clean([], own), "--run-file", f"{self.at}/runs/{run}/run.yaml"]
            yield Step([predictions], "fast_align", [*read, *text, *who])
        else:
            encoder = weights_path(config, run, pretrain_seed(config, seed))
            trained = trained_as(config, task, job)
            model = (
                f"{self.at}/finetuned/{run}/{'/'.join(trained)}/seed-{seed}/model.safetensors" if trained else encoder
            )
            spm = ["--spm", vocabulary_path(config), "--threads", str(self.threads)]
            if trained == (task, job):
                start = ["--encoder", encoder, *spm, "--seed", str(seed), "--out", model]
                start += ["--dev-json", str(Path(model).with_name("dev.json"))]
                if "bitext" in resolved:
                    yield Step(
                        [model], "finetune_retrieval", ["--recipe", recipe, *self.pairs(resolved, "bitext"), *start]
                    )
                else:
                    yield Step([model], "finetune", [*read, *start])
            centre = self.pairs(resolved, "centre")
            yield Step([predictions], "predict", [*read, "--model", model, *spm, "--run", run, *centre, *who])
        score = score_path(config, run, task, job, seed)
        yield Step([score], "score", [*read, "--predictions", predictions, "--out", score])

    def pairs(self, resolved: dict, use: str) -> list[str]:
        corpora = resolved.get(use, {}).get("corpora", {})
        text = self.clean([], [(corpus, pair) for pair, names in corpora.items() for corpus in names])
        return ["--bitext", *text] if use in resolved else []

    def clean(self, mono: list, bitext: list) -> list[str]:
        return [f"{self.at}/corpus/{stem}.clean.{suffix}.zst" for stem, suffix in self.texts(mono, bitext)]


def check_wanted(study: Study, runs: list[str], tasks: list[str]) -> None:
    """Refuse a run or task of which nothing would be scored, before it is trained for nothing."""
    config, scored = study.config, {name for run, task, _ in study.needs for name in (run, task)}
    for task in tasks:
        if task not in scored:
            reason = config.scale.get("left_out", {}).get(task, "no table shows it of these runs")
            raise UserError(f"--tasks {task}: nothing to score at scale {config.scale_name}: {reason}")
    for run in runs:
        if trained_run(config, run) not in scored:
            raise UserError(
                f"--runs {run}: nothing to score at scale {config.scale_name}: it is not among the scale's runs, or no "
                "table shows it on these tasks"
            )


class Processes:
    """Those of the steps that run. They end when this one is told to: a training that nobody waits for would keep its
    core, and its folder from the next, until its end."""

    def __init__(self, environment: dict[str, str]) -> None:
        self.environment = environment
        self.running: set[subprocess.Popen] = set()
        self.told = False

    def run(self, command: list[str], log: IO[str]) -> int:
        """The status that it ends with."""
        with subprocess.Popen(command, stdout=log, stderr=log, env=self.environment) as process:
            self.running.add(process)
            if self.told:  # between the start and its being known
                process.terminate()
            status = process.wait()
        self.running.discard(process)
        return status

    def end(self, number: int, _: FrameType | None) -> None:
        self.told = True
        for process in list(self.running):
            process.terminate()
        sys.exit(128 + number)


def carry_out(step: Step, log: Path, seconds: float | None, processes: Processes) -> bool:
    """Run a step, its output into `log`; False where its time is over and it saved what it had."""
    own = step.arguments + (["--budget", str(int(seconds))] if seconds and step.script == "pretrain" else [])
    log.parent.mkdir(parents=True, exist_ok=True)
    for path in step.makes:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
    with open(log, "w", encoding="utf-8") as stream:
        status = processes.run([sys.executable, str(SCRIPTS / f"{step.script}.py"), *own], stream)
    if status == 0 and all(Path(path).exists() for path in step.makes):
        return True
    if step.script == "pretrain" and seconds and not Path(step.makes[0]).exists() and status in (0, STOPPED_STATUS):
        return False
    raise UserError(f"{step.script} failed (status {status}); read {log}, mend it, and give the same command again")


def follow(left: list[Step], jobs: int, until: float | None, logs: Path, processes: Processes) -> None:
    """Carry out the steps, so many at a time, each when what it reads is made; after `until` nothing new begins."""
    made_by: dict[str, set[int]] = defaultdict(set)  # a file, and every folder that it lies in
    before = []
    for own, step in enumerate(left):
        before.append(set().union(*(made_by[word.rpartition("=")[2]] for word in step.arguments)))
        for path in step.makes:
            for place in (Path(path), *Path(path).parents):
                made_by[str(place)].add(own)
    waiting, ended, running = list(range(len(left))), set(), {}
    failed: UserError | None = None
    stopped = False
    with ThreadPoolExecutor(jobs) as pool:
        while True:
            seconds = None if until is None else until - time.monotonic()
            stopped = stopped or failed is not None or (seconds is not None and seconds < 1)
            ready = [own for own in waiting if before[own] <= ended]
            for own in [] if stopped else ready[: jobs - len(running)]:
                step = left[own]
                log = logs / f"{step.script}-{step.makes[0].replace('/', '-')[-180:]}.log"
                running[pool.submit(carry_out, step, log, seconds, processes)] = own, time.monotonic()
                waiting.remove(own)
            if not running:
                break
            for done in wait(running, return_when=FIRST_COMPLETED).done:
                own, started = running.pop(done)
                step = left[own]
                try:
                    finished = done.result()
                except UserError as error:
                    if failed:
                        print(f"error: {error}", file=sys.stderr, flush=True)
                    failed = failed or error
                    continue
                if finished:
                    ended.add(own)
                    print(f"{time.monotonic() - started:8.1f} s  {step.script}  {step.makes[0]}", flush=True)
                else:
                    stopped = True
                    print(f"{step.script}: saved before its end, {step.makes[0]}", flush=True)
    if failed:
        raise failed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--scale", default="real", help="a file of config/scales without a world (default: %(default)s)"
    )
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="default: %(default)s")
    parser.add_argument("--runs", help="a part of the scale's runs, joined by commas")
    parser.add_argument("--seeds", help="a part of the scale's seeds, joined by commas")
    parser.add_argument("--tasks", help="a part of the tasks, joined by commas; another time adds the others")
    parser.add_argument("--mirror", action="append", default=[], help="a folder of downloads; may stand several times")
    parser.add_argument("--threads", type=int, default=1, help="CPU threads of a training (default: %(default)s)")
    parser.add_argument("--jobs", type=int, default=1, help="steps at a time (default: %(default)s)")
    parser.add_argument("--budget", type=float, help="seconds after which nothing new begins")
    parser.add_argument("--only", type=int, help="end after so many steps that were not done before")
    parser.add_argument("--list", action="store_true", help="say what is left and do nothing")
    args = parser.parse_args()
    if args.jobs < 1:
        raise UserError(f"--jobs {args.jobs}: give 1 or more")
    config = load_config(Path(), {"scale": args.scale})
    if config.has_world or config.scale["shards"] != {"mono": 1, "bitext": 1}:
        raise UserError(f"--scale {args.scale}: has a generated world or several shards; use the workflow")
    if config.scale.get("language_id") != "trained" or "size" not in config.scale.get("vocabulary", {}):
        raise UserError(f"--scale {args.scale}: downloads its language_id, or has no vocabulary.size; use the workflow")
    runs = args.runs.split(",") if args.runs else config.scale.get("runs") or sorted(config.selected)
    for run in runs:
        if run not in config.runs:
            raise UserError(f"--runs: {run!r} is no file of config/runs")
    if args.seeds and not re.fullmatch(r"[0-9]+(,[0-9]+)*", args.seeds):
        raise UserError(f"--seeds {args.seeds}: give numbers joined by commas, such as 1,2")
    seeds = [int(seed) for seed in args.seeds.split(",")] if args.seeds else config.seeds
    if unknown := sorted({*seeds} - {*config.seeds}):
        raise UserError(f"--seeds: the scale has no {unknown[0]}; it has {', '.join(map(str, config.seeds))}")
    tasks = args.tasks.split(",") if args.tasks else None
    for task in tasks or []:
        if task not in config.tasks:
            raise UserError(f"--tasks: {task!r} is no file of config/tasks")
    study = Study(config, [trained_run(config, run) for run in runs], seeds, args.mirror, args.threads, tasks)
    check_wanted(study, runs, tasks or [])
    begin = time.monotonic()
    environment = os.environ | {"OMP_NUM_THREADS": str(args.threads)}
    if args.device == "cpu":
        environment["CUDA_VISIBLE_DEVICES"] = ""
    elif subprocess.run([sys.executable, "-c", "import torch; assert torch.cuda.is_available()"]).returncode:
        raise UserError("--device cuda: torch sees no GPU; take --device cpu, or a torch for this machine")
    steps = list(study.steps())
    left = [step for step in steps if not all(Path(path).exists() for path in step.makes)]
    left = list({tuple(step.makes): step for step in left}.values())  # two scores may rest on one
    print(f"{len(left)} of {len(steps)} steps are left", flush=True)
    if args.list:
        for step in left:
            print(f"{step.script}  {step.makes[0]}")
        return
    until = begin + args.budget if args.budget is not None else None
    processes = Processes(environment)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # as under nohup
            signal.signal(number, processes.end)
    follow(left[: args.only], args.jobs, until, Path(study.at, "logs/study"), processes)


if __name__ == "__main__":
    run_main(main)
