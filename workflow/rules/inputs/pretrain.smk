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
