"""Gold data of the mini-world's tasks: the readers read it, the gold is right, and no shortcut gives it away."""

import json
import lzma
import random
import re
import tarfile
import zipfile
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

from build_world import ALIGNED_FOLDERS, CONTEXT_WORDS, TYDIQA_NAMES, build_world
from corpus.corpusio import read_batches, read_lines
from engine.metrics import spans
from plan.datasets import load_datasets
from report_cleaning import raw_lines, read_gold
from small_world import DATASETS
from split_corpus import split_bitext
from tasks import bucc, conll, mlqa, panx, pawsx, tydiqa, wmt14, wmt14_en_de, wmt14_en_fr, word_alignment, xquad
from tasks.entities import decode_latin
from tasks.files import decode_lines, read_bytes, read_zip_member
from tasks.squad import read_squad
from tasks.tags import gold_of
from world.concepts import NOUN_CLASSES, Event, build_concepts
from world.formats import to_iob1
from world.languages import PROFILES, Speaker, build_language, character_spans, detokenise, written_words
from world.names import naming_event, tagged_words
from world.paraphrases import POSITIVES, SWAPS, paraphrase_pair
from world.questions import ANSWERED_BY_KIND, SENTENCES, answers, paragraph, phrases_of

CODES = ("en", "de", "fr", "es", "ru", "ar", "hi", "zh")
SETTINGS = {
    "seed": 1,
    "languages": dict.fromkeys(CODES, 1.0),
    "documents": 30,
    "sentences_per_document": [4, 8],
    "bitext": {"de": ["Europarl"], "hi": ["IITB"], "zh": ["MultiUN"]},
    "pairs": 60,
    "nli": {"train": 30, "dev": 15, "test": 15},
    "pos": {"train": 30, "dev": 10, "test": 10},
    "tatoeba": 30,
    "paraphrase": {"train": 100, "dev": 20, "test": 50},
    "ner": {"train": 40, "dev": 20, "test": 30},
    "qa": {"train": 100, "dev": 20, "test": 40},
    "mining": {"pairs": {"dev": 10, "test": 15}, "others": {"dev": 12, "test": 20}},
    "alignment": 25,
    "translation": {"corpora": ["wmt14-nc-v9"], "train": 90, "dev": 21, "test": 30},
    "dirt": 0.03,
}
SPLITS = ("train", "dev", "test")
PAWSX_FILES = {"train": "translated_train.tsv", "dev": "dev_2k.tsv", "test": "test_2k.tsv"}
MLQA_CODES = ("en", "es", "de", "ar", "hi", "zh")


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("tasks")
    build_world(SETTINGS, DATASETS, out)
    return out


@pytest.fixture(scope="module")
def path(built):
    table = load_datasets(DATASETS)
    return lambda dataset: built / table[dataset].path


@pytest.fixture(scope="module")
def world():
    return build_concepts(SETTINGS["seed"])


@pytest.fixture(scope="module")
def speakers(world):
    return {code: Speaker(world, build_language(world, code)) for code in CODES}


def read_paraphrases(path, code, split):
    name = "train.tsv" if (code, split) == ("en", "train") else PAWSX_FILES[split]
    return pawsx.read_pawsx(path("pawsx/x-final"), {code: name}, {})[code]


def read_names(path, code, split):
    """Of CoNLL: (lines of the file, sentences)."""
    if code == "en":
        lines = read_zip_member(path("conll2003/en"), conll.ZIP_MEMBERS[split])
    else:
        prefix = {"de": "conll2003/deu", "es": "conll2002/esp"}[code]
        file = path(f"{prefix}.{({'train': 'train', 'dev': 'testa', 'test': 'testb'})[split]}")
        lines = decode_latin(read_bytes(file), str(file))
    return lines, conll.parse_conll(lines, code)


