"""The forms of an item: how its sentences and marks lie in it.

A form is one `lay_` function that lists the pieces of items, and an entry in FORMS. No item is longer than
block_length tokens, marks included.

Text of one language, s1, s2, ... consecutive sentences, as many as fit (and at most block_sentences, where that is set;
a sentence is a line of the text):

    blocks          <s> s1 </s> s2 </s> s3 </s>
    placeholders    <s> s1 </s> s2 </s> </s> ? ? </s>
                                                   a block, and as side 1 slots that hold <pad> until they are filled:
                                                   reserved_share of the block's tokens, at least one
    twice           <s> s1 </s> s2 </s> <s> s1 </s> s2 </s>
                                                   a block of at most half the length, as side 0 and as side 1
    segments        <s> s1 </s> s2 </s> <s> s3 </s>
                                                   sentences of one document, cut into two sides at the sentence's end
                                                   that is nearest the middle
    next-sentences  <s> s1 </s> s2 </s> s3 </s>    the same without a second <s>; in half of the items (by chance) the
                                                   second side is that of another item

Translation pairs (x, y), (x', y'):

    pairs           <s> x </s> </s> y </s>         pair_separators 1 leaves out one </s>
    apart           <s> x </s> <s> y </s>          two sides that start alike
    mixup           <s> x </s> x' </s> <s> y' </s> y </s>
                                                   two pairs, the second one by chance: one language is side 0, the
                                                   other side 1, each in an order of its own
    alternating     <s> x1 </s> y2 </s> x3 </s>    consecutive pairs, as many as fit, the language changing from one to
                                                   the next; all of it is side 0

Pairs with a reserved_share are followed by as many slots of their own (of each side, rounded down, plus one) that
belong to no document yet; what fills them must say where they belong. Slots have the item's key and offsets. With a
negative_share, the second side of a pair is that often (by chance) that of another pair.

Which language comes first is a coin, unless swap_sides is off or, in pairs and apart, source_language says it. A
sentence that is too long is cut; of two, the longer one first. A document whose sentences are too few or too long for a
form gives no item of it. Positions run on through the item, but start again at the second side in the forms twice,
segments, apart and mixup, and on request in pairs (reset_positions).
"""

import numpy as np

from engine.ragged import running_count
from engine.shards import Shards
from engine.streams import FAR, NOTHING, Drawn, Form, ItemOptions, tokens_before
from engine.tokenizer import BOS, EOS

SHORTEST = 10  # tokens that hold the marks and one token of each sentence, in any form


def block_bounds(
    lengths: np.ndarray, block_length: float, sentences: int | None = None, documents: np.ndarray | None = None
) -> np.ndarray:
    """First sentence of each block: <s>, then whole sentences, each closed by </s>, until the next does not fit.

    Lengths are (S,), or (ways, S) where a block must fit in each of several ways. A block holds at most `sentences`
    sentences. With `documents`, (D + 1,) the first sentence of each, a block also ends where its document ends.
    """
    ways = np.atleast_2d(lengths) + 1
    S = ways.shape[1]
    following = np.full(S, S) if documents is None else np.repeat(documents[1:], np.diff(documents))
    for sizes in ways:
        ends = np.cumsum(sizes, dtype=np.float64)
        fit = np.searchsorted(ends, ends - sizes + block_length - 1, side="right")
        following = np.minimum(following, fit)  # (S,) where the next block begins if one begins here
    if sentences:
        following = np.minimum(following, np.arange(S) + sentences)
    # a sentence that is too long alone makes a block of its own, cut
    following = np.maximum(following, np.arange(1, S + 1))
    bounds = [0]
    while bounds[-1] < S:
        bounds.append(int(following[bounds[-1]]))
    return np.asarray(bounds, np.int64)


def by_item(*parts: np.ndarray) -> np.ndarray:
    """Pieces of the same items as one list: of each item, first those of the first part."""
    pieces = np.concatenate(parts)
    return pieces[np.argsort(pieces["item"], kind="stable")]


def lay_blocks(drawn: Drawn, options: ItemOptions) -> np.ndarray:
    return lay_sentences(drawn, options.length - 2)


def lay_sentences(drawn: Drawn, longest: int) -> np.ndarray:
    """<s> and all sentences of the items; only one that is alone in its item can be too long."""
    item, number, sentence = drawn.sentences()
    pieces = drawn.pieces(item, sentence)
    pieces["lead"][number == 0] = BOS
    pieces["size"] = np.minimum(pieces["size"], longest)
    return pieces


