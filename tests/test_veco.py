"""VECO: who sees whom across two segments, what the gradient reaches, the two phases, what is made of the network."""

import dataclasses

import pytest
import torch
from torch import Tensor

from common.errors import UserError
from engine.assembly import Seq2Seq, decoder_of_veco
from engine.attention_rules import own_side
from engine.checkpoint import describe_model, load_encoder, load_weights, save_weights
from engine.config import FirstPhase, ObjectiveConfig, RunConfig, ScheduleConfig
from engine.dist import Ranks
from engine.model import FIRST_POSITION
from engine.objectives import OBJECTIVES, mlm, veco
from engine.objectives.base import Batch
from pretrain import new_optimizer
from small_corpus import mixture
from small_engine import CONFIG, batches_of, model_of, run_of, watch_embeddings
from training.assembly import PretrainingModel, frozen_weights, micro_batches

pytestmark = pytest.mark.usefixtures("double")

PAIRS, TLM = ObjectiveConfig("veco-pairs"), ObjectiveConfig("tlm", draws="veco-pairs")
FULL = ObjectiveConfig("veco-pairs", options={"cs_self": "full"})


def veco_model(run: RunConfig) -> PretrainingModel:
    """With cross-attention as training leaves it: no longer silent."""
    model = model_of(run)
    for layer in model.cross_attention:
        torch.nn.init.normal_(layer.output.weight, std=0.2)
        torch.nn.init.normal_(layer.norm.weight, 1.0, 0.1)
    return model


def seq2seq_of_veco(weights: dict[str, Tensor], decoder_layers: int, which: str = "last") -> Seq2Seq:
    """As pretrain.py loads it."""
    own = {name: tensor for name, tensor in weights.items() if name.startswith(("encoder.", "mlm_head."))}
    model = Seq2Seq(CONFIG, decoder_layers)
    model.load_state_dict(own | decoder_of_veco(weights, CONFIG, decoder_layers, which))
    return model


def pair_batch(shards, objective: ObjectiveConfig = PAIRS) -> Batch:
    [batch] = batches_of(mixture(shards, "bitext", form="apart", row_length=48), objective)
    return batch


def place_of(batch: Batch, chosen: int) -> tuple[int, int, Tensor, Tensor]:
    """Row and column of a selected token, and (B, T) which tokens are of its own and of the other side."""
    row, column = divmod(int(batch.selected[chosen]), batch.tokens.shape[1])
    in_row = torch.zeros_like(batch.tokens, dtype=torch.bool)
    in_row[row] = batch.fields.document[row] == batch.fields.document[row, column]
    own = batch.fields.side == batch.fields.side[row, column]
    return row, column, in_row & own, in_row & ~own


def logits_of(model: PretrainingModel, states_BTD: Tensor, row: int, column: int) -> Tensor:
    return model.mlm_head(states_BTD[row, column], model.encoder.tokens.weight)


@pytest.mark.parametrize("objective", [PAIRS, FULL], ids=["causal", "full"])
def test_a_token_sees_its_own_side_so_far_and_all_of_the_other(shards, objective):
    model = veco_model(run_of(objective))
    batch = pair_batch(shards, objective)
    embedded = watch_embeddings(model.encoder)
    memory = batch.states(model.encoder, own_side)
    states = veco.crossed(model, batch, memory)  # not cut off, so that the gradient shows what it reads
    for chosen in range(0, len(batch.selected), 5):
        row, column, own, other = place_of(batch, chosen)
        logits = logits_of(model, states, row, column)
        direction = torch.randn_like(logits)
        of_memory, of_decoder = torch.autograd.grad(logits @ direction, embedded, retain_graph=True)
        assert torch.equal((of_memory != 0).any(-1), other)
        so_far = own & (batch.fields.position <= batch.fields.position[row, column])
        assert torch.equal((of_decoder != 0).any(-1), own if objective is FULL else so_far)


def test_what_comes_later_changes_no_logit(shards):
    for objective in (PAIRS, FULL):
        model = veco_model(run_of(objective))
        batch = pair_batch(shards, objective)
        row, column, own, _ = place_of(batch, 0)
        later = own & (batch.fields.position > batch.fields.position[row, column])
        assert later.any()
        with torch.no_grad():
            memory = batch.states(model.encoder, own_side)
            before = logits_of(model, veco.crossed(model, batch, memory), row, column)
            batch.tokens = torch.where(later, 4 + (batch.tokens + 1) % 40, batch.tokens)
            after = logits_of(model, veco.crossed(model, batch, memory), row, column)
        assert torch.equal(before, after) == (objective is PAIRS)