def mlqa_questions(path, split, context, question):
    data = json.loads(
        "\n".join(
            read_zip_member(path("mlqa/1.0"), f"MLQA_V1/{split}/{split}-context-{context}-question-{question}.json")
        )
    )
    return [
        (own["context"], item["id"], item["question"], item["answers"])
        for article in data["data"]
        for own in article["paragraphs"]
        for item in own["qas"]
    ]


def full_marks(module, gold, predictions):
    return [metric.measure(gold, predictions) for metric in module.METRICS.values()]


# ---- every file is read by its reader ----


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("code", ["en", "de", "fr", "es", "zh"])
def test_paraphrases_are_read(path, code, split):
    pairs = read_paraphrases(path, code, split)
    labels = [pair.label for pair in pairs]
    assert Counter(labels)["1"] == round(POSITIVES * SETTINGS["paraphrase"][split])
    assert len(pairs) == SETTINGS["paraphrase"][split]
    assert full_marks(pawsx, labels, labels) == [100]


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("code", CODES)
def test_wikiann_is_read(path, code, split):
    sentences = panx.read_panx(path("panx/1.1.0"), split, [code], {})[code]
    assert len(sentences) == SETTINGS["ner"]["dev" if split == "train" and code != "en" else split]
    tags = gold_of(sentences)
    assert {tag for own in tags for tag in own} <= set(panx.LABELS)
    assert all(spans(own) for own in tags)
    assert full_marks(panx, tags, tags) == [100, 100]


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("code", ["en", "de", "es"])
def test_conll_is_read(path, code, split):
    lines, sentences = read_names(path, code, split)
    tags = gold_of(sentences)
    assert len(sentences) == SETTINGS["ner"][split]
    assert {len(line.split()) for line in lines if line} == {{"en": 4, "de": 5, "es": 3}[code]}
    assert full_marks(conll, tags, tags) == [100, 100]
    raw = [line.split()[-1] for line in lines if line and not line.startswith("-DOCSTART-")]
    if code == "de":  # no name here stands beside another of its type
        assert not any(tag.startswith("B-") for tag in raw)
        assert any("B-" in tag for own in tags for tag in own)
    else:
        assert raw == [tag for own in tags for tag in own]
    if split == "train":
        assert {tag[2:] for own in tags for tag in own} == {"", "PER", "LOC", "ORG", "MISC"}


@pytest.mark.parametrize("code", CODES)
def test_questions_are_read(path, code):
    sizes = SETTINGS["qa"]
    found = {}
    if code != "en":
        name = f"xtreme/squad.translate-train.en-{code}"
        if code != "fr":  # XTREME has none
            found[name] = (read_squad(path(name), code), None)
    else:
        found["train"] = (read_squad(path("squad/1.1-train"), code), sizes["train"])
        found["dev"] = (read_squad(path("squad/1.1-dev"), code), sizes["dev"])
    if code != "fr":
        found["xquad"] = (read_squad(path(f"xquad/{code}"), code), sizes["test"])
    if code in MLQA_CODES:
        for split in ("dev", "test"):
            found[f"mlqa {split}"] = (mlqa.read_mlqa(path("mlqa/1.0"), split, [code], {})[code], sizes[split])
    if code in TYDIQA_NAMES:
        for split in ("train", "dev"):
            every = read_squad(path(f"tydiqa/goldp-1.1-{split}"), code)
            size = sizes["test"] if split == "dev" else sizes["train" if code == "en" else "dev"]
            found[f"tydiqa {split}"] = (tydiqa.of_language(every, code, ""), size)
    for name, (questions, size) in found.items():
        assert len(questions) == size or size is None, name
        gold = {question.id: question.answers[0] for question in questions}
        for module in (mlqa, xquad):
            assert full_marks(module, questions, gold) == [100, 100], name
        for question in questions:
            [answer], [start] = question.answers, question.starts
            assert question.context[start : start + len(answer)] == answer and answer == answer.strip(" .。।")
            assert (" " in question.context) == (code != "zh")
            assert question.question[-1] in "?？؟"


