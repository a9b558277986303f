"""Scale `real`: corpora gathered from small sources, test sets given file by file, licences, and what it leaves out."""

import gzip
import json
import re

import pytest
import yaml

from common.errors import UserError
from common.yamlfiles import read_scale
from corpus.corpusio import read_lines
from corpus.segments import read_aligned, read_documents, read_segments
from plan import datasets, needs
from plan.claimed import all_needs
from plan.config import Config
from plan.load import load_config
from plan.recipes import gold_datasets, resolve_recipe, task_languages
from plan.runs import resolve_run
from plan.sources import LICENCE_COLUMNS, gathered_corpus, labelled_text, licence_uses
from split_corpus import split_aligned, split_gathered
from tasks import bucc, flores, panx, tydiqa, ud_pos
from trees import copy_tree, edit, snakemake

SCALE = "config/scales/real.yaml"


@pytest.fixture(scope="module")
def config(repository) -> Config:
    return load_config(repository, {"scale": "real"})


# ---------------------------------------------------------------- readers


def write(path, text: str):
    path.write_text(text, encoding="utf-8")
    return path


def test_lines_are_documents_where_they_stand_alone(tmp_path):
    lines = write(tmp_path / "a.txt", "one\ntwo\n\nthree\n")
    assert list(read_documents(lines, alone=False)) == [[(1, "one"), (2, "two")], [(4, "three")]]
    assert list(read_documents(lines, alone=True)) == [[(1, "one")], [(2, "two")], [(4, "three")]]


VERSES = {
    "a.json": json.dumps(
        {"1": [{"chapter": 1, "verse": 1, "text": "A b"}, {"chapter": 1, "verse": 3, "text": "c\nd"}]}
    ),
    "b.xml": '<osis xmlns="x"><verse osisID="Gen.1.1">A  b</verse><verse osisID="Exod.2.3">c\n<i>d</i></verse></osis>',
    "c.txt": "### Genesis\n\n[1:1]  A b \n### Exodus\n[2:3] c\nd\n",
}


@pytest.mark.parametrize("name", VERSES)
def test_verses_are_named_by_book_chapter_and_verse(tmp_path, name):
    segments = list(read_segments(write(tmp_path / name, VERSES[name])))
    second = (0, 1, 3) if name == "a.json" else (1, 2, 3)
    assert segments == [((0, 1, 1), "A b"), (second, "c d")]
    documents = [[text for _, text in document] for document in read_documents(tmp_path / name, alone=False)]
    assert documents == ([["A b", "c d"]] if name == "a.json" else [["A b"], ["c d"]])  # a document is a chapter


def test_translations_are_found_line_by_line_or_verse_by_verse(tmp_path):
    with gzip.open(tmp_path / "a.de.gz", "wt", encoding="utf-8") as stream:
        stream.write("eins\nzwei\n")
    english = write(tmp_path / "a.en", "one\ntwo\n")
    assert list(read_aligned(tmp_path / "a.de.gz", english)) == [(1, "eins", "one"), (2, "zwei", "two")]
    bible, other = (write(tmp_path / name, VERSES[name]) for name in ("b.xml", "c.txt"))
    write(other, VERSES["c.txt"].replace("[1:1]", "[1:2]"))
    assert list(read_aligned(bible, other)) == [(2, "c d", "c d")]
    with pytest.raises(UserError, match="one is verses, the other lines"):
        list(read_aligned(bible, english))
    with pytest.raises(UserError, match=r"a\.en: ends before line 2, the other side goes on"):
        list(read_aligned(tmp_path / "a.de.gz", write(english, "one\n")))


def test_gathered_text_keeps_the_place_of_each_line(tmp_path):
    one, two = write(tmp_path / "one", "a b\nc\n"), write(tmp_path / "two.txt", VERSES["c.txt"])
    counts = split_gathered([one, two], {one}, tmp_path, [tmp_path / "0.zst"])
    assert counts == {"lines": 4, "documents": 4}
    header, *lines = read_lines(tmp_path / "0.zst")
    assert json.loads(header) == {"files": ["one", "two.txt"], "kind": "mono"}
    assert lines == ["0\t1\ta b", "", "0\t2\tc", "", "1\t1\tA b", "", "1\t2\tc d", ""]
    split_aligned([one, one], tmp_path, [tmp_path / "1.zst"])
    assert list(read_lines(tmp_path / "1.zst"))[1:] == ["0\t1\ta b\ta b", "0\t2\tc\tc"]


# ---------------------------------------------------------------- the scale


