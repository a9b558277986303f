"""BLEU and chrF: sacreBLEU's own command, multi-bleu.perl's definition, and what tokenizer.perl prints."""

import json
import math
import random
import subprocess
import sys
from collections import Counter

import pytest

from engine import bleu

GERMAN = (
    "„Das ist gut“, sagte Herr Dr. Müller – und ging um 10.30 Uhr nach Hause.",
    "Der EU-Kommissar (52) kaufte 3,5 Mio. Aktien der US-amerikanischen Firma …",
    "Über 1\u00a0000 Menschen kamen; »niemand« blieb bis zum 3. Oktober.",
    "Wer's glaubt, wird selig: z. B. die Öl- & Gas-Industrie!",
    "Die Zeile\u2028geht weiter, und die 'kleine' Katze schläft auf dem Dach.",
    'Er fragte: "Kostet das 20 % mehr als im Jahr 2012?"',
    "Sie antwortete: „Wir gehen heim.“",
)
FRENCH = (
    "«\u00a0C'est l'été\u00a0», dit-il\u00a0; qu'est-ce que c'est\u00a0?",
    "L’homme d’État a voté 1\u00a0500 fois contre la loi no. 3.",
    "Aujourd'hui, 25\u00a0% des élèves — surtout à Paris — n'ont rien dit...",
    "M. Dupont [le maire] habite au n° 5, rue de l'Église.",
    'Le ministre\u2028a répondu que "tout allait bien" jusqu\'à midi.',
    "Y a-t-il un arc-en-ciel au-dessus des Champs-Élysées ?",
    'Il a dit : "Tout est fini."',
)
LINES = {"de": GERMAN, "fr": FRENCH}


def corrupted(line: str, noise: random.Random) -> str:
    """Words lost, doubled, moved, in another case or with another sign; sometimes nothing at all."""
    words = line.split(" ")
    for _ in range(noise.randrange(5)):
        i, j = noise.randrange(len(words)), noise.randrange(len(words))
        change = noise.choice(("lose", "double", "swap", "case", "sign"))
        if change == "lose" and len(words) > 1:
            del words[i]
        elif change == "double":
            words.insert(j, words[i])
        elif change == "swap":
            words[i], words[j] = words[j], words[i]
        elif change == "case":
            words[i] = words[i].swapcase()
        elif change == "sign":
            words[i] += noise.choice((",", ".", "...", "-und-", "“", "\u2028", "&quot;", "'s"))
    return "" if noise.random() < 0.1 else " ".join(words)


def corpus(language: str, seed: int, lines: int = 8) -> tuple[list[str], list[str]]:
    """References and translations."""
    noise = random.Random(f"{language} {seed}")
    gold = [noise.choice(LINES[language]) for _ in range(lines)]
    return gold, [corrupted(line, noise) for line in gold]


# --- sacreBLEU ------------------------------------------------------------------------------------------------------


def test_scores_are_those_of_sacrebleus_command_to_the_last_digit(tmp_path):
    for language in LINES:
        gold, found = corpus(language, 1, 60)
        paths = [tmp_path / name for name in ("gold", "found")]
        for path, lines in zip(paths, (gold, found), strict=True):
            path.write_bytes("".join(line + "\n" for line in lines).encode())
        command = [sys.executable, "-m", "sacrebleu", paths[0], "-i", paths[1], "-m", "bleu", "chrf", "-w", "13"]
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=True)
        printed = {one["name"]: one for one in json.loads(done.stdout)}
        assert f"{bleu.sacrebleu(gold, found):.13f}" == f"{printed['BLEU']['score']:.13f}"
        assert f"{bleu.chrf(gold, found):.13f}" == f"{printed['chrF2']['score']:.13f}"
        assert bleu.signature() == printed["BLEU"]["signature"]


def test_the_signature_is_that_of_the_papers_settings():
    """VECO: BLEU+case.mixed+numrefs.1+smooth.exp+tok.13a+version.1.4.9, as sacreBLEU 2 writes it."""
    parts = dict(part.split(":") for part in bleu.signature().split("|"))
    assert parts.pop("version").startswith("2.")
    assert parts == {"nrefs": "1", "case": "mixed", "eff": "no", "tok": "13a", "smooth": "exp"}


# --- multi-bleu.perl ------------------------------------------------------------------------------------------------


def n_grams(words: list[bytes], order: int) -> Counter:
    return Counter(tuple(words[i : i + order]) for i in range(len(words) - order + 1))


def multi_bleu(gold: list[str], found: list[str]) -> float:
    """As multi-bleu.perl -lc defines it, of tokenised text: it reads bytes, so that only A to Z have a lower case."""
    correct, total = Counter(), Counter()
    said = asked = 0
    for reference, translation in zip(gold, found, strict=True):
        theirs, ours = (text.encode().lower().split() for text in (reference, translation))
        said, asked = said + len(ours), asked + len(theirs)
        for order in range(1, 5):
            known, grams = n_grams(theirs, order), n_grams(ours, order)
            total[order] += sum(grams.values())
            correct[order] += sum(min(count, known[gram]) for gram, count in grams.items())
    if not all(correct[order] for order in range(1, 5)):
        return 0.0
    brevity = math.exp(1 - asked / said) if said < asked else 1.0
    return 100 * brevity * math.exp(sum(math.log(correct[order] / total[order]) for order in range(1, 5)) / 4)