def test_the_memory_is_cut_off_from_the_gradient(shards):
    model = veco_model(run_of(PAIRS))
    batch = pair_batch(shards)
    embedded = watch_embeddings(model.encoder)
    loss = veco.veco_loss(model, batch).sums
    parameters = dict(model.named_parameters())
    gradients = torch.autograd.grad(loss["cs"], [*embedded, *parameters.values()], allow_unused=True, retain_graph=True)
    of_is, of_cs, of_tlm = gradients[:3]
    assert of_is is None and of_tlm is None and (of_cs != 0).any()
    for name, gradient in zip(parameters, gradients[3:], strict=True):
        assert (gradient != 0).any(), name  # cross-attention, self-attention, FFN, head, embeddings of the target

    memory = batch.states(model.encoder, own_side)
    states = veco.crossed(model, batch, memory).flatten(0, 1)[batch.selected]
    uncut, _ = mlm.selected_cross_entropy(model, states, batch.targets)
    assert torch.equal(uncut, loss["cs"])
    (of_memory,) = torch.autograd.grad(uncut, memory)
    assert (of_memory != 0).any()


def test_the_parts_beside_it_do_not_touch_is(shards):
    model = veco_model(run_of(PAIRS))
    batch = pair_batch(shards)
    embedded = watch_embeddings(model.encoder)
    loss = veco.veco_loss(model, batch).sums
    alone, _ = mlm.selected_cross_entropy(
        model, batch.states(model.encoder, own_side).flatten(0, 1)[batch.selected], batch.targets
    )
    assert torch.equal(loss["is"], alone)
    (together,) = torch.autograd.grad(sum(loss.values()), embedded[0], retain_graph=True)
    (by_itself,) = torch.autograd.grad(alone, embedded[3])
    assert torch.equal(together, by_itself)


def test_is_is_the_encoder_on_each_segment_alone(shards, tmp_path):
    """Also what is exported for understanding: the weights without cross-attention."""
    model = veco_model(run_of(PAIRS))
    batch = pair_batch(shards)
    states = batch.states(model.encoder, own_side)
    save_weights(tmp_path / "veco", model, {"model": describe_model(CONFIG)})
    encoder, _ = load_encoder(tmp_path / "veco")
    encoder = encoder.eval().double()
    for chosen in range(0, len(batch.selected), 9):
        _, _, own, _ = place_of(batch, chosen)
        assert (encoder(batch.tokens[own][None])[0] - states[own]).abs().max() < 1e-12


def test_tlm_reads_the_same_row_as_one_document(shards, monkeypatch):
    model = veco_model(run_of(PAIRS))
    per_side = dataclasses.replace(OBJECTIVES["tlm"], corrupt=OBJECTIVES["veco-pairs"].corrupt)
    monkeypatch.setitem(OBJECTIVES, "tlm", per_side)
    apart = pair_batch(shards)
    [pairs] = batches_of(mixture(shards, "bitext", row_length=48), TLM)
    assert torch.equal(apart.fields.selected, pairs.fields.selected)
    loss, expected = veco.veco_loss(model, apart).sums["tlm"], mlm.masked_lm_loss(model, pairs).sums["loss"]
    assert torch.allclose(loss, expected, rtol=1e-12)
    difference = veco.joined(apart).states(model.encoder) - pairs.states(model.encoder)
    assert difference[apart.fields.document >= 0].abs().max() < 1e-12


@pytest.mark.parametrize(("tlm", "parts"), [(True, ("is", "cs", "tlm")), (False, ("is", "cs"))])
def test_the_parts_and_their_counts(shards, tlm, parts):
    objective = ObjectiveConfig("veco-pairs", options={"tlm": tlm})
    model, batch = veco_model(run_of(objective)), pair_batch(shards, objective)
    assert tuple(veco.veco_loss(model, batch).sums) == parts
    assert veco.count_parts(batch) == dict.fromkeys(parts, len(batch.targets))


