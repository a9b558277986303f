"""The corpora, languages and pairs that runs and vocabularies read at a scale."""

from __future__ import annotations

from collections.abc import Iterable

from plan.config import Config
from plan.runs import hash_of, resolve_run
from plan.sources import gathered_corpus, text_corpus


def data_of_runs(config: Config, runs: Iterable[str]) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """What these runs train on: sorted (corpus, language) and (corpus, pair)."""
    mono, bitext = set(), set()
    for run in runs:
        data = resolve_run(config, run).get("data", {})
        if "mono" in data:
            mono |= {(data["mono"]["corpus"], code) for code in data["mono"]["languages"]}
        if "bitext" in data:
            bitext |= {(corpus, pair) for pair, names in data["bitext"]["corpora"].items() for corpus in names}
    return sorted(mono), sorted(bitext)


def corpora(config: Config) -> list[str]:
    """The names of all corpora that some run or translation model may read."""
    names = {corpus for task in config.tasks.values() for corpus in task.get("bitext", [])}
    names |= {corpus for kind in ("text", "pairs") if (corpus := gathered_corpus(config, kind))}
    for run in config.runs.values():
        data = run.get("data", {})
        names |= {data["mono"]["corpus"]} if "mono" in data else set()
        names |= {corpus for pair in data.get("bitext", {}).get("corpora", {}).values() for corpus in pair}
    return sorted(names)


def corpus_languages(config: Config) -> list[str]:
    """The languages of pre-training text at this scale, over all runs: what decontamination has to cover."""
    mono, bitext = data_of_runs(config, [run for run in config.runs if hash_of(config, run)])
    return sorted({code for _, code in mono} | {code for _, pair in bitext for code in pair.split("-")})


def vocabulary_data(config: Config) -> list[tuple[str, str]]:
    """(corpus, language) of the text that a vocabulary is trained on: all languages of the scale, whatever the runs."""
    codes = sorted(config.scale["languages"] or corpus_languages(config))
    return [(text_corpus(config), code) for code in codes]
