"""Back-translation masked language modelling (BTMLM): ERNIE-M, section 3, on text of one language.

1. Masks after the sentence ask for the start of its translation, as in CAMLM: <s> x </s> </s> M1 ... Mp. One pass
   without dropout or gradient; every mask sees x and itself, x sees x; the likeliest piece (or a drawn one) is h_i.
2. L_BTMLM = - sum_{m in M in x} log p(x_m | x without M, h_1 ... h_p). Everything sees everything.

The paper leaves open into which language: English text goes into the languages that it is paired with, drawn by
(number of pairs) ^ alpha, all other text into English. Without bitext nothing has taught the first pass: such text is
left to masked language modelling, as is everything until the end of the warm-up and of `start_share` of the steps, with
holes in place of the masks.
"""

from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from common.errors import UserError
from engine import corruption
from engine.by_hand import full_rows
from engine.corruption import select
from engine.data import Rows
from engine.objectives.base import Batch, Loss, Number, Objective
from engine.objectives.camlm import LANGUAGES_OF_MASKS, mask_modules, mask_states
from engine.objectives.mlm import in_chunks, masked_lm_loss
from engine.objectives.sampling import draws, evaluating, sample
from engine.ragged import ramp, running_count
from engine.randomness import mix, stable_hash, uniform
from engine.shards import open_shard, read_manifest
from engine.streams import Source, language_codes
from engine.tokenizer import FIRST_PIECE, PAD

if TYPE_CHECKING:
    from engine.config import ObjectiveConfig

ENGLISH = "en"
NONE = -1
SAMPLE = 100_000  # tokens of each language in which its pieces are counted


# --- rows ------------------------------------------------------------------------------------------------------------


def corrupt(rows: Rows, objective: "ObjectiveConfig", vocabulary: int) -> tuple[np.ndarray, np.ndarray]:
    """Selected are tokens of x alone. Slots become masks of the wanted language, or holes where none is wanted."""
    second = (rows.document >= 0) & (rows.side == 1)
    wanted = wanted_language(rows.language[second], rows.key[second], objective)
    rows.language[second] = np.where(wanted == NONE, rows.language[second], wanted)
    rows.document[second] = np.where(wanted == NONE, -1, rows.document[second])
    slots = (rows.document >= 0) & (rows.side == 1) & (rows.tokens == PAD)
    if objective.options.placement == "scattered":
        scatter(rows, slots, objective, vocabulary)
    selected = select(rows, objective.mask.rate, objective.draws_as, vocabulary)
    seen = corruption.corrupt(rows, selected, objective.mask, objective.draws_as, vocabulary)
    seen[slots] = vocabulary - 1
    return seen, selected


def wanted_language(language: np.ndarray, key: np.ndarray, objective: "ObjectiveConfig") -> np.ndarray:
    """Into which language a text of this one goes, NONE if into none; arrays of one shape."""
    english, weights = partners_of_english(objective.sources, objective.options.alpha)
    taught = weights > 0
    if not taught.any() and objective.options.languages == "paired":
        raise UserError(
            "objective btmlm: no bitext of the sampling plan has English on one side, so no text can be translated; "
            "add such bitext to the run's data, or leave btmlm out"
        )
    into = np.where(taught | (objective.options.languages == "all"), english, NONE)
    into[english] = NONE
    wanted = into[language]
    if taught.any():
        cumulated = np.cumsum(weights)
        draw = uniform(key ^ np.uint64(stable_hash(objective.draws_as, "language of the translation")))
        wanted = np.where(language == english, np.searchsorted(cumulated / cumulated[-1], draw, side="right"), wanted)
    return wanted


@cache
def partners_of_english(sources: tuple[Source, ...], alpha: float) -> tuple[int, np.ndarray]:
    """Number of English, and (languages,) how often English text goes into each: (sentence pairs) ^ alpha."""
    codes = language_codes(sources)
    if ENGLISH not in codes:
        raise UserError("objective btmlm: no source of the sampling plan is English, through which it translates")
    pairs = np.zeros(len(codes))
    for source in sources:
        if source.kind == "bitext" and ENGLISH in source.languages:
            [other] = set(source.languages) - {ENGLISH}
            pairs[codes.index(other)] += sum(read_manifest(manifest)["documents"] for manifest in source.manifests)
    return codes.index(ENGLISH), np.where(pairs > 0, pairs**alpha, 0.0)


