"""What each objective reads, how its items lie in a row, and its options. No torch here: the plan reads it too.

Forms of an item (engine/data.py writes them):
    blocks    <s> s1 </s> s2 </s> ...                 whole sentences of one language
    pairs     <s> x </s> [</s>] y </s>                a translation pair as one sequence
    apart     <s> x </s> <s> y </s>                   a pair whose sides are numbered from the first position each
    segments  <s> s1 </s> s2 </s> <s> s3 </s> ...     a document's block cut near its middle; as `apart`
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class NoOptions:
    pass


@dataclass(frozen=True)
class Description:
    data: str  # mono or bitext
    form: str
    options: type = NoOptions


DESCRIPTIONS = {
    "mmlm": Description("mono", "blocks"),
    "tlm": Description("bitext", "pairs"),
}
