"""Tokenizer files that transformers loads: tokenizer.json, its settings, and the vocabulary itself.

tokenizer.json is written out here from what the SentencePiece model says of itself, so that it encodes as SentencePiece
does. How the two are the same, part by part:

- normalisation: the model's own table of characters (`Precompiled`; XLM-R's is nmt_nfkc, ours none), its spaces;
- the pieces with their scores (unigram), or the merges in the order of their scores (BPE); unknown characters become
  <unk>, or bytes where the model has them;
- one text is cut before every space, which changes nothing where no piece has a space inside of it.
"""

import base64
import json
import shutil
from pathlib import Path

from common.atomic import write_json, write_text
from common.errors import UserError
from engine.import_tokenizer import UPSTREAM_FILES
from engine.sentencepiece_file import BPE, NORMAL, UNIGRAM, USER_DEFINED, SentencePieceFile, read_sentencepiece
from engine.tokenizer import (
    BOS,
    EOS,
    LONGEST_WORD,
    PAD,
    SPACE,
    SPIECE,
    UNK,
    Imported,
    Layout,
    Tokenizer,
    WordPiece,
)


def write_hugging_face_tokenizer(
    tokenizer: Tokenizer, folder: Path, pair_separators: int, max_length: int, sides: bool = False
) -> None:
    """Write what AutoTokenizer needs. `sides`: the model tells the two sides of a pair apart by their type.

    Of an imported checkpoint its own files come back as they were; tokenizer.json is added if it has none."""
    if isinstance(tokenizer, Imported):
        copy_upstream(tokenizer, folder, pair_separators, max_length)
        return
    path = Path(tokenizer.path)
    model = read_sentencepiece(path)
    specials = {"<s>": BOS, "<pad>": PAD, "</s>": EOS, "<unk>": UNK, "<mask>": tokenizer.mask}
    template = pair_template("<s>", "</s>", specials, pair_separators, sides)
    write_compact(folder / "tokenizer.json", sentencepiece_json(model, path, specials, template))
    write_settings(folder, sentencepiece_settings(model, max_length, sides))
    shutil.copyfile(path, folder / SPIECE)


def copy_upstream(tokenizer: Imported, folder: Path, pair_separators: int, max_length: int) -> None:
    layout, source = tokenizer.layout, Path(tokenizer.path)
    for name in UPSTREAM_FILES:
        if (source / name).exists():
            shutil.copyfile(source / name, folder / name)
    if (folder / "tokenizer.json").exists():
        return
    if isinstance(tokenizer, WordPiece):
        write_compact(folder / "tokenizer.json", wordpiece_json(tokenizer, pair_separators))
    elif layout.model_type == "xlm-roberta":
        path = source / str(layout.sentencepiece)
        model = read_sentencepiece(path)
        specials = {"<s>": BOS, "<pad>": PAD, "</s>": EOS, "<unk>": UNK, "<mask>": layout.mask.id}
        template = pair_template("<s>", "</s>", specials, pair_separators)
        write_compact(folder / "tokenizer.json", sentencepiece_json(model, path, specials, template))
        if not (folder / "tokenizer_config.json").exists():
            write_settings(folder, sentencepiece_settings(model, max_length, False))


def write_compact(path: Path, content: dict) -> None:
    write_text(path, json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False) + "\n")


def write_settings(folder: Path, settings: dict) -> None:
    write_json(folder / "tokenizer_config.json", settings)
    names = {key: value for key, value in settings.items() if key.endswith("_token")}
    write_json(folder / "special_tokens_map.json", names)


def sentencepiece_settings(model: SentencePieceFile, max_length: int, sides: bool) -> dict:
    """XLM-R's class where it does what the model does: of others it would rebuild the tokenizer in its own way."""
    inputs = ["input_ids", "token_type_ids", "attention_mask"] if sides else ["input_ids", "attention_mask"]
    return {
        "tokenizer_class": "XLMRobertaTokenizer" if model.like_xlm_r and not sides else "PreTrainedTokenizerFast",
        "model_max_length": max_length,
        "model_input_names": inputs,
        "clean_up_tokenization_spaces": False,
        "bos_token": "<s>",
        "cls_token": "<s>",
        "eos_token": "</s>",
        "sep_token": "</s>",
        "pad_token": "<pad>",
        "unk_token": "<unk>",
        "mask_token": "<mask>",
    }


# ---------------------------------------------------------------------------------------------------------------------
# tokenizer.json


def sentencepiece_json(model: SentencePieceFile, path: Path, specials: dict[str, int], template: dict) -> dict:
    if model.whitespace_as_suffix or not model.escape_whitespaces or not model.add_dummy_prefix:
        raise UserError(
            f"{path}: a SentencePiece model that treats spaces in its own way; no tokenizer.json can say it"
        )
    tokens = ["<s>", "<pad>", "</s>", "<unk>", *(piece.text for piece in model.pieces[3:]), "<mask>"]
    scores = [0.0] * 4 + [piece.score for piece in model.pieces[3:]] + [0.0]
    if model.algorithm == UNIGRAM:
        core: dict = {"type": "Unigram", "unk_id": UNK, "vocab": list(map(list, zip(tokens, scores, strict=True)))}
        core["byte_fallback"] = model.byte_fallback
    elif model.algorithm == BPE:
        core = {
            "type": "BPE",
            "dropout": None,
            "unk_token": "<unk>",
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": True,
            "byte_fallback": model.byte_fallback,
            "ignore_merges": False,
            "vocab": {token: number for number, token in enumerate(tokens)},
            "merges": merges_of(model),
        }
    else:
        raise UserError(
            f"{path}: a model of words or characters; only unigram and BPE can be written as tokenizer.json"
        )
    own = [
        added(piece.text, number + 1, False) for number, piece in enumerate(model.pieces) if piece.kind == USER_DEFINED
    ]
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": sorted(
            [*(added(token, number, True) for token, number in specials.items()), *own], key=lambda token: token["id"]
        ),
        **spaces_of(model),
        "post_processor": template,
        "decoder": decoder_of(model),
        "model": core,
    }


