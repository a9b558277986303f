"""XLM-E: replaced token detection and the gated relative position bias (invariants 9 and 10)."""

import dataclasses

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention.flex_attention import flex_attention

from common.errors import UserError
from engine import attention
from engine.attention import DistanceTable, Gate, attend, distance_biases, distance_buckets
from engine.attention_rules import Tokens, full
from engine.config import MaskSpec, ObjectiveConfig, build
from engine.dist import Ranks
from engine.masks import block_mask, boolean_mask
from engine.model import Encoder
from engine.objectives import OBJECTIVES, mlm, rtd
from engine.objectives.base import Batch
from engine.objectives.sampling import draws
from engine.randomness import uniform
from engine.shape import RelativeBias
from pretrain import backward
from small_corpus import VOCABULARY, mixture
from small_engine import CONFIG, batches_of, model_of, run_of

pytestmark = pytest.mark.usefixtures("double")

MASK = VOCABULARY - 1
ALL_MASKED = MaskSpec(0.15, 1.0, 0.0, 0.0)


def objective(name: str = "mrtd", **options: object) -> ObjectiveConfig:
    return ObjectiveConfig(name, mask=ALL_MASKED, options={"generator_layers": 1, **options})


def setting(shards, own: ObjectiveConfig, **options):
    """A model and one batch of eight rows."""
    model = model_of(run_of(own, relative_bias=RelativeBias()))
    data = mixture(shards, "mono" if own.name == "mrtd" else "bitext")
    [batch] = batches_of(data, own, **options)
    return model, batch


def watch_discriminator(model) -> dict[str, Tensor]:
    """What the discriminator reads, and its logits, of the next pass. The generator never calls the encoder whole."""
    seen = {}
    model.encoder.register_forward_pre_hook(lambda module, inputs: seen.update(tokens=inputs[0]))
    model.discriminator_head.register_forward_hook(lambda module, inputs, output: seen.update(logits=output))
    return seen


@pytest.mark.parametrize("name", ["mrtd", "trtd"])
def test_the_discriminator_reads_samples_at_selected_places_and_originals_elsewhere(shards, name):
    model, batch = setting(shards, objective(name))
    seen = watch_discriminator(model)
    loss = rtd.replaced_token_detection_loss(model, batch)
    tokens, selected, real = seen["tokens"], batch.fields.selected, batch.fields.document >= 0
    assert (batch.tokens[selected] == MASK).all()
    assert (tokens != MASK).all()
    assert torch.equal(tokens[~selected], batch.original[~selected])
    replaced = tokens != batch.original
    assert replaced[selected].any()
    by_hand = F.binary_cross_entropy_with_logits(seen["logits"], replaced[real].double(), reduction="sum")
    assert torch.equal(loss.sums["discriminator_loss"], by_hand)
    guess = seen["logits"] > 0
    assert loss.signals["accuracy_on_replaced"] == (int(guess[replaced[real]].sum()), int(replaced.sum()))
    assert loss.signals["accuracy_on_original"] == (
        int((~guess)[~replaced[real]].sum()),
        int((real & ~replaced).sum()),
    )


@pytest.mark.parametrize(("shift", "share"), [(0, 0.0), (1, 1.0)])
def test_a_forced_generator_sets_every_label(shards, monkeypatch, shift, share):
    model, batch = setting(shards, objective())
    wanted = 4 + (batch.targets - 4 + shift) % (VOCABULARY - 5)
    monkeypatch.setattr(rtd, "generator_logits", lambda *_: 1e3 * F.one_hot(wanted, VOCABULARY).double())
    loss = rtd.replaced_token_detection_loss(model, batch)
    real = int((batch.fields.document >= 0).sum())
    assert loss.signals["replaced"] == (share * len(batch.targets), real)
    assert loss.signals["generator_accuracy"] == ((1 - share) * len(batch.targets), len(batch.targets))


def chi_square(found: Tensor, probabilities: Tensor) -> float:
    expected = probabilities * len(found)
    return float(((found.bincount(minlength=len(probabilities)) - expected).square() / expected).sum())


