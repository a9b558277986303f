# Claims: what the papers claim, tested on scores and on costs of trainings -> results/tables/claims.tex
# A claim on a run that is not trained here plans nothing: it says so.


localrules:
    evaluate_claims,


rule evaluate_claims:
    input:
        script="workflow/scripts/evaluate_claims.py",
        claims="config/claims.yaml",
        papers="config/published/papers.tsv",
        scores=claim_scores,
        trainings=claim_trainings,
    output:
        table="results/tables/claims.tex",
        claims=report(
            f"{S}/claims.json",
            caption="../report/claims.rst",
            category="Claims",
            labels={"shows": "claims, what was measured, verdicts"},
        ),
    log:
        f"{S}/logs/evaluate_claims.log",
    benchmark:
        f"{S}/benchmarks/evaluate_claims.tsv"
    conda:
        "../../envs/data.yaml"
    threads: 1
    resources:
        mem_mb=resource("evaluate_claims", "mem_mb", 2000),
        runtime=resource("evaluate_claims", "runtime", 30),
    params:
        code=code("evaluate_claims"),
        scale=SCALE,
        root=scores_root,
        trainings_root=trainings_root,
        settings=settings_options,
        view=VIEW,
        needs=common.identity.digest(plan.claimed.claim_needs(PLAN)),
    shell:
        "python {input.script:q} --scale {params.scale:q} --scores-root {params.root:q} "
        "--trainings-root {params.trainings_root:q} {params.settings:q} --out {output.table:q} --json {output.claims:q} "
        "> {log:q} 2>&1"