def test_every_run_reads_what_the_scale_gathers(config):
    sources = read_scale(config.root / SCALE, SCALE)["sources"]
    resolved = resolve_run(config, "xlm")["data"]
    assert resolved["mono"]["corpus"].split("+") == sorted(sources["text"])
    [corpora] = {tuple(names) for names in resolved["bitext"]["corpora"].values()}
    assert corpora[0].split("+") == sorted(sources["pairs"])
    assert set(resolved["bitext"]["corpora"]) == {"-".join(sorted(("en", c))) for c in config.scale["languages"][:]} - {
        "en-en"
    }
    for pair in resolved["bitext"]["corpora"]:
        ids = datasets.bitext_ids(corpora[0], pair, config.datasets, config.languages)
        for first, second in zip(ids[::2], ids[1::2], strict=True):
            a, b = pair.split("-")
            assert first.removesuffix(f".{a}") == second.removesuffix(f".{b}")
            assert (config.datasets[first].languages, config.datasets[second].languages) == ((a,), (b,))


def test_what_is_read_is_no_test_set(config):
    """No file of text is a file of gold, under whatever id."""
    text = {id_ for _, id_ in labelled_text(config)}
    gold = {id_ for task in config.tasks for id_ in gold_datasets(config, task, task_languages(config, task))}
    assert not text & gold
    sums = {config.datasets[id_].sha256 for id_ in gold} - {None}
    assert not sums & {config.datasets[id_].sha256 for id_ in text}


def test_every_file_of_the_scale_is_pinned(config):
    """An address at a commit or a tag, a second address, a size and a sum: for whatever the scale alone reads."""
    own = {id_ for _, id_ in labelled_text(config)}
    for id_ in sorted(own):
        row = config.datasets[id_]
        assert row.sha256 and row.bytes and row.fallback_urls, id_
        assert re.search(r"/[0-9a-f]{40}/", row.url), id_


def test_open_licences_leave_the_rest_out(repository, config):
    opened = load_config(repository, {"scale": "real", "licences": "open"})
    left = set(gathered_corpus(config, "text").split("+")) - set(gathered_corpus(opened, "text").split("+"))
    assert left == {"multi30k", "quran", "wmt-news"}
    for _, id_ in labelled_text(opened):
        assert licence_uses()[opened.datasets[id_].licence] == "open"
    assert "tr" in task_languages(config, "ud-pos")  # its treebank is not for commercial use
    assert "tr" not in task_languages(opened, "ud-pos")
    assert resolve_run(opened, "xlm")["data"] != resolve_run(config, "xlm")["data"]
    world = [load_config(repository, {"scale": "mini", "licences": each}) for each in ("any", "open")]
    assert all_needs(world[0]) == all_needs(world[1])


def test_licences_of_the_command_line_reach_what_is_resolved_and_shown(tmp_path, repository):
    """The plan alone would read other shards than the run file names, and the table would show scores of other text."""
    tree = copy_tree(repository, tmp_path / "tree", own_reference=False)
    table = "results/tables/parallax/methods.tex"
    resolved = ["results/real/runs/xlm/run.yaml", "results/real/recipes/ud-pos/cross-lingual-transfer/xlm-r.yaml"]
    chosen = ("--cores", "1", "--config", "scale=real", "engine=false", "licences=open")
    snakemake(tree, *chosen, "--", *resolved)
    opened = load_config(tree, {"scale": "real", "licences": "open"})
    corpora = yaml.safe_load((tree / resolved[0]).read_text())["data"]
    assert (
        corpora
        == resolve_run(opened, "xlm")["data"]
        != resolve_run(load_config(tree, {"scale": "real"}), "xlm")["data"]
    )
    assert "tr" not in yaml.safe_load((tree / resolved[1]).read_text())["languages"]
    snakemake(tree, *chosen, "scores_from=reference", "--", table)
    assert "{\\pm" not in (tree / table).read_text()


def test_a_licence_without_a_row_is_told_and_not_left_out(tmp_path, repository):
    tree = copy_tree(repository, tmp_path / "tree", own_reference=False)
    edit(tree, "config/licences.tsv", "\nCC BY 4.0\t", "\nCC BY 4\t")
    with pytest.raises(UserError, match=r"no licence 'CC BY 4\.0', which \S+ of config/datasets\.tsv has; add its row"):
        gathered_corpus(load_config(tree, {"scale": "real", "licences": "open"}), "text")
    assert gathered_corpus(load_config(tree, {"scale": "real"}), "text")


