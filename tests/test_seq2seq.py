"""Denoising (mBART) and span corruption (mT5): what is taken out, what is to be said, and who sees what."""

import math
from itertools import pairwise, permutations

import numpy as np
import pytest
import torch
from torch.nn.attention.flex_attention import create_mask

from common.errors import UserError
from engine.assembly import Seq2Seq
from engine.attention_rules import full, own_side_so_far
from engine.config import MaskSpec, ObjectiveConfig
from engine.data import FIRST_POSITION, Mixture, Rows
from engine.dist import Ranks
from engine.masks import block_mask, boolean_mask
from engine.objectives import OBJECTIVES, seq2seq
from engine.objectives.base import Batch
from engine.randomness import mix
from engine.streams import Source
from engine.tokenizer import BOS, EOS, PAD
from small_corpus import LANGUAGES, VOCABULARY, mixture
from small_engine import CONFIG, batches_of, model_of, run_of, watch_embeddings
from training.assembly import PretrainingModel, micro_batches

SOURCES = tuple(Source("mono", "cc-100", language, 1 / 3, ()) for language in LANGUAGES)
WIDE = 2000  # ids of the made-up texts below, the mask included


def objective(name: str, **options) -> ObjectiveConfig:
    return ObjectiveConfig(name, MaskSpec(), options={"decoder_layers": 2, **options}, sources=SOURCES)


both = pytest.mark.parametrize("name", ["denoising", "spans"])


def rows_of(texts: list[list[list[int]]]) -> Rows:
    """One text of sentences to a row, twice."""
    tokens = [[BOS, *(token for sentence in text for token in (*sentence, EOS))] for text in texts]
    length = 2 * max(map(len, tokens))
    arrays = {name: np.zeros((len(texts), length), np.int64) for name in ("side", "language", "offset")}
    rows = Rows(
        tokens=np.full((len(texts), length), PAD),
        document=np.full((len(texts), length), -1),
        position=np.full((len(texts), length), PAD),
        key=np.zeros((len(texts), length), np.uint64),
        **arrays,
    )
    for row, text in enumerate(tokens):
        n = len(text)
        rows.tokens[row, : 2 * n] = text + text
        rows.document[row, : 2 * n] = 0
        rows.side[row, n : 2 * n] = 1
        rows.position[row, : 2 * n] = [*range(FIRST_POSITION, FIRST_POSITION + n)] * 2
        rows.offset[row, : 2 * n] = range(2 * n)
        rows.key[row, : 2 * n] = mix(np.array([row], np.uint64))[0]
    return rows


def made_up_texts(number: int, sentences: int, tokens: int) -> list[list[list[int]]]:
    """All tokens of a text differ."""
    rng = np.random.default_rng(7)
    return [rng.permutation(np.arange(4, WIDE - 1))[: sentences * tokens].reshape(sentences, -1).tolist()] * number


def sides(rows: Rows, seen: np.ndarray, predicts: np.ndarray) -> list[tuple[list[int], list[int], list[int]]]:
    """Of each item what the encoder sees, what the decoder sees, and what it is to say."""
    found = []
    for row in range(len(seen)):
        for number in range(rows.document[row].max() + 1):
            source, target = ((rows.document[row] == number) & (rows.side[row] == side) for side in (0, 1))
            assert predicts[row][target].all() and not predicts[row][source].any()
            for side in (source, target):
                assert (rows.position[row][side] == FIRST_POSITION + np.arange(side.sum())).all()
            found.append(tuple(a[row][s].tolist() for a, s in ((seen, source), (seen, target), (rows.tokens, target))))
    assert not predicts[rows.document < 0].any() and (seen[rows.document < 0] == PAD).all()
    return found


def noised(texts: list[list[list[int]]], own: ObjectiveConfig, vocabulary: int = WIDE) -> list[tuple]:
    rows = rows_of(texts)
    return sides(rows, *OBJECTIVES[own.name].corrupt(rows, own, vocabulary))


def split(tokens: list[int], mark: int) -> list[list[int]]:
    """[1, 2, mark, 3] -> [[1, 2], [3]]."""
    parts = [[]]
    for token in tokens:
        parts.append([]) if token == mark else parts[-1].append(token)
    return parts


def within(part: list[int], whole: list[int]) -> bool:
    """The tokens of the part are in the whole, in its order."""
    rest = iter(whole)
    return all(token in rest for token in part)


def test_denoising_says_the_text_between_its_tags():
    texts = made_up_texts(20, 3, 9)
    for (_, reads, says), text in zip(noised(texts, objective("denoising")), texts, strict=True):
        whole = [token for sentence in text for token in (*sentence, EOS)]
        assert reads == [BOS, *whole] and says == [*whole, BOS]


