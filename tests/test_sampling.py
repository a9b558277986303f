import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import training.assembly
from common.errors import UserError
from corpus.sampling import Source, plan, read_plan, sources_of_counts, sources_of_run, write_plan
from engine.forms import FORMS
from engine.shards import write_shard
from engine.streams import ItemOptions, Stream
from train_vocabulary import draws, quotas


def source(name: str, sentences: int, kind: str = "mono", corpus: str = "cc-100") -> Source:
    return Source(kind, corpus, name, sentences, 10 * sentences, "0" * 64)


def test_q_equals_the_formula() -> None:
    rows = plan([source("en", 8000), source("sw", 1000), source("de", 1000)], {"mono": 0.3, "bitext": 0.7})
    p = {"de": 0.1, "en": 0.8, "sw": 0.1}
    whole = sum(value**0.3 for value in p.values())
    assert [row.source.name for row in rows] == ["de", "en", "sw"]
    for row in rows:
        assert row.p == pytest.approx(p[row.source.name])
        assert row.q == pytest.approx(p[row.source.name] ** 0.3 / whole)


def test_two_equal_languages_by_hand() -> None:
    rows = plan([source("a", 900), source("b", 100)], {"mono": 0.5, "bitext": 1})
    assert [round(row.q, 12) for row in rows] == [0.75, 0.25]  # sqrt(.9) : sqrt(.1) = 3 : 1


@pytest.mark.parametrize(("alpha", "expected"), [(1.0, [0.9, 0.1]), (0.0, [0.5, 0.5])])
def test_alpha_goes_from_alike_to_as_in_the_data(alpha: float, expected: list[float]) -> None:
    rows = plan([source("a", 90), source("b", 10)], {"mono": alpha, "bitext": 1})
    assert [row.q for row in rows] == pytest.approx(expected)


def test_corpora_of_a_pair_share_its_q_by_size() -> None:
    sources = [
        source("en-fr", 600, "bitext", "MultiUN"),
        source("en-fr", 200, "bitext", "Europarl"),
        source("de-en", 200, "bitext", "Europarl"),
        source("en", 5, "mono"),
    ]
    rows = plan(sources, {"mono": 0.3, "bitext": 0.7})
    q = {(row.source.name, row.source.corpus): row.q for row in rows}
    whole = 0.8**0.7 + 0.2**0.7
    assert q["de-en", "Europarl"] == pytest.approx(0.2**0.7 / whole)
    assert q["en-fr", "MultiUN"] == pytest.approx(0.75 * 0.8**0.7 / whole)
    assert q["en-fr", "Europarl"] == pytest.approx(0.25 * 0.8**0.7 / whole)
    for kind in ("mono", "bitext"):
        assert sum(row.q for row in rows if row.source.kind == kind) == pytest.approx(1)
        assert sum(row.p for row in rows if row.source.kind == kind) == pytest.approx(1)


def test_a_limit_counts_pairs_of_a_language_over_its_corpora() -> None:
    sources = [
        source("en-fr", 1200, "bitext", "MultiUN"),
        source("en-fr", 400, "bitext", "Europarl"),
        source("de-en", 400, "bitext", "Europarl"),
    ]
    rows = plan(sources, {"mono": 1.0, "bitext": 1.0}, limit=300)  # of 800 and 200 pairs
    assert [(row.source.name, row.source.corpus, row.q) for row in rows] == [
        ("de-en", "Europarl", pytest.approx(0.4)),
        ("en-fr", "Europarl", pytest.approx(0.6 * 0.25)),
        ("en-fr", "MultiUN", pytest.approx(0.6 * 0.75)),
    ]
    assert [row.p for row in rows] == pytest.approx([row.q for row in rows])
    assert plan(sources, {"mono": 1.0, "bitext": 1.0}, limit=800) == plan(sources, {"mono": 1.0, "bitext": 1.0})
    alone = [source("en", 900), source("sw", 100)]  # sentences of one language are no pairs
    assert [row.q for row in plan(alone, {"mono": 1.0, "bitext": 1.0}, limit=300)] == pytest.approx([0.9, 0.1])


