"""Admin: the sizes of the residuals with which a post-LN Transformer of many layers trains (ModelConfig.admin).

    x_i = LN(x_{i-1} * omega_i + f_i(x_{i-1}))                    sublayer i; omega_i is learned, a number per feature
    omega_i = sqrt(Var[x_0] + sum over j < i of Var[f_j(x_{j-1})])                   its value before the first update

With omega = 1 each sublayer replaces a constant share of what came before it, so that a small change of all weights
moves the output by O(layers) and the first updates diverge. With these omega the share falls as 1 / i and the output
moves by O(log layers).

    Liu, Liu, Gao, Chen, Han (2020): Understanding the Difficulty of Training Transformers, section 4
    Liu, Duh, Liu, Gao (2020): Very Deep Transformers for Neural Machine Translation; there 60 + 12 layers

Variances are over all features of all real tokens that one pass with omega = 1 sees, as in the papers. Encoder and
decoder are numbered each on its own; in a decoder block self-attention comes first, then cross-attention, then the FFN.
The authors' code begins with 1 in place of Var[x_0], and sets each omega before it measures the next sublayer; as every
f reads the output of a LayerNorm, that makes little difference.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from common.errors import UserError
from engine.dist import Ranks, is_sharded
from engine.model import ResidualNorm
from engine.tokenizer import PAD


@torch.no_grad()
def set_residuals(model: nn.Module, profile: Callable[[], object], ranks: Ranks) -> None:
    """Set every omega of model.encoder, and of model.decoder if there is one.

    `profile` runs these on real text: once or more, always embedding the tokens just before the blocks that read them.
    Here that happens in eval mode and without gradients. Each rank may profile other rows: what they see is summed over
    the ranks, so that all set the same.
    """
    if is_sharded(model):
        raise ValueError("set the residuals first, then shard the weights: what is set in a gathered copy is lost")
    stacks = stacks_of(model)
    norms = [norm for stack in stacks for norm in stack]
    for norm in norms:
        norm.residual.fill_(1.0)
    sums = {norm: torch.zeros(2, 3, dtype=torch.float64) for norm in norms}  # of x and f: count, sum, sum of squares
    real_BT = torch.empty(0)

    def note_tokens(embedding: nn.Module, given: tuple[Tensor]) -> None:
        nonlocal real_BT
        real_BT = given[0] != PAD

    def note_sublayer(norm: ResidualNorm, given: tuple[Tensor, Tensor]) -> None:
        sums[norm] += torch.stack([moments(x_BTD[real_BT]) for x_BTD in given]).cpu()

    hooks = [model.encoder.tokens.register_forward_pre_hook(note_tokens)]
    hooks += [norm.register_forward_pre_hook(note_sublayer) for norm in norms]
    training = model.training
    model.eval()
    try:
        profile()
    finally:
        model.train(training)
        for hook in hooks:
            hook.remove()
    flat = ranks.sum(torch.stack(list(sums.values())).flatten().tolist())
    count, total, squares = torch.tensor(flat, dtype=torch.float64).view(len(norms), 2, 3).unbind(2)
    if not count.all():
        raise ValueError("the pass did not run all layers of encoder and decoder")
    variances = squares / count - (total / count) ** 2
    for stack, variance in zip(stacks, variances.split([len(stack) for stack in stacks]), strict=True):
        before = torch.cat([variance[:1, 0], variance[:-1, 1]]).cumsum(0)  # of x_0, and of each f but the last
        for norm, omega in zip(stack, before.sqrt().tolist(), strict=True):
            norm.residual.fill_(omega)


def stacks_of(model: nn.Module) -> list[list[ResidualNorm]]:
    """The ends of all sublayers in the order of a pass: those of the encoder, and those of the decoder."""
    stacks = [[norm for block in model.encoder.blocks for norm in (block.attention_norm, block.ffn_norm)]]
    if hasattr(model, "decoder"):
        layers = zip(model.decoder.blocks, model.decoder.cross_attention, strict=True)
        stacks.append([norm for own, cross in layers for norm in (own.attention_norm, cross.norm, own.ffn_norm)])
    known = {norm for stack in stacks for norm in stack}
    for name, module in model.named_modules():
        if isinstance(module, ResidualNorm) and module not in known:
            raise UserError(
                f"model.admin: it sets the residuals of `encoder` and `decoder`, and {name} is of neither; remove the "
                "key, or the objective that brings this module"
            )
    return stacks


def moments(x: Tensor) -> Tensor:
    """(3,) count, sum and sum of squares."""
    x = x.double()
    return torch.stack([x.new_tensor(x.numel()), x.sum(), x.square().sum()])
