"""The tokenizers of our models and of published checkpoints, behind one interface and in one id layout.

Model ids: <s> 0, <pad> 1, </s> 2, <unk> 3, then the pieces, and <mask> last: XLM-R's layout. `load_tokenizer` takes
either of two:

- a SentencePiece file in this layout, ours or XLM-R's. It has <unk> 0, <s> 1, </s> 2 (SentencePiece's default order),
  so a piece's model id is its id in the file + 1, and the vocabulary has two ids more than the file has pieces;
- the folder that `import_tokenizer` writes of a published checkpoint: the upstream files, and layout.json, which says
  what they are. Whatever their layout is, their ids are permuted into ours (id_order), with the rows of the embedding
  table.

Text is text: a "[MASK]" or "<s>" that somebody typed is encoded like any other word.
"""

import json
import re
import sys
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from pathlib import Path

import sentencepiece

from common.atomic import SUMS, check_folder, check_sum, sha256_of
from common.errors import UserError
from common.typed import build
from engine.characters import is_punctuation

BOS, PAD, EOS, UNK = 0, 1, 2, 3
FIRST_PIECE = 4  # smallest id that is a piece of text
LAYOUT = "layout.json"
SPIECE = "sentencepiece.bpe.model"  # the name that transformers looks for
SPACE = "▁"  # what SentencePiece writes for a space
PADDING_ROWS = 1024  # tables are padded to a multiple of 64 or 128; more rows without a token are a torn vocabulary
LONGEST_WORD = 100  # characters of a word that WordPiece cuts
REMEMBERED_WORDS = 1 << 18
ERNIE_MARKS = frozenset(",;:.?!~，；：。？！《》【】")
HAN_BLOCKS = (
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B820, 0x2CEAF),
    (0x2F800, 0x2FA1F),
)


def id_order(size: int, bos: int, pad: int, eos: int, unk: int, mask: int | None) -> list[int]:
    """Their id of each of our ids, of a vocabulary of `size` ids; without a mask ours ends with a piece."""
    first, last = [bos, pad, eos, unk], [] if mask is None else [mask]
    special = {*first, *last}
    if len(special) < len(first) + len(last) or min(special) < 0 or max(special) >= size:
        raise UserError(f"special ids {[*first, *last]}: expected different ids from 0 to {size - 1}")
    return [*first, *(i for i in range(size) if i not in special), *last]


class Tokenizer:
    """SentencePiece; the interface of all."""

    pair_separators = 2  # that stand between the sides of a pair
    shifted = True  # a model id is SentencePiece's id + 1, <unk> aside; callers that encode in bulk shift arrays

    def __init__(self, model_path: str | Path):
        self.path = str(model_path)
        self.pieces = load_pieces(Path(model_path))
        if (self.pieces.unk_id(), self.pieces.bos_id(), self.pieces.eos_id()) != (0, 1, 2):
            raise UserError(f"{model_path}: expected the special pieces <unk> 0, <s> 1, </s> 2")
        self.vocabulary_size = self.pieces.get_piece_size() + 2
        self.mask = self.vocabulary_size - 1

    @cached_property
    def sha256(self) -> str:
        return vocabulary_sum(self.path)

    @property
    def order(self) -> list[int]:
        """The id that each of our ids had where the tokenizer comes from."""
        return list(range(self.vocabulary_size))

    def encode(self, sentences: Sequence[str], threads: int = 1) -> list[list[int]]:
        """Model ids of each sentence, without <s> and </s>."""
        return [[piece + 1 if piece else UNK for piece in ids] for ids in self.encode_pieces(sentences, threads)]

    def encode_pieces(self, sentences: Sequence[str], threads: int = 1) -> list[list[int]]:
        """SentencePiece's own ids, for callers that shift them in bulk."""
        return self.pieces.encode(list(sentences), num_threads=threads)

    def encode_with_places(self, texts: Sequence[str]) -> list[tuple[list[int], list[tuple[int, int]]]]:
        """Model ids of each text, and from which to which character of it each piece goes, white space left out."""
        found = []
        for text, pieces in zip(texts, self.pieces.encode(list(texts), return_type="offset_mapping"), strict=True):
            ids = [piece + 1 if piece else UNK for piece in pieces["ids"]]
            found.append((ids, [trimmed(text, *place) for place in pieces["offsets"]]))
        return found

    def decode(self, ids: Sequence[int]) -> str:
        """Text of model ids; specials are left out."""
        return self.pieces.decode([int(i) - 1 for i in ids if FIRST_PIECE <= i < self.mask])


