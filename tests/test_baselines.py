"""mBERT's next sentence, Unicoder's three tasks, HICTL, ALM."""

import dataclasses

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from engine.config import ObjectiveConfig
from engine.dist import Ranks
from engine.objectives import OBJECTIVES, mlm, nsp, unicoder
from engine.objectives.base import Batch
from engine.options import DESCRIPTIONS
from engine.randomness import stable_hash, uniform
from engine.tokenizer import BOS, EOS, FIRST_PIECE, UNK
from pretrain import backward, micro_batches
from small_corpus import VOCABULARY
from small_engine import double, model_of, run_of  # noqa: F401
from small_rows import lay, pair, random_pairs
from test_data import mixture, shards  # noqa: F401  (a fixture)

PAIRS = [*random_pairs(7, VOCABULARY, seed=5, longest=6), ([9, UNK], [9, UNK, 12, 13])]


def batches_of(
    objective: ObjectiveConfig, device_rows: int = 99, per_row: int = 2, form=pair, pairs=PAIRS
) -> list[Batch]:
    items = [form(*sides) for sides in pairs]
    rows = lay([items[i : i + per_row] for i in range(0, len(items), per_row)], row_length=20 * per_row)
    return micro_batches(rows, objective, run_of(objective, device_rows=device_rows), Ranks())


def items_of(batch: Batch) -> list[tuple[int, torch.Tensor]]:
    """Row and columns of each item."""
    rows = range(len(batch.tokens))
    return [
        (r, (batch.fields.document[r] == d).nonzero().squeeze(1))
        for r in rows
        for d in range(int(batch.fields.document[r].max()) + 1)
    ]


def assert_gradients_ignore_micro_batches(objective: ObjectiveConfig, form=pair) -> None:
    run = run_of(objective)
    results = []
    for rows in (99, 3, 1):
        model = model_of(run)
        signals = backward(model, run, objective, batches_of(objective, device_rows=rows, form=form), Ranks())
        results.append((signals, [p.grad for p in model.parameters() if p.grad is not None]))
    for signals, gradients in results[1:]:
        assert signals == pytest.approx(results[0][0], rel=1e-10)
        for a, b in zip(gradients, results[0][1], strict=True):
            assert torch.allclose(a, b, rtol=1e-9, atol=1e-12)


# ---- mBERT ----

NSP = ObjectiveConfig("nsp", pair_separators=1)


def test_next_sentence_loss_by_hand(double):  # noqa: F811
    model = model_of(run_of(NSP, token_types=2))
    [batch] = batches_of(NSP)
    found = nsp.nsp_loss(model, batch)
    head, total, right, replaced = model.nsp_head, 0.0, 0, []
    for r, columns in items_of(batch):
        states = model.encoder(batch.tokens[r, columns][None], sides_BT=batch.fields.side[r, columns][None])
        pooled = torch.tanh(head.dense.weight @ states[0, 0] + head.dense.bias)
        probability = (head.output.weight @ pooled + head.output.bias).softmax(0)
        key = np.array([int(batch.key[r, columns[0]])]).view(np.uint64)
        label = int(uniform(key ^ np.uint64(stable_hash("next sentence")))[0] < 0.5)
        total -= float(probability[label].log().detach())
        right += int(probability.argmax()) == label
        replaced.append(label)
    assert 0 < sum(replaced) < len(replaced) == 8
    assert nsp.count(batch) == {"loss": len(batch.targets), "next_sentence": 8}
    assert float(found.sums["next_sentence"].detach()) == pytest.approx(total, rel=1e-10)
    assert found.signals["next_sentence_accuracy"] == (right, 8)
    masked = mlm.masked_lm_loss(model, batch).sums["loss"]
    assert float(found.sums["loss"].detach()) == pytest.approx(float(masked.detach()), rel=1e-12)
    assert nsp.NSP.training_only == ("nsp_head",)
    assert_gradients_ignore_micro_batches(NSP)


def test_labels_of_next_sentences_are_what_the_form_did(shards):  # noqa: F811
    """Side 1 belongs to the document of side 0 exactly where the label says so."""
    own = mixture(shards, "mono", form=DESCRIPTIONS["nsp"].form, row_length=32)
    seen = set()
    for _ in range(6):
        rows = own.assemble(own.next_layout())
        [batch] = micro_batches(rows, NSP, run_of(NSP), Ranks())
        labels = nsp.drawn_by_key(batch, "next sentence", 0.5).tolist()
        for (r, columns), label in zip(items_of(batch), labels, strict=True):
            tokens, side = rows.tokens[r, columns], rows.side[r, columns]
            assert tokens[0] == BOS and set(side) == {0, 1}
            second = tuple(tokens[side == 1].tolist())
            seen.add((label, tuple(tokens[side == 0].tolist()), second))
    firsts = {first for _, first, _ in seen}
    true_seconds = {first: second for label, first, second in seen if not label}
    assert len(firsts) > 10 and 0.2 < np.mean([label for label, _, _ in seen]) < 0.8
    again = mixture(shards, "mono", form="segments", row_length=32)
    follows = {}
    for _ in range(12):
        rows = again.assemble(again.next_layout())
        for r in range(len(rows.tokens)):
            for d in range(rows.document[r].max() + 1):
                inside = rows.document[r] == d
                first = tuple(rows.tokens[r][inside & (rows.side[r] == 0)].tolist())
                follows[first] = tuple(rows.tokens[r][inside & (rows.side[r] == 1)][1:].tolist())
    common = [first for first in true_seconds if first in follows]
    assert len(common) > 5 and all(true_seconds[first] == follows[first] for first in common)
    replaced = [(first, second) for label, first, second in seen if label and first in follows]
    assert replaced and all(follows[first] != second for first, second in replaced)


