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
SAME_ORDER = 0.3  # of pairs of either label
ADJECTIVES = (0.5, 0.3, 0.2)  # shares of events with two, one and none
BOTH_DETAILS = 0.3  # of events: a place and a year, where others have one of them
NEGATED = 0.1


def paraphrase_pair(world: World, rng: random.Random, same: bool, held_out: bool) -> tuple[Ordered, Ordered]:
    """Two sentences of one event (`same`), or of two that differ in who does what, in the adjectives or in one word.

    Who does what is drawn without regard to what usually happens, and the orders without regard to the label, so that
    neither an unlikely event nor a phrase at the front tells it.
    """
    while True:
        event = detailed_event(world, rng)
        other = event if same else twisted(world, rng, event)
        if world.held_out(event) == world.held_out(other) == held_out:
            break
    orders = [None, *(["place"] if event.place else []), *(["time"] if event.year else [])]
    if rng.random() < SAME_ORDER:
        first = second = rng.choice(orders)
    else:
        first, second = rng.sample(orders, 2)
    return (event, first), (other, second)


def detailed_event(world: World, rng: random.Random) -> Event:
    """Who did what to whom, and where or when: a phrase that can come first."""
    subject, object_ = any_thing(world, rng), any_thing(world, rng)
    while object_.head == subject.head:
        object_ = any_thing(world, rng)
    count = rng.choices((2, 1, 0), ADJECTIVES)[0]
    adjectives = [*rng.sample(world.adjectives, count), None, None][:2]
    if count == 1:
        rng.shuffle(adjectives)
    subject, object_ = replace(subject, adjective=adjectives[0]), replace(object_, adjective=adjectives[1])
    event = Event(subject, any_verb(world, rng), object_, past=True, negated=rng.random() < NEGATED)
    detail = "both" if rng.random() < BOTH_DETAILS else rng.choice(("place", "year"))
    if detail != "year":
        preposition = rng.choice(PREPOSITIONS)
        head = another(rng, world.nouns[PLACE_CLASS[preposition]][:-1], {subject.head, object_.head})
        event = replace(event, preposition=preposition, place=NounPhrase(head))
    return event if detail == "place" else replace(event, year=rng.randint(FIRST_YEAR, LAST_YEAR))


def twisted(world: World, rng: random.Random, event: Event) -> Event:
    """The same words in other roles, or one word replaced by another of its class."""
    subject, object_ = event.subject, event.object
    if rng.random() < 0.5:
        if subject.adjective and object_.adjective and rng.random() < 0.5:
            swapped = [replace(subject, adjective=object_.adjective), replace(object_, adjective=subject.adjective)]
        else:
            swapped = [object_, subject]
        return replace(event, subject=swapped[0], object=swapped[1])
    roles = [role for role in ("subject", "object", "place") if getattr(event, role)]
    described = [role for role in roles if getattr(event, role).adjective]
    kind, role = rng.choice([("verb", ""), *(("head", role) for role in roles), *(("adjective", r) for r in described)])
    if kind == "verb":
        return replace(event, verb=another(rng, [v for v in world.verbs if v.name in world.object_class], {event.verb}))
    phrase = getattr(event, role)
    if kind == "head":
        said = {getattr(event, own).head for own in roles}
        phrase = replace(phrase, head=another(rng, world.nouns[phrase.head.cls][:-1], said))
    else:
        said = {getattr(event, own).adjective for own in described}
        phrase = replace(phrase, adjective=another(rng, world.adjectives, said))
    return replace(event, **{role: phrase})


def another(rng: random.Random, pool: list[Concept], said: set[Concept]) -> Concept:
    return rng.choice([concept for concept in pool if concept not in said])
