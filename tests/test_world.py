"""The mini-world: exact, reproducible, in the upstream formats, and dirty exactly where it says."""

import hashlib
import json
import lzma
import math
import random
import tarfile
import zipfile
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest
import yaml

from build_world import LABELS, build_world, read_settings
from common.errors import UserError
from small_world import DATASETS, SETTINGS
from world.concepts import Event, Storyteller, World, build_concepts, document, inference_pair
from world.dirt import dirty_documents, dirty_pairs
from world.languages import PROFILES, Speaker, alignment, build_language, detokenise
from world.languages import UPOS as UPOS_OF

WRITTEN_FIRST = {  # before the world had more tasks than three
    "data.statmt.org/cc-100/de.txt.xz": "a1494960fa60d710",
    "data.statmt.org/cc-100/en.txt.xz": "1bcdd4c874a6685d",
    "data.statmt.org/cc-100/hi.txt.xz": "e0bf6cd26ce9e6bc",
    "data.statmt.org/cc-100/zh-Hans.txt.xz": "2c8db82e84001532",
    "data.statmt.org/cc-100/zh-Hant.txt.xz": "224af8398e5f28f4",
    "dl.fbaipublicfiles.com/XNLI/XNLI-1.0.zip": "c3d45e72c9fca4e9",
    "dl.fbaipublicfiles.com/XNLI/XNLI-MT-1.0.zip": "d2065c819417cf3c",
    "gold/dirt.tsv": "403ff21a11d6158c",
    "lindat.mff.cuni.cz/repository/xmlui/bitstream/handle/11234/1-3105/ud-treebanks-v2.5.tgz": "9690cbd17a14fceb",
    "object.pouta.csc.fi/OPUS-Europarl/v8/moses/de-en.txt.zip": "418e128b159cde0a",
    "object.pouta.csc.fi/OPUS-MultiUN/v1/moses/en-zh.txt.zip": "c7d7955a656da14d",
    "raw.githubusercontent.com/facebookresearch/LASER/main/data/tatoeba/v1/tatoeba.cmn-eng.cmn": "86f297a270dba2ff",
    "raw.githubusercontent.com/facebookresearch/LASER/main/data/tatoeba/v1/tatoeba.cmn-eng.eng": "4b6fcfabaa776e8d",
    "raw.githubusercontent.com/facebookresearch/LASER/main/data/tatoeba/v1/tatoeba.deu-eng.deu": "1fc9bd8373cb7c5f",
    "raw.githubusercontent.com/facebookresearch/LASER/main/data/tatoeba/v1/tatoeba.deu-eng.eng": "4c0431cbfbabb9b7",
    "raw.githubusercontent.com/facebookresearch/LASER/main/data/tatoeba/v1/tatoeba.hin-eng.eng": "9db2d0c75f429cf8",
    "raw.githubusercontent.com/facebookresearch/LASER/main/data/tatoeba/v1/tatoeba.hin-eng.hin": "76b775ab07025a0b",
    "www.cfilt.iitb.ac.in/~parallelcorp/iitb_en_hi_parallel/iitb_corpus_download/parallel.tgz": "27d857eb6a2049cd",
}


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("world")
    build_world(SETTINGS, DATASETS, out)
    return out


def test_one_seed_one_world_another_seed_another(built, tmp_path):
    build_world(SETTINGS, DATASETS, tmp_path / "same")
    build_world({**SETTINGS, "seed": 2}, DATASETS, tmp_path / "other")
    manifest = (built / "MANIFEST.tsv").read_text()
    assert (tmp_path / "same" / "MANIFEST.tsv").read_text() == manifest
    sums = {line.split("\t")[0]: line.split("\t")[2] for line in manifest.splitlines()[1:]}
    others = (tmp_path / "other" / "MANIFEST.tsv").read_text().splitlines()[1:]
    assert len(others) == len(sums)
    assert all(sums[line.split("\t")[0]] != line.split("\t")[2] for line in others)


def test_what_the_world_wrote_first_stays_as_it_was(built):
    """Committed scores rest on it: whatever is added draws from streams of its own, after everything here."""
    found = {}
    for path in built.rglob("*"):
        digest = hashlib.sha256()
        for name, content in contents(path).items() if path.is_file() else ():
            digest.update(name.encode() + b"\0" + content + b"\0")
        found[path.relative_to(built).as_posix()] = digest.hexdigest()[:16]
    assert {name: found[name] for name in WRITTEN_FIRST} == WRITTEN_FIRST


