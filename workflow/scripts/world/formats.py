"""Write files as their upstreams do: CC-100 text, Moses zips, XNLI, CoNLL-U. Equal content is equal bytes."""

import gzip
import io
import lzma
import tarfile
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from atomic import atomic_path
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


def write_zip(path: Path, members: dict[str, str]) -> None:
    with atomic_path(path) as temporary, zipfile.ZipFile(temporary, "w") as archive:
        for name, text in members.items():
            archive.writestr(zipfile.ZipInfo(name, EPOCH), text.encode(), zipfile.ZIP_DEFLATED, compresslevel=1)


def write_tgz(path: Path, members: dict[str, str]) -> None:
    with atomic_path(path) as temporary, open(temporary, "wb") as file:
        compressed = gzip.GzipFile("", "wb", compresslevel=1, fileobj=file, mtime=0)
        with compressed, tarfile.open(fileobj=compressed, mode="w") as archive:
            for name, text in members.items():
                data = text.encode()
                info = tarfile.TarInfo(name)
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))


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
