"""The latent world that every language of the mini-world talks about: concepts, preferences, events, topical documents.

Nothing here knows a language. An event is what a sentence says; languages.py says it.
"""

import random
from dataclasses import dataclass, field, replace

NOUN_CLASSES = ("animal", "person", "food", "tool", "place")
NOUNS_PER_CLASS = 9
VERBS = 18
ADJECTIVE_PAIRS = 6  # adjective 2k and 2k + 1 are antonyms
ADVERBS = 6
PREPOSITIONS = ("in", "with", "for")
ENTITIES = {"PER": 8, "LOC": 6, "ORG": 2}
FIRST_YEAR, LAST_YEAR = 2001, 2009
ZIPF_EXPONENT = 0.7
HELD_OUT_SHARE = 0.1  # of event cores: they appear in evaluation sets only, so that every leak is one that was planted


@dataclass(frozen=True)
class Concept:
    """`noun/animal/3`, `verb/7`, `entity/PER/2` ...; `kind` decides its part of speech, `cls` its semantic class."""

    name: str
    kind: str
    cls: str = ""


@dataclass(frozen=True)
class NounPhrase:
    head: Concept
    adjective: Concept | None = None
    definite: bool = True
    plural: bool = False


@dataclass(frozen=True)
class Event:
    """Who did what (to whom), where, when. A copular event (`verb` None) says what its subject is."""

    subject: NounPhrase
    verb: Concept | None
    object: NounPhrase | None = None
    preposition: str | None = None
    place: NounPhrase | None = None
    adverb: Concept | None = None
    year: int | None = None
    past: bool = False
    negated: bool = False

    def core(self) -> tuple[str, ...]:
        return (
            self.verb.name if self.verb else "be",
            self.subject.head.name,
            self.object.head.name if self.object else "",
        )


@dataclass(frozen=True)
class World:
    seed: int
    nouns: dict[str, list[Concept]]  # by class, the class's own name ("an animal") last
    verbs: list[Concept]
    adjectives: list[Concept]
    adverbs: list[Concept]
    entities: dict[str, list[Concept]]
    subject_class: dict[str, str]  # verb -> class of its subject
    object_class: dict[str, str]  # verb -> class of its object, absent when intransitive
    adjective_classes: dict[str, tuple[str, ...]]
    concepts: list[Concept]
    held_out_cores: dict[tuple[str, ...], bool] = field(default_factory=dict)  # remembered draws

    def hypernym(self, concept: Concept) -> Concept:
        return self.nouns[concept.cls][-1]

    def antonym(self, adjective: Concept) -> Concept:
        return self.adjectives[self.adjectives.index(adjective) ^ 1]

    def held_out(self, event: Event) -> bool:
        core = event.core()
        if core not in self.held_out_cores:
            draw = random.Random(f"{self.seed}/core/{'/'.join(core)}").random()
            self.held_out_cores[core] = draw < HELD_OUT_SHARE
        return self.held_out_cores[core]


def build_concepts(seed: int) -> World:
    rng = random.Random(f"{seed}/concepts")
    nouns = {
        cls: [Concept(f"noun/{cls}/{i}", "noun", cls) for i in range(NOUNS_PER_CLASS)]
        + [Concept(f"noun/{cls}", "noun", cls)]
        for cls in NOUN_CLASSES
    }
    verbs = [Concept(f"verb/{i}", "verb") for i in range(VERBS)]
    adjectives = [Concept(f"adjective/{i}", "adjective") for i in range(2 * ADJECTIVE_PAIRS)]
    adverbs = [Concept(f"adverb/{i}", "adverb") for i in range(ADVERBS)]
    entities = {kind: [Concept(f"entity/{kind}/{i}", "entity", kind) for i in range(n)] for kind, n in ENTITIES.items()}
    agents = ("animal", "person", "person")
    subject_class = {verb.name: agents[i % len(agents)] for i, verb in enumerate(verbs)}
    object_class = {verb.name: NOUN_CLASSES[i % len(NOUN_CLASSES)] for i, verb in enumerate(verbs) if i % 6 != 5}
    adjective_classes = {}
    for pair in range(ADJECTIVE_PAIRS):
        classes = tuple(sorted(rng.sample(NOUN_CLASSES, 3)))
        for adjective in adjectives[2 * pair : 2 * pair + 2]:
            adjective_classes[adjective.name] = classes
    concepts = [c for group in (*nouns.values(), verbs, adjectives, adverbs, *entities.values()) for c in group]
    return World(
        seed, nouns, verbs, adjectives, adverbs, entities, subject_class, object_class, adjective_classes, concepts
    )


def zipf_weights(n: int) -> list[float]:
    return [1 / (rank + 1) ** ZIPF_EXPONENT for rank in range(n)]


