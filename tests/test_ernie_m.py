"""ERNIE-M: who a mask of CAMLM sees, and the two passes of BTMLM."""

import dataclasses

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from common.errors import UserError
from engine.attention_rules import Tokens, camlm, camlm_siblings, full
from engine.config import MaskSpec, ObjectiveConfig
from engine.data import FIRST_POSITION, Rows
from engine.dist import Ranks
from engine.masks import block_mask, boolean_mask
from engine.objectives import OBJECTIVES, btmlm, mlm
from engine.objectives import camlm as camlm_objective
from engine.objectives.base import Batch
from engine.objectives.sampling import evaluating, sample
from engine.streams import Source
from engine.tokenizer import BOS, EOS, FIRST_PIECE, PAD
from pretrain import backward
from small_corpus import LANGUAGES, VOCABULARY, write_sentences
from small_engine import model_of, run_of, watch_embeddings
from small_rows import Part, lay, random_pairs
from training.assembly import PretrainingModel, micro_batches

DE, EN, HI = range(3)
MASK = VOCABULARY - 1
ALL_MASKED = MaskSpec(0.3, 1.0, 0.0, 0.0)
PAIRS = random_pairs(8, VOCABULARY, longest=8)


@pytest.fixture(scope="module")
def sources(tmp_path_factory) -> tuple[Source, ...]:
    """German, English and Hindi; 80 pairs of German, 20 of Hindi, in two corpora."""
    folder = tmp_path_factory.mktemp("shards")
    found = []
    for kind, corpus, name, documents in (
        *(("mono", "cc-100", code, 20) for code in LANGUAGES),
        ("bitext", "World", "de-en", 50),
        ("bitext", "Other", "de-en", 30),
        ("bitext", "World", "en-hi", 20),
    ):
        manifest = folder / kind / corpus / name / "0.json"
        write_sentences(manifest, kind, len(found), documents)
        found.append(Source(kind, corpus, name, 0.5, (manifest,)))
    return tuple(found)


@pytest.fixture
def make(sources):
    """An objective that knows these sources."""

    def objective(name: str, **options: object) -> ObjectiveConfig:
        spec = ALL_MASKED if name == "camlm" else MaskSpec(0.3)
        return ObjectiveConfig(name, mask=spec, options=options, sources=sources)

    return objective


def pair(x: list[int], y: list[int]) -> list[Part]:
    """<s> x </s> </s> y </s> and slots for masks."""
    return [([BOS, *x, EOS], 0, True), ([EOS, *y, EOS, *[PAD] * 6], 1, False)]


def placeholders(x: list[int], p: int) -> list[Part]:
    """<s> x </s> </s> ?*p </s>"""
    return [([BOS, *x, EOS], 0, True), ([EOS, *[PAD] * p, EOS], 1, False)]


def batches(
    objective: ObjectiveConfig,
    items: list[list[Part]],
    per_row: int = 2,
    languages: tuple[int, int] = (DE, EN),
    device_rows: int = 99,
    step: int = 9,
) -> list[Batch]:
    rows = lay([items[i : i + per_row] for i in range(0, len(items), per_row)], 30 * per_row, languages)
    if objective.name == "camlm":
        rows.document[rows.tokens == PAD] = -1
    return micro_batches(rows, objective, run_of(objective, device_rows=device_rows), Ranks(), step)


def pairs_of(objective: ObjectiveConfig, **options: object) -> Batch:
    [batch] = batches(objective, [pair(*sides) for sides in PAIRS], **options)
    return batch


def texts_of(objective: ObjectiveConfig, **options: object) -> list[Batch]:
    return batches(objective, [placeholders(x, 3) for x, _ in PAIRS], **{"languages": (DE, DE), **options})


def model_for(*objectives: ObjectiveConfig, **options: object) -> PretrainingModel:
    return model_of(run_of(*objectives, positions=70, **options))


