# The audit: every derived number of the papers computed again from the numbers that they print. It reads no score.


localrules:
    audit,


rule audit:
    input:
        script="workflow/scripts/audit.py",
        statements="config/audit.yaml",
        schema="config/schemas/audit.schema.json",
        published=published_files,
    output:
        latex="results/tables/audit.tex",
        csv=report(
            "results/tables/audit.csv",
            caption="../report/audit.rst",
            category="Audit",
            labels={"table": "findings"},
        ),
    log:
        f"{S}/logs/audit.log",
    benchmark:
        f"{S}/benchmarks/audit.tsv"
    conda:
        "../../envs/data.yaml"
    threads: 1
    resources:
        mem_mb=resource("audit", "mem_mb", 1000),
        runtime=resource("audit", "runtime", 10),
    params:
        code=code("audit"),
    shell:
        "python {input.script:q} --out {output.latex:q} {output.csv:q} > {log:q} 2>&1"
