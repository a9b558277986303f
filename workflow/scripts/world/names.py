"""Sentences that name persons, places and organisations, some by two words: what WikiANN and CoNLL tag."""

import random
from dataclasses import replace

from world.concepts import Concept, Event, NounPhrase, Storyteller, World
from world.languages import Token, written_words

NAMED = 0.6  # share of the phrases that could be a name
ORGANISATIONS = 0.35  # of the named subjects that could be a person
SECOND_NAME = 0.4  # of names of persons and organisations in subject and object
ROLE_OF = {"nsubj": "subject", "object": "object", "obl": "place"}  # by the source of a token


def naming_event(world: World, rng: random.Random, held_out: bool) -> Event:
    """An event with one name or more.

    A second word makes a name of two: a person's other name, or the place of an organisation, whose word alone would be
    a place. Subject and object are never such that two names side by side, as some word orders have them, could be one.
    """
    teller = Storyteller(world, rng, topical=0.0)
    while True:
        event = teller.any_event()
        if event.verb is None:
            continue
        phrases = {"subject": event.subject, "object": event.object, "place": event.place}
        named = {
            role: name(world, rng, phrase.head.cls, role)
            for role, phrase in phrases.items()
            if phrase and phrase.head.cls not in world.entities and rng.random() < NAMED
        }
        named = {role: phrase for role, phrase in named.items() if phrase}
        event = replace(event, **named)
        kinds = [phrase.head.cls if phrase else "" for phrase in (event.subject, event.object)]
        if kinds in (["PER", "PER"], ["ORG", "LOC"]):
            continue
        has_name = any(p and p.head.kind == "entity" for p in (event.subject, event.object, event.place))
        if has_name and world.held_out(event) == held_out:
            return event


def name(world: World, rng: random.Random, cls: str, role: str) -> NounPhrase | None:
    kind = {"person": "PER", "place": "LOC"}.get(cls)
    if kind is None:
        return None
    if kind == "PER" and role == "subject" and rng.random() < ORGANISATIONS:
        kind = "ORG"
    head = rng.choice(world.entities[kind])
    second = None
    if role != "place" and kind != "LOC" and rng.random() < SECOND_NAME:
        others = world.entities["LOC"] if kind == "ORG" else [other for other in world.entities[kind] if other != head]
        second = rng.choice(others)
    return NounPhrase(head, second=second)


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
