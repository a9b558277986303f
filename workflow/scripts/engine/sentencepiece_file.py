"""SentencePiece's files, which are protocol buffers: what sentencepiece_model.proto of SentencePiece calls ModelProto.

SentencePiece itself reads them, but does not tell how they normalise, nor with which algorithm they cut.
"""

import base64
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from common.errors import UserError

UNIGRAM, BPE = 1, 2  # trainer_spec.model_type
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, BYTE = 1, 2, 3, 4, 6  # of pieces
PIECES, TRAINER, NORMALIZER = 1, 2, 3  # fields
LARGEST_SCORE = 1e30  # they are logarithms, in four bytes


@dataclass(frozen=True)
class Piece:
    text: str
    score: float
    kind: int


@dataclass(frozen=True)
class SentencePieceFile:
    pieces: list[Piece]
    algorithm: int
    byte_fallback: bool
    whitespace_as_suffix: bool
    charsmap: bytes
    add_dummy_prefix: bool
    remove_extra_whitespaces: bool
    escape_whitespaces: bool

    @property
    def like_xlm_r(self) -> bool:
        """Unigram, characters mapped (all white space to spaces), spaces trimmed, no bytes."""
        trimmed = self.remove_extra_whitespaces and bool(self.charsmap)
        return self.algorithm == UNIGRAM and trimmed and not self.byte_fallback


def read_sentencepiece(path: Path) -> SentencePieceFile:
    try:
        parts = list(fields(path.read_bytes()))
        pieces = [piece_of(dict(fields(content))) for number, content in parts if number == PIECES]
        trainer, normalizer = (
            dict(fields(b"".join(content for number, content in parts if number == wanted)))
            for wanted in (TRAINER, NORMALIZER)
        )
    except FileNotFoundError:
        raise UserError(f"{path}: no such SentencePiece model") from None
    except (IndexError, struct.error, TypeError, ValueError):
        raise UserError(f"{path}: not a whole SentencePiece model; make it again") from None
    return SentencePieceFile(
        pieces=pieces,
        algorithm=trainer.get(3, UNIGRAM),
        byte_fallback=bool(trainer.get(35, 0)),
        whitespace_as_suffix=bool(trainer.get(24, 0)),
        charsmap=normalizer.get(2, b""),
        add_dummy_prefix=bool(normalizer.get(3, 1)),
        remove_extra_whitespaces=bool(normalizer.get(4, 1)),
        escape_whitespaces=bool(normalizer.get(5, 1)),
    )


def check_whole(path: Path) -> None:
    """SentencePiece takes a file that was cut between two of its parts, and then normalises nothing."""
    try:
        numbers = {number for number, _ in fields(path.read_bytes())}
    except (IndexError, ValueError):
        numbers = set()
    if not {PIECES, TRAINER, NORMALIZER} <= numbers:
        raise UserError(f"{path}: not a whole SentencePiece model; download it again")


def piece_of(content: dict) -> Piece:
    (score,) = struct.unpack("<f", content.get(2, bytes(4)))
    return Piece(content[1].decode(), score, content.get(3, NORMAL))


def fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Number and value of each field of a message, in order."""
    place = 0
    while place < len(message):
        key, place = varint(message, place)
        match key & 7:
            case 0:
                value, place = varint(message, place)
                yield key >> 3, value
                continue
            case 1:
                size = 8
            case 2:
                size, place = varint(message, place)
            case 5:
                size = 4
            case other:
                raise ValueError(f"wire type {other}")
        if place + size > len(message):
            raise ValueError("cut short")
        yield key >> 3, message[place : place + size]
        place += size


def varint(message: bytes, place: int) -> tuple[int, int]:
    """A number of seven bits a byte, and the place behind it."""
    number = shift = 0
    while message[place] & 0x80:
        number |= (message[place] & 0x7F) << shift
        place, shift = place + 1, shift + 7
    return number | message[place] << shift, place + 1


def to_bytes(model: SentencePieceFile) -> bytes:
    """What read_sentencepiece reads."""
    pieces = (message((1, piece.text.encode()), (2, float(piece.score)), (3, piece.kind)) for piece in model.pieces)
    trainer = message((3, model.algorithm), (24, int(model.whitespace_as_suffix)), (35, int(model.byte_fallback)))
    normalizer = message(
        (2, model.charsmap),
        (3, int(model.add_dummy_prefix)),
        (4, int(model.remove_extra_whitespaces)),
        (5, int(model.escape_whitespaces)),
    )
    return message(*((PIECES, piece) for piece in pieces), (TRAINER, trainer), (NORMALIZER, normalizer))


def message(*content: tuple[int, int | float | bytes]) -> bytes:
    """Whole numbers as varints, scores in four bytes, and strings with their length before them."""
    parts = []
    for number, value in content:
        match value:
            case int():
                parts += [to_varint(number << 3), to_varint(value)]
            case float():
                parts += [to_varint(number << 3 | 5), struct.pack("<f", value)]
            case _:
                parts += [to_varint(number << 3 | 2), to_varint(len(value)), value]
    return b"".join(parts)


def to_varint(number: int) -> bytes:
    digits = []
    while number > 0x7F:
        digits.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*digits, number])


def from_tokenizer_json(content: dict, where: str) -> SentencePieceFile:
    """Of a tokenizer.json that transformers made of XLM-R's file; newer versions keep nothing else of it."""
    layout = ["<s>", "<pad>", "</s>", "<unk>"]
    try:
        model, normalizer = content.get("model") or {}, content.get("normalizer") or {}
        steps = normalizer.get("normalizers", [normalizer])
        tables = [step["precompiled_charsmap"] for step in steps if step.get("type") == "Precompiled"]
        tokens = [(str(token), float(score)) for token, score in model["vocab"]]
        for token, score in tokens:
            token.encode()  # half a character has no bytes
            if not -LARGEST_SCORE <= score <= LARGEST_SCORE:
                raise ValueError(f"the score of {token!r} is {score}")
        known = model["type"] == "Unigram" and not model.get("byte_fallback") and [t for t, _ in tokens[:4]] == layout
        if not known or tokens[-1][0] != "<mask>" or len(tables) != 1:
            raise ValueError("not XLM-R's")
        charsmap = base64.b64decode(tables[0], validate=True)
    except (AttributeError, KeyError, IndexError, OverflowError, TypeError, ValueError) as error:
        raise UserError(
            f"{where}: not XLM-R's tokenizer ({error}); give the checkpoint's sentencepiece.bpe.model"
        ) from None
    specials = [Piece("<unk>", 0.0, UNKNOWN), Piece("<s>", 0.0, CONTROL), Piece("</s>", 0.0, CONTROL)]
    pieces = [*specials, *(Piece(token, score, NORMAL) for token, score in tokens[4:-1])]
    return SentencePieceFile(pieces, UNIGRAM, False, False, charsmap, True, True, True)