def test_the_first_phase_trains_the_cross_attention_alone(shards):
    first = FirstPhase(steps=3, train=("cross_attention",), warmup_steps=1)
    run = dataclasses.replace(run_of(PAIRS), schedule=ScheduleConfig(10, 1, first=first))
    model = veco_model(run)
    own = mixture(shards, "bitext", form="apart", row_length=48)
    rows = own.assemble(own.next_layout())
    [batch] = micro_batches(rows, PAIRS, run, Ranks(), step=3)
    [later] = micro_batches(rows, PAIRS, run, Ranks(), step=4)
    assert batch.first_phase and not later.first_phase
    assert batch.states(model.encoder).requires_grad
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    frozen = frozen_weights(model, run)
    optimizer = new_optimizer(model, run, frozen, 3)
    assert not batch.states(model.encoder).requires_grad
    loss = veco.veco_loss(model, batch)
    assert tuple(loss.sums) == tuple(veco.count_parts(batch)) == ("cs",)
    assert torch.equal(loss.sums["cs"], veco.veco_loss(model, later).sums["cs"])
    loss.sums["cs"].backward()
    assert {n.split(".")[0] for n, p in model.named_parameters() if p.grad is not None} == {"cross_attention"}
    optimizer.step()
    moved = {name for name, weight in model.state_dict().items() if not torch.equal(weight, before[name])}
    assert moved == {name for name in before if name.startswith("cross_attention.")}
    new_optimizer(model, run, frozen, 4)
    sum(veco.veco_loss(model, later).sums.values()).backward()
    assert all(p.grad is not None for p in model.parameters())


def test_fresh_cross_attention_is_silent_and_takes_the_layer_norm_beside_it():
    model = model_of(run_of(PAIRS))
    for block in model.encoder.blocks:  # as a pre-trained encoder has them
        torch.nn.init.normal_(block.attention_norm.weight, 1.0, 0.3)
        torch.nn.init.normal_(block.attention_norm.bias, std=0.3)
    assert len(model.cross_attention) == CONFIG.layers
    assert all((cross.output.weight == 0).all() for cross in model.cross_attention)
    trained = model.cross_attention[1]
    torch.nn.init.normal_(trained.output.weight)
    before = trained.norm.weight.clone()
    veco.start(model, PAIRS, list, Ranks())
    assert torch.equal(trained.norm.weight, before)
    for layer in (0, 2):
        norm, beside = model.cross_attention[layer].norm, model.encoder.blocks[layer].attention_norm
        assert torch.equal(norm.weight, beside.weight) and torch.equal(norm.bias, beside.bias)
        assert norm.weight.data_ptr() != beside.weight.data_ptr()


@pytest.mark.parametrize(
    ("kind", "form", "name"), [("bitext", "apart", "veco-pairs"), ("mono", "segments", "veco-mono")]
)
def test_forward_passes_of_any_size_give_one_gradient(shards, kind, form, name):
    objective, gradients = ObjectiveConfig(name), []
    for device_rows in (8, 3):
        own = mixture(shards, kind, form=form, row_length=48)
        model = veco_model(run_of(objective))
        batches = batches_of(own, objective, device_rows=device_rows)
        for batch in batches:
            sum(veco.veco_loss(model, batch).sums.values()).backward()
        gradients.append([len(batches), *(p.grad for p in model.parameters())])
    assert (gradients[0][0], gradients[1][0]) == (1, 3)
    for a, b in zip(gradients[0][1:], gradients[1][1:], strict=True):
        assert torch.allclose(a, b, rtol=1e-9, atol=1e-10)


def test_the_decoder_of_all_layers_is_the_cross_sequence_pass(shards):
    model = veco_model(run_of(PAIRS))
    batch = pair_batch(shards)
    with torch.no_grad():
        states = veco.crossed(model, batch, batch.states(model.encoder, own_side))
        whole = seq2seq_of_veco(model.state_dict(), CONFIG.layers).eval()
        other_layers = seq2seq_of_veco(model.state_dict(), CONFIG.layers - 1).eval()
        for chosen in range(0, len(batch.selected), 9):
            row, column, own, other = place_of(batch, chosen)
            source, target = batch.tokens[other][None], batch.tokens[own][None]
            found = whole(source, torch.ones_like(source, dtype=torch.bool), target)[0]
            assert (found - states[own]).abs().max() < 1e-12
            at = batch.fields.position[row, column] - FIRST_POSITION
            assert torch.allclose(whole.logits(found[at]), logits_of(model, states, row, column), atol=1e-12)
            assert (
                other_layers(source, torch.ones_like(source, dtype=torch.bool), target)[0] - states[own]
            ).abs().max() > 0.1


