"""The plan of translation: which run makes which model, what stands for what, and what cannot be."""

import pytest

from common.errors import UserError
from common.identity import run_hash
from plan.check import check_run, check_scale
from plan.check_tasks import check_task
from plan.claimed import all_needs
from plan.load import load_config
from plan.needs import canonical_run, has_pairs, unfit
from plan.recipes import DEV_PARTS, TEST_PARTS, gold_datasets, recipe_datasets, resolve_recipe
from plan.runs import resolve_run, trained_run, with_ancestors
from plan.schemas import Schemas
from plan.translators import data_of_translator, decoder_of, resolve_translator, translators

DE, FR = "wmt14-en-de", "wmt14-en-fr"


@pytest.fixture(scope="module")
def mini(repository):
    return load_config(repository, {"scale": "mini", "runs": "all"})


@pytest.fixture()
def own(repository):
    """A configuration to change."""
    config = load_config(repository, {"scale": "paper"})
    for known in (config._resolved, config._hashes, config._recipes):
        known.clear()
    return config


@pytest.mark.parametrize(
    ("run", "start", "layers", "at_mini"),
    [
        ("veco-large", "last", 6, 1),
        ("veco-large-last-3", "last", 3, 1),
        ("veco-large-first-6", "first", 6, 1),
        ("xlm-r-large", "fresh", 6, 1),
        ("transformer-xbig", "fresh", 6, 1),
        ("transformer-24-3", "fresh", 3, 1),
        ("transformer-big", "fresh", 6, 3),
        ("deep-transformer", "fresh", 12, 1),
        ("mbart", "own", 12, 3),
        ("transformer-xbig-more-bilingual", "own", 6, 1),
    ],
)
def test_decoders_are_those_of_the_papers_tables(paper, mini, run, start, layers, at_mini):
    assert decoder_of(paper, run) == {"start": start, "layers": layers}
    assert decoder_of(mini, run) == {"start": start, "layers": at_mini}
    resolved = resolve_translator(paper, run, DE, "pretrained-init")
    assert resolved["objectives"][0]["options"]["decoder_layers"] == layers
    expected = {"own": {"fresh": []}, "fresh": {"fresh": ["decoder"]}}.get(start, {"decoder": start})
    init = resolved["init"]
    assert {key: init[key] for key in ("fresh", "decoder") if key in init} == expected
    parent = resolve_run(paper, run)
    assert init["run_hash"] == run_hash(parent)[:16] and init["run"] == trained_run(paper, run)
    same = {key: value for key, value in parent["model"].items() if not key.endswith("dropout")}
    assert {key: value for key, value in resolved["model"].items() if not key.endswith("dropout")} == same


def test_a_decoder_makes_no_other_weights(paper):
    """The runs of VECO's table 4 are one pre-training."""
    hashes = {run_hash(resolve_run(paper, name)) for name in paper.runs if name.startswith("veco-large")}
    assert len(hashes) == 1
    assert trained_run(paper, "veco-large-first-3") == "veco-large"
    needs = translators(paper, all_needs(paper))
    ancestors = with_ancestors(paper, [run for run, _, _ in needs])
    assert "veco-large" in ancestors and "veco-large-first-3" not in ancestors


def test_equal_decoders_of_equal_weights_are_one_model(mini):
    """At mini 3 and 6 of 24 layers are 1 of 3, but the first is not the last."""
    stands_for = {run: canonical_run(mini, run, DE) for run in mini.runs if run.startswith(("veco-l", "transf"))}
    assert stands_for["veco-large-last-3"] == "veco-large" == stands_for["veco-large"]
    assert stands_for["veco-large-first-3"] == stands_for["veco-large-first-6"] == "veco-large-first-3"
    assert stands_for["transformer-24-3"] == stands_for["transformer-xbig"] == "transformer-xbig"
    assert stands_for["transformer-big"] == "transformer-big"
    assert canonical_run(mini, "xlm-r-large", DE) == "xlm-r-large"  # its decoder is half as deep as that of xlm-r
    assert canonical_run(mini, "xlm-r-large", "xnli") == canonical_run(mini, "xlm-r-large") == "xlm-r"


def test_the_training_text_is_wmts_and_at_mini_what_the_world_has(paper, mini):
    assert data_of_translator(paper, DE) == [
        (corpus, "de-en") for corpus in ("wmt13-commoncrawl", "wmt13-europarl-v7", "wmt14-nc-v9")
    ]
    assert len(data_of_translator(paper, FR)) == 5
    assert data_of_translator(mini, DE) == [("wmt14-nc-v9", "de-en")]
    resolved = resolve_translator(mini, "veco-large", DE, "pretrained-init")
    assert resolved["data"]["bitext"]["corpora"] == {"de-en": ["wmt14-nc-v9"]}


