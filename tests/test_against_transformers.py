"""The engine beside Hugging Face's transformers on the same weights: the largest difference in fp32 is at most 1e-5.

transformers is needed by these tests alone (tests/requirements.txt).
"""

import dataclasses

import pytest
import torch
from torch import Tensor, nn

from engine.attention import distance_buckets
from engine.attention_rules import full
from engine.config import MaskSpec, ObjectiveConfig
from engine.model import Encoder, MaskedLanguageModelHead, SelfAttention
from engine.objectives import mlm, rtd
from engine.objectives.base import Batch
from engine.shape import ModelConfig, RelativeBias
from engine.tokenizer import BOS, EOS, PAD
from small_corpus import mixture
from small_engine import CONFIG, batches_of, model_of, run_of

transformers = pytest.importorskip("transformers", reason="install tests/requirements.txt (make test does)")

TOLERANCE = 1e-5
SHAPE = {"type_vocab_size": 1, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "hidden_act": "gelu"}


def described(config: ModelConfig) -> dict[str, object]:
    """Our model's shape in the words of transformers."""
    return SHAPE | {
        "vocab_size": config.vocabulary,
        "hidden_size": config.width,
        "num_hidden_layers": config.layers,
        "num_attention_heads": config.heads,
        "intermediate_size": config.ffn,
        "max_position_embeddings": config.positions,
        "layer_norm_eps": config.layer_norm_eps,
        "initializer_range": config.init_std,
        "bos_token_id": BOS,
        "pad_token_id": PAD,
        "eos_token_id": EOS,
    }


def unsettle(model: nn.Module, seed: int) -> None:
    """No bias at 0 and no LayerNorm at 1, so that every weight shows."""
    torch.manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(0.1 * torch.randn_like(parameter))


def copy_embeddings(ours: Encoder, theirs: nn.Module) -> None:
    """Their one segment vector, which every token gets, goes into our positions."""
    ours.tokens.load_state_dict(theirs.word_embeddings.state_dict())
    ours.embedding_norm.load_state_dict(theirs.LayerNorm.state_dict())
    with torch.no_grad():
        ours.positions.weight.copy_(theirs.position_embeddings.weight + theirs.token_type_embeddings.weight)


def copy_blocks(ours: nn.ModuleList, theirs: nn.ModuleList) -> None:
    for own, their in zip(ours, theirs, strict=True):
        copy_attention(own.attention, their.attention.self, their.attention.output.dense)
        own.attention_norm.load_state_dict(their.attention.output.LayerNorm.state_dict())
        own.up.load_state_dict(their.intermediate.dense.state_dict())
        own.down.load_state_dict(their.output.dense.state_dict())
        own.ffn_norm.load_state_dict(their.output.LayerNorm.state_dict())


def copy_attention(ours: SelfAttention, theirs: nn.Module, output: nn.Linear) -> None:
    parts = (theirs.query, theirs.key, theirs.value)
    with torch.no_grad():
        ours.query_key_value.weight.copy_(torch.cat([part.weight for part in parts]))
        ours.query_key_value.bias.copy_(torch.cat([part.bias for part in parts]))
    ours.output.load_state_dict(output.state_dict())


def copy_head(ours: MaskedLanguageModelHead, dense: nn.Module, norm: nn.Module, bias: Tensor) -> None:
    ours.dense.load_state_dict(dense.state_dict())
    ours.norm.load_state_dict(norm.state_dict())
    with torch.no_grad():
        ours.bias.copy_(bias)


def xlm_r_of(model: nn.Module) -> nn.Module:
    """A random XLMRobertaForMaskedLM; our model gets its weights."""
    config = transformers.XLMRobertaConfig(**described(model.encoder.config))
    theirs = transformers.XLMRobertaForMaskedLM(config).eval()
    unsettle(theirs, seed=1)
    copy_embeddings(model.encoder, theirs.roberta.embeddings)
    copy_blocks(model.encoder.blocks, theirs.roberta.encoder.layer)
    head = theirs.lm_head
    copy_head(model.mlm_head, head.dense, head.layer_norm, head.bias)
    return theirs


def electra_of(kind: type, config: ModelConfig, **shape: object) -> nn.Module:
    theirs = kind(transformers.ElectraConfig(embedding_size=config.width, **described(config), **shape)).eval()
    unsettle(theirs, seed=2)
    return theirs


