# Translation: a run's weights and a task's recipe make a run of their own -> translation model -> its learning curve -> translations.
# What is scored afterwards is an evaluation like others (evaluate.smk).


localrules:
    resolve_translator,
    plan_sampling_translator,


rule resolve_translator:
    input:
        script=ancient("workflow/scripts/resolve_translator.py"),
        run=ancient("config/runs/{run}.yaml"),
        task=ancient("config/tasks/{task}.yaml"),
        scale=ancient(f"config/scales/{SCALE}.yaml"),
    output:
        run="<scale>/translators/{run}/{task}/{setting}/run.yaml",
    log:
        "<scale>/logs/resolve_translator/{run}/{task}/{setting}.log",
    benchmark:
        "<scale>/benchmarks/resolve_translator/{run}/{task}/{setting}.tsv"
    wildcard_constraints:
        task=TRANSLATED,
    conda:
        "../../envs/data.yaml"
    threads: 1
    resources:
        mem_mb=resource("resolve_translator", "mem_mb", 500),
        runtime=resource("resolve_translator", "runtime", 5),
    params:
        digest=translator_digest,
        licences=licences_option,
    shell:
        "python {input.script:q} --run {input.run:q} --task {input.task:q} --setting {wildcards.setting:q} "
        "--scale {input.scale:q} {params.licences:q} --out {output.run:q} > {log:q} 2>&1"


rule plan_sampling_translator:
    input:
        script=ancient("workflow/scripts/plan_sampling.py"),
        run="<scale>/translators/{run}/{task}/{setting}/run.yaml",
        manifests=translator_shards,
    output:
        plan="<scale>/translators/{run}/{task}/{setting}/sampling_plan.tsv",
    log:
        "<scale>/logs/plan_sampling/{run}/{task}/{setting}.log",
    benchmark:
        "<scale>/benchmarks/plan_sampling/{run}/{task}/{setting}.tsv"
    wildcard_constraints:
        task=TRANSLATED,
    conda:
        "../../envs/data.yaml"
    threads: 1
    resources:
        mem_mb=resource("plan_sampling", "mem_mb", 1000),
        runtime=resource("plan_sampling", "runtime", 10),
    shell:
        "python {input.script:q} --run {input.run:q} --manifests {input.manifests:q} --out {output.plan:q} > {log:q} 2>&1"


# As pretrain: no code among the inputs, and resumable state undeclared beside the model.
rule train_translator:
    input:
        script=ancient("workflow/scripts/train_translator.py"),
        run="<scale>/translators/{run}/{task}/{setting}/run.yaml",
        plan="<scale>/translators/{run}/{task}/{setting}/sampling_plan.tsv",
        shards=translator_shards,
        vocabulary=scale_vocabulary,
        initial=encoder,
    output:
        model="<scale>/translators/{run}/{task}/{setting}/seed-{seed}/model.safetensors",
        train="<scale>/translators/{run}/{task}/{setting}/seed-{seed}/train.jsonl",
        cost="<scale>/translators/{run}/{task}/{setting}/seed-{seed}/cost.json",
        snapshots=temp(
            directory(
                "<scale>/translators/{run}/{task}/{setting}/seed-{seed}/snapshots"
            )
        ),
    log:
        "<scale>/logs/train_translator/{run}/{task}/{setting}/seed-{seed}.log",
    benchmark:
        "<scale>/benchmarks/train_translator/{run}/{task}/{setting}/seed-{seed}.tsv"
    wildcard_constraints:
        run=PRETRAINED,
        task=TRANSLATED,
    priority: 5
    conda:
        "../../envs/torch.yaml"
    threads: of_training("train_translator", "threads")
    resources:
        **training_resources("train_translator"),
        mem_mb=of_training("train_translator", "mem_mb"),
        runtime=of_training("train_translator", "runtime"),
    params:
        launcher=launcher("train_translator"),
        processes=processes("train_translator"),
        threads=process_threads("train_translator"),
        budget=time_budget,
        shards=shards_root,
    shell:
        "export OMP_NUM_THREADS={params.threads:q}; {params.launcher:q} {input.script:q} --run-file {input.run:q} "
        "--plan {input.plan:q} --shards {params.shards:q} --vocabulary {input.vocabulary:q} --init {input.initial:q} "
        "--seed {wildcards.seed:q} --threads {params.threads:q} --world-size {params.processes:q} {params.budget:q} "
        "--out {output.model:q} --log-json {output.train:q} --cost {output.cost:q} --snapshots {output.snapshots:q} "
        "> {log:q} 2>&1"