def says_all(speakers, english: str, code: str, text: str) -> bool:
    """Has every word of the English sentence one of its meanings in the text?"""
    own, foreign = speakers["en"].language.stems, speakers[code].language.stems
    meanings = [{name for name, stem in own.items() if word.startswith(stem)} for word in english.strip(".").split()]
    return all(any(foreign[name] in text for name in names) for names in meanings if names)


@pytest.mark.parametrize("split", ["dev", "test"])
@pytest.mark.parametrize("code", ["de", "fr", "ru", "zh"])
def test_piles_are_read_and_their_pairs_are_translations(path, speakers, code, split):
    part = bucc.PARTS[split]
    piles = bucc.read_piles(path(f"bucc2018/{code}-en.{part}-gold"), split, code, {})
    pairs, others = SETTINGS["mining"]["pairs"][split], SETTINGS["mining"]["others"][split]
    assert len(piles.gold) == pairs
    assert bucc.METRICS["f1"].measure(piles.gold, piles.gold) == 100
    for side, pile in ((code, piles.foreign), ("en", piles.english)):
        assert list(pile) == [f"{side}-{i:09d}" for i in range(1, pairs + others + 1)]
        assert len(set(pile.values())) == len(pile)
    right = 0
    for one in piles.foreign:
        for other in piles.english:
            said = says_all(speakers, piles.english[other], code, piles.foreign[one])
            if (one, other) in piles.gold:
                assert said
            right += said
    assert right < 3 * pairs  # few others have all the words of a sentence
    ranks = [[int(id_[-9:]) for id_ in own] for own in zip(*piles.gold, strict=True)]
    assert sum(a < b for a, b in pairwise(ranks[1])) < pairs - 1  # the order of the piles does not tell


WMT_TASKS = {"de": wmt14_en_de, "fr": wmt14_en_fr}


def newstest(path, code, read) -> wmt14.Lines:
    """Under the keys of the task."""
    l3 = {"de": "deu", "fr": "fra"}[code]
    years = {"": 2014, "dev_": 2013, **({"older_": 2012} if code == "fr" else {})}
    paths = {
        f"{part}{side}-{code}": path(f"newstest/{year}.eng-{l3}.{suffix}")
        for part, year in years.items()
        for side, suffix in (("english", "eng"), ("foreign", l3))
    }
    return read(paths, [code], {})[code]


@pytest.mark.parametrize("code", WMT_TASKS)
def test_newstest_is_read_and_its_lines_are_translations(path, speakers, code):
    module, sizes = WMT_TASKS[code], SETTINGS["translation"]
    test, dev = (newstest(path, code, read) for read in (module.read_test, module.read_dev))
    older = sizes["dev"] // 2 if code == "fr" else 0
    assert [len(test.sources), len(dev.sources)] == [sizes["test"], older + sizes["dev"]]
    assert (
        len({*test.sources, *dev.sources})
        == len({*test.references, *dev.references})
        == len(test.sources + dev.sources)
    )
    for lines in (test, dev):
        for source, reference in zip(*lines, strict=True):
            assert says_all(speakers, source, code, reference)
        shifted = zip(lines.sources, lines.references[1:], strict=False)
        assert sum(says_all(speakers, source, code, reference) for source, reference in shifted) < 3


def wmt_rows(path, tmp_path, code) -> tuple[str, list[tuple[str, str]]]:
    """As cleaning reads them: the name in the lists of rejects, and the pairs."""
    archive, first, second = path("wmt14-nc-v9"), *sorted((code, "en"))
    root = archive.parents[2]
    split_bitext([archive], [(first,), (second,)], root, [tmp_path / "0.raw.zst"])
    [name] = json.loads(next(read_lines(tmp_path / "0.raw.zst")))["files"]
    [batch] = read_batches(tmp_path / "0.raw.zst", "bitext")
    return name, list(zip(batch.texts, batch.others, strict=True))


