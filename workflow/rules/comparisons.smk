# What is compared without a score: sizes of corpora and models, and hyper-parameters, printed beside ours.


localrules:
    make_comparison,


rule count_corpus:
    input:
        script="workflow/scripts/count_corpus.py",
        counts=counted_texts(("clean.json", "clean.json")),
        text=counted_texts(("clean.txt.zst", "clean.tsv.zst")),
    output:
        counts="<scale>/corpus/counts.json",
    log:
        "<scale>/logs/count_corpus.log",
    benchmark:
        "<scale>/benchmarks/count_corpus.tsv"
    conda:
        "../../envs/data.yaml"
    threads: 1
    resources:
        mem_mb=resource("count_corpus", "mem_mb", 1000),
        runtime=resource("count_corpus", "runtime", 240),
    params:
        code=code("count_corpus"),
    shell:
        "python {input.script:q} --counts {input.counts:q} --out {output.counts:q} > {log:q} 2>&1"


# The digest holds the runs and recipes that are compared; scores are those of a column that stands in another table too.
rule make_comparison:
    input:
        script="workflow/scripts/make_comparison.py",
        spec="config/tables/{item}.yaml",
        published=spec_published,
        errata="config/published/errata.csv",
        papers=ancient("config/published/papers.tsv"),
        counts=comparison_counts,
        trainings=comparison_trainings,
        scores=spec_scores,
    output:
        table="results/tables/{item}.tex",
    log:
        f"{S}/logs/make_comparison/{{item}}.log",
    benchmark:
        f"{S}/benchmarks/make_comparison/{{item}}.tsv"
    wildcard_constraints:
        item=COMPARISONS,
    conda:
        "../../envs/torch.yaml"
    threads: 1
    resources:
        mem_mb=resource("make_comparison", "mem_mb", 2000),
        runtime=resource("make_comparison", "runtime", 10),
    params:
        paper=paper_digest,
        code=code("make_comparison"),
        scale=SCALE,
        root=scores_root,
        settings=settings_options,
        view=VIEW,
        compared=comparison_digest,
    shell:
        "python {input.script:q} --spec {input.spec:q} --scale {params.scale:q} --scores-root {params.root:q} "
        "{params.settings:q} --out {output.table:q} > {log:q} 2>&1"