def test_samples_follow_the_softmax():
    torch.manual_seed(0)
    logits = torch.randn(VOCABULARY)
    logits[MASK] = 3.0
    numbers = torch.from_numpy(1 - uniform(np.arange(20_000, dtype=np.uint64)))
    found = rtd.sample_tokens(logits.expand(len(numbers), -1), numbers)
    assert (found != MASK).all()
    probabilities = logits[:MASK].softmax(-1)
    limit = 97.0  # 99.9 % quantile of chi-square with 58 degrees of freedom
    assert chi_square(found, probabilities) < limit
    assert chi_square(rtd.sample_tokens(logits.expand(len(numbers), -1), numbers**1.1), probabilities) > limit
    assert chi_square(torch.multinomial((0.9 * logits[:MASK]).softmax(-1), len(numbers), True), probabilities) > limit


@pytest.mark.parametrize("peak", [0, 7, MASK - 1])
def test_a_sample_of_certainty_is_certain(peak):
    """At both ends of the draws, and where <mask> takes all the mass that fp32 can hold."""
    logits = torch.full((4, VOCABULARY), -100.0)
    logits[:, peak], logits[:, MASK] = 100.0, 300.0
    assert rtd.sample_tokens(logits, torch.tensor([2.0**-53, 0.5, 1 - 2.0**-53, 1.0])).tolist() == [peak] * 4


def test_draws_belong_to_the_item_and_the_place_alone(shards):
    found = []
    for packing in (True, False):
        own = mixture(shards, "bitext", row_length=48, rows=8 if packing else 24, packing=packing)
        found.append({})
        for _ in range(4 if packing else 12):
            for batch in batches_of(own, objective("trtd")):
                keys, offsets = (field.flatten()[batch.selected] for field in (batch.key, batch.offset))
                places = zip(keys.tolist(), offsets.tolist(), strict=True)
                found[-1] |= dict(zip(places, draws(batch, batch.selected, rtd.SAMPLE).tolist(), strict=True))
    common = found[0].keys() & found[1].keys()
    assert len(common) > 100
    assert all(found[0][place] == found[1][place] for place in common)
    assert len(set(found[0].values())) == len(found[0])
    assert 0.4 < np.mean(list(found[0].values())) < 0.6


def trained_by(model, total: Tensor) -> set[str]:
    names, parameters = zip(*model.named_parameters(), strict=True)
    gradients = torch.autograd.grad(total, parameters, allow_unused=True, retain_graph=True)
    return {name for name, g in zip(names, gradients, strict=True) if g is not None and (g != 0).any()}


SHARED = {"encoder.tokens.weight", "encoder.positions.weight", "encoder.embedding_norm.weight"}


def test_neither_loss_trains_the_other_network(shards):
    model, batch = setting(shards, objective())
    loss = rtd.replaced_token_detection_loss(model, batch)
    of_generator = trained_by(model, loss.sums["generator_loss"])
    of_discriminator = trained_by(model, loss.sums["discriminator_loss"])
    shared = {name for name in of_generator & of_discriminator}
    assert shared == {*SHARED, "encoder.embedding_norm.bias"}
    assert of_generator | of_discriminator == {name for name, _ in model.named_parameters()}
    assert all(name.startswith("generator.") for name in of_generator - shared)
    assert all(name.startswith(("encoder.", "discriminator_head.")) for name in of_discriminator - shared)
    assert {"generator.distances.0.table.weight", "generator.head.bias"} <= of_generator - shared
    assert {"encoder.distances.0.table.weight", "encoder.blocks.0.attention.gate.w"} <= of_discriminator - shared


def test_networks_that_share_a_block_would_be_found(shards):
    model, batch = setting(shards, objective())
    model.generator.blocks[0] = model.encoder.blocks[0]
    loss = rtd.replaced_token_detection_loss(model, batch)
    both = trained_by(model, loss.sums["generator_loss"]) & trained_by(model, loss.sums["discriminator_loss"])
    assert not both <= {*SHARED, "encoder.embedding_norm.bias"}


def test_the_discriminators_gradient_can_be_kept_out_of_the_token_table(shards):
    sums = {}
    for share in ("both", "no-discriminator-gradient"):
        model, batch = setting(shards, objective(share=share))
        loss = rtd.replaced_token_detection_loss(model, batch)
        sums[share] = [float(value.detach()) for value in loss.sums.values()]
        kept_out = share != "both"
        of_discriminator = trained_by(model, loss.sums["discriminator_loss"])
        assert SHARED - of_discriminator == ({"encoder.tokens.weight"} if kept_out else set())
        assert trained_by(model, loss.sums["generator_loss"]) >= SHARED
    assert sums["both"] == sums["no-discriminator-gradient"]


