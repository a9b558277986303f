"""Sentences that name persons, places and organisations, some by two words: what WikiANN and CoNLL tag."""

import random
from dataclasses import replace

from world.concepts import KIND_OF_NAME, PLACE_CLASS, PREPOSITIONS, Concept, Event, NounPhrase, World, described
from world.languages import Token, written_words

NAMED = 0.6  # share of the phrases that could be a name
ORGANISATIONS = 0.35  # of the named subjects that could be a person
SECOND_NAME = 0.4  # of names of persons and organisations in subject and object
PLACED, IN_A_MANNER, NEGATED = 0.4, 0.2, 0.1  # shares of events
ROLE_OF = {"nsubj": "subject", "object": "object", "obl": "place"}  # by the source of a token


def naming_event(world: World, rng: random.Random, held_out: bool) -> Event:
    """An event with one name or more.

    A second word makes a name of two: a person's other name, or the place of an organisation, whose word alone would be
    a place. Subject and object are never such that two names side by side, as some word orders have them, could be one.
    """
    while True:
        verb = rng.choice(world.verbs)
        wanted = [
            kind(rng, world.subject_class[verb.name], ORGANISATIONS),
            kind(rng, world.object_class.get(verb.name)),
        ]
        if wanted in (["PER", "PER"], ["ORG", "LOC"]):
            continue
        fitting = [pair for pair in world.cores(verb, held_out) if [head and kind_of(head) for head in pair] == wanted]
        preposition = rng.choice(PREPOSITIONS) if rng.random() < PLACED else None
        place = kind(rng, PLACE_CLASS[preposition]) if preposition else None
        if not fitting or not {*wanted, place} & {*world.entities}:
            continue
        subject, object_ = rng.choice(fitting)
        event = Event(named(world, rng, subject), verb, object_ and named(world, rng, object_), past=rng.random() < 0.5)
        if preposition:
            heads = world.entities.get(place) or world.nouns[PLACE_CLASS[preposition]][:-1]
            event = replace(event, preposition=preposition, place=described(world, rng, rng.choice(heads)))
        if rng.random() < IN_A_MANNER:
            event = replace(event, adverb=rng.choice(world.adverbs))
        return replace(event, negated=rng.random() < NEGATED)


def kind(rng: random.Random, cls: str | None, organisations: float = 0.0) -> str | None:
    """What a phrase of this class shall be: PER, LOC, ORG or a noun."""
    if cls is None or cls not in KIND_OF_NAME.values() or rng.random() >= NAMED:
        return cls and "noun"
    if cls == "place":
        return "LOC"
    return "ORG" if rng.random() < organisations else "PER"


def kind_of(head: Concept) -> str:
    return head.cls if head.kind == "entity" else "noun"


def named(world: World, rng: random.Random, head: Concept) -> NounPhrase:
    phrase = described(world, rng, head)
    if head.cls not in ("PER", "ORG") or rng.random() >= SECOND_NAME:
        return phrase
    seconds = world.entities["LOC"] if head.cls == "ORG" else world.entities["PER"]
    return replace(phrase, second=rng.choice([second for second in seconds if second != head]))


def tagged_words(event: Event, tokens: list[Token], miscellaneous: Concept | None = None) -> list[tuple[str, str, str]]:
    """(word, part of speech, tag in IOB2); one organisation may count as MISC, as CoNLL has a fourth type."""
    rows = []
    for word, own in written_words(tokens):
        token, tag = tokens[own[0]], "O"
        if token.upos == "PROPN":
            role, _, part = token.source.partition("/")
            head = getattr(event, ROLE_OF[role]).head
            tag = ("I-" if part == "second" else "B-") + ("MISC" if head == miscellaneous else head.cls)
        rows.append((word, token.upos, tag))
    return rows
