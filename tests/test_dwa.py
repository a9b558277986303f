"""Denoising word alignment (XLM-Align)."""

import math

import pytest
import torch
import torch.nn.functional as F

from common.errors import UserError
from engine.config import MaskSpec, ObjectiveConfig
from engine.dist import Ranks
from engine.objectives import dwa
from engine.objectives.base import Batch
from engine.tokenizer import BOS, EOS, UNK
from pretrain import backward
from small_corpus import VOCABULARY
from small_engine import model_of, run_of
from small_rows import lay, pair, random_pairs
from training.assembly import PretrainingModel, micro_batches

pytestmark = pytest.mark.usefixtures("double")

# one long side, one side of a single token, and <unk>, which is a word like others
PAIRS = [*random_pairs(7, VOCABULARY, seed=2, longest=8), ([9], [9, UNK, 12, 13])]
HALF = MaskSpec(rate=0.5)


def objective_of(**options: object) -> ObjectiveConfig:
    return ObjectiveConfig("dwa", mask=HALF, pair_separators=1, options={"layer": 2} | options)


def batches_of(objective: ObjectiveConfig, device_rows: int = 99, per_row: int = 2, pairs=PAIRS) -> list[Batch]:
    items = [pair(*sides) for sides in pairs]
    rows = lay([items[i : i + per_row] for i in range(0, len(items), per_row)], row_length=20 * per_row)
    return micro_batches(rows, objective, run_of(objective, device_rows=device_rows), Ranks())


def aligned(model: PretrainingModel, objective: ObjectiveConfig) -> Batch:
    [batch] = batches_of(objective)
    dwa.align(model, batch)
    return batch


def plain_sinkhorn(similarity: list[list[float]], rounds: int) -> list[list[float]]:
    pi = [[value if value > 0 else 1e-6 for value in row] for row in similarity]
    for _ in range(rounds):
        columns = [sum(row[j] for row in pi) for j in range(len(pi[0]))]
        pi = [[value / columns[j] for j, value in enumerate(row)] for row in pi]
        pi = [[value / sum(row) for value in row] for row in pi]
    return pi


def plain_itermax(pi: list[list[float]], alpha: float, rounds: int) -> set[tuple[int, int]]:
    rows, columns = range(len(pi)), range(len(pi[0]))

    def mutual(values: list[list[float]]) -> set[tuple[int, int]]:
        return {
            (i, j)
            for i in rows
            for j in columns
            if j == max(columns, key=lambda y: (values[i][y], -y)) and i == max(rows, key=lambda x: (values[x][j], -x))
        }

    links = mutual(pi)
    for _ in range(rounds - 1):
        free_rows = set(rows) - {i for i, _ in links}
        free_columns = set(columns) - {j for _, j in links}
        if min(len(rows), len(columns)) <= 2 or not free_rows or not free_columns:
            break
        weights = [[min(1.0, alpha * (i in free_rows) + alpha * (j in free_columns)) for j in columns] for i in rows]
        weighted = [[pi[i][j] * weights[i][j] for j in columns] for i in rows]
        links |= {(i, j) for i, j in mutual(weighted) if i in free_rows or j in free_columns}
    return links