def gradients(model) -> dict[str, Tensor]:
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("name", ["mrtd", "trtd"])
def test_the_total_is_the_generators_loss_and_fifty_of_the_discriminators(shards, name):
    own = objective(name)
    model, batch = setting(shards, own)
    signals = backward(model, run_of(own), own, [batch], Ranks())
    found = gradients(model)
    model.zero_grad()
    loss = rtd.replaced_token_detection_loss(model, batch)
    selected, real = int(batch.fields.selected.sum()), int((batch.fields.document >= 0).sum())
    generator = loss.sums["generator_loss"] / selected
    discriminator = loss.sums["discriminator_loss"] / real
    (generator + 50 * discriminator).backward()
    assert all(torch.allclose(found[name], gradient, rtol=1e-10) for name, gradient in gradients(model).items())
    assert signals[f"{name}/generator_loss"] == pytest.approx(float(generator.detach()), rel=1e-12)
    assert signals[f"{name}/discriminator_loss"] == pytest.approx(float(discriminator.detach()), rel=1e-12)
    assert signals[f"{name}/predictions"] == selected


def test_micro_batches_add_up_to_the_whole_batch(shards):
    found = []
    for device_rows in (99, 3, 1):
        own = objective("trtd")
        model = model_of(run_of(own, relative_bias=RelativeBias()))
        batches = batches_of(mixture(shards, "bitext"), own, device_rows=device_rows)
        found.append((backward(model, run_of(own), own, batches, Ranks()), gradients(model)))
    for signals, own in found[1:]:
        assert signals == pytest.approx(found[0][0], rel=1e-10)
        assert all(torch.allclose(own[name], whole, rtol=1e-9, atol=1e-12) for name, whole in found[0][1].items())


def test_chunks_change_neither_samples_nor_gradients(shards, monkeypatch):
    found = []
    for chunk in (4096, 5):
        monkeypatch.setattr(mlm, "CHUNK", chunk)
        model, batch = setting(shards, objective())
        assert len(batch.targets) > 10
        seen = watch_discriminator(model)
        sum(rtd.replaced_token_detection_loss(model, batch).sums.values()).backward()
        found.append((seen["tokens"], gradients(model)))
    assert torch.equal(found[0][0], found[1][0])
    assert all(torch.allclose(found[1][1][name], whole, rtol=1e-10, atol=1e-14) for name, whole in found[0][1].items())


def test_sampling_without_dropout(shards):
    """It samples what the network in evaluation mode would, whatever the dropout, and leaves the modes as they were."""
    own = objective(sampling="eval")
    run = run_of(own, dropout=0.3)
    [batch] = batches_of(mixture(shards, "mono"), own)
    seen = []
    for seed in (1, 2):
        model = model_of(run).train()
        torch.manual_seed(seed)
        before = torch.get_rng_state()
        with torch.no_grad():
            rtd.sample_without_dropout(model, batch)
        assert torch.equal(torch.get_rng_state(), before)
        assert all(part.training for part in model.modules())
        watched = watch_discriminator(model)
        rtd.replaced_token_detection_loss(model, batch)
        seen.append(watched["tokens"])
    plain = batch_with(batch, objective())
    model = model_of(run)
    watched = watch_discriminator(model)
    rtd.replaced_token_detection_loss(model, plain)
    assert torch.equal(seen[0], seen[1]) and torch.equal(seen[0], watched["tokens"])
    model.train()
    rtd.replaced_token_detection_loss(model, plain)
    assert not torch.equal(seen[0], watched["tokens"])  # dropout would have shown


def batch_with(batch: Batch, own: ObjectiveConfig) -> Batch:
    return dataclasses.replace(batch, objective=own, extra={})


