"""The latent world that every language of the mini-world talks about: concepts, preferences, events, topical documents.

Nothing here knows a language. An event is what a sentence says; languages.py says it.
"""

import random
from dataclasses import dataclass, field, replace

NOUN_CLASSES = ("animal", "person", "food", "tool", "place")
NOUNS_PER_CLASS = 9
VERBS = 18
ADJECTIVE_PAIRS = 6  # the adjectives 2k and 2k + 1 fit the same nouns
ADVERBS = 6
PLACE_CLASS = {"in": "place", "with": "tool", "for": "person"}  # of the phrase after each preposition
PREPOSITIONS = tuple(PLACE_CLASS)
ENTITIES = {"PER": 8, "LOC": 6, "ORG": 2}
KIND_OF_NAME = {"PER": "person", "ORG": "person", "LOC": "place"}  # in whose place a name stands
FIRST_YEAR, LAST_YEAR = 2001, 2009
ZIPF_EXPONENT = 0.7
GENERAL_SHARE = 0.04  # of noun phrases: they name the kind ("the animal") in place of the thing
TAKEN_UP = 0.8  # share of sentences that speak again of a thing of the sentence before, where it fits
BY_KIND = 0.4  # share of these that name its kind only
PLACES = (
    "subject",
    "object",
    "adverb",
)  # of a detail in an inference pair: an adjective of one of the two, or the adverb
PAIRS_NEGATED = 0.15  # share of inference pairs, premise and hypothesis alike
FURTHER_DETAIL = 0.3  # share of their premises with an adjective that the hypothesis leaves out
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
    second: Concept | None = None  # of a name of two words


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


Pair = tuple[Concept, Concept | None]


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
    pairs: dict[tuple[str, bool], list[Pair]] = field(default_factory=dict)  # remembered answers of cores()

    def hypernym(self, concept: Concept) -> Concept:
        return self.nouns[concept.cls][-1]

    def held_out(self, event: Event) -> bool:
        core = event.core()
        if core not in self.held_out_cores:
            draw = random.Random(f"{self.seed}/core/{'/'.join(core)}").random()
            self.held_out_cores[core] = draw < HELD_OUT_SHARE
        return self.held_out_cores[core]

    def cores(self, verb: Concept, held_out: bool) -> list[Pair]:
        """Every subject and object of a verb on this side of the world, for draws that would rarely fit."""
        key = (verb.name, held_out)
        if key not in self.pairs:
            objects: list[Concept | None] = [None]
            if verb.name in self.object_class:
                objects = [*self.things(self.object_class[verb.name], ("PER", "LOC"))]
            self.pairs[key] = [
                (subject, object_)
                for subject in self.things(self.subject_class[verb.name], ("PER", "ORG"))
                for object_ in objects
                if subject != object_
                and self.held_out(Event(NounPhrase(subject), verb, object_ and NounPhrase(object_))) == held_out
            ]
        return self.pairs[key]

    def things(self, cls: str, names: tuple[str, ...]) -> list[Concept]:
        """What a phrase of this class can name, without the word for its kind."""
        named = [entity for kind in names if KIND_OF_NAME[kind] == cls for entity in self.entities[kind]]
        return [*self.nouns[cls][:-1], *named]

    def kind_of(self, head: Concept) -> str:
        """The class of nouns that says what it is, also of a name."""
        return KIND_OF_NAME.get(head.cls, head.cls)


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
        if rng.random() < GENERAL_SHARE:
            head = world.hypernym(head)
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
        object_ = self.noun_phrase(cls, "object") if cls else None
        past = rng.random() < 0.5
        preposition = place = adverb = year = None
        if rng.random() < 0.4:
            preposition = rng.choice(PREPOSITIONS)
            place = self.noun_phrase(PLACE_CLASS[preposition], "place")
        if rng.random() < 0.25:
            adverb = rng.choices(world.adverbs, zipf_weights(ADVERBS))[0]
        elif rng.random() < 0.12:
            year, past = rng.randint(FIRST_YEAR, LAST_YEAR), True
        negated = rng.random() < 0.12
        return Event(subject, verb, object_, preposition, place, adverb, year, past, negated)

    def copular_event(self) -> Event:
        cls = self.rng.choice(NOUN_CLASSES)
        kind = self.pick(cls, self.world.nouns[cls][:-1])
        return Event(NounPhrase(kind), None, NounPhrase(self.world.hypernym(kind), definite=False))

    def next_event(self, before: Event) -> Event:
        """An event that speaks again of a thing of the one before, or of its kind, where its verb lets it."""
        rng, event = self.rng, self.event()
        if event.verb is None or rng.random() >= TAKEN_UP:
            return event
        known = [phrase.head for phrase in (before.subject, before.object) if phrase and phrase.head.kind == "noun"]
        for role in rng.sample(("subject", "object"), 2):
            phrase = getattr(event, role)
            fitting = [head for head in known if phrase and head.cls == phrase.head.cls]
            if not fitting:
                continue
            head = rng.choice(fitting)
            if rng.random() < BY_KIND:
                head = self.world.hypernym(head)
            taken_up = replace(event, **{role: NounPhrase(head, phrase.adjective)})
            if not self.world.held_out(taken_up):
                return taken_up
        return event


