"""Admin: nothing without the option, the paper's omega with it, and deep networks that a step moves less."""

import dataclasses
import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from common.errors import UserError
from engine.admin import set_residuals
from engine.assembly import Seq2Seq
from engine.checkpoint import describe_model, load_encoder, save_weights
from engine.config import ObjectiveConfig
from engine.dist import Ranks
from engine.model import Encoder
from engine.optim import AdamW, learning_rate, parameter_groups
from engine.rows import pad
from engine.shape import ModelConfig
from engine.tokenizer import BOS, EOS, PAD
from small_engine import model_of, run_of

CONFIG = ModelConfig(3, 16, 2, 32, 30, 40, dropout=0.0, attention_dropout=0.0, init_std=0.3, admin=True)
ENDS = ("attention_norm.residual", "norm.residual", "ffn_norm.residual")


def seq2seq(seed: int = 0, **changes) -> Seq2Seq:
    torch.manual_seed(seed)
    return Seq2Seq(dataclasses.replace(CONFIG, **changes), decoder_layers=2).eval()


def text(rows: int = 6, seed: int = 1) -> tuple[Tensor, Tensor, Tensor]:
    """Sources, what of them is real, and targets: padded, of several lengths."""
    rng = torch.Generator().manual_seed(seed)

    def sentences() -> list[list[int]]:
        lengths = torch.randint(2, 12, (rows,), generator=rng).tolist()
        return [[BOS, *torch.randint(4, 39, (n,), generator=rng).tolist(), EOS] for n in lengths]

    return *pad(sentences()), pad(sentences())[0]


def omegas(model: nn.Module) -> list[Tensor]:
    return [weight for name, weight in model.named_parameters() if name.endswith(".residual")]


def profiled(model: Seq2Seq, *given: Tensor) -> Seq2Seq:
    set_residuals(model, lambda: model(*given), Ranks())
    return model


def test_without_the_option_there_is_nothing_new():
    plain, admin = seq2seq(admin=False), seq2seq()
    ours, theirs = plain.state_dict(), admin.state_dict()
    assert not any("residual" in name for name in ours)
    new = {name for name in theirs if name not in ours}
    assert len(new) == 3 * 2 + 2 * 3 and all(name.endswith(ENDS) for name in new)
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)  # the same random draws
    assert torch.equal(plain(*text()), admin(*text()))  # and x * 1 is x


def test_a_block_is_layer_norm_of_the_sum():
    def after(norm: nn.LayerNorm, x: Tensor, f: Tensor) -> Tensor:
        x = x if norm.residual is None else x * norm.residual
        return F.layer_norm(x + f, norm.normalized_shape, norm.weight, norm.bias, norm.eps)

    for admin in (False, True):
        block = seq2seq(admin=admin).encoder.blocks[0]
        with torch.no_grad():
            for weight in block.parameters():
                weight += 0.1 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(1))
        x = torch.randn(2, 5, 16, generator=torch.Generator().manual_seed(2))
        middle = after(block.attention_norm, x, block.attention(x, None))
        expected = after(block.ffn_norm, middle, block.down(F.gelu(block.up(middle))))
        assert torch.equal(block(x, None), expected)


def test_omega_is_the_variance_of_all_that_came_before():
    source, real, target = text()
    plain, outputs = seq2seq(admin=False), []
    for name, part in plain.named_modules():  # the last matrix of each sublayer makes f
        if name.endswith(("attention.output", "down")) or ("cross_attention" in name and name.endswith("output")):
            part.register_forward_hook(lambda part, given, output: outputs.append(output))
    plain(source, real, target)
    encoder, decoder = outputs[: 2 * 3], outputs[2 * 3 :]
    assert len(decoder) == 3 * 2
    expected = []
    for tokens, own in ((source, encoder), (target, decoder)):
        values = [part[tokens != PAD].var(correction=0).item() for part in (plain.encoder.embed(tokens), *own)]
        expected += [math.sqrt(sum(values[: i + 1])) for i in range(len(own))]

    model = profiled(seq2seq(), source, real, target)
    layers = zip(model.decoder.blocks, model.decoder.cross_attention, strict=True)
    norms = [norm for block in model.encoder.blocks for norm in (block.attention_norm, block.ffn_norm)]
    norms += [norm for block, cross in layers for norm in (block.attention_norm, cross.norm, block.ffn_norm)]
    for norm, value in zip(norms, expected, strict=True):
        assert torch.allclose(norm.residual, torch.full((16,), value), rtol=1e-5)
    assert expected[0] == pytest.approx(1.0, abs=1e-3) and expected[5] > 1.5


def test_padding_dropout_and_what_was_set_before_change_no_omega():
    source, real, target = text()
    expected = omegas(profiled(seq2seq(), source, real, target))
    wider = [F.pad(part, (0, 5), value=value) for part, value in ((source, PAD), (real, False), (target, PAD))]
    model = seq2seq(dropout=0.5, attention_dropout=0.5).train()
    for _ in range(2):
        profiled(model, *wider)
        assert all(torch.allclose(a, b, rtol=1e-5) for a, b in zip(omegas(model), expected, strict=True))
    assert model.training and model.encoder.blocks[0].training
    assert not any(part._forward_pre_hooks for part in model.modules())