def scatter(rows: Rows, slots: np.ndarray, objective: "ObjectiveConfig", vocabulary: int) -> None:
    """Give the slots of an item positions drawn from a span as long as x, in place of the first ones; what follows the
    slots stands after the span. The span ends where a row of this length would."""
    R, T = slots.shape
    place = np.flatnonzero(slots)
    item = (place // T) * T + rows.document.flat[place]
    items, first, count = np.unique(item, return_index=True, return_counts=True)
    ordinary = (rows.document >= 0) & (rows.side == 0) & (rows.tokens >= FIRST_PIECE) & (rows.tokens < vocabulary - 1)
    text = np.flatnonzero(ordinary)
    length = np.bincount((text // T) * T + rows.document.flat[text], minlength=R * T)[items]
    start = rows.position.flat[place[first]]
    room = T + PAD - start  # the last position of a row is T + PAD, and the final </s> needs one
    span = np.maximum(count, np.minimum(length, room))

    owner = np.repeat(np.arange(len(items)), span)
    number = ramp(span)
    key = rows.key.flat[place[first]] ^ np.uint64(stable_hash(objective.draws_as, "placement"))
    order = np.lexsort((mix(key[owner] + mix(number.astype(np.uint64))), owner))
    kept = np.sort(order[running_count(owner) < count[owner]])  # by item, then by number
    final = place[first] + count
    rows.position.flat[final] = start + span
    rows.position.flat[place] = start[owner[kept]] + number[kept]


# --- the two passes --------------------------------------------------------------------------------------------------


def translate(model: nn.Module, batch: Batch) -> None:
    """The first pass: what the encoder sees at the masks becomes their prediction."""
    options, fields = batch.objective.options, batch.fields
    if batch.step <= max(batch.warmup_steps, options.start_share * batch.steps):
        for own in (batch, batch.host):
            hidden_BT = own.fields.document.masked_fill(own.fields.side == 1, -1)
            own.fields = own.fields._replace(document=hidden_BT)
        return
    slots_BT, slots_N = slots(batch), batch.places(slots(batch.host))
    whole_BT = torch.where(slots_BT, batch.tokens, batch.original)  # nothing of x is masked
    with evaluating(model.encoder):
        states_ND = mask_states(model, batch, whole_BT, fields._replace(selected=slots_BT), slots_N)

    def predict(states_ND: Tensor, draws_N: Tensor) -> Tensor:
        logits_NV = model.mlm_head(full_rows(states_ND), model.encoder.tokens.weight)
        pieces_NV = logits_NV[: len(states_ND), FIRST_PIECE:-1]  # specials come first, <mask> is the last
        return FIRST_PIECE + (pieces_NV.argmax(-1) if options.decoding == "argmax" else sample(pieces_NV, draws_N))

    pseudo_N = torch.cat(in_chunks(predict, states_ND, draws(batch, slots_N, "translation")))
    batch.tokens = batch.tokens.flatten().index_copy(0, slots_N, pseudo_N).view_as(batch.tokens)
    batch.extra = {"pseudo": slots_N}


def slots(batch: Batch) -> Tensor:
    """(B, T) bool, the places of the pseudo tokens."""
    return (batch.fields.document >= 0) & (batch.fields.side == 1) & (batch.original == PAD)


def btmlm_loss(model: nn.Module, batch: Batch) -> Loss:
    loss = masked_lm_loss(model, batch)
    return Loss(loss.sums, loss.signals | health(model, batch)) if "pseudo" in batch.extra else loss


def health(model: nn.Module, batch: Batch) -> dict[str, tuple[Number, Number]]:
    """Shares of the pseudo tokens: those that their own sentence has too, and those that are commoner in the language
    that was wanted than in the sentence's."""
    pseudo_N = batch.extra["pseudo"]
    B, T = batch.tokens.shape
    item_M = (torch.arange(B, device=pseudo_N.device)[:, None] * T + batch.fields.document).flatten()  # M = B T
    language_M, original_M = batch.fields.language.flatten().long(), batch.original.flatten()
    text_K = batch.places((batch.host.fields.side == 0) & (batch.host.fields.document >= 0))
    tokens_N = batch.tokens.flatten()[pseudo_N]
    vocabulary = model.encoder.config.vocabulary
    copied_N = is_among(item_M[pseudo_N] * vocabulary + tokens_N, (item_M * vocabulary + original_M)[text_K])
    language_of_text = torch.zeros_like(item_M).index_put((item_M[text_K],), language_M[text_K])[item_M[pseudo_N]]
    share_LV = model.pieces.share_LV
    commoner_N = share_LV[language_M[pseudo_N], tokens_N] > share_LV[language_of_text, tokens_N]
    return {
        "copied": (copied_N.sum(), len(pseudo_N)),
        "in_wanted_language": (commoner_N.sum(), len(pseudo_N)),
    }


def is_among(keys_N: Tensor, known_K: Tensor) -> Tensor:
    """torch.isin, which asks a GPU how many different ones there are."""
    if not len(known_K):
        return torch.zeros_like(keys_N, dtype=torch.bool)
    sorted_K = known_K.sort().values
    return sorted_K[torch.searchsorted(sorted_K, keys_N).clamp_max(len(known_K) - 1)] == keys_N


class Pieces(nn.Module):
    """What share of each language's text each piece is, to tell languages apart; in no checkpoint."""

    def __init__(self, sources: tuple[Source, ...], vocabulary: int):
        super().__init__()
        codes = language_codes(sources)
        count_LV = np.zeros((len(codes), vocabulary))
        for source in sources:
            if source.kind == "mono":
                tokens = np.asarray(open_shard(source.manifests[0]).tokens[:SAMPLE], np.int64)
                count_LV[codes.index(source.name)] += np.bincount(tokens, minlength=vocabulary)
        share_LV = count_LV / np.maximum(1, count_LV.sum(1, keepdims=True))
        self.register_buffer("share_LV", torch.from_numpy(share_LV.astype(np.float16)), persistent=False)


def modules(model: nn.Module, objective: "ObjectiveConfig") -> dict[str, nn.Module]:
    return {**mask_modules(model, objective), "pieces": Pieces(objective.sources, model.encoder.config.vocabulary)}


BTMLM = Objective(btmlm_loss, modules=modules, training_only=(LANGUAGES_OF_MASKS,), corrupt=corrupt, prepare=translate)
