"""How each language of the mini-world says an event: lexicon, script, word order, affixes.

The languages are stand-ins. They carry a real ISO code and some of that language's typology, so that tables keep their
shape, but their words are drawn from the world's seed.
"""

import random
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from world.concepts import PREPOSITIONS, Concept, Event, NounPhrase, World


@dataclass(frozen=True)
class Profile:
    """Typology of one stand-in language."""

    name: str
    family: str
    script: str = "latin"
    order: str = "SVO"  # SVO, SOV, VSO, or V2 (SVO, but the verb comes before the subject after a fronted adverb)
    adjective: str = "before"  # before or after its noun
    adposition: str = "before"
    article: str = "before"  # before, prefix (written together with the noun), none
    plural: bool = True  # marked on nouns
    accusative: bool = False  # objects carry a case suffix
    agreement: bool = False  # verbs and adjectives agree in number
    negation: str = "before"  # before or after the verb, or suffix
    tense: str = "suffix"  # suffix or auxiliary
    copula: bool = True
    contraction: bool = False  # preposition + definite article are written as one word
    cognates: float = 0.5  # share of concepts whose word comes from the family


PROFILES = {
    "en": Profile("English", "germanic", negation="before", tense="auxiliary"),
    "de": Profile("German", "germanic", order="V2", accusative=True, negation="after", contraction=True),
    "fr": Profile("French", "romance", adjective="after", agreement=True, contraction=True),
    "es": Profile("Spanish", "romance", adjective="after", agreement=True, contraction=True),
    "el": Profile("Greek", "hellenic", script="greek", accusative=True, agreement=True),
    "bg": Profile("Bulgarian", "slavic", script="cyrillic", article="none", agreement=True),
    "ru": Profile(
        "Russian", "slavic", script="cyrillic", article="none", accusative=True, agreement=True, copula=False
    ),
    "tr": Profile(
        "Turkish", "turkic", order="SOV", adposition="after", article="none", accusative=True, negation="suffix"
    ),
    "ar": Profile("Arabic", "semitic", script="arabic", order="VSO", adjective="after", article="prefix", copula=False),
    "vi": Profile("Vietnamese", "vietic", adjective="after", article="none", plural=False, tense="auxiliary"),
    "th": Profile("Thai", "tai", script="thai", adjective="after", article="none", plural=False, tense="auxiliary"),
    "zh": Profile("Chinese", "sinitic", script="han", article="none", plural=False, tense="auxiliary"),
    "hi": Profile(
        "Hindi", "indic", script="devanagari", order="SOV", adposition="after", article="none", accusative=True
    ),
    "sw": Profile("Swahili", "bantu", adjective="after", article="none", agreement=True),
    "ur": Profile("Urdu", "indic", script="arabic", order="SOV", adposition="after", article="none", accusative=True),
}
UNSPACED_SCRIPTS = ("han", "thai")
INTERNATIONAL_SHARE = 0.05  # of concepts: one loan word in every language
HOMOGRAPHS = 6  # verbs that share their stem with a noun in every language, so that only context tells the tag

ONSETS = ["p", "t", "k", "b", "d", "g", "m", "n", "s", "r", "l", "v", "f", "z", "h"]
VOWELS = ["a", "e", "i", "o", "u"]
LETTERS = {  # transliteration of the phonemes above
    "cyrillic": dict(zip("ptkbdgmnsrlvfzhaeiou", "пткбдгмнсрлвфзхаеиоу", strict=True)),
    "greek": dict(zip("ptkbdgmnsrlvfzhaeiou", "πτκβδγμνσρλψφζχαεηοω", strict=True)),
    "arabic": dict(zip("ptkbdgmnsrlvfzhaeiou", "پتكبدغمنسرلوفزهاىيعؤ", strict=True)),
    "thai": dict(zip("ptkbdgmnsrlvfzhaeiou", "ปตกบดคมนสรลวฟซหาอิูุ", strict=True)),
    "devanagari": dict(zip("ptkbdgmnsrlvfzh", "पतकबदगमनसरलवफजह", strict=True)),
}
DEVANAGARI_SIGNS = {"a": "ा", "e": "े", "i": "ि", "o": "ो", "u": "ु"}
DEVANAGARI_VOWELS = {"a": "आ", "e": "ए", "i": "इ", "o": "ओ", "u": "उ"}
FULL_STOP = {"han": "。", "devanagari": "।"}
QUESTION_MARK = {"han": "？", "arabic": "؟", "greek": ";"}
UPOS = {"noun": "NOUN", "verb": "VERB", "adjective": "ADJ", "adverb": "ADV", "entity": "PROPN"}
FUNCTION_WORDS = ("the", "a", "not", "be", "past", *PREPOSITIONS)
SUFFIXES = ("plural", "accusative", "past", "verb plural", "adjective plural", "not")


