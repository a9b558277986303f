# Sources: rows of config/datasets.tsv, from mirrors or the network; at smoke and mini from a generated world.


localrules:
    build_world,
    download,


rule build_world:
    input:
        script="workflow/scripts/build_world.py",
        scale=ancient(f"config/scales/{SCALE}.yaml"),
        datasets=ancient("config/datasets.tsv"),
    output:
        manifest="<scale>/world/MANIFEST.tsv",
        dirt="<scale>/world/gold/dirt.tsv",
    log:
        "<scale>/logs/build_world.log",
    benchmark:
        "<scale>/benchmarks/build_world.tsv"
    conda:
        "../../envs/data.yaml"
    threads: 1
    resources:
        mem_mb=resource("build_world", "mem_mb", 2000),
        runtime=resource("build_world", "runtime", 30),
    params:
        code=code("build_world"),
        out=world_root,
        digest=common.identity.digest(PLAN.scale.get("world")),
    shell:
        "python {input.script:q} --scale {input.scale:q} --datasets {input.datasets:q} --out {params.out:q} > {log:q} 2>&1"


# Retries are the profile's, as for every rule; within one job download.py has its own patience.
rule download:
    input:
        script=ancient("workflow/scripts/download.py"),
        datasets=ancient("config/datasets.tsv"),
        world=download_world,
    output:
        file="<scale>/raw/{path}",
    log:
        "<scale>/logs/download/{path}.log",
    benchmark:
        "<scale>/benchmarks/download/{path}.tsv"
    conda:
        "../../envs/data.yaml"
    threads: 1
    resources:
        mem_mb=resource("download", "mem_mb", 500),
        runtime=resource("download", "runtime", 1440),
        downloads=1,
    params:
        dataset=download_id,
        digest=download_digest,
        options=download_options,
    shell:
        "python {input.script:q} --dataset {params.dataset:q} --datasets {input.datasets:q} "
        "{params.options:q} --out {output.file:q} > {log:q} 2>&1"
