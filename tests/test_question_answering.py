"""Questions as rows, answers as places: windows, labels, the best span, the head."""

import random

import pytest
import sentencepiece
import torch
from torch import nn

from common.errors import UserError
from engine.answers import Question, squad_exact_match, squad_f1
from engine.heads import AnswerHead, answer, best_span
from engine.model import Encoder
from engine.rows import AnswerWindow, answer_labels, answer_windows, most_context
from engine.shape import ModelConfig
from engine.tokenizer import BOS, EOS, Tokenizer, trimmed
from finetune import switched_questions
from tasks.squad import read_squad

WORDS = ["alpha", "beta", "gamma", "delta", "kappa", "omega", "sigma", "theta", "北京", "路", "।", "a-b", "ﬁne", "é"]


def made_up_text(rng: random.Random, words: int) -> str:
    return "".join(rng.choice(WORDS) + rng.choice([" ", " ", "  ", "\u3000", "\n"]) for _ in range(words))


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory) -> Tokenizer:
    folder = tmp_path_factory.mktemp("spm")
    rng = random.Random(0)
    (folder / "text").write_text("\n".join(" ".join(rng.choices(WORDS, k=9)) for _ in range(500)), encoding="utf-8")
    sentencepiece.SentencePieceTrainer.train(
        input=str(folder / "text"), model_prefix=str(folder / "spm"), vocab_size=38, num_threads=1, minloglevel=2
    )
    return Tokenizer(folder / "spm.model")


def test_places_are_those_of_the_text_and_ids_those_of_encode(tokenizer):
    rng = random.Random(1)
    texts = [made_up_text(rng, rng.randint(0, 12)) for _ in range(300)]
    for text, (ids, places), plain in zip(
        texts, tokenizer.encode_with_places(texts), tokenizer.encode(texts), strict=True
    ):
        assert ids == plain
        assert all(0 <= begin <= end <= len(text) for begin, end in places)
        assert "".join(text[begin:end] for begin, end in places) == "".join(text.split())  # each character once
        assert all(text[begin:end] == text[begin:end].strip() for begin, end in places)
    assert trimmed(" ab ", 0, 4) == (1, 3) and trimmed("   ", 0, 3) == (3, 3)


def test_windows_hold_every_piece_and_one_of_them_is_central(tokenizer):
    rng = random.Random(2)
    for _ in range(200):
        question, context = made_up_text(rng, rng.randint(1, 9)), made_up_text(rng, rng.randint(1, 60))
        length, query, stride = rng.randint(16, 64), rng.randint(1, 20), rng.randint(1, 80)
        windows = answer_windows(tokenizer, [question], [context], length, query, stride)
        [(pieces, places)] = tokenizer.encode_with_places([context])
        rebuilt, central = {}, []
        for window in windows:
            assert len(window.row) <= length and window.row[0] == BOS and window.row[-1] == EOS
            head = window.row[: window.first]
            assert head[-2:] == [EOS, EOS] and head[1:-2] == tokenizer.encode([question])[0][: min(query, length - 5)]
            for offset, place in enumerate(window.places):
                assert rebuilt.setdefault(place, window.row[window.first + offset]) == window.row[window.first + offset]
            central += [place for place, own in zip(window.places, window.central, strict=True) if own]
        assert central == [place for place in places if place in rebuilt] and len(central) == len(pieces)


def test_most_context_is_where_the_smaller_side_is_largest():
    rng = random.Random(3)
    for _ in range(200):
        pieces, room = rng.randint(1, 40), rng.randint(2, 12)
        stride = rng.randint(1, room)
        starts = [0]
        while starts[-1] + room < pieces:
            starts.append(starts[-1] + stride)
        for piece in range(pieces):
            scored = [
                (min(piece - s, min(s + room, pieces) - 1 - piece) + 0.01 * (min(s + room, pieces) - s), -number)
                for number, s in enumerate(starts)
                if s <= piece < min(s + room, pieces)
            ]
            assert most_context(piece, starts, room, pieces) == -max(scored)[1]


def test_labels_are_the_answer_or_the_first_token(tokenizer):
    rng = random.Random(4)
    found = missed = 0
    for _ in range(300):
        words = rng.choices(WORDS[:8], k=30)
        context = " ".join(words)
        first = rng.randrange(29)
        begin = len(" ".join(words[:first])) + (first > 0)
        text = " ".join(words[first : first + rng.randint(1, 3)])
        for window in answer_windows(tokenizer, ["alpha beta"], [context], 24, 10, 8):
            left, right = answer_labels(window, begin, begin + len(text))
            if (left, right) == (0, 0):
                missed += 1
                inside = [place for place in window.places if place[0] < begin + len(text) and place[1] > begin]
                assert not inside or inside[0][0] > begin or inside[-1][1] < begin + len(text)
                continue
            found += 1
            places = window.places[left - window.first : right - window.first + 1]
            assert context[places[0][0] : places[-1][1]] == text
    assert found > 300 and missed > 300


def test_white_space_around_an_answer_is_not_missed(tokenizer):
    context = "alpha beta  gamma\u3000 delta"
    [window] = answer_windows(tokenizer, ["kappa"], [context], 64, 8, 8)
    begin = context.index("gamma")
    whole = answer_labels(window, begin, begin + 5)
    assert whole != [0, 0]
    for left, right in ((2, 0), (1, 2), (0, 2), (2, 2)):
        assert answer_labels(window, begin - left, begin + 5 + right) == whole
    assert answer_labels(window, begin - 3, begin + 5) != whole  # a letter more is another piece


