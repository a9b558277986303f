"""What each job costs, before it runs: tokens, FLOPs, time, disk, network, memory of a device. bill.py prints it.

A pre-training's FLOPs are counted as pretrain.py counts them afterwards (engine/cost.py), from what its objectives see
in a sample of steps: steps of its own shards where they are made, else of made-up text with lines of an assumed length.
A fine-tuning's follow from its recipe and the sizes of the task's files. Whatever is assumed stands in
config/machines.yaml or in the constants here.
"""

from __future__ import annotations

import dataclasses
import math
import re
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from pathlib import Path

from billing.jobs import Job
from billing.machines import Rate
from billing.memory import activation_bytes, advice, memory_bytes, size_of
from billing.sample import Estimate, estimate_training, heads_of, made_up, run_config
from common.identity import content_hash, run_hash
from common.rule_names import family_of
from corpus.sampling import plan as sampling_plan
from corpus.sampling import sources_of_run, write_plan
from engine import cost
from engine.config import RunConfig
from engine.cost import Pass
from engine.shape import ModelConfig
from engine.shards import read_manifest
from engine.streams import Source
from plan.allocation import allocated
from plan.claimed import all_needs, counted_data
from plan.config import Config
from plan.data import data_of_runs
from plan.datasets import Dataset, bitext_ids, mono_ids
from plan.recipes import ENCODER_KINDS, recipe_of, resolve_recipe
from plan.runs import resolve_run, with_ancestors
from plan.translators import decoder_of, resolve_translator
from plan.vocabulary import vocabulary_size
from training.assembly import read_plan

# ---------------------------------------------------------------------------------------------------------------------
# Jobs


@dataclass
class Bill:
    """What one job costs."""

    job: Job
    tokens: float = 0.0
    flops: float = 0.0
    devices: int = 0  # GPUs
    seconds: float = 0.0
    disk: float = 0.0  # bytes that stay
    scratch: float = 0.0  # bytes that go when it has ended
    network: float = 0.0
    memory: float = 0.0  # bytes of one device, 0: nobody computed it
    room: float = 0.0  # bytes that one device has
    precision: str = ""  # that its model computes in
    basis: str = ""
    advice: str = ""

    @property
    def device_hours(self) -> float:
        return self.devices * self.seconds / 3600

    @property
    def core_hours(self) -> float:
        return 0.0 if self.devices else self.job.threads * self.seconds / 3600


TRAININGS = ("pretrain", "train_translator")
RESUMES = (*TRAININGS, "finetune", "finetune_retrieval")  # go on where their last job ended, and have a key precision
PLANS = {"plan_sampling_run", "plan_sampling_translator"}

# How long rows are, in sentences: a pair of them, a sentence in words, a question with its context.
SENTENCES_IN_ROW = {"classification": 1.7, "tagging": 1.0, "question-answering": 6.0}
KEPT_AFTER = 600.0  # seconds of a fine-tuning; a shorter one keeps no state (finetune.py)
TRANSLATED_ROWS = 64  # sentences that are decoded at once
WINDOWS = 1.1  # that a question with its context is cut into
ROWS_OF_PART = 1000  # of a language, where a task does not say it
# What a scale's world calls the sizes of a task.
WORLD_SIZES = {
    "xnli": "nli", "paws-x": "paraphrase", "ud-pos": "pos", "wikiann-ner": "ner", "conll-ner": "ner", "xquad": "qa",
    "mlqa": "qa", "tydiqa-goldp": "qa", "wmt14-en-de": "translation", "wmt14-en-fr": "translation",
}  # fmt: skip


