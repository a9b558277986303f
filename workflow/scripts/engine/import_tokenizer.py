"""The tokenizer files of a published checkpoint: which there are, and how their ids are laid out.

What is written is what load_tokenizer reads: the upstream files, and layout.json.
"""

import shutil
from dataclasses import asdict
from pathlib import Path

from common.atomic import atomic_folder, write_json
from common.errors import UserError
from engine.sentencepiece_file import check_whole, from_tokenizer_json, to_bytes
from engine.tokenizer import (
    LAYOUT,
    SPIECE,
    Layout,
    Special,
    Tokenizer,
    check_size,
    load_pieces,
    load_tokenizer,
    read_json,
    read_vocabulary,
)

UPSTREAM_FILES = (
    "added_tokens.json",
    SPIECE,
    "special_tokens_map.json",
    "spiece.model",
    "tokenizer.json",
    "tokenizer_config.json",
    "vocab.txt",
)


def import_tokenizer(checkpoint: Path, config: dict, rows: int, out: Path) -> Tokenizer:
    """Copy the tokenizer files of a Hugging Face folder, whose embedding table has `rows` rows, and write down how
    their ids are laid out."""
    with atomic_folder(out) as folder:
        made = make_sentencepiece(checkpoint, config, folder)
        layout = find_layout(checkpoint, config, rows, made)
        for name in UPSTREAM_FILES:
            if (checkpoint / name).exists():
                shutil.copyfile(checkpoint / name, folder / name)
        write_json(folder / LAYOUT, asdict(layout))
    return load_tokenizer(out)


def make_sentencepiece(checkpoint: Path, config: dict, folder: Path) -> Path | None:
    """The SentencePiece file of an XLM-R that was saved with nothing but a tokenizer.json."""
    given = checkpoint / "tokenizer.json"
    if config.get("model_type") != "xlm-roberta" or (checkpoint / SPIECE).exists() or not given.exists():
        return None
    made = folder / "made.model"
    made.write_bytes(to_bytes(from_tokenizer_json(read_json(given), str(given))))
    return made


def find_layout(checkpoint: Path, config: dict, rows: int, made: Path | None) -> Layout:
    model_type = str(config.get("model_type"))
    if model_type in ("bert", "electra"):
        return bert_layout(checkpoint, model_type, rows)
    if model_type == "ernie_m":
        return ernie_m_layout(checkpoint, rows)
    if model_type in ("xlm-roberta", "mbart"):
        return xlm_r_layout(made or checkpoint / SPIECE, model_type, rows)
    if model_type == "mt5":
        return mt5_layout(checkpoint, rows)
    raise UserError(
        f"{checkpoint / 'config.json'}, model_type: {model_type!r} has no tokenizer here; known are bert, electra, "
        "ernie_m, mbart, mt5, xlm-roberta"
    )


def xlm_r_layout(path: Path, model_type: str, rows: int) -> Layout:
    """Two ids more than the file has pieces, for <pad> and <mask>; mBART's language codes lie before <mask>."""
    pieces = load_pieces(path)
    check_whole(path)
    if (pieces.unk_id(), pieces.bos_id(), pieces.eos_id()) != (0, 1, 2):
        raise UserError(f"{path}: expected the special pieces <unk> 0, <s> 1, </s> 2")
    tokens = pieces.get_piece_size() + 2
    check_size(path, tokens, rows)
    ids = {"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3, "<mask>": rows - 1 if model_type == "mbart" else tokens - 1}
    specials = [Special(token, number) for token, number in ids.items()]
    return Layout("sentencepiece", model_type, rows, *specials, pair_separators=2, sentencepiece=path.name)


def mt5_layout(checkpoint: Path, rows: int) -> Layout:
    """mT5 knows neither <s> nor <mask>: the table's last row, which no token has, stands for the one, and the sentinel
    of its first masked span for the other."""
    path = checkpoint / "spiece.model"
    pieces = load_pieces(path)
    check_whole(path)
    if (pieces.pad_id(), pieces.eos_id(), pieces.unk_id()) != (0, 1, 2):
        raise UserError(f"{path}: expected the special pieces <pad> 0, </s> 1, <unk> 2")
    size = pieces.get_piece_size()
    sentinel = size - 1 if pieces.id_to_piece(size - 1).endswith("<extra_id_0>") else None
    check_size(path, size + (1 if sentinel else 2), rows)
    mask = Special(None, rows - 2) if sentinel is None else Special("<extra_id_0>", sentinel)
    specials = Special(None, rows - 1), Special("<pad>", 0), Special("</s>", 1), Special("<unk>", 2), mask
    return Layout("sentencepiece", "mt5", rows, *specials, pair_separators=1, sentencepiece=path.name)


def ernie_m_layout(checkpoint: Path, rows: int) -> Layout:
    load_pieces(checkpoint / SPIECE)
    check_whole(checkpoint / SPIECE)
    return Layout(
        "ernie-m",
        "ernie_m",
        rows,
        *bert_specials(checkpoint / "vocab.txt", rows),
        pair_separators=2,
        sentencepiece=SPIECE,
        vocabulary="vocab.txt",
        lower_case=bool(read_json(checkpoint / "tokenizer_config.json").get("do_lower_case", False)),
    )


def bert_layout(checkpoint: Path, model_type: str, rows: int) -> Layout:
    settings = bert_settings(checkpoint)
    vocabulary = "vocab.txt" if (checkpoint / "vocab.txt").exists() else "tokenizer.json"
    if vocabulary == "tokenizer.json" and not (checkpoint / vocabulary).exists():
        raise UserError(f"{checkpoint / 'vocab.txt'}: no such file; download the whole checkpoint")
    lower_case = settings.get("do_lower_case")
    if lower_case is None:
        raise UserError(
            f"{checkpoint / 'tokenizer_config.json'}: does not say whether letters keep their case; write "
            '"do_lower_case": false into it for a cased model, or true'
        )
    strip_accents = settings.get("strip_accents")
    return Layout(
        "wordpiece",
        model_type,
        rows,
        *bert_specials(checkpoint / vocabulary, rows),
        pair_separators=1,
        vocabulary=vocabulary,
        lower_case=bool(lower_case),
        strip_accents=bool(lower_case if strip_accents is None else strip_accents),
        space_cjk=bool(settings.get("tokenize_chinese_chars", True)),
    )


def bert_settings(checkpoint: Path) -> dict:
    """Of tokenizer_config.json; what it does not say is in tokenizer.json, if that is there."""
    normalizer = read_json(checkpoint / "tokenizer.json").get("normalizer") or {}
    if not isinstance(normalizer, dict):
        raise UserError(f"{checkpoint / 'tokenizer.json'}, normalizer: expected a mapping; download it again")
    names = {"do_lower_case": "lowercase", "strip_accents": "strip_accents"}
    names |= {"tokenize_chinese_chars": "handle_chinese_chars"}
    if normalizer.get("type") != "BertNormalizer":
        names = {}
    settings = {ours: normalizer[theirs] for ours, theirs in names.items() if theirs in normalizer}
    return settings | read_json(checkpoint / "tokenizer_config.json")


def bert_specials(path: Path, rows: int) -> list[Special]:
    tokens = read_vocabulary(path)
    check_size(path, len(tokens), rows)
    places = {token: number for number, token in enumerate(tokens)}
    wanted = ("[CLS]", "[PAD]", "[SEP]", "[UNK]", "[MASK]")
    if missing := [token for token in wanted if token not in places]:
        raise UserError(f"{path}: no {', '.join(missing)} in it; download it again")
    return [Special(token, places[token]) for token in wanted]