def test_both_objectives_train_one_generator_without_tables_of_its_own():
    run = run_of(objective("mrtd", generator_layers=2), objective("trtd", generator_layers=2))
    model = model_of(run)
    assert len(model.generator.blocks) == 2 and len(model.generator.distances) == 0
    wide = [name for name, p in model.generator.named_parameters() if VOCABULARY in p.shape]
    assert wide == ["head.bias"]
    assert not {id(p) for p in model.generator.parameters()} & {id(p) for p in model.encoder.parameters()}
    assert set(OBJECTIVES["mrtd"].training_only) == {"generator", "discriminator_head"}
    assert {name for name, _ in model.named_children()} == {"encoder", "generator", "discriminator_head"}
    with pytest.raises(
        UserError, match=r"objective trtd: options.generator_layers and options.head are \(1, 'dense'\)"
    ):
        model_of(run_of(objective("mrtd", generator_layers=2), objective("trtd")))


def test_the_generator_is_a_shallow_encoder_on_the_same_embeddings(shards):
    own = objective("trtd", generator_layers=2)
    model, batch = setting(shards, own)
    shallow = Encoder(dataclasses.replace(model.encoder.config, layers=2)).eval()
    state = {name: tensor for name, tensor in model.generator.state_dict().items() if not name.startswith("head.")}
    embeddings = ("tokens.", "positions.", "embedding_norm.")
    state |= {name: tensor for name, tensor in model.encoder.state_dict().items() if name.startswith(embeddings)}
    shallow.load_state_dict(state)
    expected = batch.states(shallow).flatten(0, 1)[batch.selected]
    assert torch.equal(rtd.generator_states(model, batch, batch.mask()), expected)


@pytest.mark.parametrize(("kind", "layers"), [("dense", 2), ("linear", 1)])
def test_the_head_is_electras_or_coco_lms(kind, layers):
    torch.manual_seed(0)
    head = rtd.DiscriminatorHead(CONFIG, kind)
    states = torch.randn(5, CONFIG.width)
    hidden = F.gelu(head.dense(states)) if kind == "dense" else states
    assert torch.equal(head(states), (hidden @ head.output.weight.T + head.output.bias)[:, 0])
    assert sum(isinstance(part, torch.nn.Linear) for part in head.modules()) == layers


# The gated relative position bias


def biased(**options) -> object:
    return dataclasses.replace(CONFIG, relative_bias=RelativeBias(**options))


def gate_of(**options) -> Gate:
    torch.manual_seed(0)
    gate = Gate(biased(**options))
    with torch.no_grad():
        for parameter in gate.parameters():
            parameter.normal_()
    return gate


def test_zero_gates_give_seven_quarters_of_d():
    gate = Gate(CONFIG_BIASED)
    query, x = torch.randn(2, 2, 5, 8), torch.randn(2, 5, 16)
    assert torch.equal(gate(query, x), torch.full((2, 2, 5), 1.75))
    with torch.no_grad():
        gate.w.zero_()
    assert torch.equal(gate(query, x), torch.full((2, 2, 5), 1.5))


CONFIG_BIASED = biased()


@pytest.mark.parametrize("gate_input", ["query", "hidden"])
@pytest.mark.parametrize("gate_bias", [False, True])
@pytest.mark.parametrize("gate_per_head", [False, True])
def test_the_gate_is_the_printed_equation(gate_input, gate_bias, gate_per_head):
    gate = gate_of(gate_input=gate_input, gate_bias=gate_bias, gate_per_head=gate_per_head)
    assert gate.u_v.shape == (2, 2 if gate_per_head else 1, 8) and (gate.bias is not None) == gate_bias
    query, x = torch.randn(2, 2, 5, 8), torch.randn(2, 5, 16)
    found = gate(query, x)
    for b, h, t in np.ndindex(2, 2, 5):
        own = 0 if not gate_per_head else h
        read = query[b, h, t] if gate_input == "query" else x[b, t, 8 * h : 8 * (h + 1)]
        u, v = gate.u_v[:, own]
        c_u, c_v = gate.bias[:, own] if gate_bias else (0, 0)
        g_u, g_r = torch.sigmoid(read @ u + c_u), torch.sigmoid(read @ v + c_v)
        assert torch.allclose(found[b, h, t], 1 + g_u + (1 - g_u) * gate.w[h] * g_r, rtol=1e-12)