class Token(NamedTuple):
    """One word of a sentence. `source` names what it expresses, so words with equal sources translate each other."""

    form: str
    upos: str
    source: str
    head: int  # index of the governing token in the sentence, -1 for the root
    relation: str
    lemma: str
    space_after: bool = True
    joined: int = 0  # > 0: this and the following joined - 1 tokens are written as `surface`
    surface: str = ""


def transliterate(word: str, script: str) -> str:
    if script == "latin":
        return word
    if script != "devanagari":
        return "".join(LETTERS[script].get(letter, letter) for letter in word)
    out, after_consonant = [], False
    for letter in word:
        if letter in DEVANAGARI_SIGNS:
            out.append(DEVANAGARI_SIGNS[letter] if after_consonant else DEVANAGARI_VOWELS[letter])
            after_consonant = False
        else:
            out.append(LETTERS["devanagari"].get(letter, letter))
            after_consonant = True
    return unicodedata.normalize("NFC", "".join(out))


def syllables(rng: random.Random, n: int) -> str:
    return "".join(rng.choice(ONSETS) + rng.choice(VOWELS) for _ in range(n)) + rng.choice(["", "", "n", "s", "r", "l"])


def sound_change(word: str, language: str, seed: int) -> str:
    """A regular change of a few letters, the same for every word of the language."""
    rng = random.Random(f"{seed}/sound/{language}")
    changed = rng.sample(ONSETS, 3)
    table = dict(zip(changed, rng.sample(ONSETS, 3), strict=True))
    return "".join(table.get(letter, letter) for letter in word)


@dataclass
class Language:
    code: str
    profile: Profile
    stems: dict[str, str]
    function: dict[str, str]
    suffix: dict[str, str]
    spaced: bool = True
    variant: dict[str, str] = field(default_factory=dict)  # traditional characters, for zh-Hant


def build_language(world: World, code: str, like: str | None = None) -> Language:
    """`like` another language: its grammar, and words and a script of its own."""
    profile = PROFILES[code]
    if like:
        own = {"name": profile.name, "family": profile.family, "script": profile.script, "cognates": 0.0}
        profile = replace(PROFILES[like], **own)
    rng = random.Random(f"{world.seed}/language/{code}")
    if profile.script == "han":
        return build_han_language(world, code, profile, rng)
    taken: set[str] = set()

    def fresh(draw: Callable[[], str]) -> str:
        while True:
            word = draw()
            if word not in taken:
                taken.add(word)
                return word

    function = {name: transliterate(fresh(lambda: syllables(rng, 1)), profile.script) for name in FUNCTION_WORDS}
    stems = {}
    for concept in world.concepts:
        shared = random.Random(f"{world.seed}/root/{concept.name}")
        international = concept.kind == "entity" or shared.random() < INTERNATIONAL_SHARE
        if international:
            word = sound_change(syllables(shared, 2 + (concept.kind == "entity")), code, world.seed)
        elif rng.random() < profile.cognates:
            root = random.Random(f"{world.seed}/family/{profile.family}/{concept.name}")
            word = sound_change(syllables(root, 2), code, world.seed)
        else:
            word = syllables(rng, 2)
        while word in taken:
            word += rng.choice(ONSETS) + rng.choice(VOWELS)
        taken.add(word)
        if concept.kind == "entity" and profile.script in ("latin", "cyrillic", "greek"):
            word = word.capitalize()
        stems[concept.name] = transliterate(word, profile.script)
        if concept.kind == "entity" and profile.script in ("cyrillic", "greek"):
            stems[concept.name] = transliterate(word.lower(), profile.script).capitalize()
    share_homographs(world, stems)
    suffix = {
        name: transliterate(rng.choice(VOWELS) + rng.choice(["", *ONSETS[:9]]), profile.script) for name in SUFFIXES
    }
    if profile.script == "devanagari":
        suffix = {name: transliterate(rng.choice("nsrlmk") + rng.choice(VOWELS), "devanagari") for name in SUFFIXES}
    return Language(code, profile, stems, function, suffix, spaced=profile.script not in UNSPACED_SCRIPTS)


