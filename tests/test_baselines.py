"""mBERT's next sentence, Unicoder's three tasks, HICTL, ALM."""

import dataclasses

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from engine.config import ObjectiveConfig
from engine.dist import Ranks
from engine.objectives import OBJECTIVES, code_switch, hictl, mlm, nsp, unicoder
from engine.objectives.base import Batch
from engine.options import DESCRIPTIONS
from engine.randomness import stable_hash, uniform
from engine.tokenizer import BOS, EOS, FIRST_PIECE, PAD, UNK
from pretrain import backward
from small_corpus import VOCABULARY, mixture, sources
from small_engine import model_of, run_of
from small_rows import apart, lay, pair, random_pairs
from training.assembly import micro_batches

OTHER_PAIRS = random_pairs(8, VOCABULARY, seed=6, longest=6)
PAIRS = [*random_pairs(7, VOCABULARY, seed=5, longest=6), ([9, UNK], [9, UNK, 12, 13])]


def batches_of(
    objective: ObjectiveConfig, device_rows: int = 99, per_row: int = 2, form=pair, pairs=PAIRS
) -> list[Batch]:
    items = [form(*sides) for sides in pairs]
    rows = lay([items[i : i + per_row] for i in range(0, len(items), per_row)], row_length=20 * per_row)
    return micro_batches(rows, objective, run_of(objective, device_rows=device_rows), Ranks())


def items_of(batch: Batch) -> list[tuple[int, torch.Tensor]]:
    """Row and columns of each item."""
    rows = range(len(batch.tokens))
    return [
        (r, (batch.fields.document[r] == d).nonzero().squeeze(1))
        for r in rows
        for d in range(int(batch.fields.document[r].max()) + 1)
    ]


def assert_gradients_ignore_micro_batches(objective: ObjectiveConfig, form=pair) -> None:
    run = run_of(objective)
    results = []
    for rows in (99, 3, 1):
        model = model_of(run)
        if start := OBJECTIVES[objective.name].start:
            start(model, objective, lambda: batches_of(objective, form=form, pairs=OTHER_PAIRS), Ranks())
        signals = backward(model, run, objective, batches_of(objective, device_rows=rows, form=form), Ranks())
        results.append((signals, [p.grad for p in model.parameters() if p.grad is not None]))
    for signals, gradients in results[1:]:
        assert signals == pytest.approx(results[0][0], rel=1e-10)
        for a, b in zip(gradients, results[0][1], strict=True):
            assert torch.allclose(a, b, rtol=1e-9, atol=1e-12)


# ---- mBERT ----

NSP = ObjectiveConfig("nsp", pair_separators=1)


@pytest.mark.usefixtures("double")
def test_next_sentence_loss_by_hand():
    model = model_of(run_of(NSP, token_types=2))
    [batch] = batches_of(NSP)
    found = nsp.nsp_loss(model, batch)
    head, total, right, replaced = model.nsp_head, 0.0, 0, []
    for r, columns in items_of(batch):
        states = model.encoder(batch.tokens[r, columns][None], sides_BT=batch.fields.side[r, columns][None])
        pooled = torch.tanh(head.dense.weight @ states[0, 0] + head.dense.bias)
        probability = (head.output.weight @ pooled + head.output.bias).softmax(0)
        key = np.array([int(batch.key[r, columns[0]])]).view(np.uint64)
        label = int(uniform(key ^ np.uint64(stable_hash("next sentence")))[0] < 0.5)
        total -= float(probability[label].log().detach())
        right += int(probability.argmax()) == label
        replaced.append(label)
    assert 0 < sum(replaced) < len(replaced) == 8
    assert nsp.count(batch) == {"mlm": len(batch.targets), "next_sentence": 8}
    assert float(found.sums["next_sentence"].detach()) == pytest.approx(total, rel=1e-10)
    assert found.signals["next_sentence_accuracy"] == (right, 8)
    masked = mlm.masked_lm_loss(model, batch).sums["loss"]
    assert float(found.sums["mlm"].detach()) == pytest.approx(float(masked.detach()), rel=1e-12)
    assert nsp.NSP.training_only == ("nsp_head",)
    assert_gradients_ignore_micro_batches(NSP)


