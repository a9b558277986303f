"""Beam search: greedy at one, exhaustive at many, the same with and without what is kept, and never too long."""

import itertools

import pytest
import torch
import torch.nn.functional as F

from common.errors import UserError
from engine.assembly import Seq2Seq
from engine.beam import NEVER_SAID, Hypothesis, beam_search, best_of, next_scores, start_past, translate_rows
from engine.rows import pad
from engine.shape import RelativeBias
from engine.tokenizer import BOS, EOS
from small_engine import seq2seq


def sources(count: int, vocabulary: int, seed: int = 1) -> list[list[int]]:
    rng = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, 9, (count,), generator=rng).tolist()
    return [[BOS, *torch.randint(4, vocabulary - 1, (n,), generator=rng).tolist(), EOS] for n in lengths]


@torch.no_grad()
def whole_scores(model: Seq2Seq, source: list[int], targets: list[list[int]]) -> torch.Tensor:
    """(targets, T + 1, V) log-probabilities after each prefix of targets of one length, each decoded whole."""
    read = torch.tensor([[EOS, *target] for target in targets])
    memory = torch.tensor([source]).expand(len(read), -1)
    scores = F.log_softmax(model.logits(model(memory, torch.ones_like(memory).bool(), read)).float(), -1)
    scores[..., [*NEVER_SAID, scores.shape[-1] - 1]] = -torch.inf
    return scores


def greedy(model: Seq2Seq, source: list[int], limit: int) -> list[int]:
    said: list[int] = []
    while len(said) < limit:
        best = int(whole_scores(model, source, [said])[0, -1].argmax())
        if best == EOS:
            break
        said.append(best)
    return said


def searched(model: Seq2Seq, source: list[int], limit: int, beam: int, penalty: float) -> list[Hypothesis]:
    """The search from its description alone: one sentence, nothing kept, each hypothesis decoded whole."""
    alive, finished = [(0.0, [])], []
    while alive and len(finished) < beam:
        continuations = []
        following = whole_scores(model, source, [said for _, said in alive])[:, -1].tolist()
        for (total, said), scores in zip(alive, following, strict=True):
            allowed = [EOS] if len(said) == limit else range(len(scores))
            continuations += [(total + scores[token], [*said, token]) for token in allowed]
        best = sorted((one for one in continuations if one[0] > -torch.inf), key=lambda one: -one[0])[: 2 * beam]
        finished += [Hypothesis(y[:-1], score / len(y) ** penalty) for score, y in best[:beam] if y[-1] == EOS]
        alive = [(score, y) for score, y in best if y[-1] != EOS][:beam]
    return sorted(finished, key=lambda one: -one.score)


@pytest.mark.parametrize("admin", [False, True])
@pytest.mark.parametrize(("beam", "penalty"), [(1, 1.0), (2, 0.0), (3, 1.0), (5, 0.6)])
@pytest.mark.parametrize("seed", [6, 10])  # the second has ends that are outside of the beam, and so are none
def test_the_search_is_the_one_described(beam, penalty, admin, seed):
    model = seq2seq(30, seed, admin=admin).double()
    rows = sources(10, 30, seed)
    limits = [1, 2, 4, 6, 8, 0, 8, 8, 8, 8]
    found = beam_search(model, *pad(rows), limits, beam, penalty)
    for row, limit, own in zip(rows, limits, found, strict=True):
        expected = searched(model, row, limit, beam, penalty)
        assert [one.tokens for one in own] == [one.tokens for one in expected]
        assert [one.score for one in own] == pytest.approx([one.score for one in expected], abs=1e-5)


def test_what_is_kept_changes_no_score():
    model = seq2seq(40).double()
    rows = sources(6, 40)
    source, real = pad(rows)
    targets = torch.randint(4, 39, (6, 7), generator=torch.Generator().manual_seed(2))
    past, last = start_past(model, source, real), torch.full((6,), EOS)
    for t in range(8):
        stepwise = next_scores(model, last, past)
        for row in range(6):
            whole = whole_scores(model, rows[row], [targets[row, :t].tolist()])[0, -1]
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
            all_said = [list(said) for said in itertools.product(sayable, repeat=length)]
            for said, scores in zip(all_said, whole_scores(model, row, all_said).tolist(), strict=True):
                total = sum(scores[i][token] for i, token in enumerate([*said, EOS]))
                every.append((total / (length + 1) ** penalty, said))
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


def test_a_sentence_does_not_notice_one_of_another_length():
    model = seq2seq(50, 3).double()
    rng = torch.Generator().manual_seed(4)
    rows = [[BOS, *torch.randint(4, 49, (n,), generator=rng).tolist(), EOS] for n in (1, 25, 2, 26, 0)]
    limits = [12, 27, 1, 3, 20]
    together = beam_search(model, *pad(rows), limits, 4, 1.0)
    for row, limit, own in zip(rows, limits, together, strict=True):
        [alone] = beam_search(model, *pad([row]), [limit], 4, 1.0)
        assert [one.tokens for one in own] == [one.tokens for one in alone]
        assert [one.score for one in own] == pytest.approx([one.score for one in alone], abs=1e-5)


def test_equal_scores_are_taken_in_their_order():
    """A network that knows nothing says every token with one probability: only the order of equals decides."""
    model = seq2seq(300, 1)
    with torch.no_grad():
        for weight in model.mlm_head.parameters():
            weight.zero_()
    rows = sources(9, 300)
    for beam, expected in ((1, [[]]), (3, [[], [3], [3, 3]]), (5, [[], [3], [3, 3], [3, 3, 3], [3, 3, 3, 3]])):
        found = beam_search(model, *pad(rows), [6] * 9, beam, penalty=0.0)
        assert [[one.tokens for one in own] for own in found] == [expected] * 9
    assert translate_rows(model, rows, beam=5, batch_rows=1) == translate_rows(model, rows, beam=5, batch_rows=9)


def test_the_best_places_are_those_of_a_stable_sort():
    rng = torch.Generator().manual_seed(1)
    scores = torch.randint(-4, 1, (50, 200), generator=rng).float()  # many of them equal
    scores[10:20] = torch.randn(10, 200, generator=rng)
    scores[20:30, 5:] = -torch.inf
    values, places = best_of(scores, 10)
    expected, order = scores.sort(dim=1, descending=True, stable=True)
    assert torch.equal(values, expected[:, :10])
    said = expected[:, :10] > -torch.inf
    assert torch.equal(places[said], order[:, :10][said])


def test_a_beam_wider_than_the_vocabulary():
    model = seq2seq(8, 2).double()  # 4 tokens to say
    rows = sources(4, 8)
    for row, own in zip(rows, beam_search(model, *pad(rows), [1] * 4, 50, 1.0), strict=True):
        assert sorted(one.tokens for one in own) == [[], [3], [4], [5], [6]]
        assert [one.tokens for one in own] == [one.tokens for one in searched(model, row, 1, 50, 1.0)]


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


@pytest.mark.parametrize("part", [{"relative_bias": RelativeBias()}, {"languages": 2}])
def test_what_a_search_cannot_tell_the_model_is_refused(part):
    model = seq2seq(20, **part)
    with pytest.raises(UserError, match=rf"model\.{next(iter(part))}"):
        beam_search(model, *pad(sources(2, 20)), [3, 3], 2, 1.0)