def test_every_licence_is_explained(config):
    known = {licence for _, (licence, _, _) in datasets.read_table("config/licences.tsv", LICENCE_COLUMNS)}
    assert {row.licence for row in config.datasets.values()} == known


def test_a_task_that_is_left_out_says_why(config):
    reason = needs.unfit(config, "xlm-r", "xnli", "cross-lingual-transfer")
    assert reason == "task xnli is not for scale real: its training text is not among the files of this scale"
    assert needs.unfit(config, "xlm-r", "tatoeba", "best-xnli-model").startswith("task xnli is not for scale real")
    assert "no training file of tydiqa-goldp in" in needs.unfit(config, "xlm-r", "tydiqa-goldp", "translate-train-all")
    assert not {"xnli", "paws-x"} & {task for _, task, _ in all_needs(config)}


def test_a_run_that_is_left_out_says_why_and_so_does_what_starts_from_it(tmp_path, repository):
    tree = copy_tree(repository, tmp_path / "tree", own_reference=False)
    edit(tree, SCALE, "left_out:", "left_out:\n  mbert: it was there before")
    config = load_config(tree, {"scale": "real", "runs": "all"})
    assert {"mbert", "ppa-250k"} <= config.not_here and "xlm" not in config.not_here
    for run in ("mbert", "ppa-250k"):
        reason = needs.unfit(config, run, "tatoeba", "zero-shot-retrieval")
        assert reason == "run mbert is not for scale real: it was there before"
    assert not {"mbert", "ppa-250k"} & {run for run, _, _ in all_needs(config)}


def test_no_fine_tuning_is_as_long_as_a_paper_s(config):
    """A setting of its own may say its steps, which the scale's recipe does not reach by itself."""
    for run, task, job in all_needs(config):
        recipe = resolve_recipe(config, task, job, resolve_run(config, run).get("finetune_recipe", "default"))["recipe"]
        assert (recipe.get("steps") or 0) <= 300 and (recipe.get("epochs") or 0) <= 3, (task, job)


def test_ppa_may_start_from_another_run(tmp_path, repository):
    tree = copy_tree(repository, tmp_path / "tree", own_reference=False)
    edit(tree, SCALE, "seeds: [1, 2, 3]", "starts: {ppa-250k: xlm-r}\nseeds: [1, 2, 3]")
    run = resolve_run(load_config(tree, {"scale": "real"}), "ppa-250k")
    assert run["init"]["run"] == "xlm-r" and "token_types" not in run["model"]
    edit(tree, SCALE, "starts: {ppa-250k: xlm-r}", "starts: {xlm: xlm-r}")
    with pytest.raises(UserError, match=r"real\.yaml, starts\.xlm: only a run with a start can have"):
        load_config(tree, {"scale": "real"})


def test_a_source_that_is_not_there_is_named(tmp_path, repository):
    tree = copy_tree(repository, tmp_path / "tree", own_reference=False)
    edit(tree, SCALE, "  text: [bible,", "  text: [bibel,")
    with pytest.raises(UserError, match=r"real\.yaml, sources\.text\[0\]: unknown source of .* did you mean 'bible'"):
        load_config(tree, {"scale": "real"})


# ---------------------------------------------------------------- a language, without Python


