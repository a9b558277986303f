"""Read config/datasets.tsv and config/languages.tsv: what there is to download, and how each language is called where.

Standard library only and quick to import, because the workflow reads both tables each time it is parsed.
"""

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from common.errors import UserError

DATASETS_TSV = "config/datasets.tsv"
LANGUAGES_TSV = "config/languages.tsv"
LICENCES_TSV = "config/licences.tsv"

DATASET_COLUMNS = ("id", "url", "fallback_urls", "bytes", "sha256", "licence", "languages", "kind", "note")
LANGUAGE_COLUMNS = (
    "code",
    "name",
    "family",
    "script",
    "cc100",
    "cc100_variants",
    "opus",
    "tatoeba",
    "lid",
    "ud_prefix",
    "word_order_note",
)
# mono: text in its order. sentences: of one language too, each for itself. bitext: an archive of pairs.
KINDS = ("mono", "sentences", "bitext", "train", "eval", "model")
OF_ONE_LANGUAGE = ("mono", "sentences")
GATHERED = "+"  # joins the sources of a corpus that a scale gathers: bible+ntrex

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]*\Z")
_SHA256 = re.compile(r"[0-9a-f]{64}\Z")
_CODE = re.compile(r"[a-z]{2,3}\Z")


@dataclass(frozen=True, slots=True)
class Dataset:
    """One upstream file. `bytes` and `sha256` are None where nobody publishes them."""

    id: str
    url: str
    fallback_urls: tuple[str, ...]
    bytes: int | None
    sha256: str | None
    licence: str
    languages: tuple[str, ...]
    kind: str
    note: str

    @property
    def urls(self) -> tuple[str, ...]:
        """The addresses in the order in which they are asked."""
        return (self.url, *self.fallback_urls)

    @property
    def path(self) -> str:
        """Where the file lies in a mirror folder: <host>/<path of the url>."""
        return path_of(self.url)


@dataclass(frozen=True, slots=True)
class Language:
    """One language and its names in every source; `cc100` and `opus` may be several files' codes."""

    code: str
    name: str
    family: str
    script: str
    cc100: tuple[str, ...]
    cc100_variants: tuple[str, ...]
    opus: tuple[str, ...]
    tatoeba: str
    lid: str
    ud_prefix: str
    word_order_note: str


def path_of(url: str) -> str:
    """`https://host/a/b.zip` -> `host/a/b.zip`, the layout of every mirror."""
    return url.partition("://")[2]


