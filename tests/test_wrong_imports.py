"""Checkpoints without numbers, or with a config that means harm: refused at import, nothing is predicted by them."""

import json
import math
import random
import struct

import pytest
import torch
from safetensors.torch import save_file

import import_checkpoint
from common.errors import UserError
from engine.beam import translate_rows
from engine.checkpoint import describe_model, load_encoder, save_weights
from engine.foreign_config import model_of
from engine.formats import FORMATS
from engine.from_foreign import from_foreign
from engine.heads import ClassificationHead, classify, mean_states
from engine.model import Encoder
from engine.sentencepiece_file import from_tokenizer_json
from engine.shape import ModelConfig
from engine.tokenizer import read_json
from small_engine import seq2seq
from their_models import CONFIGS, made

SEEDS = range(200)
CONFIG = {
    "model_type": "xlm-roberta",
    "hidden_size": 16,
    "num_attention_heads": 2,
    "num_hidden_layers": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 40,
    "vocab_size": 30,
    "type_vocab_size": 1,
    "hidden_act": "gelu",
}
STRANGE = [
    *(math.nan, math.inf, -math.inf, 1e308, -1e-9, 10**400, -(10**400), 1e9, 10**9, 2**63, 10**4000),
    *([1], {}, {"a": [1]}, [], None, True, False, "", "1", "\ud800", "x" * 5000, [[[[]]]], "xlm-roberta\n"),
]
ROWS = [[0, 5, 6, 2], [0, 7, 2]]


def model(**more: object) -> tuple[Encoder, ModelConfig]:
    shape = {"layers": 2, "width": 16, "heads": 2, "ffn": 32, "positions": 42, "vocabulary": 30} | more
    torch.manual_seed(1)
    return Encoder(config := ModelConfig(**shape)), config


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1e308, 10**400, 1.5, -1.0, True, [1], "1e-5"])
@pytest.mark.parametrize("key", ["layer_norm_eps", "hidden_dropout_prob", "initializer_range"])
def test_a_number_of_a_config_is_one(key, value):
    with pytest.raises(UserError, match=rf"config\.json, {key}: .* is not a number from 0 to 1"):
        model_of(CONFIG | {key: value}, "model.safetensors")


@pytest.mark.parametrize("value", [[1], {}, None, 1, {"a": 1}, True])
def test_a_model_type_is_a_name(value):
    with pytest.raises(UserError, match=r"model_type: .* is unknown"):
        model_of(CONFIG | {"model_type": value}, "model.safetensors")


def test_a_billion_layers_are_refused_at_once():
    for layers in (1001, 10**9, 10**30):
        with pytest.raises(UserError, match=r"num_hidden_layers: [0-9,]+ is more than any encoder has; at most 1,000"):
            model_of(CONFIG | {"num_hidden_layers": layers}, "model.safetensors")


def test_200_strange_configs_end_in_a_shape_or_a_line():
    noise = random.Random(1)
    kinds, shapes = sorted(FORMATS), 0
    for _ in SEEDS:
        keys = noise.sample([*sorted(CONFIG), "layer_norm_eps", "pad_token_id", "embedding_size", "pruned_heads"], 2)
        config = CONFIG | {"model_type": noise.choice(kinds)} | {key: noise.choice(STRANGE) for key in keys}
        try:
            found = model_of(config, "model.safetensors")
        except UserError as error:
            assert "\n" not in str(error)
        else:
            shapes += 1
            assert 0 < found.layers <= 1000 and 0 <= found.layer_norm_eps <= 1
    assert 0 < shapes < len(SEEDS)


@pytest.mark.parametrize("text", ["[" * 200_000, '{"a":' * 200_000, f'{{"a": {"9" * 5000}}}', '{"a": ', "[1]"])
def test_deep_json_beside_a_checkpoint_is_one_line(tmp_path, text):
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors.index.json"):
        (tmp_path / name).write_text(text)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        with pytest.raises(UserError, match=name):
            read_json(tmp_path / name)
    with pytest.raises(UserError, match=r"config\.json"):
        import_checkpoint.read_config(tmp_path)
    with pytest.raises(UserError, match=r"index\.json"):
        import_checkpoint.read_tensors(tmp_path / "model.safetensors.index.json")


