"""The tables of sources and languages: what they hold, and what the loader says about a wrong line."""

import csv
import random
import shlex
import string
import subprocess
import sys
import time
from pathlib import Path

import pytest

from common.errors import UserError
from plan import datasets as t


def codes(text: str) -> list[str]:
    return text.split()


XNLI = codes("ar bg de el en es fr hi ru sw th tr ur vi zh")
PANX = codes(
    "af ar bg bn de el en es et eu fa fi fr he hi hu id it ja jv ka kk ko ml mr ms my nl pt ru sw ta te th tl tr ur vi"
    " yo zh"
)
UD = codes("af ar bg de el en es et eu fa fi fr he hi hu id it ja kk ko mr nl pt ru ta te th tl tr ur vi yo zh")
TATOEBA = codes(
    "ar he vi id jv tl eu ml ta te af nl de el bn hi mr ur fa fr it pt es bg ru ja ka ko th sw zh kk tr et fi hu"
)
XQUAD = codes("ar de el en es hi ru th tr vi zh")
MLQA = codes("ar de en es hi vi zh")
TYDIQA = codes("ar bn en fi id ko ru sw te")
PAWSX = codes("de en es fr ja ko zh")
XTREME = sorted({*XNLI, *PANX, *UD, *TATOEBA, *XQUAD, *MLQA, *TYDIQA, *PAWSX})


@pytest.fixture(scope="module")
def table(repository):
    return t.load_datasets(repository / "config" / "datasets.tsv")


@pytest.fixture(scope="module")
def languages(repository):
    return t.load_languages(repository / "config" / "languages.tsv")


# ---------------------------------------------------------------- what the tables hold


def test_every_language_code_of_a_row_is_known(table, languages):
    unknown = {(row.id, code) for row in table.values() for code in row.languages if code not in languages}
    assert not unknown


def test_paths_are_host_and_path_of_the_url(table):
    assert table["xnli/1.0"].path == "dl.fbaipublicfiles.com/XNLI/XNLI-1.0.zip"
    assert table["multinli/1.0"].path == "cims.nyu.edu/~sbowman/multinli/multinli_1.0.zip"


def test_cc100_is_complete(table, languages):
    rows = {id_ for id_ in table if id_.startswith("cc-100/")}
    assert len(rows) == 116
    named = [code for language in languages.values() for code in language.cc100 + language.cc100_variants]
    assert sorted(named) == sorted(id_.removeprefix("cc-100/") for id_ in rows)
    assert t.mono_ids("cc-100", "zh", table, languages) == ["cc-100/zh-Hans", "cc-100/zh-Hant"]
    assert t.mono_ids("cc-100", "hi", table, languages) == ["cc-100/hi"]
    assert t.mono_ids("cc-100", "hi", table, languages, variants=True) == ["cc-100/hi", "cc-100/hi_rom"]
    for language in languages:
        for id_ in t.mono_ids("cc-100", language, table, languages, variants=True):
            assert table[id_].languages == (language,)


def test_bitext_addresses_are_pinned_and_alphabetical(table):
    for row in table.values():
        if row.id.startswith("opus/"):
            _, corpus, pair = row.id.split("/")
            first, second = pair.split("-")
            assert first < second, row.id
            head, version, tail = row.url.removeprefix(f"https://object.pouta.csc.fi/OPUS-{corpus}/").partition(
                "/moses/"
            )
            assert head.startswith("v") and version and tail == f"{pair}.txt.zip", row.url
            assert "latest" not in row.url


@pytest.mark.parametrize(
    ("corpus", "pair", "id_"),
    [
        ("MultiUN", "ar-en", "opus/MultiUN/ar-en"),
        ("MultiUN", "en-zh", "opus/MultiUN/en-zh"),
        ("IITB", "en-hi", "iitb/en-hi"),
        ("Europarl", "bg-en", "opus/Europarl/bg-en"),
        ("EUbookshop", "de-en", "opus/EUbookshop/de-en"),
        ("OpenSubtitles", "en-th", "opus/OpenSubtitles/en-th"),
        ("Tanzil", "en-ur", "opus/Tanzil/en-ur"),
        ("GlobalVoices", "en-sw", "opus/GlobalVoices/en-sw"),
        ("SETIMES", "en-tr", "opus/SETIMES/en-tr"),
        ("WikiMatrix", "en-hi", "opus/WikiMatrix/en-hi"),
        ("CCAligned", "en-ta", "opus/CCAligned/en-ta"),
        ("OpenSubtitles", "en-zh", "opus/OpenSubtitles/en-zh_cn"),
        ("GlobalVoices", "en-ja", "opus/GlobalVoices/en-jp"),
    ],
)
def test_corpora_that_the_papers_name(table, languages, corpus, pair, id_):
    assert t.bitext_ids(corpus, pair, table, languages)[0] == id_
    assert "-".join(table[id_].languages) == pair


