"""What a scale reads in place of the papers' corpora and files: sources that it gathers, by their licences."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from common.errors import UserError
from common.yamlfiles import check_known
from plan.config import Config
from plan.datasets import GATHERED, LICENCES_TSV, OF_ONE_LANGUAGE, gathered, mono_ids, read_table

LICENCE_COLUMNS = ("licence", "use", "why")


@cache
def licence_uses(path: Path = Path(LICENCES_TSV)) -> dict[str, str]:
    """{a licence of config/datasets.tsv: open, where anyone may use and pass on its text for anything, or not}."""
    found = {}
    for number, (licence, use, _) in read_table(path, LICENCE_COLUMNS):
        if use not in ("open", "restricted", "unclear"):
            raise UserError(f"{path}:{number}, column use: {use!r} is unknown; use open, restricted or unclear")
        found[licence] = use
    return found


def only_open(config: Config) -> bool:
    return config.settings.get("licences", "any") == "open" and not config.has_world


def is_closed(config: Config, id_: str) -> bool:
    """Is this file left out because its licence is not open?"""
    if not only_open(config):
        return False
    licence, uses = config.datasets[id_].licence, licence_uses(config.root / LICENCES_TSV)
    if licence not in uses:
        raise UserError(f"{LICENCES_TSV}: no licence {licence!r}, which {id_} of config/datasets.tsv has; add its row")
    return uses[licence] != "open"


def gathered_corpus(config: Config, kind: str) -> str | None:
    """What stands for the `text` or the `pairs` of every run, where the scale names sources: a corpus whose name says
    what is in it; with `licences: open` less is."""
    key = f"sources.{kind}"
    if key not in config.derived:
        names = config.scale.get("sources", {}).get(kind)
        closed = {row.id.partition("/")[0] for row in config.datasets.values() if names and is_closed(config, row.id)}
        left = sorted(set(names or ()) - closed)
        if names and not left:
            raise UserError(f"config/scales/{config.scale_name}.yaml, {key}: none is open; name others")
        config.derived[key] = GATHERED.join(left) or None
    return config.derived[key]


def gathered_pairs(config: Config, pairs: list[str]) -> dict[str, list[str]]:
    """{pair: [the gathered corpus]} of those pairs that it has."""
    corpus = gathered_corpus(config, "pairs")
    if "pairs" not in config.derived:
        groups = gathered(corpus, config.datasets).values()
        config.derived["pairs"] = {frozenset(code for code, _ in files) for files in groups}
    here = config.derived["pairs"]
    return {pair: [corpus] for pair in pairs if any(set(pair.split("-")) <= codes for codes in here)}


def is_gathered(config: Config, id_: str) -> bool:
    """Is this a file of a source that a scale gathers, and not a corpus's one file of a language or an archive?"""
    return config.datasets[id_].kind in OF_ONE_LANGUAGE and not id_.startswith("cc-100/")


def text_corpus(config: Config) -> str:
    """The corpus of all languages of the scale: what a vocabulary is trained on, and a language identifier."""
    return gathered_corpus(config, "text") or "cc-100"


def labelled_text(config: Config) -> list[tuple[str, str]]:
    """(language, dataset id) of the text that a language identifier is trained on: all of the world's, or of the
    sources that the scale gathers, which say what their languages are."""
    codes = sorted(config.scale["world"]["languages"] if config.has_world else config.scale["languages"] or [])
    corpus = text_corpus(config)
    return [(code, id_) for code in codes for id_ in mono_ids(corpus, code, config.datasets, config.languages)]


def check_sources(config: Config, shown: str) -> None:
    """Sources that a scale gathers exist, and every language of the scale has text of one."""
    scale = config.scale
    if "sources" not in scale:
        return
    if config.has_world or not scale["languages"]:
        raise UserError(f"{shown}, sources: are for a scale that lists languages and has no world; remove a key")
    known = {row.id.partition("/")[0] for row in config.datasets.values() if row.kind in OF_ONE_LANGUAGE}
    for kind, names in scale["sources"].items():
        for index, name in enumerate(names):
            check_known(name, known - {"cc-100"}, f"{shown}, sources.{kind}[{index}]", "source of config/datasets.tsv")
    for index, code in enumerate(scale["languages"]):
        try:
            mono_ids(text_corpus(config), code, config.datasets, config.languages)
        except UserError as error:
            raise UserError(f"{shown}, languages[{index}]: {error}") from None


# What a model has beside its blocks: a run that a scale gives another start has of these what that start has.
TRAITS = ("absolute_positions", "token_types", "languages", "relative_bias", "admin")


def start_elsewhere(runs: dict[str, dict], scale: dict, shown: str) -> None:
    for name, start in scale.get("starts", {}).items():
        for run in (name, start):
            check_known(run, runs, f"{shown}, starts", "run")
        if "init" not in runs[name] or runs[start]["kind"] != "pretrain":
            raise UserError(f"{shown}, starts.{name}: only a run with a start can have another run's weights for it")
        own, other = runs[name]["model"], runs[start]["model"]
        model = {key: value for key, value in own.items() if key not in TRAITS}
        model |= {key: other[key] for key in TRAITS if key in other}
        runs[name] = {**runs[name], "model": model, "init": {**runs[name]["init"], "run": start}}
