# Corpus: upstream text -> shards -> duplicates -> clean text with counts per reason and the rejected lines.
# A corpus lies at corpus/mono/<corpus>/<language> or corpus/bitext/<corpus>/<pair>; every step keeps its shards.


rule split_corpus_mono:
    input:
        script="workflow/scripts/split_corpus.py",
        text=mono_sources,
    output:
        shards=expand(
            "<scale>/corpus/mono/{{corpus}}/{{lang}}/{shard}.raw.zst",
            shard=MONO_SHARDS,
        ),
    log:
        "<scale>/logs/split_corpus/mono/{corpus}/{lang}.log",
    benchmark:
        "<scale>/benchmarks/split_corpus/mono/{corpus}/{lang}.tsv"
    conda:
        "../../envs/data.yaml"
    threads: 1
    resources:
        mem_mb=resource("split_corpus", "mem_mb", 2000),
        runtime=resource("split_corpus", "runtime", 60),
    params:
        code=code("split_corpus"),
        root=raw_root,
        form=mono_form,
    shell:
        "python {input.script:q} mono --text {input.text:q} {params.form:q} --root {params.root:q} --out {output.shards:q} > {log:q} 2>&1"


rule split_corpus_bitext:
    input:
        script="workflow/scripts/split_corpus.py",
        sources=bitext_sources,
    output:
        shards=expand(
            "<scale>/corpus/bitext/{{corpus}}/{{pair}}/{shard}.raw.zst",
            shard=BITEXT_SHARDS,
        ),
    log:
        "<scale>/logs/split_corpus/bitext/{corpus}/{pair}.log",
    benchmark:
        "<scale>/benchmarks/split_corpus/bitext/{corpus}/{pair}.tsv"
    conda:
        "../../envs/data.yaml"
    threads: 1
    resources:
        mem_mb=resource("split_corpus", "mem_mb", 2000),
        runtime=resource("split_corpus", "runtime", 60),
    params:
        code=code("split_corpus"),
        root=raw_root,
        form=bitext_form,
    shell:
        "python {input.script:q} bitext {params.form:q} {input.sources:q} --pair {wildcards.pair:q} --root {params.root:q} "
        "--out {output.shards:q} > {log:q} 2>&1"


rule find_duplicates_mono:
    input:
        script="workflow/scripts/find_duplicates.py",
        config=ancient("config/cleaning.yaml"),
        shards=expand(
            "<scale>/corpus/mono/{{corpus}}/{{lang}}/{shard}.raw.zst",
            shard=MONO_SHARDS,
        ),
    output:
        duplicates=expand(
            "<scale>/corpus/mono/{{corpus}}/{{lang}}/{shard}.duplicates.npy",
            shard=MONO_SHARDS,
        ),
    log:
        "<scale>/logs/find_duplicates/mono/{corpus}/{lang}.log",
    benchmark:
        "<scale>/benchmarks/find_duplicates/mono/{corpus}/{lang}.tsv"
    conda:
        "../../envs/data.yaml"
    threads: resource("find_duplicates", "threads", 1)
    resources:
        mem_mb=resource("find_duplicates", "mem_mb", 2000),
        runtime=resource("find_duplicates", "runtime", 60),
    params:
        code=code("find_duplicates"),
        digest=thresholds("duplicates"),
        overrides=cleaning_overrides,
    shell:
        "python {input.script:q} --shards {input.shards:q} --out {output.duplicates:q} --threads {threads:q} "
        "--config {input.config:q} --overrides {params.overrides:q} > {log:q} 2>&1"


rule find_duplicates_bitext:
    input:
        script="workflow/scripts/find_duplicates.py",
        config=ancient("config/cleaning.yaml"),
        shards=expand(
            "<scale>/corpus/bitext/{{corpus}}/{{pair}}/{shard}.raw.zst",
            shard=BITEXT_SHARDS,
        ),
    output:
        duplicates=expand(
            "<scale>/corpus/bitext/{{corpus}}/{{pair}}/{shard}.duplicates.npy",
            shard=BITEXT_SHARDS,
        ),
    log:
        "<scale>/logs/find_duplicates/bitext/{corpus}/{pair}.log",
    benchmark:
        "<scale>/benchmarks/find_duplicates/bitext/{corpus}/{pair}.tsv"
    conda:
        "../../envs/data.yaml"
    threads: resource("find_duplicates", "threads", 1)
    resources:
        mem_mb=resource("find_duplicates", "mem_mb", 2000),
        runtime=resource("find_duplicates", "runtime", 60),
    params:
        code=code("find_duplicates"),
        digest=thresholds("duplicates"),
        overrides=cleaning_overrides,
    shell:
        "python {input.script:q} --shards {input.shards:q} --out {output.duplicates:q} --threads {threads:q} "
        "--config {input.config:q} --overrides {params.overrides:q} > {log:q} 2>&1"


