"""What an objective makes of one example: its real rows through its real code, noting what happens on the way.

The rows come from engine/forms.py and the objective's own corruption, the passes from its own `prepare` and
`loss`, over a network with the modules of the run but few numbers and random weights. Hooks note which tokens enter the
embeddings, who sees whom, through which modules a pass goes, which states a head reads, and what they are compared
with. The vocabulary is that of the example's words; nothing here knows a paper or draws.

Shapes: T tokens of a pass, N states that a head reads, D width.
"""

import dataclasses
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from unittest.mock import patch

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from common.errors import UserError
from engine.config import ObjectiveConfig, RunConfig
from engine.dist import Ranks
from engine.forms import FORMS
from engine.heads import HEADS
from engine.model import CrossAttention, Encoder, MaskedLanguageModelHead, ResidualNorm, SelfAttention, shapes_alone
from engine.objectives import OBJECTIVES
from engine.options import DESCRIPTIONS
from engine.rows import pad, pair_rows
from engine.shards import write_shard
from engine.streams import Source
from engine.tokenizer import BOS, EOS, FIRST_PIECE, PAD, UNK
from training.assembly import PretrainingModel, build_mixture, next_batches

SEED = 1
ROW = 64  # tokens of a row: an example is shorter
SMALL = {"width": 16, "heads": 2, "ffn": 32, "init_std": 0.3, "dropout": 0.0, "attention_dropout": 0.0}
STEPS = 1000  # the last one is traced: objectives that begin late have begun
ANY_LENGTH = {"least_tokens": 1, "most_tokens": None}  # an example may be shorter than what is trained on
SPECIALS = {BOS: "<s>", PAD: "<pad>", EOS: "</s>", UNK: "<unk>"}
MASK = "<mask>"


class Words:
    """A vocabulary of the example's words, in the order in which they come."""

    pair_separators = 2

    def __init__(self, sentences: Mapping[str, Sequence[str]]):
        words = [word for lines in sentences.values() for line in lines for word in line.split(" ")]
        self.id_of = {word: FIRST_PIECE + i for i, word in enumerate(dict.fromkeys(words))}
        self.size = FIRST_PIECE + len(self.id_of) + 1
        self.names = {**SPECIALS, **{id_: word for word, id_ in self.id_of.items()}, self.size - 1: MASK}

    def encode(self, sentences: Sequence[str]) -> list[list[int]]:
        return [[self.id_of[word] for word in sentence.split(" ")] for sentence in sentences]


@dataclass
class Output:
    """A head, the places of the states that it reads, and what they are compared with (names, or 0 and 1)."""

    module: str
    places: list[int]
    targets: list[str] | None = None


@dataclass
class Pass:
    """Tokens through the network, once."""

    tokens: list[str]
    positions: list[int] | None = None
    modules: list[str] = field(default_factory=list)
    trained: bool = True
    seen: np.ndarray | None = None  # (T, T) bool: the row's token sees the column's
    memory_seen: np.ndarray | None = None  # (T, S) the same, of the memory
    memory_trained: bool = True
    outputs: list[Output] = field(default_factory=list)


@dataclass(frozen=True)
class Trace:
    original: list[str]  # the row before corruption
    given: list[str]  # and after it
    passes: list[Pass]
    losses: dict[str, float]  # name -> weight
    parts: dict[str, "Part"]  # of the network at the run's size


@dataclass
class Part:
    """Matrices by name, those of equal layers once; a table has one without a name."""

    matrices: dict[str, tuple[int, ...]] = field(default_factory=dict)
    layers: set[str] = field(default_factory=set)


# --- the example as data --------------------------------------------------------------------------------------------


def write_data(folder: Path, sentences: Mapping[str, Sequence[str]], words: Words, lines: int) -> list[Source]:
    """A shard of each language, one document of so many lines, and of each language with English, a document a line."""
    sources = []

    def write(kind: str, name: str, sides: list[list[list[int]]], documents: list[int]) -> None:
        rows = [row for pair in zip(*sides, strict=True) for row in pair]
        batch = (np.concatenate(rows), np.array([len(row) for row in rows]), np.array(documents))
        manifest = folder / kind / name / "0.json"
        manifest.parent.mkdir(parents=True)
        write_shard(manifest, [batch], kind, words.size, "example", "example")
        sources.append(Source(kind, "example", name, 1.0, (manifest,)))

    encoded = {code: words.encode(own[:lines]) for code, own in sentences.items()}
    for code, own in encoded.items():
        write("mono", code, [own], [len(own)])
        if code != "en" and "en" in sentences:
            codes = sorted((code, "en"))
            write("bitext", "-".join(codes), [encoded[one] for one in codes], [2] * len(own))
    return sources


