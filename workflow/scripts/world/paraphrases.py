"""Pairs of sentences with nearly the same words that say the same or not: what PAWS-X asks."""

import random
from dataclasses import replace

from world.concepts import (
    FIRST_YEAR,
    LAST_YEAR,
    PLACE_CLASS,
    PREPOSITIONS,
    Concept,
    Event,
    NounPhrase,
    World,
    any_thing,
    any_verb,
)

Ordered = tuple[Event, str | None]  # an event and the phrase that comes first in its sentence

POSITIVES = 0.44  # share of paraphrases, as upstream
SWAPS = 0.2  # of the others: the same words, the roles exchanged; with a third, adjectives are learnt later
DETAILED = 0.5  # of events: a place or a year, which can come first
SAME_ORDER = 0.5  # of detailed pairs of either label


def paraphrase_pair(world: World, rng: random.Random, same: bool, held_out: bool) -> tuple[Ordered, Ordered]:
    """Two sentences of one event (`same`), or of two that differ in who does what or in the adjective.

    Who does what is drawn without regard to what usually happens, and the orders without regard to the label, so that
    neither an unlikely event nor a phrase at the front tells it. The kind of pair is drawn before the event: on one
    side of the world swaps are rarer, and drawing both together would leave few of them.
    """
    swap = rng.random() < SWAPS
    while True:
        event = plain_event(world, rng)
        other = event if same else with_roles_swapped(event) if swap else with_another_adjective(world, rng, event)
        if world.held_out(event) == world.held_out(other) == held_out:
            break
    detail = "place" if event.place else "time" if event.year else None
    if detail and rng.random() >= SAME_ORDER:
        first, second = rng.sample((None, detail), 2)
    else:
        first = second = rng.choice((None, detail))
    return (event, first), (other, second)


def plain_event(world: World, rng: random.Random) -> Event:
    """Who did what to whom, one of the two with an adjective, and perhaps where or when.

    Twelve adjectives, one of them in each sentence: a laptop's model learns to compare these, and not any noun.
    """
    subject, object_ = any_thing(world, rng), any_thing(world, rng)
    while object_.head == subject.head:
        object_ = any_thing(world, rng)
    event = Event(subject, any_verb(world, rng), object_, past=True)
    role = rng.choice(("subject", "object"))
    event = with_adjective(event, role, rng.choice(world.adjectives))
    if rng.random() >= DETAILED:
        return event
    if rng.random() < 0.5:
        return replace(event, year=rng.randint(FIRST_YEAR, LAST_YEAR))
    preposition = rng.choice(PREPOSITIONS)
    places = [c for c in world.nouns[PLACE_CLASS[preposition]][:-1] if c not in (subject.head, object_.head)]
    return replace(event, preposition=preposition, place=NounPhrase(rng.choice(places)))


def with_roles_swapped(event: Event) -> Event:
    return replace(event, subject=event.object, object=event.subject)


def with_another_adjective(world: World, rng: random.Random, event: Event) -> Event:
    role = "subject" if event.subject.adjective else "object"
    said = getattr(event, role).adjective
    return with_adjective(event, role, rng.choice([a for a in world.adjectives if a != said]))


def with_adjective(event: Event, role: str, adjective: Concept) -> Event:
    return replace(event, **{role: replace(getattr(event, role), adjective=adjective)})