@pytest.mark.parametrize("code", WMT_TASKS)
def test_the_wmt_archive_is_split_and_its_dirt_is_listed(built, path, speakers, tmp_path, code):
    name, rows = wmt_rows(path, tmp_path, code)
    kinds = {number: kind for (file, number), kind in read_gold(built / "gold" / "dirt.tsv").items() if file == name}
    clean = [row for number, row in enumerate(rows, start=1) if number not in kinds]
    assert len(clean) == len(set(clean)) == SETTINGS["translation"]["train"]
    english = 0 if code > "en" else 1
    assert all(says_all(speakers, row[english], code, row[1 - english]) for row in clean)
    quota = round(SETTINGS["dirt"] * len(clean))
    planted = Counter(kinds.values())
    assert set(planted.values()) == {quota}
    assert {"misaligned", "wrong-language", "copied", "length-ratio", "empty", "duplicate", "leaked-test"} == set(
        planted
    )
    assert max(kinds) <= len(rows) == len(clean) + planted.total()
    empty = [number for number, kind in kinds.items() if kind == "empty"]
    assert sorted(empty) == [number for number, row in enumerate(rows, start=1) if "" in row]
    found = list(raw_lines(built, name))  # how the report on cleaning reads them again
    assert [number for number, _ in found] == list(range(1, len(rows) + 1))
    assert [text for number, text in found if number not in kinds] == ["\t".join(row) for row in clean]


@pytest.mark.parametrize("code", ["de", "fr", "hi"])
def test_alignments_are_read_and_link_words_of_equal_meaning(path, speakers, code):
    pairs = word_alignment.read_folder(path("alignment/test-sets"), code)
    assert len(pairs.gold) == len(pairs.first) == SETTINGS["alignment"]
    measures = {name: metric.measure for name, metric in word_alignment.METRICS.items()}
    sure = [own.sure for own in pairs.gold]
    assert measures["error-rate"](pairs.gold, sure) == 0
    assert measures["precision"](pairs.gold, sure) == measures["recall"](pairs.gold, sure) == 100
    at = ALIGNED_FOLDERS[code].split("-").index("en")
    function = set(speakers["en"].language.function.values())
    english, foreign = speakers["en"].language.stems, speakers[code].language.stems
    counts = Counter()
    for *sides, gold in zip(pairs.first, pairs.second, pairs.gold, strict=True):
        words = [side.split() for side in sides]
        assert gold.sure <= gold.possible
        assert all(words[at][link[at]] in function for link in gold.possible - gold.sure)
        for link in gold.sure:
            own, other = words[at][link[at]], words[1 - at][link[1 - at]]
            if own.isdigit() or own == ".":
                assert other == own or (other, own) == ("।", ".")
                continue
            assert any(other.startswith(foreign[name]) for name, stem in english.items() if own.startswith(stem))
            counts["words"] += 1
        content = {i for i, word in enumerate(words[at]) if word not in function}
        assert {link[at] for link in gold.sure} == content
        counts["possible"] += len(gold.possible - gold.sure)
    assert counts["words"] > 50 and counts["possible"] > 10


def test_a_contraction_is_one_word(speakers, world):
    rng = random.Random(1)
    contracted = 0
    for code in ("de", "fr", "zh", "ar"):
        for _ in range(100):
            tokens = speakers[code].say(naming_event(world, rng, True))
            words = written_words(tokens)
            text = detokenise(tokens)
            glue = " " if speakers[code].language.spaced else ""
            assert glue.join(word for word, _ in words[:-1]) + words[-1][0] == text
            assert [i for _, own in words for i in own] == list(range(len(tokens)))
            contracted += len(words) < len(tokens)
            for (first, last), token in zip(character_spans(tokens), tokens, strict=True):
                assert text[first:last] == token.form or len(words) < len(tokens)
    assert contracted > 10


# ---- evaluation text is new ----


def sentences_of(text: str) -> set[str]:
    return {part.strip() for part in re.split(r"(?<=[.。।])", text) if part.strip()}


