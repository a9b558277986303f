"""Short documents and questions about them: what SQuAD, XQuAD, MLQA and TyDiQA ask."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from world.concepts import PLACE_CLASS, PREPOSITIONS, Concept, Event, NounPhrase, Storyteller, World
from world.languages import Token, character_spans, detokenise

FURTHER_EVENTS = (0, 1, 1, 2)  # beside the three that a context always has
PLACED, IN_A_MANNER = 0.3, 0.15  # shares of events
CLASS_OF = {"PER": "person", "ORG": "person", "LOC": "place"}
SOURCE_OF = {"subject": "nsubj", "object": "object", "place": "obl"}  # of a phrase's tokens
TRIES = 60  # draws of one event before its context is given up: some verbs and objects have no held-out subject
PER_CONTEXT = 3  # questions


@dataclass(frozen=True)
class Ask:
    """A question for one phrase of one sentence of a context."""

    sentence: int
    role: str
    event: Event  # the sentence's own, with the kind of what is asked for in its place


@dataclass(frozen=True)
class Paragraph:
    events: tuple[Event, ...]
    asks: tuple[Ask, ...]


def paragraph(world: World, rng: random.Random, held_out: bool) -> Paragraph:
    """Three to five sentences. Two share a verb, two share a thing, so that a question is answered by no word alone."""
    while True:
        teller = Storyteller(world, rng, topical=0.3)
        first = told(teller, rng.choice([verb for verb in world.verbs if verb.name in world.object_class]), held_out)
        events = [first, first and told(teller, first.verb, held_out, others={first.subject.head, first.object.head})]
        events.append(first and told_of(teller, first, held_out))
        events += [told(teller, rng.choice(world.verbs), held_out) for _ in range(rng.choice(FURTHER_EVENTS))]
        if None in events or len({event.core() for event in events}) < len(events):
            continue
        rng.shuffle(events)
        asks = all_asks(world, events)
        if asks:
            return Paragraph(tuple(events), tuple(rng.sample(asks, min(PER_CONTEXT, len(asks)))))


def told(
    teller: Storyteller,
    verb: Concept,
    held_out: bool,
    given: dict[str, NounPhrase] | None = None,
    others: Sequence[Concept] | set[Concept] = (),
) -> Event | None:
    """An event of this verb that names no kinds; `given` phrases stay, heads of `others` do not occur."""
    world, rng, given = teller.world, teller.rng, given or {}
    classes = {"subject": world.subject_class[verb.name], "object": world.object_class.get(verb.name)}
    for _ in range(TRIES):
        phrases = {
            role: given.get(role) or teller.noun_phrase(cls, role) if cls else None for role, cls in classes.items()
        }
        event = Event(phrases["subject"], verb, phrases["object"], past=rng.random() < 0.5)
        if rng.random() < PLACED:
            preposition = rng.choice(PREPOSITIONS)
            place = teller.noun_phrase(PLACE_CLASS[preposition], "place")
            event = replace(event, preposition=preposition, place=place)
        if rng.random() < IN_A_MANNER:
            event = replace(event, adverb=rng.choice(world.adverbs))
        heads = [phrase.head for phrase in phrases_of(event).values()]
        kinds = any(head.kind == "noun" and head == world.hypernym(head) for head in heads)
        twice = len(set(heads)) < len(heads) or not set(others).isdisjoint(heads)
        if not kinds and not twice and world.held_out(event) == held_out:
            return event
    return None


def told_of(teller: Storyteller, event: Event, held_out: bool) -> Event | None:
    """Another event with the subject or the object of this one."""
    world, rng = teller.world, teller.rng
    thing = rng.choice((event.subject, event.object)).head
    cls = CLASS_OF.get(thing.cls, thing.cls)
    fitting = [
        (verb, role)
        for verb in world.verbs
        for role, classes in (("subject", world.subject_class), ("object", world.object_class))
        if verb != event.verb and classes.get(verb.name) == cls and not (thing.cls == "ORG" and role == "object")
    ]
    if not fitting:
        return None
    verb, role = rng.choice(fitting)
    return told(teller, verb, held_out, given={role: NounPhrase(thing)})


def phrases_of(event: Event) -> dict[str, NounPhrase]:
    phrases = {"subject": event.subject, "object": event.object, "place": event.place}
    return {role: phrase for role, phrase in phrases.items() if phrase}


def all_asks(world: World, events: Sequence[Event]) -> list[Ask]:
    """For every phrase whose question has one answer, and another sentence that could be taken for the right one."""
    asks = []
    for i, event in enumerate(events):
        others = [other for other in events if other is not event]
        for role, phrase in phrases_of(event).items():
            if phrase.head.cls == "ORG":  # of no kind that has a word
                continue
            cls = CLASS_OF.get(phrase.head.cls, phrase.head.cls)
            ask = Ask(i, role, asked(world, event, role, cls))
            misleading = any(
                other.verb == event.verb
                or any(CLASS_OF.get(p.head.cls, p.head.cls) == cls for p in phrases_of(other).values())
                for other in others
            )
            if misleading and not any(answers(ask, other) for other in others):
                asks.append(ask)
    return asks


def asked(world: World, event: Event, role: str, cls: str) -> Event:
    """Only who did what to whom, and the place where that is asked for: the kind in place of the thing."""
    bare = {
        own: NounPhrase(phrase.head, definite=True, plural=phrase.plural)
        for own, phrase in phrases_of(event).items()
        if own != "place" or role == "place"
    }
    bare[role] = replace(bare[role], head=world.nouns[cls][-1])
    preposition = event.preposition if role == "place" else None
    return Event(bare["subject"], event.verb, bare.get("object"), preposition, bare.get("place"), past=event.past)


def answers(ask: Ask, event: Event) -> bool:
    """Does the event hold everything that the question says?"""
    said = phrases_of(ask.event)
    return event.verb == ask.event.verb and all(
        (own := phrases_of(event).get(role)) is not None and (role == ask.role or own.head == phrase.head)
        for role, phrase in said.items()
    )


def answer_tokens(tokens: Sequence[Token], role: str) -> list[int]:
    """The noun and its adjective, which stand side by side; the article stays out where it is a word of its own."""
    source = SOURCE_OF[role]
    return [i for i, token in enumerate(tokens) if token.source in (f"{source}/head", f"{source}/adjective")]


def context_and_answers(
    sentences: Sequence[list[Token]], wanted: Sequence[tuple[int, list[int]]], glue: str
) -> tuple[str, list[tuple[str, int]]]:
    """The text of the sentences, and of each (sentence, tokens) wanted its text and first character."""
    texts = [detokenise(tokens) for tokens in sentences]
    context = glue.join(texts)
    found = []
    for sentence, own in wanted:
        before = sum(len(text) + len(glue) for text in texts[:sentence])
        spans = character_spans(sentences[sentence])
        first, last = before + spans[own[0]][0], before + spans[own[-1]][1]
        found.append((context[first:last], first))
    return context, found