TRANSLATION = {"corpora": ["wmt14-nc-v9"], "train": 80, "dev": 11, "test": 12}
WMT_ARCHIVE = "statmt.org/wmt14/training-parallel-nc-v9.tgz"
NEWSTEST = "raw.githubusercontent.com/Helsinki-NLP/OPUS-MT-testsets/master/testsets"


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_translation_leaves_the_rest_of_the_world_as_it_is(built, tmp_path):
    """But for the lists of all files and of all dirt, which gain rows."""
    build_world({**SETTINGS, "translation": TRANSLATION}, DATASETS, tmp_path / "more")
    before, after = files_of(built), files_of(tmp_path / "more")
    lists = {"MANIFEST.tsv", "gold/dirt.tsv"}
    new = {
        WMT_ARCHIVE,
        *(f"{NEWSTEST}/eng-deu/newstest{year}.{code}" for year in (2013, 2014) for code in ("deu", "eng")),
    }
    assert set(after) - set(before) == new
    assert {name: after[name] for name in set(before) - lists} == {name: before[name] for name in set(before) - lists}
    for name in lists:
        rows = after[name].decode().splitlines()
        own = [row for row in rows if row.split("\t")[0].partition("#")[0] in new]
        assert own and [row for row in rows if row not in own] == before[name].decode().splitlines()
    for code in ("deu", "eng"):
        sizes = [after[f"{NEWSTEST}/eng-deu/newstest{year}.{code}"].count(b"\n") for year in (2013, 2014)]
        assert sizes == [TRANSLATION["dev"], TRANSLATION["test"]]


@pytest.mark.parametrize("seed", [1, 2])
def test_no_sentence_of_newstest_is_in_the_training_archive(repository, tmp_path, seed):
    """At the sizes of smoke, in the world of mini and in that of mini-2: not as a line and not in a line."""
    settings = {**read_settings(repository / "config/scales/smoke.yaml"), "seed": seed}
    build_world(settings, DATASETS, tmp_path)
    sets = {
        (year, code): (tmp_path / NEWSTEST / "eng-deu" / f"newstest{year}.{code}").read_text().splitlines()
        for year in (2013, 2014)
        for code in ("deu", "eng")
    }
    sizes = settings["translation"]
    assert {key: len(lines) for key, lines in sets.items()} == {
        (year, code): sizes[split] for year, split in ((2013, "dev"), (2014, "test")) for code in ("deu", "eng")
    }
    with tarfile.open(tmp_path / WMT_ARCHIVE) as archive:
        sides = {name.rpartition(".")[2]: archive.extractfile(name).read().decode() for name in archive.getnames()}
    assert set(sides) == {"de", "en"}
    for (_, code), lines in sets.items():
        assert not [line for line in lines if line in sides[code[:2]]]
    everything = [line for (_, code), lines in sets.items() if code == "eng" for line in lines]
    assert len(set(everything)) == len(everything)


def contents(path: Path) -> dict[str, bytes]:
    """Decompressed: the bytes of an archive are those of the machine's zlib."""
    if path.suffix == ".zip":
        with zipfile.ZipFile(path) as archive:
            return {name: archive.read(name) for name in archive.namelist()}
    if path.suffix in (".tgz", ".gz"):
        with tarfile.open(path) as archive:
            return {name: archive.extractfile(name).read() for name in archive.getnames()}
    return {"": lzma.decompress(path.read_bytes()) if path.suffix == ".xz" else path.read_bytes()}