def evaluation_sentences(path, code) -> set[str]:
    found = set()
    if code in pawsx_codes():
        for split in ("dev", "test"):
            for pair in read_paraphrases(path, code, split):
                found |= {pair.premise, pair.hypothesis}
    tagged = [s for split in ("dev", "test") for s in panx.read_panx(path("panx/1.1.0"), split, [code], {})[code]]
    if code in ("en", "de", "es"):
        tagged += [s for split in ("dev", "test") for s in read_names(path, code, split)[1]]
    glue = "" if code == "zh" else " "
    found |= {glue.join(s.tokens[:-1]) + s.tokens[-1] for s in tagged}
    contexts = []
    if code != "fr":
        contexts += [question.context for question in read_squad(path(f"xquad/{code}"), code)]
    if code in MLQA_CODES:
        contexts += [q.context for q in mlqa.read_mlqa(path("mlqa/1.0"), "test", [code], {})[code]]
    if code in TYDIQA_NAMES:
        every = read_squad(path("tydiqa/goldp-1.1-dev"), code)
        contexts += [question.context for question in tydiqa.of_language(every, code, "")]
    for context in contexts:
        found |= sentences_of(context)
    for own in WMT_TASKS if code == "en" else {code} & set(WMT_TASKS):
        module = WMT_TASKS[own]
        for read in (module.read_test, module.read_dev):
            found |= set(newstest(path, own, read)[0 if code == "en" else 1])
    if code in ("de", "fr", "ru", "zh"):
        found |= set(bucc.read_piles(path(f"bucc2018/{code}-en.training-gold"), "test", code, {}).foreign.values())
    return found


def pawsx_codes():
    return ("en", "de", "fr", "es", "zh")


@pytest.mark.parametrize("code", CODES)
def test_no_evaluation_sentence_is_said_in_training(built, path, tmp_path, code):
    training = set()
    for own in WMT_TASKS if code == "en" else {code} & set(WMT_TASKS):
        at = sorted((own, "en")).index(code)
        training |= {part for row in wmt_rows(path, tmp_path, own)[1] for part in sentences_of(row[at])}
    for name in {"zh": ["zh-Hans", "zh-Hant"]}.get(code, [code]):
        training |= sentences_of(lzma.decompress(path(f"cc-100/{name}").read_bytes()).decode())
    for archive in built.glob("object.pouta.csc.fi/**/*.zip"):
        with zipfile.ZipFile(archive) as members:
            for name in members.namelist():
                training |= sentences_of(members.read(name).decode()) if name.endswith(f".{code}") else set()
    assert len(training) > 100
    if code in pawsx_codes():
        for pair in read_paraphrases(path, code, "train"):
            training |= {pair.premise, pair.hypothesis}
    file = "squad/1.1-train" if code == "en" else f"xtreme/squad.translate-train.en-{code}"
    if code != "fr":
        for question in read_squad(path(file), code):
            training |= sentences_of(question.context)
    found = evaluation_sentences(path, code)
    assert len(found) > 50
    assert not found & training


# ---- paraphrases ----


def paraphrase_pairs(world, n, held_out=False):
    rng = random.Random(7)
    labels = [i % 100 < 100 * POSITIVES for i in range(n)]
    return [(same, *paraphrase_pair(world, rng, same, held_out)) for same in labels]


@pytest.mark.parametrize("held_out", [True, False])
def test_paraphrases_are_of_one_event_and_the_others_are_not(world, held_out):
    for same, (event, _), (other, _) in paraphrase_pairs(world, 300, held_out):
        assert (event == other) == same
        assert world.held_out(event) == world.held_out(other) == held_out