def difference(ours: Tensor, theirs: Tensor) -> float:
    assert ours.shape == theirs.shape and theirs.std() > 0.001
    return float((ours - theirs).abs().max().detach())


@pytest.mark.parametrize(("layers", "width", "heads"), [(3, 48, 4), (12, 768, 12)])
def test_the_encoder_and_its_head_are_xlm_rs(layers, width, heads):
    """At the second shape it is XLM-R base but for the number of pieces."""
    config = ModelConfig(layers, width, heads, 4 * width, 514, 300, dropout=0.0, attention_dropout=0.0)
    model = nn.Module()
    model.encoder, model.mlm_head = Encoder(config).eval(), MaskedLanguageModelHead(config)
    theirs = xlm_r_of(model)
    tokens = torch.randint(4, 300, (3, 20))
    real = torch.arange(20)[None] < torch.tensor([[20], [1], [7]])
    tokens[~real] = PAD
    with torch.no_grad():
        states = model.encoder(tokens, mask=real, all_layers=True)
        expected = theirs(tokens, attention_mask=real.long(), output_hidden_states=True)
        assert len(states) == len(expected.hidden_states) == layers + 1
        for ours, their in zip(states, expected.hidden_states, strict=True):
            assert difference(ours[real], their[real]) <= TOLERANCE
        logits = model.mlm_head(states[-1][real], model.encoder.tokens.weight)
    assert difference(logits, expected.logits[real]) <= TOLERANCE


def labels(batch: Batch) -> Tensor:
    return batch.original.masked_fill(~batch.fields.selected, -100)


def test_the_masked_lm_loss_and_its_gradients_are_xlm_rs(shards):
    objective = ObjectiveConfig("tlm")
    model = model_of(run_of(objective))
    theirs = xlm_r_of(model)
    [batch] = batches_of(mixture(shards, "bitext", packing=False), objective)
    loss = mlm.masked_lm_loss(model, batch).sums["loss"] / len(batch.targets)
    real = batch.fields.document >= 0
    expected = theirs(batch.tokens, attention_mask=real.long(), labels=labels(batch)).loss
    assert abs(float((loss - expected).detach())) <= TOLERANCE
    loss.backward()
    expected.backward()
    table, their_table = model.encoder.tokens.weight.grad, theirs.roberta.embeddings.word_embeddings.weight.grad
    assert difference(table, their_table) <= TOLERANCE
    for ours, their in zip(model.encoder.blocks, theirs.roberta.encoder.layer, strict=True):
        query, _, value = ours.attention.query_key_value.weight.grad.split(CONFIG.width)
        assert difference(query, their.attention.self.query.weight.grad) <= TOLERANCE
        assert difference(value, their.attention.self.value.weight.grad) <= TOLERANCE
        assert difference(ours.up.weight.grad, their.intermediate.dense.weight.grad) <= TOLERANCE


def test_generator_and_discriminator_are_electras(shards):
    """Their two models, which know nothing of each other, on one embedding: both losses and the logits."""
    objective = ObjectiveConfig("mrtd", mask=MaskSpec(0.15, 1.0, 0.0, 0.0), options={"generator_layers": 2})
    model = model_of(run_of(objective))
    generator = electra_of(transformers.ElectraForMaskedLM, dataclasses.replace(CONFIG, layers=2))
    discriminator = electra_of(transformers.ElectraForPreTraining, CONFIG)
    discriminator.electra.embeddings = generator.electra.embeddings
    copy_embeddings(model.encoder, generator.electra.embeddings)
    copy_blocks(model.generator.blocks, generator.electra.encoder.layer)
    predictions = generator.generator_predictions
    copy_head(model.generator.head, predictions.dense, predictions.LayerNorm, generator.generator_lm_head.bias)
    copy_blocks(model.encoder.blocks, discriminator.electra.encoder.layer)
    head = discriminator.discriminator_predictions
    model.discriminator_head.dense.load_state_dict(head.dense.state_dict())
    model.discriminator_head.output.load_state_dict(head.dense_prediction.state_dict())

    [batch] = batches_of(mixture(shards, "mono"), objective)
    seen = {}
    model.encoder.register_forward_pre_hook(lambda module, inputs: seen.update(tokens=inputs[0]))
    model.discriminator_head.register_forward_hook(lambda module, inputs, output: seen.update(logits=output))
    loss = rtd.replaced_token_detection_loss(model, batch)
    real = batch.fields.document >= 0
    shared = {"attention_mask": real.long(), "position_ids": batch.fields.position}
    replaced = seen["tokens"] != batch.original
    assert replaced.any()

    expected = generator(batch.tokens, labels=labels(batch), **shared)
    assert abs(float((loss.sums["generator_loss"] / len(batch.targets) - expected.loss).detach())) <= TOLERANCE
    expected = discriminator(seen["tokens"], labels=replaced.long(), **shared)
    assert difference(seen["logits"], expected.logits[real]) <= TOLERANCE
    assert abs(float((loss.sums["discriminator_loss"] / real.sum() - expected.loss).detach())) <= TOLERANCE


