import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from archives import ud_tgz, word, xnli_row, xnli_zip
from common.errors import UserError
from tasks import tatoeba, ud_pos, xnli
from tasks.conllu import parse_conllu
from tasks.files import read_lines
from tasks.known import task_module

GITHUB = "raw.githubusercontent.com"


# ---------------------------------------------------------------------------------------------------------------------
# Universal Dependencies


@pytest.mark.parametrize(
    ("name", "words", "ranges", "tokens"),
    [
        ("fr_sequoia-ud-test", 10048, 310, 9738),
        ("de_gsd-ud-test", 16498, 274, 16224),
        ("he_htb-ud-dev", 11412, 2502, 8358),
        ("ta_ttb-ud-test", 1989, 194, 1772),
        ("tr_imst-ud-test", 10029, 225, 9797),
        ("mr_ufal-ud-test", 412, 36, 376),
        ("es_gsd-ud-dev", 37151, 685, 36464),
        ("el_gdt-ud-dev", 10443, 304, 10139),
        ("en_partut-ud-train", 43504, 27, 43477),
    ],
)
def test_conversion_counts_of_real_treebanks(mirror, name, words, ranges, tokens):
    (path,) = (mirror / GITHUB / "UniversalDependencies").glob(f"*/r2.5/{name}.conllu")
    ids = [line.split("\t")[0] for line in read_lines(path) if line and not line.startswith("#")]
    assert (sum(i.isdigit() for i in ids), sum("-" in i for i in ids)) == (words, ranges)
    sentences = parse_conllu(read_lines(path), path.name, name.split("_")[0])
    assert sum(len(sentence.tokens) for sentence in sentences) == tokens
    assert all(len(sentence.tokens) == len(sentence.tags) for sentence in sentences)


def test_forms_with_spaces_lose_them(mirror):
    (path,) = (mirror / GITHUB / "UniversalDependencies").glob("*/r2.5/vi_vtb-ud-test.conllu")
    lines = read_lines(path)
    spaced = [line.split("\t")[1] for line in lines if "\t" in line and " " in line.split("\t")[1]]
    assert len(spaced) == 2268
    tokens = [token for sentence in parse_conllu(lines, path.name, "vi") for token in sentence.tokens]
    assert not any(" " in token for token in tokens)
    assert spaced[0].replace(" ", "") in tokens


def test_range_takes_the_tag_of_its_shallowest_word():
    lines = ["# text", "1-2\tzum\t" + "_\t" * 7 + "_", word(1, "zu", "ADP", 3), word(2, "dem", "DET", 1)]
    lines += [word(3, "Haus", "NOUN", 0), "3.1\tleer\t_\tX\t_\t_\t_\t_\t_\t_"]
    (sentence,) = parse_conllu(lines, "f", "de")
    assert sentence.tokens == ("zum", "Haus")
    assert sentence.tags == ("ADP", "NOUN")  # not DET, which is deeper; the empty node is gone


@pytest.mark.parametrize(("language", "tag"), [("de", "NOUN"), ("fr", "AUX"), ("es", "AUX"), ("it", "AUX")])
def test_equal_depths_follow_the_precedence_of_the_language(language, tag):
    lines = ["1-2\tab\t" + "_\t" * 7 + "_", word(1, "a", "AUX", 3), word(2, "b", "NOUN", 3), word(3, "c", "VERB", 0)]
    assert parse_conllu(lines, "f", language)[0].tags[0] == tag


def test_the_precedence_begins_with_verbs_then_nouns():
    for first, second in (("VERB", "NOUN"), ("NOUN", "PROPN"), ("PROPN", "PRON"), ("PRON", "ADJ"), ("ADJ", "NUM")):
        lines = ["1-2\tab\t" + "_\t" * 7 + "_", word(1, "a", second, 3), word(2, "b", first, 3), word(3, "c", "X", 0)]
        assert parse_conllu(lines, "f", "de")[0].tags[0] == first


@pytest.mark.parametrize(("forms", "kept"), [("_ _ _", 0), ("a _ _", 0), ("a b _", 1), ("a", 1), ("_", 0)])
def test_sentences_with_withheld_forms(forms, kept):
    lines = [word(i, form, "NOUN", 0) for i, form in enumerate(forms.split(), start=1)]
    assert len(parse_conllu(lines, "f", "ar")) == kept


def test_zero_width_non_joiner_is_deleted():
    assert parse_conllu([word(1, "می\u200cروم", "VERB")], "f", "fa")[0].tokens == ("میروم",)


