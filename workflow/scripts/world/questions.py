"""Short documents and questions about them: what SQuAD, XQuAD, MLQA and TyDiQA ask."""

import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from world.concepts import PLACE_CLASS, PREPOSITIONS, Concept, Event, NounPhrase, World, described
from world.languages import Token, character_spans, detokenise

SENTENCES = 3
ANSWERED_BY_KIND = 2 / 3  # share of contexts; in the others a sentence misleads
SOURCE_OF = {"subject": "nsubj", "object": "object", "place": "obl"}  # of a phrase's tokens
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
    """Three sentences. In most contexts a question asks for the only thing of its kind: what a small model learns at
    once, and what the words for kinds carry into another language. In the others two sentences share a verb and two
    share a thing, so that a question is answered by no word alone."""
    by_kind = rng.random() < ANSWERED_BY_KIND
    while True:
        events = unlike(world, rng, held_out) if by_kind else alike(world, rng, held_out)
        if None in events or len({event.core() for event in events}) < SENTENCES:
            continue
        asks = all_asks(world, events, by_kind)
        if asks:
            return Paragraph(tuple(events), tuple(rng.sample(asks, min(PER_CONTEXT, len(asks)))))


def unlike(world: World, rng: random.Random, held_out: bool) -> list[Event | None]:
    return [told(world, rng, rng.choice(world.verbs), held_out) for _ in range(SENTENCES)]


def alike(world: World, rng: random.Random, held_out: bool) -> list[Event | None]:
    first = told(world, rng, rng.choice([v for v in world.verbs if v.name in world.object_class]), held_out)
    if first is None:
        return [None]
    known = {first.subject.head, first.object.head}
    events = [first, told(world, rng, first.verb, held_out, without=known), told_of(world, rng, first, held_out)]
    rng.shuffle(events)
    return events


def told(
    world: World,
    rng: random.Random,
    verb: Concept,
    held_out: bool,
    thing: Concept | None = None,
    without: Collection[Concept] = (),
) -> Event | None:
    """An event of this verb with a place, that names no kinds, with this thing and without those; None where there is
    none."""
    fitting = [
        pair
        for pair in world.cores(verb, held_out)
        if (thing is None or thing in pair) and pair[0] not in without and pair[1] not in without
    ]
    if not fitting:
        return None
    heads = rng.choice(fitting)
    subject, object_ = (head and described(world, rng, head) for head in heads)
    preposition = rng.choice(PREPOSITIONS)
    others = [c for c in world.things(PLACE_CLASS[preposition], ("PER", "LOC")) if c not in {*heads, *without}]
    place = described(world, rng, rng.choice(others))
    return Event(subject, verb, object_, preposition, place, past=rng.random() < 0.5)


def told_of(world: World, rng: random.Random, event: Event, held_out: bool) -> Event | None:
    """Another event with the subject or the object of this one."""
    thing = rng.choice((event.subject, event.object)).head
    kind = world.kind_of(thing)
    fitting = [
        verb
        for verb in world.verbs
        if verb != event.verb and kind in (world.subject_class[verb.name], world.object_class.get(verb.name))
    ]
    return told(world, rng, rng.choice(fitting), held_out, thing) if fitting else None


def phrases_of(event: Event) -> dict[str, NounPhrase]:
    phrases = {"subject": event.subject, "object": event.object, "place": event.place}
    return {role: phrase for role, phrase in phrases.items() if phrase}


def all_asks(world: World, events: Sequence[Event], by_kind: bool) -> list[Ask]:
    """For every phrase that alone is of its kind (`by_kind`); or for every phrase whose question has one answer, and
    another sentence that could be taken for the right one."""
    kinds = [[world.kind_of(phrase.head) for phrase in phrases_of(event).values()] for event in events]
    asks = []
    for i, event in enumerate(events):
        others = [j for j in range(len(events)) if j != i]
        for role, phrase in phrases_of(event).items():
            if phrase.head.cls == "ORG":  # of no kind that has a word
                continue
            kind = world.kind_of(phrase.head)
            ask = Ask(i, role, asked(world, event, role, kind))
            if by_kind:
                fits = sum(own.count(kind) for own in kinds) == 1
            else:
                misleading = any(events[j].verb == event.verb or kind in kinds[j] for j in others)
                fits = misleading and not any(answers(ask, events[j]) for j in others)
            if fits:
                asks.append(ask)
    return asks


def asked(world: World, event: Event, role: str, kind: str) -> Event:
    """Only who did what to whom, and the place where that is asked for: the kind in place of the thing.

    "A person sees the dog?", as text introduces kinds ("the dog is an animal"): with the definite article, which some
    languages write as one word with the noun, it would be a word that text rarely has.
    """
    bare = {
        own: NounPhrase(phrase.head, definite=True, plural=phrase.plural)
        for own, phrase in phrases_of(event).items()
        if own != "place" or role == "place"
    }
    bare[role] = replace(bare[role], head=world.nouns[kind][-1], definite=False)
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