def test_labels_of_next_sentences_are_what_the_form_did(shards):
    """Side 1 belongs to the document of side 0 exactly where the label says so."""
    own = mixture(shards, "mono", form=DESCRIPTIONS["nsp"].form, row_length=32)
    seen = set()
    for _ in range(6):
        rows = own.assemble(own.next_layout())
        [batch] = micro_batches(rows, NSP, run_of(NSP), Ranks())
        labels = nsp.drawn_by_key(batch, "next sentence", 0.5).tolist()
        for (r, columns), label in zip(items_of(batch), labels, strict=True):
            tokens, side = rows.tokens[r, columns], rows.side[r, columns]
            assert tokens[0] == BOS and set(side) == {0, 1}
            second = tuple(tokens[side == 1].tolist())
            seen.add((label, tuple(tokens[side == 0].tolist()), second))
    firsts = {first for _, first, _ in seen}
    true_seconds = {first: second for label, first, second in seen if not label}
    assert len(firsts) > 10 and 0.2 < np.mean([label for label, _, _ in seen]) < 0.8
    again = mixture(shards, "mono", form="segments", row_length=32)
    follows = {}
    for _ in range(12):
        rows = again.assemble(again.next_layout())
        for r in range(len(rows.tokens)):
            for d in range(rows.document[r].max() + 1):
                inside = rows.document[r] == d
                first = tuple(rows.tokens[r][inside & (rows.side[r] == 0)].tolist())
                follows[first] = tuple(rows.tokens[r][inside & (rows.side[r] == 1)][1:].tolist())
    common = [first for first in true_seconds if first in follows]
    assert len(common) > 5 and all(true_seconds[first] == follows[first] for first in common)
    replaced = [(first, second) for label, first, second in seen if label and first in follows]
    assert replaced and all(follows[first] != second for first, second in replaced)


# ---- Unicoder ----

RECOVERY = ObjectiveConfig("word-recovery", pair_separators=1)


@pytest.mark.usefixtures("double")
def test_word_recovery_by_hand():
    model = model_of(run_of(RECOVERY))
    [batch] = batches_of(RECOVERY)
    found = unicoder.word_recovery_loss(model, batch)
    table, positions = model.encoder.tokens.weight, model.encoder.positions.weight
    w = model.word_recovery.weight.flatten()
    total, count = 0.0, 0
    for r, columns in items_of(batch):
        tokens, side = batch.original[r, columns], batch.fields.side[r, columns]
        x = tokens[side == 0]
        y = [table[token] for token in tokens[(side == 1) & (tokens != EOS)]]
        embedded = []
        for place, token in enumerate(x):
            own = table[token]
            if token > EOS:
                scores = torch.stack([w @ torch.cat([own, other, own * other]) for other in y])
                own = sum(a * other for a, other in zip(scores.softmax(0), y, strict=True))
            embedded.append(own + positions[place + 2])
        states = model.encoder.embedding_norm(torch.stack(embedded))[None]
        for block in model.encoder.blocks:
            states = block(states, None)
        wanted = x >= FIRST_PIECE
        logits = model.mlm_head(states[0][wanted], table)
        total += float(F.cross_entropy(logits, x[wanted], reduction="sum").detach())
        count += int(wanted.sum())
    assert unicoder.WORD_RECOVERY.count(batch) == {"loss": count} == {"loss": len(batch.targets)}
    assert float(found.sums["loss"].detach()) == pytest.approx(total, rel=1e-10)
    assert_gradients_ignore_micro_batches(RECOVERY)


@pytest.mark.usefixtures("double")
def test_word_recovery_takes_nothing_from_a_trained_row_of_pad():
    """<pad> stands where the mixture goes. Its row begins as zero, and the softmax over the tied table trains it."""
    model = model_of(run_of(RECOVERY))
    [batch] = batches_of(RECOVERY)
    alone = unicoder.side_alone(batch, 0)
    before = unicoder.recovered_states(model, batch, alone)
    with torch.no_grad():
        model.encoder.tokens.weight[PAD] = torch.randn(before.shape[-1])
    real = alone.fields.document >= 0
    assert torch.allclose(unicoder.recovered_states(model, batch, alone)[real], before[real], rtol=0, atol=1e-12)