def logits_of(model: PretrainingModel, batch: Batch, tokens=None, fields=None, places=None) -> torch.Tensor:
    """At the masks, (N, V)."""
    states = camlm_objective.mask_states(
        model,
        batch,
        batch.tokens if tokens is None else tokens,
        fields or batch.fields,
        batch.selected if places is None else places,
    )
    return model.mlm_head(states, model.encoder.tokens.weight)


def translated(model: PretrainingModel, batch: Batch) -> Batch:
    with torch.no_grad():
        btmlm.translate(model, batch)
    return batch


# --- CAMLM: invariants 1 to 3 and 6 ----------------------------------------------------------------------------------


@pytest.mark.parametrize("masks", ["in-place", "append"])
@pytest.mark.parametrize("siblings", [False, True])
@pytest.mark.usefixtures("double")
def test_no_context_of_its_own_side_reaches_a_mask(make, masks, siblings):
    """Gradients of the logits of each mask with respect to every embedding, after three layers."""
    objective = make("camlm", masks=masks, siblings=siblings)
    model, batch = model_for(objective), pairs_of(objective)
    embedded = watch_embeddings(model.encoder)
    logits = logits_of(model, batch)
    fields = Tokens(*(field.flatten() for field in batch.fields))
    row = torch.arange(len(batch.tokens)).repeat_interleave(batch.tokens.shape[1])
    met_siblings = 0
    for logits_V, m in zip(logits, batch.selected.tolist(), strict=True):
        (gradient,) = torch.autograd.grad(logits_V.square().sum(), embedded[0], retain_graph=True)
        felt = (gradient != 0).any(-1).flatten()
        own = (row == row[m]) & (fields.document == fields.document[m])
        itself = torch.arange(len(row)) == m
        other = own & (fields.side != fields.side[m]) & ~fields.selected
        brothers = own & (fields.side == fields.side[m]) & fields.selected & ~itself
        met_siblings += int(brothers.sum())
        assert felt[other].all() and other.any() and felt[m]
        assert felt[brothers].all() if siblings else not felt[brothers].any()
        assert not felt[~other & ~itself & ~brothers].any()
    assert met_siblings > 20


@pytest.mark.usefixtures("double")
def test_states_of_one_side_know_nothing_of_the_other(make):
    objective = make("camlm")
    model, batch = model_for(objective), pairs_of(objective)
    mask = batch.mask(camlm)
    before = model.encoder(batch.tokens, batch.fields.position, mask)
    logits = logits_of(model, batch)
    x_u = (batch.fields.side == 0) & ~batch.fields.selected & (batch.fields.document >= 0)
    y = (batch.fields.side == 1) & ~batch.fields.selected
    changed = torch.where(y, (batch.tokens + 5) % 40 + 4, batch.tokens)
    after = model.encoder(changed, batch.fields.position, mask)
    assert torch.equal(before[x_u], after[x_u])
    sources = (batch.fields.side == 0).flatten()[batch.selected]
    assert torch.equal(logits_of(model, batch, changed)[~sources], logits[~sources])
    assert (logits_of(model, batch, changed)[sources] != logits[sources]).any(-1).all()
    # and are those of the tokens alone, where they stood
    for r in range(len(batch.tokens)):
        for number in (0, 1):
            mine = x_u[r] & (batch.fields.document[r] == number)
            alone = model.encoder(batch.tokens[r][mine][None], batch.fields.position[r][mine][None])
            assert torch.allclose(alone[0], before[r][mine], rtol=0, atol=1e-12)


def one_pair(rule=camlm) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """(T, T) who sees whom, and the four kinds of tokens, for a pair of two masks on each side."""
    side = torch.tensor([[0] * 6 + [1] * 7])
    selected = torch.zeros(1, 13, dtype=torch.bool)
    selected[0, [2, 4, 8, 9]] = True
    zeros = torch.zeros(1, 13, dtype=torch.long)
    fields = Tokens(zeros, side, selected, torch.arange(13)[None], zeros)
    kinds = {"X_u": (0, False), "M_s": (0, True), "Y_u": (1, False), "M_t": (1, True)}
    places = {name: ((side == s) & (selected == m))[0] for name, (s, m) in kinds.items()}
    return boolean_mask(fields, rule)[0, 0], places


