# The plan, as constants and named functions; the only file of the rules with Python in it.
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
import plan.recipes
import plan.runs
import plan.seeds
import plan.translators
import plan.words
from common.errors import UserError
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
    CLEANING = plan.load.load_cleaning(PLAN)
    NEEDS = plan.claimed.all_needs(PLAN)
    ASKED = [*PLAN.listed, *(run for run, _, _ in NEEDS)]
    RUNS = plan.runs.with_ancestors(PLAN, ASKED)
    CHECKPOINTS = plan.runs.checkpoints_of(PLAN, ASKED)
    CANONICAL = plan.needs.canonical_runs(PLAN)
    TRAINED = [run for run in RUNS if run in PLAN.pretrained]
    TRANSLATORS = plan.translators.translators(PLAN, NEEDS)
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
            targets=plan.words.named_targets(PLAN),
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


def settings_options(wildcards, output):
    """What the command line changed of config.yaml, for the scripts that read it too."""
    return [
        f"--override={key}={json.dumps(value)}"
        for key, value in plan.load.changed_settings(PLAN).items()
        if key in ("papers", "items", "runs", "seeds", "scores_from")
    ]


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


# --- sources ---------------------------------------------------------------------------------------------------------


def download_id(wildcards):
    path = f"{RAW}/{wildcards.path}"
    if path not in DATASET_OF:
        raise WorkflowError(f"{path}: no row of config/datasets.tsv has this path")
    return DATASET_OF[path].id


def download_digest(wildcards):
    """A download is done again when its address or its published checksum changes, not when a mirror does."""
    dataset = PLAN.datasets[download_id(wildcards)]
    return common.identity.digest([dataset.url, dataset.sha256])


def download_world(wildcards):
    return f"{S}/world/MANIFEST.tsv" if WORLD else []


# --- corpus ----------------------------------------------------------------------------------------------------------


def mono_sources(wildcards):
    return raw(
        plan.datasets.mono_ids(
            wildcards.corpus, wildcards.lang, PLAN.datasets, PLAN.languages
        )
    )


def bitext_sources(wildcards):
    return raw(
        plan.datasets.bitext_ids(
            wildcards.corpus, wildcards.pair, PLAN.datasets, PLAN.languages
        )
    )


def mono_form(wildcards, input):
    """What a gathered corpus is beside its files: which of them are sentences that do not follow each other."""
    ids = [
        DATASET_OF[path].id for path in input.text if DATASET_OF[path].kind != "mono"
    ]
    if not any(
        plan.sources.is_gathered(PLAN, DATASET_OF[path].id) for path in input.text
    ):
        return []
    return ["--gathered", *(["--alone", *raw(ids)] if ids else [])]


def bitext_form(wildcards, input):
    """Archives of pairs, or files of a gathered corpus in twos."""
    aligned = plan.sources.is_gathered(PLAN, DATASET_OF[input.sources[0]].id)
    return "--aligned" if aligned else "--archive"


def language_id_model(wildcards):
    chosen = PLAN.scale["language_id"]
    return f"{S}/corpus/language-id.bin" if chosen == "trained" else raw([chosen])[0]


def language_id_texts(wildcards):
    return [path for _, path in language_id_pairs()]


def language_id_pairs():
    """(language, file) of the text that the language identifier is trained on."""
    return [(lang, raw([id_])[0]) for lang, id_ in plan.sources.labelled_text(PLAN)]


def language_id_arguments(wildcards):
    return [f"{lang}={path}" for lang, path in language_id_pairs()]


def evaluation_pairs():
    """(task, file) of the evaluation sets that are kept out of the training text: of the corpus languages only, so that
    another evaluation language cleans nothing again."""
    return [
        (task, path)
        for task in sorted(PLAN.scale["decontaminate"])
        for path in raw(
            plan.recipes.gold_datasets(
                PLAN,
                task,
                plan.recipes.task_languages(
                    PLAN, task, plan.data.corpus_languages(PLAN)
                ),
            )
        )
    ]


