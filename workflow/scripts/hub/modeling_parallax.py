"""Encoders of Parallax that XLM-R's layout cannot hold. Load them with trust_remote_code=True.

A post-LN Transformer as BERT and XLM-R, x <- LN(x + f(x)), with one or more of these:

    gated relative position bias (XLM-E, section 2.3 and appendix)
        a_ij ~ exp(q_i . k_j / sqrt(d_k) + r_ij),   r_ij = d_{j-i} (1 + g_u + (1 - g_u) w g_r)
        g_u = sigmoid(q_i . u),   g_r = sigmoid(q_i . v)
        d: one number per head and bucket of distances (T5's), in one table for all layers or one per layer; w: one per
        head; u, v: vectors of a head's width, of all heads or one per head, with or without a bias. With `gate_input`
        hidden they read the layer's input, split into heads, in place of the query.
    language embeddings (XLM)                     x_0 = LN(token + position + language)
    residuals of learned size (Admin)             x <- LN(x * omega + f(x))

Weights have the names of Parallax's own files. Positions are numbered from 2 on, as in XLM-R.

Shapes: B rows, T tokens, D width, H heads, K = D / H, M distances, C classes, V vocabulary.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.modeling_outputs import (
    BaseModelOutput,
    MaskedLMOutput,
    QuestionAnsweringModelOutput,
    SequenceClassifierOutput,
    TokenClassifierOutput,
)

from .configuration_parallax import ParallaxConfig

FIRST_POSITION = 2  # the row before it is that of padding


def distance_buckets(buckets: int, max_distance: int) -> list[int]:
    """T5's bucket of each distance (key - query) from -max_distance to max_distance: half of them for each direction,
    half of those exact, the rest logarithmic (in whole numbers, so that no rounding moves a border)."""
    half = buckets // 2
    exact = half // 2
    rest = half - exact

    def bucket(far: int) -> int:
        if far < exact:
            return far
        return exact + max(k for k in range(rest) if max_distance**k * exact ** (rest - k) <= far**rest)

    near_to_far = [bucket(far) for far in range(max_distance + 1)]
    return near_to_far[:0:-1] + near_to_far[:1] + [half + one for one in near_to_far[1:]]


class DistanceTable(nn.Module):
    """d, by head and bucket."""

    def __init__(self, config: ParallaxConfig):
        super().__init__()
        self.limit = config.relative_bias["max_distance"]
        self.buckets = distance_buckets(config.relative_bias["buckets"], self.limit)
        self.table = nn.Embedding(config.relative_bias["buckets"], config.num_attention_heads)

    def forward(self, positions_BT: Tensor) -> Tensor:
        """(B, H, T, T) d of key position - query position; beyond the limit as at the limit."""
        by_distance_MH = self.table(torch.tensor(self.buckets, device=positions_BT.device))
        distance_BTT = positions_BT[:, None, :] - positions_BT[:, :, None]
        index_BTT = distance_BTT.clamp(-self.limit, self.limit) + self.limit
        return F.embedding(index_BTT, by_distance_MH).permute(0, 3, 1, 2)


class Gate(nn.Module):
    """1 + g_u + (1 - g_u) w g_r of every query: (B, H, T)."""

    def __init__(self, config: ParallaxConfig):
        super().__init__()
        bias, all_heads = config.relative_bias, config.num_attention_heads
        heads = all_heads if bias["gate_per_head"] else 1
        self.reads_query = bias["gate_input"] == "query"
        self.u_v = nn.Parameter(torch.zeros(2, heads, config.hidden_size // all_heads))
        self.bias = nn.Parameter(torch.zeros(2, heads)) if bias["gate_bias"] else None
        self.w = nn.Parameter(torch.ones(all_heads))

    def forward(self, query_BHTK: Tensor, x_BTD: Tensor) -> Tensor:
        B, H, T, K = query_BHTK.shape
        reads_BHTK = query_BHTK if self.reads_query else x_BTD.view(B, T, H, K).transpose(1, 2)
        scores = torch.einsum("bhtk,ghk->gbht", reads_BHTK, self.u_v.expand(2, H, K))
        if self.bias is not None:
            scores = scores + self.bias.expand(2, H)[:, None, :, None]
        g_u, g_r = scores.sigmoid()
        return 1 + g_u + (1 - g_u) * self.w[:, None] * g_r


class SelfAttention(nn.Module):
    def __init__(self, config: ParallaxConfig):
        super().__init__()
        self.heads = config.num_attention_heads
        self.dropout = config.attention_probs_dropout_prob
        self.query_key_value = nn.Linear(config.hidden_size, 3 * config.hidden_size)
        self.output = nn.Linear(config.hidden_size, config.hidden_size)
        self.gate = Gate(config) if config.relative_bias else None

    def project(self, x_BTD: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values, (B, H, T, K) each."""
        return in_heads(self.query_key_value(x_BTD), 3, self.heads)

    def forward(self, x_BTD: Tensor, mask: Tensor, distances_BHTT: Tensor | None) -> Tensor:
        q, k, v = self.project(x_BTD)
        if self.gate is not None:
            added_BHTT = distances_BHTT * self.gate(q, x_BTD)[..., None]
            mask = added_BHTT.masked_fill(~mask, -math.inf).to(q.dtype)
        dropout = self.dropout if self.training else 0.0
        return self.output(merged(F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout)))