@pytest.mark.parametrize("held_out", [True, False])
def test_only_a_comparison_of_the_sentences_tells_paraphrases(world, held_out):
    """Roles are exchanged as often on either side of the world, and no adjective is more frequent in one label."""
    pairs = paraphrase_pairs(world, 3000, held_out)
    swapped = [event.subject == other.object for same, (event, _), (other, _) in pairs if not same]
    assert abs(sum(swapped) / len(swapped) - SWAPS) < 0.05
    for side in (1, 2):
        said = {True: Counter(), False: Counter()}
        for pair in pairs:
            event = pair[side][0]
            [adjective] = {event.subject.adjective, event.object.adjective} - {None}
            said[pair[0]][adjective, event.subject.adjective is None] += 1
        assert len(said[True]) == len(said[False]) == 2 * len(world.adjectives)
        for key in said[True]:
            assert abs(said[True][key] / said[True].total() - said[False][key] / said[False].total()) < 0.03


@pytest.mark.parametrize("code", ["en", "de", "zh"])
def test_paraphrases_and_others_overlap_alike_and_are_ordered_alike(world, speakers, code):
    say = speakers[code].say
    kinds, orders, overlap = Counter(), {True: Counter(), False: Counter()}, {True: [], False: []}
    for same, (event, front), (other, fronted) in paraphrase_pairs(world, 2000):
        one, two = say(event, front), say(other, fronted)
        # Case endings move with a swap, so roles are compared by what the words are forms of.
        stems = [Counter(token.lemma for token in tokens) for tokens in (one, two)]
        differing = (stems[0] - stems[1]).total()
        kinds[same, differing] += 1
        overlap[same].append(1 - differing / len(one))
        orders[same][front, fronted] += 1
        assert (front == fronted and same) == (detokenise(one) == detokenise(two))
    assert kinds[True, 0] == 2000 * POSITIVES
    assert {differing for same, differing in kinds if not same} == {0, 1}
    assert abs(kinds[False, 0] / (2000 - kinds[True, 0]) - SWAPS) < 0.05
    assert sum(overlap[False]) / len(overlap[False]) > 0.85  # one word of the seven of a short sentence
    for order in orders[True] | orders[False]:
        shares = [orders[same][order] / orders[same].total() for same in (True, False)]
        assert abs(shares[0] - shares[1]) < 0.06


@pytest.mark.parametrize("code", sorted(PROFILES))
def test_a_fronted_phrase_comes_first_and_nothing_else_is_said(world, code):
    speaker = Speaker(world, build_language(world, code))
    for _, (event, _), _ in paraphrase_pairs(world, 100):
        plain = speaker.say(event)
        for front, role, there in (("place", "obl", event.place), ("time", "year", event.year)):
            if not there:
                continue
            tokens = speaker.say(event, front)
            assert tokens[0].source.startswith(role)
            assert Counter(t.form for t in tokens) == Counter(t.form for t in plain)
            assert [t.source for t in tokens] != [t.source for t in plain]
            heads = {t.source: tokens[t.head].source for t in tokens if t.head >= 0}
            assert heads == {t.source: plain[t.head].source for t in plain if t.head >= 0}
            if PROFILES[code].order == "V2":
                sources = [t.source.partition("/")[0] for t in tokens]
                assert sources[sources.index("verb") - 1] == role


# ---- names ----


@pytest.mark.parametrize("code", CODES)
def test_names_are_told_by_their_words_and_neighbours(world, speakers, code):
    rng = random.Random(3)
    lexicon = {speakers[code].language.stems[c.name]: c.cls for own in world.entities.values() for c in own}
    two, inside, alone, several = Counter(), 0, 0, 0
    for _ in range(400):
        event = naming_event(world, rng, rng.random() < 0.5)
        rows = tagged_words(event, speakers[code].say(event))
        tags = [tag for _, _, tag in rows]
        found = sorted(spans(tags), key=lambda span: span[1])
        assert found and tags == list(conll.parse_conll([f"{w} {u} {t}" for w, u, t in rows], "")[0].tags)
        several += len(found) > 1
        covered = {i for _, first, last in found for i in range(first, last + 1)}
        for i, (word, upos, _) in enumerate(rows):
            assert (i in covered) == (upos == "PROPN")
            cls = next((cls for stem, cls in lexicon.items() if word.startswith(stem)), None)
            if i in covered:
                inside += cls == "LOC" and tags[i] == "I-ORG"
                alone += cls == "LOC" and tags[i] == "B-LOC"
        for kind, first, last in found:
            two[kind] += last - first + 1 == 2
            assert last - first < 2
        for (kind, _, last), (other, first, _) in pairwise(found):  # side by side they are never one name's two words
            follows = PROFILES[code].adposition == "after" and len(tags) > first + 1 and rows[first + 1][1] == "ADP"
            assert last + 1 < first or follows or (kind, other) not in (("PER", "PER"), ("ORG", "LOC"))
    assert two["PER"] > 20 and two["ORG"] > 5 and not two["LOC"]
    assert inside > 5 and alone > 50 and several > 50


