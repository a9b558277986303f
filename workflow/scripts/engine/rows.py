"""Rows of token ids for the tasks, and batches of rows. No labels here, and no model.

Shapes: B rows of a batch, T tokens of its longest row.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from engine.tokenizer import BOS, EOS, PAD, UNK, Tokenizer

POOL = 50  # batches whose rows are sorted by length together before they are shuffled


class Window(NamedTuple):
    """A row that covers consecutive words of one sentence; `first` are the places of the words' first pieces."""

    sentence: int
    row: list[int]
    first: list[int]


class AnswerWindow(NamedTuple):
    """A row of one question and a part of its context."""

    question: int
    row: list[int]
    first: int  # place of the first piece of the context
    places: list[tuple[int, int]]  # characters of the context that each of these pieces stands for
    central: list[bool]  # is this the window in which the piece has the most context?
    part: tuple[int, int]  # the characters that only pieces of this window stand for


class WordPair(NamedTuple):
    """A row of two sentences, and the number of the word that each piece of a side belongs to."""

    row: list[int]
    words_X: list[int]
    words_Y: list[int]


def sentence_rows(tokenizer: Tokenizer, sentences: Sequence[str], max_length: int) -> list[list[int]]:
    """<s> sentence </s>, cut at max_length."""
    return [[BOS, *ids[: max_length - 2], EOS] for ids in tokenizer.encode(sentences)]


def pair_rows(tokenizer: Tokenizer, firsts: Sequence[str], seconds: Sequence[str], max_length: int) -> list[list[int]]:
    """<s> first </s></s> second </s>, or with one separator as BERT has it; the longer side is cut first."""
    between = [EOS] * tokenizer.pair_separators
    rows = []
    for a, b in zip(tokenizer.encode(firsts), tokenizer.encode(seconds), strict=True):
        a, b = cut_pair(a, b, max_length - len(between) - 2)
        rows.append([BOS, *a, *between, *b, EOS])
    return rows


def cut_pair(a: list, b: list, room: int) -> tuple[list, list]:
    """Take tokens off the end of the longer side (the second of two equals) until both fit."""
    excess = len(a) + len(b) - room
    if excess <= 0:
        return a, b
    half = room // 2
    if len(b) <= half:
        return a[: room - len(b)], b
    if len(a) <= room - half:
        return a, b[: room - len(a)]
    return a[: room - half], b[:half]


def tag_windows(tokenizer: Tokenizer, sentences: Sequence[Sequence[str]], max_length: int) -> list[Window]:
    """Cut each sentence before the word that would not fit, so that every word is the start of exactly one place.

    A word without pieces, or longer than a whole window, becomes <unk>: nothing is ever dropped.
    """
    words = sorted({word for sentence in sentences for word in sentence})
    pieces_of = dict(zip(words, tokenizer.encode(words), strict=True))
    room = max_length - 2
    windows = []
    for index, sentence in enumerate(sentences):
        row, first = [BOS], []
        for word in sentence:
            pieces = pieces_of[word]
            if not 0 < len(pieces) <= room:
                pieces = [UNK]
            if len(row) - 1 + len(pieces) > room:
                windows.append(Window(index, [*row, EOS], first))
                row, first = [BOS], []
            first.append(len(row))
            row.extend(pieces)
        if first:
            windows.append(Window(index, [*row, EOS], first))
    return windows


def answer_windows(
    tokenizer: Tokenizer,
    questions: Sequence[str],
    contexts: Sequence[str],
    max_length: int,
    max_query: int,
    stride: int,
) -> list[AnswerWindow]:
    """<s> question </s></s> part of the context </s>, or with one separator; each part begins `stride` pieces after the
    one before."""
    between = [EOS] * tokenizer.pair_separators
    encoded = dict(zip(unique := sorted(set(contexts)), tokenizer.encode_with_places(unique), strict=True))
    windows = []
    for index, (query, context) in enumerate(zip(tokenizer.encode(questions), contexts, strict=True)):
        pieces, places = encoded[context]
        head = [BOS, *query[: min(max_query, max_length - len(between) - 3)], *between]
        room = max_length - len(head) - 1
        starts = [0]
        while starts[-1] + room < len(pieces):
            starts.append(starts[-1] + min(stride, room))
        of_piece = [most_context(i, starts, room, len(pieces)) for i in range(len(pieces))]
        for number, start in enumerate(starts):
            part = slice(start, start + room)
            central = [own == number for own in of_piece[part]]
            before = places[start - 1][1] if start else 0
            after = places[start + room][0] if start + room < len(places) else len(context)
            row = [*head, *pieces[part], EOS]
            windows.append(AnswerWindow(index, row, len(head), places[part], central, (before, after)))
    return windows


