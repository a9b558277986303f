# The plan, as constants and named functions. What only rules of one kind ask it lies in inputs/, in a file of that name; no file with
# rules has Python in it.
import functools
import gc
import json
import sys
import warnings
from pathlib import Path

from snakemake.exceptions import WorkflowError
from snakemake.logging import logger
from snakemake.settings.enums import Quietness

sys.path.insert(0, str(Path(str(workflow.current_basedir)).parent / "scripts"))

import common.identity
import common.pairs
import plan.allocation
import plan.checkpoints
import plan.claimed
import plan.code
import plan.compare_specs
import plan.data
import plan.datasets
import plan.evidence
import plan.exports
import plan.figure_specs
import plan.jobs
import plan.kept
import plan.load
import plan.needs
import plan.published_here
import plan.recipes
import plan.runs
import plan.seeds
import plan.translators
import plan.words
from common.errors import UserError
from watch.looks import look_again_once
from watch.python import wrong_python
from watch.terminal import Watch

# What a plan makes it keeps: to look through it for what nobody needs, after every 700 objects, finds nothing.
gc.set_threshold(100_000, 50, 100)

# Snakemake asks every resource once before it knows the inputs, and forgets what it asked for.
warnings.filterwarnings(
    "ignore", message="coroutine 'InputFiles._predicated_size_files"
)

# Snakemake reads it as it is, and without a message of ours.
try:
    plan.load.read_settings(Path("."))
except UserError as error:
    raise WorkflowError(str(error)) from None


configfile: "config/config.yaml"


try:
    PLAN = plan.kept.kept_config(".", config)
    plan.evidence.require_scores(PLAN)
    CLEANING = plan.load.load_cleaning(PLAN)
    NEEDS = plan.claimed.all_needs(PLAN)
    ASKED = [*PLAN.listed, *(run for run, _, _ in NEEDS)]
    RUNS = plan.runs.with_ancestors(PLAN, ASKED)
    CHECKPOINTS = plan.runs.checkpoints_of(PLAN, ASKED)
    CANONICAL = plan.needs.canonical_runs(PLAN)
    TRAINED = [run for run in RUNS if run in PLAN.pretrained]
    TRANSLATORS = plan.translators.translators(PLAN, NEEDS)
    if workflow.is_main_process:
        plan.checkpoints.require_folders(PLAN, CHECKPOINTS)
except UserError as error:
    raise WorkflowError(str(error)) from None

SCALE = PLAN.scale_name


def cores_given():
    return workflow.resource_settings.cores


def is_dry_run():
    return workflow.dryrun


def says_no_rules():
    return Quietness.RULES in (workflow.output_settings.quiet or ())


if workflow.is_main_process:
    if not workflow.deployment_settings.deployment_method and (wrong := wrong_python()):
        raise WorkflowError(wrong)
    logger.addFilter(
        Watch(
            SCALE,
            cores=cores_given,
            dryrun=is_dry_run,
            unknown=functools.partial(plan.words.unknown_target, PLAN),
            quiet=says_no_rules,
        )
    )
    print(plan.words.what_this_is(PLAN), file=sys.stderr)
S = f"results/{SCALE}"
WORLD = PLAN.has_world
MONO_SHARDS = range(PLAN.scale["shards"]["mono"])
BITEXT_SHARDS = range(PLAN.scale["shards"]["bitext"])
RAW = f"{S}/raw"
DATASET_OF = {f"{RAW}/{dataset.path}": dataset for dataset in PLAN.datasets.values()}
PRETRAINED = plan.jobs.any_of(PLAN.pretrained)
IMPORTED = plan.jobs.any_of(PLAN.imported)
WITH_WEIGHTS = plan.jobs.any_of([*PLAN.pretrained, *PLAN.imported])
ALIGNERS = plan.jobs.any_of(
    run for run in PLAN.runs if PLAN.runs[run]["kind"] == "aligner"
)
ALIGNED = plan.jobs.any_of(
    task for task in PLAN.tasks if PLAN.tasks[task]["kind"] == "alignment"
)
TRANSLATED = plan.jobs.any_of(
    task for task in PLAN.tasks if PLAN.tasks[task]["kind"] == "translation"
)
COMPARED = [item for item, spec in PLAN.tables.items() if "compare" in spec]
COMPARISONS = plan.jobs.any_of(COMPARED)  # <paper>/<item>
TABLES = plan.jobs.any_of(set(PLAN.tables) - set(COMPARED))
DRAWN = [item for item, spec in PLAN.figures.items() if "diagram" in spec]
DIAGRAMS = plan.jobs.any_of(DRAWN)  # <paper>/<item>
OF_CLAIMS = [item for item, spec in PLAN.figures.items() if "effects" in spec]
EFFECTS = plan.jobs.any_of(OF_CLAIMS)  # <paper>/<item>
FIGURES = plan.jobs.any_of(set(PLAN.figures) - set(DRAWN) - set(OF_CLAIMS))
NOT_TRANSLATED = [
    task for task in PLAN.tasks if PLAN.tasks[task]["kind"] != "translation"
]
BITEXT_SETTINGS = {
    task: settings
    for task in PLAN.tasks
    if (settings := plan.recipes.bitext_settings(PLAN, task))
}


# In the rules `<scale>` is the folder of the scale: as a part of each path that is known beforehand, and no wildcard, it tells
# Snakemake by a file's first folders which few rules may make it.
pathvars:
    scale=S,


