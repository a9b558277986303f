"""The resolved recipe, results/<scale>/recipes/<task>/<setting>/<recipe>.yaml: how one task is trained and scored."""

from dataclasses import dataclass, fields
from itertools import product
from pathlib import Path

from common.errors import UserError
from common.yamlfiles import read_resolved
from plan.datasets import DATASETS_TSV, load_datasets

FINETUNED_KINDS = ("classification", "tagging", "question-answering")
KINDS = (*FINETUNED_KINDS, "retrieval", "mining", "alignment", "translation")
SELECTIONS = ("en_dev", "mean_dev")


@dataclass(frozen=True)
class Hyperparameters:
    """`recipe` of the resolved file. None = not used by this task."""

    name: str
    max_length: int
    # fine-tuning
    peak_lr: float | None = None
    batch: int | None = None  # rows per update
    epochs: float | None = None
    steps: int | None = None  # updates, where pairs of sentences are drawn and not read in epochs
    warmup_fraction: float | None = None  # of all updates; or
    warmup_steps: int | None = None
    weight_decay: float = 0.0
    layer_decay: float | None = None  # ERNIE-M's layer-wise learning-rate factor
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    clip: float | None = 1.0
    dropout: float = 0.1  # of the head
    encoder_dropout: float | None = None  # of the encoder while it is fine-tuned; None keeps that of its pre-training
    precision: str = "fp32"
    device_rows: int | None = None  # rows on the device at once; the rest of a batch is accumulated
    evaluations: int = 1  # dev scores during training, equally spaced, the last at the end
    selection: str | None = None
    restart: dict | None = None  # {below: English dev, most: times}: what fails there starts again with other draws
    code_switch: bool = False  # PPA: each translated pair with one side in English, twice
    dev_limit: int | None = None  # rows of each dev set that are scored during training
    similarity_scale: float | None = None  # of cosines, in fine-tuning for retrieval
    similarity_offset: float = 0.0  # added to the scaled cosines there
    grid: dict[str, list] | None = None
    # question answering, in pieces
    stride: int | None = None  # of the windows that a long context is cut into
    max_query: int | None = None  # of the question; the rest is cut off
    max_answer: int | None = None
    best: int = 20  # starts and ends that are considered
    # retrieval, mining, alignment
    layer: int | None = None
    of: int | None = None
    neighbours: int = 4  # of the ratio margin
    iterations: int = 2  # of the optimal transport
    clamp: bool = False  # before it, similarities that are not positive become tiny ones
    # translation; the plan makes a run of them, which train_translator.py trains
    numerics: int = 1  # raised by hand when a change of the engine should train the models again
    rows: int | None = None  # of a step, packed with pairs, over all devices
    row_length: int | None = None
    attention_dropout: float = 0.1
    label_smoothing: float = 0.0
    snapshots: int | None = None  # of the weights, equally spaced
    average: int = 1  # the last so many are averaged
    save_every: int | None = None  # steps between checkpoints
    beam: int | None = None
    penalty: float = 1.0  # score of a translation: its log-probability / length ^ penalty

    def points(self) -> list[dict]:
        """Values to try, in a fixed order; one empty point where there is no grid."""
        grid = self.grid or {}
        return [
            dict(zip(sorted(grid), values, strict=True)) for values in product(*(grid[key] for key in sorted(grid)))
        ]

    def layer_of(self, layers: int) -> int:
        """The hidden state to retrieve with in a model of `layers` blocks: the nearest relative depth."""
        return int(self.layer * layers / self.of + 0.5)


@dataclass(frozen=True)
class Recipe:
    task: str
    version: int
    kind: str
    metric: str
    metrics: list[str]
    chance: dict[str, str]
    datasets: dict[str, str]
    languages: list[str]
    counts: dict[str, dict[str, int]]
    setting: str
    recipe: Hyperparameters
    labels: list[str] | None = None
    train_languages: list[str] | None = None
    train_limit: int | None = None  # training rows in all, drawn with a fixed seed
    model: dict[str, str] | None = None  # task and setting whose fine-tuned weights predict
    bitext: dict | None = None  # retrieval: a run, and alpha and corpora of its pairs; translation: the corpora
    centre: dict | None = None  # retrieval: a run, corpora and number of its pairs for means, languages held out

    def dev_languages(self) -> list[str]:
        return ["en"] if self.recipe.selection == "en_dev" else self.languages

    def classes(self) -> int:
        """What the head has outputs for: the labels, or start and end of an answer."""
        return len(self.labels) if self.labels else 2

    def expected(self, split: str, enforce: bool) -> dict[str, int]:
        """Rows per language that the upstream files of a split have; nothing where they are not enforced."""
        counts = self.counts.get(split, {}) if enforce else {}
        every = {language: counts["*"] for language in ("en", *self.languages)} if "*" in counts else {}
        return every | {language: count for language, count in counts.items() if language != "*"}


def load_recipe(path: str | Path) -> Recipe:
    content = read_resolved(path)
    if not isinstance(content, dict) or not isinstance(content.get("recipe"), dict):
        raise UserError(f"{path}, recipe: missing; this is not a resolved recipe")
    hyper = _build(Hyperparameters, content["recipe"], f"{path}, recipe.")
    recipe = _build(Recipe, {**content, "recipe": hyper}, f"{path}, ")
    _check(recipe, str(path))
    return recipe


