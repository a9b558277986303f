import subprocess
import sys

import pytest
import torch
import yaml

from common.errors import UserError
from common.identity import run_hash
from engine import attention_rules
from engine.attention_rules import Tokens, full
from engine.checkpoint import describe_model, load_encoder, save_weights
from engine.config import ObjectiveConfig, build, load_run
from engine.masks import boolean_mask
from engine.model import Encoder, MaskedLanguageModelHead, over_vocabulary, shapes_alone
from engine.objectives import OBJECTIVES, mlm
from engine.optim import learning_rate, parameter_groups
from engine.options import DESCRIPTIONS
from engine.shape import ModelConfig
from plan.load import load_config
from plan.runs import resolve_run
from small_corpus import LANGUAGES, VOCABULARY, mixture
from small_engine import CONFIG, batches_of, model_of, run_of, watch_embeddings
from training.assembly import fill_in

MMLM, TLM = ObjectiveConfig("mmlm"), ObjectiveConfig("tlm")


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("V", [100, 128])
def test_the_columns_of_a_gpu_change_roundings_alone(monkeypatch, V, compiled):
    torch.manual_seed(0)
    given = [torch.randn(shape) for shape in ((7, 16), (V, 16), (V,))]
    products, found = [], []
    linear = torch.nn.functional.linear
    monkeypatch.setattr("engine.model.F.linear", lambda x, w, b: products.append(len(w)) or linear(x, w, b))
    for columns in (1, 64):
        monkeypatch.setattr("engine.model.columns_of", lambda device, columns=columns: columns)
        torch._dynamo.reset()
        multiply = torch.compile(over_vocabulary, backend="aot_eager", dynamic=True) if compiled else over_vocabulary
        inputs = [own.clone().requires_grad_() for own in given]
        with torch.autocast("cpu"):
            logits = multiply(*inputs)
            with torch.no_grad():
                assert torch.equal(over_vocabulary(*inputs), logits)  # and over the table as it is
        assert logits.shape == (7, V) and logits.dtype == torch.bfloat16
        (logits.float() * torch.arange(7 * V).view(7, V).sin()).sum().backward()
        found.append([logits.detach(), *(own.grad for own in inputs)])
    assert compiled or products == [V, V, 128, V]
    for one, other in zip(*found, strict=True):
        assert (one - other).norm() < 0.01 * other.norm()


def test_the_encoder_is_torchs_post_ln_encoder():
    torch.manual_seed(0)
    own = Encoder(CONFIG).eval()
    layer = torch.nn.TransformerEncoderLayer(16, 2, 32, 0.0, "gelu", 1e-5, batch_first=True, norm_first=False)
    theirs = torch.nn.TransformerEncoder(layer, 3, enable_nested_tensor=False).eval()
    names = {
        "self_attn.in_proj_weight": "attention.query_key_value.weight",
        "self_attn.in_proj_bias": "attention.query_key_value.bias",
        "self_attn.out_proj.weight": "attention.output.weight",
        "self_attn.out_proj.bias": "attention.output.bias",
        "linear1.weight": "up.weight",
        "linear1.bias": "up.bias",
        "linear2.weight": "down.weight",
        "linear2.bias": "down.bias",
        "norm1.weight": "attention_norm.weight",
        "norm1.bias": "attention_norm.bias",
        "norm2.weight": "ffn_norm.weight",
        "norm2.bias": "ffn_norm.bias",
    }
    for ours, their in zip(own.blocks, theirs.layers, strict=True):
        state = ours.state_dict()
        their.load_state_dict({name: state[mine] for name, mine in names.items()})
    tokens = torch.randint(4, VOCABULARY, (3, 11))
    real = torch.arange(11)[None] < torch.tensor([[11], [4], [7]])
    states = own(tokens, mask=real, all_layers=True)
    with torch.no_grad():
        expected = theirs(states[0], src_key_padding_mask=~real)
    assert (states[-1] - expected)[real].abs().max() <= 1e-5


@pytest.mark.usefixtures("double")
def test_a_document_never_sees_its_neighbours(shards):
    """The gradient of one document's states with respect to another document's embeddings is exactly zero."""
    torch.manual_seed(1)
    encoder = Encoder(CONFIG).eval()
    [batch] = batches_of(mixture(shards, "bitext", row_length=48), TLM)
    embedded = watch_embeddings(encoder)
    states = batch.states(encoder)
    first = batch.fields.document == 0
    (gradient,) = torch.autograd.grad(states[first].square().sum(), embedded[0])
    assert (gradient[first] != 0).any()
    assert (gradient[~first] == 0).all()
    assert torch.isfinite(states).all()  # rows of padding alone give no NaN


