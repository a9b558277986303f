# Claims: what the papers claim, tested on scores and on costs of trainings, each scale by itself and then side by side
# -> results/tables/claims.tex. A claim on a run that is not trained here plans nothing: it says so.


localrules:
    evaluate_claims,
    evaluate_claims_beside,
    make_ledger,


rule evaluate_claims:
    input:
        script="workflow/scripts/evaluate_claims.py",
        claims="config/claims.yaml",
        papers="config/published/papers.tsv",
        published=plan.published_here.printed_files(PLAN),
        scores=claim_scores,
        trainings=claim_trainings,
    output:
        claims=f"{S}/claims.json",
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
        again=common.identity.digest(PLAN.scale.get("second_look")),
    shell:
        "python {input.script:q} --scale {params.scale:q} --scores-root {params.root:q} "
        "--trainings-root {params.trainings_root:q} {params.settings:q} --out {output.claims:q} > {log:q} 2>&1"


# The same of another scale, from what is kept of it: nothing is computed for it.
rule evaluate_claims_beside:
    input:
        script="workflow/scripts/evaluate_claims.py",
        claims="config/claims.yaml",
        scale="config/scales/{beside}.yaml",
        papers="config/published/papers.tsv",
        published=plan.published_here.printed_files(PLAN),
        scores=beside_scores,
    output:
        claims="results/{beside}/claims-beside.json",
    log:
        "results/{beside}/logs/evaluate_claims_beside.log",
    benchmark:
        "results/{beside}/benchmarks/evaluate_claims_beside.tsv"
    conda:
        "../../envs/data.yaml"
    threads: 1
    resources:
        mem_mb=resource("evaluate_claims", "mem_mb", 2000),
        runtime=resource("evaluate_claims", "runtime", 30),
    params:
        code=code("evaluate_claims"),
        options=beside_options,
        runs=plan.claimed.claims_digest(PLAN),
    shell:
        "python {input.script:q} --scale {wildcards.beside:q} {params.options:q} --out {output.claims:q} > {log:q} 2>&1"


rule make_ledger:
    input:
        script="workflow/scripts/make_ledger.py",
        claims=claims_beside,
    output:
        table="results/tables/claims.tex",
        markdown="results/tables/claims.md",
        ledger=report(
            f"{S}/ledger.json",
            caption="../report/claims.rst",
            category="Claims",
            labels={"shows": "claims, what was measured, verdicts"},
        ),
    log:
        f"{S}/logs/make_ledger.log",
    benchmark:
        f"{S}/benchmarks/make_ledger.tsv"
    conda:
        "../../envs/data.yaml"
    threads: 1
    resources:
        mem_mb=resource("make_ledger", "mem_mb", 1000),
        runtime=resource("make_ledger", "runtime", 10),
    params:
        code=code("make_ledger"),
        agree=agreeing_scales,
        view=VIEW,
    shell:
        "python {input.script:q} --claims {input.claims:q} --agree {params.agree:q} --out-tex {output.table:q} "
        "--out-json {output.ledger:q} --out-md {output.markdown:q} > {log:q} 2>&1"
