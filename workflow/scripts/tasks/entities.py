"""Named entities in B-, I- and O tags, one token a line: what WikiANN and CoNLL share."""

from collections.abc import Sequence
from itertools import pairwise

from common.errors import UserError
from tasks.files import decode_lines
from tasks.tags import Sentence


def parse_columns(
    lines: Sequence[str], where: str, labels: Sequence[str], separator: str | None, columns: Sequence[int]
) -> list[Sentence]:
    """First column the token, last the tag, a blank line after each sentence. `separator` None: any white space."""
    sentences: list[Sentence] = []
    tokens: list[str] = []
    tags: list[str] = []
    for number, line in enumerate([*lines, ""], start=1):
        if not line.strip() or line.startswith("-DOCSTART-"):
            if tokens:
                sentences.append(Sentence(tuple(tokens), tuple(tags)))
            tokens, tags = [], []
            continue
        cells = line.split(separator)
        if len(cells) not in columns:
            expected = " or ".join(map(str, columns))
            raise UserError(f"{where}, line {number}: {len(cells)} columns instead of {expected}")
        if cells[-1] not in labels:
            raise UserError(f"{where}, line {number}: unknown label {cells[-1]!r}; use {', '.join(labels)}")
        tokens.append(cells[0])
        tags.append(cells[-1])
    if not sentences:
        raise UserError(f"{where}: no sentence")
    if all(tag == "O" for sentence in sentences for tag in sentence.tags):
        raise UserError(f"{where}: {len(sentences)} sentences without an entity; nothing can be told from them")
    return sentences


def to_iob2(tags: Sequence[str]) -> tuple[str, ...]:
    """Of IOB1, where B- stands only between neighbours of one type: every entity gets one. IOB2 stays as it is."""
    begun = ["O", *tags]
    return tuple(
        f"B-{tag[2:]}" if tag.startswith("I-") and (before == "O" or before[2:] != tag[2:]) else tag
        for before, tag in pairwise(begun)
    )


def labels_of(types: Sequence[str]) -> tuple[str, ...]:
    return (*(f"{prefix}-{kind}" for kind in sorted(types) for prefix in "BI"), "O")


def decode_latin(data: bytes, where: str) -> list[str]:
    """Lines of a file that is UTF-8, or Latin-1 as the shared tasks gave it out; a mixture of both is an error."""
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        first = data.count(b"\n", 0, error.start) + 1
        for number, line in enumerate(data.split(b"\n"), start=1):
            if not line.isascii() and is_utf8(line):
                raise UserError(
                    f"{where}: line {first} is not UTF-8, but line {number} is; the file mixes encodings, get it again"
                ) from None
        data = data.decode("latin-1").encode()
    return decode_lines(data, where)


def is_utf8(line: bytes) -> bool:
    try:
        line.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def sentences_in_iob2(sentences: Sequence[Sentence]) -> list[Sentence]:
    return [Sentence(sentence.tokens, to_iob2(sentence.tags)) for sentence in sentences]


def is_table(lines: Sequence[str]) -> bool:
    """A file of tokens and tags, in contrast to XTREME's label files of tags alone."""
    return any(len(line.split()) > 1 for line in lines[:50])
