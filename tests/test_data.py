import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from common.errors import UserError
from engine.config import MaskSpec, ObjectiveConfig
from engine.corruption import corrupt, select
from engine.data import Layout, Mixture, Rows, pack
from engine.forms import FORMS, SHORTEST, block_bounds
from engine.options import DESCRIPTIONS
from engine.randomness import mix, stable_hash, uniform
from engine.shards import open_shards, write_shard
from engine.streams import Drawn, ItemOptions, Source, Stream
from engine.tokenizer import BOS, EOS, FIRST_PIECE, PAD
from small_corpus import LANGUAGES, VOCABULARY, mixture, sources, write_corpus, write_sentences
from small_engine import run_of
from training.assembly import build_mixture


@pytest.fixture(scope="module")
def shards(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("shards")
    write_corpus(folder)
    return folder


FORMS_TO_TRY = {
    "blocks": ("mono", {"form": "blocks"}),
    "pairs": ("bitext", {"form": "pairs"}),
    "pairs with slots": ("bitext", {"form": "pairs", "reserved_share": 0.15}),
    "pairs with negatives": ("bitext", {"form": "pairs", "negative_share": 0.3}),
    "apart": ("bitext", {"form": "apart"}),
    "placeholders": ("mono", {"form": "placeholders", "reserved_share": 0.2}),
    "twice": ("mono", {"form": "twice"}),
    "mixup": ("bitext", {"form": "mixup"}),
    "alternating": ("bitext", {"form": "alternating"}),
    "segments": ("mono", {"form": "segments"}),
    "next-sentences": ("mono", {"form": "next-sentences"}),
}
every_form = pytest.mark.parametrize("form", FORMS_TO_TRY)


def mixture_of(shards: Path, form: str, **options) -> Mixture:
    kind, own = FORMS_TO_TRY[form]
    return mixture(shards, kind, **{"row_length": 48, **own, **options})


def documents(rows: Rows) -> list[tuple]:
    """Every document of the rows as plain values, without its place."""
    found = []
    for r in range(len(rows.tokens)):
        for number in range(rows.document[r].max() + 1):
            inside = rows.document[r] == number
            found.append(tuple(tuple(array[r][inside].tolist()) for array in dataclasses.astuple(rows)))
    return [tuple(field for i, field in enumerate(document) if i != 1) for document in found]


def test_blocks_are_whole_sentences_until_the_next_does_not_fit():
    assert block_bounds(np.array([3, 3, 3, 3]), block_length=9).tolist() == [0, 2, 4]  # 1 + 4 + 4 = 9
    assert block_bounds(np.array([3, 3, 3, 3]), block_length=8).tolist() == [0, 1, 2, 3, 4]
    assert block_bounds(np.array([50, 2, 2]), block_length=8).tolist() == [
        0,
        1,
        3,
    ]  # too long alone: a block of its own


def test_blocks_hold_no_more_sentences_than_they_may():
    assert block_bounds(np.array([3, 3, 3, 3, 3]), block_length=99, sentences=2).tolist() == [0, 2, 4, 5]
    assert block_bounds(np.array([3, 3, 3, 50]), block_length=9, sentences=1).tolist() == [0, 1, 2, 3, 4]
    documents = np.array([0, 3, 5])
    assert block_bounds(np.full(5, 3), 99, sentences=2, documents=documents).tolist() == [0, 2, 3, 5]


def test_blocks_of_one_sentence_share_rows_and_are_whole(shards):
    own = mixture(shards, "mono", row_length=48, block_sentences=1)
    rows = own.assemble(own.next_layout())
    assert rows.document.max() >= 2
    for tokens in (document[0] for document in documents(rows)):
        assert tokens[0] == BOS and tokens[-1] == EOS and tokens.count(EOS) == 1
    lengths = {len(document[0]) for document in documents(rows)}
    whole = {int(n) + 2 for stream in own.streams for n in stream.shards[0].sentence_lengths()}
    assert lengths <= {min(n, 48) for n in whole}


def test_mono_rows_are_sentences_between_their_marks(shards):
    own = mixture(shards, "mono")
    layout = own.next_layout()
    rows = own.assemble(layout)
    for i in range(len(rows.tokens)):
        stream = own.streams[layout.stream[i]]
        shard, item = layout.items[i, :2]
        first, last = stream.item_bounds(int(shard))[item : item + 2]
        sentences = [open_shards([stream.source.manifests[shard]]).sentence(s).tolist() for s in range(first, last)]
        expected = [BOS] + [token for sentence in sentences for token in (*sentence, EOS)]
        found = rows.tokens[i][rows.document[i] == 0].tolist()
        assert found == expected
        assert (rows.tokens[i][len(expected) :] == PAD).all()
        assert (rows.position[i][: len(expected)] == np.arange(2, 2 + len(expected))).all()
        assert set(rows.language[i][: len(expected)]) == {LANGUAGES.index(stream.source.name)}


def test_short_blocks_share_a_row(shards):
    own = mixture(shards, "mono", row_length=48, block_length=12)
    rows = own.assemble(own.next_layout())
    assert rows.document.max() >= 2
    for document in documents(rows):
        tokens, position = document[0], document[2]
        assert tokens[0] == BOS and tokens[-1] == EOS and len(tokens) <= 12
        assert position == tuple(range(2, 2 + len(tokens)))


@pytest.mark.parametrize("separators", [1, 2])
@pytest.mark.parametrize("swap", [False, True])
def test_pair_rows_hold_both_sides(shards, separators, swap):
    own = mixture(shards, "bitext", pair_separators=separators, swap_sides=swap, packing=False)
    swapped = set()
    for _ in range(4):
        layout = own.next_layout()
        rows = own.assemble(layout)
        for i in range(len(rows.tokens)):
            stream = own.streams[layout.stream[i]]
            shard, item = layout.items[i, :2]
            reader = open_shards([stream.source.manifests[shard]])
            sides = [reader.sentence(2 * item + side).tolist() for side in (0, 1)]
            codes = [LANGUAGES.index(code) for code in stream.source.languages]
            found = rows.tokens[i][rows.document[i] == 0].tolist()
            layouts = [
                ([BOS, *a, EOS, *[EOS] * (separators - 1), *b, EOS], [ca] * (len(a) + 2) + [cb] * (len(b) + separators))
                for (a, ca), (b, cb) in (zip(sides, codes, strict=True), list(zip(sides, codes, strict=True))[::-1])
            ]
            assert found in [tokens for tokens, _ in layouts]
            which = [tokens for tokens, _ in layouts].index(found)
            swapped.add(which)
            assert rows.language[i][: len(found)].tolist() == layouts[which][1]
    assert swapped == ({0, 1} if swap else {0})


def write_documents(folder: Path, sizes: list[list[int]], kind: str = "mono", name: str = "de") -> Source:
    """Documents of sentences of the given lengths; sentence i is made of the token 10 + i."""
    tokens = [10 + i for i, size in enumerate(size for document in sizes for size in document) for _ in range(size)]
    lengths = np.array([size for document in sizes for size in document])
    batch = (np.array(tokens), lengths, np.array([len(document) for document in sizes]))
    write_shard(folder / "0.json", [batch], kind, VOCABULARY, "test", "test")
    return Source(kind, "cc-100", name, 1.0, (folder / "0.json",))


def sentence_of(own: Mixture, layout: Layout, i: int) -> Callable[[int], list[int]]:
    """The sentences of the shard that item i of the layout comes from."""
    shard = own.streams[layout.stream[i]].shards[layout.items[i, 0]]
    return lambda number: shard.sentence(int(number)).tolist()


def inside(rows: Rows, layout: Layout, i: int) -> tuple[np.ndarray, ...]:
    """Tokens, side, position and language of item i of the layout."""
    at = (layout.row[i], slice(layout.column[i], layout.column[i] + layout.lengths[i]))
    return rows.tokens[at], rows.side[at], rows.position[at], rows.language[at]


def language_ids(own: Mixture, layout: Layout, i: int) -> list[int]:
    return [LANGUAGES.index(code) for code in own.streams[layout.stream[i]].source.languages]


def coin(key: np.uint64, purpose: str) -> int:
    return int(mix(np.array([key]) ^ np.uint64(stable_hash(purpose)))[0] & np.uint64(1))


@pytest.mark.parametrize("swap", [False, True])
def test_sides_apart_start_alike(shards, swap):
    own = mixture_of(shards, "apart", swap_sides=swap)
    layout = own.next_layout()
    rows = own.assemble(layout)
    orders = set()
    for i, (_, item, _, key) in enumerate(layout.items):
        sentence, codes = sentence_of(own, layout, i), language_ids(own, layout, i)
        first = coin(key.view(np.uint64), "swap") if swap else 0
        x, y = sentence(2 * item + first), sentence(2 * item + 1 - first)
        a, b = len(x) + 2, len(y) + 2
        tokens, side, position, language = inside(rows, layout, i)
        assert tokens.tolist() == [BOS, *x, EOS, BOS, *y, EOS]
        assert side.tolist() == [0] * a + [1] * b
        assert position.tolist() == [*range(2, 2 + a), *range(2, 2 + b)]
        assert language.tolist() == [codes[first]] * a + [codes[1 - first]] * b
        orders.add(first)
    assert orders == ({0, 1} if swap else {0})


@pytest.mark.parametrize("share", [0.05, 0.2])
def test_placeholders_follow_their_block(shards, share):
    own = mixture_of(shards, "placeholders", row_length=30, reserved_share=share)
    reached = set()
    for _ in range(8):
        layout = own.next_layout()
        rows = own.assemble(layout)
        for i, (shard, item, _, _) in enumerate(layout.items):
            read = sentence_of(own, layout, i)
            first, last = own.streams[layout.stream[i]].item_bounds(int(shard))[item : item + 2]
            sentences = [read(number) for number in range(first, last)]
            block = [BOS, *(token for sentence in sentences for token in (*sentence, EOS))]
            p = max(1, round(share * sum(map(len, sentences))))
            tokens, side, position, language = inside(rows, layout, i)
            assert tokens.tolist() == [*block, EOS, *[PAD] * p, EOS]
            assert side.tolist() == [0] * len(block) + [1] * (p + 2)
            assert position.tolist() == list(range(2, 2 + len(tokens))) and len(tokens) <= 30
            assert set(language) == set(language_ids(own, layout, i))
            assert (rows.document[layout.row[i]][: len(tokens)] == 0).all()
            reached.add(p)
    assert len(reached) > 1 or share < 0.1


@pytest.mark.parametrize("length", [11, 12, 13, 14, 24])
def test_a_block_leaves_room_for_its_slots(tmp_path, length):
    source = write_documents(tmp_path, [[1], [2], [3], [60], [6], [5], [4, 3], [2, 1], [30]])
    for share in (0.05, 0.2, 1.0):
        own = Mixture([source], "placeholders", 9, length, 1, list(LANGUAGES), reserved_share=share)
        sizes = own.item_lengths(own.draw(9))
        assert sizes.max() <= length and sizes.max() >= length - 2


def test_a_share_of_pairs_are_no_translations(shards):
    own = mixture_of(shards, "pairs with negatives")
    shares = []
    for _ in range(8):
        layout = own.next_layout()
        rows = own.assemble(layout)
        for i, (shard, item, _, key) in enumerate(layout.items):
            read, first = sentence_of(own, layout, i), coin(key.view(np.uint64), "swap")
            negative = uniform(np.array([key]).view(np.uint64) ^ np.uint64(stable_hash("negative")))[0] < 0.3
            items = own.streams[layout.stream[i]].shard_items(int(shard)).tolist()
            others = [other for other in items if (other != item) == negative]
            tokens, _, _, language = inside(rows, layout, i)
            x = [BOS, *read(2 * item + first), EOS, EOS]
            assert tokens.tolist() in [[*x, *read(2 * other + 1 - first), EOS] for other in others]
            assert language[0] != language[-1]
            shares.append(negative)
    assert abs(np.mean(shares) - 0.3) < 0.06


@pytest.mark.parametrize("separators", [1, 2])
def test_slots_after_a_pair_belong_to_no_document(shards, separators):
    slots = mixture_of(shards, "pairs with slots", pair_separators=separators)
    layout = slots.next_layout()
    rows = slots.assemble(layout)
    for i, (_, item, _, key) in enumerate(layout.items):
        read, first = sentence_of(slots, layout, i), coin(key.view(np.uint64), "swap")
        x, y = read(2 * item + first), read(2 * item + 1 - first)
        pair = [BOS, *x, EOS, *[EOS] * (separators - 1), *y, EOS]
        p = int(0.15 * len(x)) + 1 + int(0.15 * len(y)) + 1
        tokens, _, position, _ = inside(rows, layout, i)
        assert tokens.tolist() == pair + [PAD] * p
        assert position.tolist() == [*range(2, 2 + len(pair)), *[PAD] * p]
        at = (layout.row[i], slice(layout.column[i], layout.column[i] + len(tokens)))
        assert (rows.document[at][: len(pair)] >= 0).all() and (rows.document[at][len(pair) :] == -1).all()
        assert set(rows.key[at].tolist()) == {int(key.view(np.uint64))}
        assert rows.offset[at].tolist() == list(range(len(tokens)))


@pytest.mark.parametrize("length", [11, 12, 13, 24])
def test_slots_after_a_pair_fit(tmp_path, length):
    source = write_documents(tmp_path, [[60, 60], [2, 60], [60, 3], [4, 4]], "bitext", "de-en")
    own = Mixture([source], "pairs", 9, length, 1, list(LANGUAGES), reserved_share=0.15)
    sizes = own.item_lengths(own.draw(4))
    assert length - 2 <= sizes.max() <= length


def test_a_block_lies_twice(shards):
    own, single = mixture_of(shards, "twice", row_length=40), mixture(shards, "mono", row_length=20)
    blocks = {document[4][0]: document for document in documents(single.assemble(single.next_layout()))}
    layout = own.next_layout()
    rows = own.assemble(layout)
    for i, (_, _, _, key) in enumerate(layout.items):
        block, _, numbered, spoken, *_ = blocks[int(key.view(np.uint64))]
        tokens, side, position, language = inside(rows, layout, i)
        assert tokens.tolist() == 2 * list(block)
        assert side.tolist() == [0] * len(block) + [1] * len(block)
        assert position.tolist() == 2 * list(numbered)
        assert language.tolist() == 2 * list(spoken)
    assert len(blocks) == len(layout.items)


def test_mixup_holds_two_pairs_a_language_on_each_side(shards):
    own = mixture_of(shards, "mixup", row_length=70)
    seen = set()
    for _ in range(4):
        layout = own.next_layout()
        rows = own.assemble(layout)
        for i, (shard, item, _, key) in enumerate(layout.items):
            read, codes = sentence_of(own, layout, i), language_ids(own, layout, i)
            tokens, side, position, language = inside(rows, layout, i)
            query = coin(key.view(np.uint64), "swap")
            items = own.streams[layout.stream[i]].shard_items(int(shard)).tolist()
            found = []
            for number, code in ((0, query), (1, 1 - query)):
                own_side = tokens[side == number].tolist()
                assert position[side == number].tolist() == list(range(2, 2 + len(own_side)))
                assert set(language[side == number]) == {codes[code]}
                c = read(2 * item + code)
                others = [
                    (order, other)
                    for other in items
                    for order in (0, 1)
                    if own_side == [BOS, *join(c, read(2 * other + code), order), EOS]
                ]
                found.append(others)
            [(query_order, other)], [(key_order, again)] = found
            assert other == again != item
            assert query_order == coin(key.view(np.uint64), "order of the query")
            assert key_order == coin(key.view(np.uint64), "order of the key")
            seen.add((query, query_order, key_order))
    assert len(seen) == 8


def join(a: list[int], b: list[int], turned: int) -> list[int]:
    return [*b, EOS, *a] if turned else [*a, EOS, *b]


@pytest.mark.parametrize("length", [10, 11, 20, 31])
def test_the_longest_sentence_of_a_mixup_gives_way(tmp_path, length):
    source = write_documents(tmp_path, [[30, 9], [1, 50], [2, 50], [20, 20]], "bitext", "de-en")
    own = Mixture([source], "mixup", 4, length, 1, list(LANGUAGES), packing=False)
    for _ in range(16):
        layout = own.next_layout()
        assert length - 3 <= layout.lengths.min() and layout.lengths.max() <= length
        [(reader, pieces)] = own.pieces(np.array([[0, *item] for item in layout.items]))
        whole = reader.sentence_lengths()[pieces["sentence"]]
        assert (pieces["size"] >= 1).all() and (pieces["size"] <= whole).all()


def test_sentences_alternate_between_languages(shards):
    own = mixture_of(shards, "alternating", row_length=30)
    orders = set()
    for _ in range(4):
        layout = own.next_layout()
        rows = own.assemble(layout)
        for i, (shard, item, _, key) in enumerate(layout.items):
            read, codes = sentence_of(own, layout, i), language_ids(own, layout, i)
            first, last = own.streams[layout.stream[i]].item_bounds(int(shard))[item : item + 2] // 2  # pairs
            begins = coin(key.view(np.uint64), "swap")
            sides = [(begins + number) % 2 for number in range(last - first)]
            sentences = [[*read(2 * (first + number) + side), EOS] for number, side in enumerate(sides)]
            tokens, side, position, language = inside(rows, layout, i)
            spoken = [codes[side] for side, sentence in zip(sides, sentences, strict=True) for _ in sentence]
            assert len(sentences) >= 2 and tokens.tolist() == [BOS, *flat(sentences)]
            assert language.tolist() == [codes[begins], *spoken]
            assert (side == 0).all() and position.tolist() == list(range(2, 2 + len(tokens)))
            orders.add(begins)
    assert orders == {0, 1}


def test_alternation_takes_what_fits_both_ways(tmp_path):
    source = write_documents(tmp_path, [[2, 9], [5, 3], [4, 4], [30, 30], [2, 2], [2, 2]], "bitext", "de-en")
    own = Mixture([source], "alternating", 4, 16, 1, list(LANGUAGES))
    # x1 y2 x3 are 1 + 3 + 4 + 5 = 13, but y1 x2 are 1 + 10 + 6 = 17 > 16; x2 y3 are 1 + 6 + 5
    assert own.streams[0].item_bounds(0).tolist() == [0, 2, 6, 8, 12]
    assert own.streams[0].shard_items(0).tolist() == [1, 3]


def test_partners_are_drawn_from_all_other_items(shards):
    own = mixture_of(shards, "mixup")
    stream = own.streams[0]
    chosen = []
    for _ in range(40):
        taken = stream.take(60)
        items = Drawn(stream, int(taken[0, 0]), np.array([0, 1]), taken[:, 1], taken[:, 3].view(np.uint64))
        assert (taken[:, 0] == taken[0, 0]).all()
        partners = items.partners().item
        assert (partners != items.item).all()
        chosen += ((partners - items.item) % 60).tolist()
    counts = np.bincount(chosen, minlength=60)[1:]
    assert ((counts - 2400 / 59) ** 2 / (2400 / 59)).sum() < 97  # p = 0.001 with 58 degrees of freedom


def test_segments_are_halves_of_one_document(shards):
    own = mixture_of(shards, "segments", row_length=30)
    for _ in range(4):
        layout = own.next_layout()
        rows = own.assemble(layout)
        for i, item in enumerate(layout.items[:, 1]):
            assert len(documents_of(own, layout, i)) == 1
            x, y = ([BOS, *flat(half)] for half in halves_of(own, layout, i, item))
            tokens, side, position, language = inside(rows, layout, i)
            assert tokens.tolist() == x + y
            assert side.tolist() == [0] * len(x) + [1] * len(y)
            assert position.tolist() == [*range(2, 2 + len(x)), *range(2, 2 + len(y))]
            assert set(language) == set(language_ids(own, layout, i))


def halves_of(own: Mixture, layout: Layout, i: int, item: int) -> tuple[list[list[int]], list[list[int]]]:
    """Sentences of an item of the shard of item i, cut where the two parts differ least."""
    read = sentence_of(own, layout, i)
    first, last = own.streams[layout.stream[i]].item_bounds(int(layout.items[i, 0]))[item : item + 2]
    sentences = [[*read(number), EOS] for number in range(first, last)]
    size = [len(sentence) for sentence in sentences]
    cut = min(range(1, len(size)), key=lambda k: abs(sum(size[:k]) - sum(size[k:])))
    return sentences[:cut], sentences[cut:]


def documents_of(own: Mixture, layout: Layout, i: int) -> set[int]:
    stream, (shard, item) = own.streams[layout.stream[i]], layout.items[i, :2]
    first, last = stream.item_bounds(int(shard))[item : item + 2]
    offsets = stream.shards[shard].document_offsets()
    return set(np.searchsorted(offsets, range(first, last), "right").tolist())


def flat(sentences: list[list[int]]) -> list[int]:
    return [token for sentence in sentences for token in sentence]


def test_half_of_the_next_sentences_come_from_elsewhere(shards):
    own = mixture_of(shards, "next-sentences", row_length=34)
    shares, shortened = [], 0
    for _ in range(8):
        layout = own.next_layout()
        rows = own.assemble(layout)
        for i, (shard, item, _, key) in enumerate(layout.items):
            replaced = uniform(np.array([key]).view(np.uint64) ^ np.uint64(stable_hash("next sentence")))[0] < 0.5
            assert len(documents_of(own, layout, i)) == 1
            tokens, side, position, _ = inside(rows, layout, i)
            first, second = map(flat, halves_of(own, layout, i, item))
            assert tokens[side == 0].tolist() == [BOS, *first]
            assert position.tolist() == list(range(2, 2 + len(tokens))) and len(tokens) <= 34
            found = tokens[side == 1].tolist()
            others = [
                flat(halves_of(own, layout, i, other)[1])
                for other in own.streams[layout.stream[i]].shard_items(int(shard))
                if other != item
            ]
            if not replaced:
                assert found == second
            elif found not in others:  # cut where the room ends, but for a sentence that would have none
                shortened += 1
                assert len(tokens) >= 33 and found[-1] == EOS
                assert any(found[:-1] == other[: len(found) - 1] for other in others)
            shares.append(replaced)
    assert abs(np.mean(shares) - 0.5) < 0.1 and shortened


def test_segments_take_what_fits_and_leave_out_lonely_sentences(tmp_path):
    sizes = [[3], [3, 4, 2], [9, 9, 9], [2, 2]]
    source = write_documents(tmp_path, sizes)
    own = Mixture([source], "segments", 4, 16, 1, list(LANGUAGES))  # <s> <s> and, with its </s>, 14 of sentences
    bounds = own.streams[0].item_bounds(0)
    assert bounds.tolist() == [0, 1, 4, 5, 6, 7, 9]  # 4 + 5 + 3 fit, two times 10 do not
    assert own.streams[0].shard_items(0).tolist() == [1, 5]
    assert sorted(own.draw(2)[:, 2]) == [1, 5]


def test_a_corpus_that_lacks_what_a_form_needs_is_named(tmp_path):
    source = write_documents(tmp_path, [[3], [4], [30, 30]])
    with pytest.raises(UserError, match=r"no two neighbouring .* fit 24 tokens in cc-100/de; raise block_length"):
        Mixture([source], "segments", 4, 24, 1, list(LANGUAGES))
    alone = write_documents(tmp_path, [[4, 4]], "bitext", "de-en")
    for form, options in (("mixup", {}), ("pairs", {"negative_share": 0.5})):
        with pytest.raises(UserError, match=r"0\.json: no two pairs in cc-100/de-en"):
            Mixture([alone], form, 4, 24, 1, list(LANGUAGES), **options)
    far = write_documents(tmp_path, [[12, 12], [12, 12]], "bitext", "de-en")
    with pytest.raises(UserError, match=r"no two neighbouring pairs that fit 24 tokens.*raise block_length or drop it"):
        Mixture([far], "alternating", 4, 24, 1, list(LANGUAGES))


def test_items_too_short_for_their_marks_are_refused(shards):
    with pytest.raises(UserError, match=r"items of 9 tokens: raise row_length and block_length to 10"):
        mixture(shards, "mono", block_length=9)


@every_form
def test_every_form_fits_the_shortest_items(shards, form):
    own = mixture_of(shards, form, row_length=SHORTEST)
    layout = own.next_layout()
    rows = own.assemble(layout)
    assert layout.lengths.max() <= SHORTEST
    for i in range(len(layout.row)):
        tokens = inside(rows, layout, i)[0]
        assert (tokens >= FIRST_PIECE).any() and tokens[0] == BOS


def test_positions_restart_on_the_second_side_of_every_packed_pair(shards):
    own = mixture(shards, "bitext", reset_positions=True, row_length=48)
    rows = own.assemble(own.next_layout())
    assert rows.document.max() >= 1
    for r in range(len(rows.tokens)):
        for number in range(rows.document[r].max() + 1):
            for side in (0, 1):
                positions = rows.position[r][(rows.document[r] == number) & (rows.side[r] == side)]
                assert positions.tolist() == list(range(2, 2 + len(positions)))


def test_the_longer_side_of_a_pair_gives_way(tmp_path):
    write_sentences(tmp_path / "0.json", "bitext", 1, 50)
    source = Source("bitext", "World", "de-en", 1.0, (tmp_path / "0.json",))
    own = Mixture([source], "pairs", 8, 13, 1, list(LANGUAGES))  # 13 tokens, 4 of them marks: 9 for both sides
    drawn = own.draw(50)
    [(reader, pieces)] = own.pieces(drawn)
    sizes = pieces["size"].reshape(50, 2)
    whole = reader.sentence_lengths()[pieces["sentence"]].reshape(50, 2)
    assert (sizes.sum(1) <= 9).all()
    assert (sizes[whole.sum(1) <= 9] == whole[whole.sum(1) <= 9]).all()
    cut = whole.sum(1) > 9
    assert cut.any() and (np.abs(sizes[cut, 0] - sizes[cut, 1]) <= 1).all()  # the sides are equally long here


def test_packing_wastes_little_and_overlaps_nothing():
    rng = np.random.default_rng(0)
    lengths = rng.integers(5, 100, 400)
    row, column = pack(lengths, 32, 512)
    used = np.zeros((32, 512), int)
    for length, r, c in zip(lengths, row, column, strict=True):
        if r >= 0:
            used[r, c : c + length] += 1
    assert used.max() == 1
    assert used.mean() >= 0.97


@every_form
def test_no_item_is_longer_than_it_may_be(shards, form):
    own = mixture_of(shards, form, block_length=16)
    for _ in range(4):
        layout = own.next_layout()
        assert 14 <= layout.lengths.max() <= 16
        rows = own.assemble(layout)
        for i in range(len(layout.row)):
            tokens = inside(rows, layout, i)[0]
            assert tokens[0] == BOS and tokens[-1] == (PAD if form == "pairs with slots" else EOS)
        assert (rows.key > 0).sum() == layout.lengths.sum()


@every_form
def test_an_item_never_leaves_its_row(shards, form):
    whole, capped = mixture_of(shards, form, block_length=None), mixture_of(shards, form, block_length=999)
    rows = [own.assemble(own.next_layout()) for own in (whole, capped)]
    for a, b in zip(*map(dataclasses.astuple, rows), strict=True):
        assert (a == b).all()


def test_what_waits_is_packed_first(shards):
    own = mixture(shards, "bitext", rows=3)
    seen = []
    for _ in range(30):
        waiting = own.waiting.copy()
        layout = own.next_layout()
        placed = {tuple(item) for item in np.concatenate([layout.stream[:, None], layout.items], 1).tolist()}
        assert not len(waiting) or tuple(waiting[0].tolist()) in placed
        assert len(waiting) < 20  # nothing starves
        seen += placed
    assert len(seen) == len(set(seen))


@every_form
@pytest.mark.parametrize("world_size", [1, 2, 3])
def test_one_epoch_visits_every_item_once_at_any_world_size(shards, world_size, form):
    kind, options = FORMS_TO_TRY[form]
    own = Mixture(sources(shards, kind)[:1], **options, rows=6, row_length=24, seed=5, languages=list(LANGUAGES))
    items = sum(len(own.streams[0].shard_items(s)) for s in range(2))
    keys = []
    while own.streams[0].epoch == 0 or (own.waiting[:, 3] == 0).any():
        layout = own.next_layout()
        for rank in range(world_size):
            rows = own.assemble(layout, rank, world_size)
            first = layout.row % world_size == rank
            epoch0 = layout.items[first & (layout.items[:, 2] == 0), 3].view(np.uint64)
            assert set(epoch0.tolist()) <= set(rows.key.ravel().tolist())
            keys += epoch0.tolist()
    assert len(keys) == len(set(keys)) == items


@every_form
def test_ranks_together_hold_the_rows_of_one(shards, form):
    alone, shared = mixture_of(shards, form), mixture_of(shards, form)
    whole = alone.assemble(alone.next_layout())
    layout = shared.next_layout()
    for rank in range(3):
        part = shared.assemble(layout, rank, 3)
        for a, b in zip(dataclasses.astuple(whole), dataclasses.astuple(part), strict=True):
            assert (a[rank::3] == b).all()


@every_form
def test_a_loaded_state_goes_on_where_it_was_saved(shards, form):
    own = mixture_of(shards, form, row_length=24)
    for _ in range(20):
        own.next_layout()
    state = own.state()
    expected = [own.assemble(own.next_layout()) for _ in range(8)]
    again = mixture_of(shards, form, row_length=24)
    again.load_state(state)
    for rows in expected:
        for a, b in zip(
            dataclasses.astuple(rows), dataclasses.astuple(again.assemble(again.next_layout())), strict=True
        ):
            assert (a == b).all()


@every_form
def test_packing_changes_no_item(shards, form):
    """An item alone in its row, among others, and read by another process is the same item."""
    found = []
    for packing, rows in ((True, 8), (False, 24)):
        own = mixture_of(shards, form, row_length=64, block_length=32, packing=packing, rows=rows)
        found.append({})
        for _ in range(4):
            for document in documents(own.assemble(own.next_layout())):
                found[-1][document[4][0]] = document  # by its key
    common = found[0].keys() & found[1].keys()
    assert len(common) > 30
    assert all(found[0][key] == found[1][key] for key in common)


def test_streams_are_drawn_by_the_plan(shards):
    own = mixture(shards, "mono")
    drawn = np.bincount(own.draw(20_000)[:, 0]) / 20_000
    assert np.abs(drawn - [0.5, 0.3, 0.2]).max() < 0.01


def test_another_epoch_is_another_order(shards):
    stream = Stream(sources(shards, "bitext")[0], FORMS["pairs"], ItemOptions(24), seed=1)
    first, second = stream.take(120), stream.take(120)
    assert sorted(map(tuple, first[:, :2].tolist())) == sorted(map(tuple, second[:, :2].tolist()))
    assert (first[:, :2] != second[:, :2]).any() and not set(first[:, 3]) & set(second[:, 3])


@pytest.mark.parametrize("name", DESCRIPTIONS)
def test_objectives_get_the_form_that_they_describe(shards, name):
    settings = {"camlm": {"masks": "append"}, "btmlm": {"ratio_share": 0.1}, "paraphrase": {"negative_share": 0.4}}
    objective = ObjectiveConfig(
        name, mask=MaskSpec(0.25), row_length=48, block_sentences=7, options=settings.get(name, {})
    )
    both = {kind: sources(shards, kind) for kind in ("mono", "bitext")}
    own = build_mixture(run_of(objective), objective, both, 1, None)
    assert own.form.lay is FORMS[DESCRIPTIONS[name].form].lay
    assert own.options.reserved_share == {"camlm": 0.25, "btmlm": 0.1}.get(name, 0.0)
    assert own.options.negative_share == {"paraphrase": 0.4}.get(name, 0.0)
    assert own.options.sentences == 7
    assert (own.assemble(own.next_layout()).document >= 0).any()


# ---- selection and corruption ----


def selected_documents(own: Mixture, steps: int, rate: float = 0.15) -> dict[tuple, tuple]:
    """document -> (selected offsets, tokens as the encoder sees them), over some steps."""
    found = {}
    for _ in range(steps):
        rows = own.assemble(own.next_layout())
        selected = select(rows, rate, "tlm", VOCABULARY)
        seen = corrupt(rows, selected, MaskSpec(rate), "tlm", VOCABULARY)
        for r in range(len(rows.tokens)):
            for number in range(rows.document[r].max() + 1):
                inside = rows.document[r] == number
                key = int(rows.key[r][inside][0])
                found[key] = (tuple(selected[r][inside].tolist()), tuple(seen[r][inside].tolist()))
    return found


def test_packing_changes_neither_selection_nor_corruption(shards):
    packed = selected_documents(mixture(shards, "bitext", row_length=48), 6)
    alone = selected_documents(mixture(shards, "bitext", row_length=48, packing=False), 24)
    common = packed.keys() & alone.keys()
    assert len(common) > 50
    assert all(packed[key] == alone[key] for key in common)


def test_selection_counts_round_stochastically_and_never_hit_specials(shards):
    own = mixture(shards, "mono", rows=64)
    expected = counted = 0.0
    for _ in range(40):
        rows = own.assemble(own.next_layout())
        selected = select(rows, 0.15, "mmlm", VOCABULARY)
        assert (rows.tokens[selected] >= FIRST_PIECE).all()
        ordinary = (rows.tokens >= FIRST_PIECE).sum(1)
        picked = selected.sum(1)
        assert (picked >= np.maximum(1, np.floor(0.15 * ordinary))).all()
        assert (picked <= np.maximum(1, np.floor(0.15 * ordinary) + 1)).all()
        enough = ordinary >= 7  # below, the "at least one" rule adds
        expected += 0.15 * ordinary[enough].sum()
        counted += picked[enough].sum()
    assert abs(counted / expected - 1) < 0.02


def test_each_side_of_a_pair_has_its_own_rate_where_an_objective_says_so(shards):
    own = mixture(shards, "bitext", rows=64, row_length=48)
    counted, expected, one_sided = np.zeros(2), np.zeros(2), 0
    for _ in range(20):
        rows = own.assemble(own.next_layout())
        ordinary = (rows.tokens >= FIRST_PIECE) & (rows.document >= 0)
        whole, sides = (select(rows, 0.15, "camlm", VOCABULARY, per_side=per_side) for per_side in (False, True))
        for r in range(len(rows.tokens)):
            for document in range(rows.document[r].max() + 1):
                inside = ordinary[r] & (rows.document[r] == document)
                n, whole_n, sides_n = (
                    np.array([(inside & (rows.side[r] == side) & of).sum() for side in (0, 1)])
                    for of in (inside, whole[r], sides[r])
                )
                if n.min() < 1:
                    continue
                assert (sides_n >= np.maximum(1, np.floor(0.15 * n))).all() and (sides_n <= 0.15 * n + 1).all()
                one_sided += whole_n.min() == 0
                enough = n >= 7  # below, the "at least one" rule adds
                counted += sides_n * enough
                expected += 0.15 * n * enough
    assert one_sided > 20  # what a rate of the whole pair leaves without a prediction on one side
    assert (abs(counted / expected - 1) < 0.05).all()


def test_pairs_of_other_lengths_are_left_out(shards):
    def sizes(**lengths: int) -> np.ndarray:
        own = mixture(shards, "bitext", row_length=96, **lengths)
        rows = own.assemble(own.next_layout())
        ordinary = (rows.tokens >= FIRST_PIECE) & (rows.document >= 0)
        return np.array(
            [
                [(ordinary[r] & (rows.document[r] == document) & (rows.side[r] == side)).sum() for side in (0, 1)]
                for r in range(len(rows.tokens))
                for document in range(rows.document[r].max() + 1)
            ]
        )

    everything, some = sizes(), sizes(least_tokens=4, most_tokens=14)
    assert everything.min() < 4 and everything.sum(1).max() > 14
    assert some.min() >= 4 and some.sum(1).max() <= 14
    with pytest.raises(UserError, match="no sentence to train on"):
        sizes(least_tokens=1000)


def test_corruption_is_80_10_10(shards):
    own = mixture(shards, "mono", rows=64)
    spec = MaskSpec()
    masked = same = other = 0
    for _ in range(60):
        rows = own.assemble(own.next_layout())
        selected = select(rows, spec.rate, "mmlm", VOCABULARY)
        seen = corrupt(rows, selected, spec, "mmlm", VOCABULARY)
        assert (seen[~selected] == rows.tokens[~selected]).all()
        was, now = rows.tokens[selected], seen[selected]
        assert ((now >= FIRST_PIECE) & (now < VOCABULARY)).all()
        masked += (now == VOCABULARY - 1).sum()
        same += (now == was).sum()
        other += ((now != was) & (now != VOCABULARY - 1)).sum()
    n = masked + same + other
    pieces = VOCABULARY - 1 - FIRST_PIECE
    shares = np.array([0.8, 0.1 + 0.1 / pieces, 0.1 - 0.1 / pieces])
    chi2 = ((np.array([masked, same, other]) - n * shares) ** 2 / (n * shares)).sum()
    assert chi2 < 13.8  # p = 0.001 with two degrees of freedom


def test_a_random_token_is_never_the_mask(shards):
    own, spec = mixture(shards, "mono", rows=64), MaskSpec(mask=0.0, random=1.0, keep=0.0)
    drawn = set()
    for _ in range(60):
        rows = own.assemble(own.next_layout())
        selected = select(rows, 1.0, "mmlm", VOCABULARY)
        drawn |= set(corrupt(rows, selected, spec, "mmlm", VOCABULARY)[selected].tolist())
    assert drawn == set(range(FIRST_PIECE, VOCABULARY - 1))


def test_selection_differs_between_epochs_seeds_and_objectives(shards):
    own, other_seed = mixture(shards, "mono"), mixture(shards, "mono", seed=4)
    rows = own.assemble(own.next_layout())
    assert (select(rows, 0.5, "mmlm", VOCABULARY) != select(rows, 0.5, "tlm", VOCABULARY)).any()
    assert not set(rows.key.ravel()) & (set(other_seed.assemble(other_seed.next_layout()).key.ravel()) - {0})


def test_mask_shares_must_sum_to_one():
    with pytest.raises(UserError, match="sum to 1"):
        MaskSpec(mask=0.9)


def test_an_empty_source_is_named(tmp_path):
    write_sentences(tmp_path / "0.json", "mono", 1, 1)
    empty = tmp_path / "1.json"
    write_shard(empty, [], "mono", VOCABULARY, "test", "test")
    with pytest.raises(UserError, match=r"1\.json: no sentence to train on"):
        Stream(Source("mono", "cc-100", "de", 1.0, (empty,)), FORMS["blocks"], ItemOptions(24), 1)