def test_the_best_span_is_that_of_all_pairs():
    rng = torch.Generator().manual_seed(5)
    for _ in range(300):
        pieces = int(torch.randint(1, 12, (1,), generator=rng))
        scores = torch.randn(2, pieces, generator=rng).round(decimals=1)
        central = (torch.rand(pieces, generator=rng) < 0.7).tolist()
        window = AnswerWindow(0, [], 4, [(i, i + 1) for i in range(pieces)], central, (0, pieces))
        longest = int(torch.randint(1, 6, (1,), generator=rng))
        fewer = best_span(scores, window, longest, best=2)
        starts = sorted((i for i in range(pieces) if central[i]), key=lambda i: (-float(scores[0, i]), i))[:2]
        ends = sorted(range(pieces), key=lambda j: (-float(scores[1, j]), j))[:2]
        some = [
            (float(scores[0, i]) + float(scores[1, j]), -i, -j) for i in starts for j in ends if 0 <= j - i < longest
        ]
        assert (fewer[0], -fewer[1], -fewer[2]) == max(some) if some else fewer[0] == -torch.inf
        score, first, last = best_span(scores, window, longest, best=pieces)
        every = [
            (float(scores[0, i]) + float(scores[1, j]), -i, -j)
            for i in range(pieces)
            for j in range(i, min(i + longest, pieces))
            if central[i]
        ]
        if every:
            assert (score, -first, -last) == max(every)
        else:
            assert score == -torch.inf


def small_encoder(tokenizer: Tokenizer) -> Encoder:
    torch.manual_seed(0)
    config = ModelConfig(2, 32, 2, 64, 80, tokenizer.vocabulary_size, dropout=0.0, attention_dropout=0.0)
    return Encoder(config)


def test_padding_is_no_answer_and_changes_no_probability():
    head = AnswerHead(32, 2, 0.0)
    states = torch.randn(2, 9, 32, generator=torch.Generator().manual_seed(1))
    real = torch.tensor([[True] * 9, [True] * 5 + [False] * 4])
    whole, short = head(states, real), head(states[1:, :5], real[1:, :5])
    assert torch.allclose(whole[1, :, :5], short[0]) and bool((whole[1, :, 5:] == -torch.inf).all())
    assert torch.allclose(whole.softmax(-1)[1, :, :5], short.softmax(-1)[0])


class Marker(nn.Module):
    """A head that finds the piece `wanted` of each row: start and end there."""

    def __init__(self, tokens_of, wanted: int):
        super().__init__()
        self.tokens_of, self.wanted = tokens_of, wanted

    def forward(self, states_BTD, real_BT):
        hits = (self.tokens_of == self.wanted).float() * 9
        return torch.stack([hits, hits], 1).masked_fill(~real_BT[:, None], -torch.inf)


def test_the_answer_of_a_long_context_comes_from_the_window_that_holds_it(tokenizer, monkeypatch):
    context = "alpha beta " * 30 + "theta " + "gamma delta " * 30
    windows = answer_windows(tokenizer, ["omega", "sigma"], [context] * 2, 40, 8, 10)
    assert len(windows) > 4
    wanted = tokenizer.encode(["theta"])[0]
    seen = {}

    def encode(_encoder, rows, *_):
        longest = max(map(len, rows))
        seen["head"].tokens_of = torch.tensor([[*row, *[1] * (longest - len(row))] for row in rows])
        return torch.zeros(len(rows), longest, 32), seen["head"].tokens_of != 1

    monkeypatch.setattr("engine.heads.encode", encode)
    seen["head"] = Marker(None, wanted[0])
    for batch in (1, 3, 100):
        spans = answer(small_encoder(tokenizer), seen["head"], windows, 2, "en", batch, 30, 20)
        assert all(context.index("theta") <= begin < end <= context.index("theta") + 5 for begin, end in spans)


def test_code_switching_asks_in_one_language_about_a_text_in_the_other():
    german = Question("1", "Wer?", "Anna kam.", "de", ("Anna",), (0,))
    english = Question("1", "Who?", "Here Anna came.", "en", ("Anna",), (5,))
    first, second = switched_questions([german], {"1": english})
    assert (first.question, first.context, first.starts) == ("Wer?", english.context, (5,))
    assert (second.question, second.context, second.starts) == ("Who?", german.context, (0,))
    with pytest.raises(UserError, match="training question 1 is not among the English ones"):
        switched_questions([german], {})


def test_gold_places_answer_xquad(mirror, tmp_path):
    """The labels of every question of XQuAD, turned into text again: nearly the answer, whatever the language."""
    folder = mirror / "raw.githubusercontent.com/google-deepmind/xquad/master"
    for code, least in (("en", 98), ("de", 98), ("ru", 98), ("ar", 95), ("zh", 60)):
        questions = read_squad(folder / f"xquad.{code}.json", code)
        (tmp_path / "text").write_text("\n".join(q.context for q in questions[::5]), encoding="utf-8")
        sentencepiece.SentencePieceTrainer.train(
            input=str(tmp_path / "text"),
            model_prefix=str(tmp_path / code),
            vocab_size=4000,
            num_threads=2,
            minloglevel=2,
            hard_vocab_limit=False,
            max_sentence_length=20000,
        )
        own = Tokenizer(tmp_path / f"{code}.model")
        windows = answer_windows(own, [q.question for q in questions], [q.context for q in questions], 384, 64, 128)
        answers = {}
        for window in windows:
            question = questions[window.question]
            begin, end = question.starts[0], question.starts[0] + len(question.answers[0])
            left, right = answer_labels(window, begin, end)
            if (left, right) != (0, 0):
                places = window.places[left - window.first : right - window.first + 1]
                answers[question.id] = question.context[places[0][0] : places[-1][1]]
                assert question.answers[0].strip() in answers[question.id]
        assert len(answers) == len(questions) == 1190
        assert squad_f1(questions, answers) > least and squad_exact_match(questions, answers) > least - 12