def edges(places: dict[str, torch.Tensor], query: str, key: str) -> torch.Tensor:
    """All of one kind see all of another; of their own kind, the others."""
    return places[query][:, None] & places[key][None, :]


EXTRA_EDGES = [
    ("M_s", "X_u", 1),
    ("M_t", "Y_u", 1),
    ("Y_u", "X_u", 2),
    ("X_u", "Y_u", 2),
    ("M_s", "M_t", 2),
    ("M_t", "M_s", 2),
    ("X_u", "M_s", 3),
    ("Y_u", "M_t", 3),
    ("M_s", "M_s", None),
    ("M_t", "M_t", None),
    ("X_u", "M_t", None),
    ("Y_u", "M_s", None),
]


def test_what_reaches_a_token_stays_in_its_closed_set():
    allowed, places = one_pair()
    x, y, itself = places["X_u"], places["Y_u"], torch.eye(13, dtype=torch.bool)
    for rule, own in ((camlm, itself), (camlm_siblings, None)):
        allowed, places = one_pair(rule)
        reached = itself
        for _ in range(12):
            reached = (reached.float() @ (allowed | itself).float()) > 0
            for q in range(13):
                kind = next(name for name, mine in places.items() if mine[q])
                brothers = itself[q] if own is not None else places[kind]
                closed = {"X_u": x, "Y_u": y, "M_s": y | brothers, "M_t": x | brothers}[kind]
                assert torch.equal(reached[q], closed), (kind, q)


def first_leak(reached: list[torch.Tensor], places: dict[str, torch.Tensor]) -> int | None:
    """The first layer at which a mask is reached by what is not masked of its own side."""
    for layer, who in enumerate(reached, start=1):
        if who[places["M_s"]][:, places["X_u"]].any() or who[places["M_t"]][:, places["Y_u"]].any():
            return layer
    return None


@pytest.mark.parametrize(("query", "key", "layer"), EXTRA_EDGES)
@pytest.mark.usefixtures("double")
def test_an_extra_edge_leaks_at_the_stated_layer(query, key, layer):
    allowed, places = one_pair()
    allowed = allowed | edges(places, query, key)
    step = (allowed | torch.eye(13, dtype=torch.bool)).float()
    assert first_leak([torch.matrix_power(step, depth) > 0 for depth in range(1, 13)], places) == layer
    # and so it is in a real encoder
    torch.manual_seed(0)
    model = model_of(run_of(layers=5))
    embedded = watch_embeddings(model.encoder)
    states = model.encoder(torch.randint(4, 50, (1, 13)), mask=allowed[None, None], all_layers=True)
    felt = []
    for own in states[1:]:
        felt.append(torch.zeros(13, 13, dtype=torch.bool))
        for q in range(13):
            (gradient,) = torch.autograd.grad(own[0, q].square().sum(), embedded[0], retain_graph=True)
            felt[-1][q] = (gradient[0] != 0).any(-1)
    assert first_leak(felt, places) == layer


@pytest.mark.usefixtures("double")
def test_a_selected_token_that_kept_its_text_is_a_mask_all_the_same(make):
    objective = dataclasses.replace(make("camlm"), mask=MaskSpec(0.4, 0.0, 0.0, 1.0))
    model, batch = model_for(objective), pairs_of(objective)
    assert torch.equal(batch.tokens, batch.original)
    logits = logits_of(model, batch)
    x_u = (batch.fields.side == 0) & ~batch.fields.selected & (batch.tokens >= FIRST_PIECE)
    changed = logits_of(model, batch, torch.where(x_u, (batch.tokens + 7) % 40 + 4, batch.tokens))
    of_source = (batch.fields.side == 0).flatten()[batch.selected]
    assert torch.equal(changed[of_source], logits[of_source])


