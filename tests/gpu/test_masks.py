"""Masks that are no matrix compute what the boolean matrix says, for every rule, forwards and backwards."""

import dataclasses

import pytest
import torch
import torch._dynamo
from small_gpu import MODEL, flexible  # noqa: F401  (a fixture)
from torch import Tensor
from torch._dynamo.utils import counters

from engine import attention, attention_rules
from engine.attention import DistanceTable, Gate, attend, in_segments
from engine.attention_rules import Tokens, full, own_side
from engine.masks import Mask, Segments, block_mask, boolean_mask, segment_ends
from engine.shape import RelativeBias

B, H, K = 3, MODEL.heads, MODEL.width // MODEL.heads
WHOLE, BROKEN = 256, 160  # columns: two of FlexAttention's blocks, as training has them; and a part of a block
RULES = ["full", "own_side", "own_side_so_far", "other_side", "camlm", "camlm_siblings"]
BIASED = dataclasses.replace(MODEL, relative_bias=RelativeBias(16, 32, gate_per_head=True))


def tokens(device: torch.device, T: int = BROKEN) -> Tokens:
    """Documents of two sides with padding behind them; a row that is one document; one that is padding alone."""
    generator = torch.Generator().manual_seed(3)
    document, side = torch.full((B, T), -1), torch.zeros(B, T, dtype=torch.int8)
    for first, last, number in ((0, 37, 0), (37, 101, 1), (101, T - 10, 2)):
        document[0, first:last] = number
        side[0, (first + last) // 2 : last] = 1
    document[1], side[1, 70:] = 0, 1
    position = torch.zeros(B, T, dtype=torch.long)
    for row in range(B):
        for number in range(3):
            inside = document[row] == number
            position[row, inside] = torch.arange(int(inside.sum())) + 2
    selected = (torch.rand(B, T, generator=generator) < 0.2) & (document >= 0)
    fields = Tokens(document, side, selected, position, torch.zeros(B, T, dtype=torch.int16))
    return Tokens(*(field.to(device) for field in fields))


def result(device: torch.device, dtype: torch.dtype, mask: Mask, biased: bool, fields: Tokens) -> list[Tensor]:
    """The mixed values of real tokens, and the gradients of everything that they depend on."""
    torch.manual_seed(5)
    exact = torch.float32 if dtype == torch.bfloat16 else dtype
    table, gate = DistanceTable(BIASED), Gate(BIASED)
    with torch.no_grad():
        gate.u_v.normal_(std=0.3)
    table, gate = table.to(device, exact), gate.to(device, exact)
    T = fields.document.shape[1]
    q, k, v = (torch.randn(B, H, T, K).to(device, dtype).requires_grad_() for _ in range(3))
    weights = torch.randn(B, H, T, K).to(device, dtype)
    inputs, given = [q, k, v], {}
    if biased:
        given = {"bias": table(fields.position).as_matrix(), "gate_BHT": gate(q, torch.empty(B, T, H * K))}
        inputs += [table.table.weight, gate.u_v, gate.w]
    mixed = attend(q, k, v, mask, **given)
    real = (fields.document >= 0)[:, None, :, None]
    (mixed * weights * real).sum().backward()
    return [(mixed * real).detach().double().cpu(), *(own.grad.double().cpu() for own in inputs)]


def assert_near(found: list[Tensor], expected: list[Tensor], limit: float) -> None:
    for one, other in zip(found, expected, strict=True):
        assert other.any() and torch.isfinite(one).all()
        assert float((one - other).norm() / other.norm()) < limit


@pytest.mark.sampled(12)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["fp32", "bf16"])
@pytest.mark.parametrize("biased", [False, True], ids=["plain", "biased"])
@pytest.mark.parametrize(("name", "T"), [*((name, WHOLE) for name in RULES), ("full", BROKEN), ("camlm", BROKEN)])
def test_blocks_are_the_matrix(device, flexible, name, T, biased, dtype):  # noqa: F811
    rule, fields = getattr(attention_rules, name), tokens(device, T)
    exact = tokens(torch.device("cpu"), T)
    expected = result(torch.device("cpu"), torch.float64, boolean_mask(exact, rule), biased, exact)
    found = result(device, dtype, block_mask(fields, rule), biased, fields)
    assert_near(found, expected, 1e-3 if dtype == torch.float32 else 6e-2)


def test_other_masks_of_the_same_rule_are_no_new_compilation(device, flexible):  # noqa: F811
    torch._dynamo.reset()
    graphs = []
    for length in (WHOLE, 2 * WHOLE, 3 * WHOLE, WHOLE, 2 * WHOLE):
        fields = tokens(device, length)
        result(device, torch.float32, block_mask(fields, full), True, fields)
        graphs.append(counters["stats"]["unique_graphs"])
    assert graphs[1] == graphs[-1], graphs


def test_too_many_variants_are_an_error_and_not_the_matrix_of_all_scores(device, flexible):  # noqa: F811
    fields, config = tokens(device), torch._dynamo.config
    assert config.recompile_limit >= attention.VARIANTS <= config.accumulated_recompile_limit
    torch._dynamo.reset()
    result(device, torch.float32, block_mask(fields, full), False, fields)
    with config.patch(recompile_limit=1), pytest.raises(torch._dynamo.exc.FailOnRecompileLimitHit):
        result(device, torch.float32, block_mask(fields, own_side), False, fields)


@pytest.mark.parametrize("rule", [full, own_side])
def test_segments_are_the_matrix(device, rule):
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32  # the kernel takes no other
    fields, exact = tokens(device), tokens(torch.device("cpu"))
    ends = segment_ends(exact, rule)
    assert ends.tolist()[-1] == B * BROKEN and len(ends) == (3 + 1 + 1 + 1 if rule is full else 6 + 1 + 2 + 1) + 1
    expected = result(torch.device("cpu"), torch.float64, boolean_mask(exact, rule), False, exact)
    found = result(device, dtype, Segments(ends.to(device), BROKEN), False, fields)
    assert_near(found, expected, 1e-4 if dtype == torch.float32 else 3e-2)


def test_what_is_no_run_of_tokens_is_no_segment():
    fields = tokens(torch.device("cpu"))
    assert all(segment_ends(fields, getattr(attention_rules, name)) is None for name in RULES[2:])
    holed = fields._replace(document=fields.document.clone())
    holed.document[0, 50] = -1
    assert segment_ends(holed, full) is None
    divided = fields._replace(side=fields.side.clone())
    divided.side[1, 3] = 1  # one token of the other side between two of this one
    assert segment_ends(divided, full) is not None and segment_ends(divided, own_side) is None


def test_dropout_in_segments_keeps_the_mean_and_can_be_repeated(device):
    """Values of one: what is mixed is the sum of the kept probabilities, 1 on average, with the variance of dropout."""
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    q, k = (torch.randn(B, H, BROKEN, K, device=device, dtype=dtype) for _ in range(2))
    mask = Segments(segment_ends(tokens(torch.device("cpu")), full).to(device), BROKEN)
    drawn = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        drawn.append(in_segments(q, k, torch.ones_like(q), mask, 0.1).float())
    assert torch.equal(drawn[0], drawn[1]) and not torch.equal(drawn[0], drawn[2])
    assert float(drawn[0].mean()) == pytest.approx(1, abs=0.02)
    assert 0.01 < float(drawn[0].std()) < 0.5
