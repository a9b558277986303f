"""Classes of characters, as BERT's tokenizers and MLQA's scorer have them."""

import unicodedata


def is_punctuation(character: str) -> bool:
    ascii_mark = "!" <= character <= "~" and not character.isalnum()  # such as $, which Unicode calls a symbol
    return ascii_mark or unicodedata.category(character)[0] == "P"
