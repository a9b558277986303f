# Report: scores -> one tidy file, tables and figures -> the document. They read scores and published numbers, nothing else.
# results/tables and results/figures show the configured scale; going to another and back assembles them again, nothing more.


localrules:
    collect_scores,
    make_table,
    plot_figure,
    draw_diagram,
    draw_effects,
    make_document,
    compile_document,
    plot_training,


rule collect_scores:
    input:
        script="workflow/scripts/collect_scores.py",
        scores=all_scores,
    output:
        scores=report(
            "<scale>/scores.tsv",
            caption="../report/counts.rst",
            category="Provenance",
            labels={"file": "scores"},
        ),
    log:
        "<scale>/logs/collect_scores.log",
    benchmark:
        "<scale>/benchmarks/collect_scores.tsv"
    conda:
        "../../envs/data.yaml"
    threads: 1
    resources:
        mem_mb=resource("collect_scores", "mem_mb", 1000),
        runtime=resource("collect_scores", "runtime", 10),
    params:
        code=code("collect_scores"),
        scale=SCALE,
        root=scores_root,
        settings=settings_options,
    shell:
        "python {input.script:q} --scale {params.scale:q} --scores-root {params.root:q} {params.settings:q} "
        "--out {output.scores:q} > {log:q} 2>&1"


rule make_table:
    input:
        script="workflow/scripts/make_table.py",
        spec="config/tables/{item}.yaml",
        published=spec_published,
        models="config/published/models.tsv",
        errata="config/published/errata.csv",
        papers=ancient("config/published/papers.tsv"),
        scores=spec_scores,
    output:
        table="results/tables/{item}.tex",
    log:
        f"{S}/logs/make_table/{{item}}.log",
    benchmark:
        f"{S}/benchmarks/make_table/{{item}}.tsv"
    wildcard_constraints:
        item=TABLES,
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
    shell:
        "python {input.script:q} --spec {input.spec:q} --scale {params.scale:q} --scores-root {params.root:q} "
        "{params.settings:q} --out {output.table:q} > {log:q} 2>&1"


rule plot_figure:
    input:
        script="workflow/scripts/plot_figure.py",
        spec="config/figures/{item}.yaml",
        published=spec_published,
        models="config/published/models.tsv",
        errata="config/published/errata.csv",
        papers=ancient("config/published/papers.tsv"),
        scores=spec_scores,
        trainings=spec_trainings,
    output:
        pdf="results/figures/{item}.pdf",
        png=report(
            "results/figures/{item}.png",
            caption="../report/figure.rst",
            category="Figures",
            subcategory=paper_of_item,
            labels=item_labels,
        ),
    log:
        f"{S}/logs/plot_figure/{{item}}.log",
    benchmark:
        f"{S}/benchmarks/plot_figure/{{item}}.tsv"
    wildcard_constraints:
        item=FIGURES,
    conda:
        "../../envs/diagrams.yaml"
    threads: 1
    resources:
        mem_mb=resource("plot_figure", "mem_mb", 2000),
        runtime=resource("plot_figure", "runtime", 10),
    params:
        paper=paper_digest,
        code=code("plot_figure"),
        scale=SCALE,
        root=scores_root,
        settings=settings_options,
        view=VIEW,
    shell:
        "python {input.script:q} --spec {input.spec:q} --scale {params.scale:q} --scores-root {params.root:q} "
        "{params.settings:q} --out-pdf {output.pdf:q} --out-png {output.png:q} > {log:q} 2>&1"


# Rows, masks, passes and sizes come from the engine as it runs, so this one knows it; no score and no weights.
rule draw_diagram:
    input:
        script="workflow/scripts/draw_diagram.py",
        spec="config/figures/{item}.yaml",
        papers=ancient("config/published/papers.tsv"),
    output:
        pdf="results/figures/{item}.pdf",
        png=report(
            "results/figures/{item}.png",
            caption="../report/figure.rst",
            category="Figures",
            subcategory=paper_of_item,
            labels=item_labels,
        ),
    log:
        f"{S}/logs/draw_diagram/{{item}}.log",
    benchmark:
        f"{S}/benchmarks/draw_diagram/{{item}}.tsv"
    wildcard_constraints:
        item=DIAGRAMS,
    conda:
        "../../envs/diagrams.yaml"
    threads: 1
    resources:
        mem_mb=resource("draw_diagram", "mem_mb", 3000),
        runtime=resource("draw_diagram", "runtime", 10),
    params:
        paper=paper_digest,
        code=code("draw_diagram"),
        scale=SCALE,
        root=scores_root,
        settings=settings_options,
        run=diagram_digest,
    shell:
        "python {input.script:q} --spec {input.spec:q} --scale {params.scale:q} --scores-root {params.root:q} "
        "{params.settings:q} --out-pdf {output.pdf:q} --out-png {output.png:q} > {log:q} 2>&1"


