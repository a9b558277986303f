"""What fine-tuning puts on top of the encoder, and prediction with it.

Shapes: B rows, T tokens of a row, D width, N selected places, C classes.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from common.errors import UserError
from engine.alignments import Link
from engine.model import Encoder, initialise
from engine.rows import AnswerWindow, Window, WordPair, ordered_batches, pad
from engine.tokenizer import EOS
from engine.transport import transport_links, word_links

IGNORED = -100  # label of a place that carries none


class ClassificationHead(nn.Module):
    """State of <s> -> dense, tanh -> dropout -> linear."""

    def __init__(self, width: int, classes: int, dropout: float, init_std: float = 0.02):
        super().__init__()
        self.dense = nn.Linear(width, width)
        self.dropout = nn.Dropout(dropout)
        self.output = nn.Linear(width, classes)
        initialise(self, init_std)

    def forward(self, states_BTD: Tensor, real_BT: Tensor | None = None) -> Tensor:
        return self.output(self.dropout(torch.tanh(self.dense(states_BTD[:, 0]))))  # (B, C)


class TaggingHead(nn.Module):
    """State of each token -> dropout -> linear."""

    def __init__(self, width: int, classes: int, dropout: float, init_std: float = 0.02):
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.output = nn.Linear(width, classes)
        initialise(self, init_std)

    def forward(self, states_BTD: Tensor, real_BT: Tensor | None = None) -> Tensor:
        return self.output(self.dropout(states_BTD))  # (B, T, C)


class AnswerHead(nn.Module):
    """State of each token -> dropout -> linear, once for the start of the answer and once for its end.

    The tokens are the classes; padding is none of them.
    """

    def __init__(self, width: int, classes: int, dropout: float, init_std: float = 0.02):
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.output = nn.Linear(width, classes)
        initialise(self, init_std)

    def forward(self, states_BTD: Tensor, real_BT: Tensor) -> Tensor:
        scores_B2T = self.output(self.dropout(states_BTD)).transpose(1, 2)
        return scores_B2T.masked_fill(~real_BT[:, None], -torch.inf)  # (B, 2, T)


def encode(
    encoder: Encoder,
    rows: Sequence[Sequence[int]],
    languages: Sequence[str],
    device: str = "cpu",
    all_layers: bool = False,
    layers: int | None = None,
) -> tuple[Tensor | list[Tensor], Tensor]:
    """States of the padded rows, of the last layer or of the first `layers`, or of all; which tokens are real (B, T).
    Sides and languages for models that embed them."""
    tokens_BT, real_BT = pad(rows, device)
    sides_BT = languages_BT = None
    if encoder.config.token_types:
        ends_BT = tokens_BT == EOS
        last = min(1, encoder.config.token_types - 1)  # XLM-R's checkpoints have one type, and no sides
        sides_BT = (ends_BT.cumsum(1) - ends_BT.long()).clamp(max=last)  # whatever follows the first </s>
    if encoder.config.languages:
        numbers_B = torch.tensor([language_number(encoder, code) for code in languages], device=device)
        languages_BT = numbers_B[:, None].expand_as(tokens_BT)
    states = encoder(tokens_BT, None, real_BT, all_layers, sides_BT, languages_BT, layers=layers)
    if not torch.is_grad_enabled():  # of training the loss is looked at
        check_finite(encoder, states if all_layers else [states], real_BT)
    return states, real_BT


def check_finite(encoder: Encoder, states: Sequence[Tensor], real_BT: Tensor) -> None:
    """Of NaN an answer can be made like of any number, and a score of it."""
    for layer, states_BTD in enumerate(states):
        if not (states_BTD.sum(-1).isfinite() | ~real_BT).all():
            where = f"layer {layer}" if len(states) > 1 else "its last layer"
            raise UserError(
                f"{getattr(encoder, 'path', 'the model')}: NaN or infinity in the states of {where}; nothing can be "
                "predicted with these weights: train or import them again"
            )


def language_number(encoder: Encoder, code: str) -> int:
    """Languages that the model was not trained on pass for English, as in XTREME's scripts for XLM."""
    codes = encoder.language_codes
    return codes.index(code if code in codes else "en")


HEADS = {"classification": ClassificationHead, "tagging": TaggingHead, "question-answering": AnswerHead}


@torch.no_grad()
def classify(
    encoder: Encoder,
    head: nn.Module,
    rows: Sequence[Sequence[int]],
    language: str,
    batch_rows: int,
    device: str = "cpu",
) -> list[int]:
    """Most likely class of each row, in the order of the rows."""
    encoder.eval()
    head.eval()
    classes = [0] * len(rows)
    for batch in ordered_batches([len(row) for row in rows], batch_rows):
        states_BTD, real_BT = encode(encoder, [rows[i] for i in batch], [language] * len(batch), device)
        best_B = head(states_BTD, real_BT).argmax(-1).tolist()
        for i, best in zip(batch, best_B, strict=True):
            classes[i] = best
    return classes