def tokenizer_json(**changes: object) -> dict:
    vocabulary = [[token, 0.0] for token in ("<s>", "<pad>", "</s>", "<unk>", "a", "b", "<mask>")]
    found = {"type": "Unigram", "vocab": vocabulary}
    return {"model": found, "normalizer": {"type": "Precompiled", "precompiled_charsmap": "AAAA"}} | changes


@pytest.mark.parametrize("score", [1e300, -1e39, math.nan, math.inf, 10**400, "a", None, [1]])
def test_a_score_of_a_token_fits_its_file(score):
    content = tokenizer_json()
    assert len(from_tokenizer_json(content, "tokenizer.json").pieces) == 5
    content["model"]["vocab"][4][1] = score
    with pytest.raises(UserError, match=r"tokenizer\.json: not XLM-R's tokenizer"):
        from_tokenizer_json(content, "tokenizer.json")


def test_200_strange_tokenizer_files_end_in_a_line_or_in_pieces():
    noise = random.Random(2)
    for _ in SEEDS:
        content = tokenizer_json()
        place: object = content
        while isinstance(place, dict | list) and place:  # any place of the file, however deep
            keys = list(place) if isinstance(place, dict) else range(len(place))
            key = noise.choice(list(keys))
            if noise.random() < 0.4 or not isinstance(place[key], dict | list):
                place[key] = noise.choice(STRANGE)
                break
            place = place[key]
        try:
            found = from_tokenizer_json(content, "tokenizer.json")
        except UserError as error:
            assert "\n" not in str(error)
        else:
            assert all(math.isfinite(piece.score) for piece in found.pieces)


# --- files of weights ------------------------------------------------------------------------------------------------


def tensors_of(header: dict | bytes, data: bytes = b"", length: int | None = None) -> bytes:
    header = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(header) if length is None else length) + header + data


TENSOR = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
LIES = [
    *(
        {"shape": [3]},
        {"shape": [-1]},
        {"shape": [10**18]},
        {"shape": [2**32, 2**32]},
        {"shape": [2.0]},
        {"shape": "2"},
    ),
    *({"data_offsets": [8, 0]}, {"data_offsets": [0, 10**18]}, {"data_offsets": [-1, 7]}, {"data_offsets": [0, 16]}),
    *({"dtype": "F31"}, {"dtype": 1}, {"shape": [1] * 100_000 + [3]}),
]
HEADERS = [tensors_of({"a": TENSOR | lie}, b"\0" * 8) for lie in LIES] + [
    tensors_of({"a": TENSOR}, b"\0" * 7),
    tensors_of({"a": TENSOR}, b"\0" * 9),
    tensors_of({"a": TENSOR, "b": TENSOR}, b"\0" * 8),
    *(tensors_of({"a": TENSOR}, b"\0" * 8, length) for length in (0, 1, 5, 100_000_001, 2**63, 2**64 - 1)),
    *map(
        tensors_of, (b"", b"[", b"[" * 100_000, b'{"a":' * 50_000, b"\xff\xfe", b'{"a": NaN}', b"[1]", b"null", b'"x"')
    ),
]


@pytest.mark.parametrize("number", range(len(HEADERS)))
def test_a_file_of_tensors_that_lies_of_itself_is_one_line(tmp_path, number):
    path = tmp_path / "model.safetensors"
    path.write_bytes(HEADERS[number])
    for read in (import_checkpoint.read_file, load_encoder):
        with pytest.raises(UserError, match=r"model\.safetensors: not a whole safetensors file") as told:
            read(path)
        assert "\n" not in str(told.value)


