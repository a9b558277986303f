"""Whatever a user can get wrong in config/ is one line that names file and key and says what is allowed."""

import dataclasses
import json
import re
from pathlib import Path

import pytest

import new_item
import plan.runs
from common.errors import UserError
from common.identity import digest, run_hash
from common.yamlfiles import read_scale
from plan.claimed import all_needs, all_score_paths
from plan.evidence import require_scores, score_path
from plan.load import load_cleaning, load_config, paper_line
from trees import edit, snakemake

SCALES = ("smoke", "mini", "small", "paper")


def message(tree: Path, **overrides: object) -> str:
    with pytest.raises(UserError) as caught:
        config = load_config(tree, overrides)
        load_cleaning(config)
    text = str(caught.value)
    assert "\n" not in text
    return text


@pytest.mark.parametrize("scale", SCALES)
def test_the_shipped_configuration_is_right(repository, scale):
    config = load_config(repository, {"scale": scale})
    load_cleaning(config)
    assert all_needs(config)


@pytest.mark.parametrize("scale", SCALES)
def test_every_key_of_a_scale_reaches_a_run_or_is_read(repository, scale):
    config = load_config(repository, {"scale": scale})
    run = plan.runs.resolve_run(config, "xlm-r")
    for section, value in config.scale.get("run_overrides", {}).items():
        if isinstance(value, dict):
            assert {key: run[section][key] for key in value} == value
        else:
            assert run[section] == value