def small(run: RunConfig, objective: ObjectiveConfig, vocabulary: int) -> RunConfig:
    """The run with this objective alone, few numbers and one item a step."""
    return dataclasses.replace(
        run,
        model=dataclasses.replace(run.model, vocabulary=vocabulary, positions=ROW + 2, **SMALL),
        objectives=(objective,),
        batch=dataclasses.replace(run.batch, rows=1, row_length=ROW, device_rows=1),
        schedule=dataclasses.replace(run.schedule, steps=STEPS, warmup_steps=1, first=None),
    )


def trace_objective(
    run: RunConfig, name: str, sentences: Mapping[str, Sequence[str]], languages: Sequence[str], options: Mapping
) -> Trace:
    """One item of these languages through an objective of the run, with these of its options changed."""
    words = Words(sentences)
    [own] = [objective for objective in run.objectives if objective.name == name]
    form = FORMS[DESCRIPTIONS[name].form]
    lines = form.sentences * (2 if getattr(own.options, "negative_share", 0) else form.together)
    if (given := min(map(len, sentences.values()))) < lines:
        raise UserError(f"diagram.sentences: an item of {name} needs {lines} lines of each language, here are {given}")
    with tempfile.TemporaryDirectory() as folder:
        sources = write_data(Path(folder), sentences, words, lines)
        whole = {name: value for name, value in ANY_LENGTH.items() if hasattr(own.options, name)}
        changed = dataclasses.replace(own.options, **(whole | dict(options)))
        own = dataclasses.replace(
            own,
            options=changed,
            sources=tuple(sources),
            rows=None,
            row_length=None,
            block_length=None,
            block_sentences=form.sentences,
            packing=False,
        )
        wanted = "-".join(sorted(languages))
        kinds = {
            kind: [one for one in sources if (one.kind, one.name) == (kind, wanted)] for kind in ("mono", "bitext")
        }
        tiny = small(run, own, words.size)
        mixture = build_mixture(tiny, own, kinds | {"others": sources}, SEED, "example")
        torch.manual_seed(SEED)
        model = PretrainingModel(tiny).double()
        avoid_marks(model)
        batches = next_batches(tiny, own, mixture, Ranks(), STEPS)
        [batch] = batches
        given = named(words, batch.tokens[0])
        objective = OBJECTIVES[name]
        with watched(model, words) as passes:
            if objective.prepare:
                with torch.no_grad():
                    objective.prepare(model, batch)
            if objective.meet:
                objective.meet(model, batches, Ranks())
            loss = objective.loss(model, batch)
        weights = objective.weights(own)
        losses = {part: own.weight * weights.get(part, 1.0) for part in loss.sums}
        parts = parts_of_run(run, own)
    return Trace(named(words, batch.original[0]), given, passes, losses, parts)


def avoid_marks(model: nn.Module) -> None:
    """A trained network hardly ever makes up a mark, <unk> or <mask>."""
    for module in model.modules():
        if isinstance(module, MaskedLanguageModelHead):
            with torch.no_grad():
                module.bias[:FIRST_PIECE] = module.bias[-1] = -1e4


def trace_head(
    run: RunConfig, kind: str, classes: int, sentences: Mapping[str, Sequence[str]], languages: Sequence[str]
) -> Trace:
    """The encoder of the run with the head of a kind of task, over the first two lines of a language, or one."""
    words = Words(sentences)
    torch.manual_seed(SEED)
    config = small(run, run.objectives[0], words.size).model
    model = nn.ModuleDict({"encoder": Encoder(config), "head": HEADS[kind](config.width, classes, 0.0, 0.3)}).double()
    lines = sentences[languages[0]]
    rows = pair_rows(words, lines[:1], lines[1:2], ROW) if len(lines) > 1 else [[BOS, *words.encode(lines)[0], EOS]]
    tokens_BT, real_BT = pad(rows)
    with watched(model, words) as passes:
        model["head"](model["encoder"](tokens_BT, mask=real_BT), real_BT)
    with shapes_alone():
        real = dataclasses.replace(run.model, vocabulary=VOCABULARY)
        whole = nn.ModuleDict({"encoder": Encoder(real), "head": HEADS[kind](real.width, classes, 0.0)})
    own = named(words, tokens_BT[0])
    return Trace(own, own, passes, {}, parts_of(whole))


def named(words: Words, tokens_T: Tensor) -> list[str]:
    return [words.names[token] for token in tokens_T.tolist()]


# --- what is noted --------------------------------------------------------------------------------------------------


# Parts of networks that are themselves parts: encoder.blocks, generator.head, ppa_contrast.key_encoder.tokens.
PARTS = ("tokens", "positions", "token_types", "languages", "distances", "blocks", "cross_attention")
PARTS += ("head", "projection", "key_projection")


def part_of(name: str) -> str:
    """What a module or a weight is a part of: `encoder.blocks.0.attention` -> `encoder.blocks`."""
    names = name.split(".")
    depth = next((i for i, own in enumerate(names) if own in PARTS), 0)
    return ".".join(names[: depth + 1])


