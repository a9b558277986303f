def recipe_digest(wildcards):
    return common.identity.digest(
        plan.recipes.resolve_recipe(
            PLAN, wildcards.task, wildcards.setting, wildcards.recipe
        )
    )


def recipe_name(wildcards):
    return plan.recipes.recipe_of(PLAN, wildcards.run)


def recipe(wildcards):
    return f"{S}/recipes/{wildcards.task}/{wildcards.setting}/{recipe_name(wildcards)}.yaml"


def encoder(wildcards):
    seed = plan.seeds.pretrain_seed(PLAN, int(wildcards.seed))
    return plan.runs.weights_path(PLAN, wildcards.run, seed)


def checkpoint_files(wildcards):
    """Of a checkpoint, as it was published: on the hub, or in a folder."""
    hub = PLAN.runs[wildcards.run]["source"].get("hub")
    if hub:
        return raw(plan.checkpoints.checkpoint_ids(PLAN, hub))
    try:
        folder = plan.checkpoints.checkpoint_folder(PLAN, wildcards.run)
    except UserError as error:
        raise WorkflowError(str(error)) from None
    read = (".json", ".txt", ".model", ".safetensors", ".bin")  # and nothing else
    files = (path for path in folder.iterdir() if path.is_file())
    return sorted(str(path) for path in files if path.suffix in read)


def checkpoint_folder(wildcards):
    """Where they lie beside each other."""
    [folder] = {str(Path(path).parent) for path in checkpoint_files(wildcards)}
    return folder


def scale_vocabulary(wildcards):
    """The tokenizer that text is encoded with for training."""
    return plan.runs.vocabulary_path(PLAN)


def run_vocabulary(wildcards):
    """The tokenizer that a run was trained with."""
    if wildcards.run in PLAN.not_here:
        raise WorkflowError(
            f"{plan.runs.not_here(PLAN, wildcards.run)}; take another scale"
        )
    return plan.runs.vocabulary_path(PLAN, wildcards.run)


def model(wildcards):
    """The weights that predict: fine-tuned for this task or for another, or the encoder as it is."""
    trained = plan.recipes.trained_as(PLAN, wildcards.task, wildcards.setting)
    if trained is None:
        return encoder(wildcards)
    task, setting = trained
    return f"{S}/finetuned/{wildcards.run}/{task}/{setting}/seed-{wildcards.seed}/model.safetensors"


def task_files(wildcards, parts):
    resolved = plan.recipes.resolve_recipe(
        PLAN, wildcards.task, wildcards.setting, recipe_name(wildcards)
    )
    return raw(plan.recipes.recipe_datasets(resolved, parts))


def finetune_files(wildcards):
    return task_files(wildcards, plan.recipes.TRAIN_PARTS)


def recipe_bitext(use, suffix):
    """The clean sentence pairs, or their counts, that retrieval is fine-tuned on (`bitext`) or centred on (`centre`)."""

    def files(wildcards):
        resolved = plan.recipes.resolve_recipe(
            PLAN, wildcards.task, wildcards.setting, recipe_name(wildcards)
        )
        corpora = resolved.get(use, {}).get("corpora", {})
        stems = bitext_texts(
            (corpus, pair) for pair, names in corpora.items() for corpus in names
        )
        return [f"{S}/corpus/{stem}.{suffix}" for stem in stems]

    return files


def predict_files(wildcards):
    """Mining sets its threshold on dev, so it reads that too; centred retrieval the pairs that choose its layer."""
    mining = PLAN.tasks[wildcards.task]["kind"] == "mining"
    parts = plan.recipes.TEST_PARTS + plan.recipes.HELD_OUT_PARTS
    return task_files(wildcards, parts + (("dev",) if mining else ()))


def aligner_text(wildcards):
    """The clean pairs that an aligner learns from, of the languages that are evaluated."""
    codes = plan.recipes.task_languages(PLAN, wildcards.task)
    pairs = {common.pairs.pair_with_english(code) for code in codes}
    _, bitext = plan.data.data_of_runs(PLAN, [wildcards.run])
    stems = bitext_texts((corpus, pair) for corpus, pair in bitext if pair in pairs)
    return [f"{S}/corpus/{stem}.clean.tsv.zst" for stem in stems]


def dev_files(wildcards):
    return task_files(wildcards, plan.recipes.DEV_PARTS)


def translator_digest(wildcards):
    return common.identity.digest(
        plan.translators.resolve_translator(
            PLAN, wildcards.run, wildcards.task, wildcards.setting
        )
    )


def validation_digest(wildcards):
    """What the learning curve rests on beside the snapshots, which are gone by then: no more of the recipe than that."""
    resolved = plan.recipes.resolve_recipe(
        PLAN, wildcards.task, wildcards.setting, recipe_name(wildcards)
    )
    limit = resolved["recipe"].get("dev_limit")
    return common.identity.digest(
        [plan.recipes.recipe_datasets(resolved, plan.recipes.DEV_PARTS), limit]
    )


def translator_shards(wildcards):
    """The manifests of the encoded shards that a translation model is trained on."""
    stems = bitext_texts(plan.translators.data_of_translator(PLAN, wildcards.task))
    return [f"{S}/shards/{stem}.json" for stem in stems]


def evaluation_pretrain_seed(wildcards, output):
    return plan.seeds.pretrain_seed(PLAN, int(wildcards.seed))


def score_files(wildcards):
    return task_files(wildcards, plan.recipes.TEST_PARTS)


def cleaning_report(wildcards):
    if not WORLD:
        raise WorkflowError(
            f"cleaning: scale {SCALE} has real text, of which nobody knows the dirt; ask for it at a scale with a world"
        )
    return f"{S}/corpus/cleaning-report.json"