def lay_twice(drawn: Drawn, options: ItemOptions) -> np.ndarray:
    pieces = lay_sentences(drawn, options.length // 2 - 2)
    again = pieces.copy()
    again["side"] = 1
    return by_item(pieces, again)


def lay_placeholders(drawn: Drawn, options: ItemOptions) -> np.ndarray:
    share = options.reserved_share
    pieces = lay_sentences(drawn, int((room_beside_slots(options) - 1) / (1 + share)))
    slots = pieces[pieces["lead"] == BOS]
    tokens = np.bincount(pieces["item"], pieces["size"])
    slots["lead"], slots["sentence"], slots["side"] = EOS, NOTHING, 1
    slots["size"] = np.maximum(1, np.rint(share * tokens))
    return by_item(pieces, slots)


def lay_segments(drawn: Drawn, options: ItemOptions) -> np.ndarray:
    pieces = halves(drawn)
    pieces["lead"][running_count(2 * pieces["item"] + pieces["side"]) == 0] = BOS
    return pieces


def lay_next_sentences(drawn: Drawn, options: ItemOptions) -> np.ndarray:
    own, other = halves(drawn), halves(drawn.partners())
    replaced = drawn.chance("next sentence") < 0.5
    kept = (own["side"] == 0) | ~replaced[own["item"]]
    pieces = by_item(own[kept], other[(other["side"] == 1) & replaced[other["item"]]])
    pieces["lead"][running_count(pieces["item"]) == 0] = BOS
    room = options.length - tokens_before(pieces) - (pieces["lead"] != NOTHING) - 1
    pieces["size"] = np.minimum(pieces["size"], room)  # the other item's half may be longer
    return pieces[room > 0]


def halves(drawn: Drawn) -> np.ndarray:
    """The sentences of the items, those after the sentence's end that is nearest the middle as side 1."""
    item, number, sentence = drawn.sentences()
    pieces = drawn.pieces(item, sentence)
    first = np.flatnonzero(number == 0)
    length = pieces["size"] + 1
    done = np.cumsum(length)  # tokens up to the end of each sentence
    before = (done - length)[first][item]
    whole = np.add.reduceat(length, first)[item]
    distance = np.abs(2 * (done - before) - whole)  # greatest at the item's own end, so neither side is empty
    nearest = distance == np.minimum.reduceat(distance, first)[item]
    last_of_first = np.minimum.reduceat(np.where(nearest, number, FAR), first)
    pieces["side"] = number > last_of_first[item]
    return pieces


def lay_pairs(drawn: Drawn, options: ItemOptions) -> np.ndarray:
    return lay_two(drawn, options, EOS if options.pair_separators == 2 else NOTHING)


def lay_apart(drawn: Drawn, options: ItemOptions) -> np.ndarray:
    return lay_two(drawn, options, BOS)


def lay_two(drawn: Drawn, options: ItemOptions, second_lead: int) -> np.ndarray:
    swapped = drawn.coin("swap") & options.swap_sides
    if options.source_language is not None:
        swapped = np.full(len(drawn.item), drawn.languages[1] == options.source_language)
    first = np.stack([drawn.first, drawn.first], 1)  # (n, 2)
    if options.negative_share:
        negative = drawn.chance("negative") < options.negative_share
        first[negative, 1] = drawn.partners().first[negative]
    pieces = drawn.pieces(np.arange(len(first))[:, None], first + np.stack([swapped, ~swapped], 1))
    pieces["lead"] = BOS, second_lead
    pieces["side"] = 0, 1
    room = options.length - 3 - (second_lead != NOTHING)
    if share := options.reserved_share:
        pieces["size"] = cut_longer(pieces["size"], int((room - 2) / (1 + share)))
        slots = pieces[:, 1:].copy()
        slots["lead"], slots["sentence"], slots["closed"] = NOTHING, NOTHING, False
        slots["size"] = (np.floor(share * pieces["size"]) + 1).sum(1, keepdims=True)
        return np.concatenate([pieces, slots], 1).ravel()
    pieces["size"] = cut_longer(pieces["size"], room)
    return pieces.ravel()


def lay_mixup(drawn: Drawn, options: ItemOptions) -> np.ndarray:
    n = len(drawn.item)
    pairs = np.stack([drawn.first, drawn.partners().first], 1)  # (n, 2) first sentence of either pair
    swapped = drawn.coin("swap") & options.swap_sides
    sides = []
    for language, purpose in ((swapped, "order of the query"), (~swapped, "order of the key")):
        turned = drawn.coin(purpose)
        sides.append(np.where(turned[:, None], pairs[:, ::-1], pairs) + language[:, None])
    pieces = drawn.pieces(np.arange(n)[:, None, None], np.stack(sides, 1))  # (n, side, place)
    pieces["lead"] = [[BOS, NOTHING], [BOS, NOTHING]]
    pieces["side"] = [[0], [1]]
    rooms = cut_longer(pieces["size"].sum(2), options.length - 6)
    pieces["size"] = cut_longer(pieces["size"], rooms[:, :, None])
    return pieces.ravel()


def lay_alternating(drawn: Drawn, options: ItemOptions) -> np.ndarray:
    item, number, sentence = drawn.sentences()
    swapped = drawn.coin("swap") & options.swap_sides
    chosen = number % 2 == (number // 2 + swapped[item]) % 2
    pieces = drawn.pieces(item[chosen], sentence[chosen])
    pieces["lead"][number[chosen] < 2] = BOS
    return pieces


def cut_longer(lengths: np.ndarray, room: int | np.ndarray) -> np.ndarray:
    """(..., 2) lengths that fit the room together: the longer one gives way first."""
    return np.minimum(lengths, np.maximum(room // 2, room - lengths[..., ::-1]))


def bounds_of_blocks(shards: Shards, options: ItemOptions) -> np.ndarray:
    return block_bounds(shards.sentence_lengths(), options.length, options.sentences)


def bounds_of_half_blocks(shards: Shards, options: ItemOptions) -> np.ndarray:
    return block_bounds(shards.sentence_lengths(), options.length // 2, options.sentences)


def bounds_beside_slots(shards: Shards, options: ItemOptions) -> np.ndarray:
    lengths = shards.sentence_lengths() * (1 + options.reserved_share)
    return block_bounds(lengths, room_beside_slots(options) + 1, options.sentences)


def room_beside_slots(options: ItemOptions) -> float:
    """For sentences with their </s> and their share of the slots: <s>, twice </s>, and rounding up by half at most."""
    return options.length - 3.5


def bounds_within_documents(shards: Shards, options: ItemOptions) -> np.ndarray:
    return block_bounds(shards.sentence_lengths(), options.length, options.sentences, shards.document_offsets())


def bounds_of_segments(shards: Shards, options: ItemOptions) -> np.ndarray:
    room = options.length - 1  # a second <s>
    return block_bounds(shards.sentence_lengths(), room, options.sentences, shards.document_offsets())


def bounds_of_alternation(shards: Shards, options: ItemOptions) -> np.ndarray:
    """Runs of pairs that fit whichever language comes first."""
    lengths = shards.sentence_lengths().reshape(-1, 2)  # (pairs, 2)
    pair = np.arange(len(lengths))
    ways = [lengths[pair, (pair + first) % 2] for first in (0, 1)]
    return 2 * block_bounds(np.stack(ways), options.length, options.sentences)


def bounds_of_documents(shards: Shards, options: ItemOptions) -> np.ndarray:
    return shards.document_offsets()


WITHIN_DOCUMENTS = {
    "sentences": 2,
    "lack": "two neighbouring sentences of one document that fit {length} tokens",
    "mend": "raise block_length, encode text that still has its documents (a blank line ends one),",
}

TWO_PAIRS = {"together": 2, "lack": "two pairs", "mend": "lower the cleaning thresholds"}

NEIGHBOURING_PAIRS = {
    "sentences": 4,
    "lack": "two neighbouring pairs that fit {length} tokens, a sentence of each",
    "mend": "raise block_length",
}

FORMS = {
    "blocks": Form(lay_blocks, bounds_of_blocks, fills=True),
    "placeholders": Form(lay_placeholders, bounds_beside_slots, fills=True),
    "twice": Form(lay_twice, bounds_of_half_blocks, fills=True, restarts=True),
    "segments": Form(lay_segments, bounds_of_segments, restarts=True, **WITHIN_DOCUMENTS),
    "next-sentences": Form(lay_next_sentences, bounds_within_documents, together=2, **WITHIN_DOCUMENTS),
    "pairs": Form(lay_pairs, bounds_of_documents),
    "apart": Form(lay_apart, bounds_of_documents, restarts=True),
    "mixup": Form(lay_mixup, bounds_of_documents, restarts=True, documents=2, **TWO_PAIRS),
    "alternating": Form(lay_alternating, bounds_of_alternation, fills=True, **NEIGHBOURING_PAIRS),
}