def evaluation_files(wildcards):
    return [path for _, path in evaluation_pairs()]


def evaluation_arguments(wildcards):
    return [f"{task}={path}" for task, path in evaluation_pairs()]


def thresholds(*sections):
    """A digest of the sections of the cleaning thresholds that one job reads; another section's number plans nothing here."""
    return common.identity.digest({section: CLEANING[section] for section in sections})


def mono_texts(data):
    """Stems of the text shards, without suffix: results/<scale>/corpus/<stem>.clean.txt.zst."""
    return [
        f"mono/{corpus}/{lang}/{shard}"
        for corpus, lang in data
        for shard in MONO_SHARDS
    ]


def bitext_texts(data):
    return [
        f"bitext/{corpus}/{pair}/{shard}"
        for corpus, pair in data
        for shard in BITEXT_SHARDS
    ]


def data_of(runs):
    """(corpus, language) and (corpus, pair) of the text of these runs, and of all translation models."""
    mono, bitext = plan.data.data_of_runs(PLAN, runs)
    translated = {task for _, task, _ in TRANSLATORS}
    pairs = {
        pair
        for task in translated
        for pair in plan.translators.data_of_translator(PLAN, task)
    }
    return mono, sorted(pairs.union(bitext))


def raw_shards(wildcards):
    mono, bitext = data_of(RUNS)
    return [
        f"{S}/corpus/{stem}.raw.zst" for stem in mono_texts(mono) + bitext_texts(bitext)
    ]


def cleaning_outputs(wildcards):
    mono, bitext = data_of(RUNS)
    return [
        f"{S}/corpus/{stem}.{kind}"
        for stems, text in (
            (mono_texts(mono), "clean.txt.zst"),
            (bitext_texts(bitext), "clean.tsv.zst"),
        )
        for stem in stems
        for kind in (text, "clean.json", "rejects.tsv.zst")
    ]


# --- vocabulary and shards -------------------------------------------------------------------------------------------


def vocabulary_corpora():
    return mono_texts(plan.data.vocabulary_data(PLAN))


def vocabulary_counts(wildcards):
    return [f"{S}/corpus/{stem}.clean.json" for stem in vocabulary_corpora()]


def vocabulary_inputs(wildcards):
    """A given model, or the sampling plan and the text to train one on."""
    if "given" in PLAN.scale["vocabulary"]:
        return {"given": raw([PLAN.scale["vocabulary"]["given"]])[0]}
    return {
        "plan": f"{S}/vocab/sampling_plan.tsv",
        "text": [f"{S}/corpus/{stem}.clean.txt.zst" for stem in vocabulary_corpora()],
    }


def vocabulary_arguments(wildcards, input):
    chosen = PLAN.scale["vocabulary"]
    if "given" in chosen:
        return [f"--given={input.given}"]
    return [
        f"--plan={input.plan}",
        f"--corpus={S}/corpus",
        f"--size={chosen['size']}",
        f"--sentences={chosen['sentences']}",
        f"--character-coverage={chosen['character_coverage']}",
        f"--algorithm={chosen.get('algorithm', 'unigram')}",
    ]


def clean_text(wildcards):
    suffix = {"mono": "txt", "bitext": "tsv"}[wildcards.kind]
    return f"{S}/corpus/{wildcards.kind}/{wildcards.corpus}/{wildcards.name}/{wildcards.shard}.clean.{suffix}.zst"


def run_shards(wildcards):
    """The manifests of the encoded shards that a run reads."""
    mono, bitext = plan.data.data_of_runs(PLAN, [wildcards.run])
    return [
        f"{S}/shards/{stem}.json" for stem in mono_texts(mono) + bitext_texts(bitext)
    ]


# --- runs ------------------------------------------------------------------------------------------------------------