def added(token: str, number: int, special: bool) -> dict:
    return {
        "id": number,
        "content": token,
        "single_word": False,
        "lstrip": token == "<mask>",  # as XLM-R has it: the space before belongs to what is masked
        "rstrip": False,
        "normalized": False,
        "special": special,
    }


def spaces_of(model: SentencePieceFile) -> dict:
    """normalizer and pre_tokenizer; for models like XLM-R's what transformers makes of XLM-R."""
    normalizers: list[dict] = []
    if model.charsmap:
        table = base64.b64encode(model.charsmap).decode()
        normalizers.append({"type": "Precompiled", "precompiled_charsmap": table})
    metaspace = {"type": "Metaspace", "replacement": SPACE, "prepend_scheme": "always", "split": True}
    if model.like_xlm_r:
        split = {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, metaspace]}
        return {"normalizer": normalizers[0], "pre_tokenizer": split}
    if model.remove_extra_whitespaces:
        normalizers.append({"type": "Replace", "pattern": {"Regex": "^ +| +$"}, "content": ""})
        normalizers.append({"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "})
    # Metaspace itself would not write a second sign before a text that begins with a space
    normalizers.append({"type": "Prepend", "prepend": SPACE})
    normalizers.append({"type": "Replace", "pattern": {"String": " "}, "content": SPACE})
    inside = any(SPACE in piece.text[1:] for piece in model.pieces)
    metaspace |= {"prepend_scheme": "never", "split": not inside}
    return {"normalizer": {"type": "Sequence", "normalizers": normalizers}, "pre_tokenizer": metaspace}


def decoder_of(model: SentencePieceFile) -> dict:
    if model.like_xlm_r:
        return {"type": "Metaspace", "replacement": SPACE, "prepend_scheme": "always", "split": True}
    decoders = [
        {"type": "Replace", "pattern": {"String": SPACE}, "content": " "},
        {"type": "ByteFallback"},
        {"type": "Fuse"},
        {"type": "Strip", "content": " ", "start": 1, "stop": 0},
    ]
    return {"type": "Sequence", "decoders": decoders}


def merges_of(model: SentencePieceFile) -> list[list[str]]:
    """Pairs of pieces that make a piece, best score first. To SentencePiece all pairs of one piece are equal, and the
    leftmost in the text goes first; nothing found so far depends on their order here."""
    pieces = {piece.text: piece.score for piece in model.pieces if piece.kind == NORMAL}
    merges = []
    for text in sorted(pieces, key=lambda text: -pieces[text]):
        for cut in range(len(text) - 1, 0, -1):
            if text[:cut] in pieces and text[cut:] in pieces:
                merges.append([text[:cut], text[cut:]])
    return merges


def wordpiece_json(tokenizer: WordPiece, pair_separators: int) -> dict:
    layout = tokenizer.layout
    specials = specials_of(layout)
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": sorted(
            (added(token, number, True) for token, number in specials.items()), key=lambda token: token["id"]
        ),
        "normalizer": {
            "type": "BertNormalizer",
            "clean_text": True,
            "handle_chinese_chars": layout.space_cjk,
            "strip_accents": layout.strip_accents,
            "lowercase": layout.lower_case,
        },
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": pair_template(
            str(layout.bos.token), str(layout.eos.token), specials, pair_separators, sides=True
        ),
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {
            "type": "WordPiece",
            "unk_token": layout.unk.token,
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": LONGEST_WORD,
            "vocab": {token: number for number, token in enumerate(tokenizer.tokens)},
        },
    }


def specials_of(layout: Layout) -> dict[str, int]:
    specials = (layout.bos, layout.pad, layout.eos, layout.unk, layout.mask)
    return {special.token: special.id for special in specials if special.token is not None}


def pair_template(first: str, end: str, ids: dict[str, int], separators: int, sides: bool = False) -> dict:
    """`first` A `end` and `first` A `end` (`end`) B `end`; with sides, what follows the first `end` has type 1."""
    second = int(sides)
    alone = [special(first), {"Sequence": {"id": "A", "type_id": 0}}, special(end)]
    rest = [{"Sequence": {"id": "B", "type_id": second}}, special(end, second)]
    return {
        "type": "TemplateProcessing",
        "single": alone,
        "pair": [*alone, *[special(end, second)] * (separators - 1), *rest],
        "special_tokens": {
            token: {"id": token, "ids": [ids[token]], "tokens": [token]} for token in sorted((first, end))
        },
    }


def special(token: str, side: int = 0) -> dict:
    return {"SpecialToken": {"id": token, "type_id": side}}
