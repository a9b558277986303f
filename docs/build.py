"""docs/*.md and README as plain HTML that opens from disk: one page each, one style, and nothing from a network.

    make docs
    python docs/build.py --out results/docs

The pages name each other as code, `docs/real.md`, which reads well everywhere; here such a name is a link. A link or an
anchor that leads nowhere ends the build.
"""

import argparse
import re
import sys
from html import escape
from html.parser import HTMLParser
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPOSITORY / "workflow/scripts"))

from common.errors import UserError, run_main  # noqa: E402

FIRST = ("README.md", "docs/laptop.md", "docs/checkpoint.md", "docs/cluster.md", "docs/glossary.md", "docs/commands.md")
LAST = ("config/README.md", "CONTRIBUTING.md", "CHANGELOG.md")
STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 60rem; padding: 1rem; }
nav { border-bottom: 1px solid; padding-bottom: .5rem; }
nav a { display: inline-block; margin-right: .8rem; }
pre { border: 1px solid; overflow-x: auto; padding: .6rem; }
code { font-size: .9em; overflow-wrap: anywhere; }
pre code { overflow-wrap: normal; }
svg { height: auto; max-width: 100%; }
table { border-collapse: collapse; display: block; overflow-x: auto; }
th, td { border: 1px solid; padding: .2rem .5rem; text-align: left; }
"""


def sources() -> list[str]:
    others = sorted(f"docs/{path.name}" for path in (REPOSITORY / "docs").glob("*.md"))
    return [*FIRST, *(name for name in others if name not in FIRST), *LAST]


def page_of(source: str) -> str:
    """README.md -> index.html, docs/real.md -> real.html, config/README.md -> config.html"""
    if source == "README.md":
        return "index.html"
    path = Path(source)
    return f"{(path.parent.name if path.stem == 'README' else path.stem).lower()}.html"


def anchor(words: str, taken: set[str]) -> str:
    """As GitHub makes it: a link with an anchor works there and here."""
    plain = re.sub(r"[^\w\- ]", "", words.lower()).replace(" ", "-")
    made, number = plain, 0
    while made in taken:
        number += 1
        made = f"{plain}-{number}"
    taken.add(made)
    return made


def link(href: str, inside: list[Token]) -> list[Token]:
    return [Token("link_open", "a", 1, attrs={"href": href}), *inside, Token("link_close", "a", -1)]


def linked(children: list[Token], source: str, pages: dict[str, str]) -> list[Token]:
    """Names of other pages become links to them, and links to Markdown files those to their pages."""
    made, within = [], 0
    for token in children:
        within += {"link_open": 1, "link_close": -1}.get(token.type, 0)
        if token.type == "link_open":
            target, _, place = str(token.attrs["href"]).partition("#")
            whole = (REPOSITORY / source).parent.joinpath(target).resolve()
            name = str(whole.relative_to(REPOSITORY)) if whole.is_relative_to(REPOSITORY) else target
            if target and name in pages:
                token.attrs["href"] = pages[name] + ("#" + place if place else "")
            elif target and ":" not in target:
                raise UserError(f"{source}: the link to {target} leads to no page; name a page, or write it as code")
        if token.type == "image":
            token = drawn(token, source)
        named = token.type == "code_inline" and re.fullmatch(r"docs/[\w-]+\.md|(?:config/)?README\.md", token.content)
        if named and token.content not in pages:
            raise UserError(f"{source}: names `{token.content}`, which is not there; correct the name")
        linked_name = named and token.content != source and not within
        made += link(pages[token.content], [token]) if linked_name else raised(token)
    return made


def raised(token: Token) -> list[Token]:
    """The letters of notes, the one HTML that tables of results have; any other is shown as it is written."""
    if token.type != "text":
        return [token]
    parts = re.split(r"(</?sup>)", token.content)
    return [Token("html_inline" if part in ("<sup>", "</sup>") else "text", "", 0, content=part) for part in parts]


def drawn(image: Token, source: str) -> Token:
    """A drawing of ours stands in the page itself, which loads nothing; its style holds for its own parts alone."""
    path = (REPOSITORY / source).parent / str(image.attrs["src"])
    if path.suffix != ".svg" or not path.is_file():
        raise UserError(f"{source}: the picture {image.attrs['src']} is no SVG file of this repository")
    _, begin, rest = path.read_text(encoding="utf-8").partition("<svg")  # before it may stand what XML files begin with
    begin += f' class="{path.stem}"'
    if "aria-label" not in rest and "<title>" not in rest:
        begin += f' role="img" aria-label="{escape(image.content, quote=True)}"'
    rest = re.sub(r"(<style[^>]*>)(.*?)(</style>)", rf"\1.{path.stem} {{ \2 }}\3", rest, flags=re.DOTALL)
    return Token("html_inline", "", 0, content=begin + rest)


def rendered(source: str, pages: dict[str, str]) -> tuple[str, str]:
    """Title and HTML of one page."""
    markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = markdown.parse((REPOSITORY / source).read_text(encoding="utf-8"))
    title, taken = "", set()
    for token, following in zip(tokens, [*tokens[1:], None], strict=True):
        if token.type == "heading_open":
            words = "".join(child.content for child in following.children)
            title = title or words
            token.attrs["id"] = anchor(words, taken)
        if token.type == "inline":
            token.children = linked(token.children, source, pages)
    return title or source, markdown.renderer.render(tokens, markdown.options, {})


class Links(HTMLParser):
    """What a page links to and loads, and the places in it that a link can name."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.places: set[str] = set()
        self.feed(html)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        told = dict(attributes)
        if "id" in told:
            self.places.add(told["id"])
        if tag == "a":
            self.links.append(told["href"])
        elif tag in ("img", "script", "link", "iframe", "source", "video", "audio", "object", "embed"):
            self.loads.append(told.get("src") or told.get("href") or told.get("data") or tag)


def check(pages: dict[str, str]) -> None:
    """Page -> HTML. Every link within leads somewhere, and no page loads anything."""
    read = {name: Links(html) for name, html in pages.items()}
    for name, found in read.items():
        if found.loads:
            raise UserError(f"{name}: loads {found.loads[0]}; a page of docs is text alone: link to it")
        for target in found.links:
            page, _, place = target.partition("#")
            if re.match(r"(?:https?|mailto):", target):
                continue
            if (page or name) not in read or (place and place not in read[page or name].places):
                raise UserError(f"{name}: the link to {target} leads nowhere; correct it, or the heading that it names")


def site() -> dict[str, str]:
    """Page -> HTML."""
    names = {source: page_of(source) for source in sources()}
    bodies = {source: rendered(source, names) for source in names}
    contents = "\n".join(f'<a href="{names[source]}">{escape(title)}</a>' for source, (title, _) in bodies.items())
    made = {
        names[source]: f'<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<title>{escape(title)}</title>\n'
        f'<style>{STYLE}</style>\n<nav aria-label="Pages">\n{contents}\n</nav>\n<main>\n{body}</main>\n</html>\n'
        for source, (title, body) in bodies.items()
    }
    check(made)
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True, type=Path, metavar="DIR", help="folder of the pages")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    for name, html in site().items():
        (arguments.out / name).write_text(html, encoding="utf-8")
    print(f"Open: {arguments.out / 'index.html'}")


if __name__ == "__main__":
    run_main(main)