def padded(matrices: list[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    shape = (len(matrices), max(len(m) for m in matrices), max(m.shape[1] for m in matrices))
    values, real = torch.full(shape, 99.0), torch.zeros(shape, dtype=torch.bool)
    for number, m in enumerate(matrices):
        values[number, : len(m), : m.shape[1]], real[number, : len(m), : m.shape[1]] = m, True
    return values, real


@pytest.mark.parametrize(("rounds", "alpha"), [(1, 0.9), (2, 0.9), (2, 0.4), (3, 0.9)])
def test_alignment_equals_a_plain_implementation(rounds, alpha):
    torch.manual_seed(3)
    matrices = [torch.randn(*torch.randint(1, 9, (2,)).tolist()) + 0.3 for _ in range(150)]
    values, real = padded(matrices)
    pi = dwa.sinkhorn(values, real, rounds=2)
    links = dwa.itermax(pi, real, alpha, rounds)
    raw = values.abs() * real  # itermax alone: after Sinkhorn two tokens never choose the same one
    raw_links = dwa.itermax(raw, real, alpha, rounds)
    assert not pi[~real].any() and not links[~real].any()
    later = 0
    for number, matrix in enumerate(matrices):
        m, n = matrix.shape
        expected = plain_sinkhorn(matrix.tolist(), 2)
        assert torch.allclose(pi[number, :m, :n], torch.tensor(expected), rtol=1e-12, atol=0)
        assert torch.allclose(pi[number, :m, :n].sum(1), torch.ones(m))
        wanted = plain_itermax(expected, alpha, rounds)
        assert {tuple(link) for link in links[number].nonzero().tolist()} == wanted
        alone = plain_itermax(matrix.abs().tolist(), alpha, rounds)
        assert {tuple(link) for link in raw_links[number].nonzero().tolist()} == alone
        later += len(wanted) - len(plain_itermax(expected, alpha, 1))
    assert (later > 50) == (rounds > 1)


def test_itermax_by_hand():
    pi = torch.tensor([[[0.6, 0.3, 0.1], [0.5, 0.4, 0.1], [0.1, 0.2, 0.7]]])
    real = torch.ones_like(pi, dtype=torch.bool)
    first = dwa.itermax(pi, real, 0.9, 1)[0]
    assert first.nonzero().tolist() == [[0, 0], [2, 2]]
    # 1 and 1 are both free, so their 0.4 counts fully; 0.5 beside a linked column counts 0.45 and still wins the row,
    # while column 0 prefers 0.45 (row 1) to 0 (row 0 is linked too): 1-0 joins
    assert dwa.itermax(pi, real, 0.9, 2)[0].nonzero().tolist() == [[0, 0], [1, 0], [2, 2]]
    assert dwa.itermax(pi, real, 0.7, 2)[0].nonzero().tolist() == [[0, 0], [1, 1], [2, 2]]  # 0.35 < 0.4
    assert dwa.last_link(dwa.itermax(pi, real, 0.9, 2)).tolist() == [[0, 0, 2]]
    assert dwa.last_link(dwa.itermax(pi, real, 0.9, 2).mT).tolist() == [[1, -1, 2]]  # the last of two


def test_places_are_the_content_of_each_pair():
    [batch] = batches_of(objective_of())
    flat = batch.original.flatten()
    for side in (0, 1):
        places = dwa.places(batch, side)
        found = [flat[row[row >= 0]].tolist() for row in places]
        assert found == [list(sides[side]) for sides in PAIRS]


def test_labels_come_from_the_unmasked_pair_without_dropout():
    objective = objective_of()
    run = run_of(objective, dropout=0.5, attention_dropout=0.5)
    model = model_of(run).train()
    batch = aligned(model, objective)
    assert model.training and all(module.training for module in model.modules())
    assert all(parameter.grad is None for parameter in model.parameters())
    assert not any(value.requires_grad for value in batch.extra.values())
    again = aligned(model, objective)
    [masked] = batches_of(objective)
    masked.tokens = masked.tokens.masked_fill(masked.original > EOS, VOCABULARY - 1)
    dwa.align(model, masked)
    for name in ("links0", "links1"):
        assert torch.equal(batch.extra[name], again.extra[name])
        assert torch.equal(batch.extra[name], masked.extra[name])
    [other] = batches_of(objective)
    other.original = torch.where(other.original > EOS, 4 + (other.original * 7) % 50, other.original)
    dwa.align(model, other)
    assert not torch.equal(batch.extra["links0"], other.extra["links0"])
    model.eval()
    aligned(model, objective)
    assert not model.encoder.training


def test_the_loss_by_hand_pair_by_pair():
    """Every pair in a row of its own, with loops: labels, both directions, and what has no link adds nothing."""
    objective = objective_of()
    model = model_of(run_of(objective))
    batch = aligned(model, objective)
    pointer = model.dwa_pointer
    total, pointed, unlinked, right = 0.0, 0, 0, 0
    for number in range(len(PAIRS)):
        r = number // 2
        inside = batch.fields.document[r] == number % 2
        original, tokens = batch.original[r][inside], batch.tokens[r][inside]
        side, selected = batch.fields.side[r][inside], batch.fields.selected[r][inside]
        unmasked = model.encoder(original[None], all_layers=True)[2][0]
        states = model.encoder(tokens[None])[0]
        content = [[i for i in range(len(original)) if original[i] > EOS and side[i] == s] for s in (0, 1)]
        similarity = [[float((unmasked[i] @ unmasked[j]).detach()) for j in content[1]] for i in content[0]]
        links = sorted(plain_itermax(plain_sinkhorn(similarity, 2), 0.9, 2))
        for own in (0, 1):
            targets = {link[own]: link[1 - own] for link in links}
            for x, i in enumerate(content[own]):
                if not selected[i]:
                    continue
                if x not in targets:
                    unlinked += 1
                    continue
                scores = [pointer.query(states[i]) @ pointer.key(states[j]) / 4 for j in content[1 - own]]
                loss = F.cross_entropy(torch.stack(scores)[None], torch.tensor([targets[x]]))
                total += float(loss.detach())
                pointed += 1
                right += int(torch.stack(scores).argmax()) == targets[x]
    assert unlinked > 3 and pointed > 10
    assert dwa.count(batch) == {"mlm": len(batch.targets), "pointer": pointed}
    loss = dwa.dwa_loss(model, batch)
    assert float(loss.sums["pointer"].detach()) == pytest.approx(total, rel=1e-10)
    assert loss.signals["pointer_accuracy"] == (right, pointed)
    assert loss.signals["aligned"] == (pointed, len(batch.targets))
    states = batch.states(model.encoder).flatten(0, 1)[batch.selected]
    logits = model.mlm_head(states, model.encoder.tokens.weight)
    masked = F.cross_entropy(logits, batch.targets, reduction="sum")
    assert float(loss.sums["mlm"].detach()) == pytest.approx(float(masked.detach()), rel=1e-12)


def test_logits_outside_the_other_side_are_minus_infinity():
    objective = objective_of()
    model = model_of(run_of(objective))
    batch = aligned(model, objective)
    flat = batch.states(model.encoder).flatten(0, 1)
    own, other = batch.extra["places0"], batch.extra["places1"]
    logits = model.dwa_pointer(flat[own.clamp(min=0)], flat[other.clamp(min=0)], other >= 0)
    real = (other >= 0)[:, None].expand_as(logits)
    assert (~real).any() and (logits[~real] == -math.inf).all() and logits[real].isfinite().all()
    assert not (batch.original.flatten()[other[other >= 0]].unsqueeze(1) == torch.tensor([BOS, EOS])).any()
    for parameter in model.parameters():
        parameter.grad = None
    dwa.dwa_loss(model, batch).sums["pointer"].backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())
    assert all(p.grad.abs().sum() > 0 for p in (model.dwa_pointer.query.weight, model.dwa_pointer.key.weight))


def test_a_token_without_a_link_adds_nothing():
    objective = objective_of(tlm=False)
    model = model_of(run_of(objective))
    batch = aligned(model, objective)
    whole = dwa.dwa_loss(model, batch)
    assert whole.sums.keys() == dwa.count(batch).keys() == {"pointer"} and not hasattr(model, "mlm_head")
    selected = {place for place in batch.selected.tolist()}
    chosen = {int(p) for s in (0, 1) for p in batch.extra[f"places{s}"][batch.extra[f"chosen{s}"]]}
    linked = {int(p) for s in (0, 1) for p in batch.extra[f"places{s}"][batch.extra[f"links{s}"] >= 0]}
    assert chosen == selected & linked and chosen < selected
    for side in (0, 1):
        batch.extra[f"chosen{side}"] = torch.zeros_like(batch.extra[f"chosen{side}"])
    assert float(dwa.dwa_loss(model, batch).sums["pointer"].detach()) == 0 == dwa.count(batch)["pointer"]


@pytest.mark.parametrize("device_rows", [1, 3])
def test_micro_batches_do_not_change_the_gradients(device_rows):
    objective = objective_of()
    run = run_of(objective)
    results = []
    for rows in (99, device_rows):
        model = model_of(run)
        signals = backward(model, run, objective, batches_of(objective, device_rows=rows), Ranks())
        results.append((signals, [p.grad for p in model.parameters() if p.grad is not None]))
    (signals, gradients), (other_signals, other_gradients) = results
    assert signals == pytest.approx(other_signals, rel=1e-10)
    for a, b in zip(gradients, other_gradients, strict=True):
        assert torch.allclose(a, b, rtol=1e-9, atol=1e-12)


def test_packing_does_not_change_what_is_linked():
    objective = objective_of()
    model = model_of(run_of(objective))
    links = []
    for per_row in (1, 4):
        [batch] = batches_of(objective, per_row=per_row)
        dwa.align(model, batch)
        links.append((batch.extra["links0"], batch.extra["links1"], batch.extra["chosen0"]))
    assert all(torch.equal(a, b) for a, b in zip(*links, strict=True))


def test_a_layer_that_the_model_has_not_is_named():
    with pytest.raises(UserError, match=r"options\.layer: the model has layers 0 .* to 3, but 10 is asked for"):
        model_of(run_of(objective_of(layer=10)))
    assert dwa.DWA.training_only == ("dwa_pointer",)