def in_heads(x_BTD: Tensor, parts: int, heads: int) -> tuple[Tensor, ...]:
    """`parts` tensors (B, H, T, K) out of one projection."""
    B, T, D = x_BTD.shape
    return tuple(x_BTD.view(B, T, parts, heads, D // parts // heads).permute(2, 0, 3, 1, 4))


def merged(x_BHTK: Tensor) -> Tensor:
    return x_BHTK.transpose(1, 2).flatten(2)


class ResidualNorm(nn.LayerNorm):
    """LN(x + f), or LN(x * omega + f)."""

    def __init__(self, config: ParallaxConfig):
        super().__init__(config.hidden_size, eps=config.layer_norm_eps)
        self.residual = nn.Parameter(torch.ones(config.hidden_size)) if config.admin else None

    def forward(self, x_BTD: Tensor, f_BTD: Tensor) -> Tensor:
        return super().forward((x_BTD if self.residual is None else x_BTD * self.residual) + f_BTD)


class Block(nn.Module):
    def __init__(self, config: ParallaxConfig):
        super().__init__()
        self.attention = SelfAttention(config)
        self.attention_norm = ResidualNorm(config)
        self.up = nn.Linear(config.hidden_size, config.intermediate_size)
        self.down = nn.Linear(config.intermediate_size, config.hidden_size)
        self.ffn_norm = ResidualNorm(config)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def feed_forward(self, x_BTD: Tensor) -> Tensor:
        return self.ffn_norm(x_BTD, self.dropout(self.down(F.gelu(self.up(x_BTD)))))

    def forward(self, x_BTD: Tensor, mask: Tensor, distances_BHTT: Tensor | None = None) -> Tensor:
        attended_BTD = self.dropout(self.attention(x_BTD, mask, distances_BHTT))
        return self.feed_forward(self.attention_norm(x_BTD, attended_BTD))


class ParallaxPreTrainedModel(PreTrainedModel):
    config_class = ParallaxConfig
    base_model_prefix = "encoder"
    _supports_sdpa = True

    def _init_weights(self, module: nn.Module) -> None:
        """Of a head that the file does not have; the encoder is always in it."""
        if isinstance(module, nn.Linear | nn.Embedding | nn.LayerNorm):
            super()._init_weights(module)


class ParallaxModel(ParallaxPreTrainedModel):
    """The encoder. It has no pooler: what classifies reads the state of <s>."""

    def __init__(self, config: ParallaxConfig):
        super().__init__(config)
        size, pad = config.hidden_size, config.pad_token_id
        self.tokens = nn.Embedding(config.vocab_size, size, padding_idx=pad)
        if config.absolute_positions:
            self.positions = nn.Embedding(config.max_position_embeddings, size, padding_idx=FIRST_POSITION - 1)
        if config.type_vocab_size:
            self.token_types = nn.Embedding(config.type_vocab_size, size)
        if config.language_vocab_size:
            self.languages = nn.Embedding(config.language_vocab_size, size)
        self.embedding_norm = nn.LayerNorm(size, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.num_hidden_layers))
        bias = config.relative_bias
        tables = 0 if not bias else 1 if bias["shared_by_layers"] else config.num_hidden_layers
        self.distances = nn.ModuleList(DistanceTable(config) for _ in range(tables))
        self.post_init()

    def get_input_embeddings(self) -> nn.Embedding:
        return self.tokens

    def set_input_embeddings(self, value: nn.Embedding) -> None:
        self.tokens = value

    def language_number(self, code: str) -> int:
        """The row of a language. One that the model was not trained on passes for English."""
        codes = self.config.languages
        return codes.index(code if code in codes else "en")

    def embed(
        self,
        input_ids: Tensor | None,
        position_ids: Tensor,
        token_type_ids: Tensor | None = None,
        language_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
    ) -> Tensor:
        x_BTD = self.tokens(input_ids) if inputs_embeds is None else inputs_embeds
        if self.config.absolute_positions:
            x_BTD = x_BTD + self.positions(position_ids)
        if self.config.type_vocab_size:
            x_BTD = x_BTD + self.token_types(
                torch.zeros_like(position_ids) if token_type_ids is None else token_type_ids
            )
        if self.config.language_vocab_size:
            if language_ids is None:
                language_ids = torch.tensor(self.language_number("en"), device=x_BTD.device)
            x_BTD = x_BTD + self.languages(language_ids.view(-1, 1) if language_ids.dim() < 2 else language_ids)
        return self.dropout(self.embedding_norm(x_BTD))

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        language_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        output_hidden_states: bool | None = None,
        return_dict: bool | None = None,
        **ignored,
    ) -> BaseModelOutput | tuple:
        """language_ids: of each row (B,) or token (B, T), rows of config.languages; English where nobody says.
        attention_mask: 1 on real tokens; without it everything but <pad> is real."""
        if (input_ids is None) == (inputs_embeds is None):
            raise ValueError("give input_ids or inputs_embeds, one of the two")
        if attention_mask is None:
            shape, device = (input_ids if inputs_embeds is None else inputs_embeds[..., 0]).shape, self.device
            ones = torch.ones(shape, device=device)
            attention_mask = ones if input_ids is None else input_ids != self.config.pad_token_id
        real_BT = attention_mask.bool()
        if position_ids is None:
            position_ids = real_BT.long().cumsum(1) * real_BT + FIRST_POSITION - 1
        x_BTD = self.embed(input_ids, position_ids, token_type_ids, language_ids, inputs_embeds)
        states = [x_BTD]
        tables = [table(position_ids) for table in self.distances] or [None]
        tables = tables * len(self.blocks) if len(tables) == 1 else tables
        for block, distances_BHTT in zip(self.blocks, tables, strict=True):
            x_BTD = block(x_BTD, real_BT[:, None, None, :], distances_BHTT)
            states.append(x_BTD)
        wanted = self.config.output_hidden_states if output_hidden_states is None else output_hidden_states
        output = BaseModelOutput(last_hidden_state=x_BTD, hidden_states=tuple(states) if wanted else None)
        return output if return_dict is not False else output.to_tuple()


