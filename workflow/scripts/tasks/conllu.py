"""CoNLL-U sentences as XTREME tags them: one token per surface form, one UPOS tag per token.

The released converter builds a graph of each sentence; the short rule here equals it on every multi-word token
of the treebanks that it was compared on.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from common.errors import UserError
from tasks.tags import Sentence

# fmt: off
TAGS = ("ADJ", "ADP", "ADV", "AUX", "CCONJ", "DET", "INTJ", "NOUN", "NUM",
        "PART", "PRON", "PROPN", "PUNCT", "SCONJ", "SYM", "VERB", "X")

# Which inner word of a multi-word token gives the tag when several are equally close to the root.
PRECEDENCE = ("VERB", "NOUN", "PROPN", "PRON", "ADJ", "NUM", "ADV", "INTJ",
              "AUX", "ADP", "DET", "PART", "CCONJ", "SCONJ", "X", "PUNCT")
PRECEDENCE_OF = {
    "es": ("VERB", "AUX", "PRON", "ADP", "DET"),
    "fr": ("VERB", "AUX", "PRON", "NOUN", "ADJ", "ADV", "ADP", "DET", "PART", "SCONJ", "CONJ"),
    "it": ("VERB", "AUX", "ADV", "PRON", "ADP", "DET", "INTJ"),
}
# fmt: on
ZERO_WIDTH_NON_JOINER = "\u200c"
NUMBER = re.compile("[0-9]{1,9}")  # int() would take ٣, and 1_0 too
EMPTY_NODE = re.compile("[0-9]{1,9}[.][0-9]{1,9}")


class Word(NamedTuple):
    form: str
    tag: str
    head: int


class Range(NamedTuple):
    first: int
    last: int
    form: str


def parse_conllu(lines: Sequence[str], where: str, language: str) -> list[Sentence]:
    """Converted sentences in the order of the file; sentences without usable forms are left out."""
    sentences = []
    words: list[Word] = []
    ranges: list[Range] = []
    for number, line in enumerate([*lines, ""], start=1):
        if line.startswith("#"):
            continue
        if line.strip():
            _read_line(line, f"{where}, line {number}", words, ranges)
        elif words:
            sentence = convert(words, ranges, language, f"{where}, sentence ending on line {number}")
            if sentence:
                sentences.append(sentence)
            words, ranges = [], []
    return sentences


def _read_line(line: str, where: str, words: list[Word], ranges: list[Range]) -> None:
    """Append the word or the range of one line; an empty node (8.1) is left out."""
    cells = line.split("\t")
    if len(cells) != 10:
        raise UserError(f"{where}: {len(cells)} columns instead of 10")
    word_id, form, tag, head = cells[0], cells[1], cells[3], cells[6]
    if EMPTY_NODE.fullmatch(word_id):
        return
    try:
        if "-" in word_id:
            first, last = map(_number, word_id.split("-"))
            if first != len(words) + 1 or last < first:
                raise UserError(f"{where}, id {word_id}: a range stands before its first word")
            ranges.append(Range(first, last, form))
            return
        if _number(word_id) != len(words) + 1:
            raise UserError(f"{where}, id {word_id}: word {len(words) + 1} expected; an id is missing or repeated")
    except ValueError:
        raise UserError(f"{where}: {word_id!r} is not a word id") from None
    if tag not in TAGS:
        raise UserError(f"{where}, id {word_id}: unknown label {tag!r}; use {', '.join(TAGS)}")
    words.append(Word(form, tag, _number(head) if NUMBER.fullmatch(head) else -1))


def _number(text: str) -> int:
    if not NUMBER.fullmatch(text):
        raise ValueError(text)
    return int(text)


def convert(words: Sequence[Word], ranges: Sequence[Range], language: str, where: str = "") -> Sentence | None:
    """Tokens and tags of one sentence, or None where most of its forms are withheld (`_`)."""
    tokens, tags = [], []
    covered = 0
    starts = {item.first: item for item in ranges}
    for index, word in enumerate(words, start=1):
        if index <= covered:
            continue
        item = starts.get(index)
        if item is None:
            tokens.append(word.form)
            tags.append(word.tag)
            continue
        if item.last > len(words):
            raise UserError(f"{where}, id {item.first}-{item.last}: the range ends after the last word {len(words)}")
        covered = item.last
        tokens.append(item.form)
        tags.append(range_tag(words, item, language, where))
    withheld = tokens.count("_")
    if withheld and withheld >= len(tokens) - 1:
        return None
    clean = (token.replace(" ", "").replace(ZERO_WIDTH_NON_JOINER, "") for token in tokens)
    return Sentence(tuple(clean), tuple(tags))


def range_tag(words: Sequence[Word], item: Range, language: str, where: str) -> str:
    """UPOS of the inner word that is closest to the root of the basic tree."""
    depths = {index: depth(words, index, where) for index in range(item.first, item.last + 1)}
    shallowest = min(depths.values())
    candidates = [words[index - 1].tag for index in sorted(depths) if depths[index] == shallowest]
    order = PRECEDENCE_OF.get(language, PRECEDENCE)
    return min(candidates, key=lambda tag: order.index(tag) if tag in order else len(order))


def depth(words: Sequence[Word], index: int, where: str) -> int:
    """Number of arcs from the root to word `index` (counted from 1)."""
    steps = 0
    while index:
        head = words[index - 1].head
        if not 0 <= head <= len(words) or steps > len(words):
            raise UserError(f"{where}, id {index}: HEAD {head} is not a word of the sentence, or the tree has a cycle")
        index = head
        steps += 1
    return steps
