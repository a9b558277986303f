def mono_sources(wildcards):
    return raw(
        plan.datasets.mono_ids(
            wildcards.corpus, wildcards.lang, PLAN.datasets, PLAN.languages
        )
    )


def bitext_sources(wildcards):
    return raw(
        plan.datasets.bitext_ids(
            wildcards.corpus, wildcards.pair, PLAN.datasets, PLAN.languages
        )
    )


def mono_form(wildcards, input):
    """What a gathered corpus is beside its files: which of them are sentences that do not follow each other."""
    ids = [
        DATASET_OF[path].id for path in input.text if DATASET_OF[path].kind != "mono"
    ]
    if not any(
        plan.sources.is_gathered(PLAN, DATASET_OF[path].id) for path in input.text
    ):
        return []
    return ["--gathered", *(["--alone", *raw(ids)] if ids else [])]


def bitext_form(wildcards, input):
    """Archives of pairs, or files of a gathered corpus in twos."""
    aligned = plan.sources.is_gathered(PLAN, DATASET_OF[input.sources[0]].id)
    return "--aligned" if aligned else "--archive"


def language_id_model(wildcards):
    chosen = PLAN.scale["language_id"]
    return f"{S}/corpus/language-id.bin" if chosen == "trained" else raw([chosen])[0]


def language_id_texts(wildcards):
    return [path for _, path in language_id_pairs()]


def language_id_pairs():
    """(language, file) of the text that the language identifier is trained on."""
    return [(lang, raw([id_])[0]) for lang, id_ in plan.sources.labelled_text(PLAN)]


def language_id_arguments(wildcards):
    return [f"{lang}={path}" for lang, path in language_id_pairs()]


def evaluation_pairs():
    """(task, file) of the evaluation sets that are kept out of the training text: of the corpus languages only, so that
    another evaluation language cleans nothing again."""
    return [
        (task, path)
        for task in sorted(PLAN.scale["decontaminate"])
        for path in raw(
            plan.recipes.gold_datasets(
                PLAN,
                task,
                plan.recipes.task_languages(
                    PLAN, task, plan.data.corpus_languages(PLAN)
                ),
            )
        )
    ]


def evaluation_files(wildcards):
    return [path for _, path in evaluation_pairs()]


def evaluation_arguments(wildcards):
    return [f"{task}={path}" for task, path in evaluation_pairs()]


def thresholds(*sections):
    """A digest of the sections of the cleaning thresholds that one job reads; another section's number plans nothing here."""
    return common.identity.digest({section: CLEANING[section] for section in sections})


def mono_texts(data):
    """Stems of the text shards, without suffix: results/<scale>/corpus/<stem>.clean.txt.zst."""
    return [
        f"mono/{corpus}/{lang}/{shard}"
        for corpus, lang in data
        for shard in MONO_SHARDS
    ]


def bitext_texts(data):
    return [
        f"bitext/{corpus}/{pair}/{shard}"
        for corpus, pair in data
        for shard in BITEXT_SHARDS
    ]


def data_of(runs):
    """(corpus, language) and (corpus, pair) of the text of these runs, and of all translation models."""
    mono, bitext = plan.data.data_of_runs(PLAN, runs)
    translated = {task for _, task, _ in TRANSLATORS}
    pairs = {
        pair
        for task in translated
        for pair in plan.translators.data_of_translator(PLAN, task)
    }
    return mono, sorted(pairs.union(bitext))


def raw_shards(wildcards):
    mono, bitext = data_of(RUNS)
    return [
        f"{S}/corpus/{stem}.raw.zst" for stem in mono_texts(mono) + bitext_texts(bitext)
    ]


def cleaning_outputs(wildcards):
    mono, bitext = data_of(RUNS)
    return [
        f"{S}/corpus/{stem}.{kind}"
        for stems, text in (
            (mono_texts(mono), "clean.txt.zst"),
            (bitext_texts(bitext), "clean.tsv.zst"),
        )
        for stem in stems
        for kind in (text, "clean.json", "rejects.tsv.zst")
    ]
