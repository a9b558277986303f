import subprocess
import sys
from pathlib import Path

import pytest

from common.errors import UserError
from corpus.corpusio import zst_writer
from corpus.sampling import Source, plan, write_plan
from engine.tokenizer import Tokenizer
from train_vocabulary import sample, take_over, train

SIZE = 310


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    for name, words in (("en", "the cat sees a dog near old houses"), ("zh", "猫 看见 一只 狗 在 老 房子 旁边")):
        path = folder / "mono" / "cc-100" / name
        parts = words.split()
        for shard in range(2):
            with zst_writer(path / f"{shard}.clean.txt.zst") as out:
                for i in range(60):
                    glue = " " if name == "en" else ""
                    line = glue.join(parts[(i * 7 + shard + k * k) % len(parts)] for k in range(3 + i % 5))
                    out.write(f"{line}{shard}{i}.\n" + ("\n" if i % 3 == 2 else ""))
    with zst_writer(folder / "bitext" / "Europarl" / "en-zh" / "0.clean.tsv.zst") as out:
        out.writelines(f"a dog {i}\t一只狗{i}\n" for i in range(40))
    sources = [
        Source("mono", "cc-100", "en", 120, 500, "0"),
        Source("mono", "cc-100", "zh", 120, 500, "0"),
        Source("bitext", "Europarl", "en-zh", 80, 500, "0"),
    ]
    write_plan(plan(sources, {"mono": 0.3, "bitext": 0.3}), folder / "plan.tsv")
    return folder


def run(repository: Path, *arguments: object, **environment: str) -> subprocess.CompletedProcess:
    command = [sys.executable, repository / "workflow/scripts/train_vocabulary.py", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env={"PATH": "", **environment})


def arguments(corpus: Path, out: Path, size: int = SIZE) -> list[object]:
    return ["--plan", corpus / "plan.tsv", "--corpus", corpus, "--size", size, "--sentences", 400, "--out", out]


def test_training_twice_gives_the_same_bytes_and_the_size_asked_for(tmp_path, corpus: Path, repository: Path) -> None:
    for name, seed in (("a", "1"), ("b", "2")):
        result = run(repository, *arguments(corpus, tmp_path / name / "spm.model"), PYTHONHASHSEED=seed)
        assert result.returncode == 0, result.stderr
    model = (tmp_path / "a" / "spm.model").read_bytes()
    assert model == (tmp_path / "b" / "spm.model").read_bytes()
    assert str(tmp_path).encode() not in model
    tokenizer = Tokenizer(tmp_path / "a" / "spm.model")
    assert tokenizer.vocabulary_size == SIZE == tokenizer.mask + 1


@pytest.mark.parametrize(
    "text", ["the cat  sees", "ÄÖ ß", "Привет, мир!", "猫看见狗。", "ﬁ ① ½", "سلام", "नमस्ते", "ไทย", "😀", "<s> <unk>"]
)
def test_nothing_is_lost_or_normalised(corpus: Path, text: str) -> None:
    model = corpus / "shared.model"
    if not model.exists():
        from corpus.sampling import read_plan

        train(sample(read_plan(corpus / "plan.tsv"), corpus, 400), model, SIZE)
    tokenizer = Tokenizer(model)
    ids = tokenizer.encode([text])[0]
    assert tokenizer.decode(ids) == text
    assert all(4 <= i < tokenizer.mask for i in ids)


def test_the_sample_follows_the_plan(corpus: Path) -> None:
    from corpus.sampling import read_plan

    lines = list(sample(read_plan(corpus / "plan.tsv"), corpus, 100))
    assert len(lines) == 100
    assert sum("一只狗" in line and line[-1].isdigit() for line in lines) == 25  # both sides alike
    # both kinds weigh 1 in the plan: half of the sentences come from pairs, a quarter from each language
    assert sum("dog " in line and "cat" not in line and line.startswith("a dog") for line in lines) == 25


def test_too_many_pieces_is_an_error_that_names_the_key(tmp_path: Path, corpus: Path, repository: Path) -> None:
    result = run(repository, *arguments(corpus, tmp_path / "spm.model", 50_000))
    assert result.returncode == 2
    assert "vocabulary.size 50000" in result.stderr and "Traceback" not in result.stderr
    assert not list(tmp_path.iterdir())


def test_text_that_does_not_match_the_plan_is_an_error(corpus: Path) -> None:
    sources = [Source("mono", "cc-100", "en", 119, 500, "0")]
    with pytest.raises(UserError, match="120 lines, the plan says 119"):
        list(sample(plan(sources, {"mono": 1, "bitext": 1}), corpus, 50))
    missing = [Source("mono", "cc-100", "sw", 119, 500, "0")]
    with pytest.raises(UserError, match=r"no \*\.clean\.txt\.zst"):
        list(sample(plan(missing, {"mono": 1, "bitext": 1}), corpus, 50))


def test_a_given_model_is_checked_and_copied(tmp_path: Path, corpus: Path, repository: Path) -> None:
    given = tmp_path / "given.model"
    assert run(repository, *arguments(corpus, given)).returncode == 0
    take_over(given, tmp_path / "out" / "spm.model")
    assert (tmp_path / "out" / "spm.model").read_bytes() == given.read_bytes()
    (tmp_path / "bad.model").write_bytes(b"no model")
    with pytest.raises(UserError, match=r"bad\.model: not a SentencePiece model"):
        take_over(tmp_path / "bad.model", tmp_path / "out" / "bad.model")
    assert not (tmp_path / "out" / "bad.model").exists()