# Alone reads the snapshots, which go when it has: at the paper's sizes those of one model are some 50 GB.
rule validate_translator:
    input:
        script=ancient("workflow/scripts/validate_translator.py"),
        recipe=ancient(recipe),
        snapshots="<scale>/translators/{run}/{task}/{setting}/seed-{seed}/snapshots",
        cost="<scale>/translators/{run}/{task}/{setting}/seed-{seed}/cost.json",
        plan="<scale>/translators/{run}/{task}/{setting}/sampling_plan.tsv",
        vocabulary=scale_vocabulary,
        files=dev_files,
    output:
        validation="<scale>/translators/{run}/{task}/{setting}/seed-{seed}/validation.json",
    log:
        "<scale>/logs/validate_translator/{run}/{task}/{setting}/seed-{seed}.log",
    benchmark:
        "<scale>/benchmarks/validate_translator/{run}/{task}/{setting}/seed-{seed}.tsv"
    wildcard_constraints:
        task=TRANSLATED,
    conda:
        "../../envs/torch.yaml"
    threads: resource("validate_translator", "threads", 1)
    resources:
        **gpu_resources("validate_translator"),
        mem_mb=resource("validate_translator", "mem_mb", 4000),
        runtime=resource("validate_translator", "runtime", 120),
    params:
        digest=validation_digest,
        raw=raw_root,
        counts=line_counts,
    shell:
        "export OMP_NUM_THREADS={threads:q}; python {input.script:q} --recipe {input.recipe:q} --snapshots {input.snapshots:q} "
        "--cost {input.cost:q} --plan {input.plan:q} --spm {input.vocabulary:q} --raw {params.raw:q} "
        "--counts {params.counts:q} --threads {threads:q} --out {output.validation:q} > {log:q} 2>&1"


# In place of predict.
rule translate:
    input:
        script=ancient("workflow/scripts/translate.py"),
        recipe=recipe,
        model="<scale>/translators/{run}/{task}/{setting}/seed-{seed}/model.safetensors",
        validation="<scale>/translators/{run}/{task}/{setting}/seed-{seed}/validation.json",
        vocabulary=scale_vocabulary,
        files=score_files,
    output:
        predictions=directory("<scale>/predictions/{run}/{task}/{setting}/seed-{seed}"),
    log:
        "<scale>/logs/translate/{run}/{task}/{setting}/seed-{seed}.log",
    benchmark:
        "<scale>/benchmarks/translate/{run}/{task}/{setting}/seed-{seed}.tsv"
    wildcard_constraints:
        run=PRETRAINED,
        task=TRANSLATED,
    conda:
        "../../envs/torch.yaml"
    threads: resource("translate", "threads", 1)
    resources:
        **gpu_resources("translate"),
        mem_mb=resource("translate", "mem_mb", 4000),
        runtime=resource("translate", "runtime", 60),
    params:
        scale=SCALE,
        raw=raw_root,
        counts=line_counts,
        pretrain_seed=evaluation_pretrain_seed,
    shell:
        "export OMP_NUM_THREADS={threads:q}; python {input.script:q} --model {input.model:q} --spm {input.vocabulary:q} "
        "--recipe {input.recipe:q} --raw {params.raw:q} --validation {input.validation:q} --run {wildcards.run:q} --scale {params.scale:q} "
        "--seed {wildcards.seed:q} --pretrain-seed {params.pretrain_seed:q} "
        "--counts {params.counts:q} --threads {threads:q} --out {output.predictions:q} > {log:q} 2>&1"
