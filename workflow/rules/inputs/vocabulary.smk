def vocabulary_corpora():
    return mono_texts(plan.data.vocabulary_data(PLAN))


def vocabulary_counts(wildcards):
    return [f"{S}/corpus/{stem}.clean.json" for stem in vocabulary_corpora()]


def vocabulary_inputs(wildcards):
    """A given model, or the sampling plan and the text to train one on."""
    if "given" in PLAN.scale["vocabulary"]:
        return {"given": raw([PLAN.scale["vocabulary"]["given"]])[0]}
    return {
        "plan": f"{S}/vocab/sampling_plan.tsv",
        "text": [f"{S}/corpus/{stem}.clean.txt.zst" for stem in vocabulary_corpora()],
    }


def vocabulary_arguments(wildcards, input):
    chosen = PLAN.scale["vocabulary"]
    if "given" in chosen:
        return [f"--given={input.given}"]
    return [
        f"--plan={input.plan}",
        f"--corpus={S}/corpus",
        f"--size={chosen['size']}",
        f"--sentences={chosen['sentences']}",
        f"--character-coverage={chosen['character_coverage']}",
        f"--algorithm={chosen.get('algorithm', 'unigram')}",
    ]


def clean_text(wildcards):
    suffix = {"mono": "txt", "bitext": "tsv"}[wildcards.kind]
    return f"{S}/corpus/{wildcards.kind}/{wildcards.corpus}/{wildcards.name}/{wildcards.shard}.clean.{suffix}.zst"


def run_shards(wildcards):
    """The manifests of the encoded shards that a run reads."""
    mono, bitext = plan.data.data_of_runs(PLAN, [wildcards.run])
    return [
        f"{S}/shards/{stem}.json" for stem in mono_texts(mono) + bitext_texts(bitext)
    ]