def test_ranks_with_other_rows_set_what_one_with_all_of_them_sets():
    class OneOfTwo(Ranks):
        others: list[float] | None = None

        def sum(self, values: list[float]) -> list[float]:
            self.own = values
            return [a + b for a, b in zip(values, self.others or values, strict=True)]

    given = text(rows=6)
    expected = omegas(profiled(seq2seq(), *given))
    first, second = ([part[rows] for part in given] for rows in (slice(0, 2), slice(2, 6)))
    ranks, model = OneOfTwo(), seq2seq()
    set_residuals(model, lambda: model(*first), ranks)
    ranks.others = ranks.own
    set_residuals(model, lambda: model(*second), ranks)
    assert all(torch.allclose(a, b, rtol=1e-5) for a, b in zip(omegas(model), expected, strict=True))


def test_an_encoder_alone_has_residuals_too(tmp_path):
    model = model_of(run_of(ObjectiveConfig("mmlm"), admin=True))
    tokens = text()[0]
    set_residuals(model, lambda: model.encoder(tokens, mask=tokens != PAD), Ranks())
    assert len(omegas(model)) == 6 and all(omega.unique().numel() == 1 for omega in omegas(model))
    save_weights(tmp_path / "weights.safetensors", model, {"model": describe_model(model.encoder.config)})
    loaded, _ = load_encoder(tmp_path / "weights.safetensors")
    assert loaded.config.admin
    assert all(torch.equal(a, b) for a, b in zip(omegas(loaded), omegas(model), strict=True))


def test_what_is_neither_encoder_nor_decoder_is_refused():
    model = model_of(run_of(ObjectiveConfig("veco-mono"), admin=True))
    with pytest.raises(UserError, match=r"model\.admin.*cross_attention\.0\.norm"):
        set_residuals(model, lambda: None, Ranks())
    model = seq2seq()
    with pytest.raises(ValueError, match="all layers"):
        set_residuals(model, lambda: model.encoder(text()[0]), Ranks())


def test_omega_is_trained_and_does_not_decay():
    model = seq2seq()
    groups = parameter_groups(model, weight_decay=0.1)
    unused = {id(p) for group in groups if not group["weight_decay"] for p in group["params"]}
    assert {id(omega) for omega in omegas(model)} <= unused
    profiled(model, *text())
    model(*text()).square().sum().backward()
    assert all(omega.grad is not None and (omega.grad != 0).any() for omega in omegas(model))


def moved(layers: int, admin: bool, seed: int) -> float:
    """How far a small random change of the blocks' weights moves the output: mean squares, of the output's over it."""
    torch.manual_seed(seed)
    config = dataclasses.replace(CONFIG, layers=layers, width=32, init_std=32**-0.5, admin=admin)
    encoder = Encoder(config).double().eval()
    tokens = text(rows=8)[0]
    real = tokens != PAD
    if admin:
        model = nn.ModuleDict({"encoder": encoder})
        set_residuals(model, lambda: encoder(tokens, mask=real), Ranks())
    with torch.no_grad():
        before = encoder(tokens, mask=real)
        for part in encoder.blocks.modules():
            if isinstance(part, nn.Linear):
                part.weight += 1e-4 * config.init_std * torch.randn_like(part.weight)
        return float((encoder(tokens, mask=real) - before)[real].square().mean()) / 1e-8


def test_a_change_of_the_weights_moves_a_deep_network_little():
    """Section 4.1 of the paper: |F(x, W) - F(x, W*)|^2 is O(layers) with post-LN, O(log layers) with Admin."""
    growth = {}
    for admin in (False, True):
        few, many = (sum(moved(layers, admin, seed) for seed in range(4)) for layers in (4, 64))
        growth[admin] = many / few
    assert growth[False] > 12
    assert growth[True] < 6


def loss_of_copying(admin: bool) -> float:
    """Of an encoder of 24 layers after 40 updates that teach it to say its own input; log 16 is a guess."""
    torch.manual_seed(0)
    encoder = Encoder(dataclasses.replace(CONFIG, layers=24, width=32, heads=4, init_std=32**-0.5, admin=admin))
    model = nn.ModuleDict({"encoder": encoder})
    tokens = torch.randint(4, 20, (41, 16, 8))
    if admin:
        set_residuals(model, lambda: encoder(tokens[0]), Ranks())
    optimizer = AdamW(parameter_groups(model, 0.01), 5e-3, betas=(0.9, 0.98), eps=1e-6)
    for step in range(1, 41):
        for group in optimizer.groups:
            group["lr"] = learning_rate(step, 5e-3, 20, 40)
        logits = F.linear(encoder(tokens[step]), encoder.tokens.weight)[..., :20]
        loss = F.cross_entropy(logits.flatten(0, 1), tokens[step].flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return float(loss.detach())


def test_a_deep_network_learns_with_admin_alone():
    assert loss_of_copying(admin=False) > 0.9 * math.log(16)
    assert loss_of_copying(admin=True) < 0.3