def test_the_public_codes_form_is_the_printed_one_with_u_turned():
    """d (2 + a (b w - 1)), as in WavLM and BEATs."""
    gate = gate_of()
    query = torch.randn(2, 2, 5, 8)
    u, v = gate.u_v[:, 0]

    def public(u: Tensor) -> Tensor:
        a, b = torch.sigmoid(query @ u), torch.sigmoid(query @ v)
        return 2 + a * (b * gate.w[:, None] - 1)

    found = gate(query, torch.randn(2, 5, 16))
    assert torch.allclose(found, public(-u), rtol=1e-12)
    assert not torch.allclose(found, public(u), rtol=1e-2)


def test_equal_queries_see_a_toeplitz_bias():
    torch.manual_seed(0)
    table, gate, x = DistanceTable(CONFIG_BIASED), gate_of(), torch.randn(1, 7, 16)
    dense = table(torch.arange(7)[None]).as_matrix().dense_BHTT
    for query, toeplitz in ((torch.randn(1, 2, 1, 8).expand(1, 2, 7, 8), True), (torch.randn(1, 2, 7, 8), False)):
        bias = dense * gate(query, x)[..., None]
        assert torch.equal(bias[..., 1:, 1:], bias[..., :-1, :-1]) == toeplitz


def test_the_bias_depends_on_key_minus_query():
    torch.manual_seed(0)
    table = DistanceTable(CONFIG_BIASED)
    positions = torch.tensor([[2, 3, 4, 2, 3, 300]])
    dense = table(positions).as_matrix().dense_BHTT
    buckets = distance_buckets(32, 128)
    for q, k in np.ndindex(6, 6):
        distance = int(positions[0, k] - positions[0, q])
        assert torch.equal(dense[0, :, q, k], table.table.weight[buckets[max(-128, min(128, distance)) + 128]])
    assert not torch.equal(dense, dense.mT)


def test_distant_tokens_share_a_bucket_and_directions_do_not():
    buckets = dict(zip(range(-128, 129), distance_buckets(32, 128), strict=True))
    assert [buckets[d] for d in (-8, -7, -1, 0, 1, 7, 8, 128)] == [8, 7, 1, 0, 17, 23, 24, 31]
    assert all(buckets[d] + 16 == buckets[-d] + 32 for d in range(1, 129))
    assert buckets[91] == buckets[128] == 31 and buckets[90] == 30  # 8 * 16 ** (7 / 8) = 90.5
    assert buckets[15] == 25 and buckets[16] == 26  # 8 * 16 ** (2 / 8) = 16: a border that rounding could move
    assert sorted(set(buckets.values())) == sorted(set(range(32)) - {16})
    bias = DistanceTable(CONFIG_BIASED)(torch.zeros(1, 1, dtype=torch.long))
    at = {d: bias.by_distance_MH[bias.index(torch.tensor(d))] for d in (-999, -128, -1, 1, 90, 128, 129, 10**6)}
    assert torch.equal(at[128], at[129]) and torch.equal(at[128], at[10**6]) and torch.equal(at[-128], at[-999])
    assert not torch.equal(at[90], at[128]) and not torch.equal(at[1], at[-1])


def test_one_table_for_all_layers_unless_asked_for_more():
    for shared, tables in ((True, 1), (False, 3)):
        encoder = Encoder(biased(shared_by_layers=shared))
        found = distance_biases(encoder.distances, 3, torch.arange(4)[None])
        assert len(encoder.distances) == tables == len({id(bias) for bias in found})
        storages = {id(table.table.weight) for table in encoder.distances}
        assert len(storages) == tables and len(found) == 3


def places(rows: int, length: int) -> Tokens:
    """Two documents in each row, then padding."""
    column = torch.arange(length)
    cut = length // 2
    document = torch.where(column < cut, 0, torch.where(column < length - 3, 1, -1)).expand(rows, -1)
    position = torch.where(column < cut, column + 2, column - cut + 2).expand(rows, -1).contiguous()
    zero = torch.zeros(rows, length, dtype=torch.long)
    return Tokens(document.contiguous(), zero, zero.bool(), position, zero)


def biased_attention(mask, seed: int = 0) -> list[Tensor]:
    """Output and gradients of one attention with a gated bias."""
    torch.manual_seed(seed)
    qkv = torch.randn(3, 2, 2, 24, 8, requires_grad=True)
    q, k, v = qkv
    table, gate = DistanceTable(CONFIG_BIASED), gate_of()
    bias, gates = table(places(2, 24).position).as_matrix(), gate(q, torch.randn(2, 24, 16))
    mixed = attend(q, k, v, mask, 0.0, bias, gates)
    real = places(2, 24).document >= 0
    mixed = mixed.transpose(1, 2)[real]
    leaves = [table.table.weight, *gate.parameters(), qkv]
    return [mixed, *torch.autograd.grad(mixed.square().sum(), leaves)]


