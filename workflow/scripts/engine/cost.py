"""What a run costs in floating-point operations, from the numbers of tokens that it has seen.

Two countings of the same passes:

ours         matrix products alone. A trained pass is 3 forward passes, whatever of it is frozen. Input embeddings are
             look-ups; logits count where they are computed; a token attends to its own document.
the papers'  the published counter of ELECTRA (Clark et al. 2020), which XLM-E's table 2 follows: a trained pass is 2
             forward passes, input embeddings are products with one-hot vectors, everything small is counted, and a
             token attends to its whole row.

    block    8 h^2 + 4 h f + 4 s h,  a decoder's cross-attention 8 h^2 + 4 s h more
    logits   2 h V + 2 h^2
    contrast 2 d K with a queue of K vectors of width d

Left out: filling a queue before the first step, Sinkhorn, samples from logits that exist already.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from common.errors import UserError
from engine.config import ObjectiveConfig, RunConfig
from engine.shape import ModelConfig

# Of ELECTRA's counter, per element.
DROPOUT, LAYER_NORM, ACTIVATION, SOFTMAX = 4, 5, 8, 5


@dataclass(frozen=True)
class Seen:
    """What one objective has seen over a run."""

    tokens: float
    predictions: float = 0.0  # tokens whose logits over the vocabulary are asked for; items where none are
    items: float = 0.0
    attended: float = 0.0  # over all tokens, the length of the token's document

    @property
    def context(self) -> float:
        return self.attended / max(1.0, self.tokens)

    def part(self, share: float) -> "Seen":
        return Seen(*(share * value for value in vars(self).values()))


@dataclass(frozen=True)
class Pass:
    """Tokens through blocks and heads, once."""

    tokens: float
    layers: int
    context: float  # tokens that each one attends to
    trained: bool = True
    cross: bool = False  # blocks of a decoder
    logits: float = 0.0  # tokens with logits over the vocabulary
    detections: float = 0.0  # tokens judged replaced or original
    other: float = 0.0  # further products, forward


def ours(own: Pass, model: ModelConfig) -> float:
    h, s = model.width, own.context
    block = 8 * h * h + 4 * h * model.ffn + 4 * s * h
    block += 8 * h * h + 4 * s * h if own.cross else 0
    head = own.logits * (2 * h * model.vocabulary + 2 * h * h) + own.detections * 2 * h * h
    return (3 if own.trained else 1) * (own.tokens * own.layers * block + head + own.other)


def by_papers(own: Pass, model: ModelConfig, row_length: int) -> float:
    h, f, s, heads, V = model.width, model.ffn, row_length, model.heads, model.vocabulary
    attention = 3 * 2 * h * h + 3 * h  # query, key, value
    attention += 2 * h * s + (SOFTMAX + DROPOUT + 1) * s * heads + 2 * h * s  # scores, their scaling, mixed values
    attention += 2 * h * h + h + DROPOUT * h + h + LAYER_NORM  # output (ELECTRA counts one LayerNorm element here)
    feed_forward = 2 * h * f + ACTIVATION * f + f + 2 * h * f + h + DROPOUT * h + h + LAYER_NORM * h
    embedding = 2 * h * V + 2 * h * (s + 2) + 2 * h + (LAYER_NORM + DROPOUT) * h
    logits = 2 * h * V + 2 * h * h + h + (ACTIVATION + LAYER_NORM) * h + (SOFTMAX + 2) * V
    detection = 2 * h * h + h + ACTIVATION * h + 2 * h
    blocks = own.layers * ((2 if own.cross else 1) * attention + feed_forward)
    forward = own.tokens * (blocks + embedding) + own.logits * logits + own.detections * detection + own.other
    return (2 if own.trained else 1) * forward


def flops(run: RunConfig, seen: dict[str, Seen]) -> dict[str, dict[str, float]]:
    """Per objective: {"ours": ..., "papers": ...}."""
    found = {}
    for objective in run.objectives:
        if objective.name in seen:
            row_length = objective.row_length or run.batch.row_length
            own = passes(run, objective, seen[objective.name])
            found[objective.name] = {
                "ours": sum(ours(one, run.model) for one in own),
                "papers": sum(by_papers(one, run.model, row_length) for one in own),
            }
    return found


def passes(run: RunConfig, objective: ObjectiveConfig, seen: Seen) -> list[Pass]:
    return PASSES[objective.name](run, objective, seen)


def check_passes(run: RunConfig) -> None:
    """Before a training, not after it: what it cost is counted from what its objectives declare."""
    for objective in run.objectives:
        if objective.name not in PASSES:
            raise UserError(
                f"engine/cost.py, PASSES: objective '{objective.name}' does not say which passes it runs; "
                "add it, `one_pass` if it is one pass with logits"
            )


# ---------------------------------------------------------------------------------------------------------------------
# The passes of each objective.


def whole(run: RunConfig, seen: Seen, **changes: float) -> Pass:
    """All tokens through the encoder, without a head."""
    return replace(Pass(seen.tokens, run.model.layers, seen.context), **changes)


def one_pass(run: RunConfig, objective: ObjectiveConfig, seen: Seen) -> list[Pass]:
    return [whole(run, seen, logits=seen.predictions)]


def pseudo_translation(run: RunConfig, objective: ObjectiveConfig, seen: Seen) -> list[Pass]:
    """BTMLM: a forward pass with logits at the placeholders, then the trained one; at first the latter alone."""
    options = objective.options
    start = max(options.start_share, run.schedule.warmup_steps / max(1, run.schedule.steps))
    later = seen.part(1 - min(1.0, start))
    placeholders = later.tokens * options.ratio_share / (1 + options.ratio_share)
    return [whole(run, seen, logits=seen.predictions), whole(run, later, trained=False, logits=placeholders)]


def replaced_token_detection(run: RunConfig, objective: ObjectiveConfig, seen: Seen) -> list[Pass]:
    options = objective.options
    generator = whole(run, seen, layers=options.generator_layers, logits=seen.predictions)
    again = [replace(generator, trained=False)] if options.sampling == "eval" else []
    return [generator, *again, whole(run, seen, detections=seen.tokens)]


def inside_and_across(run: RunConfig, objective: ObjectiveConfig, seen: Seen) -> list[Pass]:
    """VECO: each side alone, each as a decoder over the other, and pairs as one; in the first phase across alone."""
    first = run.schedule.first.steps / run.schedule.steps if run.schedule.first else 0.0
    early, late = seen.part(first), seen.part(1 - first)
    across = whole(run, seen, context=seen.context / 2, cross=True, logits=seen.predictions)
    inside = [
        whole(run, early, context=seen.context / 2, trained=False),
        whole(run, late, context=seen.context / 2, logits=late.predictions),
    ]
    pairs = getattr(objective.options, "tlm", False)
    return [*inside, across, *([whole(run, late, logits=late.predictions)] if pairs else [])]


def contrast(run: RunConfig, seen: Seen, width: int, queue: int, layers: int) -> list[Pass]:
    """A trained pass over the queries, the first sides, and one without gradient over the keys, up to a layer."""
    h = run.model.width
    side = whole(run, seen.part(0.5), context=seen.context / 2, layers=layers)
    project = seen.items * 2 * h * (h + width if width != h else h)
    return [replace(side, other=project + seen.items * 2 * width * queue), replace(side, trained=False, other=project)]


def sentence_contrast(run: RunConfig, objective: ObjectiveConfig, seen: Seen) -> list[Pass]:
    """PPA: contrast, and masked language modelling on the pair or on each side."""
    options = objective.options
    context = {"tlm": seen.context, "mlm": seen.context / 2}.get(options.sentences)
    masked = [whole(run, seen, context=context, logits=seen.predictions)] if context is not None else []
    return [*contrast(run, seen, options.projection, options.queue, run.model.layers), *masked]


def mixup_contrast(run: RunConfig, objective: ObjectiveConfig, seen: Seen) -> list[Pass]:
    return contrast(run, seen, run.model.width, objective.options.queue, objective.options.layer)


def word_alignment(run: RunConfig, objective: ObjectiveConfig, seen: Seen) -> list[Pass]:
    """XLM-Align: a forward pass up to the layer that is aligned, then the trained one with pointers."""
    options = objective.options
    pointers = seen.tokens * 4 * run.model.width**2
    logits = seen.predictions if options.tlm else 0.0
    return [whole(run, seen, layers=options.layer, trained=False), whole(run, seen, logits=logits, other=pointers)]


def sentences_and_words(run: RunConfig, objective: ObjectiveConfig, seen: Seen) -> list[Pass]:
    """HICTL. Without a queue the sentences are compared with those of the step, after a pass without gradient."""
    options = objective.options
    words = 2 * seen.items * options.negatives * 2 * run.model.width
    compared = 2 * seen.items * 2 * run.model.width * options.queue
    trained = whole(run, seen, context=seen.context / 2, logits=seen.predictions, other=words + compared)
    return [trained] if options.queue else [trained, replace(trained, trained=False, logits=0.0, other=0.0)]


def first_side_alone(run: RunConfig, objective: ObjectiveConfig, seen: Seen) -> list[Pass]:
    """Word recovery: the encoder reads mixtures in place of the first side, and never the second."""
    return [whole(run, seen.part(0.5), context=seen.context / 2, logits=seen.predictions)]


def without_logits(run: RunConfig, objective: ObjectiveConfig, seen: Seen) -> list[Pass]:
    return [whole(run, seen)]


def sequence_to_sequence(run: RunConfig, objective: ObjectiveConfig, seen: Seen) -> list[Pass]:
    """Every token of the target is predicted; the rest is the source."""
    source, half = seen.tokens - seen.predictions, seen.context / 2
    decoder = Pass(seen.predictions, objective.options.decoder_layers, half, cross=True, logits=seen.predictions)
    return [Pass(source, run.model.layers, half), decoder]


PASSES: dict[str, Callable[[RunConfig, ObjectiveConfig, Seen], list[Pass]]] = {
    "mmlm": one_pass,
    "tlm": one_pass,
    "camlm": one_pass,
    "nsp": one_pass,
    "cross-lingual-mlm": one_pass,
    "code-switch": one_pass,
    "btmlm": pseudo_translation,
    "mrtd": replaced_token_detection,
    "trtd": replaced_token_detection,
    "veco-mono": inside_and_across,
    "veco-pairs": inside_and_across,
    "ppa": sentence_contrast,
    "xlco": mixup_contrast,
    "dwa": word_alignment,
    "paraphrase": without_logits,
    "word-recovery": first_side_alone,
    "hictl": sentences_and_words,
    "denoising": sequence_to_sequence,
    "spans": sequence_to_sequence,
    "translation": sequence_to_sequence,
}