def test_a_split_language_gives_all_its_files(table, languages):
    ids = t.bitext_ids("CCAligned", "en-zh", table, languages)
    assert ids == ["opus/CCAligned/en-zh_CN", "opus/CCAligned/en-zh_TW"]


@pytest.mark.parametrize(
    ("corpus", "pairs"),
    [
        ("wmt13-europarl-v7", ["de-en", "en-fr"]),
        ("wmt13-commoncrawl", ["de-en", "en-fr"]),
        ("wmt13-un", ["en-fr"]),
        ("wmt14-nc-v9", ["de-en", "en-fr"]),
        ("wmt17-nc-v12", ["de-en"]),
        ("wmt10-giga-fren", ["en-fr"]),
    ],
)
def test_an_archive_of_several_pairs_stands_for_each_of_them(table, languages, corpus, pairs):
    found = {}
    for pair in ("de-en", "en-fr", "en-ru"):
        try:
            found[pair] = t.bitext_ids(corpus, pair, table, languages)
        except UserError as error:
            assert f"{corpus} has {', '.join(table[corpus].languages)} and so no {pair}; take" in str(error)
    assert found == {pair: [corpus] for pair in pairs}
    assert table[corpus].kind == "train"


def test_only_a_row_of_training_text_stands_for_a_corpus(table, languages):
    for corpus in ("xlm-r/sentencepiece", "wmt14/test-full", "wmt14", "nc-v9"):
        with pytest.raises(
            UserError, match=f"no row opus/{corpus}/de-en or {corpus}/de-en, nor {corpus} of kind train"
        ):
            t.bitext_ids(corpus, "de-en", table, languages)


def test_every_bitext_row_is_found_by_corpus_and_pair(table, languages):
    lost = []
    for row in table.values():
        if row.kind == "bitext":
            corpus = "IITB" if row.id == "iitb/en-hi" else row.id.split("/")[1]
            if row.id not in t.bitext_ids(corpus, "-".join(row.languages), table, languages):
                lost.append(row.id)
    assert not lost


def test_the_pairs_of_veco_have_a_source(table):
    pairs = {row.languages for row in table.values() if row.kind == "bitext"}
    veco = codes(
        "af ar bg bn cs de el en es et eu fa fi fr fy gd he hi hu id it ja ka kk ko lt lv ml ms my ne nl pl pt ro ru si"
        " sw ta te th tl tr ur vi yo zh"
    )
    inside = {pair for pair in pairs if {*pair} <= {*veco}}
    assert len(inside) >= 879
    # The rarest of the printed table, and one whose printed name is not alphabetical.
    assert {("en", "yo"), ("en", "gd"), ("es", "fy"), ("ne", "zh"), ("sw", "yo")} <= inside


def languages_of(table, prefix):
    return {code for row in table.values() if row.id.startswith(prefix) for code in row.languages}


@pytest.mark.parametrize(
    ("prefix", "expected"),
    [
        ("xnli/1.0", XNLI),
        ("xnli/mt-1.0", XNLI),
        ("pawsx/", PAWSX),
        ("ud/2.5", UD),
        ("panx/", PANX),
        ("xquad/", [*XQUAD, "ro"]),
        ("mlqa/1.0", MLQA),
        ("tydiqa/", TYDIQA),
        ("squad/", ["en"]),
        ("multinli/", ["en"]),
        ("bucc2018/", ["de", "en", "fr", "ru", "zh"]),
        ("tatoeba/", [*TATOEBA, "en"]),
        ("conll2002/", ["es", "nl"]),
        ("conll2003/", ["de", "en"]),
        ("alignment/", ["de", "en", "fr", "hi", "ro"]),
        ("wmt14/test-full", ["de", "en", "fr"]),
        ("newstest/", ["de", "en", "fr"]),
        ("xtreme/xnli", [code for code in XNLI if code != "en"]),
        ("xtreme/pawsx", [code for code in PAWSX if code != "en"]),
        ("xtreme/squad", [code for code in XQUAD if code != "en"]),
        ("xtreme/tydiqa", [code for code in TYDIQA if code != "en"]),
    ],
)
def test_evaluation_sets_cover_their_languages(table, prefix, expected):
    assert languages_of(table, prefix) == set(expected)