@pytest.mark.dag
def test_the_plan_names_no_file_of_cc_100_and_a_language_is_rows(tmp_path, repository):
    """docs/extending.md: text, pairs, Tatoeba and a treebank of Greek."""
    tree = copy_tree(repository, tmp_path / "tree", own_reference=False)
    text = snakemake(tree, "--dry-run", "--config", "scale=real", "--", "tables", "results/index.html").stdout
    assert "rule pretrain" in text and "cc-100" not in text and "OPUS" not in text.replace("OPUS-MT-testsets", "")
    host, row = "https://example.org", "{id}\t{url}\t\t\t\tCC0 1.0\t{code}\t{kind}\t"
    rows = [
        row.format(id=id_, url=f"{host}/{id_}", code=code, kind=kind)
        for id_, code, kind in (
            ("stories/tales.el", "el", "mono"),
            ("stories/tales.en", "en", "mono"),
        )
    ]
    with open(tree / "config/datasets.tsv", "a", encoding="utf-8") as table:
        table.write("".join(f"{line}\n" for line in rows))
    edit(tree, SCALE, "text: [bible,", "text: [stories, bible,")
    edit(tree, SCALE, "pairs: [bible,", "pairs: [stories, bible,")
    edit(
        tree,
        SCALE,
        "languages: [ar, bg, de, en, es, fr, hi, ru, sw, th, tr, ur, zh]\neval",
        "languages: &all [ar, bg, de, el, en, es, fr, hi, ru, sw, th, tr, ur, zh]\neval",
    )
    edit(
        tree,
        SCALE,
        "    languages: [ar, bg, de, en, es, fr, hi, ru, th, tr, ur, zh]\n    datasets:  # one",
        "    languages: [ar, bg, de, el, en, es, fr, hi, ru, th, tr, ur, zh]\n    datasets:  # one",
    )
    edit(
        tree,
        SCALE,
        "      test-en: ud-r2.5/en_ewt-ud-test",
        "      test-el: ud-r2.5/el_gdt-ud-dev\n      test-en: ud-r2.5/en_ewt-ud-test",
    )
    edit(
        tree,
        SCALE,
        "    languages: [ar, bg, de, es, fr, hi, ru, th, tr, zh]\n    recipe:",
        "    languages: [ar, bg, de, el, es, fr, hi, ru, th, tr, zh]\n    recipe:",
    )
    wanted = [
        f"results/real/scores/xlm/{task}/seed-1.json"
        for task in ("tatoeba/zero-shot-retrieval", "ud-pos/cross-lingual-transfer")
    ]
    text = snakemake(tree, "--dry-run", "--config", "scale=real", "--", *wanted).stdout
    for part in (
        "raw/example.org/stories/tales.el",
        "tatoeba.ell-eng.ell",
        "el_gdt-ud-dev.conllu",
        "+wmt-news/el/0.json",
    ):
        assert part in text, part
    assert "+wmt-news/el-en/0.json" in text


# ---------------------------------------------------------------- test sets, file by file


def paths_of(config, mirror, task, setting="cross-lingual-transfer"):
    resolved = resolve_recipe(config, task, setting, "default")
    paths = {key: mirror / config.datasets[id_].path for key, id_ in resolved["datasets"].items()}
    return resolved, paths


@pytest.mark.parametrize(("task", "module"), [("ud-pos", ud_pos), ("wikiann-ner", panx), ("tydiqa-goldp", tydiqa)])
def test_single_files_hold_as_many_rows_as_the_scale_says(config, mirror, task, module):
    resolved, paths = paths_of(config, mirror, task)
    counts = resolved["counts"]
    expected = {code: counts["test"].get(code, counts["test"].get("*")) for code in resolved["languages"]}
    assert {code: len(rows) for code, rows in module.read_test(paths, list(expected), expected).items()} == expected
    if task == "tydiqa-goldp":
        train, dev = module.read_train(paths, ["en"], counts["train"])["en"], module.read_dev(paths, ["en"], {})["en"]
        assert (len(train), len(dev)) == (3327, 369)
        assert len({question.id for question in train + dev}) == 3696
    elif task == "ud-pos":
        assert len(module.read_dev(paths, ["en"], counts["dev"])["en"]) == 2002


def test_flores_is_one_text_in_all_languages(config, mirror):
    resolved, paths = paths_of(config, mirror, "flores", "zero-shot-retrieval")
    pairs = flores.read_test(paths, resolved["languages"], dict.fromkeys(resolved["languages"], 1012))
    assert len({tuple(english) for _, english in pairs.values()}) == 1
    assert list(flores.read_gold(paths["english-de"], "de")) == flores.gold_of(pairs["de"])


def test_three_layouts_of_wikiann_are_one(tmp_path):
    files = {
        "a.tsv": "Bonn\tB-LOC\n:\tO\n",
        "b.conllu": "0\tBonn\tB-LOC\n1\t:\tO\n",
        "c": "de:Bonn\tB-LOC\nde::\tO\n",
    }
    [sentences] = {tuple(panx.read_file(write(tmp_path / name, text), "de")) for name, text in files.items()}
    assert sentences == ((("Bonn", ":"), ("B-LOC", "O")),)


def test_half_of_the_sample_chooses_and_half_is_scored(config, mirror):
    resolved, paths = paths_of(config, mirror, "bucc", "zero-shot-retrieval")
    dev = bucc.read_dev(paths, ["zh"], resolved["counts"]["dev"])["zh"]
    test = bucc.read_test(paths, ["zh"], resolved["counts"]["test"])["zh"]
    for side in ("foreign", "english"):
        one, other = getattr(dev, side), getattr(test, side)
        assert not set(one) & set(other)
        assert abs(len(one) - len(other)) <= 2
    assert len(dev.foreign) + len(test.foreign) == 8624 and len(dev.english) + len(test.english) == 13589
    for half in (dev, test):
        assert all(a in half.foreign and b in half.english for a, b in half.gold)