def test_200_strange_shapes_in_a_file_of_weights_are_refused_before_memory_is_asked_for(tmp_path):
    """Somebody's weights for --model: a shape that the tensors are not of, or that nobody could hold."""
    noise, path = random.Random(4), tmp_path / "w.safetensors"
    encoder, config = model()
    weights = {f"encoder.{name}": tensor for name, tensor in encoder.state_dict().items()}
    whole, loaded = json.loads(describe_model(config)), 0
    texts = ["", "[", "5", "null", "[]", "{}", "[" * 100_000, '{"a":' * 50_000, '{"layers": %s}' % ("9" * 5000)]
    for seed in SEEDS:
        said = {"model": json.dumps(whole | {noise.choice(sorted(whole)): noise.choice(STRANGE[:-6])})}
        if seed % 4 == 0:
            said = {"model": json.dumps(whole)} | {noise.choice(("model", "languages")): noise.choice(texts)}
        own = dict(weights)
        if seed % 4 == 1:
            name = noise.choice(sorted(own))
            own[name] = noise.choice((own[name][:1].clone(), own[name].flatten(), torch.zeros(0)))
            said = {"model": json.dumps(whole)}
        save_file(own, path, said)
        try:
            load_encoder(path)
        except UserError as error:
            assert str(error).startswith(str(path)) and "\n" not in str(error)
        else:
            loaded += 1
    assert 0 < loaded < 60


# --- no number -------------------------------------------------------------------------------------------------------


def test_no_answer_is_made_of_nan(tmp_path):
    """A weight in the middle of the file, and an epsilon that hides it no longer."""
    noise = random.Random(3)
    for value in (math.nan, math.inf, -math.inf, 3e38):
        for _ in range(50):
            encoder, config = model()
            weight = noise.choice([own for own in encoder.parameters() if own.dim() > 1])
            with torch.no_grad():
                weight.copy_(torch.where(torch.rand_like(weight) < 0.5, torch.tensor(value), weight))
            save_weights(
                tmp_path / "w.safetensors",
                {f"encoder.{n}": w for n, w in encoder.state_dict().items()},
                {"model": describe_model(config)},
            )
            loaded, _ = load_encoder(tmp_path / "w.safetensors")
            try:
                states = mean_states(loaded, ROWS, "de", 2)
            except UserError as error:
                assert f"{tmp_path / 'w.safetensors'}: NaN or infinity in the states of layer" in str(error)
            else:  # a row of a table that nobody asked for
                assert all(layer.isfinite().all() for layer in states)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_a_checkpoint_with_nan_in_it_is_refused(value, dtype):
    own = made("BertModel").to(dtype).state_dict()
    order = list(range(len(own["embeddings.word_embeddings.weight"])))
    config = CONFIGS["Bert"]().to_dict() | {"architectures": ["BertModel"]}
    from_foreign(config, own, order, "model.safetensors")
    changed = "encoder.layer.1.intermediate.dense.weight"
    own[changed] = own[changed].clone()
    own[changed][3, 5] = value
    with pytest.raises(UserError, match=rf"1 with NaN or infinity among their numbers \({changed}\)"):
        from_foreign(config, own, order, "model.safetensors")


def test_heads_and_translation_refuse_nan():
    encoder, config = model()
    with torch.no_grad():
        encoder.blocks[1].up.weight[0, 0] = math.nan
    head = ClassificationHead(config.width, 3, 0.1)
    with pytest.raises(UserError, match="the model: NaN or infinity in the states of its last layer"):
        classify(encoder, head, ROWS, "de", 2)
    translator = seq2seq(30)
    assert len(translate_rows(translator, ROWS, beam=2)) == 2
    with torch.no_grad():
        next(iter(translator.decoder.parameters())).fill_(math.nan)
    with pytest.raises(UserError, match="NaN or infinity in its scores; nothing can be translated with it"):
        translate_rows(translator, ROWS, beam=2)