WRONG = [
    # file, old, new, what the one line must hold
    (
        "config/tables/ernie-m/table-01.yaml",
        "metric: accuracy",
        "metric: acuracy",
        ["columns[0].metric: unknown metric of xnli 'acuracy'; did you mean 'accuracy'?"],
    ),
    (
        "config/tables/ernie-m/table-01.yaml",
        "[en, fr, es",
        "[en, xx, es",
        ["columns[0].languages: unknown language of xnli 'xx'"],
    ),
    (
        "config/tables/parallax/summary.yaml",
        "show: [en, avg], heading: XNLI",
        "show: [en, agv], heading: XNLI",
        ["columns[0].show", "'agv'; did you mean 'avg'?"],
    ),
    (
        "config/figures/xlm-e/figure-03.yaml",
        "metric: accuracy-by-layer",
        "metric: accuracy-by-laye",
        ["figure-03.yaml, columns[0].metric", "did you mean 'accuracy-by-layer'?"],
    ),
    (
        "config/tables/ernie-m/table-01.yaml",
        "published: xlm-15,",
        "published: xlm-51,",
        ["groups[0].rows[0].published: unknown model 'xlm-51'"],
    ),
    (
        "config/tables/ernie-m/table-01.yaml",
        "run: xlm-r}",
        "run: xlm-r-base}",
        ["rows[2].run: unknown run 'xlm-r-base'"],
    ),
    (  # a base is read before what extends it, and told of its own mistake
        "config/runs/ernie-m-base.yaml",
        "  - name: camlm",
        "  - name: camlmm",
        ["config/runs/ernie-m-base.yaml, objectives[2].name: unknown objective 'camlmm'; did you mean 'camlm'?"],
    ),
    (
        "config/published/ernie-m/table-01.csv",
        "xlm-15,xnli,en,",
        "xlm-15,xnlii,en,",
        ["config/published/ernie-m/table-01.csv, line 2, task: unknown task 'xnlii'; did you mean 'xnli'?"],
    ),
    (
        "config/published/ernie-m/table-01.csv",
        "xlm-15,xnli,en,accuracy,85.0",
        "xlm-15,xnli,en,accuracy,85.o",
        ["config/published/ernie-m/table-01.csv, line 2, value: '85.o' is no number; mend it"],
    ),
    (
        "config/published/ernie-m/table-01.csv",
        "transfer,xlm-15,xnli,en,",
        "transfer,xlm-51,xnli,en,",
        ["config/published/ernie-m/table-01.csv, line 2, model: unknown model 'xlm-51'; did you mean 'xlm-15'?"],
    ),
    (
        "config/tasks/xnli.yaml",
        "metrics: [accuracy]",
        "metrics: [acuracy]",
        ["config/tasks/xnli.yaml, metrics[0]: 'acuracy'"],
    ),
    (
        "config/tasks/xnli.yaml",
        "metric: accuracy",
        "metric: f1",
        ["config/tasks/xnli.yaml, metric: unknown metric of this task 'f1'"],
    ),
    (
        "config/tasks/xnli.yaml",
        "chance: {accuracy: majority}",
        "chance: {accuracy: majorityy}",
        ["config/tasks/xnli.yaml, chance.accuracy: 'majorityy'", "did you mean 'majority'?"],
    ),
    (
        "config/tasks/xnli.yaml",
        "chance: {accuracy: majority}",
        "chance: {acuracy: majority}",
        ["config/tasks/xnli.yaml, chance: has acuracy, and metrics accuracy; name the same"],
    ),
    (
        "config/tasks/tatoeba.yaml",
        "  xlm-e: {layer: 9,",
        "  xlm-e: {layer: 99,",
        ["config/tasks/tatoeba.yaml, recipes.xlm-e.layer: 99 of a model with 12; lower it"],
    ),
    (
        "config/runs/xlm-r.yaml",
        "finetune_recipe: xlm-r",
        "finetune_recipe: xml-r",
        ["config/runs/xlm-r.yaml, finetune_recipe: unknown recipe 'xml-r'; did you mean 'xlm-r'?"],
    ),
    (
        "config/scales/mini.yaml",
        "finetune_recipe: xlm-r",
        "finetune_recipe: xml-r",
        ["mini.yaml, run_overrides.finetune_recipe: unknown recipe 'xml-r'"],
    ),
    (
        "config/runs/ernie-m-base.yaml",
        "extends: xlm-small",
        "extends: [xlm-small]",
        ["ernie-m-base.yaml, extends: must be the name of one run, is ['xlm-small']"],
    ),
    (
        "config/runs/ernie-m-small.yaml",
        "  mmlm: {rows: 512}",
        "  mmlm: append",
        ['ernie-m-small.yaml, objective_overrides.mmlm: must be a mapping, is "append"'],
    ),
    (
        "config/announced.yaml",
        "settings:",
        "setings:",
        ["config/announced.yaml: must hold tasks, settings, runs"],
    ),
    (
        "config/scales/mini.yaml",
        "size: 2500, sentences: 200000,",
        "size: 2500,",
        ["mini.yaml, vocabulary: key 'sentences' is missing"],
    ),
    (
        "config/scales/mini.yaml",
        "seeds: [1, 2, 3]",
        "resources: {pretrian: {threads: 2}}\nseeds: [1, 2, 3]",
        ["mini.yaml, resources: unknown rule 'pretrian'; did you mean 'pretrain'?"],
    ),
    ("config/config.yaml", "scale: mini", "scal: mini", ["config/config.yaml, scal", "did you mean 'scale'?"]),
    (
        "config/config.yaml",
        "scale: mini",
        "scale: minni",
        ["config/config.yaml, scale", "did you mean 'mini'?", "paper"],
    ),
    ("config/config.yaml", "seeds: null", "seeds: three", ["config/config.yaml, seeds", "a list or null", '"three"']),
    ("config/config.yaml", "papers: null", "papers: [ernie]", ["papers[0]", "unknown paper 'ernie'", "ernie-m"]),
    ("config/config.yaml", "runs: null", "runs: [xlmr]", ["runs[0]", "unknown run 'xlmr'", "did you mean 'xlm-r'?"]),
    ("config/config.yaml", "items: null", "items: [ppa/table-2]", ["items[0]", "did you mean 'ppa/table-02'?"]),
    ("config/config.yaml", "mirrors: []", "mirrors: /data", ["config/config.yaml, mirrors", "must be a list"]),
    ("config/config.yaml", "mirrors: []", "mirrors: [a\n", ["config/config.yaml:", "not YAML"]),
    ("config/config.yaml", "mirrors: []", "mirrors: []\nscale: mini", ["config/config.yaml:", "'scale' stands twice"]),
    ("config/scales/mini.yaml", "name: mini", "extends: mimi\nname: mini", ["mini.yaml, extends", "no scale 'mimi'"]),
    ("config/scales/mini.yaml", "pretrain_seeds: 6", "pretrain_seed: 6", ["mini.yaml, pretrain_seed", "did you mean"]),
    ("config/scales/mini.yaml", "name: mini", "name: midi", ["mini.yaml, name", "'midi'", "'mini'"]),
    ("config/scales/mini.yaml", "languages: [ar,", "languages: [xx,", ["languages[0]", "language", "'xx'"]),
    ("config/scales/mini.yaml", "languages: [ar,", "languages: [sw,", ["languages[0]", "language of the world 'sw'"]),
    ("config/scales/mini.yaml", "layers: 3", "layer: 3", ["mini.yaml, run_overrides, model.layer", "'layers'"]),
    ("config/scales/mini.yaml", "{en: 1.0, de", "{it: 1.0, en: 1.0, de", ["world.languages: 'it' is unknown"]),
    ("config/scales/mini.yaml", "heads: 4", "heads: 5", ["run_overrides.model.heads", "do not divide"]),
    ("config/scales/mini.yaml", "positions: 66", "positions: 33", ["run_overrides.model.positions", "at least 66"]),
    ("config/scales/mini.yaml", "warmup_steps: ", "warmup_steps: 99", ["warmup_steps", "longer than it trains"]),
    ("config/scales/mini.yaml", "  tlm:", "  tlmm:", ["objective_overrides", "unknown objective 'tlmm'", "'tlm'"]),
    ("config/scales/mini.yaml", "block_length: ", "block_lenght: ", ["objective_overrides.btmlm", "block_length"]),
    (
        "config/scales/mini.yaml",
        "layers: 3",
        'layers: "3"',
        ["model.layers", 'a whole number, is "3"; remove the quotes'],
    ),
    ("config/scales/mini.yaml", "  xnli:\n", "  xnly:\n", ["task_overrides", "unknown task 'xnly'", "'xnli'"]),
    ("config/scales/mini.yaml", "train_limit", "train_limt", ["task_overrides.xnli", "'train_limt'", "'train_limit'"]),
    ("config/scales/mini.yaml", '"*": 4000', '"*": many', ["task_overrides.mlqa.train_limit.*", 'is "many"', "number"]),
    ("config/scales/mini.yaml", "train-all: 12000", "train-al: 12000", ["mlqa.train_limit", "'translate-train-al'"]),
    ("config/scales/mini.yaml", "train_limit: 100", "train_limit: 0", ["task_overrides.ud-pos.train_limit"]),
    ("config/scales/mini.yaml", "epochs: ", "epoch: ", ["task_overrides", "recipes.default.epoch", "'epochs'"]),
    ("config/scales/mini.yaml", "decontaminate: [", "decontaminate: [xnl, ", ["decontaminate[0]", "'xnl'", "'xnli'"]),
    ("config/scales/mini.yaml", "language_id: trained", "language_id: lid", ["language_id", "unknown dataset 'lid'"]),
    ("config/scales/mini.yaml", "de: [Europarl]", "de: [Europarll]", ["world.bitext.de[0]", "Europarll"]),
    (
        "config/scales/mini.yaml",
        "language_id: trained",
        "language_id: trained\ncleaning: {mono: {own_langage: 0.5}}",
        ["mini.yaml, cleaning.mono", "unknown threshold 'own_langage'", "did you mean 'own_language'?"],
    ),
    (
        "config/scales/mini.yaml",
        "language_id: trained",
        "language_id: trained\ncleaning: {mono: {own_language: half}}",
        ["mini.yaml, cleaning.mono.own_language", "must be a number"],
    ),
    (
        "config/runs/xlm.yaml",
        "name: mmlm",
        "name: mlmm",
        ["xlm.yaml, objectives[0].name", "did you mean 'mmlm'?", "tlm"],
    ),
    ("config/runs/xlm.yaml", "  width: 768", "  widht: 768", ["xlm.yaml, model.widht", "did you mean 'width'?"]),
    ("config/runs/xlm.yaml", "  width: 768", "", ["xlm.yaml, model", "'width' is missing"]),
    ("config/runs/xlm.yaml", "heads: 12", "heads: 11", ["xlm.yaml, model.heads", "does not divide"]),
    ("config/runs/xlm.yaml", "keep: 0.1", "keep: 0.2", ["objectives[0].mask", "must be 1"]),
    ("config/runs/xlm.yaml", "rate: 0.15", "rate: 1.5", ["objectives[0].mask.rate", "less than 1"]),
    ("config/runs/xlm.yaml", "ar-en: [MultiUN", "en-ar: [MultiUN", ["data.bitext.corpora.en-ar", "'ar-en'"]),
    ("config/runs/xlm.yaml", "ar-en: [MultiUN", "ar-en: [MultiUM", ["corpora.ar-en[0]", "MultiUM"]),
    ("config/runs/xlm.yaml", '"no"', "no", ["xlm.yaml, data.mono.languages", "must be text, is false", "quotes"]),
    ("config/runs/xlm.yaml", "6.0e-4", "6e-4", ["optimizer.peak_lr", "must be a number", "with a point"]),
    ("config/runs/xlm.yaml", "af, am,", "af, amh,", ["data.mono.languages[1]", "unknown language 'amh'"]),
    ("config/runs/xlm.yaml", "name: xlm\n", "name: xml\n", ["xlm.yaml, name", "'xml'", "'xlm'"]),
    ("config/runs/xlm.yaml", "steps: 1500000", "steps: 0", ["xlm.yaml, schedule.steps", "objectives"]),
    ("config/runs/random-init.yaml", "steps: 0", "steps: 5", ["random-init.yaml, schedule.steps", "has 0"]),
    # options, inheritance, initialisation, phases
    (
        "config/runs/ppa-250k.yaml",
        "queue: 32000",
        "queu: 32000",
        ["ppa-250k.yaml, objectives[0]: unknown key options.queu", "did you mean 'queue'?"],
    ),
    ("config/runs/ppa-250k.yaml", "queue: 32000", "queue: many", ["objectives[0]: key options.queue", "'many'"]),
    (
        "config/runs/ernie-m-base-append.yaml",
        "masks: append",
        "masks: appended",
        ["objectives[2]: options.masks: `appended` is unknown; known: in-place, append"],
    ),
    (
        "config/runs/ernie-m-base.yaml",
        "ratio_share: 0.2",
        "ratio_share: 20",
        ["ernie-m-base.yaml, objectives[1]: options.ratio_share: 20", "not between 0 and 1"],
    ),
    (
        "config/runs/ernie-m-base-append.yaml",
        "  camlm:",
        "  camml:",
        ["objective_overrides", "unknown objective of this run 'camml'", "did you mean 'camlm'?"],
    ),
    ("config/runs/xlm-align-base.yaml", "layer: 10", "layer: 13", ["objectives[1].options: asks for layer 13", "12"]),
    ("config/runs/ppa-600k.yaml", "extends: ppa-250k", "extends: ppa-250", ["extends: no run 'ppa-250'", "'ppa-250k'"]),
    ("config/runs/ppa-600k.yaml", "name: ppa-600k\n", "", ["config/runs/ppa-600k.yaml", "'name' is missing"]),
    (
        "config/runs/ppa-250k.yaml",
        "run: mbert",
        "run: bert",
        ["ppa-250k.yaml, init.run: unknown run 'bert'", "'mbert'"],
    ),
    (
        "config/runs/ppa-250k.yaml",
        "run: mbert",
        "run: fast-align",
        ["ppa-250k.yaml, init.run: 'fast-align' aligns words and has no weights; name a run of kind pretrain"],
    ),
    (
        "config/runs/fast-align.yaml",
        "kind: aligner",
        "kind: alinger",
        ["fast-align.yaml, kind: unknown kind of run 'alinger'; did you mean 'aligner'?"],
    ),
    ("config/runs/fast-align.yaml", "limit: ", "limits: ", ["data.bitext.limits: unknown key; did you mean 'limit'?"]),
    ("config/runs/fast-align.yaml", "limit: 5", "limit: -5", ["data.bitext.limit: must be at least 1"]),
    ("config/runs/fast-align.yaml", "[IITB]", "[ITTB]", ["fast-align.yaml, data.bitext.corpora.en-hi[0]", "ITTB"]),
    ("config/runs/fast-align.yaml", "en-ro:", "ro-en:", ["data.bitext.corpora.ro-en", "'en-ro'"]),
    ("config/runs/veco-large.yaml", "fresh: [cross", "frehs: [cross", ["veco-large.yaml, init.frehs", "'fresh'"]),
    ("config/runs/veco-large.yaml", "{steps: 12000,", "{steps: 240000,", ["schedule.first.steps", "must end before"]),
    ("config/runs/xlm-15.yaml", "languages: 15}", "languages: 14}", ["xlm-15.yaml, model.languages: is 14", "15"]),
    ("config/runs/xlm-e-base.yaml", "buckets: 32", "bucket: 32", ["model.relative_bias.bucket:", "'buckets'"]),
    ("config/scales/mini.yaml", "queue: 4096", "queu: 4096", ["objective_overrides.ppa: unknown key options.queu"]),
    (
        "config/scales/mini.yaml",
        "  schedule: {",
        "  schedule: {alternate: true, ",
        ["run_overrides.schedule.alternate: a scale does not change what a run is"],
    ),
    ("config/scales/mini.yaml", "  precision: fp32", "  init: {run: xlm}", ["run_overrides.init: a scale does not"]),
    ("config/scales/mini.yaml", "runs: [xlm-r,", "runs: [xlmr,", ["runs[0]: unknown run 'xlmr'"]),
    ("config/scales/mini.yaml", "  paws-x: English", "  pawsx: English", ["on_request: unknown task, or", "'paws-x'"]),
    ("config/config.yaml", "runs: null", "runs: al", ["config.yaml, runs", '"al"', "a list of runs, the word all"]),
    ("config/tasks/xnli.yaml", "version: 1", "versions: 1", ["xnli.yaml, versions", "did you mean 'version'?"]),
    ("config/tasks/xnli.yaml", "gold: xnli/1.0", "gold: xnli/1.1", ["datasets.gold", "unknown dataset 'xnli/1.1'"]),
    ("config/tasks/xnli.yaml", "{train: [en]}", "{train: [eng]}", ["settings.cross-lingual-transfer.train", "'eng'"]),
    ("config/tables/ernie-m/table-01.yaml", "task: xnli", "task: xnly", ["columns[0].task", "unknown task 'xnly'"]),
    ("config/tables/ernie-m/table-01.yaml", "run: xlm-r}", "run: xlm-rr}", ["rows[2].run", "unknown run 'xlm-rr'"]),
    (
        "config/tables/ernie-m/table-01.yaml",
        "setting: cross-lingual-transfer",
        "setting: crosslingual-transfer",
        ["table-01.yaml, groups[0].setting", "did you mean 'cross-lingual-transfer'?"],
    ),
    ("config/tables/ernie-m/table-01.yaml", "item: table-01", "item: table-02", ["item", "'table-02'", "'table-01'"]),
    ("config/tables/ernie-m/table-01.yaml", "average: true", "averages: true", ["columns[0].averages", "'average'"]),
    (
        "config/tables/ernie-m/table-01.yaml",
        "table-01.csv",
        "table-99.csv",
        ["published", "table-99.csv", "no such file"],
    ),
    (
        "config/tables/ernie-m/table-01.yaml",
        "published: config/published/ernie-m/table-01.csv\n",
        "",
        ["config/tables/ernie-m/table-01.yaml: a row names a printed one, and no key `published` the CSV file"],
    ),
    (
        "config/tables/ernie-m/table-01.yaml",
        "published/ernie-m/table-01.csv",
        "published/ernie-m",
        ["config/tables/ernie-m/table-01.yaml, published: config/published/ernie-m: is a folder"],
    ),
    ("config/published/models.tsv", "key\tname\t", "key\t", ["config/published/models.tsv, line 1: no column name"]),
    (
        "config/published/ernie-m/table-01.csv",
        "metric,value,note",
        "metric,value,remark",
        ["config/published/ernie-m/table-01.csv, line 1: no column note; restore the file from the repository"],
    ),
    ("config/published/ernie-m/table-01.csv", ",85.0,", ",nan,", ["line 2, value: 'nan' is no number; mend it"]),
    ("config/published/ernie-m/table-01.csv", ",85.0,", ",850,", ["line 2, value: 850 of accuracy is not from 0 to"]),
    ("config/published/ernie-m/table-01.csv", ",fr,", ",en,", ["line 3: says what line 2 says; remove one"]),
    (
        "config/published/ernie-m/table-01.csv",
        ",85.0,",
        ",85.0,a note, with a comma",
        ["line 2: 8 cells for 7 columns; a text with a comma needs quotes"],
    ),
    (
        "config/published/papers.tsv",
        "\nernie-m-blog\t",
        "\nernie-m\t",
        ["config/published/papers.tsv: key 'ernie-m' stands twice; remove one line"],
    ),
    (
        "config/published/papers.tsv",
        "\tERNIE-M\t",
        "\tERNIE-M ",
        ["config/published/papers.tsv, line 2: 2 cells for 3 columns; separate them by single tabs"],
    ),
]


