"""Translation models of Parallax (VECO, section 2.4, and its baselines). Load them with trust_remote_code=True.

    encoder    x <- FFN(SelfAttention(x))                        all source tokens
    decoder    y <- FFN(CrossAttention(SelfAttention(y), x))     y sees itself so far, and x of the encoder's last layer

Post-LN: CrossAttention(y, x) = LN(y + Attention(query = y, key = value = x)), and so the others. The two share the
embeddings of their inputs, which are the output matrix too. The decoder begins with </s> and ends with </s>.

The search of generate() is Parallax's with the values of generation_config.json: `num_beams` hypotheses, scored by
log-probability / length ^ penalty, the end included; done with a sentence once so many are finished; never <s>, <pad>
or <mask>. What differs is where a translation reaches max_length: here its hypotheses end there as they are, Parallax
ends each by the probability of </s>, and its limit is that of each source, twice its length and ten.

Shapes: B rows, S source tokens, T target tokens, D width, V vocabulary.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import GenerationMixin
from transformers.cache_utils import DynamicCache, EncoderDecoderCache
from transformers.modeling_outputs import BaseModelOutput, Seq2SeqLMOutput

from .configuration_parallax import ParallaxConfig
from .modeling_parallax import (
    FIRST_POSITION,
    Block,
    MaskedLanguageModelHead,
    ParallaxModel,
    ParallaxPreTrainedModel,
    ResidualNorm,
    in_heads,
    merged,
)


class CrossAttention(nn.Module):
    def __init__(self, config: ParallaxConfig):
        super().__init__()
        self.heads = config.num_attention_heads
        self.attention_dropout = config.attention_probs_dropout_prob
        self.query = nn.Linear(config.hidden_size, config.hidden_size)
        self.key_value = nn.Linear(config.hidden_size, 2 * config.hidden_size)
        self.output = nn.Linear(config.hidden_size, config.hidden_size)
        self.norm = ResidualNorm(config)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, x_BTD: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        [q] = in_heads(self.query(x_BTD), 1, self.heads)
        dropout = self.attention_dropout if self.training else 0.0
        mixed = merged(F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout))
        return self.norm(x_BTD, self.dropout(self.output(mixed)))


class Decoder(nn.Module):
    """Of each layer the keys and values that were made before: of the target so far, and of the source, once."""

    def __init__(self, config: ParallaxConfig):
        super().__init__()
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.decoder_layers))
        self.cross_attention = nn.ModuleList(CrossAttention(config) for _ in range(config.decoder_layers))

    def forward(
        self, x_BTD: Tensor, memory_BSD: Tensor, own_mask: Tensor, source_mask: Tensor, past: EncoderDecoderCache | None
    ) -> list[Tensor]:
        states = [x_BTD]
        for layer, (block, cross) in enumerate(zip(self.blocks, self.cross_attention, strict=True)):
            attention = block.attention
            q, k, v = attention.project(x_BTD)
            if past is not None:
                k, v = past.self_attention_cache.update(k, v, layer)
            dropout = attention.dropout if self.training else 0.0
            mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=own_mask, dropout_p=dropout)
            x_BTD = block.attention_norm(x_BTD, block.dropout(attention.output(merged(mixed))))
            if past is not None and past.is_updated.get(layer):
                known = past.cross_attention_cache.layers[layer]
                k, v = known.keys, known.values
            else:
                k, v = in_heads(cross.key_value(memory_BSD), 2, cross.heads)
                if past is not None:
                    k, v = past.cross_attention_cache.update(k, v, layer)
                    past.is_updated[layer] = True
            x_BTD = block.feed_forward(cross(x_BTD, k, v, source_mask))
            states.append(x_BTD)
        return states


class ParallaxForTranslation(ParallaxPreTrainedModel, GenerationMixin):
    main_input_name = "input_ids"

    def __init__(self, config: ParallaxConfig):
        super().__init__(config)
        self.encoder = ParallaxModel(config)
        self.decoder = Decoder(config)
        self.mlm_head = MaskedLanguageModelHead(config)
        self.post_init()

    def get_encoder(self, *modality) -> ParallaxModel:
        return self.encoder

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        decoder_input_ids: Tensor | None = None,
        decoder_attention_mask: Tensor | None = None,
        encoder_outputs: BaseModelOutput | tuple | None = None,
        past_key_values: EncoderDecoderCache | None = None,
        labels: Tensor | None = None,
        use_cache: bool | None = None,
        output_hidden_states: bool | None = None,
        return_dict: bool | None = None,
        **ignored,
    ) -> Seq2SeqLMOutput | tuple:
        """decoder_input_ids: `</s> y`, made of `labels` (`y </s>`, -100 where nothing is to be said) if they are not
        given. attention_mask: 1 on the source's real tokens; without it everything but <pad>."""
        if attention_mask is None and input_ids is not None:
            attention_mask = input_ids != self.config.pad_token_id
        if encoder_outputs is None:
            encoder_outputs = self.encoder(input_ids, attention_mask, output_hidden_states=output_hidden_states)
        memory_BSD = encoder_outputs[0]
        if attention_mask is None:
            attention_mask = torch.ones(memory_BSD.shape[:2], device=memory_BSD.device)
        if decoder_input_ids is None:
            if labels is None:
                raise ValueError("give decoder_input_ids or labels, or call generate()")
            said = labels.masked_fill(labels < 0, self.config.pad_token_id)
            decoder_input_ids = said.roll(1, 1)
            decoder_input_ids[:, 0] = self.config.decoder_start_token_id
        if use_cache and past_key_values is None:
            past_key_values = EncoderDecoderCache(DynamicCache(), DynamicCache())
        past = 0 if past_key_values is None else past_key_values.get_seq_length()
        T, device = decoder_input_ids.shape[1], decoder_input_ids.device
        own_mask = torch.ones(T, past + T, dtype=torch.bool, device=device).tril(past)[None, None]
        if decoder_attention_mask is not None:
            own_mask = own_mask & decoder_attention_mask.bool()[:, None, None, :]
        first = past + FIRST_POSITION
        position_ids = torch.arange(first, first + T, device=device)[None]
        x_BTD = self.encoder.embed(decoder_input_ids, position_ids)
        source_mask = attention_mask.bool()[:, None, None, :]
        states = self.decoder(x_BTD, memory_BSD, own_mask, source_mask, past_key_values)
        logits_BTV = self.mlm_head(states[-1], self.encoder.tokens.weight)
        loss = None if labels is None else F.cross_entropy(logits_BTV.flatten(0, 1), labels.flatten())
        output = Seq2SeqLMOutput(
            loss=loss,
            logits=logits_BTV,
            past_key_values=past_key_values,
            decoder_hidden_states=tuple(states) if output_hidden_states else None,
            encoder_last_hidden_state=memory_BSD,
            encoder_hidden_states=getattr(encoder_outputs, "hidden_states", None),
        )
        return output if return_dict is not False else output.to_tuple()