# On text whose language is known: of invented languages, and of real ones where the scale does without lid.176.
rule train_language_id:
    input:
        script="workflow/scripts/train_language_id.py",
        config=ancient("config/cleaning.yaml"),
        text=language_id_texts,
    output:
        model="<scale>/corpus/language-id.bin",
    log:
        "<scale>/logs/train_language_id.log",
    benchmark:
        "<scale>/benchmarks/train_language_id.tsv"
    conda:
        "../../envs/data.yaml"
    threads: 1
    resources:
        mem_mb=resource("train_language_id", "mem_mb", 2000),
        runtime=resource("train_language_id", "runtime", 30),
    params:
        code=code("train_language_id"),
        text=language_id_arguments,
        digest=thresholds("language_id"),
        overrides=cleaning_overrides,
    shell:
        "python {input.script:q} --text {params.text:q} --out {output.model:q} "
        "--config {input.config:q} --overrides {params.overrides:q} > {log:q} 2>&1"


rule index_eval_sets:
    input:
        script="workflow/scripts/index_eval_sets.py",
        config=ancient("config/cleaning.yaml"),
        files=evaluation_files,
    output:
        index="<scale>/corpus/eval-index.npy",
        signatures="<scale>/corpus/eval-signatures.npy",
    log:
        "<scale>/logs/index_eval_sets.log",
    benchmark:
        "<scale>/benchmarks/index_eval_sets.tsv"
    conda:
        "../../envs/data.yaml"
    threads: 1
    resources:
        mem_mb=resource("index_eval_sets", "mem_mb", 4000),
        runtime=resource("index_eval_sets", "runtime", 60),
    params:
        code=code("index_eval_sets"),
        files=evaluation_arguments,
        digest=thresholds("decontamination", "duplicates"),
        overrides=cleaning_overrides,
    shell:
        "python {input.script:q} --task {params.files:q} --out {output.index:q} --signatures {output.signatures:q} "
        "--config {input.config:q} --overrides {params.overrides:q} > {log:q} 2>&1"


rule train_pair_model:
    input:
        script="workflow/scripts/train_pair_model.py",
        config=ancient("config/cleaning.yaml"),
        shards=expand(
            "<scale>/corpus/bitext/{{corpus}}/{{pair}}/{shard}.raw.zst",
            shard=BITEXT_SHARDS,
        ),
    output:
        model="<scale>/corpus/bitext/{corpus}/{pair}/pair-model.npz",
    log:
        "<scale>/logs/train_pair_model/{corpus}/{pair}.log",
    benchmark:
        "<scale>/benchmarks/train_pair_model/{corpus}/{pair}.tsv"
    conda:
        "../../envs/data.yaml"
    threads: 1
    resources:
        mem_mb=resource("train_pair_model", "mem_mb", 4000),
        runtime=resource("train_pair_model", "runtime", 120),
    params:
        code=code("train_pair_model"),
        digest=thresholds("pair_model"),
        overrides=cleaning_overrides,
    shell:
        "python {input.script:q} --shards {input.shards:q} --out {output.model:q} "
        "--config {input.config:q} --overrides {params.overrides:q} > {log:q} 2>&1"


rule clean_mono:
    input:
        script="workflow/scripts/clean_mono.py",
        config=ancient("config/cleaning.yaml"),
        shard="<scale>/corpus/mono/{corpus}/{lang}/{shard}.raw.zst",
        duplicates="<scale>/corpus/mono/{corpus}/{lang}/{shard}.duplicates.npy",
        language_id=language_id_model,
        index="<scale>/corpus/eval-index.npy",
        signatures="<scale>/corpus/eval-signatures.npy",
    output:
        text="<scale>/corpus/mono/{corpus}/{lang}/{shard}.clean.txt.zst",
        counts="<scale>/corpus/mono/{corpus}/{lang}/{shard}.clean.json",
        rejects="<scale>/corpus/mono/{corpus}/{lang}/{shard}.rejects.tsv.zst",
    log:
        "<scale>/logs/clean_mono/{corpus}/{lang}/{shard}.log",
    benchmark:
        "<scale>/benchmarks/clean_mono/{corpus}/{lang}/{shard}.tsv"
    conda:
        "../../envs/data.yaml"
    threads: 1
    resources:
        mem_mb=resource("clean_mono", "mem_mb", 2000),
        runtime=resource("clean_mono", "runtime", 60),
    params:
        code=code("clean_mono"),
        digest=thresholds("mono", "language_id", "decontamination", "duplicates"),
        overrides=cleaning_overrides,
    shell:
        "python {input.script:q} --shard {input.shard:q} --duplicates {input.duplicates:q} --language-id {input.language_id:q} "
        "--eval-index {input.index:q} --eval-signatures {input.signatures:q} --language {wildcards.lang:q} --out {output.text:q} --counts {output.counts:q} "
        "--rejects {output.rejects:q} --config {input.config:q} --overrides {params.overrides:q} > {log:q} 2>&1"


