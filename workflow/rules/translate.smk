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
        scale=ancient("config/scales/{scale}.yaml"),
    output:
        run="results/{scale}/translators/{run}/{task}/{setting}/run.yaml",
    log:
        "results/{scale}/logs/resolve_translator/{run}/{task}/{setting}.log",
    benchmark:
        "results/{scale}/benchmarks/resolve_translator/{run}/{task}/{setting}.tsv"
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
    shell:
        "python {input.script} --run {input.run} --task {input.task} --setting {wildcards.setting} --scale {input.scale} "
        "--out {output.run} > {log} 2>&1"


rule plan_sampling_translator:
    input:
        script=ancient("workflow/scripts/plan_sampling.py"),
        run="results/{scale}/translators/{run}/{task}/{setting}/run.yaml",
        manifests=translator_shards,
    output:
        plan="results/{scale}/translators/{run}/{task}/{setting}/sampling_plan.tsv",
    log:
        "results/{scale}/logs/plan_sampling/{run}/{task}/{setting}.log",
    benchmark:
        "results/{scale}/benchmarks/plan_sampling/{run}/{task}/{setting}.tsv"
    wildcard_constraints:
        task=TRANSLATED,
    conda:
        "../../envs/data.yaml"
    threads: 1
    resources:
        mem_mb=resource("plan_sampling", "mem_mb", 1000),
        runtime=resource("plan_sampling", "runtime", 10),
    shell:
        "python {input.script} --run {input.run} --manifests {input.manifests} --out {output.plan} > {log} 2>&1"


# As pretrain: no code among the inputs, and resumable state undeclared beside the model.
rule train_translator:
    input:
        script=ancient("workflow/scripts/train_translator.py"),
        run="results/{scale}/translators/{run}/{task}/{setting}/run.yaml",
        plan="results/{scale}/translators/{run}/{task}/{setting}/sampling_plan.tsv",
        shards=translator_shards,
        vocabulary=scale_vocabulary,
        initial=encoder,
    output:
        model="results/{scale}/translators/{run}/{task}/{setting}/seed-{seed}/model.safetensors",
        train="results/{scale}/translators/{run}/{task}/{setting}/seed-{seed}/train.jsonl",
        cost="results/{scale}/translators/{run}/{task}/{setting}/seed-{seed}/cost.json",
        snapshots=temp(
            directory(
                "results/{scale}/translators/{run}/{task}/{setting}/seed-{seed}/snapshots"
            )
        ),
    log:
        "results/{scale}/logs/train_translator/{run}/{task}/{setting}/seed-{seed}.log",
    benchmark:
        "results/{scale}/benchmarks/train_translator/{run}/{task}/{setting}/seed-{seed}.tsv"
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
        "export OMP_NUM_THREADS={params.threads}; {params.launcher} {input.script} --run-file {input.run} --plan {input.plan} "
        "--shards {params.shards} --vocabulary {input.vocabulary} --init {input.initial} --seed {wildcards.seed} "
        "--threads {params.threads} --world-size {params.processes} {params.budget} --out {output.model} "
        "--log-json {output.train} --cost {output.cost} --snapshots {output.snapshots} > {log} 2>&1"


# Alone reads the snapshots, which go when it has: at the paper's sizes those of one model are some 50 GB.
rule validate_translator:
    input:
        script=ancient("workflow/scripts/validate_translator.py"),
        recipe=ancient(recipe),
        snapshots="results/{scale}/translators/{run}/{task}/{setting}/seed-{seed}/snapshots",
        cost="results/{scale}/translators/{run}/{task}/{setting}/seed-{seed}/cost.json",
        plan="results/{scale}/translators/{run}/{task}/{setting}/sampling_plan.tsv",
        vocabulary=scale_vocabulary,
        files=dev_files,
    output:
        validation="results/{scale}/translators/{run}/{task}/{setting}/seed-{seed}/validation.json",
    log:
        "results/{scale}/logs/validate_translator/{run}/{task}/{setting}/seed-{seed}.log",
    benchmark:
        "results/{scale}/benchmarks/validate_translator/{run}/{task}/{setting}/seed-{seed}.tsv"
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
        "export OMP_NUM_THREADS={threads}; python {input.script} --recipe {input.recipe} --snapshots {input.snapshots} "
        "--cost {input.cost} --plan {input.plan} --spm {input.vocabulary} --raw {params.raw} --counts {params.counts} "
        "--threads {threads} --out {output.validation} > {log} 2>&1"


# In place of predict.
rule translate:
    input:
        script=ancient("workflow/scripts/translate.py"),
        recipe=recipe,
        model="results/{scale}/translators/{run}/{task}/{setting}/seed-{seed}/model.safetensors",
        validation="results/{scale}/translators/{run}/{task}/{setting}/seed-{seed}/validation.json",
        vocabulary=scale_vocabulary,
        files=score_files,
    output:
        predictions=directory(
            "results/{scale}/predictions/{run}/{task}/{setting}/seed-{seed}"
        ),
    log:
        "results/{scale}/logs/translate/{run}/{task}/{setting}/seed-{seed}.log",
    benchmark:
        "results/{scale}/benchmarks/translate/{run}/{task}/{setting}/seed-{seed}.tsv"
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
        raw=raw_root,
        counts=line_counts,
        pretrain_seed=evaluation_pretrain_seed,
    shell:
        "export OMP_NUM_THREADS={threads}; python {input.script} --model {input.model} --spm {input.vocabulary} "
        "--recipe {input.recipe} --raw {params.raw} --validation {input.validation} --run {wildcards.run} "
        "--scale {wildcards.scale} --seed {wildcards.seed} --pretrain-seed {params.pretrain_seed} --counts {params.counts} "
        "--threads {threads} --out {output.predictions} > {log} 2>&1"
