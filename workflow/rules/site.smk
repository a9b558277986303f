# The same results for a browser: results/index.html, and each table in other formats. They read specs, published numbers, score
# files, figures and the records of trainings, nothing else.


localrules:
    make_site,
    make_table_formats,
    make_comparison_formats,


# On demand: results/tables/<paper>/<item>.csv, .html or .md; the target `formats` asks for all of them.
rule make_table_formats:
    input:
        script="workflow/scripts/make_table.py",
        spec="config/tables/{item}.yaml",
        published=spec_published,
        models="config/published/models.tsv",
        errata="config/published/errata.csv",
        papers=ancient("config/published/papers.tsv"),
        languages="config/languages.tsv",
        scores=spec_scores,
    output:
        table=report(
            "results/tables/{item}.{format}",
            caption="../report/table.rst",
            category="Tables",
            subcategory=paper_of_item,
            labels=item_labels,
        ),
    log:
        f"{S}/logs/make_table/{{item}}.{{format}}.log",
    benchmark:
        f"{S}/benchmarks/make_table/{{item}}.{{format}}.tsv"
    wildcard_constraints:
        item=TABLES,
        format="csv|html|md",
    conda:
        "../../envs/data.yaml"
    threads: 1
    resources:
        mem_mb=resource("make_table", "mem_mb", 1000),
        runtime=resource("make_table", "runtime", 10),
    params:
        paper=paper_digest,
        code=code("make_table"),
        scale=SCALE,
        root=scores_root,
        settings=settings_options,
        view=VIEW,
        format=table_format,
    shell:
        "python {input.script:q} --spec {input.spec:q} --scale {params.scale:q} --scores-root {params.root:q} "
        "{params.settings:q} --format {params.format:q} --out {output.table:q} > {log:q} 2>&1"


rule make_comparison_formats:
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
        table=report(
            "results/tables/{item}.{format}",
            caption="../report/comparison.rst",
            category="Tables",
            subcategory=paper_of_item,
            labels=item_labels,
        ),
    log:
        f"{S}/logs/make_comparison/{{item}}.{{format}}.log",
    benchmark:
        f"{S}/benchmarks/make_comparison/{{item}}.{{format}}.tsv"
    wildcard_constraints:
        item=COMPARISONS,
        format="csv|html|md",
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
        format=table_format,
        compared=comparison_digest,
    shell:
        "python {input.script:q} --spec {input.spec:q} --scale {params.scale:q} --scores-root {params.root:q} "
        "{params.settings:q} --format {params.format:q} --out {output.table:q} > {log:q} 2>&1"


rule make_site:
    input:
        script="workflow/scripts/make_site.py",
        specs=spec_files,
        published=published_files,
        languages="config/languages.tsv",
        scores=all_scores,
        figures=figure_pictures,
        trainings=site_trainings,
        counts=site_counts,
        claims=f"{S}/ledger.json",
        audit="results/tables/audit.csv",
        provenance=reference_provenance,
    output:
        page=report(
            "results/index.html",
            caption="../report/site.rst",
            category="Everything",
            labels={"page": "all results"},
        ),
    log:
        f"{S}/logs/make_site.log",
    benchmark:
        f"{S}/benchmarks/make_site.tsv"
    conda:
        "../../envs/torch.yaml"
    threads: 1
    resources:
        mem_mb=resource("make_site", "mem_mb", 2000),
        runtime=resource("make_site", "runtime", 10),
    params:
        code=code("make_site"),
        scale=SCALE,
        root=scores_root,
        settings=site_options,
        view=VIEW,
        compared=site_digest,
    shell:
        "python {input.script:q} --scale {params.scale:q} --scores-root {params.root:q} {params.settings:q} "
        "--trainings {input.trainings:q} --claims {input.claims:q} --audit {input.audit:q} --out {output.page:q} > {log:q} 2>&1"