def test_dev_and_test_are_the_years_that_they_should_be(paper):
    resolved = resolve_recipe(paper, FR, "pretrained-init", "veco")
    years = {part: recipe_datasets(resolved, [part]) for part in (*TEST_PARTS, *DEV_PARTS)}
    assert years["english"] == ["newstest/2014.eng-fra.eng"] and years["foreign"] == ["newstest/2014.eng-fra.fra"]
    assert years["dev_foreign"] == ["newstest/2013.eng-fra.fra"]
    assert years["older_english"] == ["newstest/2012.eng-fra.eng"]
    assert set(gold_datasets(paper, FR, ["fr"])) == {id_ for ids in years.values() for id_ in ids}


def test_a_run_with_what_no_decoder_knows_has_no_translation_model(paper):
    for run, what in (("xlm-15", "an embedding of each language"), ("xlm-e-base", "distances")):
        assert what in unfit(paper, run, DE, "pretrained-init")
        assert unfit(paper, run, "xnli", "cross-lingual-transfer") is None
    assert "has no model" in unfit(paper, "fast-align", DE, "pretrained-init")
    for run in ("veco-large", "xlm-r", "mbert", "mbart", "transformer-big"):
        assert unfit(paper, run, DE, "pretrained-init") is None


@pytest.mark.parametrize(
    ("run", "decoder", "message"),
    [
        ("veco-large", {"layers": 25}, r"runs/veco-large\.yaml, decoder\.layers: 25 of a model with 24; lower it"),
        ("xlm-r-large", {"start": "last"}, r"decoder\.start: 'last' layers become a decoder only with cross-attention"),
        (
            "mbart",
            {"layers": 6},
            r"runs/mbart\.yaml, decoder: its objective trains a decoder, which translates; remove",
        ),
    ],
)
def test_a_decoder_that_cannot_be_is_refused(own, run, decoder, message):
    own.runs[run]["decoder"] = decoder
    with pytest.raises(UserError, match=message):
        check_run(own, run)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bitext": None}, r"wmt14-en-de\.yaml: key 'bitext' is missing"),
        ({"bitext": ["wmt10-giga-fren"]}, r"wmt14-en-de\.yaml, bitext\[0\]: .*wmt10-giga-fren"),
        ({"languages": ["de", "fr"]}, r"wmt14-en-de\.yaml, languages: name the one language"),
        ({"languages": ["en"]}, r"wmt14-en-de\.yaml, languages: name the one language"),
        (
            {"settings": {"x": {"train": ["de"]}}},
            r"settings\.x\.train: a translation model is trained on all its pairs",
        ),
        ({"recipes": {"default": {"beam": 5}}}, r"recipes\.default: key 'numerics' is missing"),
    ],
)
def test_a_task_of_translation_that_cannot_be_is_refused(own, change, message):
    task = {**own.tasks[DE], **change}
    own.tasks[DE].clear()
    own.tasks[DE].update({key: value for key, value in task.items() if value is not None})
    with pytest.raises(UserError, match=message):
        check_task(own, DE)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"average": 30}, r"task_overrides\.wmt14-en-de, recipe\.average: 30 is more than snapshots, 20; lower it"),
        ({"snapshots": 401}, r"recipe\.snapshots: 401 is more than steps, 400"),
        ({"warmup_steps": 401}, r"recipe\.warmup_steps: 401 is more than steps, 400"),
        ({"row_length": 65}, r"recipe\.row_length: 65, and the model has 64 places"),
    ],
)
def test_a_recipe_that_cannot_be_is_refused_before_any_job(repository, change, message):
    config = load_config(repository, {"scale": "mini"})
    config._recipes.clear()
    config.scale["task_overrides"][DE]["recipe"].update(change)
    with pytest.raises(UserError, match=message):
        resolve_translator(config, "veco-large", DE, "pretrained-init")


def test_an_aligner_in_a_table_of_translation_stands_for_itself(paper):
    assert canonical_run(paper, "fast-align", DE) == "fast-align"


def test_corpora_are_for_translation_alone(own):
    own.tasks["xnli"]["bitext"] = ["wmt14-nc-v9"]
    with pytest.raises(UserError, match=r"xnli\.yaml, bitext: is for kind translation, not for classification"):
        check_task(own, "xnli")


def test_a_corpus_that_no_task_has_is_refused(repository):
    config = load_config(repository, {"scale": "mini"})
    config.scale["world"]["translation"]["corpora"] = ["wmt14-nc-v8"]
    with pytest.raises(UserError, match=r"world\.translation\.corpora\[0\]: unknown corpus of a translation task"):
        check_scale(config, Schemas(repository / "config/schemas"), "config/scales/mini.yaml")
    for known in (config._resolved, config._recipes):
        known.clear()
    config.scale["world"]["translation"]["corpora"] = ["wmt13-un"]  # of en-fr alone
    assert not has_pairs(config, DE, "random-init") and has_pairs(config, FR, "random-init")
    with pytest.raises(UserError, match=r"world\.translation\.corpora: none of wmt14-en-de's corpora"):
        resolve_recipe(config, DE, "random-init", "default")