class Storyteller:
    """Draws events about one topic: a few nouns, verbs and people recur within a document."""

    def __init__(self, world: World, rng: random.Random, topical: float = 0.6):
        self.world, self.rng, self.topical = world, rng, topical
        self.favourites = {cls: rng.sample(nouns[:-1], 3) for cls, nouns in world.nouns.items()}
        self.favourites |= {kind: rng.sample(people, 2) for kind, people in world.entities.items()}
        self.verbs = rng.sample(world.verbs, 8)

    def pick(self, cls: str, pool: list[Concept]) -> Concept:
        if self.rng.random() < self.topical:
            return self.rng.choice(self.favourites[cls])
        return self.rng.choices(pool, zipf_weights(len(pool)))[0]

    def noun_phrase(self, cls: str, role: str) -> NounPhrase:
        rng, world = self.rng, self.world
        entity_kind = {"person": "PER", "place": "LOC"}.get(cls)
        if entity_kind and rng.random() < 0.35:
            return NounPhrase(self.pick(entity_kind, world.entities[entity_kind]))
        if cls == "person" and role == "subject" and rng.random() < 0.1:
            return NounPhrase(self.pick("ORG", world.entities["ORG"]))
        adjective = None
        if rng.random() < 0.4:
            adjective = rng.choice([a for a in world.adjectives if cls in world.adjective_classes[a.name]] or [None])
        head = self.pick(cls, world.nouns[cls][:-1])
        return NounPhrase(head, adjective, definite=rng.random() < 0.6, plural=rng.random() < 0.25)

    def event(self, held_out: bool = False) -> Event:
        """One event whose core is in the held-out part of the world, or in the part that is open to training text."""
        while True:
            event = self.any_event()
            if self.world.held_out(event) == held_out:
                return event

    def any_event(self) -> Event:
        rng, world = self.rng, self.world
        if rng.random() < 0.08:
            return self.copular_event()
        pool = self.verbs if rng.random() < self.topical else world.verbs
        verb = rng.choice(pool)
        subject = self.noun_phrase(world.subject_class[verb.name], "subject")
        cls = world.object_class.get(verb.name)
        event = Event(subject, verb, self.noun_phrase(cls, "object") if cls else None, past=rng.random() < 0.5)
        if rng.random() < 0.4:
            preposition = rng.choice(PREPOSITIONS)
            cls = {"in": "place", "with": "tool", "for": "person"}[preposition]
            event = replace(event, preposition=preposition, place=self.noun_phrase(cls, "place"))
        if rng.random() < 0.25:
            event = replace(event, adverb=rng.choices(world.adverbs, zipf_weights(ADVERBS))[0])
        elif rng.random() < 0.12:
            event = replace(event, year=rng.randint(FIRST_YEAR, LAST_YEAR), past=True)
        return replace(event, negated=rng.random() < 0.12)

    def copular_event(self) -> Event:
        cls = self.rng.choice(NOUN_CLASSES)
        kind = self.pick(cls, self.world.nouns[cls][:-1])
        return Event(NounPhrase(kind), None, NounPhrase(self.world.hypernym(kind), definite=False))


def document(world: World, rng: random.Random, sentences: int) -> list[Event]:
    teller = Storyteller(world, rng)
    return [teller.event() for _ in range(sentences)]


def inference_pair(world: World, rng: random.Random, label: str, held_out: bool) -> tuple[Event, Event]:
    """A premise and a hypothesis that it entails, contradicts, or says nothing about (neutral)."""
    teller = Storyteller(world, rng, topical=0.0)
    while True:
        premise = teller.event(held_out)
        if premise.verb is None or premise.negated:
            continue
        hypothesis = {"entailment": entailed, "contradiction": contradicted, "neutral": extended}[label](
            world, teller, premise
        )
        if hypothesis is not None and hypothesis != premise:
            return premise, hypothesis


def entailed(world: World, teller: Storyteller, premise: Event) -> Event | None:
    """Say less: drop where and when, an adjective, or name the kind instead of the thing."""
    hypothesis = premise
    if premise.place and teller.rng.random() < 0.8:
        hypothesis = replace(hypothesis, preposition=None, place=None)
    if teller.rng.random() < 0.8:
        hypothesis = replace(hypothesis, adverb=None, year=None)
    if premise.subject.adjective and teller.rng.random() < 0.7:
        hypothesis = replace(hypothesis, subject=replace(premise.subject, adjective=None))
    if premise.object and premise.object.head.kind == "noun" and teller.rng.random() < 0.4:
        kind = world.hypernym(premise.object.head)
        hypothesis = replace(hypothesis, object=replace(premise.object, head=kind, adjective=None, definite=False))
    return hypothesis


def contradicted(world: World, teller: Storyteller, premise: Event) -> Event | None:
    """Deny it, or turn an adjective into its opposite."""
    shorter = replace(premise, adverb=None, year=None) if teller.rng.random() < 0.5 else premise
    if teller.rng.random() < 0.6:
        return replace(shorter, negated=True)
    for role in ("subject", "object"):
        phrase = getattr(premise, role)
        if phrase and phrase.adjective:
            return replace(shorter, **{role: replace(phrase, adjective=world.antonym(phrase.adjective))})
    return None


def extended(world: World, teller: Storyteller, premise: Event) -> Event | None:
    """Say more than the premise does: a place, a time or an adjective that it does not mention."""
    choices = []
    if not premise.place:
        choices.append(replace(premise, preposition="in", place=teller.noun_phrase("place", "place")))
    if not premise.adverb and premise.year is None:
        choices.append(replace(premise, adverb=teller.rng.choice(world.adverbs)))
    for role in ("subject", "object"):
        phrase = getattr(premise, role)
        if phrase and phrase.head.kind == "noun" and not phrase.adjective:
            fitting = [a for a in world.adjectives if phrase.head.cls in world.adjective_classes[a.name]]
            if fitting:
                choices.append(replace(premise, **{role: replace(phrase, adjective=teller.rng.choice(fitting))}))
    return teller.rng.choice(choices) if choices else None