@pytest.mark.parametrize(
    ("own", "whole"),
    [
        ("{of: mine}", {"of": "mine"}),
        ("{given: xlm-r/sentencepiece}", {"given": "xlm-r/sentencepiece"}),
        ("{size: 900}", {"size": 900, "sentences": 20000, "alpha": 0.3}),
        ("{alpha: 0.5}", {"size": 1200, "sentences": 20000, "alpha": 0.5}),
    ],
)
def test_a_scale_may_take_a_vocabulary_where_its_parent_trains_one(tmp_path, own, whole):
    (tmp_path / "parent.yaml").write_text("vocabulary: {size: 1200, sentences: 20000, alpha: 0.3}\n", encoding="utf-8")
    (tmp_path / "mine.yaml").write_text(f"extends: parent\nvocabulary: {own}\n", encoding="utf-8")
    assert read_scale(tmp_path / "mine.yaml") == {"vocabulary": whole}


def test_a_table_of_numbers_that_is_not_utf_8(tree):
    file = "config/published/ernie-m/table-01.csv"
    size = (tree / file).write_bytes((tree / file).read_bytes() + b"\xff\xfe")
    assert message(tree) == f"{file}: byte {size - 2} is not UTF-8; save the table as UTF-8"


@pytest.mark.parametrize(
    "file", ["languages.tsv", "datasets.tsv", "published/papers.tsv", "published/veco/table-04.csv"]
)
def test_what_a_spreadsheet_writes_before_the_first_column_is_no_part_of_its_name(tree, file):
    """Three bytes that say UTF-8."""
    path = tree / "config" / file
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    load_config(tree, {"scale": "mini"})