def run_digest(wildcards):
    return common.identity.digest(plan.runs.resolve_run(PLAN, wildcards.run))


def weights_digest(wildcards):
    """Of what makes a run's weights: how it is fine-tuned afterwards is not of it."""
    return common.identity.run_hash(plan.runs.resolve_run(PLAN, wildcards.run))


def initial_weights(wildcards):
    """What a run starts from: the weights of another run with the same seed, or nothing."""
    init = plan.runs.resolve_run(PLAN, wildcards.run).get("init")
    return (
        plan.runs.weights_path(PLAN, init["run"], int(wildcards.seed)) if init else []
    )


def initial_option(wildcards, output):
    weights = initial_weights(wildcards)
    return ["--init", weights] if weights else []


def pretrain_outputs():
    """The weights of all runs, trained here or imported."""
    found = {
        plan.runs.weights_path(PLAN, run, seed)
        for run in [*TRAINED, *CHECKPOINTS]
        for seed in plan.seeds.pretrain_seeds(PLAN)
    }
    return sorted(found)


def training_logs(wildcards):
    return [
        f"{S}/runs/{wildcards.run}/seed-{seed}/train.jsonl"
        for seed in plan.seeds.pretrain_seeds(PLAN)
    ]


def training_plots():
    trained = [
        run for run in TRAINED if plan.runs.resolve_run(PLAN, run)["schedule"]["steps"]
    ]
    return [f"{S}/runs/{run}/training.png" for run in trained]


def data_outputs():
    mono, bitext = data_of(TRAINED)
    return [
        plan.runs.vocabulary_path(PLAN),
        *(
            f"{S}/shards/{stem}.json"
            for stem in mono_texts(mono) + bitext_texts(bitext)
        ),
        *(f"{S}/runs/{run}/sampling_plan.tsv" for run in TRAINED),
    ]


# --- evaluation ------------------------------------------------------------------------------------------------------


def recipe_digest(wildcards):
    return common.identity.digest(
        plan.recipes.resolve_recipe(
            PLAN, wildcards.task, wildcards.setting, wildcards.recipe
        )
    )


def recipe_name(wildcards):
    return plan.recipes.recipe_of(PLAN, wildcards.run)


def recipe(wildcards):
    return f"{S}/recipes/{wildcards.task}/{wildcards.setting}/{recipe_name(wildcards)}.yaml"


def encoder(wildcards):
    seed = plan.seeds.pretrain_seed(PLAN, int(wildcards.seed))
    return plan.runs.weights_path(PLAN, wildcards.run, seed)


def checkpoint_files(wildcards):
    """Of a checkpoint, as it was published: on the hub, or in a folder."""
    hub = PLAN.runs[wildcards.run]["source"].get("hub")
    if hub:
        return raw(plan.checkpoints.checkpoint_ids(PLAN, hub))
    try:
        folder = plan.checkpoints.checkpoint_folder(PLAN, wildcards.run)
    except UserError as error:
        raise WorkflowError(str(error)) from None
    read = (".json", ".txt", ".model", ".safetensors", ".bin")  # and nothing else
    files = (path for path in folder.iterdir() if path.is_file())
    return sorted(str(path) for path in files if path.suffix in read)


def checkpoint_folder(wildcards):
    """Where they lie beside each other."""
    [folder] = {str(Path(path).parent) for path in checkpoint_files(wildcards)}
    return folder


def scale_vocabulary(wildcards):
    """The tokenizer that text is encoded with for training."""
    return plan.runs.vocabulary_path(PLAN)


def run_vocabulary(wildcards):
    """The tokenizer that a run was trained with."""
    if wildcards.run in PLAN.not_here:
        raise WorkflowError(
            f"{plan.runs.not_here(PLAN, wildcards.run)}; take another scale"
        )
    return plan.runs.vocabulary_path(PLAN, wildcards.run)