def test_iob1_has_b_between_neighbours_alone():
    rng = random.Random(5)
    for _ in range(200):
        tags = []
        while len(tags) < 12:
            kind = rng.choice(("PER", "LOC", "O"))
            tags += ["O"] if kind == "O" else [f"B-{kind}"] + [f"I-{kind}"] * rng.randrange(3)
        old = to_iob1(tags)
        assert list(conll.sentences_in_iob2([conll.Sentence(tuple(tags), tuple(old))])[0].tags) == tags
        for before, tag in pairwise(["O", *old]):
            assert not tag.startswith("B-") or before[2:] == tag[2:]


# ---- questions ----


def contexts(world, n, held_out=True):
    rng = random.Random(11)
    return [paragraph(world, rng, held_out) for _ in range(n)]


@pytest.mark.parametrize("held_out", [True, False])
def test_one_sentence_answers_by_the_kind_alone_or_another_misleads(world, held_out):
    roles, sentences, by_kind = Counter(), Counter(), 0
    for own in contexts(world, 400, held_out):
        assert len(own.events) == SENTENCES and own.asks
        assert all(world.held_out(event) == held_out and event.place for event in own.events)
        things = [[world.kind_of(p.head) for p in phrases_of(event).values()] for event in own.events]
        alone = []
        for ask in own.asks:
            event = own.events[ask.sentence]
            assert [answers(ask, other) for other in own.events] == [other is event for other in own.events]
            kind = world.kind_of(phrases_of(event)[ask.role].head)
            asked = phrases_of(ask.event)[ask.role]
            assert asked.head == world.nouns[kind][-1] and not asked.definite and not asked.adjective
            assert (ask.event.place is None) == (ask.role != "place")
            alone.append(sum(kinds.count(kind) for kinds in things) == 1)
            others = [j for j in range(SENTENCES) if j != ask.sentence]
            misleads = any(own.events[j].verb == event.verb or kind in things[j] for j in others)
            assert alone[-1] or misleads
            roles[ask.role] += 1
            sentences[ask.sentence] += 1
        by_kind += all(alone)
    assert abs(by_kind / 400 - ANSWERED_BY_KIND) < 0.1
    for counts, least in ((roles, 0.15), (sentences, 0.25)):  # no role and no sentence is a good guess
        assert len(counts) == 3 and min(counts.values()) / counts.total() > least


def test_an_english_question_finds_its_answer_by_its_words(path, speakers):
    """Read as text: one sentence has all the words of the question but the kind, and the answer stands in it."""
    stems = speakers["en"].language.stems
    kinds = {stems[f"noun/{cls}"] for cls in NOUN_CLASSES}
    forms = set(speakers["en"].language.function.values()) - {""}
    questions = read_squad(path("xquad/en"), "en")
    for question in questions:
        words = [word for word in question.question.strip("?").split() if word not in forms]
        asked = {word for word in words if any(word.startswith(kind) for kind in kinds)}
        sentences = [part.strip(" .").split() for part in question.context.split(".") if part.strip()]
        having = [part for part in sentences if set(words) - asked <= set(part)]
        assert len(asked) == 1 and len(having) == 1
        assert set(question.answers[0].split()) <= set(having[0])
        assert not forms & set(question.answers[0].split())
        assert len(question.context.split()) + question.context.count(".") <= CONTEXT_WORDS