def test_treebanks_belong_to_the_language_of_the_file_name(tmp_path):
    def text(form):
        return word(1, form, "NOUN") + "\n\n"

    path = ud_tgz(
        tmp_path / "ud.tgz",
        {
            "UD_Greek-GDT/el_gdt-ud-dev.conllu": text("zwei"),
            "UD_Ancient_Greek-PROIEL/grc_proiel-ud-dev.conllu": text("alt"),
            "UD_Greek-Aaa/el_aaa-ud-dev.conllu": text("eins"),
            "UD_Greek-GDT/el_gdt-ud-test.conllu": text("drei"),
        },
    )
    sentences = ud_pos.read_ud(path, "dev", ["el"])
    assert [sentence.tokens for sentence in sentences["el"]] == [("eins",), ("zwei",)]
    assert "kk" not in ud_pos.read_dev({"gold": path}, ["el", "kk"], {})
    with pytest.raises(UserError, match=r"ud\.tgz.*kk_\*-ud-test"):
        ud_pos.read_test({"gold": path}, ["kk"], {})
    with pytest.raises(UserError, match="1 rows where the upstream file has 7"):
        ud_pos.read_test({"gold": path}, ["el"], {"el": 7})


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["1\ta\tb"], r"f, line 1: 3 columns instead of 10"),
        ([word(1, "a", "NOUN"), word(3, "b", "NOUN")], r"line 2, id 3: word 2 expected"),
        ([word(1, "a", "NOUN"), word(1, "b", "NOUN")], r"line 2, id 1: word 2 expected"),
        ([word(1, "a", "NN")], r"line 1, id 1: unknown label 'NN'"),
        ([word("x", "a", "NOUN")], r"line 1: 'x' is not a word id"),
        (["1-2\tab\t" + "_\t" * 7 + "_", word(1, "a", "X", 2), word(2, "b", "X", 1)], r"cycle"),
        (["1-3\tab\t" + "_\t" * 7 + "_", word(1, "a", "X", 0)], r"range ends after the last word"),
    ],
)
def test_broken_conllu_is_refused(lines, message):
    with pytest.raises(UserError, match=message):
        parse_conllu(lines, "f", "de")


# ---------------------------------------------------------------------------------------------------------------------
# XNLI


def test_xnli_excerpts(mirror, repository):
    folder = mirror / "excerpts/dl.fbaipublicfiles.com/XNLI"
    languages = yaml.safe_load((repository / "config/tasks/xnli.yaml").read_text())["languages"]
    assert len(languages) == 15
    for split in ("dev", "test"):
        pairs = xnli.read_xnli(folder / "XNLI-1.0.zip", split, languages)
        assert list(pairs) == languages
        assert all(len(rows) == 1 for rows in pairs.values())
    english = xnli.read_xnli(folder / "XNLI-1.0.zip", "test", ["en"])["en"][0]
    assert english.label == "contradiction"
    assert english.premise.startswith("Well, I wasn't even thinking")
    train = xnli.read_train({"train": folder / "XNLI-MT-1.0.zip"}, languages, {})
    assert {len(rows) for rows in train.values()} == {4}
    labels = {tuple(pair.label for pair in rows) for rows in train.values()}
    assert len(labels) == 1  # the translations keep the order of the English rows
    assert {label for row in labels for label in row} <= set(xnli.LABELS)


def test_contradictory_is_contradiction_and_quotes_are_text():
    lines = ["premise\thypo\tlabel", 'He said "no\t"Yes" ""\tcontradictory', "a\tb\tneutral"]
    assert xnli.parse_train(lines, "f")[0] == ('He said "no', '"Yes" ""', "contradiction")


def test_line_separators_inside_a_sentence_do_not_end_it(tmp_path):
    path = xnli_zip(tmp_path / "x.zip", [xnli_row(premise="eins\u2028zwei\x85drei")])
    assert xnli.read_xnli(path, "test", ["de"])["de"][0].premise == "eins\u2028zwei\x85drei"


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (["de\tneutral"], r"xnli\.test\.tsv, line 2: 2 columns instead of 19"),
        ([xnli_row(label="contradictory")], r"line 2, pairID 1: unknown label 'contradictory'"),
        ([xnli_row(), xnli_row()], r"line 3: pairID 1 of 'de' is already on line 2"),
        ([xnli_row(hypothesis=" ")], r"line 2, pairID 1: an empty sentence"),
        ([xnli_row(language="fr")], r"no row in language 'de'"),
        ([], r"a header and no rows"),
    ],
)
def test_broken_xnli_is_refused(tmp_path, rows, message):
    with pytest.raises(UserError, match=message):
        xnli.read_xnli(xnli_zip(tmp_path / "x.zip", rows), "test", ["de"])


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["a\tb\tc"], r"line 1: not the header"),
        (["premise\thypo\tlabel", "a\tb"], r"line 2: 2 columns instead of 3"),
        (["premise\thypo\tlabel", "a\tb\tmaybe"], r"line 2: unknown label 'maybe'"),
        (["premise\thypo\tlabel", "a\tb\tneutral", "c\td\tneutral"], r"fewer than two different labels"),
    ],
)
def test_broken_training_pairs_are_refused(lines, message):
    with pytest.raises(UserError, match=message):
        xnli.parse_train(lines, "f")