def test_a_limit_counts_the_pairs_that_the_run_takes(tmp_path: Path) -> None:
    """Half of the longer corpus is too short or too long: the limit is one of what training can take."""
    lengths = {
        "de-en/Europarl/0": [(12, 12)] * 30 + [(9, 12)] * 10 + [(70, 59)] * 20,
        "de-en/Europarl/1": [(64, 64)] * 10 + [(12, 3)] * 10,
        "de-en/MultiUN/0": [(10, 118)] * 20,
        "en-hi/IITB/0": [(20, 20)] * 5 + [(5, 5)] * 95,
    }
    manifests = []
    for name, pairs in lengths.items():
        pair, corpus, shard = name.split("/")
        manifests.append(tmp_path / "bitext" / corpus / pair / f"{shard}.json")
        manifests[-1].parent.mkdir(parents=True, exist_ok=True)
        sizes = np.array(pairs).ravel()
        batch = (np.full(sizes.sum(), 7), sizes, np.full(len(pairs), 2))
        write_shard(manifests[-1], [batch], "bitext", 1000, "vocabulary", "text")
    corpora = {"de-en": ["Europarl", "MultiUN"], "en-hi": ["IITB"]}
    run = {
        "data": {"bitext": {"corpora": corpora, "alpha": 1.0, "limit": 30}},
        "objectives": [{"name": "ppa", "options": {"least_tokens": 10, "most_tokens": 128}}],
    }
    sources, alpha = sources_of_run(run, Path("run.yaml"), manifests)
    assert {source.key[1:]: source.size for source in sources} == {
        ("Europarl", "de-en"): 40,
        ("MultiUN", "de-en"): 20,
        ("IITB", "en-hi"): 5,
    }
    rows = plan(sources, alpha, limit=30)  # 30 of the 60, and the 5
    assert [row.q for row in rows] == pytest.approx([20 / 35, 10 / 35, 5 / 35])

    write_plan(rows, tmp_path / "plan.tsv")
    taken, options = {}, ItemOptions(132, least_tokens=10, most_tokens=128)
    for source in training.assembly.read_plan(tmp_path / "plan.tsv", tmp_path, 30)[0]["bitext"]:
        stream = Stream(source, FORMS["apart"], options, seed=1)
        items = sum(len(stream.shard_items(shard)) for shard in range(len(stream.shards)))
        taken[source.name] = taken.get(source.name, 0) + items
    assert taken == {"de-en": 30, "en-hi": 5}
    whole = {**run, "data": {"bitext": {"corpora": corpora, "alpha": 1.0}}}
    assert sum(source.size for source in sources_of_run(whole, Path("run.yaml"), manifests)[0]) == 200


def write_manifest(root: Path, kind: str, corpus: str, name: str, shard: int, sentences: int) -> Path:
    path = root / kind / corpus / name / f"{shard}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"sentences": sentences, "tokens": 7 * sentences}))
    return path


RUN = {
    "data": {
        "mono": {"corpus": "cc-100", "languages": ["de", "en"], "alpha": 0.3},
        "bitext": {"corpora": {"de-en": ["Europarl"]}, "alpha": 0.7},
    }
}


@pytest.fixture
def manifests(tmp_path: Path) -> list[Path]:
    return [
        *(write_manifest(tmp_path, "mono", "cc-100", "de", shard, 10 + shard) for shard in range(12)),
        write_manifest(tmp_path, "mono", "cc-100", "en", 0, 300),
        write_manifest(tmp_path, "bitext", "Europarl", "de-en", 0, 80),
    ]


