"""Momentum contrast: PPA and InfoXLM's XLCO."""

import dataclasses
import math

import pytest
import torch
import torch.nn.functional as F

from common.errors import UserError
from engine.config import ObjectiveConfig
from engine.dist import Ranks
from engine.model import FIRST_POSITION
from engine.objectives import OBJECTIVES, contrast, ppa, xlco
from engine.objectives.base import Batch, joined
from engine.tokenizer import BOS, EOS
from pretrain import backward, new_optimizer
from small_corpus import VOCABULARY
from small_engine import model_of, run_of, watch_embeddings
from small_rows import apart, lay, random_pairs
from training.assembly import PretrainingModel, micro_batches

pytestmark = pytest.mark.usefixtures("double")

PAIRS = random_pairs(8, VOCABULARY, longest=4)
OTHER_PAIRS = random_pairs(8, VOCABULARY, seed=1, longest=4)
NAMES = ("ppa", "xlco")


def objective_of(name: str, **options: object) -> ObjectiveConfig:
    own = {"ppa": {"projection": 6}, "xlco": {"layer": 1}}[name]
    defaults = {"queue": 16, "momentum": 0.9} | own
    return ObjectiveConfig(name, pair_separators=1, options=defaults | options)


def batches_of(objective: ObjectiveConfig, device_rows: int = 99, per_row: int = 2, pairs=PAIRS) -> list[Batch]:
    items = [apart(*sides) for sides in pairs]
    rows = lay([items[i : i + per_row] for i in range(0, len(items), per_row)], row_length=13 * per_row)
    return micro_batches(rows, objective, run_of(objective, device_rows=device_rows), Ranks())


def started(objective: ObjectiveConfig, **model: object) -> PretrainingModel:
    run = run_of(objective, **model)
    new = model_of(run)
    new_optimizer(new, run, {name for name, p in new.named_parameters() if not p.requires_grad}, 1)
    OBJECTIVES[objective.name].start(new, objective, lambda: batches_of(objective, pairs=OTHER_PAIRS), Ranks())
    return new


def contrast_of(model: PretrainingModel, name: str) -> contrast.MomentumContrast:
    return getattr(model, f"{name}_contrast")


def prepared(model: PretrainingModel, batches: list[Batch]) -> list[Batch]:
    with torch.no_grad():
        for batch in batches:
            OBJECTIVES[batch.objective.name].prepare(model, batch)
    return batches


