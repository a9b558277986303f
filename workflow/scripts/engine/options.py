"""What each objective reads, how its items lie in a row, and its options. No torch here: the plan reads it too.

The forms of an item are described where they are written, in engine/forms.py.
"""

from dataclasses import dataclass, fields
from typing import Literal, get_args, get_origin

from common.errors import UserError
from common.typed import hints_of

# Numbers of options that are no share, by the last word of their name: the least and the most.
BOUNDS = {
    "queue": (0, 10**9),
    "negatives": (1, 10**9),
    "momentum": (0, 1),
    "temperature": (1e-6, 1e6),
    "weight": (0, 1e6),
    "projection": (1, 10**6),
    "tokens": (1, 10**6),
    "layer": (0, 1000),
    "layers": (1, 1000),
    "sinkhorn": (0, 1000),
    "rounds": (0, 1000),
    "alpha": (0, 1),
    "span": (0, 1000),
    "smoothing": (0, 1),
}


@dataclass(frozen=True)
class Options:
    """The options of an objective that has none of its own."""

    def __post_init__(self):
        for name, hint in hints_of(type(self)).items():
            known = get_args(hint) if get_origin(hint) is Literal else ()
            if known and getattr(self, name) not in known:
                raise UserError(
                    f"options.{name}: `{getattr(self, name)}` is unknown; known: {', '.join(map(str, known))}"
                )
        for own in fields(self):
            value, word = getattr(self, own.name), own.name.rpartition("_")[2]
            if word == "share" and own.type is float and not 0 <= value <= 1:
                raise UserError(f"options.{own.name}: {value} is not between 0 and 1")
            low, high = BOUNDS.get(word, (None, None))
            if low is not None and value is not None and not low <= value <= high:
                raise UserError(f"options.{own.name}: {value} is not between {low} and {high}")


@dataclass(frozen=True)
class CamlmOptions(Options):
    masks: Literal["in-place", "append"] = "in-place"  # append: the sentence stays whole, masks stand after the pair
    siblings: bool = False  # masks of one side see each other
    language_embedding: Literal["queries", "none"] = "queries"  # a mask cannot see its own sentence


@dataclass(frozen=True)
class BtmlmOptions(Options):
    ratio_share: float = 0.2  # pseudo tokens per token of the sentence; 0.05 to 0.2 in ERNIE-M figure 6
    placement: Literal["consecutive", "scattered"] = "consecutive"
    decoding: Literal["argmax", "sample"] = "argmax"
    siblings: bool = False
    language_embedding: Literal["queries", "none"] = "queries"
    start_share: float = 0.1  # of all steps, and the warm-up: masked language modelling alone until then
    languages: Literal["paired", "all"] = "paired"  # all: languages without bitext too, towards English
    alpha: float = 0.7  # English sentences: target languages by (number of pairs) ^ alpha


@dataclass(frozen=True)
class RtdOptions(Options):
    generator_layers: int = 4
    discriminator_weight: float = 50.0  # lambda of XLM-E
    share: Literal["both", "no-discriminator-gradient"] = "both"  # the token table's gradients
    sampling: Literal["train", "eval"] = "train"  # eval: a second pass of the generator without dropout
    head: Literal["dense", "linear"] = "dense"  # ELECTRA's or COCO-LM's discriminator head


@dataclass(frozen=True)
class VecoOptions(Options):
    cs_self: Literal["causal", "full"] = "causal"  # who a token sees of its own side in cross-sequence modelling


@dataclass(frozen=True)
class VecoPairsOptions(VecoOptions):
    tlm: bool = True


@dataclass(frozen=True)
class PpaOptions(Options):
    queue: int = 32000
    momentum: float = 0.999
    temperature: float = 0.05
    projection: int = 300
    normalise: Literal["z", "h_only"] = "z"
    sentences: Literal["tlm", "mlm", "none"] = "tlm"  # beside the contrast: on the pair, on each side alone, nothing
    least_tokens: int = 1  # of each side; pairs with a shorter one are left out, as are longer ones than
    most_tokens: int | None = None  # of both sides together