def test_an_unknown_task_is_refused_with_those_that_are_known():
    with pytest.raises(UserError, match=r"task: 'xnly' is unknown; the tasks are bucc, .*, xnli, xquad"):
        task_module("xnly")


def test_wrong_files_are_refused(tmp_path):
    (tmp_path / "no.zip").write_bytes(b"nothing")
    with pytest.raises(UserError, match="not a whole archive"):
        xnli.read_xnli(tmp_path / "no.zip", "test", ["de"])
    with pytest.raises(UserError, match=r"no member XNLI-1\.0/xnli\.dev\.tsv"):
        xnli.read_xnli(xnli_zip(tmp_path / "x.zip", [xnli_row()]), "dev", ["de"])
    with pytest.raises(UserError, match="not a whole tar"):
        ud_pos.read_ud(tmp_path / "no.zip", "test", ["de"])
    whole = ud_tgz(
        tmp_path / "u.tgz", {"UD_X/de_x-ud-test.conllu": "\n\n".join([word(1, f"{i}", "X") for i in range(999)])}
    )
    for size in (20, 300, whole.stat().st_size // 2):
        (tmp_path / "cut.tgz").write_bytes(whole.read_bytes()[:size])
        with pytest.raises(UserError, match="not a whole tar"):
            ud_pos.read_ud(tmp_path / "cut.tgz", "test", ["de"])
    with pytest.raises(UserError, match=r"u\.tgz: no usable sentence in any fr_\*-ud-test\.conllu"):
        ud_pos.read_gold(whole, "fr")
    (tmp_path / "latin").write_bytes("eins\nzw\xf6lf\n".encode("latin-1"))
    with pytest.raises(UserError, match="latin, line 2: not UTF-8"):
        read_lines(tmp_path / "latin")
    (tmp_path / "empty").write_text("\n")
    with pytest.raises(UserError, match="empty: the file is empty"):
        read_lines(tmp_path / "empty")
    with pytest.raises(UserError, match="1 rows where the upstream file has 5010"):
        xnli.read_test({"gold": xnli_zip(tmp_path / "y.zip", [xnli_row()])}, ["de"], {"de": 5010})


# ---------------------------------------------------------------------------------------------------------------------
# Tatoeba


def test_all_pairs_have_the_counts_of_the_task(mirror, repository):
    from plan.datasets import load_languages

    task = yaml.safe_load((repository / "config/tasks/tatoeba.yaml").read_text())
    languages = load_languages(repository / "config/languages.tsv")
    assert len(task["languages"]) == 36
    counts = task["counts"]["test"]
    checked = 0
    for language in task["languages"]:
        code = languages[language].tatoeba
        assert len(code) == 3
        stem = mirror / GITHUB / f"facebookresearch/LASER/main/data/tatoeba/v1/tatoeba.{code}-eng"
        paths = {f"foreign-{language}": Path(f"{stem}.{code}"), f"english-{language}": Path(f"{stem}.eng")}
        if not paths[f"foreign-{language}"].exists():
            continue  # four of the 36 are not in the mirror
        checked += 1
        pairs = tatoeba.read_test(paths, [language], {language: counts.get(language, counts["*"])})
        assert len(set(pairs[language][1])) == len(pairs[language][1])
    assert checked >= 32


def test_ud_languages_are_file_prefixes(repository):
    from plan.datasets import load_languages

    languages = load_languages(repository / "config/languages.tsv")
    task = yaml.safe_load((repository / "config/tasks/ud-pos.yaml").read_text())
    assert len(task["languages"]) == 33
    assert [languages[code].ud_prefix for code in task["languages"]] == task["languages"]


def test_misaligned_sides_are_refused(tmp_path):
    (tmp_path / "a").write_text("eins\nzwei\n")
    (tmp_path / "b").write_text("one\n")
    with pytest.raises(UserError, match=r"a: 2 lines, but .*b has 1"):
        tatoeba.read_pair(tmp_path / "a", tmp_path / "b")
    (tmp_path / "b").write_text("one\n\n")
    with pytest.raises(UserError, match="b, line 2: an empty sentence"):
        tatoeba.read_pair(tmp_path / "a", tmp_path / "b")


# ---------------------------------------------------------------------------------------------------------------------
# Prediction files


def test_prediction_files_read_back(tmp_path):
    labels = ["neutral", "entailment"]
    xnli.write_predictions(tmp_path / "x", labels)
    assert xnli.read_predictions(tmp_path / "x", labels) == labels
    tags = [("NOUN", "VERB"), ("X",)]
    ud_pos.write_predictions(tmp_path / "u", tags)
    assert (tmp_path / "u").read_text() == "NOUN\nVERB\n\nX\n\n"
    assert ud_pos.read_predictions(tmp_path / "u", tags) == tags
    by_layer = {("en-xx", 0): [1, 0], ("en-xx", 10): [0, 0], ("xx-en", 0): [1, 1], ("xx-en", 10): [0, 1]}
    tatoeba.write_layer_predictions(tmp_path / "t", by_layer)
    assert tatoeba.read_layer_predictions(tmp_path / "t", [0, 1]) == by_layer


@pytest.mark.parametrize(
    ("module", "text", "gold", "message"),
    [
        (xnli, "neutral\n", ["neutral"] * 2, "1 predictions for 2 gold rows"),
        (xnli, "neutral\nyes\n", ["neutral"] * 2, "p, line 2: unknown label 'yes'"),
        (ud_pos, "NOUN\n\nVERB\n", [("NOUN",), ("VERB", "X")], r"p, line 3, sentence 2: 1 tags for 2 gold tokens"),
        (ud_pos, "NOUN\n", [("NOUN",), ("VERB",)], "1 tagged sentences for 2 gold sentences"),
        (ud_pos, "NOUN\nNN\n", [("NOUN", "NOUN")], "p, line 2: unknown label 'NN'"),
        (tatoeba, "0\n1\n", [0, 1, 2], "2 predictions for 3 gold lines"),
        (tatoeba, "0\n-1\n", [0, 1], "p, line 2: '-1' is not a line number"),
    ],
)
def test_predictions_of_something_else_are_refused(tmp_path, module, text, gold, message):
    (tmp_path / "p").write_text(text)
    with pytest.raises(UserError, match=message):
        module.read_predictions(tmp_path / "p", gold)


# ---------------------------------------------------------------------------------------------------------------------
# The generated world is in the same formats


def test_readers_read_the_generated_world(tmp_path, repository):
    from plan.datasets import load_datasets, load_languages

    world = tmp_path / "world"
    script = [sys.executable, "workflow/scripts/build_world.py", "--scale", "config/scales/smoke.yaml", "--out", world]
    subprocess.run(script, cwd=repository, check=True, capture_output=True)
    scale = yaml.safe_load((repository / "config/scales/smoke.yaml").read_text())["world"]
    sources = load_datasets(repository / "config/datasets.tsv")
    table = load_languages(repository / "config/languages.tsv")
    paths = {name: world / sources[id_].path for name, id_ in [("gold", "xnli/1.0"), ("train", "xnli/mt-1.0")]}
    ud = {"gold": world / sources["ud/2.5"].path, "train": world / sources["ud/2.5"].path}
    languages = sorted(scale["languages"])
    for module, files, size in ((xnli, paths, scale["nli"]), (ud_pos, ud, scale["pos"])):
        for split, read in (("dev", module.read_dev), ("test", module.read_test)):
            examples = read(files, languages, {})
            assert {len(of) for of in examples.values()} == {size[split]}
            assert len({module.inputs_of(of) for of in examples.values()}) == len(languages)
    train = xnli.read_train(paths, languages, {})
    assert {len(pairs) for pairs in train.values()} == {scale["nli"]["train"]}
    assert len({tuple(pair.label for pair in pairs) for pairs in train.values()}) == 1
    assert len(ud_pos.read_train(ud, ["en"], {})["en"]) == scale["pos"]["train"]
    for language in set(languages) - {"en"}:
        code = table[language].tatoeba
        files = [world / sources[f"tatoeba/{code}-eng.{side}"].path for side in (code, "eng")]
        assert len(tatoeba.read_pair(*files)[0]) == scale["tatoeba"]
