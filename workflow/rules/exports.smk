# Finished models as Hugging Face folders: results/<scale>/exported/<run>/seed-<seed>, and below a run its fine-tuned and translation
# models, /<task>/<setting>/seed-<seed>. An export trains its model if need be, but no other for a score: the card has the
# scores that are there when the plan is made, and is written again when there are more or others.


rule export_model:
    input:
        script="workflow/scripts/export_model.py",
        hub=HUB_FILES,
        model="<scale>/runs/{run}/seed-{seed}/model.safetensors",
        vocabulary=run_vocabulary,
        run=exported_run,
        before=runs_before,
        cost=exported_cost,
        scale=ancient(f"config/scales/{SCALE}.yaml"),
    output:
        folder=directory("<scale>/exported/{run}/seed-{seed}"),
    log:
        "<scale>/logs/export_model/{run}/seed-{seed}.log",
    benchmark:
        "<scale>/benchmarks/export_model/{run}/seed-{seed}.tsv"
    wildcard_constraints:
        run=WITH_WEIGHTS,
    conda:
        "../../envs/torch.yaml"
    threads: 1
    resources:
        mem_mb=resource("export_model", "mem_mb", 12000),
        runtime=resource("export_model", "runtime", 30),
    params:
        code=code("export_model"),
        said=exported_digest,
        scores=exported_scores,
    shell:
        "python {input.script:q} --model {input.model:q} --vocabulary {input.vocabulary:q} --run-file {input.run:q} "
        "--before {input.before:q} --cost {input.cost:q} --scale {input.scale:q} --scores {params.scores:q} "
        "--out {output.folder:q} > {log:q} 2>&1"


rule export_model_finetuned:
    input:
        script="workflow/scripts/export_model.py",
        hub=HUB_FILES,
        model="<scale>/finetuned/{run}/{task}/{setting}/seed-{seed}/model.safetensors",
        vocabulary=run_vocabulary,
        run=exported_run,
        before=runs_before,
        cost=exported_cost,
        recipe=recipe,
        scale=ancient(f"config/scales/{SCALE}.yaml"),
    output:
        folder=directory("<scale>/exported/{run}/{task}/{setting}/seed-{seed}"),
    log:
        "<scale>/logs/export_model_finetuned/{run}/{task}/{setting}/seed-{seed}.log",
    benchmark:
        "<scale>/benchmarks/export_model_finetuned/{run}/{task}/{setting}/seed-{seed}.tsv"
    wildcard_constraints:
        run=WITH_WEIGHTS,
        task=plan.jobs.any_of(NOT_TRANSLATED),
    conda:
        "../../envs/torch.yaml"
    threads: 1
    resources:
        mem_mb=resource("export_model", "mem_mb", 12000),
        runtime=resource("export_model", "runtime", 30),
    params:
        code=code("export_model"),
        said=exported_digest,
        scores=exported_scores,
    shell:
        "python {input.script:q} --model {input.model:q} --vocabulary {input.vocabulary:q} --run-file {input.run:q} "
        "--before {input.before:q} --cost {input.cost:q} --recipe {input.recipe:q} --scale {input.scale:q} "
        "--scores {params.scores:q} --out {output.folder:q} > {log:q} 2>&1"


rule export_model_translator:
    input:
        script="workflow/scripts/export_model.py",
        hub=HUB_FILES,
        model="<scale>/translators/{run}/{task}/{setting}/seed-{seed}/model.safetensors",
        vocabulary=scale_vocabulary,
        run="<scale>/translators/{run}/{task}/{setting}/run.yaml",
        before=runs_before,
        cost="<scale>/translators/{run}/{task}/{setting}/seed-{seed}/cost.json",
        recipe=recipe,
        scale=ancient(f"config/scales/{SCALE}.yaml"),
    output:
        folder=directory("<scale>/exported/{run}/{task}/{setting}/seed-{seed}"),
    log:
        "<scale>/logs/export_model_translator/{run}/{task}/{setting}/seed-{seed}.log",
    benchmark:
        "<scale>/benchmarks/export_model_translator/{run}/{task}/{setting}/seed-{seed}.tsv"
    wildcard_constraints:
        run=PRETRAINED,
        task=TRANSLATED,
    conda:
        "../../envs/torch.yaml"
    threads: 1
    resources:
        mem_mb=resource("export_model", "mem_mb", 12000),
        runtime=resource("export_model", "runtime", 30),
    params:
        code=code("export_model"),
        said=exported_digest,
        scores=exported_scores,
    shell:
        "python {input.script:q} --model {input.model:q} --vocabulary {input.vocabulary:q} --run-file {input.run:q} "
        "--before {input.before:q} --cost {input.cost:q} --recipe {input.recipe:q} --scale {input.scale:q} "
        "--scores {params.scores:q} --out {output.folder:q} > {log:q} 2>&1"
