"""WMT14: what the readers take and refuse, and the scores of known translations of newstest2014."""

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from common.errors import UserError
from engine import bleu
from plan.datasets import load_datasets
from tasks import wmt14, wmt14_en_de, wmt14_en_fr
from tasks.known import measure_of, task_module

TASKS = {"de": "wmt14-en-de", "fr": "wmt14-en-fr"}
COUNTS = {"de": (3003, 3000), "fr": (3003, 6003)}  # test, dev
SOURCES = ["One line.", "Two lines.", "Three."]
REFERENCES = ["Eine Zeile.", "Zwei\u2028Zeilen.", "Drei\x0bund\x85mehr."]


def write(path: Path, lines: list[str]) -> Path:
    path.write_bytes("".join(line + "\n" for line in lines).encode())
    return path


@pytest.fixture
def paths(tmp_path) -> dict[str, Path]:
    files = {}
    for part, start in (("", 0), ("dev_", 1), ("older_", 2)):
        for name, lines in (("english", SOURCES), ("foreign", REFERENCES)):
            files[f"{part}{name}-fr"] = write(tmp_path / f"{part}{name}", lines[start:])
    return files


# ---------------------------------------------------------------------------------------------------------------------
# What is read


def test_only_a_line_feed_ends_a_segment(paths):
    lines = wmt14.read_test(paths, ["fr"], {"fr": 3})["fr"]
    assert lines == wmt14.Lines(SOURCES, REFERENCES)
    assert wmt14.gold_of(lines) == REFERENCES


def test_the_older_dev_set_comes_first(paths):
    dev = wmt14.read_dev(paths, ["fr"], {"fr": 3})["fr"]
    assert dev == wmt14.Lines([SOURCES[2], *SOURCES[1:]], [REFERENCES[2], *REFERENCES[1:]])
    newer = {key: path for key, path in paths.items() if not key.startswith("older_")}
    assert wmt14.read_dev(newer, ["fr"], {})["fr"] == wmt14.Lines(SOURCES[1:], REFERENCES[1:])


def test_inputs_are_the_sources_alone():
    inputs = wmt14.inputs_of(wmt14.Lines(SOURCES, REFERENCES))
    assert inputs == hashlib.sha256(json.dumps(SOURCES).encode()).hexdigest()
    assert inputs == wmt14.inputs_of(wmt14.Lines(SOURCES, SOURCES))
    assert inputs != wmt14.inputs_of(wmt14.Lines(SOURCES[::-1], REFERENCES))


def test_predictions_come_back_as_they_were_written(tmp_path):
    for said in (REFERENCES, ["", "b", ""], ["", "", ""], ["  ", "", "\t"]):
        wmt14.write_predictions(tmp_path / "test-de.txt", said)
        assert wmt14.read_predictions(tmp_path / "test-de.txt", REFERENCES) == said


@pytest.mark.parametrize("said", ["a\nb", "a\rb", "ab\r", "\n"])
def test_a_line_end_within_a_translation_shifts_no_other(tmp_path, said):
    wmt14.write_predictions(tmp_path / "test-de.txt", [said, "c", "d"])
    first, *others = wmt14.read_predictions(tmp_path / "test-de.txt", REFERENCES)
    assert others == ["c", "d"] and first == said.replace("\r", " ").replace("\n", " ")


def test_a_reference_file_is_gold_by_itself(paths):
    for module in (wmt14_en_de, wmt14_en_fr):
        assert module.read_gold(paths["foreign-fr"], "fr") == REFERENCES


# ---------------------------------------------------------------------------------------------------------------------
# What is refused


@pytest.mark.parametrize("part", ["", "dev_", "older_"])
@pytest.mark.parametrize("side", ["english", "foreign"])
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "{path}: the file is empty"),
        (b"\n\n", "{path}: the file is empty"),
        (b"a\n\nb\n", "{path}, line 2: an empty line"),
        (b"a\nb\n \t\n", "{path}, line 3: an empty line"),
        (b"a\nb\nc\n\n", "{path}, line 4: an empty line"),
        (b"a\nb\xff\n", "{path}, line 2: not UTF-8"),
        (None, "{path}: no such file"),
        (b"a\nb\nc\nd\n", "{foreign}: {f} lines, but {english} has {e}"),
    ],
)
def test_bad_files_are_named(paths, part, side, content, message):
    path, foreign, english = (paths[f"{part}{name}-fr"] for name in (side, "foreign", "english"))
    lines = {name: len(paths[f"{part}{name}-fr"].read_text("utf-8").split("\n")) - 1 for name in ("foreign", "english")}
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)
        lines[side] = content.count(b"\n")
    read = wmt14.read_dev if part else wmt14.read_test
    with pytest.raises(UserError) as error:
        read(paths, ["fr"], {})
    expected = message.format(path=path, foreign=foreign, english=english, f=lines["foreign"], e=lines["english"])
    assert str(error.value).startswith(expected)


def test_files_of_another_size_are_named(paths):
    with pytest.raises(UserError, match=r"foreign: 3 rows where the upstream file has 3003; .*--counts any"):
        wmt14.read_test(paths, ["fr"], {"fr": 3003})
    with pytest.raises(UserError, match=r"older_foreign, .*dev_foreign: 3 rows where the upstream file has 6003"):
        wmt14.read_dev(paths, ["fr"], {"fr": 6003})


