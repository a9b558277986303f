# Parallax: from downloads to regenerated tables. This file is the table of contents; `snakemake --list-target-rules` names the targets.
from snakemake.utils import min_version

min_version("9.27")


report: "workflow/report/workflow.rst"


include: "workflow/rules/common.smk"


onstart:
    look_again_once(workflow.scheduler)


# The default target: every selected table and figure, in one document that compiles. Each is named, so that one that was lost
# is made again: of a file below an existing document Snakemake asks only whether its own inputs have changed.
rule tables:
    input:
        "results/tables/all.tex",
        "results/tables/claims.tex",
        "results/tables/audit.tex",
        table_files,
        figure_files,


include: "workflow/rules/sources.smk"
include: "workflow/rules/corpus.smk"
include: "workflow/rules/vocabulary.smk"
include: "workflow/rules/pretrain.smk"
include: "workflow/rules/checkpoints.smk"
include: "workflow/rules/translate.smk"
include: "workflow/rules/evaluate.smk"
include: "workflow/rules/comparisons.smk"
include: "workflow/rules/claims.smk"
include: "workflow/rules/audit.smk"
include: "workflow/rules/report.smk"
include: "workflow/rules/site.smk"
include: "workflow/rules/exports.smk"


# Everything that pre-training and translation models read, for every run that a table asks for.
rule data:
    input:
        data_outputs(),


rule models:
    input:
        pretrain_outputs(),


# Losses and health signals by step, one page a run: results/<scale>/runs/<run>/training.png, the same in short: training.tsv
rule training:
    input:
        training_plots(),


rule scores:
    input:
        f"results/{SCALE}/scores.tsv",


# What Snakemake's report shows in a browser: snakemake --report results/report.html -- pages
rule pages:
    input:
        report_files,


# The tables beside LaTeX: results/tables/<paper>/<item>.csv, .html and .md
rule formats:
    input:
        formatted_tables,


# Models as Hugging Face folders: every run before fine-tuning, and the translation models that tables name (docs/exports.md).
rule exports:
    input:
        exported_folders,


# What the cleaning rules caught and missed; only the generated world has a gold list of its dirt.
rule cleaning:
    input:
        cleaning_report,


# Of each test set, what the upstream text held of it and what the cleaned text still holds: results/<scale>/corpus/test-sentences.tsv
rule apart:
    input:
        f"{S}/corpus/test-sentences.tsv",