class MaskedLanguageModelHead(nn.Module):
    """dense, GELU, LayerNorm, then the token table as the output matrix, and a bias."""

    def __init__(self, config: ParallaxConfig):
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.bias = nn.Parameter(torch.zeros(config.vocab_size))

    def forward(self, x: Tensor, table_VD: Tensor) -> Tensor:
        return F.linear(self.norm(F.gelu(self.dense(x))), table_VD, self.bias)


class Head(nn.Module):
    """Dropout and linear, of every state; with `dense` of the first one: dense, tanh, dropout, linear."""

    def __init__(self, config: ParallaxConfig, classes: int, dense: bool):
        super().__init__()
        own = config.classifier_dropout
        self.dense = nn.Linear(config.hidden_size, config.hidden_size) if dense else None
        self.dropout = nn.Dropout(config.hidden_dropout_prob if own is None else own)
        self.output = nn.Linear(config.hidden_size, classes)

    def forward(self, x_BTD: Tensor) -> Tensor:
        x = x_BTD if self.dense is None else torch.tanh(self.dense(x_BTD[:, 0]))
        return self.output(self.dropout(x))


class WithHead(ParallaxPreTrainedModel):
    """The encoder and what reads its states."""

    def __init__(self, config: ParallaxConfig):
        super().__init__(config)
        self.encoder = ParallaxModel(config)
        self.add_head(config)
        self.post_init()

    def add_head(self, config: ParallaxConfig) -> None:
        raise NotImplementedError

    def finished(self, kind: type, encoded: BaseModelOutput, return_dict: bool | None, **outputs):
        output = kind(hidden_states=encoded.hidden_states, **outputs)
        return output if return_dict is not False else output.to_tuple()