def trimmed(text: str, begin: int, end: int) -> tuple[int, int]:
    while begin < end and text[begin].isspace():
        begin += 1
    while begin < end and text[end - 1].isspace():
        end -= 1
    return begin, end


# ---------------------------------------------------------------------------------------------------------------------
# Published checkpoints


@dataclass(frozen=True)
class Special:
    token: str | None  # None: a row of their table that no token has
    id: int


@dataclass(frozen=True)
class Layout:
    """What layout.json says of the files beside it."""

    kind: str  # sentencepiece, ernie-m or wordpiece
    model_type: str
    rows: int  # of the embedding table
    bos: Special
    pad: Special
    eos: Special
    unk: Special
    mask: Special
    pair_separators: int
    sentencepiece: str | None = None  # names of files
    vocabulary: str | None = None
    lower_case: bool = False
    strip_accents: bool = False
    space_cjk: bool = False

    def is_ours(self) -> bool:
        """SentencePiece's pieces under our ids: XLM-R, InfoXLM, XLM-Align."""
        plain = self.kind == "sentencepiece" and self.model_type == "xlm-roberta" and self.sentencepiece
        return bool(plain) and self.order() == list(range(self.rows))

    def order(self) -> list[int]:
        return id_order(self.rows, self.bos.id, self.pad.id, self.eos.id, self.unk.id, self.mask.id)


def load_tokenizer(path: str | Path) -> Tokenizer:
    """Of a SentencePiece file in our layout, or of the folder of a published checkpoint."""
    path = Path(path)
    if not path.is_dir():
        check_sum(path, "delete it, and what was made with it since, and run again")
        return Tokenizer(path)
    layout = read_layout(path)
    check_folder(path, "import the checkpoint again")
    return KINDS[layout.kind](path, layout)


def read_layout(folder: Path) -> Layout:
    path = folder / LAYOUT
    try:
        layout = build(Layout, json.loads(path.read_bytes()), "")
        layout.order()
    except FileNotFoundError:
        raise UserError(f"{folder}: no {LAYOUT} in it, so not the tokenizer of an imported checkpoint") from None
    except (UserError, ValueError) as error:
        raise UserError(f"{path}: {error}; import the checkpoint again") from None
    if layout.kind not in KINDS:
        raise UserError(f"{path}, kind: {layout.kind!r} is none of {', '.join(KINDS)}; import the checkpoint again")
    return layout


class Imported(Tokenizer):
    """What all tokenizers of published checkpoints share."""

    def __init__(self, folder: Path, layout: Layout):
        self.path, self.layout = str(folder), layout
        self.vocabulary_size, self.mask = layout.rows, layout.rows - 1
        self.pair_separators = layout.pair_separators

    @cached_property
    def order(self) -> list[int]:
        return self.layout.order()

    def file(self, name: str | None) -> Path:
        if not name:
            raise UserError(f"{Path(self.path) / LAYOUT}: names no file of the vocabulary; import the checkpoint again")
        return Path(self.path) / name

    def read_vocabulary(self) -> list[str]:
        path = self.file(self.layout.vocabulary)
        tokens = read_vocabulary(path)
        check_size(path, len(tokens), self.layout.rows)
        return tokens

    def our_ids(self, tokens: Sequence[str]) -> dict[str, int]:
        ours = {theirs: number for number, theirs in enumerate(self.order)}
        return {token: ours[theirs] for theirs, token in enumerate(tokens)}