def test_biased_attention_by_hand():
    fields = places(2, 24)
    [mixed, *_] = biased_attention(boolean_mask(fields, full))
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 2, 2, 24, 8)
    table, gate = DistanceTable(CONFIG_BIASED), gate_of()
    gates, weight, buckets = gate(q, None), table.table.weight, distance_buckets(32, 128)
    by_hand = []
    for b, i in np.ndindex(2, 21):
        own = [j for j in range(21) if fields.document[b, j] == fields.document[b, i]]
        bucket = [buckets[int(fields.position[b, j] - fields.position[b, i]) + 128] for j in own]
        for h in range(2):
            scores = k[b, h, own] @ q[b, h, i] / 8**0.5 + weight[bucket, h] * gates[b, h, i]
            by_hand.append(scores.softmax(0) @ v[b, h, own])
    assert torch.allclose(mixed.reshape(-1, 8), torch.stack(by_hand), rtol=1e-10, atol=1e-12)


@pytest.fixture()
def uncompiled(monkeypatch):
    """FlexAttention on a CPU: as written, without its compiler, which alone knows no way back there."""
    monkeypatch.setattr(attention, "compiled_flex_attention", lambda: flex_attention)
    monkeypatch.setattr("torch.nn.attention.flex_attention._validate_device", lambda *_: None)


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.usefixtures("uncompiled")
def test_flex_attention_equals_the_dense_bias():
    dense = biased_attention(boolean_mask(places(2, 24), full))
    blocks = biased_attention(block_mask(places(2, 24), full))
    for one, other in zip(dense, blocks, strict=True):
        assert torch.allclose(one, other, rtol=1e-9, atol=1e-11)
    assert (dense[1] != 0).any() and (dense[2] != 0).any()


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.usefixtures("uncompiled")
def test_flex_attention_takes_one_row_of_positions_for_all():
    torch.manual_seed(0)
    encoder = Encoder(CONFIG_BIASED).eval()
    tokens = torch.randint(4, MASK, (3, 12))
    fields = Tokens(torch.zeros(3, 12, dtype=torch.long), *(torch.zeros(3, 12, dtype=torch.long) for _ in range(4)))
    found = encoder(tokens, mask=block_mask(fields, full))
    assert torch.allclose(found, encoder(tokens), rtol=1e-10)


@pytest.mark.parametrize("gate_input", ["query", "hidden"])
def test_a_packed_document_is_biased_as_if_alone(shards, gate_input):
    torch.manual_seed(0)
    encoder = Encoder(biased(gate_input=gate_input)).eval()
    [batch] = batches_of(mixture(shards, "bitext", row_length=48), objective("trtd"))
    states = batch.states(encoder)
    for r, number in ((0, 0), (0, 1), (1, 1)):
        inside = batch.fields.document[r] == number
        assert inside.any()
        alone = encoder(batch.tokens[r][inside][None])
        assert torch.allclose(states[r][inside], alone[0], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("absolute", [True, False])
def test_without_absolute_positions_only_distances_count(absolute):
    torch.manual_seed(0)
    encoder = Encoder(dataclasses.replace(CONFIG_BIASED, absolute_positions=absolute)).eval()
    tokens, positions = torch.randint(4, MASK, (2, 9)), torch.arange(9).expand(2, -1)
    near, far = encoder(tokens, positions + 2), encoder(tokens, positions + 20)
    assert torch.equal(near, far) == (not absolute)
    assert not torch.allclose(near, encoder(tokens, 2 * positions + 2))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"gate_input": "key"}, "gate_input: `key` is unknown; known: query, hidden"),
        ({"buckets": 30}, "buckets: 30 is not a multiple of 4"),
        ({"max_distance": 8}, "max_distance: 8 is not above the 8 distances"),
    ],
)
def test_a_wrong_bias_is_named(options, message):
    with pytest.raises(UserError, match=message):
        build(RelativeBias, options, "model.relative_bias")
