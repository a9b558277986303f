"""The shape of a model of Parallax that no class of transformers holds. config.json has these keys."""

from transformers import PretrainedConfig


class ParallaxConfig(PretrainedConfig):
    model_type = "parallax"

    def __init__(
        self,
        vocab_size: int = 250002,
        hidden_size: int = 768,
        num_hidden_layers: int = 12,
        num_attention_heads: int = 12,
        intermediate_size: int = 3072,
        max_position_embeddings: int = 514,  # rows of the table: the longest input + 2, of which no token has the first
        absolute_positions: bool = True,
        type_vocab_size: int = 0,  # 2: an embedding of the side of a pair that a token is on
        languages: list[str] | None = None,  # codes of the rows of a table of language embeddings
        language_vocab_size: int = 0,  # its rows; 0: no such table
        relative_bias: dict
        | None = None,  # buckets, max_distance, gate_input, gate_bias, gate_per_head, shared_by_layers
        admin: bool = False,  # residuals of learned size
        decoder_layers: int | None = None,  # of a translation model
        discriminator_head: str | None = None,  # dense, or linear: detects replaced tokens
        hidden_dropout_prob: float = 0.1,
        attention_probs_dropout_prob: float = 0.1,
        classifier_dropout: float | None = None,
        initializer_range: float = 0.02,
        layer_norm_eps: float = 1e-5,
        bos_token_id: int = 0,
        pad_token_id: int = 1,
        eos_token_id: int = 2,
        decoder_start_token_id: int | None = None,
        **others,
    ):
        self.vocab_size = vocab_size
        self.hidden_size = hidden_size
        self.num_hidden_layers = num_hidden_layers
        self.num_attention_heads = num_attention_heads
        self.intermediate_size = intermediate_size
        self.max_position_embeddings = max_position_embeddings
        self.absolute_positions = absolute_positions
        self.type_vocab_size = type_vocab_size
        self.languages = languages or []
        self.language_vocab_size = language_vocab_size
        self.relative_bias = relative_bias
        self.admin = admin
        self.discriminator_head = discriminator_head
        if decoder_layers is not None:  # generate() takes every key `decoder...` for one of a decoder's own
            self.decoder_layers = decoder_layers
            self.decoder_start_token_id = decoder_start_token_id
        self.hidden_dropout_prob = hidden_dropout_prob
        self.attention_probs_dropout_prob = attention_probs_dropout_prob
        self.classifier_dropout = classifier_dropout
        self.initializer_range = initializer_range
        self.layer_norm_eps = layer_norm_eps
        self.bos_token_id = bos_token_id
        self.pad_token_id = pad_token_id
        self.eos_token_id = eos_token_id
        super().__init__(bos_token_id=bos_token_id, pad_token_id=pad_token_id, eos_token_id=eos_token_id, **others)
