"""LaTeX text: escaping, and nothing that a plain pdflatex with T1 fonts cannot set."""

from collections.abc import Iterable

from common.errors import UserError

SPECIALS = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "%": r"\%",
    "#": r"\#",
    "_": r"\_",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "–": "--",
    "—": "---",
    "‘": "`",
    "’": "'",
    "“": "``",
    "”": "''",
    "±": r"$\pm$",
    "×": r"$\times$",
    "−": "$-$",
    "∗": r"$\ast$",
    "†": r"\textdagger{}",
    "‡": r"\textdaggerdbl{}",
    "≤": r"$\leq$",
    "≥": r"$\geq$",
    "→": r"$\rightarrow$",
    "↓": r"$\downarrow$",
    "α": r"$\alpha$",
    "\n": " ",
    "\t": " ",
}
LAST_LATIN = "\u017f"  # Latin-1 and Latin Extended-A are in the T1 fonts


def escape(text: str) -> str:
    """Text as LaTeX prints it literally. Scripts that pdflatex cannot set are an error, not a missing glyph."""
    parts, previous = [], ""
    for character in str(text):
        if character == "-" == previous:
            parts.append("{}-")  # else T1 fonts join two hyphens to a dash
        elif character in SPECIALS:
            parts.append(SPECIALS[character])
        elif " " <= character <= "~" or "\xa1" <= character <= LAST_LATIN:
            parts.append(character)
        else:
            code_point = f"U+{ord(character):04X}"
            raise UserError(f"text {text!r}: pdflatex cannot print {character!r} ({code_point}); use Latin letters")
        previous = character
    return "".join(parts)


def code(text: str) -> str:
    """A name from config (run, file) in typewriter; long paths may break after a slash."""
    return r"\texttt{" + escape(text).replace("/", r"/\allowbreak{}") + "}"


def longtable(layout: str, title: str, again: str, header: str, body: Iterable[str]) -> list[str]:
    """The lines of a table that may go over pages: a title on the first, `again` on the others, the header on all."""
    head = [r"\toprule", header, r"\midrule"]
    return [
        rf"\begin{{longtable}}{{{layout}}}",
        *(title, *head, r"\endfirsthead"),
        *(again, *head, r"\endhead"),
        *(r"\bottomrule", r"\endlastfoot"),
        *body,
        r"\end{longtable}",
    ]