def build_han_language(world: World, code: str, profile: Profile, rng: random.Random) -> Language:
    characters = [chr(c) for c in range(0x4E00, 0x4E00 + 2400)]
    rng.shuffle(characters)
    take = iter(characters)
    function = {name: next(take) for name in FUNCTION_WORDS}
    stems = {c.name: next(take) + (next(take) if rng.random() < 0.5 else "") for c in world.concepts}
    share_homographs(world, stems)
    pairs = [next(take) for _ in range(200)]
    simplified = sorted({stem[0] for stem in stems.values()})[::4]
    variant = dict(zip(simplified, pairs, strict=False))
    return Language(code, profile, stems, function, dict.fromkeys(SUFFIXES, ""), spaced=False, variant=variant)


def share_homographs(world: World, stems: dict[str, str]) -> None:
    nouns = [noun for cls in world.nouns.values() for noun in cls[:-1]]
    for verb, noun in zip(world.verbs[::3][:HOMOGRAPHS], nouns[5::7], strict=False):
        stems[verb.name] = stems[noun.name]


class Speaker:
    """Turns events into tokens of one language."""

    def __init__(self, world: World, language: Language):
        self.world, self.language = world, language

    def word(self, concept: Concept, suffixes: list[str]) -> str:
        stem = self.language.stems[concept.name]
        return stem + "".join([self.language.suffix[name] for name in suffixes]) if suffixes else stem

    def noun_phrase(self, phrase: NounPhrase, role: str, preposition: str | None = None) -> list[tuple]:
        """(form, upos, source, relation, lemma, is_head) of each word, the adposition included where there is one."""
        profile, function = self.language.profile, self.language.function
        suffixes = []
        if phrase.plural and profile.plural and phrase.head.kind == "noun":
            suffixes.append("plural")
        if role == "object" and profile.accusative:
            suffixes.append("accusative")
        form = self.word(phrase.head, suffixes)
        article = "the" if phrase.definite else "a"
        has_article = (
            phrase.head.kind == "noun" and profile.article == "before" and (phrase.definite or not phrase.plural)
        )
        if phrase.head.kind == "noun" and profile.article == "prefix" and phrase.definite:
            form = function["the"] + form
        relation = "obj" if role == "object" else role
        words = [(form, UPOS[phrase.head.kind], f"{role}/head", relation, self.language.stems[phrase.head.name], True)]
        if phrase.second:
            second = self.language.stems[phrase.second.name]
            words = [*words, (second, UPOS[phrase.second.kind], f"{role}/second", "flat", second, False)]
        if phrase.adjective:
            agreeing = ["adjective plural"] if phrase.plural and profile.agreement else []
            adjective = (self.word(phrase.adjective, agreeing), "ADJ", f"{role}/adjective", "amod")
            adjective = (*adjective, self.language.stems[phrase.adjective.name], False)
            words = [adjective, *words] if profile.adjective == "before" else [*words, adjective]
        if has_article:
            words = [(function[article], "DET", f"{role}/article", "det", function[article], False), *words]
        if preposition:
            adposition = (function[preposition], "ADP", f"{role}/adposition", "case", function[preposition], False)
            words = [adposition, *words] if profile.adposition == "before" else [*words, adposition]
        return words

    def say(self, event: Event, front: str | None = None) -> list[Token]:
        """`front`: the place or the time comes first, whatever the usual order."""
        profile, function = self.language.profile, self.language.function
        subject = self.noun_phrase(event.subject, "nsubj")
        objects = self.noun_phrase(event.object, "object") if event.object else []
        place = self.noun_phrase(event.place, "obl", event.preposition) if event.place else []
        time = []
        if event.adverb:
            time = [
                (self.word(event.adverb, []), "ADV", "adverb", "advmod", self.language.stems[event.adverb.name], False)
            ]
        elif event.year is not None:
            year = (str(event.year), "NUM", "year", "obl:tmod", str(event.year), True)
            adposition = (function["in"], "ADP", "year/adposition", "case", function["in"], False)
            time = [adposition, year] if profile.adposition == "before" else [year, adposition]
        if event.verb is None:
            verb = [(function["be"], "AUX", "verb", "cop", function["be"], False)] if profile.copula else []
        else:
            verb = self.verb_group(event)
        order = profile.order
        if front:
            first, other = (place, time) if front == "place" else (time, place)
            middle = {"SOV": [subject, other, objects, verb], "SVO": [subject, verb, objects, other]}
            parts = [first, *middle.get(order, [verb, subject, objects, other])]
        elif order == "SOV":
            parts = [subject, time, place, objects, verb]
        elif order == "VSO":
            parts = [verb, subject, objects, place, time] if event.verb else [subject, objects]
        elif order == "V2" and event.adverb and event.verb:
            parts = [time, verb, subject, objects, place]
        else:
            parts = [subject, verb, objects, place, time]
        return self.attach([word for part in parts for word in part])

    def verb_group(self, event: Event) -> list[tuple]:
        profile, function = self.language.profile, self.language.function
        suffixes = []
        if event.past and profile.tense == "suffix":
            suffixes.append("past")
        if event.subject.plural and profile.agreement:
            suffixes.append("verb plural")
        if event.negated and profile.negation == "suffix":
            suffixes.append("not")
        verb = (self.word(event.verb, suffixes), "VERB", "verb", "root", self.language.stems[event.verb.name], True)
        group = [verb]
        if event.negated and profile.negation != "suffix":
            negation = (function["not"], "PART", "not", "advmod", function["not"], False)
            group = [negation, verb] if profile.negation == "before" else [verb, negation]
        if event.past and profile.tense == "auxiliary":
            group = [(function["past"], "AUX", "past", "aux", function["past"], False), *group]
        return group

    def attach(self, words: list[tuple]) -> list[Token]:
        """Dependency heads (dependents of a phrase point at its head, heads at the verb), contractions, full stop."""
        phrases = [word[2].partition("/")[0] for word in words]
        heads = {phrases[i]: i for i, word in enumerate(words) if word[5]}
        root = heads.get("verb", heads.get("object", 0))
        spaced, the, contraction = (
            self.language.spaced,
            self.language.function["the"],
            self.language.profile.contraction,
        )
        last = len(words) - 1
        tokens = []
        for i, (form, upos, source, relation, lemma, is_head) in enumerate(words):
            head = root if is_head else heads.get(phrases[i], root)
            joined, surface = 0, ""
            if contraction and upos == "ADP" and words[i + 1][0] == the:
                joined, surface = 2, form + the[-1]
            if i == root:
                head, relation = -1, "root"
            tokens.append(Token(form, upos, source, head, relation, lemma, spaced and i < last, joined, surface))
        stop = FULL_STOP.get(self.language.profile.script, ".")
        tokens.append(Token(stop, "PUNCT", "stop", root, "punct", stop, False))
        return tokens

    def sentence(self, event: Event) -> str:
        return detokenise(self.say(event))

    def ask(self, event: Event) -> list[Token]:
        """The sentence as a question: in no stand-in language does the word order change."""
        *words, stop = self.say(event)
        mark = QUESTION_MARK.get(self.language.profile.script, "?")
        return [*words, stop._replace(form=mark, lemma=mark)]


def detokenise(tokens: list[Token]) -> str:
    return "".join(word + " " * tokens[own[-1]].space_after for word, own in written_words(tokens)).strip()


def written_words(tokens: list[Token]) -> list[tuple[str, list[int]]]:
    """What a reader sees as words, each with the numbers of its tokens: a contraction is one word."""
    words, i = [], 0
    while i < len(tokens):
        count = tokens[i].joined or 1
        words.append((tokens[i].surface if tokens[i].joined else tokens[i].form, list(range(i, i + count))))
        i += count
    return words


def character_spans(tokens: list[Token]) -> list[tuple[int, int]]:
    """First and last-plus-one character of each token in the detokenised sentence."""
    spans, at = [], 0
    for word, own in written_words(tokens):
        spans += [(at, at + len(word))] * len(own)
        at += len(word) + tokens[own[-1]].space_after
    return spans


def alignment(source: list[Token], target: list[Token]) -> list[tuple[int, int]]:
    """Gold word alignment: words that express the same part of the event."""
    return [(i, j) for i, a in enumerate(source) for j, b in enumerate(target) if a.source == b.source]