@pytest.mark.parametrize("found", [2, 4])
def test_another_number_of_translations_is_refused(tmp_path, found):
    write(tmp_path / "test-de.txt", ["a"] * found)
    with pytest.raises(UserError, match=rf"test-de\.txt: {found} translations for 3 reference lines"):
        wmt14.read_predictions(tmp_path / "test-de.txt", REFERENCES)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the file is empty"),
        (b"\n\n", "2 translations for 3 reference lines"),
        (b"a\n\xfe\nc\n", "line 2: not UTF-8"),
        (None, "no such file"),
    ],
)
def test_bad_predictions_are_named(tmp_path, content, message):
    path = tmp_path / "test-de.txt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UserError) as error:
        wmt14.read_predictions(path, REFERENCES)
    assert str(path) in str(error.value) and message in str(error.value)


# ---------------------------------------------------------------------------------------------------------------------
# What is measured


def test_metrics_are_in_the_order_of_the_papers_and_chance_is_nothing():
    for task in TASKS.values():
        metrics = task_module(task).METRICS
        assert list(metrics) == ["sacrebleu", "bleu", "chrf"]
        assert {metric.chance for metric in metrics.values()} == {"nothing"}


def test_tokenised_bleu_is_that_of_the_language():
    gold, found = ["L'été n'est pas fini, c'est l'automne qui vient."], ["L'été n'est pas fini, et l'automne vient."]
    for language, task in TASKS.items():
        assert measure_of(task, "bleu")(gold, found) == bleu.tokenised_bleu(gold, found, language)
    assert measure_of(TASKS["fr"], "bleu")(gold, found) != measure_of(TASKS["de"], "bleu")(gold, found)


def test_scoring_starts_without_the_packages_of_bleu(repository):
    code = (
        "import sys; sys.path.insert(0, 'workflow/scripts'); import tasks.known; "
        "print(sorted({'sacrebleu', 'sacremoses', 'numpy', 'torch'} & set(sys.modules)))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=repository, check=True)
    assert result.stdout.strip() == "[]"


# ---------------------------------------------------------------------------------------------------------------------
# The files of the papers


@pytest.fixture(scope="module")
def upstream(repository, mirror) -> dict[str, dict[str, Path]]:
    """By language, under the keys of the task."""
    datasets = load_datasets(repository / "config/datasets.tsv")
    keys: dict[str, dict[str, Path]] = {}
    for language, l3, years in (
        ("de", "deu", {"": 2014, "dev_": 2013}),
        ("fr", "fra", {"": 2014, "dev_": 2013, "older_": 2012}),
    ):
        keys[language] = {
            f"{part}{side}-{language}": mirror / datasets[f"newstest/{year}.eng-{l3}.{code}"].path
            for part, year in years.items()
            for side, code in (("english", "eng"), ("foreign", l3))
        }
    return keys


@pytest.fixture(scope="module")
def newstest2014(upstream) -> dict[str, wmt14.Lines]:
    return {
        language: task_module(task).read_test(upstream[language], [language], {language: COUNTS[language][0]})[language]
        for language, task in TASKS.items()
    }


def test_the_dev_sets_of_the_papers(upstream):
    dev = {
        language: task_module(task).read_dev(upstream[language], [language], {language: COUNTS[language][1]})[language]
        for language, task in TASKS.items()
    }
    assert {language: len(lines.references) for language, lines in dev.items()} == {"de": 3000, "fr": 6003}
    assert dev["fr"].sources[3003:] == dev["de"].sources  # newstest2013 has one English side
    assert len(wmt14.read_text(upstream["fr"]["older_foreign-fr"])) == 3003


@pytest.mark.parametrize("pair", ["2012", "2013"])
def test_the_english_sides_of_both_pairs_are_equal(mirror, repository, pair):
    datasets = load_datasets(repository / "config/datasets.tsv")
    de, fr = (mirror / datasets[f"newstest/{pair}.eng-{l3}.eng"].path for l3 in ("deu", "fra"))
    assert wmt14.read_text(de) == wmt14.read_text(fr)


@pytest.mark.parametrize("language", TASKS)
@pytest.mark.parametrize("metric", ["sacrebleu", "bleu", "chrf"])
def test_the_reference_itself_has_full_marks(newstest2014, language, metric):
    gold = wmt14.gold_of(newstest2014[language])
    assert measure_of(TASKS[language], metric)(gold, gold) == pytest.approx(100, abs=1e-9)


@pytest.mark.parametrize(("language", "length"), [("de", 62_688), ("fr", 77_306)])
def test_the_reference_is_as_long_as_that_of_the_papers(newstest2014, language, length):
    """What sacreBLEU prints as ref_len for test.wmt14/full and tok.13a."""
    from sacrebleu import BLEU

    gold = wmt14.gold_of(newstest2014[language])
    assert BLEU().corpus_score(gold, [gold]).ref_len == length


@pytest.mark.parametrize(("language", "shortened", "untranslated"), [("de", 69.6448, 2.7545), ("fr", 68.4722, 2.4267)])
def test_known_translations_have_known_scores(newstest2014, language, shortened, untranslated):
    """Of the reference without every seventh word, and of the source."""
    lines, sacrebleu = newstest2014[language], measure_of(TASKS[language], "sacrebleu")
    without = [" ".join(word for i, word in enumerate(line.split(" "), 1) if i % 7) for line in lines.references]
    assert sacrebleu(lines.references, without) == pytest.approx(shortened, abs=5e-5)
    assert sacrebleu(lines.references, lines.sources) == pytest.approx(untranslated, abs=5e-5)


def test_translations_that_say_nothing_score_nothing(newstest2014):
    gold = wmt14.gold_of(newstest2014["de"])[:50]
    for metric in ("sacrebleu", "bleu", "chrf"):
        assert measure_of(TASKS["de"], metric)(gold, [""] * len(gold)) == 0
