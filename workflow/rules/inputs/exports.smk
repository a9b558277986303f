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