class ParallaxForMaskedLM(WithHead):
    def add_head(self, config: ParallaxConfig) -> None:
        self.mlm_head = MaskedLanguageModelHead(config)

    def forward(self, input_ids: Tensor | None = None, labels: Tensor | None = None, return_dict=None, **inputs):
        encoded = self.encoder(input_ids, **inputs)
        logits_BTV = self.mlm_head(encoded.last_hidden_state, self.encoder.tokens.weight)
        loss = None if labels is None else F.cross_entropy(logits_BTV.flatten(0, 1), labels.flatten())
        return self.finished(MaskedLMOutput, encoded, return_dict, loss=loss, logits=logits_BTV)


class ParallaxForPreTraining(WithHead):
    """Replaced token detection (ELECTRA, XLM-E): a logit of each token, above zero for a replaced one."""

    def add_head(self, config: ParallaxConfig) -> None:
        self.discriminator_head = DiscriminatorHead(config)

    def forward(self, input_ids: Tensor | None = None, labels: Tensor | None = None, return_dict=None, **inputs):
        encoded = self.encoder(input_ids, **inputs)
        logits_BT = self.discriminator_head(encoded.last_hidden_state)
        loss = None
        if labels is not None:
            counted = labels >= 0
            loss = F.binary_cross_entropy_with_logits(logits_BT[counted], labels[counted].to(logits_BT.dtype))
        return self.finished(TokenClassifierOutput, encoded, return_dict, loss=loss, logits=logits_BT)


class DiscriminatorHead(nn.Module):
    """dense, GELU, linear (ELECTRA), or linear alone (COCO-LM)."""

    def __init__(self, config: ParallaxConfig):
        super().__init__()
        size = config.hidden_size
        self.dense = nn.Linear(size, size) if config.discriminator_head != "linear" else None
        self.output = nn.Linear(size, 1)

    def forward(self, x_BTD: Tensor) -> Tensor:
        return self.output(x_BTD if self.dense is None else F.gelu(self.dense(x_BTD))).squeeze(-1)


class ParallaxForSequenceClassification(WithHead):
    def add_head(self, config: ParallaxConfig) -> None:
        self.head = Head(config, config.num_labels, dense=True)

    def forward(self, input_ids: Tensor | None = None, labels: Tensor | None = None, return_dict=None, **inputs):
        encoded = self.encoder(input_ids, **inputs)
        logits_BC = self.head(encoded.last_hidden_state)
        loss = None if labels is None else F.cross_entropy(logits_BC, labels)
        return self.finished(SequenceClassifierOutput, encoded, return_dict, loss=loss, logits=logits_BC)


class ParallaxForTokenClassification(WithHead):
    def add_head(self, config: ParallaxConfig) -> None:
        self.head = Head(config, config.num_labels, dense=False)

    def forward(self, input_ids: Tensor | None = None, labels: Tensor | None = None, return_dict=None, **inputs):
        encoded = self.encoder(input_ids, **inputs)
        logits_BTC = self.head(encoded.last_hidden_state)
        loss = None if labels is None else F.cross_entropy(logits_BTC.flatten(0, 1), labels.flatten())
        return self.finished(TokenClassifierOutput, encoded, return_dict, loss=loss, logits=logits_BTC)


class ParallaxForQuestionAnswering(WithHead):
    """A logit of each token for the start of the answer, and one for its end."""

    def add_head(self, config: ParallaxConfig) -> None:
        self.head = Head(config, 2, dense=False)

    def forward(
        self,
        input_ids: Tensor | None = None,
        start_positions: Tensor | None = None,
        end_positions: Tensor | None = None,
        return_dict=None,
        **inputs,
    ):
        encoded = self.encoder(input_ids, **inputs)
        start_BT, end_BT = self.head(encoded.last_hidden_state).unbind(-1)
        loss = None
        if start_positions is not None and end_positions is not None:
            loss = (F.cross_entropy(start_BT, start_positions) + F.cross_entropy(end_BT, end_positions)) / 2
        output = {"loss": loss, "start_logits": start_BT, "end_logits": end_BT}
        return self.finished(QuestionAnsweringModelOutput, encoded, return_dict, **output)