@pytest.mark.parametrize(("buckets", "max_distance"), [(32, 128), (64, 256), (320, 1280), (320, 800)])
def test_distances_lie_in_t5s_buckets(buckets, max_distance):
    from transformers.models.t5.modeling_t5 import T5Attention

    distance = torch.arange(-2 * max_distance, 2 * max_distance + 1)
    ours = torch.tensor(distance_buckets(buckets, max_distance))[
        distance.clamp(-max_distance, max_distance) + max_distance
    ]
    theirs = T5Attention._relative_position_bucket(distance, True, buckets, max_distance)
    assert torch.equal(ours, theirs)
    assert not torch.equal(ours.flip(0), theirs)


def test_the_gated_bias_is_wavlms():
    """The public form d (2 + a (b w - 1)), gates on the layer's input with biases: the sign of u is turned."""
    from transformers.models.wavlm.modeling_wavlm import WavLMAttention

    bias = RelativeBias(buckets=32, max_distance=128, gate_input="hidden", gate_bias=True)
    config = dataclasses.replace(CONFIG, relative_bias=bias)
    torch.manual_seed(3)
    theirs = WavLMAttention(config.width, config.heads, num_buckets=32, max_distance=128).eval()
    unsettle(theirs, seed=3)
    with torch.no_grad():
        theirs.gru_rel_pos_const.normal_()
        encoder = Encoder(config).eval()
        [table], own = encoder.distances, encoder.blocks[0].attention
        names = {"query": theirs.q_proj, "key": theirs.k_proj, "value": theirs.v_proj}
        stand_in = nn.Module()
        for name, part in names.items():
            stand_in.add_module(name, part)
        copy_attention(own, stand_in, theirs.out_proj)
        table.table.load_state_dict(theirs.rel_attn_embed.state_dict())
        a, b = theirs.gru_rel_pos_linear.weight.view(2, 4, -1).sum(1)
        bias_a, bias_b = theirs.gru_rel_pos_linear.bias.view(2, 4).sum(1)
        own.gate.u_v.copy_(torch.stack([-a, b])[:, None])
        own.gate.bias.copy_(torch.stack([-bias_a, bias_b])[:, None])
        own.gate.w.copy_(theirs.gru_rel_pos_const.flatten())
        x = torch.randn(2, 150, config.width)
        expected, _, _ = theirs(x)
        found = own(x, None, table(torch.arange(150)[None]).as_matrix())
        assert difference(found, expected) <= TOLERANCE
        own.gate.u_v[0].neg_()
        assert difference(own(x, None, table(torch.arange(150)[None]).as_matrix()), expected) > TOLERANCE


def test_a_document_mask_is_their_attention_mask(shards):
    """A packed row of ours equals their rows of one document each."""
    objective = ObjectiveConfig("tlm")
    model = model_of(run_of(objective))
    theirs = xlm_r_of(model)
    [batch] = batches_of(mixture(shards, "bitext", row_length=48), objective)
    states = batch.states(model.encoder, full)
    compared = 0
    for r in range(len(batch.tokens)):
        for number in range(int(batch.fields.document[r].max()) + 1):
            inside = batch.fields.document[r] == number
            expected = theirs.roberta(batch.tokens[r][inside][None]).last_hidden_state[0]
            assert difference(states[r][inside], expected) <= TOLERANCE
            compared += number > 0
    assert compared > 0
