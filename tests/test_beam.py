"""Beam search: greedy at one, exhaustive at many, the same with and without what is kept, and never too long."""

import itertools

import pytest
import torch
import torch.nn.functional as F

from engine.assembly import Seq2Seq
from engine.beam import NEVER_SAID, beam_search, next_scores, start_past, translate_rows
from engine.model import ModelConfig, RelativeBias
from engine.rows import pad
from engine.tokenizer import BOS, EOS
from errors import UserError


def seq2seq(vocabulary: int, seed: int = 0, std: float = 0.5, **changes) -> Seq2Seq:
    torch.manual_seed(seed)
    model = Seq2Seq(ModelConfig(2, 16, 2, 32, 30, vocabulary, init_std=std, **changes), 2)
    with torch.no_grad():  # sharper than a new model is, so that searches differ
        model.mlm_head.bias.normal_(generator=torch.Generator().manual_seed(seed))
    return model.eval()


def sources(count: int, vocabulary: int, seed: int = 1) -> list[list[int]]:
    rng = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, 9, (count,), generator=rng).tolist()
    return [[BOS, *torch.randint(4, vocabulary - 1, (n,), generator=rng).tolist(), EOS] for n in lengths]


@torch.no_grad()
def whole_scores(model: Seq2Seq, source: list[int], target: list[int]) -> torch.Tensor:
    """(T + 1, V) log-probabilities after each prefix, by the decoder over the whole target."""
    memory, real = torch.tensor([source]), torch.ones(1, len(source), dtype=torch.bool)
    states = model(memory, real, torch.tensor([[EOS, *target]]))
    scores = F.log_softmax(model.logits(states[0]).float(), -1)
    scores[:, [*NEVER_SAID, scores.shape[1] - 1]] = -torch.inf
    return scores


def greedy(model: Seq2Seq, source: list[int], limit: int) -> list[int]:
    said: list[int] = []
    while len(said) < limit:
        best = int(whole_scores(model, source, said)[-1].argmax())
        if best == EOS:
            break
        said.append(best)
    return said


def test_what_is_kept_changes_no_score():
    model = seq2seq(40).double()
    rows = sources(6, 40)
    source, real = pad(rows)
    targets = torch.randint(4, 39, (6, 7), generator=torch.Generator().manual_seed(2))
    past, last = start_past(model, source, real), torch.full((6,), EOS)
    for t in range(8):
        stepwise = next_scores(model, last, past)
        for row in range(6):
            whole = whole_scores(model, rows[row], targets[row, :t].tolist())[-1]
            assert torch.allclose(stepwise[row], whole, atol=1e-5)
        if t < 7:
            last = targets[:, t]


@pytest.mark.parametrize("seed", range(5))
def test_a_beam_of_one_is_greedy(seed):
    model = seq2seq(30, seed)
    rows = sources(12, 30, seed)
    source, real = pad(rows)
    found = beam_search(model, source, real, [9] * 12, beam=1, penalty=1.0)
    assert [own[0].tokens for own in found] == [greedy(model, row, 9) for row in rows]


@pytest.mark.parametrize("penalty", [0.0, 0.6, 1.0])
@pytest.mark.parametrize("seed", range(4))
def test_a_wide_beam_is_the_exhaustive_search(seed, penalty):
    vocabulary, limit = 9, 4
    model = seq2seq(vocabulary, seed)
    rows = sources(3, vocabulary, seed)
    source, real = pad(rows)
    sayable = [3, 4, 5, 6, 7]
    found = beam_search(model, source, real, [limit] * 3, beam=2 * len(sayable) ** limit, penalty=penalty)
    for row, own in zip(rows, found, strict=True):
        every = []
        for length in range(limit + 1):
            for said in itertools.product(sayable, repeat=length):
                scores = whole_scores(model, row, list(said))
                total = sum(float(scores[i, token]) for i, token in enumerate([*said, EOS]))
                every.append((total / (length + 1) ** penalty, list(said)))
        every.sort(key=lambda one: -one[0])
        for hypothesis, (score, said) in zip(own[:20], every[:20], strict=True):
            assert hypothesis.score == pytest.approx(score, abs=1e-4)
            assert hypothesis.tokens == said or abs(score - hypothesis.score) < 1e-5
        assert len(own) == len(every)


def test_the_batch_changes_no_translation():
    model = seq2seq(50, 3)
    rows = sources(40, 50)
    alone, few, many = (translate_rows(model, rows, beam=4, batch_rows=size) for size in (1, 7, 40))
    assert alone == few == many
    assert len({tuple(one) for one in alone}) > 10


def test_no_translation_is_longer_than_its_limit_and_all_end():
    model = seq2seq(20, 4)
    with torch.no_grad():
        model.mlm_head.bias[EOS] = -50.0  # hardly ever ends by itself
    rows = sources(10, 20)
    source, real = pad(rows)
    limits = [n % 5 for n in range(10)]
    for own, limit in zip(beam_search(model, source, real, limits, 3, 1.0), limits, strict=True):
        assert own and all(len(one.tokens) == limit for one in own)
    found = translate_rows(model, rows, beam=2, most=100.0)
    assert all(len(one) == 30 - 2 - 1 for one in found)  # the positions of the model, less the start
    assert not {token for one in found for token in one} & {BOS, 1, EOS, 19}


def test_hypotheses_come_best_first_and_a_wide_beam_finds_no_worse():
    model = seq2seq(30, 5)
    source, real = pad(sources(20, 30))
    narrow, wide = (beam_search(model, source, real, [8] * 20, beam, 0.0) for beam in (1, 30))
    for one, many in zip(narrow, wide, strict=True):
        assert [own.score for own in many] == sorted((own.score for own in many), reverse=True)
        assert many[0].score >= one[0].score - 1e-6


def test_distances_are_refused():
    model = seq2seq(20, relative_bias=RelativeBias())
    with pytest.raises(UserError, match=r"model\.relative_bias"):
        beam_search(model, *pad(sources(2, 20)), [3, 3], 2, 1.0)
