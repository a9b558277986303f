"""The objective of translation: what is read and said, what it costs, and that packing changes nothing."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from common.errors import UserError
from engine.assembly import Seq2Seq
from engine.config import ObjectiveConfig
from engine.data import FIRST_POSITION
from engine.dist import Ranks
from engine.objectives import OBJECTIVES, seq2seq, translation
from engine.objectives.base import Batch
from engine.tokenizer import BOS, EOS, PAD
from small_corpus import VOCABULARY, mixture
from small_engine import CONFIG, batches_of, model_of, run_of, watch_embeddings
from training.assembly import micro_batches

SMOOTHING = 0.3
OWN = ObjectiveConfig("translation", options={"decoder_layers": 2, "label_smoothing": SMOOTHING})


def pairs(shards, **options):
    return mixture(shards, "bitext", **{"form": "apart", "row_length": 48, "source_language": "en", **options})


def batch_of(shards, own: ObjectiveConfig = OWN) -> Batch:
    [batch] = batches_of(pairs(shards), own)
    return batch


def items(batch: Batch) -> list[tuple[list[int], list[int], list[int]]]:
    """Of each pair what the encoder reads, what the decoder reads, and what it is to say."""
    found = []
    for row in range(len(batch.tokens)):
        for number in range(int(batch.fields.document[row].max()) + 1):
            source, target = (
                (batch.fields.document[row] == number) & (batch.fields.side[row] == side) for side in (0, 1)
            )
            assert batch.fields.selected[row][target].all() and not batch.fields.selected[row][source].any()
            for side in (source, target):
                expected = torch.arange(int(side.sum())) + FIRST_POSITION
                assert torch.equal(batch.fields.position[row][side].long(), expected)
            tokens = batch.tokens[row]
            found.append((tokens[source].tolist(), tokens[target].tolist(), batch.original[row][target].tolist()))
    assert not batch.fields.selected[batch.fields.document < 0].any()
    assert (batch.tokens[batch.fields.document < 0] == PAD).all()
    return found


def test_the_decoder_reads_the_target_behind_an_end_and_says_it_with_its_end(shards):
    found = items(batch_of(shards))
    assert len(found) > 10
    for source, reads, says in found:
        assert (source[0], source[-1], reads[0], says[-1]) == (BOS, EOS, EOS, EOS)
        assert reads[1:] == says[:-1]
        assert not {BOS, EOS, PAD} & {*source[1:-1], *says[:-1]}


def test_the_source_is_the_language_that_is_asked_for(shards):
    """In the little corpus the second side of a pair, by the alphabet, is the first one plus one."""
    of_language = {"de-en": -1, "en-hi": 1}
    rows = pairs(shards, rows=40).assemble(pairs(shards, rows=40).next_layout())
    seen = set()
    for row in range(len(rows.tokens)):
        for number in range(rows.document[row].max() + 1):
            source, target = ((rows.document[row] == number) & (rows.side[row] == side) for side in (0, 1))
            assert set(rows.language[row][source]) == {1}  # de, en, hi
            [other] = set(rows.language[row][target])
            step = {0: of_language["de-en"], 2: of_language["en-hi"]}[int(other)]
            assert (rows.tokens[row][source][1:-1] + step == rows.tokens[row][target][1:-1]).all()
            seen.add(int(other))
    assert seen == {0, 2}
    with pytest.raises(UserError, match="World/en-hi: holds no de"):
        pairs(shards, source_language="de")


def test_long_pairs_are_left_out(shards):
    own = pairs(shards, rows=40, most_tokens=9)
    rows = own.assemble(own.next_layout())
    sizes = {
        int(((rows.document[row] == number) & (rows.tokens[row] > EOS)).sum())
        for row in range(len(rows.tokens))
        for number in range(rows.document[row].max() + 1)
    }
    assert max(sizes) <= 9 < max(int(n) for n in pair_sizes(shards))


def pair_sizes(shards) -> np.ndarray:
    own = pairs(shards, rows=40)
    return own.next_layout().lengths - 4


def by_hand(model: torch.nn.Module, batch: Batch) -> tuple[float, float, int]:
    """Smoothed loss and likelihood of each pair alone, by the network that translates, as the equation has it."""
    alone = Seq2Seq(CONFIG, 2).eval()
    alone.load_state_dict(model.state_dict())
    loss, likelihood, n = 0.0, 0.0, 0
    for source, reads, says in items(batch):
        real = torch.ones(1, len(source), dtype=torch.bool)
        states = alone(torch.tensor([source]), real, torch.tensor([reads]))[0]
        log_p = torch.log_softmax(alone.logits(states), -1)
        own = -log_p[torch.arange(len(says)), torch.tensor(says)].sum()
        loss += (1 - SMOOTHING) * own.item() - SMOOTHING / VOCABULARY * log_p.sum().item()
        likelihood, n = likelihood + own.item(), n + len(says)
    return loss, likelihood, n


@pytest.mark.usefixtures("double")
def test_packed_pairs_have_the_smoothed_loss_of_each_alone(shards):
    model, batch = model_of(run_of(OWN)), batch_of(shards)
    found = OBJECTIVES["translation"].loss(model, batch)
    loss, likelihood, n = by_hand(model, batch)
    assert found.sums["loss"].item() == pytest.approx(loss, rel=1e-12)
    assert found.signals["nll"] == pytest.approx((likelihood, n), rel=1e-12)
    assert OBJECTIVES["translation"].count(batch) == {"loss": n}


@pytest.mark.usefixtures("double")
def test_without_smoothing_the_loss_is_the_likelihood(shards):
    own = ObjectiveConfig("translation", options={"decoder_layers": 2, "label_smoothing": 0.0})
    model, batch = model_of(run_of(own)), batch_of(shards, own)
    found = OBJECTIVES["translation"].loss(model, batch)
    assert found.sums["loss"].item() == pytest.approx(found.signals["nll"][0], rel=1e-12)


@pytest.mark.usefixtures("double")
def test_a_word_is_predicted_from_the_source_and_the_words_before_it(shards):
    model, batch = model_of(run_of(OWN)), batch_of(shards)
    seen = watch_embeddings(model.encoder)
    states, _ = seq2seq.predicting_states(model, batch, translation.no_inputs)
    source, target = (seq2seq.tokens_of_side(batch, side) for side in (0, 1))
    rows, columns = target.fields.selected.nonzero(as_tuple=True)
    for n in range(0, len(rows), 7):
        direction = torch.randn(states.shape[1])
        of_source, of_target = torch.autograd.grad(states[n] @ direction, seen, retain_graph=True)
        row, column = rows[n], columns[n]
        document = target.fields.document[row, column]
        expected = torch.zeros_like(source.tokens, dtype=torch.bool)
        expected[row] = source.fields.document[row] == document
        assert torch.equal((of_source != 0).any(-1), expected)
        expected = torch.zeros_like(target.tokens, dtype=torch.bool)
        expected[row] = target.fields.document[row] == document
        expected[row, column + 1 :] = False
        assert torch.equal((of_target != 0).any(-1), expected)


@pytest.mark.usefixtures("double")
def test_forward_passes_of_any_size_give_one_gradient(shards):
    gradients = []
    for device_rows in (8, 3):
        run, data = run_of(OWN, device_rows=device_rows), pairs(shards)
        model = model_of(run)
        for batch in micro_batches(data.assemble(data.next_layout()), OWN, run, Ranks()):
            OBJECTIVES["translation"].loss(model, batch).sums["loss"].backward()
        assert all((p.grad != 0).any() for p in model.parameters())
        gradients.append([p.grad for p in model.parameters()])
    for a, b in zip(*gradients, strict=True):
        assert torch.allclose(a, b, rtol=1e-9, atol=1e-10)


def test_a_smoothing_of_all_is_refused():
    with pytest.raises(UserError, match=r"options\.label_smoothing: 1\.0 is not between 0 and 1"):
        ObjectiveConfig("translation", options={"label_smoothing": 1.0})


@pytest.mark.usefixtures("double")
def test_smoothing_is_torchs():
    """Which takes e / V for every word, the right one too, as fairseq does."""
    logits, targets = torch.randn(5, 7), torch.tensor([0, 3, 6, 2, 2])
    log_p = torch.log_softmax(logits, -1)
    own = -(0.8 * log_p[torch.arange(5), targets] + 0.2 / 7 * log_p.sum(-1)).sum()
    assert torch.allclose(F.cross_entropy(logits, targets, reduction="sum", label_smoothing=0.2), own)