def _build(kind: type, values: dict, where: str):
    known = {field.name for field in fields(kind)}
    for key in values:
        if key not in known:
            raise UserError(f"{where}{key}: unknown key; the keys are {', '.join(sorted(known))}")
    try:
        return kind(**values)
    except TypeError as error:
        raise UserError(f"{where.rstrip('., ')}: {error}") from None


def _check(recipe: Recipe, path: str) -> None:
    hyper = recipe.recipe

    def require(condition: bool, key: str, message: str) -> None:
        if not condition:
            raise UserError(f"{path}, {key}: {message}")

    require(recipe.kind in KINDS, "kind", f"{recipe.kind!r} is unknown; use one of {', '.join(KINDS)}")
    for metric in recipe.metrics:
        require(metric in recipe.chance, f"chance.{metric}", "missing; name the chance level that is printed beside it")
    require(bool(recipe.languages), "languages", "none left at this scale; widen the scale's evaluation languages")
    if recipe.kind == "translation":
        for key in ("beam", "snapshots"):
            require((getattr(hyper, key) or 0) > 0, f"recipe.{key}", "a positive number is needed")
        require(hyper.max_length > 2, "recipe.max_length", "at least 3: a piece between the two marks")
        return
    if recipe.centre:
        ok = recipe.kind == "retrieval" and hyper.layer is None and recipe.centre.get("pairs", 0) > 1
        require(ok, "centre", "is for retrieval, needs 2 `pairs` or more, and chooses recipe.layer itself")
        return
    if recipe.kind not in FINETUNED_KINDS:
        ok = hyper.layer is not None and hyper.of is not None and 0 <= hyper.layer <= hyper.of
        require(ok, "recipe.layer", "say `layer` and `of`, the depth that it is counted in")
        if not recipe.bitext:
            return
        require(recipe.kind == "retrieval", "bitext", f"nothing fine-tunes kind {recipe.kind} on pairs of sentences")
    if recipe.kind in ("classification", "tagging"):
        require(bool(recipe.labels), "labels", "none; name what there is to tell apart")
    if recipe.kind == "question-answering":
        for key in ("stride", "max_query", "max_answer"):
            require((getattr(hyper, key) or 0) > 0, f"recipe.{key}", "a positive number of pieces is needed")
    if recipe.model:
        return
    require(bool(recipe.train_languages), "train_languages", "none; say which languages' training data to use")
    length = ("steps", "similarity_scale") if recipe.bitext else ("epochs",)
    for key in ("peak_lr", "batch", *length):
        require((getattr(hyper, key) or 0) > 0, f"recipe.{key}", "a positive number is needed")
    if recipe.bitext:
        require(hyper.batch > 1, "recipe.batch", "at least 2: the negatives of a pair are the others of its batch")
        require(hyper.device_rows is None, "recipe.device_rows", "is not for retrieval, which compares a whole batch")
        require(not hyper.grid, "recipe.grid", "is not for retrieval, which trains once")
        require(not hyper.restart, "recipe.restart", "is not for retrieval, which trains once")
        require(hyper.selection == "mean_dev", "recipe.selection", "use mean_dev: every language has held-out pairs")
    require(hyper.evaluations >= 1, "recipe.evaluations", "at least 1, or nothing can be selected")
    require(hyper.selection in SELECTIONS, "recipe.selection", f"use one of {', '.join(SELECTIONS)}")
    require(hyper.precision in ("fp32", "bf16"), "recipe.precision", "use fp32 or bf16")
    if hyper.restart is not None:
        ok = (
            sorted(hyper.restart) == ["below", "most"]
            and 0 < hyper.restart["below"] < 100
            and hyper.restart["most"] > 0
        )
        require(ok, "recipe.restart", "say {below: a score of dev between 0 and 100, most: how often to start again}")
    if hyper.code_switch:
        pairs = recipe.kind in ("classification", "question-answering")
        require(pairs, "recipe.code_switch", "is for pairs of sentences, and of question and context")
        require("en" not in recipe.train_languages, "train_languages", "code_switch mixes translations with English")
        require(hyper.batch % 2 == 0, "recipe.batch", "an even number with code_switch, which parts no two rows")
    both = hyper.warmup_fraction is not None and hyper.warmup_steps is not None
    require(not both, "recipe.warmup_steps", "and warmup_fraction are both set; set one of them to null")
    for key, values in (hyper.grid or {}).items():
        ok = (
            key in ("peak_lr", "batch", "epochs", "layer_decay", "weight_decay") and isinstance(values, list) and values
        )
        require(bool(ok), f"recipe.grid.{key}", "a non-empty list of values of a numeric hyper-parameter is needed")


def raw_paths(recipe: Recipe, raw: str | Path, datasets: str | Path = DATASETS_TSV) -> dict[str, Path]:
    """Where the task's files lie below `raw`, by the keys of the recipe's `datasets`."""
    sources = load_datasets(datasets)
    for id_ in recipe.datasets.values():
        if id_ not in sources:
            raise UserError(f"{datasets}, column id: no row {id_!r}, which task {recipe.task} reads; add it")
    return {name: Path(raw, sources[id_].path) for name, id_ in sorted(recipe.datasets.items())}
