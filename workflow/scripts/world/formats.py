"""Write files as their upstreams do: CC-100 text, Moses zips, CoNLL-U, SQuAD. Equal content is equal bytes."""

import bz2
import gzip
import io
import json
import lzma
import tarfile
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from common.atomic import atomic_path
from world.languages import Token, detokenise

EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest time that a zip can hold

XNLI_COLUMNS = (
    "language",
    "gold_label",
    "sentence1_binary_parse",
    "sentence2_binary_parse",
    "sentence1_parse",
    "sentence2_parse",
    "sentence1",
    "sentence2",
    "promptID",
    "pairID",
    "genre",
    "label1",
    "label2",
    "label3",
    "label4",
    "label5",
    "sentence1_tokenized",
    "sentence2_tokenized",
    "match",
)


def write_xz(path: Path, lines: Iterable[str]) -> None:
    with atomic_path(path) as temporary, lzma.open(temporary, "wt", encoding="utf-8", newline="\n", preset=1) as file:
        file.writelines(line + "\n" for line in lines)


def write_lines(path: Path, lines: Iterable[str]) -> None:
    with atomic_path(path) as temporary:
        temporary.write_text("".join(line + "\n" for line in lines), encoding="utf-8")


def write_latin(path: Path, text: str) -> None:
    with atomic_path(path) as temporary:
        temporary.write_bytes(text.encode("latin-1"))


def write_zip(path: Path, members: dict[str, str | bytes]) -> None:
    with atomic_path(path) as temporary, zipfile.ZipFile(temporary, "w") as archive:
        for name, content in members.items():
            data = content.encode() if isinstance(content, str) else content
            archive.writestr(zipfile.ZipInfo(name, EPOCH), data, zipfile.ZIP_DEFLATED, compresslevel=1)


def write_tgz(path: Path, members: dict[str, str]) -> None:
    with atomic_path(path) as temporary:
        temporary.write_bytes(tgz(members))


def tgz(members: dict[str, str]) -> bytes:
    file = io.BytesIO()
    with gzip.GzipFile("", "wb", compresslevel=1, fileobj=file, mtime=0) as compressed:
        compressed.write(tar(members))
    return file.getvalue()


def write_tar_bz2(path: Path, members: dict[str, str]) -> None:
    with atomic_path(path) as temporary:
        temporary.write_bytes(bz2.compress(tar(members)))


def tar(members: dict[str, str]) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        for name, text in members.items():
            data = text.encode()
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return file.getvalue()


def cc100_lines(documents: Sequence[Sequence[str]]) -> list[str]:
    """One paragraph a line, an empty line after each document."""
    return [line for document in documents for line in (*document, "")]


def xnli_row(language: str, label: str, premise: str, hypothesis: str, pair: int, genre: str) -> str:
    fields = dict.fromkeys(XNLI_COLUMNS, "")
    fields |= {"language": language, "gold_label": label, "sentence1": premise, "sentence2": hypothesis}
    fields |= {"promptID": str(pair // 3 + 1), "pairID": str(pair + 1), "genre": genre, "match": "True"}
    fields |= {f"label{i}": label for i in range(1, 6)}
    fields |= {"sentence1_tokenized": premise, "sentence2_tokenized": hypothesis}
    return "\t".join(fields[name] for name in XNLI_COLUMNS)


def conllu(sentence_id: str, tokens: list[Token]) -> str:
    lines = [f"# sent_id = {sentence_id}", f"# text = {detokenise(tokens)}"]
    for i, token in enumerate(tokens):
        if token.joined:
            lines.append("\t".join([f"{i + 1}-{i + token.joined}", token.surface, *["_"] * 8]))
        space = "_" if token.space_after else "SpaceAfter=No"
        head = str(token.head + 1)
        lines.append(
            "\t".join([str(i + 1), token.form, token.lemma, token.upos, "_", "_", head, token.relation, "_", space])
        )
    return "\n".join(lines) + "\n\n"


PAWSX_HEADER = "id\tsentence1\tsentence2\tlabel\n"
CHUNKS = {"VERB": "VP", "AUX": "VP", "PART": "VP", "ADP": "PP", "ADV": "ADVP"}  # the others are in noun phrases


def pawsx(rows: Iterable[tuple[str, str, str]]) -> str:
    return PAWSX_HEADER + "".join("\t".join([str(i), *row]) + "\n" for i, row in enumerate(rows, start=1))


def panx(language: str, sentences: Iterable[Sequence[tuple[str, str, str]]]) -> str:
    return blocks([f"{language}:{word}\t{tag}" for word, _, tag in sentence] for sentence in sentences)


def conll2002(sentences: Iterable[Sequence[tuple[str, str, str]]]) -> str:
    return blocks([f"{word} {upos} {tag}" for word, upos, tag in sentence] for sentence in sentences)


def conll2003(sentences: Iterable[Sequence[tuple[str, str, str]]]) -> str:
    """English, as the public copy has it: IOB2, the first line without a document's words."""
    rows = ([f"{word} {upos} {chunk(upos)} {tag}" for word, upos, tag in sentence] for sentence in sentences)
    return blocks([["-DOCSTART- -X- -X- O"], *rows])


def conll2003_german(sentences: Iterable[Sequence[tuple[str, str, str]]]) -> str:
    """A lemma more, and IOB1 as in the original distribution."""
    rows = []
    for sentence in sentences:
        tags = to_iob1([tag for _, _, tag in sentence])
        columns = zip(sentence, tags, strict=True)
        rows.append([f"{word} {word.lower()} {upos} {chunk(upos)} {tag}" for (word, upos, _), tag in columns])
    return blocks([["-DOCSTART- -X- -X- -X- O"], *rows])


def to_iob1(tags: Sequence[str]) -> list[str]:
    """B- between neighbours of one type alone."""
    before = ["O", *tags[:-1]]
    return [
        tag if tag == "O" or (tag.startswith("B-") and last[2:] == tag[2:]) else f"I-{tag[2:]}"
        for last, tag in zip(before, tags, strict=True)
    ]


def chunk(upos: str) -> str:
    return "O" if upos == "PUNCT" else f"I-{CHUNKS.get(upos, 'NP')}"


def blocks(sentences: Iterable[Sequence[str]]) -> str:
    return "".join("".join(line + "\n" for line in sentence) + "\n" for sentence in sentences)


def squad(paragraphs: Iterable[dict]) -> str:
    """One article a paragraph."""
    articles = [{"title": f"Document {i}", "paragraphs": [own]} for i, own in enumerate(paragraphs, start=1)]
    return json.dumps({"data": articles, "version": "1.1"}, ensure_ascii=False)


def pile(language: str, sentences: Sequence[str]) -> str:
    return "".join(f"{bucc_id(language, i)}\t{sentence}\n" for i, sentence in enumerate(sentences, start=1))


def bucc_id(language: str, number: int) -> str:
    return f"{language}-{number:09d}"
