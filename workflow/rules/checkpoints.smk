# Somebody's checkpoints: downloaded, or in a folder; read once into the engine's form, and evaluated as our own runs are.


# Lists no code: the run's `numerics` is raised by hand when an import should be done again.
rule import_checkpoint:
    input:
        script=ancient("workflow/scripts/import_checkpoint.py"),
        run="<scale>/runs/{run}/run.yaml",
        files=checkpoint_files,
    output:
        model="<scale>/runs/{run}/seed-1/model.safetensors",
        tokenizer=directory("<scale>/runs/{run}/tokenizer"),
    log:
        "<scale>/logs/import_checkpoint/{run}.log",
    benchmark:
        "<scale>/benchmarks/import_checkpoint/{run}.tsv"
    wildcard_constraints:
        run=IMPORTED,
    conda:
        "../../envs/torch.yaml"
    threads: 1
    resources:
        mem_mb=resource("import_checkpoint", "mem_mb", 12000),
        runtime=resource("import_checkpoint", "runtime", 30),
    params:
        folder=checkpoint_folder,
        digest=weights_digest,
    shell:
        "python {input.script:q} --checkpoint={params.folder:q} --run-file {input.run:q} --out {output.model:q} "
        "--tokenizer {output.tokenizer:q} > {log:q} 2>&1"