def model(wildcards):
    """The weights that predict: fine-tuned for this task or for another, or the encoder as it is."""
    trained = plan.recipes.trained_as(PLAN, wildcards.task, wildcards.setting)
    if trained is None:
        return encoder(wildcards)
    task, setting = trained
    return f"{S}/finetuned/{wildcards.run}/{task}/{setting}/seed-{wildcards.seed}/model.safetensors"


def task_files(wildcards, parts):
    resolved = plan.recipes.resolve_recipe(
        PLAN, wildcards.task, wildcards.setting, recipe_name(wildcards)
    )
    return raw(plan.recipes.recipe_datasets(resolved, parts))


def finetune_files(wildcards):
    return task_files(wildcards, plan.recipes.TRAIN_PARTS)


def recipe_bitext(use, suffix):
    """The clean sentence pairs, or their counts, that retrieval is fine-tuned on (`bitext`) or centred on (`centre`)."""

    def files(wildcards):
        resolved = plan.recipes.resolve_recipe(
            PLAN, wildcards.task, wildcards.setting, recipe_name(wildcards)
        )
        corpora = resolved.get(use, {}).get("corpora", {})
        stems = bitext_texts(
            (corpus, pair) for pair, names in corpora.items() for corpus in names
        )
        return [f"{S}/corpus/{stem}.{suffix}" for stem in stems]

    return files


def predict_files(wildcards):
    """Mining sets its threshold on dev, so it reads that too; centred retrieval the pairs that choose its layer."""
    mining = PLAN.tasks[wildcards.task]["kind"] == "mining"
    parts = plan.recipes.TEST_PARTS + plan.recipes.HELD_OUT_PARTS
    return task_files(wildcards, parts + (("dev",) if mining else ()))


def aligner_text(wildcards):
    """The clean pairs that an aligner learns from, of the languages that are evaluated."""
    codes = plan.recipes.task_languages(PLAN, wildcards.task)
    pairs = {common.pairs.pair_with_english(code) for code in codes}
    _, bitext = plan.data.data_of_runs(PLAN, [wildcards.run])
    stems = bitext_texts((corpus, pair) for corpus, pair in bitext if pair in pairs)
    return [f"{S}/corpus/{stem}.clean.tsv.zst" for stem in stems]


def dev_files(wildcards):
    return task_files(wildcards, plan.recipes.DEV_PARTS)


def translator_digest(wildcards):
    return common.identity.digest(
        plan.translators.resolve_translator(
            PLAN, wildcards.run, wildcards.task, wildcards.setting
        )
    )


def validation_digest(wildcards):
    """What the learning curve rests on beside the snapshots, which are gone by then: no more of the recipe than that."""
    resolved = plan.recipes.resolve_recipe(
        PLAN, wildcards.task, wildcards.setting, recipe_name(wildcards)
    )
    limit = resolved["recipe"].get("dev_limit")
    return common.identity.digest(
        [plan.recipes.recipe_datasets(resolved, plan.recipes.DEV_PARTS), limit]
    )


def translator_shards(wildcards):
    """The manifests of the encoded shards that a translation model is trained on."""
    stems = bitext_texts(plan.translators.data_of_translator(PLAN, wildcards.task))
    return [f"{S}/shards/{stem}.json" for stem in stems]


def evaluation_pretrain_seed(wildcards, output):
    return plan.seeds.pretrain_seed(PLAN, int(wildcards.seed))


def score_files(wildcards):
    return task_files(wildcards, plan.recipes.TEST_PARTS)


def cleaning_report(wildcards):
    if not WORLD:
        raise WorkflowError(
            f"cleaning: scale {SCALE} has real text, of which nobody knows the dirt; ask for it at a scale with a world"
        )
    return f"{S}/corpus/cleaning-report.json"


# --- exports ---------------------------------------------------------------------------------------------------------


