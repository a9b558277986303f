# Vocabulary: how much of each language, one SentencePiece model for all runs of a scale, and the encoded shards.


localrules:
    plan_sampling_vocabulary,


rule plan_sampling_vocabulary:
    input:
        script="workflow/scripts/plan_sampling.py",
        counts=vocabulary_counts,
    output:
        plan="<scale>/vocab/sampling_plan.tsv",
    log:
        "<scale>/logs/plan_sampling/vocabulary.log",
    benchmark:
        "<scale>/benchmarks/plan_sampling/vocabulary.tsv"
    conda:
        "../../envs/data.yaml"
    threads: 1
    resources:
        mem_mb=resource("plan_sampling", "mem_mb", 1000),
        runtime=resource("plan_sampling", "runtime", 10),
    params:
        code=code("plan_sampling"),
        alpha=PLAN.scale["vocabulary"].get("alpha", 0.3),
    shell:
        "python {input.script:q} --counts {input.counts:q} --alpha {params.alpha:q} --out {output.plan:q} > {log:q} 2>&1"


rule train_vocabulary:
    input:
        unpack(vocabulary_inputs),
        script="workflow/scripts/train_vocabulary.py",
    output:
        model="<scale>/vocab/spm.model",
    log:
        "<scale>/logs/train_vocabulary.log",
    benchmark:
        "<scale>/benchmarks/train_vocabulary.tsv"
    conda:
        "../../envs/data.yaml"
    threads: 1
    resources:
        mem_mb=resource("train_vocabulary", "mem_mb", 4000),
        runtime=resource("train_vocabulary", "runtime", 60),
    params:
        code=code("train_vocabulary"),
        source=vocabulary_arguments,
        digest=common.identity.digest(PLAN.scale["vocabulary"]),
    shell:
        "python {input.script:q} {params.source:q} --out {output.model:q} > {log:q} 2>&1"


# The manifest is the output; the three arrays beside it are written first and carry their checksums in it.
rule encode_corpus:
    input:
        script="workflow/scripts/encode_corpus.py",
        text=clean_text,
        vocabulary=scale_vocabulary,
    output:
        manifest="<scale>/shards/{kind}/{corpus}/{name}/{shard}.json",
    log:
        "<scale>/logs/encode_corpus/{kind}/{corpus}/{name}/{shard}.log",
    benchmark:
        "<scale>/benchmarks/encode_corpus/{kind}/{corpus}/{name}/{shard}.tsv"
    conda:
        "../../envs/data.yaml"
    threads: resource("encode_corpus", "threads", 1)
    resources:
        mem_mb=resource("encode_corpus", "mem_mb", 2000),
        runtime=resource("encode_corpus", "runtime", 60),
    params:
        code=code("encode_corpus"),
    shell:
        "python {input.script:q} --text {input.text:q} --vocabulary {input.vocabulary:q} --threads {threads:q} "
        "--out {output.manifest:q} > {log:q} 2>&1"