def test_every_xtreme_language_has_text_and_a_name_in_every_source(table, languages):
    assert len(XTREME) == 40
    for code in XTREME:
        assert t.mono_ids("cc-100", code, table, languages)
        language = languages[code]
        assert language.lid and language.script and language.word_order_note
        assert not (code in UD and language.ud_prefix != code)
    for code in TATOEBA:
        three = languages[code].tatoeba
        assert f"tatoeba/{three}-eng.{three}" in table and f"tatoeba/{three}-eng.eng" in table


def test_models(table):
    assert table["lid.176"].url.endswith("lid.176.bin") and table["lid.176.ftz"].bytes == 938_013
    model = table["xlm-r/sentencepiece"]
    assert model.bytes == 5_069_051 and model.sha256.startswith("cfc8146a")


def test_sums_agree_with_the_mirror(table, mirror):
    with open(mirror / "MANIFEST.tsv", encoding="utf-8", newline="") as file:
        listed = {row["path"]: row for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)}
    agreed = 0
    for row in table.values():
        entry = listed.get(row.path)
        if entry and entry["kind"] == "exact":
            assert (row.bytes, row.sha256) == (int(entry["bytes"]), entry["sha256"]), row.id
            agreed += 1
    assert agreed > 80
    # Whatever the mirror holds for the corpora is spelt as the table spells it.
    known = {t.path_of(url) for row in table.values() for url in row.urls}
    for path in listed:
        bare = path.removeprefix("excerpts/").removeprefix("standins/")
        if "/cc-100/" in bare or ("/moses/" in bare and "/OPUS-Tatoeba/" not in bare):
            assert bare in known, path


def test_loading_is_quick_and_needs_no_package(repository):
    code = (
        "import sys, time; sys.path.insert(0, 'workflow/scripts'); "
        "from plan import datasets; from common import errors; "
        "datasets.load_datasets(); datasets.load_languages(); "
        "outside = [n for n, m in sys.modules.items() if 'site-packages' in (getattr(m, '__file__', '') or '')]; "
        "assert not outside, outside"
    )
    start = time.monotonic()
    subprocess.run([sys.executable, "-S", "-c", code], cwd=repository, check=True)
    assert time.monotonic() - start < 3


# ---------------------------------------------------------------- what the loader refuses

HEADER = "\t".join(t.DATASET_COLUMNS)
GOOD = ["a/b", "https://h.example/a.zip", "", "3", "0" * 64, "MIT", "de,en", "bitext", ""]


def write(tmp_path: Path, *rows: list[str], header: str = HEADER) -> Path:
    path = tmp_path / "datasets.tsv"
    path.write_text("\n".join([header, *("\t".join(row) for row in rows)]) + "\n", encoding="utf-8")
    return path


def with_cell(column: str, value: str) -> list[str]:
    return [value if name == column else cell for name, cell in zip(t.DATASET_COLUMNS, GOOD, strict=True)]


def test_no_url_holds_what_a_shell_reads(tmp_path):
    """200 seeded addresses with all that is printed, and more: those that are read are one plain word."""
    chance, letters, read = random.Random(1), string.printable + "\u2028é\x7f\0", 0
    for _ in range(200):
        url = "https://h/" + "".join(chance.choices(letters if chance.random() < 0.7 else "ab%+,=@.~", k=6))
        try:
            [row] = t.load_datasets(write(tmp_path, with_cell("url", url))).values()
        except UserError as error:
            assert ", column url: " in str(error) or ":2: " in str(error) or ":3: " in str(error)
        else:
            read += 1
            assert shlex.quote(row.path).strip("'") == row.path and shlex.split(row.path) == [row.path]
    assert read > 20