@pytest.mark.parametrize(("file", "old", "new", "fragments"), WRONG, ids=[f"{w[0]}:{w[2][:24]!r}" for w in WRONG])
def test_one_clear_message(tree, file, old, new, fragments):
    edit(tree, file, old, new)
    text = message(tree)
    assert text.startswith(file), text
    for fragment in fragments:
        assert fragment in text, text


def test_circles_name_their_files(tree):
    edit(tree, "config/runs/xlm-r.yaml", "kind: pretrain", "kind: pretrain\ninit: {run: ernie-m-base}")
    said = message(tree)
    assert re.match(r"config/runs/(xlm-r|ernie-m-base)\.yaml, init\.run: goes round, ", said), said
    circle = ["config/runs/xlm-r.yaml", "config/runs/ernie-m-base.yaml"] * 2
    assert any(" -> ".join(circle[i : i + 3]) + "; let one of them start from scratch" in said for i in (0, 1)), said
    edit(tree, "config/runs/xlm-r.yaml", "init: {run: ernie-m-base}", "extends: xlm-r-large")
    said = message(tree)
    assert re.match(r"config/runs/xlm-r(-large)?\.yaml, extends: goes round, xlm-r", said), said
    assert "xlm-r -> xlm-r-large" in said and said.endswith("; take one `extends` out")


