# The audit: every derived number of the papers computed again from the numbers that they print. It reads no score.


localrules:
    audit,


rule audit:
    input:
        script="workflow/scripts/audit.py",
        statements="config/audit.yaml",
        published=published_files,
    output:
        latex="results/tables/audit.tex",
        csv="results/tables/audit.csv",
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
        "python {input.script} --out {output.latex} {output.csv} > {log} 2>&1"