@pytest.mark.usefixtures("double")
def test_packed_rows_give_the_loss_of_unpacked_rows(shards):
    model = model_of(run_of(TLM))
    losses = []
    for packing in (True, False):
        own = mixture(shards, "bitext", row_length=48, rows=8 if packing else 24, packing=packing)
        losses.append({})
        for _ in range(4 if packing else 12):
            for batch in batches_of(own, TLM):
                states = batch.states(model.encoder).flatten(0, 1)[batch.selected]
                logits = model.mlm_head(states, model.encoder.tokens.weight)
                each = torch.nn.functional.cross_entropy(logits, batch.targets, reduction="none").tolist()
                width = batch.tokens.shape[1]
                for loss, place in zip(each, batch.selected.tolist(), strict=True):
                    r, c = divmod(place, width)
                    losses[-1][int(batch.key[r, c]), int(batch.offset[r, c])] = loss
    common = losses[0].keys() & losses[1].keys()
    assert len(common) > 100
    assert max(abs(losses[0][key] - losses[1][key]) for key in common) < 1e-12


@pytest.mark.usefixtures("double")
def test_tlm_masks_see_the_other_side(shards):
    model = model_of(run_of(TLM))
    [batch] = batches_of(mixture(shards, "bitext", packing=False), TLM)
    embedded = watch_embeddings(model.encoder)
    states = batch.states(model.encoder)
    chosen = batch.selected[0]
    (gradient,) = torch.autograd.grad(states.flatten(0, 1)[chosen].square().sum(), embedded[0])
    r, c = divmod(int(chosen), batch.tokens.shape[1])
    other = (batch.fields.document[r] == 0) & (batch.fields.side[r] != batch.fields.side[r, c])
    assert (gradient[r][other].abs().sum(-1) > 0).all()


@pytest.mark.usefixtures("double")
def test_the_loss_is_the_mean_over_selected_tokens_by_hand(shards):
    model = model_of(run_of(MMLM))
    [batch] = batches_of(mixture(shards, "mono"), MMLM)
    loss = mlm.masked_lm_loss(model, batch)
    states = batch.states(model.encoder)
    head = model.mlm_head
    hidden = torch.nn.functional.gelu(states @ head.dense.weight.T + head.dense.bias)
    hidden = (hidden - hidden.mean(-1, keepdim=True)) / (hidden.var(-1, unbiased=False, keepdim=True) + 1e-5).sqrt()
    probabilities = (hidden @ model.encoder.tokens.weight.T + head.bias).softmax(-1).flatten(0, 1)
    by_hand = -sum(
        probabilities[place, target].log()
        for place, target in zip(batch.selected.tolist(), batch.targets.tolist(), strict=True)
    )
    assert mlm.MMLM.count(batch) == {"loss": int(batch.fields.selected.sum())}
    assert loss.sums["loss"].item() == pytest.approx(by_hand.item(), rel=1e-12)


@pytest.mark.usefixtures("double")
def test_chunked_loss_equals_the_loss_in_one_piece(shards, monkeypatch):
    model = model_of(run_of(MMLM))
    [batch] = batches_of(mixture(shards, "mono"), MMLM)
    gradients = []
    for chunk in (4096, 5):
        monkeypatch.setattr(mlm, "CHUNK", chunk)
        model.zero_grad()
        loss = mlm.masked_lm_loss(model, batch).sums["loss"]
        loss.backward()
        gradients.append([float(loss.detach()), *(p.grad.clone() for p in model.parameters())])
    for a, b in zip(*gradients, strict=True):
        assert torch.allclose(torch.as_tensor(a), torch.as_tensor(b), rtol=1e-10, atol=1e-12)


def test_weights_describe_themselves_and_are_equal_bytes(tmp_path):
    torch.manual_seed(0)
    model = model_of(run_of(MMLM))
    metadata = {"model": describe_model(CONFIG), "run": "x", **{f"key{i}": str(i) for i in range(20)}}
    for name in ("a", "b"):
        save_weights(tmp_path / name, model, metadata)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    encoder, found = load_encoder(tmp_path / "a")
    assert found["run"] == "x" and encoder.config == CONFIG
    for ours, theirs in zip(model.encoder.parameters(), encoder.parameters(), strict=True):
        assert torch.equal(ours, theirs)
    (tmp_path / "cut").write_bytes((tmp_path / "a").read_bytes()[:-10])
    with pytest.raises(UserError, match="cut: not a whole safetensors file"):
        load_encoder(tmp_path / "cut")
    with pytest.raises(UserError, match="nowhere: no such file; give a file of weights"):
        load_encoder(tmp_path / "nowhere")
    with pytest.raises(UserError, match="is a folder, and a file is needed; give a file of weights"):
        load_encoder(tmp_path)


def test_weights_are_loaded_without_torch_s_compiler(tmp_path, repository):
    """It takes a second to import, of each job that fine-tunes or predicts."""
    model = model_of(run_of(MMLM))
    save_weights(tmp_path / "a", model, {"model": describe_model(CONFIG)})
    load = "import sys; from engine.checkpoint import load_encoder; load_encoder(sys.argv[1]); print(*sys.modules)"
    command = [sys.executable, "-c", load, str(tmp_path / "a")]
    folder = repository / "workflow/scripts"
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    assert {"torch", "engine.model"} <= {*done.stdout.split()} and "torch._dynamo" not in done.stdout.split()
    with shapes_alone():
        shapes = Encoder(CONFIG).state_dict()
    drawn = model.encoder.state_dict()
    assert {name: tensor.shape for name, tensor in shapes.items()} == {name: own.shape for name, own in drawn.items()}
    assert all(tensor.is_meta for tensor in shapes.values())