def test_an_objective_without_data_for_it(tree):
    path = tree / "config/runs/xlm.yaml"
    text = path.read_text(encoding="utf-8")
    path.write_text(re.sub(r"  bitext:\n(?:    .*\n)+", "", text), encoding="utf-8")
    said = message(tree)
    assert said.startswith("config/runs/xlm.yaml, objectives[1]: objective 'tlm' reads bitext data"), said


def test_an_objective_without_data_at_this_scale(tree):
    edit(tree, "config/scales/mini.yaml", "languages: [ar, de, en, es, fr, hi, ru, zh]", "languages: [de]")
    said = message(tree)
    assert "config/scales/mini.yaml, languages: leaves objective 'tlm' of run 'xlm' without bitext" in said


def test_the_command_line_is_named_when_it_is_wrong(tree):
    assert message(tree, seeds=["one"]).startswith("--config (or --configfile), seeds[0]: must be a whole number")
    assert message(tree, seeds=["-1"]) == "--config (or --configfile), seeds[0]: must be at least 1, is -1"
    assert message(tree, runs=["xlm", "xlm"]) == "--config (or --configfile), runs: 'xlm' is named twice; remove one"
    assert "unknown key" in message(tree, sclae="mini")
    assert "did you mean 'small'?" in message(tree, scale="smal")