rule clean_bitext:
    input:
        script="workflow/scripts/clean_bitext.py",
        config=ancient("config/cleaning.yaml"),
        shard="<scale>/corpus/bitext/{corpus}/{pair}/{shard}.raw.zst",
        duplicates="<scale>/corpus/bitext/{corpus}/{pair}/{shard}.duplicates.npy",
        pair_model="<scale>/corpus/bitext/{corpus}/{pair}/pair-model.npz",
        language_id=language_id_model,
        index="<scale>/corpus/eval-index.npy",
        signatures="<scale>/corpus/eval-signatures.npy",
    output:
        text="<scale>/corpus/bitext/{corpus}/{pair}/{shard}.clean.tsv.zst",
        counts="<scale>/corpus/bitext/{corpus}/{pair}/{shard}.clean.json",
        rejects="<scale>/corpus/bitext/{corpus}/{pair}/{shard}.rejects.tsv.zst",
    log:
        "<scale>/logs/clean_bitext/{corpus}/{pair}/{shard}.log",
    benchmark:
        "<scale>/benchmarks/clean_bitext/{corpus}/{pair}/{shard}.tsv"
    conda:
        "../../envs/data.yaml"
    threads: 1
    resources:
        mem_mb=resource("clean_bitext", "mem_mb", 2000),
        runtime=resource("clean_bitext", "runtime", 60),
    params:
        code=code("clean_bitext"),
        digest=thresholds("bitext", "language_id", "decontamination", "duplicates"),
        overrides=cleaning_overrides,
    shell:
        "python {input.script:q} --shard {input.shard:q} --duplicates {input.duplicates:q} --language-id {input.language_id:q} "
        "--eval-index {input.index:q} --eval-signatures {input.signatures:q} --pair-model {input.pair_model:q} --pair {wildcards.pair:q} --out {output.text:q} "
        "--counts {output.counts:q} --rejects {output.rejects:q} "
        "--config {input.config:q} --overrides {params.overrides:q} > {log:q} 2>&1"


rule report_cleaning:
    input:
        script="workflow/scripts/report_cleaning.py",
        gold="<scale>/world/gold/dirt.tsv",
        raw=raw_shards,
        cleaned=cleaning_outputs,
        files=evaluation_files,
    output:
        report="<scale>/corpus/cleaning-report.json",
    log:
        "<scale>/logs/report_cleaning.log",
    benchmark:
        "<scale>/benchmarks/report_cleaning.tsv"
    conda:
        "../../envs/data.yaml"
    threads: 1
    resources:
        mem_mb=resource("report_cleaning", "mem_mb", 2000),
        runtime=resource("report_cleaning", "runtime", 30),
    params:
        code=code("report_cleaning"),
        root=raw_root,
        corpus=corpus_root,
        files=evaluation_arguments,
    shell:
        "python {input.script:q} --gold {input.gold:q} --root {params.root:q} --corpus {params.corpus:q} "
        "--task {params.files:q} --out {output.report:q} > {log:q} 2>&1"


# What the upstream text held of each test set, and what the cleaned text still holds.
rule report_test_sentences:
    input:
        script="workflow/scripts/report_test_sentences.py",
        config=ancient("config/cleaning.yaml"),
        raw=raw_shards,
        cleaned=cleaning_outputs,
        files=evaluation_files,
    output:
        report="<scale>/corpus/test-sentences.tsv",
    log:
        "<scale>/logs/report_test_sentences.log",
    benchmark:
        "<scale>/benchmarks/report_test_sentences.tsv"
    conda:
        "../../envs/data.yaml"
    threads: 1
    resources:
        mem_mb=resource("report_test_sentences", "mem_mb", 4000),
        runtime=resource("report_test_sentences", "runtime", 120),
    params:
        code=code("report_test_sentences"),
        corpus=corpus_root,
        files=evaluation_arguments,
        digest=thresholds("decontamination", "duplicates"),
        overrides=cleaning_overrides,
    shell:
        "python {input.script:q} --corpus {params.corpus:q} --task {params.files:q} --out {output.report:q} "
        "--config {input.config:q} --overrides {params.overrides:q} > {log:q} 2>&1"