def test_the_decoder_is_torchs_post_ln_decoder():
    model = seq2seq_of_veco(veco_model(run_of(PAIRS)).state_dict(), 2).eval()
    layer = torch.nn.TransformerDecoderLayer(16, 2, 32, 0.0, "gelu", 1e-5, batch_first=True, norm_first=False)
    theirs = torch.nn.TransformerDecoder(layer, 2).eval()
    names = {
        "self_attn.in_proj_": "block.attention.query_key_value.",
        "self_attn.out_proj.": "block.attention.output.",
        "multihead_attn.out_proj.": "cross.output.",
        "linear1.": "block.up.",
        "linear2.": "block.down.",
        "norm1.": "block.attention_norm.",
        "norm2.": "cross.norm.",
        "norm3.": "block.ffn_norm.",
    }
    for their, block, cross in zip(theirs.layers, model.decoder.blocks, model.decoder.cross_attention, strict=True):
        own = torch.nn.ModuleDict({"block": block, "cross": cross}).state_dict()
        state = {name + kind: own[mine + kind] for name, mine in names.items() for kind in ("weight", "bias")}
        for kind in ("weight", "bias"):
            state[f"multihead_attn.in_proj_{kind}"] = torch.cat(
                [own[f"cross.query.{kind}"], own[f"cross.key_value.{kind}"]]
            )
        their.load_state_dict(state)
    tokens, memory = torch.randint(4, 50, (2, 6)), torch.randn(2, 9, 16)
    real = torch.arange(9) < torch.tensor([[9], [5]])
    causal = torch.nn.Transformer.generate_square_subsequent_mask(6)
    expected = theirs(model.encoder.embed(tokens), memory, causal, memory_key_padding_mask=~real)
    assert (model.decode(tokens, memory, real) - expected).abs().max() < 1e-12


def test_padding_of_a_source_or_a_target_changes_nothing():
    model = seq2seq_of_veco(veco_model(run_of(PAIRS)).state_dict(), 2).eval()
    source, target = torch.randint(4, 50, (1, 7)), torch.randint(4, 50, (1, 5))
    real = torch.ones(1, 7, dtype=torch.bool)
    alone = model(source, real, target)
    pad = torch.nn.functional.pad
    padded = model(pad(source, (0, 3), value=1), pad(real, (0, 3)), pad(target, (0, 2), value=1))
    assert (padded[:, :5] - alone).abs().max() < 1e-12
    assert (model(source, pad(real[:, :6], (0, 1)), target) - alone).abs().max() > 1e-3


@pytest.mark.parametrize(("which", "layers"), [("last", [1, 2]), ("first", [0, 1])])
def test_the_decoder_is_made_of_copies(tmp_path, which, layers):
    save_weights(tmp_path / "veco", veco_model(run_of(PAIRS)), {"model": describe_model(CONFIG)})
    weights, _ = load_weights(tmp_path / "veco")
    model = seq2seq_of_veco(weights, 2, which)
    encoder, decoder = model.encoder, model.decoder
    for place, layer in enumerate(layers):
        for ours, theirs in (
            (decoder.blocks[place], encoder.blocks[layer].state_dict()),
            (
                decoder.cross_attention[place],
                {
                    name.removeprefix(f"cross_attention.{layer}."): tensor
                    for name, tensor in weights.items()
                    if name.startswith(f"cross_attention.{layer}.")
                },
            ),
        ):
            assert ours.state_dict().keys() == theirs.keys()
            assert all(torch.equal(tensor, theirs[name]) for name, tensor in ours.state_dict().items())
    storage = [parameter.data_ptr() for parameter in model.parameters()]
    assert len(set(storage)) == len(storage)
    assert sum(p.numel() for p in decoder.parameters()) == 2 * sum(
        p.numel() for part in (encoder.blocks[0], decoder.cross_attention[0]) for p in part.parameters()
    )
    with pytest.raises(UserError, match="decoder_layers: 4 is not between 1 and the 3"):
        seq2seq_of_veco(weights, 4)
    with pytest.raises(UserError, match="no cross_attention"):
        seq2seq_of_veco({n: t for n, t in weights.items() if n.startswith("encoder.")}, 2)