# ---- Unicoder ----

RECOVERY = ObjectiveConfig("word-recovery", pair_separators=1)


def test_word_recovery_by_hand(double):  # noqa: F811
    model = model_of(run_of(RECOVERY))
    [batch] = batches_of(RECOVERY)
    found = unicoder.word_recovery_loss(model, batch)
    table, positions = model.encoder.tokens.weight, model.encoder.positions.weight
    w = model.word_recovery.weight.flatten()
    total, count = 0.0, 0
    for r, columns in items_of(batch):
        tokens, side = batch.original[r, columns], batch.fields.side[r, columns]
        x = tokens[side == 0]
        y = [table[token] for token in tokens[(side == 1) & (tokens != EOS)]]
        embedded = []
        for place, token in enumerate(x):
            own = table[token]
            if token > EOS:
                scores = torch.stack([w @ torch.cat([own, other, own * other]) for other in y])
                own = sum(a * other for a, other in zip(scores.softmax(0), y, strict=True))
            embedded.append(own + positions[place + 2])
        states = model.encoder.embedding_norm(torch.stack(embedded))[None]
        for block in model.encoder.blocks:
            states = block(states, None)
        wanted = x >= FIRST_PIECE
        logits = model.mlm_head(states[0][wanted], table)
        total += float(F.cross_entropy(logits, x[wanted], reduction="sum").detach())
        count += int(wanted.sum())
    assert unicoder.WORD_RECOVERY.count(batch) == {"loss": count} == {"loss": len(batch.targets)}
    assert float(found.sums["loss"].detach()) == pytest.approx(total, rel=1e-10)
    assert_gradients_ignore_micro_batches(RECOVERY)


def test_word_recovery_reads_x_through_its_weights_alone(double):  # noqa: F811
    """With w = 0 every mixture is the mean of y: what x was cannot be told."""
    model = model_of(run_of(RECOVERY))
    [batch] = batches_of(RECOVERY)
    changed = dataclasses.replace(batch, original=batch.original.clone())
    changed.original[batch.selected // batch.tokens.shape[1], batch.selected % batch.tokens.shape[1]] = 7
    alone = [unicoder.one_side(one, 0) for one in (batch, changed)]
    states = [unicoder.recovered_states(model, one, own) for one, own in zip((batch, changed), alone, strict=True)]
    assert not torch.allclose(*states)
    model.word_recovery.weight.data.zero_()
    states = [unicoder.recovered_states(model, one, own) for one, own in zip((batch, changed), alone, strict=True)]
    assert torch.equal(*states)
    unicoder.word_recovery_loss(model, batch).sums["loss"].backward()
    assert model.word_recovery.weight.grad.abs().sum() > 0


@pytest.mark.parametrize("share", [0.5, 0.2])
def test_paraphrases_by_hand(double, share):  # noqa: F811
    objective = ObjectiveConfig("paraphrase", pair_separators=1, options={"negative_share": share})
    model = model_of(run_of(objective))
    pairs = random_pairs(40, VOCABULARY, seed=8, longest=4)
    [batch] = batches_of(objective, pairs=pairs)
    assert torch.equal(batch.tokens, batch.original) and not batch.fields.selected.any()
    found = unicoder.paraphrase_loss(model, batch)
    keys = np.array([int(batch.key[r, columns[0]]) for r, columns in items_of(batch)]).view(np.uint64)
    labels = torch.from_numpy((uniform(keys ^ np.uint64(stable_hash("negative"))) < share).astype(int))
    states = torch.cat([model.encoder(batch.tokens[r, columns][None])[:, :1] for r, columns in items_of(batch)])
    by_hand = F.cross_entropy(model.paraphrase_head(states), labels, reduction="sum")
    assert abs(float(labels.double().mean()) - share) < 0.2
    assert float(found.sums["loss"].detach()) == pytest.approx(float(by_hand.detach()), rel=1e-10)
    assert OBJECTIVES["paraphrase"].count(batch) == {"loss": 40}
    assert_gradients_ignore_micro_batches(objective)


def test_cross_lingual_mlm_is_mlm_on_other_rows():
    objective = OBJECTIVES["cross-lingual-mlm"]
    assert objective.loss is mlm.masked_lm_loss and DESCRIPTIONS["cross-lingual-mlm"].form == "alternating"