def read_table(path: str | Path, columns: tuple[str, ...]) -> Iterator[tuple[int, list[str]]]:
    """Yield (line number, cells in the order of `columns`); the file may have its columns in another order."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8").removeprefix("\ufeff")  # which a spreadsheet writes first
    except FileNotFoundError:
        raise UserError(f"{path}: no such file; run from the root of the repository or give its path") from None
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: byte {error.start} is not UTF-8; save the table as UTF-8") from None
    lines = text.split("\n")
    header = lines[0].split("\t")
    if missing := [column for column in columns if column not in header]:
        raise UserError(f"{path}:1: no column {', '.join(missing)}; expected {' '.join(columns)}, tab-separated")
    if unknown := [column for column in header if column not in columns]:
        raise UserError(f"{path}:1: unknown column {', '.join(map(repr, unknown))}; expected {' '.join(columns)}")
    if len(header) != len(set(header)):
        raise UserError(f"{path}:1: a column is named twice; expected {' '.join(columns)}")
    order = None if tuple(header) == columns else [header.index(column) for column in columns]
    width = len(columns)
    for number, line in enumerate(lines[1:], start=2):
        if not line.strip() or line.startswith("#"):
            continue
        cells = line.split("\t")
        if len(cells) != width:
            raise UserError(
                f"{path}:{number}: {len(cells)} columns instead of {width}; separate columns by single tabs, "
                "also around empty ones"
            )
        yield number, cells if order is None else [cells[i] for i in order]


def load_datasets(path: str | Path = DATASETS_TSV, known: Collection[str] | None = None) -> dict[str, Dataset]:
    """Return the rows by id, in the order of the file; errors name file, line and column. `known`: the languages that
    rows may have."""
    datasets: dict[str, Dataset] = {}
    ids: dict[str, int] = {}
    paths: dict[str, int] = {}
    for number, cells in read_table(path, DATASET_COLUMNS):
        id_, url, fallbacks, size, sha256, licence, languages, kind, note = cells

        def wrong(column: str, what: str, line: int = number) -> UserError:
            return UserError(f"{path}:{line}, column {column}: {what}")

        if not _ID.match(id_) or "//" in id_ or ".." in id_:
            raise wrong("id", f"{id_!r} is not an id; use letters, digits and . _ - /")
        if id_ in ids:
            raise wrong("id", f"{id_!r} is already on line {ids[id_]}; ids are unique, rename or remove one")
        fallback_urls = tuple(fallbacks.split()) if fallbacks else ()
        for column, address in (("url", url), *(("fallback_urls", fallback) for fallback in fallback_urls)):
            if problem := _url_problem(address):
                raise wrong(column, f"{address!r} {problem}")
        if size and not re.fullmatch("[0-9]{1,18}", size):
            raise wrong("bytes", f"{size!r} is not a number of bytes; write digits only, or leave it empty")
        if sha256 and not _SHA256.match(sha256):
            raise wrong("sha256", f"{sha256!r} is not a sha256; write 64 lower-case hex digits, or leave it empty")
        if not licence:
            raise wrong("licence", "is empty; name the licence, or write 'not stated'")
        if kind not in KINDS:
            raise wrong("kind", f"{kind!r} is unknown; use one of {', '.join(KINDS)}")
        codes = tuple(languages.split(",")) if languages else ()
        if bad := [code for code in codes if not _CODE.match(code)]:
            raise wrong("languages", f"{bad[0]!r} is not a project language code; separate codes by commas")
        if known is not None and (unknown := [code for code in codes if code not in known]):
            raise wrong(
                "languages", f"{unknown[0]!r} is not a language of {LANGUAGES_TSV}; mend the code, or add it there"
            )
        if kind in OF_ONE_LANGUAGE and len(codes) != 1:
            raise wrong("languages", f"a {kind} row names one language, this one names {len(codes)}")
        if kind == "bitext" and (len(codes) != 2 or codes != tuple(sorted(set(codes)))):
            raise wrong("languages", f"{languages!r}: a bitext row names two languages in alphabetical order")
        dataset = Dataset(
            id_, url, fallback_urls, int(size) if size else None, sha256 or None, licence, codes, kind, note
        )
        where = dataset.path
        if where in paths:
            raise wrong("url", f"{where} is already the local path of line {paths[where]}; one row per file")
        ids[id_] = paths[where] = number
        datasets[id_] = dataset
    return datasets


def _percent(character: str) -> str:
    return "".join(f"%{byte:02X}" for byte in character.encode("utf-8", "surrogatepass"))


def _url_problem(url: str) -> str | None:
    if not url.startswith(("https://", "http://")):
        return "does not begin with https:// or http://"
    if "?" in url or "#" in url or " " in url:
        return "has a query, a fragment or a blank, which have no place in a mirror's <host>/<path>"
    # The path becomes a file's name, in shells, logs and job schedulers: no character that any of them reads as more.
    if strange := re.search(r"[^A-Za-z0-9._~%+,=@:/-]", path_of(url)):
        return f"holds {strange.group()!r}; write it percent-encoded, as {_percent(strange.group())}"
    parts = path_of(url).split("/")
    if len(parts) < 2 or not parts[-1]:
        return "names no file; give the whole address of one file"
    if "" in parts or "." in parts or ".." in parts:
        return "has an empty, '.' or '..' path part"
    return None


def load_languages(path: str | Path = LANGUAGES_TSV) -> dict[str, Language]:
    """Return the languages by project code, in the order of the file; errors name file, line and column."""
    languages: dict[str, Language] = {}
    lines: dict[str, int] = {}
    for number, cells in read_table(path, LANGUAGE_COLUMNS):
        code, name, family, script, cc100, variants, opus, tatoeba, lid, ud_prefix, word_order_note = cells
        if not _CODE.match(code):
            raise UserError(
                f"{path}:{number}, column code: {code!r} is not a code; use two or three lower-case letters"
            )
        if code in lines:
            raise UserError(f"{path}:{number}, column code: {code!r} is already on line {lines[code]}; remove one")
        for column, value in (("name", name), ("family", family), ("script", script)):
            if not value:
                raise UserError(f"{path}:{number}, column {column}: is empty; every language needs it")
        lines[code] = number
        languages[code] = Language(
            code,
            name,
            family,
            script,
            tuple(filter(None, cc100.split(","))),
            tuple(filter(None, variants.split(","))),
            tuple(filter(None, opus.split(","))),
            tatoeba,
            lid,
            ud_prefix,
            word_order_note,
        )
    return languages


def mono_ids(
    corpus: str,
    lang: str,
    datasets: str | Path | dict[str, Dataset] = DATASETS_TSV,
    languages: str | Path | dict[str, Language] = LANGUAGES_TSV,
    variants: bool = False,
) -> list[str]:
    """Ids of the monolingual files of a language: cc-100, zh -> [cc-100/zh-Hans, cc-100/zh-Hant].

    `variants` adds the romanised and Zawgyi files (hi_rom, my_zaw), which no table of the papers counts apart. A
    gathered corpus has every file of the language in its sources: bible+ntrex, sw -> [bible/verses.sw, ...].
    """
    datasets, languages = _tables(datasets, languages)
    row = _language(lang, languages)
    codes = (lang,)
    if corpus == "cc-100":
        codes = row.cc100 + (row.cc100_variants if variants else ())
    ids = [f"{corpus}/{code}" for code in codes or (lang,)]
    if missing := [id_ for id_ in ids if id_ not in datasets]:
        files = gathered(corpus, datasets).values()
        if found := sorted(id_ for group in files for code, id_ in group if code == lang):
            return found
        raise UserError(
            f"{DATASETS_TSV}, column id: no row {', '.join(missing)}; add it, or take {lang} out of what reads {corpus}"
        )
    return ids


def bitext_ids(
    corpus: str,
    pair: str,
    datasets: str | Path | dict[str, Dataset] = DATASETS_TSV,
    languages: str | Path | dict[str, Language] = LANGUAGES_TSV,
) -> list[str]:
    """Ids of the files of one corpus and one pair of project codes, in the order of the languages' opus codes.

    Mostly one; several where upstream splits a language (OpenSubtitles has en-zh_cn and en-zh_tw for en-zh). A corpus
    whose pairs lie in one archive (WMT's) is a row of kind train with the corpus's name as its id. A gathered corpus
    has files in twos, the first language's before the second's: bible/verses.en, bible/verses.sw, ...
    """
    datasets, languages = _tables(datasets, languages)
    codes = pair.split("-")
    if len(codes) != 2 or codes != sorted(set(codes)):
        raise UserError(f"pair {pair!r}: write two different language codes in alphabetical order, joined by '-'")
    first, second = (_language(code, languages) for code in codes)
    archive = datasets.get(corpus.lower())
    if archive and archive.kind == "train":
        if not set(codes) <= set(archive.languages):
            raise UserError(
                f"{DATASETS_TSV}, column languages: {archive.id} has {', '.join(archive.languages)} and so no {pair}; "
                f"take {corpus} of {pair} out of the run"
            )
        return [archive.id]
    candidates = [f"{corpus.lower()}/{pair}"]
    for a in first.opus or (first.code,):
        for b in second.opus or (second.code,):
            candidates.append(f"opus/{corpus}/{'-'.join(sorted((a, b)))}")
    ids = [id_ for id_ in candidates if id_ in datasets]
    if not ids:
        groups = (dict(files) for _, files in sorted(gathered(corpus, datasets).items()))
        ids = [group[code] for group in groups if set(codes) <= set(group) for code in codes]
    if not ids:
        raise UserError(
            f"{DATASETS_TSV}, column id: no row opus/{corpus}/{pair} or {corpus.lower()}/{pair}, nor {corpus.lower()} "
            f"of kind train; add it, or take {corpus} of {pair} out of the run"
        )
    return ids


def gathered(corpus: str, datasets: dict[str, Dataset]) -> dict[str, list[tuple[str, str]]]:
    """(language, id) of the files of a gathered corpus, by what they are called without the language at their end.
    Files of one name are each other's translations, line by line or verse by verse: ntrex/newstest2019.de and .en."""
    sources = tuple(f"{source}/" for source in corpus.split(GATHERED))
    found: dict[str, list[tuple[str, str]]] = {}
    for id_, row in datasets.items():
        if row.kind in OF_ONE_LANGUAGE and id_.startswith(sources):
            [code] = row.languages
            found.setdefault(id_.removesuffix(f".{code}"), []).append((code, id_))
    return found


def _tables(
    datasets: str | Path | dict[str, Dataset], languages: str | Path | dict[str, Language]
) -> tuple[dict[str, Dataset], dict[str, Language]]:
    return (
        datasets if isinstance(datasets, dict) else load_datasets(datasets),
        languages if isinstance(languages, dict) else load_languages(languages),
    )


def _language(code: str, languages: dict[str, Language]) -> Language:
    if code not in languages:
        raise UserError(f"{LANGUAGES_TSV}, column code: no language {code!r}; add a row or correct the code")
    return languages[code]