def described(world: World, rng: random.Random, head: Concept) -> NounPhrase:
    """A noun with an adjective or without, of any number; a name as it is."""
    if head.kind == "entity":
        return NounPhrase(head)
    adjective = None
    if rng.random() < 0.4:
        adjective = rng.choice([a for a in world.adjectives if head.cls in world.adjective_classes[a.name]] or [None])
    return NounPhrase(head, adjective, definite=rng.random() < 0.6, plural=rng.random() < 0.25)


def document(world: World, rng: random.Random, sentences: int) -> list[Event]:
    teller = Storyteller(world, rng)
    events = [teller.event()]
    while len(events) < sentences:
        events.append(teller.next_event(events[-1]))
    return events


def inference_pair(world: World, rng: random.Random, label: str, held_out: bool) -> tuple[Event, Event]:
    """A premise and a hypothesis about one event: entailment, contradiction or neutral.

    The hypothesis names the kinds of subject and object in place of the things and gives one detail: an adjective or
    the adverb. It follows from the premise if the kinds and the detail are right, is false if the kinds are wrong, and
    may be either (neutral) if the premise gives another detail. Nothing else depends on the label: who does what is
    drawn without regard to what usually happens, and length, tense and negation are drawn alike, so that only a
    comparison of the two sentences tells.
    """
    with_adjective, without = rng.sample(("subject", "object"), 2)
    past, negated = rng.random() < 0.5, rng.random() < PAIRS_NEGATED
    # a denied event may still have happened in another manner, so denied ones have no adverb and lose no detail
    said, other = rng.sample((with_adjective, without if negated else "adverb"), 2)
    further = without if not negated and rng.random() < FURTHER_DETAIL else None
    while True:
        event = Event(any_thing(world, rng), any_verb(world, rng), any_thing(world, rng), past=past, negated=negated)
        detail = {place: rng.choice(world.adverbs if place == "adverb" else world.adjectives) for place in PLACES}
        premise = hypothesis = event
        premise_says = other if label == "neutral" else said
        premise = with_detail(premise, premise_says, detail[premise_says])
        if further:
            premise = with_detail(premise, further, detail[further])
        for role in ("subject", "object"):
            kind = getattr(event, role).head.cls
            if label == "contradiction":
                kind = rng.choice([cls for cls in NOUN_CLASSES if cls != kind])
            hypothesis = replace(hypothesis, **{role: NounPhrase(world.nouns[kind][-1])})
        hypothesis = with_detail(hypothesis, said, detail[said])
        if world.held_out(premise) == world.held_out(hypothesis) == held_out:
            return premise, hypothesis


def any_thing(world: World, rng: random.Random) -> NounPhrase:
    return NounPhrase(rng.choice(world.nouns[rng.choice(NOUN_CLASSES)][:-1]))


def any_verb(world: World, rng: random.Random) -> Concept:
    return rng.choice([verb for verb in world.verbs if verb.name in world.object_class])


def with_detail(event: Event, place: str, detail: Concept) -> Event:
    if place == "adverb":
        return replace(event, adverb=detail)
    return replace(event, **{place: replace(getattr(event, place), adjective=detail)})
