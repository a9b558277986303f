"""How corpora name the pair of two languages."""


def pair_with_english(code: str) -> str:
    """Both codes in alphabetical order, such as de-en."""
    return "-".join(sorted((code, "en")))