def test_a_call_in_another_folder_and_a_file_with_another_ending_are_told(tree, tmp_path):
    with pytest.raises(UserError, match=r"config/config.yaml: no such file; call it in the repository's folder, or"):
        load_config(tmp_path / "elsewhere")
    (tree / "config/runs/mine.yml").write_text("name: mine\nextends: xlm\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"config/runs/mine.yml: is not read; call it mine.yaml, or take it out"):
        load_config(tree)


def test_a_task_without_a_module_is_told_before_any_training(tree):
    text = (tree / "config/tasks/xnli.yaml").read_text(encoding="utf-8").replace("task: xnli\n", "task: xnly\n")
    (tree / "config/tasks/xnly.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match=r"config/tasks/xnly.yaml, task: unknown .* 'xnly'; did you mean 'xnli'\?"):
        load_config(tree)


@pytest.mark.parametrize("file", ["config/tables/ppa/table-02.yaml", "config/runs/xlm.yaml", "config/config.yaml"])
def test_an_empty_file(tree, file):
    (tree / file).write_text("# nothing\n", encoding="utf-8")
    assert message(tree) == f"{file}: the file is empty"


def test_text_that_is_not_utf_8(tree):
    (tree / "config/runs/xlm.yaml").write_bytes(b"name: xlm # \xe9\n")
    assert message(tree).startswith("config/runs/xlm.yaml: byte 12 is not UTF-8")


def test_a_comment_or_another_order_changes_no_digest(tree):
    before = digest(plan.runs.resolve_run(load_config(tree), "xlm"))
    edit(tree, "config/runs/xlm.yaml", "af, am,", "am, af,")
    edit(tree, "config/runs/xlm.yaml", "  layers: 12\n  width: 768\n", "  width: 768  # wide\n  layers: 12\n")
    assert digest(plan.runs.resolve_run(load_config(tree), "xlm")) == before


def test_schemas_are_valid_and_closed(repository):
    from jsonschema import Draft202012Validator

    files = sorted((repository / "config/schemas").glob("*.schema.json"))
    assert {path.name.split(".")[0] for path in files} == {
        "aligner",
        "checkpoint",
        "audit",
        "claims",
        "config",
        "figure",
        "machines",
        "run",
        "scale",
        "table",
        "task",
    }
    for path in files:
        schema = json.loads(path.read_text(encoding="utf-8"))
        Draft202012Validator.check_schema(schema)
        kinds = [schema[k]["$ref"].rpartition("/")[2] for k in ("then", "else") if "$ref" in schema.get(k, {})]
        for closed in [schema["$defs"][kind] for kind in kinds] or [schema]:
            assert closed["additionalProperties"] is False, path


@pytest.mark.parametrize("scale", SCALES)
def test_the_engine_reads_every_resolved_run(repository, tmp_path, scale):
    import resolve_run
    from engine.config import load_run
    from training.assembly import fill_in

    config = load_config(repository, {"scale": scale})
    for name in config.pretrained:
        path = tmp_path / f"{name}.yaml"
        path.write_text(resolve_run.render(config, name), encoding="utf-8")
        run = load_run(path)
        assert run.schedule.steps == plan.runs.resolve_run(config, name)["schedule"]["steps"]
        # Weights say this hash and scores are looked for under the plan's: after the file they are still the same.
        filled = fill_in(run, run.model.vocabulary or 1000, path)
        assert filled.run_hash == run_hash(plan.runs.resolve_run(config, name))[:16]


def test_what_the_command_line_says_is_looked_for_there(repository):
    for key, value in {
        "runs": ["nonsense"],
        "papers": ["nonsense"],
        "items": ["nonsense"],
        "scale": "nonsense",
    }.items():
        assert message(repository, **{key: value}).startswith(f"--config (or --configfile), {key}")
    text = message(repository, papers=["ppa"], items=["ernie-m/table-01"])
    assert (
        text == "--config (or --configfile), papers and items: no table or figure is of both; take one of the two out"
    )


def test_a_listed_run_is_trained_whether_a_table_shows_it_or_not(repository):
    config = load_config(repository, {"runs": ["alm"]})
    assert config.listed == ["alm"] and not all_needs(config)
    assert load_config(repository, {"scale": "paper"}).listed == []
    everything = load_config(repository, {"runs": "all"})
    assert everything.not_here == {name for name in config.runs if name.startswith("hub-")}
    assert set(everything.listed) == set(config.runs) - everything.not_here
    of_papers = load_config(repository, {"scale": "paper", "runs": "all"})
    assert of_papers.not_here == set(of_papers.scale["left_out"]) - set(of_papers.tasks)
    assert set(of_papers.listed) == set(config.runs) - of_papers.not_here


def test_a_message_names_sixty_of_many(tree):
    edit(tree, "config/scales/mini.yaml", "language_id: trained", "language_id: train")
    named = re.search(r"allowed: (.*) and \d+ more$", message(tree))
    assert len(named[1].split(", ")) == 60


def test_every_row_without_a_run_says_why(repository):
    for item, spec in load_config(repository).specs.items():
        for group in spec.get("groups", []):
            for row in group["rows"]:
                assert ("run" in row) != ("without_run" in row), f"{item}: {row['label']}"


def test_reference_scores_are_read_where_no_rule_writes(repository, tmp_path):
    computed = load_config(repository, {"scale": "mini"})
    assert not computed.from_reference and "xlm-r-large" not in computed.selected
    assert score_path(computed, "xlm", "xnli", "s", 1) == "results/mini/scores/xlm/xnli/s/seed-1.json"
    kept = load_config(repository, {"scale": "mini", "scores_from": "reference"})
    assert kept.from_reference and kept.selected == frozenset(kept.runs) - kept.not_here and kept.listed == []
    assert score_path(kept, "xlm", "xnli", "s", 1) == "reference/scores/mini/xlm/xnli/s/seed-1.json"
    paths = all_score_paths(kept)
    assert paths and all((repository / path).exists() for path in paths)
    every = all_score_paths(load_config(repository, {"scale": "mini", "runs": "all", "seeds": kept.seeds}))
    assert {path.replace("reference/scores/mini", "results/mini/scores") for path in paths} <= set(every)
    few = [path for path in paths if "/xlm-r/" in path]
    (tmp_path / "config").symlink_to(repository / "config")
    for path in ["reference/recipes/mini.json", *few]:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).symlink_to(repository / path)
    assert 0 < len(few) < len(paths)  # what is not kept is an empty cell, not a job
    assert all_score_paths(dataclasses.replace(kept, root=tmp_path)) == few
    text = message(repository, scores_from="refrence")
    assert text.startswith("--config (or --configfile), scores_from: 'refrence' is unknown; did you mean 'reference'?")


def test_a_scale_that_no_reference_scores_are_kept_of_says_which_have_them(repository):
    require_scores(load_config(repository, {"scale": "smoke"}))
    require_scores(load_config(repository, {"scale": "mini", "scores_from": "reference"}))
    settings = ("scale=smoke", "scores_from=reference")
    done = snakemake(repository, "--dry-run", "--config", *settings, "--", "results/index.html", check=False)
    said = "scores_from: reference has no scores of scale smoke; it has those of mini, mini-2, real: take one of these"
    assert done.returncode != 0 and said in done.stdout


def test_a_table_in_a_new_folder_needs_the_line_of_its_paper(repository, tree):
    """Said before anything is trained, with what to write; and the line changes no other paper's."""
    item = tree / "config/tables/mine/table-01.yaml"
    item.parent.mkdir()
    text = (tree / "config/tables/parallax/gaps.yaml").read_text(encoding="utf-8")
    item.write_text(text.replace("paper: parallax", "paper: mine").replace("item: gaps", "item: table-01"))
    with pytest.raises(
        UserError, match=r"tables/mine/table-01.yaml, paper: 'mine' has no line in .*papers.tsv.*add one"
    ):
        load_config(tree)
    papers = tree / "config/published/papers.tsv"
    before = paper_line(load_config(repository), "veco")
    papers.write_text(papers.read_text(encoding="utf-8") + "mine\tMine\t\n", encoding="utf-8")
    config = load_config(tree)
    assert "mine/table-01" in config.tables and paper_line(config, "veco") == before
    assert paper_line(config, "mine")["name"] == "Mine"


def test_a_run_and_a_table_of_ones_own_are_written_checked_and_taken_back(tree, monkeypatch, capsys):
    def call(*words: str) -> str:
        monkeypatch.setattr("sys.argv", ["new_item.py", "--root", str(tree), *words])
        new_item.main()
        return capsys.readouterr().out

    assert "make train RUN=mine" in call("run", "mine", "--from", "xlm-r")
    said = call("table", "mine/table-01", "--runs", "xlm-r", "mine")
    assert "make table T=mine/table-01" in said and "config/published/papers.tsv: its last line" in said
    said = call("table", "mine/table-02", "--runs", "mine", "--tasks", "ud-pos", "tatoeba", "word-alignment")
    assert "papers.tsv" not in said
    config = load_config(tree)
    asked = [
        [column[key] for key in ("task", "metric", "setting")] for column in config.tables["mine/table-02"]["columns"]
    ]
    transfer, retrieval = "cross-lingual-transfer", "zero-shot-retrieval"
    assert asked == [
        ["ud-pos", "f1", transfer],
        ["tatoeba", "accuracy", retrieval],
        ["word-alignment", "error-rate", retrieval],
    ]
    assert [column["task"] for column in config.tables["mine/table-01"]["columns"]] == ["xnli"]
    assert [row["run"] for row in config.tables["mine/table-01"]["groups"][0]["rows"]] == ["xlm-r", "mine"]
    assert paper_line(config, "mine") == {"key": "mine", "name": "mine", "citation": ""}
    for words, says in (
        (("run", "mine", "--from", "xlm-r"), "is there already"),
        (("run", "other", "--from", "xml-r"), "unknown run 'xml-r'; did you mean 'xlm-r'"),
        (("run", "Mine!", "--from", "xlm-r"), "small letters"),
        (("table", "table-01", "--runs", "xlm-r"), "folder/table"),
        (("table", "my/table", "--runs", "xlm-r", "--tasks", "xlni"), "unknown task 'xlni'; did you mean 'xnli'"),
        (("table", "my/table", "--runs", "xlm-r", "xlm-r"), "RUNS: xlm-r is named twice; remove one"),
    ):
        with pytest.raises(UserError, match=says):
            call(*words)
    # what the checks refuse is gone again, with its line of papers.tsv
    monkeypatch.setattr(new_item, "COLUMN", new_item.COLUMN.replace("{metric}", "acuracy"))
    papers = (tree / "config/published/papers.tsv").read_text()
    with pytest.raises(UserError, match="acuracy"):
        call("table", "yours/table-01", "--runs", "xlm-r")
    assert not (tree / "config/tables/yours/table-01.yaml").exists()
    assert (tree / "config/published/papers.tsv").read_text() == papers
