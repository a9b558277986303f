"""Mixed precision on a CPU, where PyTorch's own is slow: attention and cross-entropy with their gradients written out.

PyTorch's attention takes 20 of its 23 ms on the way back in bf16 (32 rows of 96, 3 heads of 64); its cross-entropy
makes and fills one matrix of the size of the logits after another; oneDNN compiles a product anew for each number of
rows. In fp32 nothing here is faster: PyTorch's functions are called, as they are. So too on a GPU and when compiled.

Shapes: B rows, H heads, T queries, S keys, K features of a head, N selected positions, V vocabulary.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import FunctionCtx, once_differentiable

LONGEST = 256  # keys: of longer rows, all scores at once no longer stay near the processor
ROWS = 32  # of a product, a multiple of it: so there are few
IN_CACHE = 2**17  # logits that are worked on at one time, pass after pass


def is_mixed_on_cpu(tensor: Tensor) -> bool:
    mixed = tensor.dtype == torch.bfloat16 or torch.is_autocast_enabled("cpu")
    return mixed and tensor.device.type == "cpu" and not torch.compiler.is_compiling()


def attention(
    q_BHTK: Tensor,
    k_BHSK: Tensor,
    v_BHSK: Tensor,
    mask: Tensor | None,
    dropout: float = 0.0,
    distance_BHTS: Tensor | None = None,
    gate_BHT: Tensor | None = None,
) -> Tensor:
    """softmax(q k / sqrt(K) + distance gate) v over what the mask allows (True: may look; every query may look
    somewhere)."""
    if q_BHTK.dtype != torch.bfloat16 or not is_mixed_on_cpu(q_BHTK) or dropout or k_BHSK.shape[2] > LONGEST:
        if distance_BHTS is not None:
            added_BHTS = distance_BHTS * gate_BHT[..., None]
            mask = (added_BHTS if mask is None else added_BHTS.masked_fill(~mask, -math.inf)).to(q_BHTK.dtype)
        return F.scaled_dot_product_attention(q_BHTK, k_BHSK, v_BHSK, attn_mask=mask, dropout_p=dropout)
    if mask is not None:  # the lowest number: filling in minus infinity takes longer
        mask = mask.to(q_BHTK.dtype).sub_(1).mul_(torch.finfo(q_BHTK.dtype).max)
    return Attention.apply(q_BHTK, k_BHSK, v_BHSK, mask, distance_BHTS, gate_BHT)


class Attention(torch.autograd.Function):
    """P = softmax(s Q K' + M), O = P V, with s = 1 / sqrt(K) and M = D g + what the mask forbids.

    dV = P' dO,  dP = dO V',  dM = P (dP - sum over keys of P dP),  dQ = s dM K,  dK = s dM' Q
    dD = dM g,  dg = sum over keys of dM D
    """

    @staticmethod
    def forward(
        ctx: FunctionCtx,
        q_BHTK: Tensor,
        k_BHSK: Tensor,
        v_BHSK: Tensor,
        mask: Tensor | None,
        distance: Tensor | None,
        gate: Tensor,
    ) -> Tensor:
        B, H, T, K = q_BHTK.shape
        q, k, v = (x.reshape(B * H, -1, K) for x in (q_BHTK, k_BHSK, v_BHSK))
        exact = torch.promote_types(q.dtype, torch.float32)  # in bf16 a score of 4 is off by up to 1 %
        with torch.autocast("cpu", enabled=False):
            scores = torch.bmm(q.to(exact).mul(1 / math.sqrt(K)), k.to(exact).transpose(1, 2)).view(B, H, T, -1)
        if distance is not None:
            scores.addcmul_(distance, gate[..., None])
        if mask is not None:
            scores += mask
        p = torch.softmax(scores, -1).to(v.dtype).view(B * H, T, -1)
        ctx.save_for_backward(q, k, v, p, distance, gate)
        return torch.bmm(p, v).view(B, H, T, K)

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, d_BHTK: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, p, distance, gate = ctx.saved_tensors
        B, H, T, K = d_BHTK.shape
        d, scale = d_BHTK.reshape(B * H, T, K), 1 / math.sqrt(K)
        d_v = torch.bmm(p.transpose(1, 2), d)
        d_m = torch._softmax_backward_data(torch.bmm(d, v.transpose(1, 2)), p, -1, p.dtype)
        d_q, d_k = torch.bmm(d_m, k).mul_(scale), torch.bmm(d_m.transpose(1, 2), q).mul_(scale)
        d_distance = d_gate = None
        if distance is not None:
            d_distance = d_m.view(B, H, T, -1).to(distance.dtype)
            each = zip(d_distance, distance.expand_as(d_distance), strict=True)
            d_gate = torch.stack([(own * of_row).sum(-1) for own, of_row in each])
            d_distance = d_distance.mul_(gate[..., None]).sum_to_size(distance.shape)
        return *(x.view(B, H, -1, K) for x in (d_q, d_k, d_v)), None, d_distance, d_gate


def of_distance(by_distance_MH: Tensor, index_BTT: Tensor) -> Tensor:
    """Rows of a table as (B, H, T, T)."""
    if not is_mixed_on_cpu(by_distance_MH):
        return F.embedding(index_BTT, by_distance_MH).permute(0, 3, 1, 2).contiguous()
    return OfDistance.apply(by_distance_MH, index_BTT)


class OfDistance(torch.autograd.Function):
    """The gradient of a row is the sum of those of its copies."""

    @staticmethod
    def forward(ctx: FunctionCtx, by_distance_MH: Tensor, index_BTT: Tensor) -> Tensor:
        ctx.save_for_backward(index_BTT)
        ctx.rows, ctx.dtype = len(by_distance_MH), by_distance_MH.dtype
        return F.embedding(index_BTT, by_distance_MH).permute(0, 3, 1, 2).contiguous()

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, d_BHTT: Tensor) -> tuple[Tensor, None]:
        [index_BTT] = ctx.saved_tensors
        index = index_BTT.flatten()
        sums = [index.bincount(d_BHTT[:, h].flatten(), minlength=ctx.rows) for h in range(d_BHTT.shape[1])]
        return torch.stack(sums, 1).to(ctx.dtype), None


def full_rows(states_ND: Tensor) -> Tensor:
    """With rows of zeros at the end, to a multiple of ROWS: to compile a product takes longer than a small product."""
    return F.pad(states_ND, (0, 0, 0, -len(states_ND) % ROWS)) if is_mixed_on_cpu(states_ND) else states_ND


def cross_entropy(logits_NV: Tensor, targets_N: Tensor) -> tuple[Tensor, Tensor]:
    """Summed, in fp32 at least, and the number of right guesses; of equal logits the first one is the guess. Rows of
    logits beyond the targets do not count."""
    if logits_NV.dtype == torch.bfloat16 and is_mixed_on_cpu(logits_NV):
        return CrossEntropy.apply(logits_NV, targets_N)
    logits_NV = logits_NV.to(torch.promote_types(logits_NV.dtype, torch.float32))
    loss = F.cross_entropy(logits_NV, targets_N, reduction="sum")
    return loss, right_guesses(logits_NV.detach(), targets_N)


def answers_at_once(tensor: Tensor) -> bool:
    """A GPU answers when all that it was told before is done."""
    return tensor.device.type == "cpu" and not torch.compiler.is_compiling()


def right_guesses(logits_NV: Tensor, targets_N: Tensor) -> Tensor:
    """A processor finds the largest sooner than its place, which matters where the target is as large."""
    if answers_at_once(logits_NV):
        own_N = logits_NV.gather(1, targets_N[:, None]).squeeze(1)
        return guessed(logits_NV, targets_N, own_N == logits_NV.amax(1))
    return (logits_NV.argmax(1) == targets_N).sum()


def guessed(logits_NV: Tensor, targets_N: Tensor, likely_N: Tensor) -> Tensor:
    """Of the rows whose target is as likely as the guess."""
    likely = likely_N.nonzero().squeeze(1)
    return (logits_NV[likely].argmax(1) == targets_N[likely]).sum()


class CrossEntropy(torch.autograd.Function):
    """L = sum over n of log Z - x_target, with Z = sum over v of exp(x_v).

    dx = exp(x - log Z) - [v is the target]
    """

    @staticmethod
    def forward(ctx: FunctionCtx, logits_NV: Tensor, targets_N: Tensor) -> tuple[Tensor, Tensor]:
        N, dtype = len(targets_N), torch.promote_types(logits_NV.dtype, torch.float32)
        own_N = logits_NV[:N].gather(1, targets_N[:, None]).squeeze(1).to(dtype)
        top_N, log_z_N = torch.empty(N, dtype=dtype), torch.empty(N, dtype=dtype)
        room = torch.empty(0, dtype=dtype)
        for rows in blocks(N, logits_NV.shape[1]):
            x = room.resize_(logits_NV[rows].shape).copy_(logits_NV[rows])
            top = torch.amax(x, 1, out=top_N[rows])
            torch.sum(x.sub_(top[:, None]).exp_(), 1, out=log_z_N[rows]).log_().add_(top)
        ctx.save_for_backward(logits_NV, targets_N, log_z_N)
        right = guessed(logits_NV, targets_N, own_N == top_N)
        ctx.mark_non_differentiable(right)
        return (log_z_N - own_N).sum(), right

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, d: Tensor, _: Tensor) -> tuple[Tensor, None]:
        logits_NV, targets_N, log_z_N = ctx.saved_tensors
        N, d_NV, room = len(targets_N), torch.empty_like(logits_NV), torch.empty(0, dtype=log_z_N.dtype)
        for rows in blocks(N, logits_NV.shape[1]):
            x = room.resize_(logits_NV[rows].shape).copy_(logits_NV[rows])
            x.sub_(log_z_N[rows, None]).exp_()
            x[torch.arange(len(x)), targets_N[rows]] -= 1
            d_NV[rows] = x.mul_(d)
        d_NV[N:] = 0
        return d_NV, None


def blocks_of(logits_NV: Tensor, N: int) -> list[slice]:
    """The first N rows, on a CPU those together that stay near the processor."""
    return blocks(N, logits_NV.shape[1]) if logits_NV.device.type == "cpu" and N else [slice(0, N)]


def blocks(N: int, V: int) -> list[slice]:
    rows = max(1, IN_CACHE // max(1, V))
    return [slice(first, min(first + rows, N)) for first in range(0, N, rows)]
