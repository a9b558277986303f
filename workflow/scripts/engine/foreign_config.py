"""The config.json of a published checkpoint: the shape of our encoder, or what it cannot be."""

from pathlib import Path

from common.errors import UserError
from engine.formats import ELECTRA, FORMATS, LEAVE_OUT, Format
from engine.model import FIRST_POSITION
from engine.prenorm import PreNormConfig
from engine.shape import ModelConfig, RelativeBias
from engine.tokenizer import PAD

MOST, MOST_LAYERS = 1 << 28, 1000  # of a size in a config; a list of names is made of the layers
MT5_ROW = 1024  # tokens that mT5 was trained on at once; its distances know no end
NOT_OURS = {  # classes whose tensors would fit, or nearly
    "ForMultipleChoice": "one score for each choice",
    "ForInformationExtraction": "two probabilities of each token",
    "ForCausalLM": "a decoder",
    "LMHeadModel": "a decoder",
    "ElectraForSequenceClassification": "GELU in the head, where ours has tanh",
}


def model_of(config: dict, where: str) -> ModelConfig | PreNormConfig:
    """The shape of our encoder, or an error for what it cannot be. `where`: the weights file, beside config.json."""
    path = Path(where).with_name("config.json")
    if "model_type" not in config:
        raise UserError(f"{path}: the key model_type is missing; known: {', '.join(FORMATS)}")
    if not isinstance(config["model_type"], str) or config["model_type"] not in FORMATS:
        raise UserError(f"{path}, model_type: {config['model_type']!r} is unknown; known: {', '.join(FORMATS)}")
    make = {"mbart": mbart_of, "mt5": mt5_of}.get(config["model_type"], post_norm_of)
    try:
        return make(config, path)
    except UserError as error:
        raise UserError(str(error) if str(path) in str(error) else f"{path}: {error}") from None


def post_norm_of(config: dict, path: Path) -> ModelConfig:
    kind = FORMATS[config["model_type"]]
    wanted = {"hidden_act": "gelu"}  # the exact one; gelu_new and the like are approximations
    wanted |= {"position_embedding_type": "absolute", "is_decoder": False, "add_cross_attention": False}
    check_kinds(config, wanted | {"pruned_heads": {}, "quantization_config": None}, path)
    width, heads = whole(config, "hidden_size", path), whole(config, "num_attention_heads", path)
    if width % heads:
        raise UserError(f"{path}, num_attention_heads: {heads} does not divide hidden_size {width}")
    if kind is ELECTRA and config.get("embedding_size", width) != width:
        raise UserError(
            f"{path}, embedding_size: {config['embedding_size']!r} is not hidden_size {width}; our encoder has "
            "embeddings of its own width only"
        )
    pad = config.get("pad_token_id", PAD)
    if kind.unused_positions and pad != PAD:
        raise UserError(
            f"{path}, pad_token_id: {pad!r}; {config['model_type']} numbers positions from the padding's id, and our "
            f"encoder knows {PAD} only"
        )
    return ModelConfig(
        layers=whole(config, "num_hidden_layers", path),
        width=width,
        heads=heads,
        ffn=whole(config, "intermediate_size", path),
        positions=whole(config, "max_position_embeddings", path) + FIRST_POSITION - kind.unused_positions,
        vocabulary=whole(config, "vocab_size", path),
        dropout=number(config, "hidden_dropout_prob", 0.1, path),
        attention_dropout=number(config, "attention_probs_dropout_prob", 0.1, path),
        layer_norm_eps=number(config, "layer_norm_eps", kind.layer_norm_eps, path),
        init_std=number(config, "initializer_range", 0.02, path),
        token_types=whole(config, "type_vocab_size", path) if "token_types" in kind.outside else 0,
    )