def test_denoising_takes_out_a_third_and_leaves_a_mask_for_each_span():
    texts, own = made_up_texts(400, 4, 50), objective("denoising")
    rows = rows_of(texts)
    masks = 0
    for (source, _, _), text in zip(sides(rows, *seq2seq.denoising_rows(rows, own, WIDE)), texts, strict=True):
        assert source[-2:] == [EOS, BOS] and BOS not in source[:-1]
        assert source.count(EOS) == 4
        kept = [token for token in source[:-1] if token not in (EOS, WIDE - 1)]
        masks += source.count(WIDE - 1)
        assert len(kept) == 130  # exactly its share is gone
        sentences = [[token for token in part if token != WIDE - 1] for part in split(source[:-2], EOS)]
        origin = [[within(part, sentence) for sentence in text].index(True) for part in sentences if part]
        assert len(set(origin)) == len(origin)
    # spans end early where a text has lost its share: the last one is cut, so they are a little shorter than 3.5
    assert 3.2 < 400 * 70 / masks < 3.5


def test_lengths_of_spans_are_poisson_and_end_when_enough_is_gone():
    number = 4000
    texts = seq2seq.find_texts(rows_of([[[5]]] * number))
    lengths, used = seq2seq.span_lengths(np.full(number, 60), 3.5, texts)
    assert ((lengths * used).sum(1) == 60).all() and (used.sum(1) <= 60).all()
    first = lengths[:, :5].ravel()  # of 60 tokens, five spans are never the last
    assert used[:, :5].all()
    expected = [number * 5 * math.exp(-3.5) * 3.5**k / math.factorial(k) for k in range(11)]
    statistic = sum(((first == k).sum() - e) ** 2 / e for k, e in enumerate(expected))
    assert statistic < 29.6  # chi-square, 10 degrees of freedom, p = 0.001
    few, used = seq2seq.span_lengths(np.full(number, 1), 0.2, texts)  # nearly all are empty: a text must not grow
    assert ((few * used).sum(1) == 1).all() and (used.sum(1) == 1).all()
    some, used = seq2seq.span_lengths(np.full(number, 10), 0.5, texts)  # far more empty ones than room for them
    assert ((some * used).sum(1) == 10).all() and used.sum(1).max() == 10 and (used.sum(1) == 10).mean() > 0.95


def test_spans_lie_anywhere():
    texts = made_up_texts(3000, 1, 10)
    gone = np.zeros(10)
    for source, _, _ in noised(texts, objective("denoising", removed_share=0.25, span=0.2)):  # of one token, nearly all
        gone += [token not in source for token in texts[0][0]]
    assert gone.sum() / 3000 == pytest.approx(2.5, abs=0.03)  # 2 or 3 tokens
    assert np.abs(gone / 3000 - 0.25).max() < 0.03


def test_a_span_of_no_token_puts_a_mask_in():
    [text], inserted, behind = made_up_texts(1, 1, 40)[0], 0, 0
    for source, _, _ in noised(made_up_texts(300, 1, 40), objective("denoising", span=1.0)):
        assert len(source) <= 42
        kept = [token for token in source if token not in (WIDE - 1, EOS, BOS)]
        for one, two in pairwise(kept):
            between = source.index(two) - source.index(one) - 1
            if text.index(two) - text.index(one) == 1:
                inserted += between
            else:
                assert between >= 1
        behind += source[-3] == WIDE - 1 and source[-4] == text[-1]
    assert inserted > 300 and behind > 10


def test_every_order_of_sentences_is_as_likely():
    texts = made_up_texts(1200, 3, 30)
    for permute in (True, False):
        counts = dict.fromkeys(permutations(range(3)), 0)
        for source, _, _ in noised(texts, objective("denoising", permute=permute)):
            parts = split(source[:-2], EOS)
            own = [next(i for i, s in enumerate(texts[0]) if set(s) & set(part)) for part in parts]
            counts[tuple(own)] += 1
        if permute:
            assert sum((n - 200) ** 2 / 200 for n in counts.values()) < 20.5  # chi-square, 5 degrees, p = 0.001
        else:
            assert counts[0, 1, 2] == 1200