@dataclass(frozen=True)
class XlcoOptions(Options):
    queue: int = 131072
    momentum: float = 0.9999
    temperature: float = 0.25
    layer: int = 8  # 0 is the embedding output


@dataclass(frozen=True)
class DwaOptions(Options):
    layer: int = 10  # whose states are aligned
    sinkhorn: int = 2
    alpha: float = 0.9
    rounds: int = 2
    tlm: bool = True


@dataclass(frozen=True)
class HictlOptions(Options):
    temperature: float = 0.1
    negatives: int = 64  # sampled vocabulary entries of the word contrast
    queue: int = 0  # 0: the other pairs of the step


@dataclass(frozen=True)
class CodeSwitchOptions(Options):
    replaced_share: float = 0.3  # of the words, at most
    source_share: float = 0.1  # rows left as they are
    target_share: float = 0.1  # rows that are the translation


@dataclass(frozen=True)
class ParaphraseOptions(Options):
    negative_share: float = 0.5


@dataclass(frozen=True)
class DenoisingOptions(Options):
    removed_share: float = 0.35
    span: float = 3.5  # mean of the Poisson lengths
    permute: bool = True
    decoder_layers: int = 12


@dataclass(frozen=True)
class SpanOptions(Options):
    removed_share: float = 0.15
    span: float = 3.0  # mean, in tokens
    decoder_layers: int = 12

    def __post_init__(self):
        super().__post_init__()
        if self.span < 1:
            raise UserError(f"options.span: {self.span} is less than the one token that a span has at least")


@dataclass(frozen=True)
class TranslationOptions(Options):
    decoder_layers: int = 6
    label_smoothing: float = 0.2
    source: str = "en"  # the language that is translated from
    most_tokens: int | None = None  # of both sides together; longer pairs are left out

    def __post_init__(self):
        super().__post_init__()
        if not 0 <= self.label_smoothing < 1:
            raise UserError(f"options.label_smoothing: {self.label_smoothing} is not between 0 and 1")


def check_restart(restarts: bool, languages: int, token_types: int, where: str) -> None:
    """Where the second side of a pair is numbered from the start again, two masks at one place of the two sides enter
    with one vector and see the same: unless something tells the sides apart, their states are equal in every layer."""
    if restarts and not languages and token_types < 2:
        raise UserError(
            f"{where}: positions restart, and the model has neither language vectors nor token types, so masks of the "
            "two sides cannot be told apart; write false, or give the model languages"
        )


@dataclass(frozen=True)
class Description:
    data: str  # mono or bitext
    form: str
    options: type = Options


DESCRIPTIONS = {
    "mmlm": Description("mono", "blocks"),
    "tlm": Description("bitext", "pairs"),
    # ERNIE-M
    "camlm": Description("bitext", "pairs", CamlmOptions),
    "btmlm": Description("mono", "placeholders", BtmlmOptions),
    # XLM-E
    "mrtd": Description("mono", "blocks", RtdOptions),
    "trtd": Description("bitext", "pairs", RtdOptions),
    # VECO
    "veco-mono": Description("mono", "segments", VecoOptions),
    "veco-pairs": Description("bitext", "apart", VecoPairsOptions),
    # PPA, InfoXLM, XLM-Align
    "ppa": Description("bitext", "apart", PpaOptions),
    "xlco": Description("bitext", "mixup", XlcoOptions),
    "dwa": Description("bitext", "pairs", DwaOptions),
    # the other baselines: mBERT, Unicoder, ALM, HICTL, mBART, mT5
    "nsp": Description("mono", "next-sentences"),
    "word-recovery": Description("bitext", "pairs"),
    "paraphrase": Description("bitext", "pairs", ParaphraseOptions),
    "cross-lingual-mlm": Description("bitext", "alternating"),
    "code-switch": Description("bitext", "pairs", CodeSwitchOptions),
    "hictl": Description("bitext", "apart", HictlOptions),
    "denoising": Description("mono", "twice", DenoisingOptions),
    "spans": Description("mono", "twice", SpanOptions),
    # fine-tuning for translation
    "translation": Description("bitext", "apart", TranslationOptions),
}