def mbart_of(config: dict, path: Path) -> PreNormConfig:
    wanted = {"activation_function": "gelu", "normalize_before": True, "normalize_embedding": True}
    wanted |= {"add_final_layer_norm": True, "static_position_embeddings": False, "extra_pos_embeddings": 2}
    check_kinds(config, wanted | {"quantization_config": None}, path)
    width, heads = whole(config, "d_model", path), whole(config, "encoder_attention_heads", path)
    if width % heads:
        raise UserError(f"{path}, encoder_attention_heads: {heads} does not divide d_model {width}")
    return PreNormConfig(
        pre_norm="mbart",
        layers=whole(config, "encoder_layers", path),
        width=width,
        heads=heads,
        head_width=width // heads,
        ffn=whole(config, "encoder_ffn_dim", path),
        positions=whole(config, "max_position_embeddings", path) + FIRST_POSITION,
        vocabulary=whole(config, "vocab_size", path),
        dropout=number(config, "dropout", 0.1, path),
        attention_dropout=number(config, "attention_dropout", 0.0, path),
        init_std=number(config, "init_std", 0.02, path),
        scale_embeddings=bool(config.get("scale_embedding", False)),
    )


def mt5_of(config: dict, path: Path) -> PreNormConfig:
    check_kinds(config, {"feed_forward_proj": "gated-gelu", "quantization_config": None}, path)
    dropout = number(config, "dropout_rate", 0.1, path)
    return PreNormConfig(
        pre_norm="mt5",
        layers=whole(config, "num_layers", path),
        width=whole(config, "d_model", path),
        heads=whole(config, "num_heads", path),
        head_width=whole(config, "d_kv", path),
        ffn=whole(config, "d_ff", path),
        positions=MT5_ROW + FIRST_POSITION,
        vocabulary=whole(config, "vocab_size", path),
        dropout=dropout,
        attention_dropout=dropout,
        layer_norm_eps=number(config, "layer_norm_epsilon", 1e-6, path),
        relative_bias=RelativeBias(
            buckets=whole(config, "relative_attention_num_buckets", path),
            max_distance=whole(
                {"relative_attention_max_distance": 128} | config, "relative_attention_max_distance", path
            ),
        ),
    )


def check_kinds(config: dict, wanted: dict[str, object], path: Path) -> None:
    """What our encoder has in one kind only; a key that is not there has that kind by default."""
    for key, kind in wanted.items():
        if config.get(key) is not None and config[key] != kind:
            raise UserError(f"{path}, {key}: {config[key]!r}; our encoder has no other than {kind!r}")


def whole(config: dict, key: str, path: Path) -> int:
    if key not in config:
        raise UserError(f"{path}: the key {key} is missing")
    if isinstance(config[key], bool) or not isinstance(config[key], int) or config[key] < 1:
        raise UserError(f"{path}, {key}: {config[key]!r} is not a whole number above zero")
    most = MOST_LAYERS if key.endswith("layers") else MOST
    if config[key] > most:
        raise UserError(f"{path}, {key}: {config[key]:,} is more than any encoder has; at most {most:,}")
    return config[key]


def number(config: dict, key: str, default: float, path: Path) -> float:
    value = default if config.get(key) is None else config[key]
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:  # NaN is neither
        raise UserError(f"{path}, {key}: {value!r} is not a number from 0 to 1")
    return float(value)


def architecture_of(config: dict, kind: Format, path: Path, left_out: tuple[str, ...] = ()) -> str | None:
    """Their class without its family's name, ForMaskedLM for example."""
    names = config.get("architectures") or [None]
    if not isinstance(names, list) or not isinstance(names[0], str | None):
        raise UserError(f"{path}, architectures: {names!r} is not a list of names")
    name = names[0]
    if name is None:
        return None
    for end, what in NOT_OURS.items():
        if name.endswith(end) and not left_out:
            raise UserError(f"{path}, architectures: {name} is {what}; the engine has no such head, {LEAVE_OUT}")
    return max((end for end in kind.architectures if name.endswith(end)), key=len, default=None)