@pytest.mark.parametrize(("sentences", "tokens"), [(3, 40), (1, 67), (1, 1), (1, 2), (2, 1), (1, 7)])
def test_sentinels_and_spans_put_together_are_the_text(sentences, tokens):
    texts = made_up_texts(50, sentences, tokens)
    n = sentences * (tokens + 1) - 1
    for (source, reads, says), text in zip(noised(texts, objective("spans")), texts, strict=True):
        assert source[0] == reads[0] == BOS and source[-1] == says[-1] == EOS
        assert reads[1:] == says[:-1]
        parts, [before, *spans] = split(source[1:-1], WIDE - 1), split(says[:-1], WIDE - 1)
        assert not before and all(spans)
        whole = parts[0] + [token for span, part in zip(spans, parts[1:], strict=True) for token in span + part]
        assert whole == [token for sentence in text for token in (*sentence, EOS)][:-1]
        gone = max(1, round(0.15 * n))
        assert sum(map(len, spans)) == gone
        assert len(spans) == min(max(1, round(gone / 3)), max(1, n - gone))


def test_spans_are_cut_at_random():
    """Every way to cut 6 tokens into 2 parts is as likely, and so is every cut of what stays."""
    texts = made_up_texts(2500, 1, 40)
    lengths, starts = np.zeros(6), np.zeros(35)
    for source, _, says in noised(texts, objective("spans")):
        lengths[len(split(says[:-1], WIDE - 1)[1])] += 1
        starts[source.index(WIDE - 1) - 1] += 1
    assert lengths[0] == starts[0] == 0
    assert sum((n - 500) ** 2 / 500 for n in lengths[1:]) < 18.5  # 4 degrees, p = 0.001
    assert sum((n - 2500 / 33) ** 2 / (2500 / 33) for n in starts[1:34]) < 62.5  # 32 degrees


@both
def test_an_item_is_damaged_alike_wherever_it_lies(shards, name):
    own, found = objective(name), []
    for packing in (True, False):
        data = twice(shards, packing=packing, rows=8 if packing else 40)
        items = {}
        for _ in range(3):
            rows = data.assemble(data.next_layout())
            keys = [rows.key[r][rows.document[r] == d][0] for r in range(len(rows.key)) for d in unique(rows, r)]
            damaged = sides(rows, *OBJECTIVES[name].corrupt(rows, own, VOCABULARY))
            items |= dict(zip(map(int, keys), damaged, strict=True))
        found.append(items)
    common = found[0].keys() & found[1].keys()
    assert len(common) > 20 and all(found[0][key] == found[1][key] for key in common)


def unique(rows: Rows, row: int) -> list[int]:
    return sorted({int(number) for number in rows.document[row]} - {-1})


def twice(shards, **options) -> Mixture:
    return mixture(shards, "mono", **{"form": "twice", "row_length": 56, "block_length": 28, **options})


def batch_of(shards, name: str) -> tuple[PretrainingModel, Batch]:
    own = objective(name)
    model = model_of(run_of(own))
    [batch] = batches_of(twice(shards), own)
    assert int(batch.fields.document.max()) >= 2
    return model, batch


@both
@pytest.mark.usefixtures("double")
def test_the_decoder_sees_its_text_so_far_and_all_of_the_source(shards, name):
    model, batch = batch_of(shards, name)
    embedded = watch_embeddings(model.encoder)
    seen = []
    model.mlm_head.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0]))
    OBJECTIVES[name].loss(model, batch)
    source, target = (seq2seq.tokens_of_side(batch, side) for side in (0, 1))
    row_column = target.fields.selected.nonzero()
    assert len(row_column) == len(batch.targets) == len(seen[0])
    for n in range(0, len(row_column), 11):
        row, column = row_column[n].tolist()
        direction = torch.randn_like(seen[0][n])
        of_source, of_target = torch.autograd.grad(seen[0][n] @ direction, embedded, retain_graph=True)
        document = target.fields.document[row, column]
        expected = torch.zeros_like(source.tokens, dtype=torch.bool)
        expected[row] = source.fields.document[row] == document
        assert torch.equal((of_source != 0).any(-1), expected)
        expected = torch.zeros_like(target.tokens, dtype=torch.bool)
        expected[row] = target.fields.document[row] == document
        expected[row, column + 1 :] = False
        assert torch.equal((of_target != 0).any(-1), expected)


@both
def test_masks_of_two_kinds_are_one_and_leave_no_token_blind(shards, name):
    _, batch = batch_of(shards, name)
    source, target = (seq2seq.tokens_of_side(batch, side).fields for side in (0, 1))
    for tokens, rule, keys in ((target, full, source), (source, full, target), (target, own_side_so_far, None)):
        boolean = boolean_mask(tokens, rule, keys)
        B, _, T, S = boolean.shape
        assert (tokens.document.shape[1], (keys or tokens).document.shape[1]) == (T, S)
        assert boolean.any(-1).all()
        assert torch.equal(create_mask(block_mask(tokens, rule, keys).mask_mod, B, 1, T, S, device="cpu"), boolean)


