"""SentencePiece in XLM-R's id layout, for the published model and for the ones that we train.

Model ids: <s> 0, <pad> 1, </s> 2, <unk> 3, then piece id + 1, and <mask> last. The SentencePiece files have
<unk> 0, <s> 1, </s> 2 (its default order), so the vocabulary has two ids more than the file has pieces.
"""

from collections.abc import Sequence
from pathlib import Path

import sentencepiece

from errors import UserError

BOS, PAD, EOS, UNK = 0, 1, 2, 3
FIRST_PIECE = 4  # smallest id that is a piece of text


class Tokenizer:
    def __init__(self, model_path: str | Path):
        if not Path(model_path).exists():
            raise UserError(f"{model_path}: no such SentencePiece model")
        self.path = str(model_path)
        self.pieces = sentencepiece.SentencePieceProcessor(model_file=self.path)
        if (self.pieces.unk_id(), self.pieces.bos_id(), self.pieces.eos_id()) != (0, 1, 2):
            raise UserError(f"{model_path}: expected the special pieces <unk> 0, <s> 1, </s> 2")
        self.vocabulary_size = self.pieces.get_piece_size() + 2
        self.mask = self.vocabulary_size - 1

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