def test_no_clean_training_line_holds_an_evaluation_sentence(built):
    dirty = Counter()
    lines = {}
    for row in (built / "gold" / "dirt.tsv").read_text().splitlines()[1:]:
        name, number, kind = row.split("\t")
        lines.setdefault(name, {})[int(number)] = kind
        dirty[kind] += 1
    assert {"leaked-test", "leaked-test-embedded", "misaligned", "near-duplicate", "wrong-language"} <= dirty.keys()
    tests = set()
    with zipfile.ZipFile(built / "dl.fbaipublicfiles.com/XNLI/XNLI-1.0.zip") as archive:
        for name in archive.namelist():
            for row in archive.read(name).decode().splitlines()[1:]:
                fields = row.split("\t")
                tests |= {fields[6], fields[7]} if fields[0] == "en" else set()
    text = lzma.decompress((built / "data.statmt.org/cc-100/en.txt.xz").read_bytes()).decode().split("\n")
    planted = lines["data.statmt.org/cc-100/en.txt.xz"]
    clean = [line for number, line in enumerate(text, 1) if line and number not in planted]
    assert len(clean) > 200
    assert not [line for line in clean if any(test in line for test in tests)]
    [treebank] = built.rglob("ud-treebanks-v2.5.tgz")
    with tarfile.open(treebank) as treebanks:
        for name in treebanks.getnames():
            if "/UD_English" in name and "train" not in name:
                lines_of = treebanks.extractfile(name).read().decode().splitlines()
                tests |= {line.removeprefix("# text = ") for line in lines_of if line.startswith("# text = ")}
    for path in built.rglob("tatoeba.*.eng"):
        tests |= set(path.read_text().splitlines())
    embedded = [text[number - 1] for number, kind in planted.items() if kind == "leaked-test-embedded"]
    assert embedded and all(any(test in line for test in tests) for line in embedded)


def test_the_treebank_reads_back(built):
    [path] = built.rglob("ud-treebanks-v2.5.tgz")
    with tarfile.open(path) as archive:
        texts = {name: archive.extractfile(name).read().decode() for name in archive.getnames()}
    found = {Path(name).name for name in texts}
    assert {"en_world-ud-train.conllu", "en_news-ud-train.conllu", "zh_world-ud-test.conllu"} <= found
    for text in texts.values():
        for block in text.strip().split("\n\n"):
            rows = [line.split("\t") for line in block.split("\n") if not line.startswith("#")]
            words = [row for row in rows if "-" not in row[0]]
            assert [row[0] for row in words] == [str(i + 1) for i in range(len(words))]
            heads = [int(row[6]) for row in words]
            assert heads.count(0) == 1 and all(0 <= head <= len(words) for head in heads)
            for start in range(len(words)):  # every word reaches the root
                at, steps = start + 1, 0
                while at and steps <= len(words):
                    at, steps = heads[at - 1], steps + 1
                assert at == 0


@pytest.mark.parametrize("code", sorted(PROFILES))
def test_every_language_says_every_event_in_its_script(code):
    world = build_concepts(3)
    speaker = Speaker(world, build_language(world, code))
    rng = random.Random(1)
    profile = PROFILES[code]
    for event in document(world, rng, 150):
        tokens = speaker.say(event)
        text = speaker.sentence(event)
        assert text == detokenise(tokens)
        assert (" " in text) == speaker.language.spaced or len(tokens) <= 3
        forms = "".join(token.form for token in tokens if token.upos not in ("NUM", "PUNCT"))
        latin = sum("a" <= letter.lower() <= "z" for letter in forms)
        assert latin == len(forms) if profile.script == "latin" else latin == 0
        order = [token.source for token in tokens]
        if event.verb and event.object and not event.adverb:
            where = [order.index("nsubj/head"), order.index("verb"), order.index("object/head")]
            expected = {"SVO": [0, 1, 2], "V2": [0, 1, 2], "SOV": [0, 2, 1], "VSO": [1, 0, 2]}[profile.order]
            assert sorted(where) == [where[i] for i in sorted(range(3), key=lambda i: expected[i])]
        assert {token.upos for token in tokens} <= {*UPOS_OF.values(), "DET", "ADP", "AUX", "PART", "NUM", "PUNCT"}


def test_a_clone_says_every_event_as_its_original_does_in_other_words():
    world = build_concepts(1)
    english, clone = (Speaker(world, build_language(world, *code)) for code in (("en",), ("el", "en")))
    rng = random.Random(2)
    for event in document(world, rng, 150):
        a, b = english.say(event), clone.say(event)
        assert [(x.upos, x.source, x.head, x.relation) for x in a] == [
            (x.upos, x.source, x.head, x.relation) for x in b
        ]
        words = [{x.form for x in said if x.upos not in ("NUM", "PUNCT")} for said in (a, b)]
        assert not words[0] & words[1]
    assert clone.language.profile.script == "greek"


def test_eight_languages_have_four_scripts_and_three_orders():
    codes = ["en", "de", "fr", "es", "ru", "hi", "ar", "zh"]
    assert len({PROFILES[code].script for code in codes}) >= 4
    assert len({PROFILES[code].order for code in codes}) >= 3