class SentencePieceFolder(Imported):
    """SentencePiece files whose permuted ids are a piece's id in the file + 1: XLM-R's, mBART's and mT5's."""

    def __init__(self, folder: Path, layout: Layout):
        super().__init__(folder, layout)
        path = self.file(layout.sentencepiece)
        self.pieces = load_pieces(path)
        check_size(path, self.pieces.get_piece_size(), layout.rows)

    def encode_with_places(self, texts: Sequence[str]) -> list[tuple[list[int], list[tuple[int, int]]]]:
        found = []
        for text, own in zip(texts, super().encode_with_places(texts), strict=True):
            normal, offsets = self.pieces.normalize(text, with_offsets=True)
            pieces = self.pieces.encode(text, out_type=str)
            if "".join(pieces) == normal:  # none is a byte
                ends = list(accumulate(map(len, pieces)))
                begins = (end - len(piece.removeprefix(SPACE)) for piece, end in zip(pieces, ends, strict=True))
                places = [place_of(text, offsets, begin, end) for begin, end in zip(begins, ends, strict=True)]
                own = own[0], places
            found.append(own)
        return found

    def decode(self, ids: Sequence[int]) -> str:
        last = min(self.mask - 1, self.pieces.get_piece_size())
        return self.pieces.decode([int(i) - 1 for i in ids if FIRST_PIECE <= i <= last])


def place_of(text: str, offsets: Sequence[int], begin: int, end: int) -> tuple[int, int]:
    """Of characters of the normalised text in the text itself. Of ½, which becomes three, each has its place."""
    last = offsets[end] if begin == end else max(offsets[end], offsets[end - 1] + 1)
    return trimmed(text, offsets[begin], last)


class Remembered(dict):
    """What a function of a word says, once it was asked."""

    def __init__(self, function: Callable[[str], list]):
        self.function = function

    def __missing__(self, word: str) -> list:
        if len(self) >= REMEMBERED_WORDS:
            self.clear()
        found = self[word] = self.function(word)
        return found


class ErnieM(Imported):
    """Pieces of a SentencePiece file, cut once more, then looked up in a vocabulary file."""

    shifted = False

    def __init__(self, folder: Path, layout: Layout):
        super().__init__(folder, layout)
        self.pieces = load_pieces(self.file(layout.sentencepiece))
        self.tokens = self.read_vocabulary()
        self.ids = self.our_ids(self.tokens)
        self.parts = Remembered(self.parts_of)

    def encode(self, sentences: Sequence[str], threads: int = 1) -> list[list[int]]:
        texts = [self.cased(sentence) for sentence in sentences]
        encoded = self.pieces.encode(texts, out_type=str, num_threads=threads)
        return [[i for i, _, _ in self.tokens_of(pieces)] for pieces in encoded]

    def parts_of(self, piece: str) -> list[tuple[int, int, int]]:
        parts = []
        for begin, end in cut_piece(piece):
            parts.append((self.ids.get(piece[begin:end], UNK), begin + (piece[begin] == SPACE), end))
        return parts

    def cased(self, text: str) -> str:
        return text.lower() if self.layout.lower_case else text

    def tokens_of(self, pieces: Sequence[str]) -> Iterator[tuple[int, int, int]]:
        """Each token's id, and from which to which character of the joined pieces it goes, its space left out. A space
        on its own counts only inside of a word."""
        start = 0
        for number, piece in enumerate(pieces):
            if piece == SPACE:
                if 0 < number < len(pieces) - 1 and not pieces[number + 1].startswith(SPACE):
                    yield self.ids.get(SPACE, UNK), start + 1, start + 1
            else:
                for i, begin, end in self.parts[piece]:
                    yield i, start + begin, start + end
            start += len(piece)

    def encode_with_places(self, texts: Sequence[str]) -> list[tuple[list[int], list[tuple[int, int]]]]:
        found = []
        for text in texts:
            origin = [place for place, character in enumerate(text) for _ in self.cased(character)] + [len(text)]
            _, offsets = self.pieces.normalize(self.cased(text), with_offsets=True)
            offsets = [origin[offset] for offset in offsets]
            tokens = list(self.tokens_of(self.pieces.encode(self.cased(text), out_type=str)))
            ids, places = [i for i, _, _ in tokens], [place_of(text, offsets, begin, end) for _, begin, end in tokens]
            found.append((ids, places))
        return found

    def decode(self, ids: Sequence[int]) -> str:
        tokens = (self.tokens[self.order[i]] for i in ids if FIRST_PIECE <= i < self.mask)
        return "".join(tokens).replace(SPACE, " ").strip()