rule draw_effects:
    input:
        script="workflow/scripts/draw_effects.py",
        spec="config/figures/{item}.yaml",
        papers="config/published/papers.tsv",
        ledger=f"{S}/ledger.json",
    output:
        pdf="results/figures/{item}.pdf",
        png=report(
            "results/figures/{item}.png",
            caption="../report/figure.rst",
            category="Figures",
            subcategory=paper_of_item,
            labels=item_labels,
        ),
    log:
        f"{S}/logs/draw_effects/{{item}}.log",
    benchmark:
        f"{S}/benchmarks/draw_effects/{{item}}.tsv"
    wildcard_constraints:
        item=EFFECTS,
    conda:
        "../../envs/diagrams.yaml"
    threads: 1
    resources:
        mem_mb=resource("plot_figure", "mem_mb", 2000),
        runtime=resource("plot_figure", "runtime", 10),
    params:
        code=code("draw_effects"),
        scale=SCALE,
        root=scores_root,
        settings=settings_options,
        view=VIEW,
    shell:
        "python {input.script:q} --spec {input.spec:q} --scale {params.scale:q} --scores-root {params.root:q} "
        "{params.settings:q} --ledger {input.ledger:q} --out-pdf {output.pdf:q} --out-png {output.png:q} > {log:q} 2>&1"


rule make_document:
    input:
        script="workflow/scripts/make_document.py",
        specs=spec_files,
        tables=table_files,
        figures=figure_files,
        claims="results/tables/claims.tex",
        audit="results/tables/audit.tex",
        languages="config/languages.tsv",
        papers="config/published/papers.tsv",
        scores=f"{S}/scores.tsv",
        trainings=site_trainings,
    output:
        document="results/tables/all.tex",
        missing="results/tables/missing.tex",
    log:
        f"{S}/logs/make_document.log",
    benchmark:
        f"{S}/benchmarks/make_document.tsv"
    conda:
        "../../envs/diagrams.yaml"
    threads: 1
    resources:
        mem_mb=resource("make_document", "mem_mb", 1000),
        runtime=resource("make_document", "runtime", 10),
    params:
        code=code("make_document"),
        scale=SCALE,
        root=scores_root,
        settings=settings_options,
        view=VIEW,
    shell:
        "python {input.script:q} --scale {params.scale:q} --scores-root {params.root:q} {params.settings:q} "
        "--specs {input.specs:q} --claims {input.claims:q} --audit {input.audit:q} --out {output.document:q} "
        "--missing {output.missing:q} > {log:q} 2>&1"


# Needs pdflatex, so no target asks for it: snakemake --cores 1 results/tables/all.pdf
rule compile_document:
    input:
        script="workflow/scripts/compile_document.py",
        document="results/tables/all.tex",
        missing="results/tables/missing.tex",
        tables=table_files,
        figures=figure_files,
    output:
        pdf="results/tables/all.pdf",
    log:
        f"{S}/logs/compile_document.log",
    benchmark:
        f"{S}/benchmarks/compile_document.tsv"
    conda:
        "../../envs/tex.yaml"
    threads: 1
    resources:
        mem_mb=resource("compile_document", "mem_mb", 1000),
        runtime=resource("compile_document", "runtime", 10),
    params:
        code=code("compile_document"),
    shell:
        "python {input.script:q} --tex {input.document:q} --out {output.pdf:q} > {log:q} 2>&1"


rule plot_training:
    input:
        script="workflow/scripts/plot_training.py",
        logs=training_logs,
    output:
        pdf="<scale>/runs/{run}/training.pdf",
        png=report(
            "<scale>/runs/{run}/training.png",
            caption="../report/training.rst",
            category="Trainings",
            labels={"run": "{run}"},
        ),
        table="<scale>/runs/{run}/training.tsv",
    log:
        "<scale>/logs/plot_training/{run}.log",
    benchmark:
        "<scale>/benchmarks/plot_training/{run}.tsv"
    conda:
        "../../envs/data.yaml"
    threads: 1
    resources:
        mem_mb=resource("plot_training", "mem_mb", 1000),
        runtime=resource("plot_training", "runtime", 10),
    params:
        code=code("plot_training"),
        title=f"{{run}} at scale {SCALE}",
    shell:
        "python {input.script:q} --logs {input.logs:q} --title {params.title:q} --out-pdf {output.pdf:q} "
        "--out-png {output.png:q} --out-tsv {output.table:q} > {log:q} 2>&1"