def test_plan_of_a_run_does_not_depend_on_the_order_of_its_shards(tmp_path: Path, manifests: list[Path]) -> None:
    for name, paths in (("a", manifests), ("b", manifests[::-1])):
        sources, alpha = sources_of_run(RUN, Path("run.yaml"), paths)
        assert alpha == {"mono": 0.3, "bitext": 0.7}
        write_plan(plan(sources, alpha), tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    rows = read_plan(tmp_path / "a")
    assert [(row.source.name, row.source.sentences) for row in rows] == [("de", 186), ("en", 300), ("de-en", 80)]
    assert [row.source.tokens for row in rows] == [7 * 186, 2100, 560]


def test_a_changed_manifest_changes_its_row_only(manifests: list[Path]) -> None:
    before = {s.name: s.sha256 for s in sources_of_run(RUN, Path("run.yaml"), manifests)[0]}
    content = json.loads(manifests[0].read_text()) | {"source_sha256": "another"}
    manifests[0].write_text(json.dumps(content))
    after = {s.name: s.sha256 for s in sources_of_run(RUN, Path("run.yaml"), manifests)[0]}
    assert {name for name in before if before[name] != after[name]} == {"de"}


def test_missing_and_extra_data_are_named(tmp_path: Path, manifests: list[Path]) -> None:
    with pytest.raises(UserError, match=r"none for bitext/Europarl/de-en, which run\.yaml names"):
        sources_of_run(RUN, Path("run.yaml"), manifests[:-1])
    extra = write_manifest(tmp_path, "mono", "cc-100", "sw", 0, 5)
    with pytest.raises(UserError, match=r"mono/cc-100/sw is not in the data of run\.yaml"):
        sources_of_run(RUN, Path("run.yaml"), [*manifests, extra])
    with pytest.raises(UserError, match="expected <mono or bitext>"):
        sources_of_run(RUN, Path("run.yaml"), [tmp_path / "0.json"])


def test_command_line_plans_from_counts(tmp_path: Path, repository: Path) -> None:
    paths = []
    for name, sentences in (("de", 100), ("en", 300)):
        path = tmp_path / "mono" / "cc-100" / name / "0.clean.json"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps({"in": {"sentences": 999}, "out": {"sentences": sentences, "words": 5}}))
        paths.append(path)
    script = repository / "workflow/scripts/plan_sampling.py"
    command = [sys.executable, script, "--counts", *paths, "--alpha", "0.5", "--out", tmp_path / "plan.tsv"]
    subprocess.run(command, check=True, capture_output=True)
    rows = read_plan(tmp_path / "plan.tsv")
    assert [row.source.sentences for row in rows] == [100, 300]
    assert rows[1].q / rows[0].q == pytest.approx(3**0.5)
    paths[0].write_text(json.dumps({"out": {"sentences": 0, "words": 0}}))
    empty = subprocess.run(command, capture_output=True, text=True)
    assert empty.returncode == 2 and "mono/cc-100/de: cleaning left no sentence" in empty.stderr


def test_a_plan_with_a_bad_row_is_named(tmp_path: Path) -> None:
    write_plan(plan([source("en", 5)], {"mono": 1, "bitext": 1}), tmp_path / "plan.tsv")
    (tmp_path / "older.tsv").write_text((tmp_path / "plan.tsv").read_text() + "mono\tcc-100\n")  # it has no sum
    with pytest.raises(UserError, match=r"older\.tsv:3: 2 cells"):
        read_plan(tmp_path / "older.tsv")
    with pytest.raises(UserError, match="no counts of sentences"):
        bad = tmp_path / "mono/cc-100/en/0.clean.json"
        bad.parent.mkdir(parents=True)
        bad.write_text("[]")
        sources_of_counts([bad])


def test_quotas_sum_and_draws_are_even() -> None:
    rows = plan([source("a", 70), source("b", 20), source("c", 10)], {"mono": 0.3, "bitext": 1})
    assert sum(quotas(rows, 1001)) == 1001
    for available, wanted in ((10, 3), (10, 10), (10, 25), (7, 0)):
        taken = [draws(available, wanted, i) for i in range(available)]
        assert sum(taken) == wanted and max(taken) - min(taken) <= 1