def cut_piece(piece: str) -> list[tuple[int, int]]:
    """ERNIE-M's tokens in a piece: Han characters and some marks are cut off, and so are numbers."""
    parts, start = [], 0
    for place, character in enumerate(piece):
        if character == SPACE:
            continue
        alone = "\u4e00" <= character <= "\u9fff" or character in ERNIE_MARKS
        if alone or (place and character.isdigit() != piece[place - 1].isdigit()):
            if piece[start:place] not in ("", SPACE):
                parts.append((start, place))
            start = place
        if alone:
            parts.append((place, place + 1))
            start = place + 1
    if start < len(piece):
        parts.append((start, len(piece)))
    return parts


class WordPiece(Imported):
    """BERT's: characters are cleaned, Han characters and punctuation are words of their own, and a word is cut into the
    longest pieces that the vocabulary has, from its start; ## marks a piece that begins no word."""

    shifted = False

    def __init__(self, folder: Path, layout: Layout):
        super().__init__(folder, layout)
        self.tokens = self.read_vocabulary()
        self.ids = self.our_ids(self.tokens)
        self.longest = max(map(len, self.tokens))
        self.characters = Characters(layout)
        self.words = Remembered(lambda word: [piece for piece, _ in self.pieces_of(word)])

    def encode(self, sentences: Sequence[str], threads: int = 1) -> list[list[int]]:
        characters, words = self.characters, self.words
        return [[i for word in text.translate(characters).split() for i in words[word]] for text in sentences]

    def encode_with_places(self, texts: Sequence[str]) -> list[tuple[list[int], list[tuple[int, int]]]]:
        found = []
        for text in texts:
            clean = [self.characters[ord(character)] or "" for character in text]
            origin = [place for place, characters in enumerate(clean) for _ in characters]
            ids, places = [], []
            for word in re.finditer(r"\S+", "".join(clean)):
                begin = word.start()
                for piece, length in self.pieces_of(word[0]):
                    ids.append(piece)
                    places.append((origin[begin], origin[begin + length - 1] + 1))
                    begin += length
            found.append((ids, places))
        return found

    def pieces_of(self, word: str) -> list[tuple[int, int]]:
        """Ids of the pieces of a word and the number of its characters that each stands for."""
        if len(word) > LONGEST_WORD:
            return [(UNK, len(word))]
        pieces, begin = [], 0
        while begin < len(word):
            prefix = "##" if begin else ""
            for end in range(min(len(word), begin + self.longest), begin, -1):
                if (piece := self.ids.get(prefix + word[begin:end])) is not None:
                    break
            else:
                return [(UNK, len(word))]
            pieces.append((piece, end - begin))
            begin = end
        return pieces

    def decode(self, ids: Sequence[int]) -> str:
        tokens = (self.tokens[self.order[i]] for i in ids if FIRST_PIECE <= i < self.mask)
        return " ".join(tokens).replace(" ##", "")


class Characters(dict):
    """What BERT makes of each character, for str.translate; it looks at no two together."""

    def __init__(self, layout: Layout):
        self.layout = layout

    def __missing__(self, point: int) -> str | None:
        self[point] = clean = self.clean(chr(point))
        return clean

    def clean(self, character: str) -> str | None:
        """None deletes it; spaces around it make it a word of its own."""
        category = unicodedata.category(character)
        if character in "\t\n\r" or category[0] == "Z":
            return " "
        if character in "\0\ufffd" or category in ("Cc", "Cf", "Co", "Cs"):
            return None
        text = character
        if self.layout.strip_accents:
            text = "".join(c for c in unicodedata.normalize("NFD", text) if unicodedata.category(c) != "Mn")
        if self.layout.lower_case:
            text = "".join(map(str.lower, text))
        text = "".join(f" {c} " if is_punctuation(c) else c for c in text)
        return f" {text} " if self.layout.space_cjk and is_han(character) else text