def test_info_nce_by_hand():
    queries = torch.tensor([[1.0, 0.0], [0.0, 2.0], [1.0, 1.0]])
    keys = torch.tensor([[2.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    queue = torch.tensor([[0.0, 1.0], [3.0, 0.0]])
    loss, signals = contrast.info_nce(queries, keys, queue, temperature=0.5)
    # products with the own key | the queue, divided by 0.5:  4 | 0 6    4 | 4 0    2 | 2 6
    by_hand = [
        math.log(1 + math.exp(-4) + math.exp(2)),
        math.log(2 + math.exp(-4)),
        math.log(2 + math.exp(4)),
    ]
    assert float(loss) == pytest.approx(sum(by_hand), rel=1e-6)
    assert signals["contrast_accuracy"] == (0, 3)  # a tie is no success
    assert signals["positive_similarity"][0] == pytest.approx(2 + 0.5**0.5, rel=1e-6)
    assert contrast.info_nce(queries, keys, queue[:1] - 9, 0.5)[1]["contrast_accuracy"] == (3, 3)


@pytest.mark.parametrize("name", NAMES)
def test_the_loss_is_info_nce_of_sentences_encoded_one_by_one(name):
    """By another way: each side of each pair as a row of its own, logits with the positive at 0, cross-entropy."""
    objective = objective_of(name)
    model = started(objective)
    own = contrast_of(model, name)
    [batch] = prepared(model, batches_of(objective))
    own.key_encoder.tokens.weight.data += 0.01  # the copy is not the encoder
    prepared(model, [batch])

    def alone(encoder, projection, side):
        found = []
        for r, document in sorted({(r, int(d)) for r, row in enumerate(batch.fields.document) for d in row if d >= 0}):
            inside = (batch.fields.document[r] == document) & (batch.fields.side[r] == side)
            tokens = (batch.original if name == "ppa" else batch.tokens)[r][inside][None]
            states = encoder(tokens, all_layers=True)[-1 if name == "ppa" else 1]
            vector = projection(states[:, 0])
            found.append(F.normalize(vector, dim=1) if name == "ppa" else vector)
        return torch.cat(found)

    q = alone(model.encoder, own.projection, 0)
    k = alone(own.key_encoder, own.key_projection, 1)
    logits = torch.cat([(q * k).sum(1, keepdim=True), q @ own.queue.T], 1) / objective.options.temperature
    by_hand = F.cross_entropy(logits, torch.zeros(len(q), dtype=torch.int64), reduction="sum")
    found = OBJECTIVES[name].loss(model, batch).sums
    assert len(q) == 8 == OBJECTIVES[name].count(batch)["contrast" if name == "ppa" else "loss"]
    assert float(found["contrast" if name == "ppa" else "loss"].detach()) == pytest.approx(
        float(by_hand.detach()), rel=1e-10
    )


@pytest.mark.parametrize("name", NAMES)
def test_query_and_key_never_meet(name):
    """A query depends on its own sentence alone: not on the translation, not on its neighbour in the row."""
    objective = objective_of(name)
    model = started(objective)
    [batch] = batches_of(objective)
    own = contrast_of(model, name)
    module = {"ppa": ppa, "xlco": xlco}[name]
    before = module.vectors(model.encoder, own.projection, batch, 0).detach()
    changed = dataclasses.replace(batch, tokens=batch.tokens.clone(), original=batch.original.clone())
    other = (batch.fields.side == 1) & (batch.original > EOS)
    for tokens in (changed.tokens, changed.original):
        tokens[other] = 4 + tokens[other] % 50
    after = module.vectors(model.encoder, own.projection, changed, 0).detach()
    assert torch.equal(before, after)
    own_side = (batch.fields.side == 0) & (batch.fields.document == 0) & (batch.original > EOS)
    for tokens in (changed.tokens, changed.original):
        tokens[own_side] = 4 + tokens[own_side] % 50
    after = module.vectors(model.encoder, own.projection, changed, 0).detach()
    assert (before != after).any(1).tolist() == [True, False] * 4


@pytest.mark.parametrize("name", NAMES)
def test_only_the_query_side_has_gradients_and_the_copy_follows(name):
    objective = objective_of(name)
    run = run_of(objective)
    model = started(objective)
    own = contrast_of(model, name)
    optimizer = new_optimizer(model, run, {n for n, p in model.named_parameters() if not p.requires_grad}, 1)
    for step in range(2):
        batches = batches_of(objective)
        before = [key.clone() for key, _ in own.weights(model.encoder)]
        queue = own.queue.clone()
        backward(model, run, objective, batches, Ranks())
        assert torch.equal(own.queue, queue)  # the loss comes before the keys of the step
        assert all(key.grad is None and not key.requires_grad for key, _ in own.weights(model.encoder))
        assert own.projection.weight.grad.abs().sum() > 0 if name == "xlco" else own.projection.up.weight.grad.any()
        assert all(torch.equal(key, old) for (key, _), old in zip(own.weights(model.encoder), before, strict=True))
        optimizer.step()
        OBJECTIVES[name].after_step(model, batches, Ranks())
        moved = 0
        for (key, query), old in zip(own.weights(model.encoder), before, strict=True):
            assert torch.allclose(key, 0.9 * old + 0.1 * query, rtol=0, atol=1e-14)
            moved += not torch.equal(key, old)
        assert moved > 10, step
    names = {n.split(".", 2)[1] for n, p in model.named_parameters() if n.startswith(f"{name}_") and p.requires_grad}
    assert names == {"projection"}


def test_the_queue_is_first_in_first_out():
    own = contrast.MomentumContrast(torch.nn.Linear(1, 1), torch.nn.Linear(1, 1), width=1, entries=5)
    own.queue.zero_()

    def put(*values):
        own.enqueue(torch.tensor(values, dtype=torch.float32)[:, None])
        return own.queue[:, 0].tolist(), int(own.pointer)

    assert put(1, 2, 3) == ([1, 2, 3, 0, 0], 3)
    assert put(4, 5, 6) == ([6, 2, 3, 4, 5], 1)  # 1 was the oldest
    assert put(7) == ([6, 7, 3, 4, 5], 2)
    assert put(*range(10, 22)) == ([18, 19, 20, 21, 17], 4)  # more than it holds: the last five, in their order
    assert put(30) == ([18, 19, 20, 21, 30], 0)
    with pytest.raises(UserError, match=r"options\.queue: 0"):
        contrast.MomentumContrast(torch.nn.Linear(1, 1), torch.nn.Linear(1, 1), width=1, entries=0)


@pytest.mark.parametrize("name", NAMES)
def test_the_keys_of_a_step_replace_the_oldest(name):
    objective = objective_of(name, queue=20)
    model = started(objective)
    own = contrast_of(model, name)
    assert int(own.pointer) == (24 % 20 if name == "xlco" else 0)
    begin = int(own.pointer)
    batches = prepared(model, batches_of(objective))
    queue, keys = own.queue.clone(), batches[0].extra["keys"]
    OBJECTIVES[name].after_step(model, batches, Ranks())
    places = (begin + torch.arange(8)) % 20
    assert torch.equal(own.queue[places], keys)
    rest = torch.ones(20, dtype=torch.bool).index_fill(0, places, False)
    assert torch.equal(own.queue[rest], queue[rest])
    assert {f"{name}_contrast.queue", f"{name}_contrast.pointer"} <= model.state_dict().keys()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("device_rows", [1, 3])
def test_micro_batches_change_neither_gradients_nor_queue(name, device_rows):
    objective = objective_of(name)
    run = run_of(objective)
    results = []
    for rows in (99, device_rows):
        model = started(objective)
        batches = batches_of(objective, device_rows=rows)
        signals = backward(model, run, objective, batches, Ranks())
        gradients = [p.grad.clone() for p in model.parameters() if p.grad is not None]
        OBJECTIVES[name].after_step(model, batches, Ranks())
        results.append((signals, gradients, contrast_of(model, name).queue.clone()))
    (signals, gradients, queue), (other_signals, other_gradients, other_queue) = results
    assert signals == pytest.approx(other_signals, rel=1e-10)
    assert len(gradients) == len(other_gradients) > 10
    for a, b in zip(gradients, other_gradients, strict=True):
        assert torch.allclose(a, b, rtol=1e-9, atol=1e-12)
    assert torch.allclose(queue, other_queue, rtol=0, atol=1e-12)


def test_keys_of_ranks_come_in_the_order_of_the_rows():
    """Two ranks hold every other row; what the second has is appended by `gather`."""
    objective = objective_of("xlco")
    model = started(objective)
    alone = prepared(model, batches_of(objective, device_rows=1))
    expected = contrast.gathered_keys(alone, Ranks())
    first, second = alone[0::2], alone[1::2]

    class TwoRanks:
        def gather(self, rows):
            name = "keys" if rows.dim() == 2 else "key_order"
            return torch.cat([rows, *(batch.extra[name] for batch in second)])

    assert torch.equal(contrast.gathered_keys(first, TwoRanks()), expected)


@pytest.mark.parametrize("name", NAMES)
def test_the_copy_is_taken_from_the_loaded_encoder(name):
    objective = objective_of(name)
    model = model_of(run_of(objective))
    for parameter in model.encoder.parameters():  # as load_initial_weights does after the modules were made
        parameter.data.add_(0.5)
    own = contrast_of(model, name)
    assert not torch.equal(own.key_encoder.tokens.weight, model.encoder.tokens.weight)
    OBJECTIVES[name].start(model, objective, lambda: batches_of(objective), Ranks())
    assert all(torch.equal(key, query) for key, query in own.weights(model.encoder))
    assert OBJECTIVES[name].training_only == (f"{name}_contrast",)


# ---- PPA ----


@pytest.mark.parametrize("normalise", ["z", "h_only"])
def test_vectors_do_not_depend_on_the_length_of_the_state(normalise):
    objective = objective_of("ppa", normalise=normalise)
    model = started(objective)
    [batch] = batches_of(objective)
    plain = ppa.vectors(model.encoder, model.ppa_contrast.projection, batch, 0)
    norm = model.encoder.blocks[-1].ffn_norm  # its output is the state
    norm.weight.data *= 3
    norm.bias.data *= 3
    longer = ppa.vectors(model.encoder, model.ppa_contrast.projection, batch, 0)
    assert torch.allclose(plain, longer, atol=1e-12)
    ones = torch.ones(8)
    assert torch.allclose(plain.norm(dim=1), ones) == (normalise == "z")
    assert all(parameter.dim() == 2 for parameter in model.ppa_contrast.projection.parameters())  # no bias


def test_the_queue_begins_with_random_unit_vectors():
    queue = started(objective_of("ppa", queue=50)).ppa_contrast.queue
    assert torch.allclose(queue.norm(dim=1), torch.ones(50)) and (queue @ queue.T - torch.eye(50)).abs().max() < 0.999


@pytest.mark.parametrize(("separators", "middle"), [(1, []), (2, [EOS])])
def test_tlm_reads_the_sides_of_the_contrast_in_their_order_as_one_row(separators, middle):
    objective = dataclasses.replace(objective_of("ppa"), pair_separators=separators)
    [batch] = batches_of(objective)
    row = joined(batch)
    for number, (a, b) in enumerate(PAIRS):
        inside = row.fields.document[number // 2] == number % 2
        assert row.original[number // 2][inside].tolist() == [BOS, *a, EOS, *middle, *b, EOS]
        length = int(inside.sum())
        positions = row.fields.position[number // 2][inside].tolist()
        assert positions == list(range(FIRST_POSITION, FIRST_POSITION + length))
        assert row.fields.side[number // 2][inside].tolist() == [0] * (len(a) + 2) + [1] * (length - len(a) - 2)
    assert torch.equal(row.selected, batch.selected) and torch.equal(row.targets, batch.targets)
    apart_tokens = contrast.side_alone(batch, 0)
    first = apart_tokens.fields.document[0] == 1
    assert apart_tokens.original[0][first].tolist() == [BOS, *PAIRS[1][0], EOS]


@pytest.mark.parametrize("token_types", [0, 2])
@pytest.mark.parametrize("sentences", ["tlm", "mlm"])
def test_masked_tokens_see_the_pair_or_their_sentence(sentences, token_types):
    """The loss by another way: every pair, or every sentence, as a row of its own."""
    objective = objective_of("ppa", sentences=sentences)
    model = started(objective, token_types=token_types)
    [batch] = prepared(model, batches_of(objective))
    found = ppa.ppa_loss(model, batch)
    total = 0.0
    for number in range(len(PAIRS)):
        inside = batch.fields.document[number // 2] == number % 2
        values = (batch.tokens, batch.fields.side, batch.fields.selected, batch.original)
        tokens, side, selected, original = (field[number // 2][inside] for field in values)
        parts = [~((side == 1) & (original == BOS))] if sentences == "tlm" else [side == 0, side == 1]
        for part in parts:
            types = side[part][None] if sentences == "tlm" else None
            states = model.encoder(tokens[part][None], sides_BT=types)[0][selected[part]]
            logits = model.mlm_head(states, model.encoder.tokens.weight)
            total += float(F.cross_entropy(logits, original[part][selected[part]], reduction="sum").detach())
    assert float(found.sums["mlm"].detach()) == pytest.approx(total, rel=1e-10)
    assert list(ppa.count(batch)) == ["mlm", "contrast"] and ppa.count(batch)["mlm"] == len(batch.targets)


def test_contrast_alone_has_no_masked_tokens():
    objective = objective_of("ppa", sentences="none")
    model = started(objective)
    [batch] = prepared(model, batches_of(objective))
    assert ppa.ppa_loss(model, batch).sums.keys() == ppa.count(batch).keys() == {"contrast"}
    assert not hasattr(model, "mlm_head")


# ---- XLCO ----


def test_xlco_fills_its_queue_before_the_first_step_with_keys_of_the_copy():
    objective = objective_of("xlco", queue=20)
    drawn = []

    def draw():
        drawn.append(batches_of(objective, pairs=random_pairs(8, VOCABULARY, seed=len(drawn), longest=4)))
        return drawn[-1]

    model = model_of(run_of(objective))
    model.encoder.tokens.weight.data.add_(0.1)
    xlco.start(model, objective, draw, Ranks())
    assert len(drawn) == 3 and int(model.xlco_contrast.pointer) == 4
    keys = [xlco.vectors(model.encoder, model.xlco_contrast.projection, batches[0], 1) for batches in drawn]
    expected = torch.cat([keys[2][4:], keys[0][4:], keys[1], keys[2][:4]])  # the oldest four are gone
    assert torch.allclose(model.xlco_contrast.queue, expected, atol=1e-12)
    assert not model.xlco_contrast.queue.requires_grad


@pytest.mark.parametrize("layer", [0, 1, 3])
def test_layers_count_the_embeddings_as_0(layer):
    objective = objective_of("xlco", layer=layer)
    model = started(objective)
    embedded = watch_embeddings(model.encoder)
    [batch] = batches_of(objective)
    found = xlco.vectors(model.encoder, model.xlco_contrast.projection, batch, 0)
    alone = contrast.side_alone(batch, 0)
    states = alone.states(model.encoder, all_layers=True)[layer]
    firsts = contrast.first_tokens(alone, 0)
    assert torch.equal(found, model.xlco_contrast.projection(states[firsts[:, 0], firsts[:, 1]]))
    (gradient,) = torch.autograd.grad(found.square().sum(), embedded[0])
    touched = (gradient != 0).any(-1)
    assert touched.sum() == (8 if layer == 0 else (alone.fields.document >= 0).sum())


def test_a_layer_that_the_model_has_not_is_named():
    with pytest.raises(UserError, match=r"options\.layer: the model has layers 0 .* to 3, but 8 is asked for"):
        model_of(run_of(objective_of("xlco", layer=8)))


def test_vectors_of_xlco_keep_their_length_and_see_masks():
    objective = objective_of("xlco")
    model = started(objective)
    [batch] = batches_of(objective)
    vectors = xlco.vectors(model.encoder, model.xlco_contrast.projection, batch, 0)
    assert (vectors.norm(dim=1) - 1).abs().min() > 1e-3
    assert [name for name, _ in model.xlco_contrast.projection.named_parameters()] == ["weight"]
    unmasked = dataclasses.replace(batch, tokens=batch.original)
    others = xlco.vectors(model.encoder, model.xlco_contrast.projection, unmasked, 0)
    firsts = contrast.first_tokens(batch, 0)
    for n, (r, c) in enumerate(firsts.tolist()):
        inside = (batch.fields.document[r] == batch.fields.document[r, c]) & (batch.fields.side[r] == 0)
        same = torch.equal(batch.tokens[r][inside], batch.original[r][inside])
        assert torch.equal(vectors[n], others[n]) == same
