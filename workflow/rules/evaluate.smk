# Evaluation: recipe -> fine-tuned model -> predictions -> score. Only predict knows model and task, only score
# looks at the answers of the test part, though they stand in the files whose inputs predict takes.
# Fine-tuning and predict list no code, as pretrain does not: a task's `version` is raised by hand when its results should change.


localrules:
    resolve_recipe,


rule resolve_recipe:
    input:
        script=ancient("workflow/scripts/resolve_recipe.py"),
        task=ancient("config/tasks/{task}.yaml"),
        scale=ancient(f"config/scales/{SCALE}.yaml"),
    output:
        recipe="<scale>/recipes/{task}/{setting}/{recipe}.yaml",
    log:
        "<scale>/logs/resolve_recipe/{task}/{setting}/{recipe}.log",
    benchmark:
        "<scale>/benchmarks/resolve_recipe/{task}/{setting}/{recipe}.tsv"
    conda:
        "../../envs/data.yaml"
    threads: 1
    resources:
        mem_mb=resource("resolve_recipe", "mem_mb", 500),
        runtime=resource("resolve_recipe", "runtime", 5),
    params:
        digest=recipe_digest,
        licences=licences_option,
    shell:
        "python {input.script:q} --task {input.task:q} --setting {wildcards.setting:q} --recipe {wildcards.recipe:q} "
        "--scale {input.scale:q} {params.licences:q} --out {output.recipe:q} > {log:q} 2>&1"


rule finetune:
    input:
        script=ancient("workflow/scripts/finetune.py"),
        recipe=recipe,
        encoder=encoder,
        vocabulary=run_vocabulary,
        files=finetune_files,
    output:
        model="<scale>/finetuned/{run}/{task}/{setting}/seed-{seed}/model.safetensors",
        dev="<scale>/finetuned/{run}/{task}/{setting}/seed-{seed}/dev.json",
    log:
        "<scale>/logs/finetune/{run}/{task}/{setting}/seed-{seed}.log",
    benchmark:
        "<scale>/benchmarks/finetune/{run}/{task}/{setting}/seed-{seed}.tsv"
    wildcard_constraints:
        task=plan.jobs.any_of(set(NOT_TRANSLATED) - BITEXT_SETTINGS.keys()),
    conda:
        "../../envs/torch.yaml"
    threads: resource("finetune", "threads", 1)
    resources:
        **gpu_resources("finetune"),
        mem_mb=resource("finetune", "mem_mb", 4000),
        runtime=resource("finetune", "runtime", 120),
    params:
        raw=raw_root,
        counts=line_counts,
    shell:
        "export OMP_NUM_THREADS={threads:q}; python {input.script:q} --recipe {input.recipe:q} --encoder {input.encoder:q} "
        "--spm {input.vocabulary:q} --raw {params.raw:q} --seed {wildcards.seed:q} --counts {params.counts:q} "
        "--threads {threads:q} --out {output.model:q} --dev-json {output.dev:q} > {log:q} 2>&1"


# The sentence pairs are those that a run is pre-trained on, after cleaning.
rule finetune_retrieval:
    input:
        script=ancient("workflow/scripts/finetune_retrieval.py"),
        recipe=recipe,
        encoder=encoder,
        vocabulary=run_vocabulary,
        bitext=recipe_bitext("bitext", "clean.tsv.zst"),
        counts=recipe_bitext("bitext", "clean.json"),
    output:
        model="<scale>/finetuned/{run}/{task}/{setting}/seed-{seed}/model.safetensors",
        dev="<scale>/finetuned/{run}/{task}/{setting}/seed-{seed}/dev.json",
    log:
        "<scale>/logs/finetune_retrieval/{run}/{task}/{setting}/seed-{seed}.log",
    benchmark:
        "<scale>/benchmarks/finetune_retrieval/{run}/{task}/{setting}/seed-{seed}.tsv"
    wildcard_constraints:
        task=plan.jobs.any_of(BITEXT_SETTINGS),
        setting=plan.jobs.any_of(sum(BITEXT_SETTINGS.values(), [])),
    conda:
        "../../envs/torch.yaml"
    threads: resource("finetune_retrieval", "threads", 1)
    resources:
        **gpu_resources("finetune_retrieval"),
        mem_mb=resource("finetune_retrieval", "mem_mb", 4000),
        runtime=resource("finetune_retrieval", "runtime", 120),
    shell:
        "export OMP_NUM_THREADS={threads:q}; python {input.script:q} --recipe {input.recipe:q} --encoder {input.encoder:q} "
        "--spm {input.vocabulary:q} --bitext {input.bitext:q} --seed {wildcards.seed:q} --threads {threads:q} "
        "--out {output.model:q} --dev-json {output.dev:q} > {log:q} 2>&1"