@pytest.mark.usefixtures("double")
def test_word_recovery_reads_x_through_its_weights_alone():
    """With w = 0 every mixture is the mean of y: what x was cannot be told."""
    model = model_of(run_of(RECOVERY))
    [batch] = batches_of(RECOVERY)
    changed = dataclasses.replace(batch, original=batch.original.clone())
    changed.original[batch.selected // batch.tokens.shape[1], batch.selected % batch.tokens.shape[1]] = 7
    alone = [unicoder.side_alone(one, 0) for one in (batch, changed)]
    states = [unicoder.recovered_states(model, one, own) for one, own in zip((batch, changed), alone, strict=True)]
    assert not torch.allclose(*states)
    model.word_recovery.weight.data.zero_()
    states = [unicoder.recovered_states(model, one, own) for one, own in zip((batch, changed), alone, strict=True)]
    assert torch.equal(*states)
    unicoder.word_recovery_loss(model, batch).sums["loss"].backward()
    assert model.word_recovery.weight.grad.abs().sum() > 0


@pytest.mark.parametrize("share", [0.5, 0.2])
@pytest.mark.usefixtures("double")
def test_paraphrases_by_hand(share):
    objective = ObjectiveConfig("paraphrase", pair_separators=1, options={"negative_share": share})
    model = model_of(run_of(objective))
    pairs = random_pairs(40, VOCABULARY, seed=8, longest=4)
    [batch] = batches_of(objective, pairs=pairs)
    assert torch.equal(batch.tokens, batch.original) and not batch.fields.selected.any()
    found = unicoder.paraphrase_loss(model, batch)
    keys = np.array([int(batch.key[r, columns[0]]) for r, columns in items_of(batch)]).view(np.uint64)
    labels = torch.from_numpy((uniform(keys ^ np.uint64(stable_hash("negative"))) < share).astype(int))
    states = torch.cat([model.encoder(batch.tokens[r, columns][None])[:, :1] for r, columns in items_of(batch)])
    by_hand = F.cross_entropy(model.paraphrase_head(states), labels, reduction="sum")
    assert abs(float(labels.double().mean()) - share) < 0.2
    assert float(found.sums["loss"].detach()) == pytest.approx(float(by_hand.detach()), rel=1e-10)
    assert OBJECTIVES["paraphrase"].count(batch) == {"loss": 40}
    assert_gradients_ignore_micro_batches(objective)


def test_labels_of_paraphrases_are_what_the_form_did(shards):
    """Side 1 of a pair is side 0 plus or minus one."""
    objective = ObjectiveConfig("paraphrase", options={"negative_share": 0.4})
    form = DESCRIPTIONS["paraphrase"].form
    own = mixture(shards, "bitext", form=form, negative_share=0.4, row_length=48)
    labels = []
    for _ in range(6):
        rows = own.assemble(own.next_layout())
        [batch] = micro_batches(rows, objective, run_of(objective), Ranks())
        found = nsp.drawn_by_key(batch, "negative", 0.4).tolist()
        for (r, columns), label in zip(items_of(batch), found, strict=True):
            tokens, side = rows.tokens[r, columns], rows.side[r, columns]
            first, second = (tokens[(side == s) & (tokens >= FIRST_PIECE)] for s in (0, 1))
            assert label != (len(first) == len(second) and len(set(second - first)) == 1)
            labels.append(label)
    assert 0.3 < np.mean(labels) < 0.5


def test_cross_lingual_mlm_is_mlm_on_other_rows():
    objective = OBJECTIVES["cross-lingual-mlm"]
    assert objective.loss is mlm.masked_lm_loss and DESCRIPTIONS["cross-lingual-mlm"].form == "alternating"


# ---- HICTL ----


def hictl_of(**options: object) -> ObjectiveConfig:
    return ObjectiveConfig("hictl", pair_separators=1, options={"negatives": 9} | options)


def met(model, batches: list[Batch]) -> list[Batch]:
    with torch.no_grad():
        for batch in batches:
            hictl.prepare(model, batch)
    hictl.meet(model, batches, Ranks())
    return batches


@pytest.mark.parametrize("queue", [0, 12])
@pytest.mark.parametrize("probability", [0.0, 0.7])
@pytest.mark.usefixtures("double")
def test_hierarchical_contrast_by_hand(queue, probability):
    """With loops: negatives moved as vectors, word by word, each sentence in a row of its own."""
    objective = hictl_of(queue=queue)
    model = model_of(run_of(objective))
    contrast, table = model.hictl_contrast, model.encoder.tokens.weight
    hictl.start(model, objective, lambda: batches_of(objective, form=apart, pairs=OTHER_PAIRS), Ranks())
    contrast.probability.fill_(probability)
    batches = met(model, batches_of(objective, device_rows=1, form=apart))
    unit = [[], []]
    for batch in batches:
        for r, columns in items_of(batch):
            for side in (0, 1):
                own = columns[batch.fields.side[r, columns] == side]
                unit[side].append(F.normalize(model.encoder(batch.tokens[r, own][None])[0, 0], dim=0).detach())
    keys = contrast.memory.queue.unflatten(1, (2, -1)) if queue else None
    sentences = words = 0.0
    for side in (0, 1):
        for n, (q, k) in enumerate(zip(unit[side], unit[1 - side], strict=True)):
            others = list(keys[:, 1 - side]) if queue else [other for m, other in enumerate(unit[1 - side]) if m != n]
            near, logits = (q - k).norm(), [q @ k]
            for other in others:
                far = (q - other).norm()
                share = (near / far) ** (0.9 * probability) if far > near else 1.0
                moved = q + share * (other - q)
                assert far <= near or (q - moved).norm() >= near - 1e-12
                logits.append(q @ moved)
            sentences -= float((torch.stack(logits) / 0.1).log_softmax(0)[0])
            batch, (r, columns) = [(b, item) for b in batches for item in items_of(b)][n]
            own = batch.original[r, columns][batch.fields.side[r, columns] == side]
            distinct = {int(token) for token in own if token >= FIRST_PIECE}
            [sampled] = hictl.sampled_words(batch, side, VOCABULARY)[n % 2][None].tolist()
            kept = [v for v in sampled if v not in distinct]
            assert 0 < len(kept) <= 9 and all(FIRST_PIECE <= v < VOCABULARY - 1 for v in kept)
            for token in distinct:
                logits = torch.stack([q @ F.normalize(table[v], dim=0) for v in (token, *kept)]) / 0.1
                words -= float(logits.log_softmax(0)[0].detach()) / len(distinct)
    found = [hictl.hictl_loss(model, batch).sums for batch in batches]
    assert float(sum(sums["sentences"] for sums in found).detach()) == pytest.approx(sentences, rel=1e-9)
    assert float(sum(sums["words"] for sums in found).detach()) == pytest.approx(words, rel=1e-9)
    counts = [hictl.count(batch) for batch in batches]
    assert sum(count["sentences"] for count in counts) == 16 == sum(count["words"] for count in counts)
    assert list(counts[0]) == ["mlm", "sentences", "words"]
    drawn = hictl.sampled_words(batches[0], 0, VOCABULARY)
    assert not torch.equal(drawn, hictl.sampled_words(batches[0], 1, VOCABULARY)) and (drawn[0] != drawn[1]).any()


@pytest.mark.parametrize("queue", [0, 12])
@pytest.mark.usefixtures("double")
def test_hictl_compares_the_whole_step_whatever_the_micro_batches(queue):
    assert_gradients_ignore_micro_batches(hictl_of(queue=queue), form=apart)


@pytest.mark.usefixtures("double")
def test_negatives_have_no_gradient_and_a_pair_is_not_its_own_negative():
    objective = hictl_of()
    model = model_of(run_of(objective))
    batches = met(model, batches_of(objective, device_rows=2, form=apart))
    assert [batch.extra["own"].tolist() for batch in batches] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert not batches[0].extra["others"].requires_grad and len(batches[0].extra["others"]) == 8
    vectors = hictl.vectors(hictl.sentences_alone(model.encoder, batches[1]), batches[1])
    assert torch.allclose(vectors, batches[1].extra["others"][4:])  # what `own` points at
    alone = met(model, batches_of(objective, form=apart, pairs=PAIRS[:1]))
    assert float(hictl.hictl_loss(model, alone[0]).sums["sentences"].detach()) == pytest.approx(0, abs=1e-12)


@pytest.mark.usefixtures("double")
def test_the_probability_follows_the_loss_and_the_queue_takes_the_pairs():
    objective = hictl_of(queue=10)
    model = model_of(run_of(objective))
    hictl.start(model, objective, lambda: batches_of(objective, form=apart), Ranks())
    contrast = model.hictl_contrast
    assert int(contrast.memory.pointer) == 6
    batches = batches_of(objective, device_rows=2, form=apart)
    losses = [hictl.hictl_loss(model, batch) for batch in batches]
    total = sum(float(loss.sums["sentences"].detach()) for loss in losses)
    hictl.after_step(model, batches, Ranks())
    assert float(contrast.probability) == pytest.approx(0.01 * np.exp(-total / 16))
    assert int(contrast.memory.pointer) == 4
    assert torch.equal(contrast.memory.queue[6:10], batches[0].extra["keys"])
    assert {"hictl_contrast.probability", "hictl_contrast.memory.queue"} <= model.state_dict().keys()
    assert hictl.HICTL.training_only == ("hictl_contrast",)


# ---- ALM ----


def switching(shards, separators: int = 1, **options: object) -> ObjectiveConfig:
    everything = (*sources(shards, "mono"), *sources(shards, "bitext"))
    return ObjectiveConfig("code-switch", pair_separators=separators, options=options, sources=everything)


def test_model_1_by_hand():
    """das haus / the house, das buch / the book: the first round is even, the second knows that `das` is `the`."""
    das, haus, buch, the, house, book = range(4, 10)
    x, y = np.array([das, haus, das, buch]), np.array([the, house, the, book])
    two = np.array([2, 2])
    found = {(a, b): t for a, b, t in zip(*code_switch.model_1(x, two, y, two, 60), strict=True)}
    t = {pair: 1.0 for pair in found}
    for _ in range(5):
        counts = dict.fromkeys(t, 0.0)
        for xs, ys in (((das, haus), (the, house)), ((das, buch), (the, book))):
            for b in ys:
                for a in xs:
                    counts[a, b] += t[a, b] / sum(t[other, b] for other in xs)
        t = {(a, b): c / sum(n for (other, _), n in counts.items() if other == a) for (a, b), c in counts.items()}
    assert len(t) == 7 and all(found[pair] == pytest.approx(t[pair]) for pair in t)
    assert t[das, the] > 0.8 and t[haus, house] > 0.7 > 0.3 > t[haus, the]


def test_the_lexicon_finds_what_the_corpus_was_made_of(shards):
    """The second side of every pair is the first one plus one."""
    objective = switching(shards)
    lexicon = code_switch.lexicon_of(objective.sources, VOCABULARY)
    assert (np.diff(lexicon.keys) > 0).all()
    pair, x, y = lexicon.keys // VOCABULARY**2, lexicon.keys // VOCABULARY % VOCABULARY, lexicon.keys % VOCABULARY
    assert set(pair.tolist()) == {0 * 3 + 1, 1 * 3 + 0, 1 * 3 + 2, 2 * 3 + 1}  # de en, en de, en hi, hi en
    forward = (pair == 1) | (pair == 5)
    best = {}
    for p, a, b, t in zip(pair, x, y, lexicon.probabilities, strict=True):
        best[p, a] = max(best.get((p, a), (0, 0)), (t, b))
    right = [b == (a + 1 if p in (1, 5) else a - 1) for (p, a), (_, b) in best.items()]
    assert np.mean(right) > 0.95 and forward.any()
    assert lexicon.look_up(np.array([lexicon.keys[3], 10**15])).tolist() == [lexicon.probabilities[3], 0]


@pytest.mark.parametrize("separators", [1, 2])
def test_a_switched_sentence_is_one_of_three_kinds(shards, separators):
    objective = switching(shards, separators)
    own = mixture(shards, "bitext", pair_separators=separators, row_length=48, rows=30)
    kinds, replaced, words = {"source": 0, "target": 0, "mixed": 0}, 0, 0
    for _ in range(8):
        before = own.assemble(own.next_layout())
        rows = type(before)(*(array.copy() for array in dataclasses.astuple(before)))
        lexicon = code_switch.lexicon_of(objective.sources, VOCABULARY)
        code_switch.switch(rows, objective, VOCABULARY, lexicon, 3)
        assert (rows.key == before.key).all() and (rows.offset == before.offset).all() and not rows.side.any()
        for r in range(len(rows.tokens)):
            for d in range(before.document[r].max() + 1):
                was, now = before.document[r] == d, rows.document[r] == d
                sentence = {}
                for s in (0, 1):
                    place = was & (before.side[r] == s) & (before.tokens[r] >= FIRST_PIECE)
                    sentence[s] = list(
                        zip(before.tokens[r, place].tolist(), before.language[r, place].tolist(), strict=True)
                    )
                tokens, languages = rows.tokens[r][now].tolist(), rows.language[r][now].tolist()
                assert tokens[0] == BOS and tokens[-1] == EOS
                assert rows.position[r][now].tolist() == list(range(2, 2 + len(tokens)))
                found = list(zip(tokens, languages, strict=True))[1:-1]
                key = int(before.key[r][was][0])
                fate = uniform(np.array([key], np.uint64) ^ np.uint64(stable_hash("code-switch", "code switch")))[0]
                if fate >= 0.9:
                    kinds["target"] += 1
                    assert found == sentence[1] and set(languages) == {sentence[1][0][1]}
                    continue
                assert len(found) == len(sentence[0]) and languages[0] == languages[-1] == sentence[0][0][1]
                changed = [a != b for a, b in zip(found, sentence[0], strict=True)]
                assert all(b in sentence[1] for b, is_new in zip(found, changed, strict=True) if is_new)
                if fate < 0.1:
                    kinds["source"] += 1
                    assert not any(changed)
                    continue
                kinds["mixed"] += 1
                assert sum(changed) <= 0.3 * len(changed)
                replaced, words = replaced + sum(changed), words + len(changed)
                # the corpus is parallel: what is replaced stands where it stood
                assert np.mean([b == sentence[1][i] for i, b in enumerate(found) if changed[i]] or [True]) > 0.3
    total = sum(kinds.values())
    assert total > 500 and 0.06 < kinds["source"] / total < 0.15 and 0.06 < kinds["target"] / total < 0.15
    assert 0.08 < replaced / words <= 0.3


def test_phrases_fit_the_share():
    link = np.array([[3, 4, 5, 6, 7, -1, 0, 2], [-1, -1, 0, -1, -1, -1, -1, -1]])
    keys = np.arange(2).astype(np.uint64)
    everything = code_switch.choose_phrases(link, np.array([8, 3]), keys, 1.0)
    assert (everything == (link >= 0)).all()
    seen = set()
    for key in range(400):
        chosen = code_switch.choose_phrases(link, np.array([8, 3]), keys + np.uint64(1000 * key), 0.5)
        assert chosen[0].sum() <= 4 and chosen[1].sum() <= 1 and not chosen[link < 0].any()
        seen.add(tuple(np.flatnonzero(chosen[0]).tolist()))
    assert {(0, 1, 2, 3), (4, 6, 7), (1, 6), (6, 7)} <= seen
    long = np.arange(40)[None]
    for key in range(50):
        chosen = code_switch.choose_phrases(long, np.array([40]), np.array([key], np.uint64), 0.1)
        at = np.flatnonzero(chosen[0])
        assert len(at) <= 4


def test_packing_does_not_change_what_is_switched(shards, monkeypatch):
    monkeypatch.setattr(code_switch, "CHUNK", 7)
    objective = switching(shards)
    found = []
    for packing, steps in ((True, 4), (False, 12)):
        own = mixture(shards, "bitext", pair_separators=1, row_length=48, rows=8 if packing else 24, packing=packing)
        sentences = {}
        for _ in range(steps):
            rows = own.assemble(own.next_layout())
            seen, selected = code_switch.switch_and_mask(rows, objective, VOCABULARY)
            for r in range(len(rows.tokens)):
                for d in range(rows.document[r].max() + 1):
                    inside = rows.document[r] == d
                    sentences[int(rows.key[r][inside][0])] = (seen[r][inside].tolist(), selected[r][inside].tolist())
        found.append(sentences)
    common = found[0].keys() & found[1].keys()
    assert len(common) > 50 and all(found[0][key] == found[1][key] for key in common)
    assert all(any(selected) for _, selected in found[0].values())


@pytest.mark.usefixtures("double")
def test_alm_trains_on_the_sentence_alone(shards):
    objective = switching(shards)
    own = mixture(shards, "bitext", pair_separators=1, row_length=48)
    [batch] = micro_batches(own.assemble(own.next_layout()), objective, run_of(objective), Ranks())
    model = model_of(run_of(objective))
    assert not (batch.fields.document < 0)[batch.fields.selected].any()
    assert float(mlm.masked_lm_loss(model, batch).sums["loss"].detach()) > 0