@dataclass
class Pricing:
    """Everything that the costs of jobs follow from."""

    config: Config
    machines: dict
    rate: Rate
    folder: Path  # for made-up text
    _samples: dict[str, tuple] = field(default_factory=dict)  # what is read -> its sources, what was sampled of them
    _priced: dict[tuple[str, ...], Bill] = field(default_factory=dict)
    _texts: dict[tuple[str, str, str], float] = field(default_factory=dict)
    _measured: dict[tuple[str, str], list[float]] | None = None

    @property
    def assumed(self) -> dict:
        return self.machines["assumed"]

    @cached_property
    def results(self) -> Path:
        return self.config.root / f"results/{self.config.scale_name}"

    @cached_property
    def vocabulary(self) -> int:
        return vocabulary_size(self.config)

    @cached_property
    def dataset_of(self) -> dict[str, Dataset]:
        return {dataset.path: dataset for dataset in self.config.datasets.values()}

    @cached_property
    def made_up(self) -> dict[str, list[Source]]:
        return made_up(self.folder / "made-up", self.vocabulary, self.assumed_line)

    @property
    def assumed_line(self) -> float:
        return self.assumed["sentence_tokens"]["world" if self.config.has_world else "real"]

    @cached_property
    def sentence_tokens(self) -> float:
        """Of a line, of the shards that are there, or as assumed."""
        found = [read_manifest(path) for path in sorted(self.results.glob("shards/mono/*/*/0.json"))]
        sentences = sum(manifest["sentences"] for manifest in found)
        return sum(m["tokens"] for m in found) / sentences if sentences else self.assumed_line

    def get_ready(self, enough: Callable[[], bool]) -> None:
        """Before it is known what is to be trained: sizes every run of the scale and, where no text is encoded yet,
        samples it, until it is `enough`. `size_of` and `sample` remember."""
        asked = [*self.config.listed, *(run for run, _, _ in all_needs(self.config))]
        encoded = next((self.results / "shards").glob("*/*/*/*.json"), None)
        for name in with_ancestors(self.config, asked):
            if name not in self.config.pretrained:
                continue
            if enough():
                return
            values = resolve_run(self.config, name)
            size_of(values, self.vocabulary)
            run = run_config(values, self.vocabulary)
            if run.schedule.steps and not encoded:
                self.sample(run, None, 1)

    def bill(self, jobs: Sequence[Job]) -> list[Bill]:
        rules = {job.number: job.rule for job in jobs}
        return [self.of(job, {rules[i] for i in job.after}) for job in jobs]

    def of(self, job: Job, waits_for: set[str]) -> Bill:
        """`waits_for`: the rules of the jobs before it that are not done."""
        found = Bill(job, devices=self.gpus(job))
        if job.rule in TRAININGS:
            self.training(found, "encode_corpus" not in waits_for, not waits_for & PLANS)
        elif job.rule in EVALUATIONS:
            key = (job.rule, *(job.wildcards[name] for name in ("run", "task", "setting")))
            if key not in self._priced:
                EVALUATIONS[job.rule](self, found)
                self._priced[key] = found
            found = dataclasses.replace(self._priced[key], job=job)  # another seed costs the same
        elif job.rule == "import_checkpoint" or job.rule.startswith("export_model"):
            self.converting(found)
        elif job.rule == "download":
            self.download(found)
        elif {job.rule, family_of(job.rule)} & self.assumed["text"].keys():
            self.text_job(found)
        if not found.seconds:
            self.time(found)
        return found

    # --- time

    def gpus(self, job: Job) -> int:
        if job.rule in TRAININGS:
            own = allocated(self.config, job.rule, job.wildcards)
            return own.gpu * own.nodes
        return self.config.scale.get("resources", {}).get(job.rule, {}).get("gpu", 0)

    def processes(self, job: Job) -> int:
        """The devices that compute: GPUs, or one process."""
        return max(1, self.gpus(job))

    def time(self, found: Bill, precision: str = "fp32", blocks: float = 0.0, again: float = 0.0) -> None:
        """Seconds: of a training by its FLOPs; of others as jobs of their kind took at this scale, else by FLOPs, else
        nothing but starting. `blocks` are the trained ones, each as often as there are steps: small steps take a GPU
        longer than their FLOPs. `again` is the share of the FLOPs that is computed twice."""
        job = found.job
        found.precision = precision if found.flops else ""
        start = self.assumed["start"]["gpu" if found.devices else "cpu"]
        measured = self.measured(job)
        if measured is not None and job.rule not in TRAININGS:
            found.seconds = measured
            found.basis = "; ".join(filter(None, [found.basis, "time as measured of such jobs at this scale"]))
            return
        computing = 0.0
        if found.flops:
            rate = self.rate.of(precision, job.name)
            per_core = (
                self.machines["machines"][self.rate.machine]["device"] == "cpu" and "measured" not in self.rate.source
            )
            computing = (1 + again) * found.flops / (rate * (job.threads if per_core else self.processes(job)))
            least = self.assumed["step"] * blocks if found.devices else 0.0
            if least > computing:
                computing = least
                found.basis += (
                    f"; {self.assumed['step'] * 1e3:g} ms a trained block and step (assumed), more than its FLOPs take"
                )
        found.seconds = start + computing

    def measured(self, job: Job) -> float | None:
        """The median of the seconds that finished jobs of this rule, and of this task if it has one, took."""
        if self._measured is None:
            self._measured = {}
            for path in sorted((self.results / "benchmarks").rglob("*.tsv")):
                parts = path.relative_to(self.results / "benchmarks").with_suffix("").parts
                try:
                    seconds = float(path.read_text(encoding="utf-8").splitlines()[1].split("\t")[0])
                except (IndexError, ValueError):
                    continue  # cut off; its job runs again
                for key in (
                    (parts[0], ""),
                    (parts[0], parts[2] if len(parts) > 3 else parts[1] if len(parts) > 1 else ""),
                ):
                    self._measured.setdefault(key, []).append(seconds)
        for rule in (job.rule, family_of(job.rule)):
            for key in ((rule, job.wildcards.get("task", "-")), (rule, "")):
                if key in self._measured:
                    return statistics.median(self._measured[key])
        return None

    # --- trainings

    def training(self, found: Bill, encoded: bool, planned: bool) -> None:
        job, names = found.job, found.job.wildcards
        if job.rule == "pretrain":
            values = resolve_run(self.config, names["run"])
            place = self.results / "runs" / names["run"]
        else:
            values = resolve_translator(self.config, names["run"], names["task"], names["setting"])
            place = self.results / "translators" / names["run"] / names["task"] / names["setting"]
        run = run_config(values, self.vocabulary)
        size, devices = size_of(values, self.vocabulary), self.processes(job)
        found.disk = 4 * size.kept
        if not run.schedule.steps:
            found.basis = "untrained: no steps"
            return
        plan_file = place / "sampling_plan.tsv"
        if encoded and not planned:
            plan_file = self.plan_of(values)
        estimate = self.sample(run, plan_file if encoded and plan_file.is_file() else None, int(names["seed"]))
        left = (
            1
            - self.steps_done(values, plan_file, place / f"seed-{names['seed']}", int(names["seed"]))
            / run.schedule.steps
        )
        found.tokens = left * sum(seen.tokens for seen in estimate.seen.values())
        found.flops = left * sum(own["ours"] for own in cost.flops(run, estimate.seen).values())
        found.basis = f"{estimate.basis}, {estimate.padding:.1%} of the slots empty"
        if left < 1:
            found.basis += f"; {1 - left:.0%} of its steps are done"
        checkpoint = 4 * size.all + 8 * size.trained + size.buffers
        found.scratch = (run.checkpoint.keep + 1) * checkpoint + run.checkpoint.snapshots * 4 * size.all
        found.memory, found.room = memory_bytes(run, size, devices), self.room(job)
        if found.memory > found.room:
            found.advice = advice(run, size, devices, found.room)
        again = 1 / 3 if run.activations == "recompute" else 0.0  # one forward pass of three
        self.time(found, run.precision, again=again)

    def room(self, job: Job) -> float:
        """Bytes of a device: of a GPU, or what the scale gives a job on a CPU."""
        if self.gpus(job):
            return self.rate.memory
        return 1e6 * self.config.scale.get("resources", {}).get(job.rule, {}).get("mem_mb", 4000)

    def sample(self, run: RunConfig, plan_file: Path | None, seed: int) -> Estimate:
        """One sample for all runs and seeds that read the same."""
        text = plan_file.read_text(encoding="utf-8") if plan_file else ""
        limit = run.data.get("bitext", {}).get("limit")
        key = f"{text}{limit if plan_file else ''}"
        if key not in self._samples:
            sources = self.made_up
            if plan_file:
                sources, _ = read_plan(plan_file, self.results / "shards", limit)
                sources = heads_of(sources, self.folder / content_hash(key))
            self._samples[key] = sources, {}
        basis = "sampled from its shards" if plan_file else f"lines of {self.assumed_line:g} tokens assumed"
        sources, known = self._samples[key]
        return estimate_training(run, sources, seed, basis, known)

    def plan_of(self, values: dict) -> Path:
        """The sampling plan that the shards will have: theirs are done, and it is not."""
        mono, bitext = values["data"].get("mono"), values["data"].get("bitext")
        names = [("mono", mono["corpus"], code) for code in mono["languages"]] if mono else []
        if bitext:
            names += [("bitext", corpus, pair) for pair, own in bitext["corpora"].items() for corpus in own]
        shards = self.config.scale["shards"]
        manifests = [
            self.results / "shards" / "/".join(name) / f"{i}.json" for name in names for i in range(shards[name[0]])
        ]
        sources, alpha = sources_of_run(values, Path(values["name"]), manifests)
        path = self.folder / "plans" / f"{content_hash(values['data'])}.tsv"
        path.parent.mkdir(exist_ok=True)
        write_plan(sampling_plan(sources, alpha, (bitext or {}).get("limit")), path)
        return path

    def steps_done(self, values: dict, plan_file: Path, place: Path, seed: int) -> int:
        """Of a training that was interrupted: the last checkpoint that it would continue from."""
        if not plan_file.is_file():
            return 0
        data = content_hash(plan_file.read_text(encoding="utf-8"))
        folder = place / "state" / content_hash([run_hash(values)[:16], data, seed])
        steps = [int(match[1]) for path in folder.glob("step-*.pt") if (match := re.match(r"step-(\d+)", path.name))]
        return max(steps, default=0)

    # --- evaluations

    def encoder(self, found: Bill) -> tuple[dict, dict, ModelConfig]:
        """The resolved recipe of the job, the run whose encoder it reads, and the shape of that."""
        names = found.job.wildcards
        run = resolve_run(self.config, names["run"])
        recipe = resolve_recipe(self.config, names["task"], names["setting"], recipe_of(self.config, names["run"]))
        return recipe, run, self.model_of(run)

    def model_of(self, run: dict) -> ModelConfig:
        return ModelConfig(**run["model"]) if run["kind"] == "checkpoint" else run_config(run, self.vocabulary).model

    def rows_of(self, recipe: dict, part: str, language: str) -> float:
        """Rows of one language's part of a task: the world's, or the upstream files'."""
        task = recipe["task"]
        if self.config.has_world:
            world = self.config.scale["world"]
            if task in WORLD_SIZES:
                return world[WORLD_SIZES[task]][part]
            other = {"tatoeba": "tatoeba", "word-alignment": "alignment"}.get(task)
            return world[other] if other else sum(world["mining"][key][part] for key in ("pairs", "others"))
        counts = recipe.get("counts", {}).get(part, {})
        known = list(counts.values())
        return counts.get(language, counts.get("*", statistics.mean(known) if known else ROWS_OF_PART))

    def row_tokens(self, recipe: dict, longest: int) -> float:
        sentences = SENTENCES_IN_ROW.get(recipe["kind"], 1.0)
        return min(longest, sentences * self.sentence_tokens + 3)

    def finetuning(self, found: Bill) -> None:
        recipe, run, model = self.encoder(found)
        how = recipe["recipe"]
        longest = min(how["max_length"], model.positions - 2)
        length = self.row_tokens(recipe, longest)
        windows = WINDOWS if recipe["kind"] == "question-answering" else 1.0
        rows = sum(self.rows_of(recipe, "train", code) for code in recipe["train_languages"])
        rows = min(rows, recipe["train_limit"] or rows) * (2 if how.get("code_switch") else 1) * windows
        dev_languages = ["en"] if how["selection"] == "en_dev" else recipe["languages"]
        dev = windows * sum(
            min(self.rows_of(recipe, "dev", code), how.get("dev_limit") or math.inf) for code in dev_languages
        )
        points = grid_points(how)
        trained = length * rows * sum(point["epochs"] for point in points)
        scored = length * dev * how.get("evaluations", 1) * len(points)
        found.tokens = trained + scored
        found.flops = forward(model, trained, length, trained=True) + forward(model, scored, length)
        found.basis = f"{rows:,.0f} rows of {length:.0f} tokens (assumed), {len(points)} trials"
        steps = sum(point["epochs"] * steps_of(rows, point["batch"], how.get("device_rows")) for point in points)
        tokens = max(point["batch"] for point in points) * longest
        self.finish_finetuning(found, model, run, how, tokens, steps * model.layers, len(points))

    def finetuning_for_retrieval(self, found: Bill) -> None:
        recipe, run, model = self.encoder(found)
        how = recipe["recipe"]
        layers = int(how["layer"] * model.layers / how["of"] + 0.5)
        length = self.sentence_tokens + 2
        trained = 2 * how["steps"] * how["batch"] * length
        dev = (
            2
            * (how.get("dev_limit") or ROWS_OF_PART)
            * len(recipe["train_languages"])
            * how.get("evaluations", 1)
            * length
        )
        found.tokens = trained + dev
        found.flops = forward(model, trained, length, trained=True, layers=layers) + forward(
            model, dev, length, layers=layers
        )
        found.basis = f"{how['steps']:,} steps of {how['batch']} pairs, lines of {self.sentence_tokens:.0f} tokens"
        tokens = 2 * how["batch"] * min(4 * length, how["max_length"])
        self.finish_finetuning(found, model, run, how, tokens, how["steps"] * layers)

    def finish_finetuning(
        self, found: Bill, model: ModelConfig, run: dict, how: dict, tokens: float, blocks: float, trials: int = 1
    ) -> None:
        """Memory, disk and time; `tokens` of the largest batch, `blocks` trained over all steps."""
        encoder = run | {"data": run.get("data", {}), "objectives": [], "init": None, "schedule": {}}
        size = size_of(encoder, model.vocabulary)
        precision = how.get("precision", "fp32")
        if how.get("device_rows"):
            tokens = min(tokens, how["device_rows"] * how["max_length"])
        states = (16 + (2 if precision == "bf16" else 0)) * size.all  # bf16: copies of the weights that products read
        found.memory = states + tokens * model.layers * activation_bytes(model, precision)
        found.room, found.disk = self.room(found.job), 4 * size.all
        if found.memory > found.room:
            found.advice = f"recipe.device_rows: fewer rows at once in config/tasks/{found.job.wildcards['task']}.yaml"
        self.time(found, precision, blocks)
        if found.seconds > KEPT_AFTER:
            kept = (
                4 * size.all * (3 + 1 + (trials > 1))
            )  # weights, AdamW's moments, the best weights of this and all trials
            found.scratch = 2 * kept  # while the new state is written, the old one is there

    def prediction(self, found: Bill) -> None:
        recipe, _, model = self.encoder(found)
        how = recipe["recipe"]
        length = self.row_tokens(recipe, min(how["max_length"], model.positions - 2))
        sides = 2 if recipe["kind"] in ENCODER_KINDS else 1
        parts = ("test", "dev") if recipe["kind"] == "mining" else ("test",)
        rows = sum(self.rows_of(recipe, part, code.split("-")[0]) for part in parts for code in recipe["languages"])
        rows += recipe.get("centre", {}).get("pairs", 0) * len(recipe["languages"])
        found.tokens = rows * sides * length
        found.flops = forward(model, found.tokens, length)
        found.basis = f"{sides * rows:,.0f} rows of {length:.0f} tokens (assumed)"
        self.time(found)

    def translation(self, found: Bill) -> None:
        self.decoding(found, "test", 1, None)

    def validation(self, found: Bill) -> None:
        self.decoding(found, "dev", None, 1)

    def decoding(self, found: Bill, part: str, models: int | None, beam: int | None) -> None:
        """Sentences through the encoder, and as many words for each through the decoder as a beam has."""
        recipe, _, model = self.encoder(found)
        how, names = recipe["recipe"], found.job.wildcards
        models, beam = models or how["snapshots"], beam or how["beam"]
        layers = decoder_of(self.config, names["run"])["layers"]
        length = self.sentence_tokens + 2
        tokens = length * models * sum(self.rows_of(recipe, part, code) for code in recipe["languages"])
        found.tokens = tokens * (1 + beam)
        decoder = Pass(beam * tokens, layers, length, trained=False, cross=True, logits=beam * tokens)
        found.flops = forward(model, tokens, length) + cost.ours(decoder, model)
        found.basis = f"{models} models, a beam of {beam}, lines of {length:.0f} tokens"
        # a step decodes one token of each sentence of a batch, forward alone: a third of a trained one
        self.time(found, blocks=layers * tokens / TRANSLATED_ROWS / 3)

    def converting(self, found: Bill) -> None:
        """Into the engine's form or out of it: the weights once more."""
        names = found.job.wildcards
        run = resolve_run(self.config, names["run"])
        objectives = []
        if found.job.rule == "export_model_translator":
            run = resolve_translator(self.config, names["run"], names["task"], names["setting"])
            objectives = run["objectives"]
        encoder = run | {"data": run.get("data", {}), "objectives": objectives, "init": None, "schedule": {}}
        size = size_of(encoder, self.model_of(run).vocabulary)
        found.disk, found.basis = 4 * size.all, "read, renamed and written"

    # --- text and downloads

    def size_of_download(self, dataset: Dataset) -> tuple[float, str]:
        if dataset.bytes:
            return float(dataset.bytes), "size as published"
        if listed := re.search(r"listed as ([\d.]+)([KMGT])", dataset.note):
            return float(listed[1]) * 1024 ** " KMGT".index(listed[2]), "size as listed"
        return self.assumed["unknown_download"], "size unknown, assumed"

    def download(self, found: Bill) -> None:
        path = found.job.outputs[0].partition("/raw/")[2]
        if self.config.has_world:
            found.basis = "from the generated world"
            return
        found.network, found.basis = self.size_of_download(self.dataset_of[path])
        found.disk = found.network
        found.seconds = self.assumed["start"]["cpu"] + found.network / self.assumed["download"]

    def text_of(self, kind: str, corpus: str, name: str) -> float:
        """Bytes of a corpus's text, decompressed."""
        if (kind, corpus, name) not in self._texts:
            self._texts[kind, corpus, name] = self._text_of(kind, corpus, name)
        return self._texts[kind, corpus, name]

    def _text_of(self, kind: str, corpus: str, name: str) -> float:
        own, languages = self.config.datasets, self.config.languages
        if self.config.has_world:
            return self.lines_of_world(kind, corpus, name) * self.assumed_line * self.assumed["bytes_per_token"]
        ids = (mono_ids if kind == "mono" else bitext_ids)(corpus, name, own, languages)
        total = 0.0
        for id_ in ids:
            raw = self.results / "raw" / own[id_].path
            total += raw.stat().st_size if raw.is_file() else self.size_of_download(own[id_])[0]
        return total * self.assumed["text_per_download"][kind]

    def lines_of_world(self, kind: str, corpus: str, name: str) -> float:
        """Of a generated corpus, both sides of its pairs; 0 of one that the world does not have."""
        world = self.config.scale["world"]
        if kind == "mono":
            return (
                statistics.mean(world["sentences_per_document"]) * world["documents"] * world["languages"].get(name, 0)
            )
        if corpus in world["translation"]["corpora"]:
            return 2 * world["translation"]["train"] / len(world["translation"]["corpora"])
        [foreign] = set(name.split("-")) - {"en"}
        corpora = world["bitext"].get(foreign, [])
        return 2 * world["pairs"] / len(corpora) if corpus in corpora else 0.0

    def text_job(self, found: Bill) -> None:
        names, rule = found.job.wildcards, found.job.rule
        kept, archive = self.assumed["kept_by_cleaning"], self.assumed["text_per_archive"]
        step = rule if rule in self.assumed["text"] else family_of(rule)
        if step == "count_corpus" or step == "fast_align":
            data = counted_data(self.config) if step == "count_corpus" else data_of_runs(self.config, [names["run"]])
            text = kept * sum(
                self.text_of(kind, *own) for kind, every in zip(("mono", "bitext"), data, strict=True) for own in every
            )
        else:
            kind = names.get("kind") or ("mono" if "lang" in names else "bitext")
            text = self.text_of(kind, names["corpus"], names.get("name") or names.get("lang") or names["pair"])
            if "shard" in names:
                text /= self.config.scale["shards"][kind]
        if step == "encode_corpus":
            text *= kept
            found.tokens = text / self.assumed["bytes_per_token"]
            found.disk = (
                found.tokens * (2 if self.vocabulary < 1 << 16 else 4) + 8 * found.tokens / self.sentence_tokens
            )
        elif step in ("split_corpus", "clean_mono", "clean_bitext"):
            found.disk = text / archive
        elif step == "find_duplicates":
            found.scratch = text * self.assumed["duplicates_per_text"]
        measured = self.measured(found.job)
        if measured is not None:
            found.seconds, found.basis = measured, "time as measured of such jobs at this scale"
            return
        threads = found.job.threads
        found.seconds = self.assumed["start"]["cpu"] + text / self.assumed["text"][step] / threads
        found.basis = f"{text / 1e9:.2f} GB of text, {self.assumed['text'][step] / 1e6:g} MB/s a core (assumed)"


EVALUATIONS = {
    "finetune": Pricing.finetuning,
    "finetune_retrieval": Pricing.finetuning_for_retrieval,
    "predict": Pricing.prediction,
    "translate": Pricing.translation,
    "validate_translator": Pricing.validation,
}


def grid_points(how: dict) -> list[dict]:
    """The trials of a recipe: each with its batch and epochs."""
    grid = how.get("grid") or {}
    own = {"batch": how["batch"], "epochs": how["epochs"]}
    return [
        own | dict(zip(sorted(grid), values, strict=True)) for values in product(*(grid[key] for key in sorted(grid)))
    ]


def steps_of(rows: float, batch: int, device_rows: int | None) -> float:
    """Trained passes of an epoch: batches, or the parts of them that a device takes at once."""
    return math.ceil(rows / batch) * math.ceil(batch / min(batch, device_rows or batch))


def forward(
    model: ModelConfig, tokens: float, length: float, trained: bool = False, layers: int | None = None
) -> float:
    """FLOPs of tokens of rows of a length through the encoder."""
    return cost.ours(Pass(tokens, model.layers if layers is None else layers, length, trained), model)