rule predict:
    input:
        script=ancient("workflow/scripts/predict.py"),
        recipe=recipe,
        model=model,
        vocabulary=run_vocabulary,
        files=predict_files,
        bitext=recipe_bitext("centre", "clean.tsv.zst"),
        bitext_counts=recipe_bitext("centre", "clean.json"),
    output:
        predictions=directory("<scale>/predictions/{run}/{task}/{setting}/seed-{seed}"),
    log:
        "<scale>/logs/predict/{run}/{task}/{setting}/seed-{seed}.log",
    benchmark:
        "<scale>/benchmarks/predict/{run}/{task}/{setting}/seed-{seed}.tsv"
    wildcard_constraints:
        run=WITH_WEIGHTS,
        task=plan.jobs.any_of(NOT_TRANSLATED),
    conda:
        "../../envs/torch.yaml"
    threads: resource("predict", "threads", 1)
    resources:
        **gpu_resources("predict"),
        mem_mb=resource("predict", "mem_mb", 4000),
        runtime=resource("predict", "runtime", 60),
    params:
        scale=SCALE,
        raw=raw_root,
        counts=line_counts,
    shell:
        "export OMP_NUM_THREADS={threads:q}; python {input.script:q} --recipe {input.recipe:q} --model {input.model:q} "
        "--spm {input.vocabulary:q} --raw {params.raw:q} --run {wildcards.run:q} --scale {params.scale:q} "
        "--seed {wildcards.seed:q} --counts {params.counts:q} --threads {threads:q} --bitext {input.bitext:q} "
        "--out {output.predictions:q} > {log:q} 2>&1"


# In place of predict, for runs that have no model; lists no code either: the run's `numerics` is raised by hand.
rule fast_align:
    input:
        script=ancient("workflow/scripts/fast_align.py"),
        run="<scale>/runs/{run}/run.yaml",
        recipe=recipe,
        bitext=aligner_text,
        files=score_files,
    output:
        predictions=directory("<scale>/predictions/{run}/{task}/{setting}/seed-{seed}"),
    log:
        "<scale>/logs/fast_align/{run}/{task}/{setting}/seed-{seed}.log",
    benchmark:
        "<scale>/benchmarks/fast_align/{run}/{task}/{setting}/seed-{seed}.tsv"
    wildcard_constraints:
        run=ALIGNERS,
        task=ALIGNED,
    conda:
        "../../envs/torch.yaml"
    threads: 1
    resources:
        mem_mb=resource("fast_align", "mem_mb", 16000),
        runtime=resource("fast_align", "runtime", 720),
    params:
        scale=SCALE,
        raw=raw_root,
        counts=line_counts,
    shell:
        "export OMP_NUM_THREADS={threads:q}; python {input.script:q} --run-file {input.run:q} --recipe {input.recipe:q} "
        "--bitext {input.bitext:q} --raw {params.raw:q} --scale {params.scale:q} --seed {wildcards.seed:q} "
        "--counts {params.counts:q} --out {output.predictions:q} > {log:q} 2>&1"


rule score:
    input:
        script="workflow/scripts/score.py",
        recipe=recipe,
        predictions="<scale>/predictions/{run}/{task}/{setting}/seed-{seed}",
        files=score_files,
    output:
        score="<scale>/scores/{run}/{task}/{setting}/seed-{seed}.json",
    log:
        "<scale>/logs/score/{run}/{task}/{setting}/seed-{seed}.log",
    benchmark:
        "<scale>/benchmarks/score/{run}/{task}/{setting}/seed-{seed}.tsv"
    conda:
        "../../envs/data.yaml"
    threads: 1
    resources:
        mem_mb=resource("score", "mem_mb", 2000),
        runtime=resource("score", "runtime", 30),
    params:
        code=code("score"),
        raw=raw_root,
        counts=line_counts,
    shell:
        "python {input.script:q} --recipe {input.recipe:q} --predictions {input.predictions:q} --raw {params.raw:q} "
        "--counts {params.counts:q} --out {output.score:q} > {log:q} 2>&1"
