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

import hashlib
import json
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path

import sentencepiece

from atomic import SUMS, atomic_folder, check_folder, sha256_of, write_json
from errors import UserError
from typed import build

BOS, PAD, EOS, UNK = 0, 1, 2, 3
FIRST_PIECE = 4  # smallest id that is a piece of text
LAYOUT = "layout.json"
SPACE = "▁"  # what SentencePiece writes for a space
PADDING_ROWS = 1024  # tables are padded to a multiple of 64 or 128; more rows without a token are a torn vocabulary


def id_order(size: int, bos: int, pad: int, eos: int, unk: int, mask: int | None) -> list[int]:
    """Their id of each of our ids, of a vocabulary of `size` ids; without a mask ours ends with a piece."""
    first, last = [bos, pad, eos, unk], [] if mask is None else [mask]
    special = {*first, *last}
    if len(special) < len(first) + len(last) or min(special) < 0 or max(special) >= size:
        raise UserError(f"special ids {[*first, *last]}: expected different ids from 0 to {size - 1}")
    return [*first, *(i for i in range(size) if i not in special), *last]


class Tokenizer:
    """SentencePiece; the interface of all."""

    pair_separators = 2

    def __init__(self, model_path: str | Path):
        if not Path(model_path).exists():
            raise UserError(f"{model_path}: no such SentencePiece model")
        self.path = str(model_path)
        self.pieces = sentencepiece.SentencePieceProcessor(model_file=self.path)
        if (self.pieces.unk_id(), self.pieces.bos_id(), self.pieces.eos_id()) != (0, 1, 2):
            raise UserError(f"{model_path}: expected the special pieces <unk> 0, <s> 1, </s> 2")
        self.vocabulary_size = self.pieces.get_piece_size() + 2
        self.mask = self.vocabulary_size - 1

    @cached_property
    def sha256(self) -> str:
        return sha256_of(self.path)

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

    def order(self) -> list[int]:
        return id_order(self.rows, self.bos.id, self.pad.id, self.eos.id, self.unk.id, self.mask.id)


def load_tokenizer(path: str | Path) -> Tokenizer:
    """Of a SentencePiece file in our layout, or of the folder of a published checkpoint."""
    path = Path(path)
    if not path.is_dir():
        return Tokenizer(path)
    layout = read_layout(path)
    check_folder(path, "import the checkpoint again")
    return ImportedSentencePiece(path, layout)


def read_layout(folder: Path) -> Layout:
    path = folder / LAYOUT
    try:
        return build(Layout, json.loads(path.read_bytes()), "")
    except FileNotFoundError:
        raise UserError(f"{folder}: no {LAYOUT} in it, so not the tokenizer of an imported checkpoint") from None
    except (UserError, ValueError) as error:
        raise UserError(f"{path}: {error}; import the checkpoint again") from None


class ImportedSentencePiece(Tokenizer):
    """SentencePiece files whose layout is ours once their ids are permuted: XLM-R's, mBART's and mT5's."""

    def __init__(self, folder: Path, layout: Layout):
        self.path, self.layout = str(folder), layout
        self.pieces = load_pieces(folder / str(layout.sentencepiece))
        self.vocabulary_size, self.mask = layout.rows, layout.rows - 1
        self.pair_separators = layout.pair_separators

    @cached_property
    def sha256(self) -> str:
        return folder_sum(Path(self.path))

    @property
    def order(self) -> list[int]:
        return self.layout.order()

    def decode(self, ids: Sequence[int]) -> str:
        last = min(self.mask - 1, self.pieces.get_piece_size())
        return self.pieces.decode([int(i) - 1 for i in ids if FIRST_PIECE <= i <= last])


def load_pieces(path: Path) -> sentencepiece.SentencePieceProcessor:
    try:
        return sentencepiece.SentencePieceProcessor(model_proto=path.read_bytes())
    except FileNotFoundError:
        raise UserError(f"{path}: no such SentencePiece model") from None
    except RuntimeError as error:
        raise UserError(f"{path}: not a whole SentencePiece model ({error}); download it again") from None


def folder_sum(folder: Path) -> str:
    """Of the files' sums by name: that of the SHA256SUMS beside them."""
    names = sorted(file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file())
    lines = (f"{sha256_of(folder / name)}  {name}\n" for name in names if name != SUMS)
    return hashlib.sha256("".join(lines).encode()).hexdigest()


UPSTREAM_FILES = (
    "added_tokens.json",
    "sentencepiece.bpe.model",
    "special_tokens_map.json",
    "spiece.model",
    "tokenizer.json",
    "tokenizer_config.json",
    "vocab.txt",
)


def import_tokenizer(checkpoint: Path, config: dict, rows: int, out: Path) -> Tokenizer:
    """Copy the tokenizer files of a Hugging Face folder, whose embedding table has `rows` rows, and write down how
    their ids are laid out."""
    layout = find_layout(checkpoint, config, rows)
    with atomic_folder(out) as folder:
        for name in UPSTREAM_FILES:
            if (checkpoint / name).exists():
                shutil.copyfile(checkpoint / name, folder / name)
        write_json(folder / LAYOUT, asdict(layout))
    return load_tokenizer(out)


def find_layout(checkpoint: Path, config: dict, rows: int) -> Layout:
    model_type = config.get("model_type")
    if model_type in ("xlm-roberta", "mbart"):
        return xlm_r_layout(checkpoint, model_type, rows)
    raise UserError(
        f"{checkpoint / 'config.json'}, model_type: {model_type!r} has no tokenizer here; known are xlm-roberta, mbart"
    )


def xlm_r_layout(checkpoint: Path, model_type: str, rows: int) -> Layout:
    """Two ids more than the file has pieces, for <pad> and <mask>; mBART's language codes lie before <mask>."""
    name = "sentencepiece.bpe.model"
    pieces = load_pieces(checkpoint / name)
    mask = rows - 1 if model_type == "mbart" else pieces.get_piece_size() + 1
    specials = (
        Special("<s>", 0),
        Special("<pad>", 1),
        Special("</s>", 2),
        Special("<unk>", 3),
        Special("<mask>", mask),
    )
    return Layout("sentencepiece", model_type, rows, *specials, pair_separators=2, sentencepiece=name)