def most_context(piece: int, starts: Sequence[int], room: int, pieces: int) -> int:
    """Of the windows that hold this piece, the number of the one that shows most of both its sides, as BERT's code has
    it: the smaller side counts, and a hundredth of the window's length."""
    best, found = -1.0, 0
    for number, start in enumerate(starts):
        end = min(start + room, pieces)
        if start <= piece < end:
            context = min(piece - start, end - 1 - piece) + 0.01 * (end - start)
            if context > best:
                best, found = context, number
    return found


def answer_labels(window: AnswerWindow, begin: int, end: int) -> list[int]:
    """Places of the first and the last piece of the characters begin ... end - 1, or of <s> where not all are here.

    What no piece stands for, white space and characters that the vocabulary's normaliser deletes, is never missed.
    """
    inside = [i for i, (left, right) in enumerate(window.places) if max(left, begin) < min(right, end)]
    if not inside or begin < window.part[0] or end > window.part[1]:
        return [0, 0]
    return [window.first + inside[0], window.first + inside[-1]]


def word_pairs(
    tokenizer: Tokenizer, firsts: Sequence[Sequence[str]], seconds: Sequence[Sequence[str]], max_length: int
) -> list[WordPair]:
    """<s> first </s> second </s>, each word encoded on its own; the longer side is cut first."""
    words = sorted({word for side in (firsts, seconds) for sentence in side for word in sentence})
    pieces_of = dict(zip(words, (pieces or [UNK] for pieces in tokenizer.encode(words)), strict=True))
    pairs = []
    for first, second in zip(firsts, seconds, strict=True):
        a, b = ([(i, piece) for i, word in enumerate(side) for piece in pieces_of[word]] for side in (first, second))
        a, b = cut_pair(a, b, max_length - 3)
        row = [BOS, *(piece for _, piece in a), EOS, *(piece for _, piece in b), EOS]
        pairs.append(WordPair(row, [i for i, _ in a], [i for i, _ in b]))
    return pairs


def pad(rows: Sequence[Sequence[int]], device: str | torch.device = "cpu") -> tuple[Tensor, Tensor]:
    """Token ids (B, T) and which of them are real (B, T)."""
    longest = max(map(len, rows))
    tokens_BT = torch.tensor([[*row, *[PAD] * (longest - len(row))] for row in rows], device=device)
    lengths_B = torch.tensor([len(row) for row in rows], device=device)
    return tokens_BT, torch.arange(longest, device=device)[None] < lengths_B[:, None]


def ordered_batches(lengths: Sequence[int], batch_rows: int) -> Iterator[list[int]]:
    """Row numbers by length, so that little is padded; for prediction, where order does not matter."""
    order = sorted(range(len(lengths)), key=lambda i: (lengths[i], i))
    for start in range(0, len(order), batch_rows):
        yield order[start : start + batch_rows]


def shuffled_batches(lengths: Sequence[int], batch_rows: int, generator: torch.Generator) -> list[list[int]]:
    """One epoch of row numbers: rows of like length together, in random order."""
    order = torch.randperm(len(lengths), generator=generator).tolist()
    batches = []
    for start in range(0, len(order), POOL * batch_rows):
        pool = sorted(order[start : start + POOL * batch_rows], key=lambda i: lengths[i])
        batches.extend(pool[i : i + batch_rows] for i in range(0, len(pool), batch_rows))
    return [batches[i] for i in torch.randperm(len(batches), generator=generator).tolist()]
