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


def sentence_rows(tokenizer: Tokenizer, sentences: Sequence[str], max_length: int) -> list[list[int]]:
    """<s> sentence </s>, cut at max_length."""
    return [[BOS, *ids[: max_length - 2], EOS] for ids in tokenizer.encode(sentences)]


def pair_rows(tokenizer: Tokenizer, firsts: Sequence[str], seconds: Sequence[str], max_length: int) -> list[list[int]]:
    """<s> first </s></s> second </s>; the longer side is cut first."""
    rows = []
    for a, b in zip(tokenizer.encode(firsts), tokenizer.encode(seconds), strict=True):
        a, b = cut_pair(a, b, max_length - 4)
        rows.append([BOS, *a, EOS, EOS, *b, EOS])
    return rows


def cut_pair(a: list[int], b: list[int], room: int) -> tuple[list[int], list[int]]:
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