HUB_FILES = [
    f"workflow/scripts/hub/{name}.py"
    for name in (
        "configuration_parallax",
        "modeling_parallax",
        "modeling_parallax_translation",
    )
]


def exported_folders(wildcards):
    """Every run before fine-tuning, and the translation models that tables name."""
    before = [Path(path).parent.relative_to(f"{S}/runs") for path in pretrain_outputs()]
    after = [
        f"{run}/{task}/{setting}/seed-{seed}"
        for run, task, setting in TRANSLATORS
        for seed in PLAN.seeds
    ]
    return [f"{S}/exported/{folder}" for folder in [*before, *after]]


def exported_run(wildcards):
    return f"{S}/runs/{plan.runs.trained_run(PLAN, wildcards.run)}/run.yaml"


def exported_as(wildcards):
    """(task, setting) of a model that was trained for one; None of an encoder."""
    return (wildcards.task, wildcards.setting) if hasattr(wildcards, "task") else None


def runs_before(wildcards):
    names = plan.exports.sources_of(PLAN, wildcards.run, exported_as(wildcards))
    return [f"{S}/runs/{name}/run.yaml" for name in names]


def exported_cost(wildcards):
    """What its pre-training took; of somebody's checkpoint nobody knows."""
    weights = plan.runs.weights_path(PLAN, wildcards.run, exported_seed(wildcards))
    trained = plan.runs.trained_run(PLAN, wildcards.run) in PLAN.pretrained
    return str(Path(weights).with_name("cost.json")) if trained else []


def exported_seed(wildcards):
    """Of pre-training: a fine-tuned model is named by its own seed."""
    seed = int(wildcards.seed)
    return plan.seeds.pretrain_seed(PLAN, seed) if exported_as(wildcards) else seed


def exported_scores(wildcards):
    seed = int(wildcards.seed)
    return plan.exports.scores_there(PLAN, wildcards.run, exported_as(wildcards), seed)


def exported_digest(wildcards):
    return plan.exports.card_digest(
        PLAN, wildcards.run, exported_as(wildcards), exported_scores(wildcards)
    )


# --- tables ----------------------------------------------------------------------------------------------------------


def all_scores(wildcards):
    return plan.claimed.all_score_paths(PLAN)


def spec_of(wildcards):
    return PLAN.specs[wildcards.item]


def spec_scores(wildcards):
    return plan.needs.score_paths(PLAN, spec_of(wildcards))


def spec_published(wildcards):
    return plan.figure_specs.published_files(spec_of(wildcards))


def spec_trainings(wildcards):
    return plan.needs.figure_trainings(PLAN, spec_of(wildcards))


def diagram_digest(wildcards):
    return plan.needs.diagram_digest(PLAN, spec_of(wildcards))


def claim_scores(wildcards):
    return plan.claimed.claim_paths(PLAN)


def claim_trainings(wildcards):
    return plan.claimed.claim_trainings(PLAN)


def beside_scores(wildcards):
    """What changes when the scores of another scale do, where they are kept."""
    kept = {
        "reference": "reference/PROVENANCE.tsv",
        "results": f"results/{wildcards.beside}/scores.tsv",
    }[plan.claimed.folder_beside(PLAN, wildcards.beside)]
    return kept if Path(kept).exists() else []


def beside_options(wildcards):
    """Where the scores of another scale are, and that those of an older configuration do not count."""
    folder = plan.claimed.folder_beside(PLAN, wildcards.beside)
    roots = {
        "reference": f"reference/{{}}/{wildcards.beside}",
        "results": f"results/{wildcards.beside}/{{}}",
    }[folder]
    return [
        f"--scores-root={roots.format('scores')}",
        f"--trainings-root={roots.format('trainings')}",
        f"--override={'scores_from=reference' if folder == 'reference' else 'runs=all'}",
    ]


