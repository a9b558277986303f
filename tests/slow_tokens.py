"""What the slow tokenizers of transformers 4.46.3, which read SentencePiece files themselves, make of lines of text.

Runs under PYTHONPATH=.venv/ernie-m and imports nothing of ours:
slow_tokens.py REQUEST.json ANSWER.json, where REQUEST holds {"lines": [...], "folders": {class name: folder}}
"""

import json
import logging
import sys
from pathlib import Path

import transformers
from transformers.models.deprecated.ernie_m.tokenization_ernie_m import ErnieMTokenizer

logging.disable(logging.WARNING)
ErnieMTokenizer.SP_CHAR_MAPPING = {}  # its own code reads it and never sets it


def places_of(tokenizer, line: str) -> list | None:
    """None where the class itself gives up: it looks for a piece in a text that it normalised in another way."""
    try:
        return tokenizer.get_offset_mapping(line)
    except (ValueError, IndexError):
        return None


def tokens_of(name: str, folder: str, lines: list[str]) -> dict:
    kind = ErnieMTokenizer if name == "ErnieMTokenizer" else getattr(transformers, name)
    options = {"legacy": True, "extra_ids": 0} if name == "T5Tokenizer" else {}
    tokenizer = kind.from_pretrained(folder, **options)
    pieces = [tokenizer.tokenize(line) for line in lines]
    answer = {"ids": [tokenizer.convert_tokens_to_ids(one) for one in pieces], "pieces": pieces}
    pair = tokenizer("a", "b")["input_ids"]
    answer |= {"pair": pair, "mask": tokenizer.mask_token_id, "class": type(tokenizer).__name__}
    if kind is ErnieMTokenizer:
        answer["places"] = [places_of(tokenizer, line) for line in lines]
    return answer


if __name__ == "__main__":
    request = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    answers = {name: tokens_of(name, folder, request["lines"]) for name, folder in request["folders"].items()}
    Path(sys.argv[2]).write_text(json.dumps(answers), encoding="utf-8")
