# Pre-training: a run file and a scale make one resolved YAML; that, the shards and the seed make one model.


localrules:
    resolve_run,
    summarise_training,
    plan_sampling_run,


# The digest of the resolved content decides: a comment in the run file or a number of another run plans nothing.
rule resolve_run:
    input:
        script=ancient("workflow/scripts/resolve_run.py"),
        run=ancient("config/runs/{run}.yaml"),
        scale=ancient(f"config/scales/{SCALE}.yaml"),
    output:
        run="<scale>/runs/{run}/run.yaml",
    log:
        "<scale>/logs/resolve_run/{run}.log",
    benchmark:
        "<scale>/benchmarks/resolve_run/{run}.tsv"
    conda:
        "../../envs/data.yaml"
    threads: 1
    resources:
        mem_mb=resource("resolve_run", "mem_mb", 500),
        runtime=resource("resolve_run", "runtime", 5),
    params:
        digest=run_digest,
        licences=licences_option,
    shell:
        "python {input.script:q} --run {input.run:q} --scale {input.scale:q} {params.licences:q} --out {output.run:q} "
        "> {log:q} 2>&1"


rule plan_sampling_run:
    input:
        script=ancient("workflow/scripts/plan_sampling.py"),
        run="<scale>/runs/{run}/run.yaml",
        manifests=run_shards,
    output:
        plan="<scale>/runs/{run}/sampling_plan.tsv",
    log:
        "<scale>/logs/plan_sampling/{run}.log",
    benchmark:
        "<scale>/benchmarks/plan_sampling/{run}.tsv"
    conda:
        "../../envs/data.yaml"
    threads: 1
    resources:
        mem_mb=resource("plan_sampling", "mem_mb", 1000),
        runtime=resource("plan_sampling", "runtime", 10),
    shell:
        "python {input.script:q} --run {input.run:q} --manifests {input.manifests:q} --out {output.plan:q} > {log:q} 2>&1"


# No code among the inputs: a model follows from run.yaml, whose `numerics` is raised by hand when results should change.
# Resumable state lies undeclared beside the model, so that a retry continues (Snakemake deletes declared outputs first).
rule pretrain:
    input:
        script=ancient("workflow/scripts/pretrain.py"),
        run="<scale>/runs/{run}/run.yaml",
        plan="<scale>/runs/{run}/sampling_plan.tsv",
        shards=run_shards,
        vocabulary=scale_vocabulary,
        initial=initial_weights,
    output:
        model="<scale>/runs/{run}/seed-{seed}/model.safetensors",
        train="<scale>/runs/{run}/seed-{seed}/train.jsonl",
        cost="<scale>/runs/{run}/seed-{seed}/cost.json",
    log:
        "<scale>/logs/pretrain/{run}/seed-{seed}.log",
    benchmark:
        "<scale>/benchmarks/pretrain/{run}/seed-{seed}.tsv"
    wildcard_constraints:
        run=PRETRAINED,
    # the longest jobs first, so that no core waits for the last of them
    priority: 10
    conda:
        "../../envs/torch.yaml"
    threads: of_training("pretrain", "threads")
    resources:
        **training_resources("pretrain"),
        mem_mb=of_training("pretrain", "mem_mb"),
        runtime=of_training("pretrain", "runtime"),
    params:
        launcher=launcher("pretrain"),
        processes=processes("pretrain"),
        threads=process_threads("pretrain"),
        budget=time_budget,
        shards=shards_root,
        initial=initial_option,
    shell:
        "export OMP_NUM_THREADS={params.threads:q}; {params.launcher:q} {input.script:q} --run-file {input.run:q} "
        "--plan {input.plan:q} --shards {params.shards:q} --vocabulary {input.vocabulary:q} {params.initial:q} "
        "--seed {wildcards.seed:q} --threads {params.threads:q} --world-size {params.processes:q} {params.budget:q} "
        "--out {output.model:q} --log-json {output.train:q} --cost {output.cost:q} > {log:q} 2>&1"


# What stays of a pre-training for tables, figures, claims and the report: its cost and its curves in short.
rule summarise_training:
    input:
        script="workflow/scripts/summarise_training.py",
        run="<scale>/runs/{run}/run.yaml",
        train="<scale>/runs/{run}/seed-{seed}/train.jsonl",
        cost="<scale>/runs/{run}/seed-{seed}/cost.json",
    output:
        training="<scale>/trainings/{run}/seed-{seed}.json",
    log:
        "<scale>/logs/summarise_training/{run}/seed-{seed}.log",
    benchmark:
        "<scale>/benchmarks/summarise_training/{run}/seed-{seed}.tsv"
    wildcard_constraints:
        run=PRETRAINED,
    conda:
        "../../envs/data.yaml"
    threads: 1
    resources:
        mem_mb=resource("summarise_training", "mem_mb", 500),
        runtime=resource("summarise_training", "runtime", 5),
    params:
        code=code("summarise_training"),
        scale=SCALE,
    shell:
        "python {input.script:q} --run-file {input.run:q} --log-json {input.train:q} --cost {input.cost:q} "
        "--seed {wildcards.seed:q} --scale {params.scale:q} --out {output.training:q} > {log:q} 2>&1"