wildcard_constraints:
    corpus=plan.jobs.any_of(plan.data.corpora(PLAN)),
    lang=plan.jobs.any_of(PLAN.languages),
    pair=r"[a-z]{2,3}-[a-z]{2,3}",
    name=r"[a-z]{2,3}(-[a-z]{2,3})?",
    path=r"[^/]+/.+",
    kind="mono|bitext",
    shard=r"\d+",
    run=plan.jobs.any_of(PLAN.runs),
    task=plan.jobs.any_of(PLAN.tasks),
    setting=plan.jobs.any_of(
        job
        for task, definition in PLAN.tasks.items()
        for setting in definition["settings"]
        for job in plan.recipes.setting_jobs(PLAN, task, setting)
    ),
    recipe=plan.jobs.any_of(
        recipe for task in PLAN.tasks.values() for recipe in task["recipes"]
    ),
    seed=r"\d+",
    item=r"[^/]+/[^/]+",
    beside=plan.jobs.any_of(plan.claimed.scales_beside(PLAN)),


def code(script):
    """A digest of what a script imports from beside it: a param of the cheap jobs, so that an edit plans them again. As inputs
    these files would be four fifths of all edges of the graph."""
    return plan.code.code_digest(f"workflow/scripts/{script}.py")


def raw(ids):
    """Where the downloads of these dataset ids lie."""
    return [f"{RAW}/{PLAN.datasets[id_].path}" for id_ in ids]


# --- resources: rules own the numbers, a scale may replace them ------------------------------------------------------


def resource(rule, key, default):
    return PLAN.scale.get("resources", {}).get(rule, {}).get(key, default)


def allocated(rule, wildcards):
    return plan.allocation.allocated(PLAN, rule, dict(wildcards.items()))


def of_training(rule, key):
    def number(wildcards):
        return getattr(allocated(rule, wildcards), key)

    return number


def gpu_resources(rule):
    return plan.allocation.slurm_wants(
        resource(rule, "gpu", 0), resource(rule, "nodes", 1)
    )


def training_resources(rule):
    """The same, by the size of each training; what a job does not want is None and left out."""

    def want(key):
        def value(wildcards):
            own = allocated(rule, wildcards)
            return plan.allocation.slurm_wants(own.gpu, own.nodes).get(key)

        return value

    return {key: want(key) for key in ("gpu", "nodes", "mpi", "tasks", "slurm_extra")}


# --- where and how, never what ---------------------------------------------------------------------------------------
# Snakemake compares params with those of the last run, except for functions that take `output` or `resources`. So these do:
# another mirror or another number of GPUs plans nothing again. What an option changes of the content stands in a digest.
# Several words are a list: every value in a rule's `shell` is quoted ({...:q}), each word of a list by itself.


def raw_root(wildcards, output):
    return RAW


def world_root(wildcards, output):
    return f"{S}/world"


def corpus_root(wildcards, output):
    return f"{S}/corpus"


def shards_root(wildcards, output):
    return f"{S}/shards"


def scores_root(wildcards, output):
    return plan.evidence.evidence(PLAN, "scores")


def trainings_root(wildcards, output):
    return plan.evidence.evidence(PLAN, "trainings")


def download_options(wildcards, output):
    """Where downloads look. The generated world is a mirror without checksums of upstream, and the only one."""
    if WORLD:
        return [f"--unchecked-mirror={S}/world", "--offline", "--attempts=1"]
    settings = PLAN.settings.get("download", {})
    return [
        *(f"--mirror={mirror}" for mirror in PLAN.settings.get("mirrors", [])),
        *(["--offline"] if settings.get("offline") else []),
        f"--max-parallel={settings.get('parallel', 4)}",
        f"--slots-dir={S}/raw/.slots",
        "--lock=config/datasets.lock.tsv",
    ]


def cleaning_overrides(wildcards, output):
    return json.dumps(PLAN.scale.get("cleaning", {}), sort_keys=True)


PASSED_ON = ("papers", "items", "runs", "seeds", "scores_from", "licences", "claims")


def settings_options(wildcards, output):
    """What the command line changed of config.yaml, for the scripts that read it too."""
    return [
        f"--override={key}={json.dumps(value)}"
        for key, value in plan.load.changed_settings(PLAN).items()
        if key in PASSED_ON
    ]


def licences_option(wildcards, output):
    """For the scripts that resolve, and take nothing else from config.yaml."""
    changed = plan.load.changed_settings(PLAN)
    return [f"--licences={changed['licences']}"] if "licences" in changed else []


def site_options(wildcards, output):
    """The page alone may be without what the engine tells of itself."""
    return settings_options(wildcards, output) + (
        [] if PLAN.settings.get("engine", True) else ["--override=engine=false"]
    )


def line_counts(wildcards, output):
    """Upstream's files have known numbers of lines; the world's have any."""
    return "any" if WORLD else "upstream"


def launcher(rule):
    def command(wildcards, resources):
        return plan.allocation.launcher(allocated(rule, wildcards))

    return command


def processes(rule):
    def number(wildcards, resources):
        return allocated(rule, wildcards).processes

    return number


def process_threads(rule):
    """CPU threads of each process: those of a node are shared by its GPUs."""

    def number(wildcards, resources):
        return allocated(rule, wildcards).threads_per_process

    return number


def time_budget(wildcards, resources):
    """In a cluster's job alone: the others end when they are done."""
    if not workflow.remote_exec:
        return []
    return [f"--budget={plan.allocation.time_budget(resources.runtime)}"]


include: "inputs/sources.smk"
include: "inputs/corpus.smk"
include: "inputs/vocabulary.smk"
include: "inputs/pretrain.smk"
include: "inputs/evaluate.smk"
include: "inputs/exports.smk"
include: "inputs/report.smk"