def test_some_words_are_noun_and_verb():
    world = build_concepts(1)
    stems = build_language(world, "en").stems
    nouns = {stem for name, stem in stems.items() if name.startswith("noun")}
    assert sum(stem in nouns for name, stem in stems.items() if name.startswith("verb")) >= 4


def test_gold_alignment_links_words_of_equal_meaning():
    world = build_concepts(1)
    english, hindi = (Speaker(world, build_language(world, code)) for code in ("en", "hi"))
    rng = random.Random(2)
    for event in document(world, rng, 50):
        a, b = english.say(event), hindi.say(event)
        links = alignment(a, b)
        assert ("verb" in {a[i].source for i, _ in links}) == (event.verb is not None or bool(links))
        for i, j in links:
            assert a[i].source == b[j].source
            if a[i].upos in ("NOUN", "VERB", "ADJ", "PROPN"):
                assert a[i].upos == b[j].upos


def judge(world: World, premise: Event, hypothesis: Event) -> str:
    """The label by what the sentences say of one event, told apart from how the pair was made."""
    told = ("verb", "past", "negated", "preposition", "place", "year")
    assert all(getattr(premise, part) == getattr(hypothesis, part) for part in told)
    follows = hypothesis.adverb in (None, premise.adverb)
    for role in ("subject", "object"):
        given, claimed = getattr(premise, role), getattr(hypothesis, role)
        if given.head.cls != claimed.head.cls:
            return "contradiction"
        follows &= claimed.head in (given.head, world.hypernym(given.head))
        follows &= claimed.adjective in (None, given.adjective)
    return "entailment" if follows else "neutral"


@pytest.mark.parametrize("held_out", [True, False])
def test_inference_labels_mean_what_they_say(held_out):
    world = build_concepts(1)
    for label, premise, hypothesis in inference_pairs(world, 600, held_out):
        assert judge(world, premise, hypothesis) == label
        assert world.held_out(premise) == world.held_out(hypothesis) == held_out
        if premise.negated:  # what did not happen need not have happened in another manner, nor to other things
            details = [
                [event.adverb, event.subject.adjective, event.object.adjective] for event in (premise, hypothesis)
            ]
            assert details[0][0] is details[1][0] is None
            assert sum(map(bool, details[0])) == sum(map(bool, details[1]))


def inference_pairs(world: World, n: int, held_out: bool = False) -> list[tuple[str, Event, Event]]:
    rng = random.Random(3)
    return [(label := LABELS[i % 3], *inference_pair(world, rng, label, held_out)) for i in range(n)]


def majority_accuracy(cues: list[tuple], labels: list[str]) -> float:
    """Of the rule that answers with the most frequent label of each cue: learnt on one half, tried on the other."""
    half = len(labels) // 2
    counts: dict[tuple, Counter] = {}
    for cue, label in zip(cues[:half], labels[:half], strict=True):
        counts.setdefault(cue, Counter())[label] += 1
    answers = [counts[cue].most_common(1)[0][0] if cue in counts else LABELS[0] for cue in cues[half:]]
    return sum(a == label for a, label in zip(answers, labels[half:], strict=True)) / (len(labels) - half)


def words_accuracy(sentences: list[list[str]], labels: list[str]) -> float:
    """Of a naive Bayes classifier over the words: learnt on one half, tried on the other."""
    half = len(labels) // 2
    counts = {label: Counter() for label in LABELS}
    for words, label in zip(sentences[:half], labels[:half], strict=True):
        counts[label].update(set(words))

    def score(words: list[str], label: str) -> float:
        return sum(math.log(counts[label][word] + 1) for word in set(words))

    answers = [max(LABELS, key=lambda label: score(words, label)) for words in sentences[half:]]
    return sum(a == label for a, label in zip(answers, labels[half:], strict=True)) / (len(labels) - half)