@pytest.mark.usefixtures("double")
def test_a_new_table_of_languages_changes_nothing(make, monkeypatch):
    """With a full mask the first step's function is the plain encoder's; the table learns, at the masks alone."""
    objective = make("camlm")
    model, batch = model_for(objective), pairs_of(objective)
    monkeypatch.setattr(camlm_objective, "camlm", full)
    plain = batch.states(model.encoder, full).flatten(0, 1)[batch.selected]
    assert torch.equal(logits_of(model, batch), model.mlm_head(plain, model.encoder.tokens.weight))
    logits_of(model, batch).square().sum().backward()
    gradient = model.mask_languages.weight.grad
    assert (gradient[[DE, EN]] != 0).all() and (gradient[HI] == 0).all()
    torch.nn.init.normal_(model.mask_languages.weight)
    embedded = watch_embeddings(model.encoder)
    told, embedded = logits_of(model, batch), embedded[-1]
    plain, unaware = batch.states(model.encoder, full), model.encoder.embed(batch.tokens, batch.fields.position)
    differs = (embedded != unaware).any(-1)
    assert torch.equal(differs, batch.fields.selected)
    assert not hasattr(model_for(make("camlm", language_embedding="none")), "mask_languages")
    for name in ("camlm", "btmlm"):
        assert "mask_languages" in OBJECTIVES[name].training_only
    both = model_for(make("camlm"), make("btmlm"))
    assert sum(name.startswith("mask_languages") for name, _ in both.named_parameters()) == 1
    assert both.mask_languages.weight.shape == (3, 16) and not told.isnan().any()


def test_appended_masks_stand_for_the_tokens_of_a_whole_pair(make):
    plain = pairs_of(make("camlm"))
    batch = pairs_of(make("camlm", masks="append"))
    text = (batch.fields.document >= 0) & ~batch.fields.selected
    assert torch.equal(batch.tokens[text], batch.original[text]) and (batch.tokens[text] != MASK).all()
    assert (batch.tokens[batch.fields.selected] == MASK).all()

    def asked(batch: Batch) -> set[tuple[int, ...]]:
        row = batch.selected // batch.tokens.shape[1]
        arrays = (batch.fields.document, batch.fields.side, batch.fields.position, batch.fields.language)
        at_masks = [array.flatten()[batch.selected] for array in arrays]
        return set(map(tuple, torch.stack([row, batch.targets, *at_masks], 1).tolist()))

    assert asked(batch) == asked(plain) and len(batch.targets) == len(plain.targets) > 20


def test_a_mask_of_blocks_is_the_boolean_mask(make):
    from torch.nn.attention.flex_attention import create_mask

    batch = pairs_of(make("camlm", masks="append"))
    for rule in (camlm, camlm_siblings):
        blocks = block_mask(batch.fields, rule)
        T = batch.tokens.shape[1]
        assert torch.equal(create_mask(blocks.mask_mod, len(batch.tokens), 1, T, T, "cpu"), batch.mask(rule))