@both
@pytest.mark.usefixtures("double")
def test_packed_items_have_the_loss_of_each_alone(shards, name):
    """Against the network that the translation task trains, given one item at a time."""
    model, batch = batch_of(shards, name)
    for table in ("tags", "sentinels"):  # Seq2Seq knows neither
        if hasattr(model, table):
            torch.nn.init.zeros_(getattr(model, table).weight)
    alone = Seq2Seq(CONFIG, 2).eval()
    own = {n: t for n, t in model.state_dict().items() if n.split(".")[0] not in ("tags", "sentinels")}
    alone.load_state_dict(own)
    total = 0.0
    for row in range(len(batch.tokens)):
        for number in range(int(batch.fields.document[row].max()) + 1):
            source, target = (
                (batch.fields.document[row] == number) & (batch.fields.side[row] == side) for side in (0, 1)
            )
            tokens = batch.tokens[row][source][None]
            states = alone(tokens, torch.ones_like(tokens, dtype=torch.bool), batch.tokens[row][target][None])
            logits, targets = alone.logits(states[0]), batch.original[row][target]
            total += torch.nn.functional.cross_entropy(logits, targets, reduction="sum")
    assert torch.allclose(OBJECTIVES[name].loss(model, batch).sums["loss"], total, rtol=1e-12)
    assert OBJECTIVES[name].count(batch) == {"loss": len(batch.targets)}


@both
@pytest.mark.usefixtures("double")
def test_forward_passes_of_any_size_give_one_gradient(shards, name):
    own, gradients = objective(name), []
    for device_rows in (8, 3):
        run = run_of(own, device_rows=device_rows)
        data, model = twice(shards), model_of(run)
        batches = micro_batches(data.assemble(data.next_layout()), own, run, Ranks())
        for batch in batches:
            OBJECTIVES[name].loss(model, batch).sums["loss"].backward()
        assert all((p.grad != 0).any() for n, p in model.named_parameters())
        gradients.append([len(batches), *(p.grad for p in model.parameters())])
    assert (gradients[0][0], gradients[1][0]) == (1, 3)
    for a, b in zip(gradients[0][1:], gradients[1][1:], strict=True):
        assert torch.allclose(a, b, rtol=1e-9, atol=1e-10)


@pytest.mark.usefixtures("double")
def test_tags_tell_the_language_and_sentinels_their_number(shards):
    model, batch = batch_of(shards, "denoising")
    for side in (seq2seq.tokens_of_side(batch, side) for side in (0, 1)):
        added = seq2seq.tag_vectors(model, side)
        real = side.fields.document >= 0
        ends = side.fields.position == FIRST_POSITION
        if side.tokens[0, 0] != BOS:  # the source: at the end of each item
            ends = real & (
                side.fields.document != torch.nn.functional.pad(side.fields.document, (0, 1), value=-1)[:, 1:]
            )
        assert torch.equal((added != 0).any(-1), ends)
        assert torch.equal(added[ends], model.tags.weight[side.fields.language[ends].long()])

    model, batch = batch_of(shards, "spans")
    side = seq2seq.tokens_of_side(batch, 1)
    added = seq2seq.sentinel_vectors(model, side)
    is_sentinel = side.tokens == VOCABULARY - 1
    assert torch.equal((added != 0).any(-1), is_sentinel)
    position = torch.tensor([[2, 3, 4, 5, 2, 3, 4, 5, 6, PAD]])
    found = seq2seq.sentinel_numbers(torch.tensor([[0, 1, 0, 1, 0, 1, 1, 0, 1, 0]]).bool(), position)
    assert found[0, [1, 3, 5, 6, 8]].tolist() == [0, 1, 0, 1, 2]


@pytest.mark.usefixtures("double")
def test_the_longest_text_has_sentinels_enough():
    for share, span in ((0.15, 3.0), (0.5, 1.0), (0.3, 2.2)):
        own = objective("spans", removed_share=share, span=span)
        model = model_of(run_of(own))
        texts = made_up_texts(1, 1, CONFIG.positions - 4)
        [(source, _, _)] = noised(texts, own)
        assert source.count(WIDE - 1) <= len(model.sentinels.weight)


def test_spans_of_less_than_a_token_are_refused():
    with pytest.raises(UserError, match=r"options\.span: 0\.5 is less"):
        objective("spans", span=0.5)