def test_learning_rate_peaks_at_the_end_of_the_warm_up_and_ends_at_zero():
    rates = [learning_rate(step, 2.0, 10, 100) for step in range(1, 101)]
    assert rates[0] == 0.2 and rates[9] == 2.0 == max(rates) and rates[-1] == 0
    assert rates[54] == pytest.approx(1.0)
    assert learning_rate(1, 2.0, 0, 10) == pytest.approx(1.8)


def test_no_decay_on_biases_and_layer_norms():
    model = model_of(run_of(MMLM))
    decayed, plain = parameter_groups(model, 0.01)
    assert plain["weight_decay"] == 0 and all(p.dim() == 1 for p in plain["params"])
    assert all(p.dim() == 2 for p in decayed["params"])
    assert sum(p.numel() for g in (decayed, plain) for p in g["params"]) == sum(p.numel() for p in model.parameters())


def test_every_objective_says_what_it_reads():
    assert OBJECTIVES.keys() <= DESCRIPTIONS.keys()
    for name, about in DESCRIPTIONS.items():
        assert about.data in ("mono", "bitext"), name
    assert OBJECTIVES["mmlm"].rule is full


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"wrong": 1}, "unknown key wrong"),
        ({"model": {"layers": "two"}}, r"model\.layers: expected int"),
        ({"model": {"heads": 3}}, r"model\.heads: 3 does not divide"),
        ({"objectives": [{"name": "nothing"}]}, "`nothing` is unknown to the engine; known: mmlm, tlm, camlm"),
        (
            {"objectives": [{"name": "mmlm", "row_length": 99}]},
            r"rows of 99 tokens need model\.positions >= 101, not 34",
        ),
        ({"objectives": [{"name": "mmlm", "mask": {"rate": 2}}]}, r"mask\.rate"),
        ({"schedule": {"warmup_steps": 99}}, r"warmup_steps: 99 is not between 0 and steps"),
        ({"precision": "fp8"}, "precision: `fp8` is unknown"),
        ({"batch": {"rows": True}}, r"batch\.rows: expected int"),
    ],
)
def test_a_wrong_run_is_named(tmp_path, change, message):
    from small_corpus import write_run

    write_run(tmp_path / "run.yaml", **change)
    with pytest.raises(UserError, match=message) as raised:
        load_run(tmp_path / "run.yaml")
    assert "run.yaml" in str(raised.value)


def test_a_missing_key_is_named():
    with pytest.raises(UserError, match=r"key model\.layers is missing"):
        build(ModelConfig, {"width": 4}, "model")


def test_the_head_has_no_table_of_its_own():
    assert {name for name, _ in MaskedLanguageModelHead(CONFIG).named_parameters()} == {
        "dense.weight",
        "dense.bias",
        "norm.weight",
        "norm.bias",
        "bias",
    }
    assert len(LANGUAGES) == 3


def test_plan_and_engine_name_a_run_by_the_same_hash(repository, tmp_path):
    config = load_config(repository, {"scale": "mini"})
    for name in ("xlm-r", "xlm", "random-init"):
        resolved = resolve_run(config, name)
        (tmp_path / "run.yaml").write_text(yaml.safe_dump(resolved))
        run = fill_in(load_run(tmp_path / "run.yaml"), 500, tmp_path / "run.yaml")
        assert run_hash(resolved).startswith(run.run_hash) and len(run.run_hash) == 16


@pytest.mark.parametrize("name", ["full", "own_side", "own_side_so_far", "other_side", "camlm", "camlm_siblings"])
def test_no_row_of_a_mask_is_empty(name):
    """An empty row is no NaN everywhere: some kernels give zeros, and training would go on with them."""
    document = torch.tensor([[0, 0, 0, 0, 1, 1, 1, -1, -1], [0, 0, 0, 0, 0, 0, 0, 0, 0], [-1] * 9])
    side = torch.tensor([[0, 0, 1, 1, 0, 1, 1, 0, 0], [0, 0, 0, 0, 1, 1, 1, 1, 1], [0] * 9])
    position = torch.tensor([[2, 3, 4, 5, 2, 3, 4, 1, 1], list(range(2, 11)), [1] * 9])
    generator = torch.Generator().manual_seed(1)
    for rate in (0.0, 0.3, 1.0):
        selected = (torch.rand(document.shape, generator=generator) < rate) & (document >= 0)
        fields = Tokens(document, side, selected, position, torch.zeros_like(side))
        mask = boolean_mask(fields, getattr(attention_rules, name))
        assert mask.any(-1).all()
        assert not (mask[:, 0] & (document[:, :, None] != document[:, None])).any()