# --- BTMLM: invariants 4 and 5 ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("siblings", [False, True])
@pytest.mark.usefixtures("double")
def test_the_first_pass_sees_as_if_all_of_the_other_side_were_masked(make, monkeypatch, siblings):
    objective = make("btmlm", siblings=siblings)
    model = model_for(objective)
    [batch] = texts_of(objective)
    seen = {}

    def note(model, batch, tokens, fields, places):
        seen.update(tokens=tokens, fields=fields, places=places)
        return original(model, batch, tokens, fields, places)

    original = camlm_objective.mask_states
    monkeypatch.setattr(btmlm, "mask_states", note)
    x = batch.fields.side == 0
    translated(model, batch)
    tokens, fields, places = seen["tokens"], seen["fields"], seen["places"]
    assert torch.equal(tokens[x], batch.original[x]) and len(places) == 3 * len(PAIRS)
    assert (tokens.flatten()[places] == MASK).all() and (fields.language.flatten()[places] == EN).all()
    rule = camlm_siblings if siblings else camlm
    camlm_rows = fields._replace(selected=(fields.side == 1) & (tokens == MASK))
    assert torch.equal(batch.mask(rule, fields), batch.mask(rule, camlm_rows))
    allowed = batch.mask(rule, fields)[:, 0]
    for place in places.tolist():
        r, c = divmod(place, tokens.shape[1])
        own = fields.document[r] == fields.document[r, c]
        sees = own & (fields.side[r] == 0)
        sees |= (own & (tokens[r] == MASK)) if siblings else torch.arange(len(own)) == c
        assert torch.equal(allowed[r, c], sees)
        assert not allowed[r, own & (fields.side[r] == 0), c].any()
    # another mask's embedding changes nothing, unless they are told to look at each other
    before = logits_of(model, batch, tokens, fields, places)
    changed = tokens.flatten().clone()
    changed[places[::3]] = 7
    after = logits_of(model, batch, changed.view_as(tokens), fields, places)
    others = [i for i in range(len(places)) if i % 3]
    assert torch.equal(after[others], before[others]) != siblings


@pytest.mark.usefixtures("double")
def test_the_first_pass_leaves_no_trace(make):
    objective = make("btmlm")
    model = model_for(objective, dropout=0.5, attention_dropout=0.5).train()
    model.encoder.blocks[1].eval()
    flags = [part.training for part in model.modules()]
    weights = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    torch.manual_seed(5)
    state = torch.get_rng_state()
    [batch] = texts_of(objective)
    [again] = texts_of(objective)
    assert torch.equal(translated(model, batch).tokens, translated(model, again).tokens)  # no dropout
    assert torch.equal(torch.get_rng_state(), state)
    assert [part.training for part in model.modules()] == flags
    assert all(parameter.grad is None for parameter in model.parameters())
    assert all(torch.equal(tensor, weights[name]) for name, tensor in model.state_dict().items())
    with pytest.raises(ValueError), evaluating(model.encoder):
        raise ValueError
    assert [part.training for part in model.modules()] == flags


@pytest.mark.parametrize("decoding", ["argmax", "sample"])
@pytest.mark.usefixtures("double")
def test_pseudo_tokens_are_pieces_of_text_and_logits_exist_in_chunks(make, monkeypatch, decoding):
    objective = make("btmlm", decoding=decoding)
    model = model_for(objective)
    with torch.no_grad():
        model.mlm_head.bias[:FIRST_PIECE] = model.mlm_head.bias[MASK] = 50.0
    whole, sizes = [], []
    model.mlm_head.register_forward_hook(lambda module, given, logits: sizes.append(len(logits)))
    for chunk in (4096, 5):
        monkeypatch.setattr(mlm, "CHUNK", chunk)
        sizes.clear()
        [batch] = texts_of(objective)
        slots = (batch.fields.side == 1) & (batch.original == PAD) & (batch.fields.document >= 0)
        before = batch.tokens.clone()
        translated(model, batch)
        assert max(sizes) <= chunk and sum(sizes) == slots.sum() == 24
        assert torch.equal(batch.tokens[~slots], before[~slots])
        assert ((batch.tokens[slots] >= FIRST_PIECE) & (batch.tokens[slots] < MASK)).all()
        whole.append(batch.tokens)
    assert torch.equal(*whole)