def test_xquad_asks_the_same_in_every_language(path, speakers):
    codes = [code for code in CODES if code != "fr"]
    read = {code: read_squad(path(f"xquad/{code}"), code) for code in codes}
    assert len({tuple(question.id for question in own) for own in read.values()}) == 1
    stems = {code: speakers[code].language.stems for code in codes}
    for code in codes:
        for question, own in zip(read["en"], read[code], strict=True):
            # Each noun of the English answer has its word in this one.
            for word in question.answers[0].split():
                names = [name for name, stem in stems["en"].items() if word.startswith(stem)]
                assert any(stems[code][name] in own.answers[0] for name in names)


@pytest.mark.parametrize("split", ["dev", "test"])
def test_mlqa_has_every_pair_of_languages(path, split):
    alone = {code: mlqa_questions(path, split, code, code) for code in MLQA_CODES}
    for one in MLQA_CODES:
        for other in MLQA_CODES:
            pair = mlqa_questions(path, split, one, other)
            assert [(c, i, a) for c, i, _, a in pair] == [(c, i, a) for c, i, _, a in alone[one]]
            assert [q for _, _, q, _ in pair] == [q for _, _, q, _ in alone[other]]
    assert len({tuple(i for _, i, _, _ in own) for own in alone.values()}) == 1


@pytest.mark.parametrize("code", ["de", "ar", "zh"])
def test_translated_questions_lose_what_is_mistranslated(path, code):
    english = {question.id: question for question in read_squad(path("squad/1.1-train"), "en")}
    own = read_squad(path(f"xtreme/squad.translate-train.en-{code}"), code)
    assert 0.8 * len(english) < len(own) < len(english)
    assert [question.id for question in own] == [id_ for id_ in english if id_ in {q.id for q in own}]
    assert [question.id for question in english.values()] == [f"train-{i}" for i in range(1, len(english) + 1)]


def test_tydiqa_training_is_english_and_dev_asks_each_language_its_own(path):
    train, dev = (read_squad(path(f"tydiqa/goldp-1.1-{split}"), "") for split in ("train", "dev"))
    assert Counter(question.id.split("-")[0] for question in dev) == dict.fromkeys(("english", "russian", "arabic"), 40)
    assert Counter(question.id.split("-")[0] for question in train)["english"] == SETTINGS["qa"]["train"]
    starts = {code: [q.starts[0] for q in tydiqa.of_language(dev, code, "")] for code in ("en", "ru", "ar")}
    assert starts["en"] != starts["ru"] != starts["ar"] != starts["en"]


def test_every_language_marks_a_question(world):
    event = contexts(world, 1)[0].events[0]
    assert isinstance(event, Event)
    for code in PROFILES:
        speaker = Speaker(world, build_language(world, code))
        said, asked = speaker.say(event), speaker.ask(event)
        assert said[:-1] == asked[:-1] and asked[-1].form in "?？؟;" and asked[-1].upos == "PUNCT"


def test_nothing_is_written_for_languages_that_the_world_lacks(tmp_path):
    few = {**SETTINGS, "languages": {"en": 1.0, "tr": 0.5}, "bitext": {}, "documents": 10}
    build_world(few, DATASETS, tmp_path)
    names = {file.name for file in tmp_path.rglob("*")}
    assert {"xquad.tr.json", "panx_dataset.zip", "x-final.tar.gz", "conll2003.zip", "train-v1.1.json"} <= names
    assert not [name for name in names if name.startswith(("bucc", "deu.", "esp.", "alignment", "xquad.de"))]
    with tarfile.open(next(tmp_path.rglob("x-final.tar.gz"))) as archive:
        assert {name.split("/")[1] for name in archive.getnames()} == {"en"}
    assert decode_lines((tmp_path / "MANIFEST.tsv").read_bytes(), "")
