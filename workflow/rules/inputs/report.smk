def all_scores(wildcards):
    return plan.claimed.all_score_paths(PLAN)


def spec_of(wildcards):
    return PLAN.specs[wildcards.item]


def spec_scores(wildcards):
    return plan.needs.score_paths(PLAN, spec_of(wildcards))


def spec_published(wildcards):
    return plan.figure_specs.published_files(spec_of(wildcards))


def spec_trainings(wildcards):
    return plan.needs.figure_trainings(PLAN, spec_of(wildcards))


def diagram_digest(wildcards):
    return plan.needs.diagram_digest(PLAN, spec_of(wildcards))


def claim_scores(wildcards):
    return plan.claimed.claim_paths(PLAN)


def claim_trainings(wildcards):
    return plan.claimed.claim_trainings(PLAN)


def beside_scores(wildcards):
    """What changes when the scores of another scale do, where they are kept."""
    kept = {
        "reference": "reference/PROVENANCE.tsv",
        "results": f"results/{wildcards.beside}/scores.tsv",
    }[plan.claimed.folder_beside(PLAN, wildcards.beside)]
    return kept if Path(kept).exists() else []


def beside_options(wildcards):
    """Where the scores of another scale are, and that those of an older configuration do not count."""
    folder = plan.claimed.folder_beside(PLAN, wildcards.beside)
    roots = {
        "reference": f"reference/{{}}/{wildcards.beside}",
        "results": f"results/{wildcards.beside}/{{}}",
    }[folder]
    return [
        f"--scores-root={roots.format('scores')}",
        f"--trainings-root={roots.format('trainings')}",
        f"--override={'scores_from=reference' if folder == 'reference' else 'runs=all'}",
    ]


def claims_beside(wildcards):
    """The claims of this scale, then those of the others that the page shows."""
    return [
        f"{S}/claims.json",
        *(
            f"results/{scale}/claims-beside.json"
            for scale in plan.claimed.scales_beside(PLAN)
        ),
    ]


def agreeing_scales(wildcards):
    return PLAN.settings.get("claims", {}).get("agree", [])


def comparison_counts(wildcards):
    reads = plan.compare_specs.reads_corpora(spec_of(wildcards))
    return plan.evidence.corpus_counts(PLAN) if reads else []


def comparison_trainings(wildcards):
    return plan.needs.compared_trainings(PLAN, spec_of(wildcards))


def comparison_digest(wildcards):
    return plan.needs.comparison_digest(PLAN, spec_of(wildcards))


def counted_texts(suffixes):
    """What is counted of the clean text: its counts, or the text itself."""

    def files(wildcards):
        mono, bitext = plan.claimed.counted_data(PLAN)
        return [
            f"{S}/corpus/{stem}.{suffix}"
            for stems, suffix in zip((mono_texts(mono), bitext_texts(bitext)), suffixes)
            for stem in stems
        ]

    return files


def table_files(wildcards):
    return [f"results/tables/{item}.tex" for item in PLAN.tables]


def figure_files(wildcards):
    return [
        f"results/figures/{item}.{suffix}"
        for item in PLAN.figures
        for suffix in ("pdf", "png")
    ]


def figure_pictures(wildcards):
    return [f"results/figures/{item}.png" for item in PLAN.figures]


def formatted_tables(wildcards):
    """Every table in the formats beside LaTeX."""
    return [
        f"results/tables/{item}.{suffix}"
        for item in PLAN.tables
        for suffix in ("csv", "html", "md")
    ]


def paper_digest(wildcards):
    """The line of an item's paper: another paper's line plans nothing here."""
    return common.identity.digest(
        plan.load.paper_line(PLAN, spec_of(wildcards)["paper"])
    )


def paper_of_item(wildcards):
    return spec_of(wildcards)["paper"]


def item_labels(wildcards):
    """What the rows of Snakemake's report say of a table or figure."""
    spec = spec_of(wildcards)
    return {"item": spec["item"], "shows": spec["title"]}


def report_files(wildcards):
    """What the report shows beside the document: pages of tables and figures. Trainings join it when they were drawn."""
    return [
        "results/index.html",
        *(f"results/tables/{item}.html" for item in PLAN.tables),
        *figure_pictures(wildcards),
    ]


def table_format(wildcards):
    return {"csv": "csv", "html": "html", "md": "markdown"}[wildcards.format]


def published_files(wildcards):
    return sorted(str(path) for path in Path("config/published").rglob("*.?sv"))


def site_trainings(wildcards):
    return plan.claimed.shown_trainings(PLAN)


def site_counts(wildcards):
    return plan.claimed.shown_counts(PLAN)


def site_digest(wildcards):
    return plan.claimed.compared_digest(PLAN)


def reference_provenance(wildcards):
    """Machine and dates of the reference scores."""
    return "reference/PROVENANCE.tsv" if PLAN.from_reference else []


def spec_files(wildcards):
    return [f"config/tables/{item}.yaml" for item in PLAN.tables] + [
        f"config/figures/{item}.yaml" for item in PLAN.figures
    ]


# What captions and gaps depend on beside the scores: which scale this is, and which of its runs stand for which.
VIEW = common.identity.digest(
    {
        "scale": SCALE,
        "description": plan.words.described(PLAN.scale),
        "world": WORLD,
        "seeds": {seed: plan.seeds.pretrain_seed(PLAN, seed) for seed in PLAN.seeds},
        "scores": plan.evidence.evidence(PLAN, "scores"),
        "runs": sorted(PLAN.selected),
        "canonical": CANONICAL,
        "tasks": {
            task: sorted(PLAN.tasks[task]["settings"]) for task in sorted(PLAN.tasks)
        },
    }
)