@pytest.mark.usefixtures("double")
def test_the_likeliest_piece_is_taken_or_one_drawn_from_the_softmax(make):
    objective = make("btmlm")
    model = model_for(objective)
    [batch] = texts_of(objective)
    slots = (batch.fields.side == 1) & (batch.original == PAD) & (batch.fields.document >= 0)
    tokens = torch.where(slots, MASK, batch.original)
    places = slots.flatten().nonzero().squeeze(1)
    logits = logits_of(model, batch, tokens, batch.fields._replace(selected=slots), places)
    translated(model, batch)
    assert torch.equal(batch.tokens[slots], FIRST_PIECE + logits[:, FIRST_PIECE:MASK].argmax(-1))
    n = 20_000
    few = torch.tensor([0.0, 1.0, -1.0, 2.0])
    draws = (torch.arange(n) + 0.5) / n
    counts = torch.bincount(sample(few.expand(n, 4), draws), minlength=4) / n
    assert torch.allclose(counts, few.softmax(-1), atol=1e-3)
    ends = torch.tensor([1e-300, 1.0])
    assert sample(torch.zeros(2, 4), ends).tolist() == [0, 3]
    never = -torch.inf
    assert sample(torch.tensor([[never, 0.0, never]]).expand(2, 3), ends).tolist() == [1, 1]