def claims_beside(wildcards):
    """The claims of this scale, then those of the others that the page shows."""
    return [
        f"{S}/claims.json",
        *(
            f"results/{scale}/claims-beside.json"
            for scale in plan.claimed.scales_beside(PLAN)
        ),
    ]


def agreeing_scales(wildcards):
    return PLAN.settings.get("claims", {}).get("agree", [])


def comparison_counts(wildcards):
    reads = plan.compare_specs.reads_corpora(spec_of(wildcards))
    return plan.evidence.corpus_counts(PLAN) if reads else []


def comparison_trainings(wildcards):
    return plan.needs.compared_trainings(PLAN, spec_of(wildcards))


def comparison_digest(wildcards):
    return plan.needs.comparison_digest(PLAN, spec_of(wildcards))


def counted_texts(suffixes):
    """What is counted of the clean text: its counts, or the text itself."""

    def files(wildcards):
        mono, bitext = plan.claimed.counted_data(PLAN)
        return [
            f"{S}/corpus/{stem}.{suffix}"
            for stems, suffix in zip((mono_texts(mono), bitext_texts(bitext)), suffixes)
            for stem in stems
        ]

    return files


def table_files(wildcards):
    return [f"results/tables/{item}.tex" for item in PLAN.tables]


def figure_files(wildcards):
    return [
        f"results/figures/{item}.{suffix}"
        for item in PLAN.figures
        for suffix in ("pdf", "png")
    ]


def figure_pictures(wildcards):
    return [f"results/figures/{item}.png" for item in PLAN.figures]


def formatted_tables(wildcards):
    """Every table in the formats beside LaTeX."""
    return [
        f"results/tables/{item}.{suffix}"
        for item in PLAN.tables
        for suffix in ("csv", "html", "md")
    ]


def paper_digest(wildcards):
    """The line of an item's paper: another paper's line plans nothing here."""
    return common.identity.digest(
        plan.load.paper_line(PLAN, spec_of(wildcards)["paper"])
    )


def paper_of_item(wildcards):
    return spec_of(wildcards)["paper"]


def item_labels(wildcards):
    """What the rows of Snakemake's report say of a table or figure."""
    spec = spec_of(wildcards)
    return {"item": spec["item"], "shows": spec["title"]}


def report_files(wildcards):
    """What the report shows beside the document: pages of tables and figures. Trainings join it when they were drawn."""
    return [
        "results/index.html",
        *(f"results/tables/{item}.html" for item in PLAN.tables),
        *figure_pictures(wildcards),
    ]


def table_format(wildcards):
    return {"csv": "csv", "html": "html", "md": "markdown"}[wildcards.format]


def published_files(wildcards):
    return sorted(str(path) for path in Path("config/published").rglob("*.?sv"))


def site_trainings(wildcards):
    return plan.claimed.shown_trainings(PLAN)


def site_counts(wildcards):
    return plan.claimed.shown_counts(PLAN)


def site_digest(wildcards):
    return plan.claimed.compared_digest(PLAN)


def reference_provenance(wildcards):
    """Machine and dates of the reference scores."""
    return "reference/PROVENANCE.tsv" if PLAN.from_reference else []


def spec_files(wildcards):
    return [f"config/tables/{item}.yaml" for item in PLAN.tables] + [
        f"config/figures/{item}.yaml" for item in PLAN.figures
    ]


# What captions and gaps depend on beside the scores: which scale this is, and which of its runs stand for which.
VIEW = common.identity.digest(
    {
        "scale": SCALE,
        "description": plan.words.described(PLAN.scale),
        "world": WORLD,
        "seeds": {seed: plan.seeds.pretrain_seed(PLAN, seed) for seed in PLAN.seeds},
        "scores": plan.evidence.evidence(PLAN, "scores"),
        "runs": sorted(PLAN.selected),
        "canonical": CANONICAL,
        "tasks": {
            task: sorted(PLAN.tasks[task]["settings"]) for task in sorted(PLAN.tasks)
        },
    }
)