@contextmanager
def watched(model: nn.Module, words: Words) -> Iterator[list[Pass]]:
    """Notes every pass that the model makes inside."""
    passes: list[Pass] = []
    early: list[str] = []  # tables that are read before the tokens of their pass
    state: dict[str, Tensor] = {}  # the last states (T, D) of the pass

    def enter(name: str, module: nn.Module, inputs: tuple) -> None:
        part = part_of(name)
        if isinstance(module, nn.Embedding) and name.endswith("tokens"):
            passes.append(Pass(named(words, inputs[0][0]), modules=[*early], trained=torch.is_grad_enabled()))
            early.clear()
        elif isinstance(module, nn.Embedding) and "." not in name:
            early.append(part)
            return
        if not passes:
            return
        now = passes[-1]
        if part in parts and part not in now.modules:
            now.modules.append(part)
        if isinstance(module, nn.Embedding) and name.endswith("positions"):
            now.positions = [int(place) for place in inputs[0][0].tolist()]
        elif isinstance(module, SelfAttention) and now.seen is None:
            now.seen = as_matrix(inputs[1], len(now.tokens))
        elif isinstance(module, CrossAttention) and now.memory_seen is None:
            now.memory_seen, now.memory_trained = inputs[2][0, 0].numpy(), inputs[1].requires_grad
        elif isinstance(module, nn.Linear) and part in heads and not any(one.module == part for one in now.outputs):
            found = places_of(inputs[0].detach().flatten(0, -2), state["last"])
            if found:
                now.outputs.append(Output(part, found))

    def leave(module: nn.Module, inputs: tuple, output: Tensor) -> None:
        state["last"] = output.detach().flatten(0, -2)

    def compare(original: Callable) -> Callable:
        def compared(values: Tensor, targets: Tensor, *rest: object, **options: object) -> Tensor:
            last = passes[-1].outputs[-1] if passes and passes[-1].outputs else None
            if last and last.targets is None and len(targets) == len(last.places):
                of_words = values.dim() == 2 and values.shape[1] == words.size
                last.targets = named(words, targets) if of_words else [str(int(one)) for one in targets.tolist()]
            return original(values, targets, *rest, **options)

        return compared

    parts = parts_of(model)
    heads = {part_of(name) for name, module in model.named_modules() if isinstance(module, nn.Linear)}
    heads = {part for part in heads if not part.endswith(("blocks", "cross_attention"))}
    hooks = []
    for name, module in model.named_modules():
        if name:
            hooks.append(
                module.register_forward_pre_hook(lambda module, inputs, name=name: enter(name, module, inputs))
            )
        if isinstance(module, ResidualNorm) and name.endswith("ffn_norm"):
            hooks.append(module.register_forward_hook(leave))
    losses = {name: compare(getattr(F, name)) for name in ("cross_entropy", "binary_cross_entropy_with_logits")}
    try:
        with patch.multiple(F, **losses):
            yield passes
    finally:
        for hook in hooks:
            hook.remove()


def as_matrix(mask: Tensor | None, T: int) -> np.ndarray:
    if mask is None:
        return np.ones((T, T), bool)
    return np.broadcast_to(mask[0, 0].numpy(), (T, T)).copy()


def places_of(states_ND: Tensor, last_TD: Tensor) -> list[int]:
    """Which of the last states these are, bit by bit, as they are or at length 1; none where they are no such states.

    In a deep network with random weights all states are nearly the same: nearness would tell nothing. Two masks at one
    position, one on each side, may have one state: heads read places in their order.
    """
    if states_ND.shape[1:] != last_TD.shape[1:]:
        return []
    for candidates_TD in (last_TD, F.normalize(last_TD, dim=1)):
        equal_NT = (states_ND[:, None] == candidates_TD[None]).all(2)
        places: list[int] = []
        for equal_T in equal_NT:
            same = equal_T.nonzero().flatten().tolist()
            places += [next((place for place in same if place not in places), same[0])] if same else []
        if len(places) == len(states_ND):
            return places
    return []


# --- the network at its size ------------------------------------------------------------------------------------------

VOCABULARY = 65_521  # a prime that stands for the size of the vocabulary


def parts_of_run(run: RunConfig, objective: ObjectiveConfig) -> dict[str, Part]:
    """At the run's own size; no number is made for that."""
    real = dataclasses.replace(run.model, vocabulary=VOCABULARY)
    with shapes_alone():
        return parts_of(PretrainingModel(dataclasses.replace(run, model=real, objectives=(objective,))))


def parts_of(model: nn.Module) -> dict[str, Part]:
    found: dict[str, Part] = {}
    for name, weight in model.named_parameters():
        if weight.dim() > 1:
            part = found.setdefault(part_of(name), Part())
            rest = name.removeprefix(part_of(name)).removesuffix("weight").strip(".").split(".")
            if rest[0].isdigit():
                part.layers.add(rest.pop(0))
            part.matrices.setdefault(".".join(rest), tuple(weight.shape))
    return found