@pytest.mark.usefixtures("double")
def test_the_second_pass_learns_from_x_and_sees_the_pseudo_tokens(make):
    objective = make("btmlm")
    model = model_for(objective)
    embedded = watch_embeddings(model.encoder)
    [batch] = texts_of(objective)
    translated(model, batch)
    first = len(embedded)
    loss = btmlm.btmlm_loss(model, batch).sums["loss"]
    assert (batch.fields.side.flatten()[batch.selected] == 0).all() and len(batch.targets) >= len(PAIRS)
    assert (batch.original.flatten()[batch.selected] >= FIRST_PIECE).all()
    gradients = torch.autograd.grad(loss, embedded, retain_graph=True, allow_unused=True)
    assert first == 1 and gradients[0] is None
    pseudo = batch.extra["pseudo"]
    assert (gradients[1].flatten(0, 1)[pseudo] != 0).any(-1).all()
    # it is the loss of a pair of these tokens
    states = model.encoder(batch.tokens, batch.fields.position, batch.mask(full)).flatten(0, 1)[batch.selected]
    logits = model.mlm_head(states, model.encoder.tokens.weight)
    assert torch.allclose(loss, F.cross_entropy(logits, batch.targets, reduction="sum"), rtol=1e-12)
    changed = batch.tokens.flatten().clone()
    changed[pseudo[0]] = (changed[pseudo[0]] + 3) % 40 + 4
    states = model.encoder(changed.view_as(batch.tokens), batch.fields.position, batch.mask(full))
    document = batch.fields.document.flatten()
    logits_after = model.mlm_head(states.flatten(0, 1)[batch.selected], model.encoder.tokens.weight)
    touched = (batch.selected // batch.tokens.shape[1] == 0) & (document[batch.selected] == 0)
    assert (logits_after != logits).any(-1)[touched].all() and torch.equal(logits_after[~touched], logits[~touched])


@pytest.mark.parametrize("why", ["start", "language"])
@pytest.mark.usefixtures("double")
def test_without_a_translation_it_is_masked_language_modelling(make, sources, why):
    """The loss and gradients are those of the sentences alone, masked by the same draws."""
    objective = make("btmlm", start_share=0.5 if why == "start" else 0.0)
    if why == "language":
        kept = tuple(source for source in sources if source.name != "de-en")
        objective = dataclasses.replace(objective, sources=kept)
    model = model_for(objective, make("camlm"))
    [batch] = texts_of(objective, step=5)
    translated(model, batch)
    signals = btmlm.btmlm_loss(model, batch).signals
    assert "copied" not in signals if why == "start" else signals["copied"] == (0.0, 0)
    alone = lay([[placeholders(x, 3)[:1] for x, _ in PAIRS[i : i + 2]] for i in range(0, 8, 2)], 60, (DE, DE))
    alone = dataclasses.replace(alone, key=np.zeros_like(alone.key))
    for r in range(4):
        for number in (0, 1):
            mine = batch.key[r][batch.fields.document[r] == number][:1].numpy().view(np.uint64)
            alone.key[r][alone.document[r] == number] = mine
    plain = ObjectiveConfig("mmlm", mask=objective.mask, draws="btmlm")
    [expected] = micro_batches(alone, plain, run_of(plain), Ranks(), 5)
    losses = [OBJECTIVES[b.objective.name].loss(model, b).sums["loss"] for b in (batch, expected)]
    assert len(batch.targets) == len(expected.targets) and torch.allclose(*losses, rtol=1e-12)
    [later] = texts_of(make("btmlm", start_share=0.5), step=6)
    assert "pseudo" in translated(model, later).extra


# --- which language, where -------------------------------------------------------------------------------------------


def wanted(objective: ObjectiveConfig, language: int, n: int = 1) -> np.ndarray:
    keys = np.random.default_rng(0).integers(0, 2**63, n).astype(np.uint64)
    return btmlm.wanted_language(np.full(n, language), keys, objective)


def test_english_goes_into_its_partners_and_all_else_into_english(make, sources):
    objective = make("btmlm")
    assert wanted(objective, DE).tolist() == wanted(objective, HI).tolist() == [EN]
    for alpha in (0.7, 0.0):
        drawn = np.bincount(wanted(make("btmlm", alpha=alpha), EN, 20_000), minlength=3) / 20_000
        german = 80**alpha / (80**alpha + 20**alpha)
        assert drawn[EN] == 0 and drawn[DE] == pytest.approx(german, abs=0.01)
    hindi_alone = tuple(source for source in sources if source.name != "de-en")
    for languages, german in (("paired", btmlm.NONE), ("all", EN)):
        few = dataclasses.replace(make("btmlm", languages=languages), sources=hindi_alone)
        assert wanted(few, DE) == german and wanted(few, HI) == EN and set(wanted(few, EN, 50)) == {HI}
    text_alone = tuple(source for source in sources if source.kind == "mono")
    with pytest.raises(UserError, match="no bitext of the sampling plan has English"):
        wanted(dataclasses.replace(objective, sources=text_alone), DE)
    every = dataclasses.replace(make("btmlm", languages="all"), sources=text_alone)
    assert wanted(every, DE) == EN and wanted(every, EN) == btmlm.NONE
    with pytest.raises(UserError, match="no source of the sampling plan is English"):
        wanted(dataclasses.replace(every, sources=text_alone[:1]), DE)


def test_wanted_languages_stand_on_the_second_side(make):
    [batch] = texts_of(make("btmlm"), languages=(EN, EN))
    real = batch.fields.document >= 0
    assert (batch.fields.language[real & (batch.fields.side == 0)] == EN).all()
    second = batch.fields.language[real & (batch.fields.side == 1)]
    assert set(second.tolist()) == {DE, HI}


def test_consecutive_masks_number_on_and_scattered_ones_over_the_translation(make):
    [near] = texts_of(make("btmlm"))
    [far] = texts_of(make("btmlm", placement="scattered"))
    fewer = [placeholders(x, 3) for x, _ in PAIRS[1:]]
    [single] = batches(make("btmlm", placement="scattered"), fewer, per_row=1, languages=(DE, DE))
    assert torch.equal(near.fields.position[near.fields.side == 0], far.fields.position[far.fields.side == 0])
    moved = 0
    for i, (x, _) in enumerate(PAIRS):
        inside = near.fields.document[i // 2] == i % 2
        slots = inside & (near.original[i // 2] == PAD)
        assert near.fields.position[i // 2][inside].tolist() == list(range(FIRST_POSITION, FIRST_POSITION + len(x) + 7))
        start = FIRST_POSITION + len(x) + 3
        positions = far.fields.position[i // 2][slots].tolist()
        assert positions == sorted(set(positions)) and len(positions) == 3
        span = max(3, len(x))
        assert start <= positions[0] and positions[-1] < start + span
        assert int(far.fields.position[i // 2][inside][-1]) == start + span
        moved += positions != list(range(start, start + 3))
        if i:
            assert single.fields.position[i - 1][single.original[i - 1] == PAD][:3].tolist() == positions
    assert moved >= 3


def test_scattered_masks_stay_within_the_positions_of_a_row(make):
    objective = make("btmlm", placement="scattered")
    x = list(range(4, 24))
    rows = lay([[placeholders(x, 3)]], len(x) + 7, (DE, DE))
    btmlm.corrupt(rows, objective, VOCABULARY)
    assert rows.position.max() == FIRST_POSITION + rows.tokens.shape[1] - 1
    assert rows.position[0, -4:].tolist() == [25, 26, 27, 28]


# --- signals, micro-batches ------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("double")
def test_copies_and_pieces_of_the_wanted_language_are_counted(make):
    objective = make("btmlm")
    model = model_for(objective)
    [batch] = texts_of(objective)
    translated(model, batch)
    places = batch.extra["pseudo"].view(-1, 3)
    tokens = batch.tokens.flatten()
    share = torch.zeros_like(model.pieces.share_LV)
    share[DE, 30:], share[EN, 40:50], share[EN, 50:] = 0.1, 0.05, 0.2
    model.pieces.share_LV = share
    for (x, _), own in zip(PAIRS, places, strict=True):
        free = next(token for token in range(50, MASK) if token not in x)
        tokens[own] = torch.tensor([x[-1], free, next(token for token in range(40, 50) if token not in x)])
    batch.tokens = tokens.view_as(batch.tokens)
    signals = btmlm.health(model, batch)
    assert signals["copied"] == (len(PAIRS), 3 * len(PAIRS))
    expected = sum(x[-1] >= 50 for x, _ in PAIRS) + len(PAIRS)
    assert signals["in_wanted_language"] == (expected, 3 * len(PAIRS))


def test_shares_of_pieces_are_those_of_the_text(make, sources):
    model = model_for(make("btmlm"))
    share = model.pieces.share_LV
    assert share.shape == (3, VOCABULARY) and torch.allclose(share.float().sum(1), torch.ones(3), atol=1e-2)
    tokens = np.fromfile(sources[EN].manifests[0].with_suffix(".tokens.bin"), "<u2")
    assert float(share[EN, tokens[0]]) == pytest.approx((tokens == tokens[0]).mean(), rel=1e-3)
    assert not any("pieces" in name for name in model.state_dict())


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("camlm", {}),
        ("camlm", {"masks": "append", "siblings": True}),
        ("btmlm", {}),
        ("btmlm", {"decoding": "sample", "placement": "scattered", "siblings": True}),
    ],
)
@pytest.mark.usefixtures("double")
def test_forward_passes_of_any_size_give_the_same_gradients(make, name, options):
    objective = make(name, **options)
    found = []
    for device_rows, per_row in ((99, 2), (2, 2), (1, 1)):
        run = run_of(objective, device_rows=device_rows)
        model = model_for(objective).train()
        torch.nn.init.normal_(model.mask_languages.weight, generator=torch.Generator().manual_seed(1))
        if name == "camlm":
            items, languages = [pair(*sides) for sides in PAIRS], (DE, EN)
        else:
            items, languages = [placeholders(x, 3) for x, _ in PAIRS], (EN, EN)
        cut = batches(objective, items, per_row, languages, device_rows)
        signals = backward(model, run, objective, cut, Ranks())
        gradients = torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])
        found.append((signals, gradients))
    for signals, gradients in found[1:]:
        assert signals == pytest.approx(found[0][0], rel=1e-10)
        assert torch.allclose(gradients, found[0][1], rtol=1e-9, atol=1e-12)
    expected = {"loss", "accuracy", "predictions"} | ({"copied", "in_wanted_language"} if name == "btmlm" else set())
    assert found[0][0].keys() == {f"{name}/{signal}" for signal in expected}


def test_rows_are_laid_as_expected():
    rows: Rows = lay([[placeholders([5, 6], 1)]], 8, (DE, DE))
    assert rows.tokens[0].tolist() == [BOS, 5, 6, EOS, EOS, PAD, EOS, PAD] and rows.document[0, -1] == -1
