"""The gradients that are written out are those of PyTorch's own functions, and of finite differences."""

import pytest
import torch
import torch.nn.functional as F

from engine import by_hand
from engine.model import MaskedLanguageModelHead, ModelConfig


def some_logits(dtype: torch.dtype, rows: int = 70) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(1)
    logits_NV = (4 * torch.randn(rows, 3000)).to(dtype).requires_grad_()  # more than one block of rows
    targets_N = torch.randint(0, 3000, (rows,))
    targets_N[::3] = logits_NV[::3].argmax(1)
    return logits_NV, targets_N


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_cross_entropy_is_pytorchs(dtype):
    logits_NV, targets_N = some_logits(dtype)
    exact = logits_NV.detach().to(torch.promote_types(dtype, torch.float32)).requires_grad_()
    loss, right = by_hand.CrossEntropy.apply(logits_NV, targets_N)
    wanted = F.cross_entropy(exact, targets_N, reduction="sum")
    (0.01 * loss).backward()
    (0.01 * wanted).backward()
    torch.testing.assert_close(loss, wanted, rtol=1e-6, atol=0)
    torch.testing.assert_close(
        logits_NV.grad, exact.grad.to(dtype), rtol=1e-5 if dtype != torch.bfloat16 else 1e-2, atol=1e-9
    )
    assert right == (exact.argmax(1) == targets_N).sum() >= 24


@pytest.mark.parametrize("cross_entropy", [by_hand.CrossEntropy.apply, by_hand.cross_entropy])
def test_of_equal_logits_the_first_is_the_guess(cross_entropy):
    logits_NV = torch.zeros(3, 5)
    logits_NV[:, [2, 4]] = 1.0
    assert cross_entropy(logits_NV, torch.tensor([2, 4, 0]))[1] == 1


def test_rows_beyond_the_targets_do_not_count():
    logits_NV, targets_N = some_logits(torch.float32)
    loss, right = by_hand.CrossEntropy.apply(logits_NV, targets_N[:41])
    loss.backward()
    assert (loss, right) == by_hand.CrossEntropy.apply(logits_NV[:41], targets_N[:41])
    assert logits_NV.grad[:41].abs().sum(1).all() and not logits_NV.grad[41:].any()


def test_a_mixed_head_fills_up_its_rows_and_nothing_else_changes():
    torch.manual_seed(1)
    head, table_VD = MaskedLanguageModelHead(ModelConfig(1, 16, 2, 32, 34, vocabulary=50)), torch.randn(50, 16)
    states_ND, targets_N = torch.randn(5, 16, requires_grad=True), torch.tensor([1, 2, 3, 4, 5])
    trained = [states_ND, *head.parameters()]
    with torch.autocast("cpu", torch.bfloat16):
        assert [len(by_hand.full_rows(torch.zeros(n, 2))) for n in (0, 1, 32, 33)] == [0, 32, 32, 64]
        loss, _ = head.cross_entropy(states_ND, table_VD, targets_N)
        wanted = F.cross_entropy(head(states_ND, table_VD).float(), targets_N, reduction="sum")
    torch.testing.assert_close(loss, wanted)
    own, theirs = (torch.autograd.grad(one, trained) for one in (loss, wanted))
    torch.testing.assert_close(own, theirs, rtol=2e-2, atol=2e-2)


def test_in_fp32_every_bit_is_pytorchs():
    logits_NV, targets_N = some_logits(torch.float32)
    loss, right = by_hand.cross_entropy(logits_NV, targets_N)
    assert loss.equal(F.cross_entropy(logits_NV, targets_N, reduction="sum"))
    assert right == (logits_NV.argmax(1) == targets_N).sum() >= 24
    assert by_hand.full_rows(logits_NV) is logits_NV
    q, k, v = torch.randn(3, 2, 2, 9, 16)
    mask = torch.ones(2, 1, 9, 9, dtype=torch.bool).tril()
    assert by_hand.attention(q, k, v, mask).equal(F.scaled_dot_product_attention(q, k, v, attn_mask=mask))