def is_han(character: str) -> bool:
    """Of a block of CJK ideographs. Hangul and kana are written in words, or are at least taken for it."""
    return any(first <= ord(character) <= last for first, last in HAN_BLOCKS)


KINDS = {"sentencepiece": SentencePieceFolder, "ernie-m": ErnieM, "wordpiece": WordPiece}


def load_pieces(path: Path) -> sentencepiece.SentencePieceProcessor:
    try:
        return sentencepiece.SentencePieceProcessor(model_proto=path.read_bytes())
    except FileNotFoundError:
        raise UserError(f"{path}: no such SentencePiece model") from None
    except RuntimeError as error:
        raise UserError(f"{path}: not a SentencePiece model, or not a whole one ({error}); download it again") from None


def vocabulary_sum(path: str | Path) -> str:
    """sha256 of a file, or of the SHA256SUMS of a folder, which load_tokenizer compares with its files. Of XLM-R's it
    is that of the SentencePiece file, which is in our layout: text encoded with the file or the folder serves both."""
    folder = Path(path)
    if not folder.is_dir():
        return sha256_of(folder)
    if (folder / LAYOUT).exists() and (own := read_layout(folder)).is_ours():
        return sha256_of(folder / own.sentencepiece)
    if not (folder / SUMS).exists():
        raise UserError(f"{folder}: no {SUMS} in it, so not the tokenizer of an imported checkpoint; import it again")
    return sha256_of(folder / SUMS)  # and not of all that lies there: Snakemake leaves a time stamp in folders


def read_vocabulary(path: Path) -> list[str]:
    """One token a line, or the vocabulary of a tokenizer.json."""
    if path.suffix == ".json":
        return read_json_vocabulary(path)
    try:
        content = path.read_bytes()
        text = content.decode()
    except FileNotFoundError:
        raise UserError(f"{path}: no such vocabulary; download the whole checkpoint") from None
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise UserError(f"{path}:{line}: not UTF-8; download it again") from None
    lines = text.removesuffix("\n").split("\n")
    tokens = [line.removesuffix("\r") for line in lines]
    last: dict[str, int] = {}
    for number, token in enumerate(tokens, start=1):
        if (before := last.get(token)) is not None:  # transformers takes the later one too, and says nothing
            print(f"warning: {path}:{number}: {token!r} stands in line {before} too; this line counts", file=sys.stderr)
        last[token] = number
    return tokens


def read_json_vocabulary(path: Path) -> list[str]:
    model = read_json(path).get("model")
    vocabulary = model.get("vocab") if isinstance(model, dict) else None
    whole = isinstance(vocabulary, dict) and all(type(number) is int for number in vocabulary.values())
    if not whole or sorted(vocabulary.values()) != list(range(len(vocabulary))):
        raise UserError(f"{path}, model.vocab: expected tokens with ids from 0 on; give the checkpoint's vocab.txt")
    return sorted(vocabulary, key=vocabulary.__getitem__)


def read_json(path: Path) -> dict:
    """Empty if there is no such file."""
    try:
        content = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    except (RecursionError, ValueError) as error:
        raise UserError(f"{path}: not JSON ({error}); download it again") from None
    if not isinstance(content, dict):
        raise UserError(f"{path}: expected a mapping; download it again")
    return content


def check_size(path: Path, tokens: int, rows: int) -> None:
    if not rows - PADDING_ROWS < tokens <= rows:
        raise UserError(
            f"{path}: {tokens} tokens, but the embedding table has {rows} rows; give the vocabulary of this checkpoint"
        )