@pytest.mark.parametrize("language", LINES)
def test_tokenised_bleu_is_multi_bleus(language):
    tokenise, values = bleu.moses(language), []
    for seed in range(80):
        gold, found = corpus(language, seed)
        expected = multi_bleu([tokenise(line) for line in gold], [tokenise(line) for line in found])
        assert bleu.tokenised_bleu(gold, found, language) == pytest.approx(expected, abs=1e-9)
        values.append(expected)
    assert min(values) < 50 and max(values) > 70 and len(set(values)) > 70


def test_an_order_without_a_match_is_zero_where_sacrebleu_smooths():
    gold, found = ["Die Katze schläft auf dem Dach", "Ein Hund"], ["Die Katze schläft im Haus", "Ein Hund"]
    assert bleu.tokenised_bleu(gold, found, "de") == 0.0 < bleu.sacrebleu(gold, found)
    assert bleu.tokenised_bleu(gold, ["", ""], "de") == bleu.sacrebleu(gold, ["", ""]) == 0.0
    assert bleu.tokenised_bleu(["Ein Hund"], ["Ein Hund"], "de") == 0.0  # no n-gram of four words at all


def test_case_counts_for_sacrebleu_alone_and_an_umlaut_keeps_its_own():
    gold, shouted = ["Die kleine Katze schläft heute auf dem Dach."], ["DIE KLEINE KATZE schläft HEUTE AUF DEM DACH."]
    assert bleu.tokenised_bleu(gold, shouted, "de") == 100.0 > bleu.sacrebleu(gold, shouted)
    over, lower = ["Über dem Dach schläft heute die Katze."], ["über dem Dach schläft heute die Katze."]
    assert bleu.tokenised_bleu(over, lower, "de") < 100.0


# --- Moses ----------------------------------------------------------------------------------------------------------

MOSES = {
    "de": (
        "&quot; Das ist gut &quot; , sagte Herr Dr. Müller - und ging um 10.30 Uhr nach Hause .",
        "Der EU @-@ Kommissar ( 52 ) kaufte 3,5 Mio. Aktien der US @-@ amerikanischen Firma ...",
        "Über 1,000 Menschen kamen ; &quot; niemand &quot; blieb bis zum 3. Oktober .",
        "Wer &apos; s glaubt , wird selig : z. B. die Öl- &amp; Gas @-@ Industrie !",
        "Die Zeile geht weiter , und die &apos; kleine &apos; Katze schläft auf dem Dach .",
        "Er fragte : &quot; Kostet das 20 % mehr als im Jahr 2012 ? &quot;",
        "Sie antwortete : &quot; Wir gehen heim &quot; .",
    ),
    "fr": (
        "&quot; C&apos; est l&apos; été &quot; , dit @-@ il ; qu&apos; est @-@ ce que c&apos; est ?",
        "L&apos; homme d &quot; État a voté 1,500 fois contre la loi no . 3 .",
        "Aujourd&apos; hui , 25 % des élèves - surtout à Paris - n&apos; ont rien dit ...",
        "M. Dupont &#91; le maire &#93; habite au n ° 5 , rue de l&apos; Église .",
        "Le ministre a répondu que &quot; tout allait bien &quot; jusqu&apos; à midi .",
        "Y a @-@ t @-@ il un arc @-@ en @-@ ciel au @-@ dessus des Champs @-@ Élysées ?",
        "Il a dit : &quot; Tout est fini &quot; .",
    ),
}


@pytest.mark.parametrize("language", LINES)
def test_text_is_tokenised_as_by_the_scripts_of_moses(language):
    """Printed by normalize-punctuation.perl -l and tokenizer.perl -a -l."""
    assert tuple(map(bleu.moses(language), LINES[language])) == MOSES[language]


def test_signs_that_moses_makes_equal_cost_nothing():
    gold, found = ["„Gut“, sagte er – und ging nach Hause …"], ['"Gut", sagte er - und ging nach Hause ...']
    assert bleu.tokenised_bleu(gold, found, "de") == 100.0 > bleu.sacrebleu(gold, found)


# --- all of them ----------------------------------------------------------------------------------------------------

MEASURES = {
    "sacrebleu": bleu.sacrebleu,
    "bleu": lambda gold, found: bleu.tokenised_bleu(gold, found, "de"),
    "chrf": bleu.chrf,
}


@pytest.mark.parametrize("name", MEASURES)
def test_gold_is_a_hundred_and_lines_stay_in_order(name):
    measure, (gold, found) = MEASURES[name], corpus("de", 3, 20)
    assert measure(gold, gold) == 100.0  # never more, by rounding
    assert 0 < measure(gold, found) < 100
    order = random.Random(0).sample(range(20), 20)
    together = [gold[i] for i in order], [found[i] for i in order]
    assert measure(*together) == pytest.approx(measure(gold, found), abs=1e-9)
    assert measure(gold, together[1]) < measure(gold, found)


@pytest.mark.parametrize("name", MEASURES)
def test_other_numbers_of_lines_are_no_score(name):
    for gold, found in ((["a"], []), (["a"], ["a", "b"]), ([], [])):
        with pytest.raises(ValueError, match=f"{len(found)} translations for {len(gold)} references"):
            MEASURES[name](gold, found)


def test_packages_are_loaded_when_something_is_scored(repository):
    code = "import sys; import engine.bleu; print(sorted({'sacrebleu', 'sacremoses', 'numpy'} & set(sys.modules)))"
    scripts = repository / "workflow/scripts"
    found = subprocess.run([sys.executable, "-c", code], cwd=scripts, capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"