@pytest.mark.parametrize("code", ["en", "de", "fr", "hi", "zh"])
def test_inference_labels_need_both_sentences(code):
    """Length, negation and the words of one sentence do not tell the label: chance is 33.3 %, a deviation 0.7 %."""
    world = build_concepts(1)
    speaker = Speaker(world, build_language(world, code))
    pairs = inference_pairs(world, 9000)
    labels = [label for label, _, _ in pairs]
    said = [[[token.form for token in speaker.say(event)] for event in events] for _, *events in pairs]
    shapes = [
        (len(h) - len(p), premise.negated, hypothesis.negated)
        for (p, h), (_, premise, hypothesis) in zip(said, pairs, strict=True)
    ]
    assert len(set(shapes)) >= 3 and {negated for _, negated, _ in shapes} == {False, True}
    assert majority_accuracy(shapes, labels) < 0.36
    assert majority_accuracy([(len(h), *shape[1:]) for (_, h), shape in zip(said, shapes, strict=True)], labels) < 0.36
    assert words_accuracy([h for _, h in said], labels) < 0.36
    assert words_accuracy([p for p, _ in said], labels) < 0.36


def test_the_next_sentence_often_speaks_of_the_same_thing():
    world = build_concepts(1)
    rng = random.Random(6)
    same, kinds, other = 0, 0, 0
    for _ in range(300):
        events = document(world, rng, 6)
        things = [
            {phrase.head for phrase in (e.subject, e.object) if phrase and phrase.head.kind == "noun"} for e in events
        ]
        for before, after in pairwise(things):
            same += bool(before & after)
            kinds += bool({world.hypernym(head) for head in before} & after - before)
        other += bool(things[0] & things[3])
    assert same / 1500 > 1.5 * other / 300
    assert kinds / 1500 > 0.08
    assert not any(world.held_out(event) for event in document(world, rng, 3000))


def test_held_out_cores_never_meet_training_text():
    world = build_concepts(5)
    rng = random.Random(4)
    open_cores = {Storyteller(world, rng).event().core() for _ in range(3000)}
    held_out = {Storyteller(world, rng, 0.0).event(held_out=True).core() for _ in range(300)}
    assert held_out and not open_cores & held_out


def test_dirt_is_listed_line_by_line():
    rng = random.Random(1)
    documents = [[f"clean {d} line {i} of this document" for i in range(4)] for d in range(50)]
    texts, kinds = dirty_documents(documents, rng, 0.05, ["fremde Zeile aus Wörtern"], ["a test sentence that leaks"])
    assert [len(text) for text in texts] == [len(kind) for kind in kinds]
    kept = [[line for line, kind in zip(*pair, strict=True) if not kind] for pair in zip(texts, kinds, strict=True)]
    assert [document for document in kept if document] == documents
    flat = [kind for own in kinds for kind in own]
    assert all(flat.count(kind) >= 10 for kind in set(flat) - {"", "too-long"})
    pairs = [(f"a {i}", f"b {i}") for i in range(100)]
    rows, marks = dirty_pairs(pairs, rng, 0.05, ["c"], [("t", "u")])
    assert [row for row, mark in zip(rows, marks, strict=True) if not mark] == pairs
    assert Counter(marks)["misaligned"] == 5


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sead": 1}, "unknown key world.sead"),
        ({"seed": None}, "key world.seed is missing"),
        ({"languages": {"en": 1, "xx": 1}}, "no stand-in for `xx`"),
        ({"languages": {"de": 1}}, "must hold `en`"),
        ({"clones": {"tr": "en"}}, "world.clones: `tr` is not among world.languages"),
        ({"clones": {"de": "xx"}}, "world.clones: no stand-in for `xx`"),
        (
            {"translation": {**TRANSLATION, "corpora": ["wmt13-un"]}},
            "`wmt13-un` is not written here; known: wmt14-nc-v9",
        ),
    ],
)
def test_wrong_settings_are_named(tmp_path, change, message):
    settings = {key: value for key, value in {**SETTINGS, **change}.items() if value is not None}
    path = tmp_path / "scale.yaml"
    path.write_text(yaml.safe_dump({"name": "x", "world": settings}))
    with pytest.raises(UserError, match=message):
        read_settings(path)


def test_a_scale_of_real_data_has_no_world(tmp_path):
    path = tmp_path / "paper.yaml"
    path.write_text("name: paper\n")
    with pytest.raises(UserError, match="uses real data"):
        read_settings(path)


def test_a_scale_may_name_the_languages_that_have_a_stand_in(repository):
    schema = json.loads((repository / "config/schemas/scale.schema.json").read_text(encoding="utf-8"))
    languages = schema["properties"]["world"]["properties"]["languages"]
    assert languages["propertyNames"]["enum"] == [*PROFILES]