@pytest.mark.parametrize("masked", [False, True])
def test_attention_in_bf16_is_as_exact_as_pytorchs(masked):
    torch.manual_seed(1)
    q, k, v = (2 * torch.randn(3, 2, 20, 16) for _ in range(3))
    mask = (torch.rand(3, 1, 20, 20) < 0.5) | torch.eye(20, dtype=torch.bool) if masked else None
    given = torch.randn(3, 2, 20, 16)

    def found(attend, dtype: torch.dtype) -> list[torch.Tensor]:
        inputs = [x.to(dtype).requires_grad_() for x in (q, k, v)]
        out = attend(*inputs, mask)
        return [out.detach(), *torch.autograd.grad(out, inputs, given.to(dtype))]

    exact = found(F.scaled_dot_product_attention, torch.float64)
    errors = {
        name: [
            float((one.double() - right).norm() / right.norm())
            for one, right in zip(found(attend, torch.bfloat16), exact, strict=True)
        ]
        for name, attend in (("ours", by_hand.attention), ("theirs", F.scaled_dot_product_attention))
    }
    assert all(ours < 1.2 * theirs < 0.02 for ours, theirs in zip(*errors.values(), strict=True)), errors


def test_attentions_gradient_is_that_of_finite_differences():
    torch.manual_seed(1)
    shapes = [(2, 2, 3, 4), (2, 2, 5, 4), (2, 2, 5, 4), (2, 1, 3, 5), (2, 2, 3, 5), (2, 2, 3)]
    q, k, v, mask, distance, gate = (torch.randn(one, dtype=torch.float64, requires_grad=True) for one in shapes)
    mask = mask.detach()
    assert torch.autograd.gradcheck(by_hand.Attention.apply, (q, k, v, mask, None, None))
    assert torch.autograd.gradcheck(by_hand.Attention.apply, (q, k, v, mask, distance, gate))
    one = distance[:1].detach().requires_grad_()  # of rows that all begin at the first position
    assert torch.autograd.gradcheck(by_hand.Attention.apply, (q, k, v, mask, one, gate))


def test_a_gated_distance_in_bf16_is_as_exact_as_pytorchs(monkeypatch):
    torch.manual_seed(1)
    inputs = [2 * torch.randn(shape) for shape in [(3, 2, 20, 16)] * 3 + [(3, 2, 20, 20), (3, 2, 20)]]
    mask = (torch.rand(3, 1, 20, 20) < 0.5) | torch.eye(20, dtype=torch.bool)
    given = torch.randn(3, 2, 20, 16)

    def errors(dtype: torch.dtype) -> list[float]:
        q, k, v, *added = (x.requires_grad_() for x in inputs)
        out = by_hand.attention(*(x.to(dtype) for x in (q, k, v)), mask, 0.0, *added)
        found = [out.detach(), *torch.autograd.grad(out, inputs, given.to(dtype))]
        return [float((one.double() - right).norm() / right.norm()) for one, right in zip(found, exact, strict=True)]

    wide = [x.double().requires_grad_() for x in inputs]
    out = by_hand.attention(*wide[:3], mask, 0.0, *wide[3:])
    exact = [out.detach(), *torch.autograd.grad(out, wide, given.double())]
    ours = errors(torch.bfloat16)
    monkeypatch.setattr(by_hand, "is_mixed_on_cpu", lambda _: False)
    theirs = errors(torch.bfloat16)
    assert all(own < 1.5 * other < 0.03 for own, other in zip(ours, theirs, strict=True)), (ours, theirs)


def test_a_distances_gradient_is_the_sum_over_its_places():
    torch.manual_seed(1)
    table_MH = torch.randn(9, 2, requires_grad=True)
    index_BTT = torch.randint(0, 8, (3, 5, 5))  # of the last row there is no place
    given = torch.randn(3, 2, 5, 5)
    plain = by_hand.of_distance(table_MH, index_BTT)
    with torch.autocast("cpu", torch.bfloat16):
        own = by_hand.of_distance(table_MH, index_BTT)
    assert own.equal(plain) and "OfDistance" in type(own.grad_fn).__name__ not in type(plain.grad_fn).__name__
    torch.testing.assert_close(*(torch.autograd.grad(one, table_MH, given) for one in (own, plain)))


def test_what_the_mask_hides_is_not_read():
    q, k, v = (torch.randn(1, 2, 4, 16) for _ in range(3))
    mask = torch.ones(1, 1, 4, 4, dtype=torch.bool).tril()
    for dtype in (torch.float32, torch.bfloat16):
        one = by_hand.attention(q.to(dtype), k.to(dtype), v.to(dtype), mask)
        k[:, :, 3] = v[:, :, 3] = 1e4
        other = by_hand.attention(q.to(dtype), k.to(dtype), v.to(dtype), mask)
        assert one[:, :, :3].equal(other[:, :, :3])
        k, v = torch.randn(1, 2, 4, 16), torch.randn(1, 2, 4, 16)