@torch.no_grad()
def tag(
    encoder: Encoder,
    head: nn.Module,
    windows: Sequence[Window],
    sentences: int,
    language: str,
    batch_rows: int,
    device: str = "cpu",
) -> list[list[int]]:
    """Most likely class of each word, per sentence; the windows of a sentence are glued in their order."""
    encoder.eval()
    head.eval()
    tags: list[list[int]] = [[] for _ in windows]
    for batch in ordered_batches([len(window.row) for window in windows], batch_rows):
        states_BTD, real_BT = encode(encoder, [windows[i].row for i in batch], [language] * len(batch), device)
        best_BT = head(states_BTD, real_BT).argmax(-1).tolist()
        for i, best_T in zip(batch, best_BT, strict=True):
            tags[i] = [best_T[place] for place in windows[i].first]
    glued: list[list[int]] = [[] for _ in range(sentences)]
    for window, classes in zip(windows, tags, strict=True):
        glued[window.sentence].extend(classes)
    return glued


@torch.no_grad()
def answer(
    encoder: Encoder,
    head: nn.Module,
    windows: Sequence[AnswerWindow],
    questions: int,
    language: str,
    batch_rows: int,
    max_answer: int,
    best: int,
    device: str = "cpu",
) -> list[tuple[int, int]]:
    """The characters of its context, first and one past the last, that answer each question best."""
    encoder.eval()
    head.eval()
    found: list[tuple[float, int, int, int]] = [(-torch.inf, 0, 0, 0)] * questions
    for batch in ordered_batches([len(window.row) for window in windows], batch_rows):
        states_BTD, real_BT = encode(encoder, [windows[i].row for i in batch], [language] * len(batch), device)
        scores_B2T = head(states_BTD, real_BT).float().cpu()
        for i, scores_2T in zip(batch, scores_B2T, strict=True):
            window = windows[i]
            if not window.places:
                continue
            score, first, last = best_span(
                scores_2T[:, window.first :][:, : len(window.places)], window, max_answer, best
            )
            own = (score, -i, window.places[first][0], window.places[last][1])
            found[window.question] = max(found[window.question], own)
    return [(begin, end) for _, _, begin, end in found]


def best_span(scores_2N: Tensor, window: AnswerWindow, max_answer: int, best: int) -> tuple[float, int, int]:
    """(score, first, last piece of the context) with the highest sum of the two scores among the `best` starts and
    ends; a start counts in the window where it has most context alone."""
    central_N = torch.tensor(window.central)
    starts, ends = (
        list(zip(values.tolist(), places.tolist(), strict=True))
        for values, places in (
            side_N.sort(descending=True, stable=True)
            for side_N in (scores_2N[0].masked_fill(~central_N, -torch.inf), scores_2N[1])
        )
    )
    spans = [
        (start + end, -first, -last)
        for start, first in starts[:best]
        for end, last in ends[:best]
        if 0 <= last - first < max_answer
    ]
    score, first, last = max(spans, default=(-torch.inf, -starts[0][1], -starts[0][1]))  # no end behind any start
    return score, -first, -last


@torch.no_grad()
def mean_states(
    encoder: Encoder,
    rows: Sequence[Sequence[int]],
    language: str,
    batch_rows: int,
    device: str = "cpu",
    layers: Sequence[int] | None = None,
) -> Tensor:
    """Mean over each row's tokens, specials included and padding not, at every layer or at some: (layers, rows, D), on
    the CPU.

    Equal rows are encoded once, so that they get equal vectors whatever they are batched with.
    """
    encoder.eval()
    wanted = range(len(encoder.blocks) + 1) if layers is None else layers
    unique = sorted({tuple(row) for row in rows}, key=lambda row: (len(row), row))
    number = {row: i for i, row in enumerate(unique)}
    means = torch.empty(len(wanted), len(unique), encoder.config.width)
    for batch in ordered_batches([len(row) for row in unique], batch_rows):
        states, real_BT = encode(encoder, [unique[i] for i in batch], [language] * len(batch), device, all_layers=True)
        for place, layer in enumerate(wanted):
            means[place, batch] = mean_tokens(states[layer], real_BT).float().cpu()
    return means[:, [number[tuple(row)] for row in rows]]


def mean_tokens(states_BTD: Tensor, real_BT: Tensor) -> Tensor:
    """(B, D) over the real tokens of each row, specials included."""
    return (states_BTD * (real_BT / real_BT.sum(1, keepdim=True))[..., None]).sum(1)


@torch.no_grad()
def align_words(
    encoder: Encoder,
    pairs: Sequence[WordPair],
    language: str,
    iterations: int,
    batch_rows: int,
    device: str = "cpu",
    clamp: bool = False,
) -> list[list[frozenset[Link]]]:
    """Links between the words of each pair, at every layer, from the dot products of the states of their pieces."""
    encoder.eval()
    links: list[list[frozenset[Link]]] = [[frozenset()] * len(pairs) for _ in range(len(encoder.blocks) + 1)]
    for batch in ordered_batches([len(pair.row) for pair in pairs], batch_rows):
        states, _ = encode(encoder, [pairs[i].row for i in batch], [language] * len(batch), device, all_layers=True)
        for layer, states_BTD in enumerate(states):
            for i, states_TD in zip(batch, states_BTD.float().cpu(), strict=True):
                x, y = len(pairs[i].words_X), len(pairs[i].words_Y)
                similarity_XY = states_TD[1 : 1 + x] @ states_TD[2 + x : 2 + x + y].T
                found = transport_links(similarity_XY.numpy(), iterations, clamp)
                links[layer][i] = word_links(found, pairs[i].words_X, pairs[i].words_Y)
    return links