def test_a_good_row(tmp_path):
    row = t.load_datasets(write(tmp_path, with_cell("fallback_urls", "http://b.example/x http://c.example/y")))["a/b"]
    assert row.path == "h.example/a.zip" and row.bytes == 3 and row.languages == ("de", "en")
    assert row.urls == ("https://h.example/a.zip", "http://b.example/x", "http://c.example/y")
    empty = t.load_datasets(write(tmp_path, with_cell("sha256", "")))["a/b"]
    assert empty.sha256 is None


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("id", "a b", "is not an id"),
        ("id", "a/../b", "is not an id"),
        ("id", "", "is not an id"),
        ("url", "ftp://h/a", "does not begin with"),
        ("url", "https://h/a?download=1", "query"),
        ("url", "https://h/", "names no file"),
        ("url", "https://h", "names no file"),
        ("url", "https://h/a/../b", "path part"),
        ("url", "https://h/$(id)", "holds '$'; write it percent-encoded, as %24"),
        ("url", "https://h/a\u2028b", r"holds '\u2028'; write it percent-encoded, as %E2%80%A8"),
        ("url", "https://h/{path}", "holds '{'"),
        ("fallback_urls", "https://h/it's", 'holds "\'"'),
        ("fallback_urls", "h/a", "does not begin with"),
        ("bytes", "3,000", "not a number"),
        ("bytes", "-3", "not a number"),
        ("sha256", "0" * 63, "64 lower-case hex"),
        ("sha256", "A" * 64, "64 lower-case hex"),
        ("licence", "", "is empty"),
        ("languages", "de,EN", "'EN' is not a project language code"),
        ("languages", "en,de", "alphabetical"),
        ("languages", "en", "alphabetical"),
        ("kind", "corpus", "use one of mono, sentences"),
    ],
)
def test_a_wrong_cell_is_named_with_line_and_column(tmp_path, column, value, message):
    path = write(tmp_path, ["first", "https://h.example/first", *GOOD[2:]], with_cell(column, value))
    with pytest.raises(UserError) as error:
        t.load_datasets(path)
    assert f"{path}:3, column {column}: " in str(error.value) and message in str(error.value)


def test_a_row_of_a_language_that_the_other_table_lacks_is_named(tmp_path):
    path = write(tmp_path, GOOD)
    codes = GOOD[6].split(",")
    assert t.load_datasets(path, codes) == t.load_datasets(path)
    with pytest.raises(UserError) as error:
        t.load_datasets(path, codes[1:])
    told = (
        f"{path}:2, column languages: {codes[0]!r} is not a language of config/languages.tsv; mend the code, or add it"
    )
    assert str(error.value).startswith(told)


def test_twice_the_same(tmp_path):
    with pytest.raises(UserError, match=r":3, column id: 'a/b' is already on line 2"):
        t.load_datasets(write(tmp_path, GOOD, with_cell("url", "https://h.example/c")))
    with pytest.raises(UserError, match=r":3, column url: h\.example/a\.zip is already the local path of line 2"):
        t.load_datasets(write(tmp_path, GOOD, with_cell("id", "c")))


def test_a_wrong_shape(tmp_path):
    with pytest.raises(UserError, match=r":2: 8 columns instead of 9"):
        t.load_datasets(write(tmp_path, GOOD[:-1]))
    with pytest.raises(UserError, match=r":1: no column sha256"):
        t.load_datasets(write(tmp_path, header=HEADER.replace("sha256", "md5")))
    with pytest.raises(UserError, match=r":1: unknown column 'size'"):
        t.load_datasets(write(tmp_path, header=HEADER + "\tsize"))
    with pytest.raises(UserError, match="no such file"):
        t.load_datasets(tmp_path / "none.tsv")


def test_columns_may_stand_in_another_order(tmp_path):
    path = write(tmp_path, GOOD[::-1], header="\t".join(t.DATASET_COLUMNS[::-1]))
    assert t.load_datasets(path)["a/b"].url == "https://h.example/a.zip"


def test_wrong_languages(tmp_path):
    path = tmp_path / "languages.tsv"
    header = "\t".join(t.LANGUAGE_COLUMNS)
    good = "de\tGerman\tIndo-European\tLatn\tde\t\tde\tdeu\tde\tde\tSVO"
    for lines, message in (
        ([good, good], r":3, column code: 'de' is already on line 2"),
        ([good.replace("de\tGerman", "DE\tGerman")], r":2, column code: 'DE'"),
        ([good.replace("Latn", "")], r":2, column script: is empty"),
    ):
        path.write_text("\n".join([header, *lines]) + "\n")
        with pytest.raises(UserError, match=message):
            t.load_languages(path)


def test_unknown_names(table, languages):
    with pytest.raises(UserError, match="no language 'xx'"):
        t.mono_ids("cc-100", "xx", table, languages)
    with pytest.raises(UserError, match="no row oscar/de"):
        t.mono_ids("oscar", "de", table, languages)
    with pytest.raises(UserError, match="no row opus/MultiUN/en-hi"):
        t.bitext_ids("MultiUN", "en-hi", table, languages)
    with pytest.raises(UserError, match="alphabetical order"):
        t.bitext_ids("MultiUN", "en-ar", table, languages)
