"""What tables and figures know of the configuration, the scale and its scores."""

import argparse
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import plan.needs
from common.csvfiles import read_rows
from common.errors import UserError
from common.yamlfiles import parse_yaml
from plan.config import Config
from plan.evidence import check_hashes, evidence, seeds_of, trainings_of
from plan.kept import kept_config
from plan.needs import borrowed_paths, canonical_run, needs, score_paths
from plan.runs import not_here
from plan.words import described
from report.scores import Key, Results, group_paths, load_parts, load_results
from report.table_spec import paper_names, split_setting


@dataclass(frozen=True)
class Context:
    """What tables and figures show: a configuration, as `context_of` sees it, and where its scores are."""

    config: Config
    scores_root: Path
    trainings_root: Path
    root: Path  # of the repository: where config/ lies
    scale: str
    world: bool  # the scale's data is generated
    description: str  # of the scale
    warning: str | None  # of a scale whose numbers mean nothing
    reference: bool  # the scores are those of the repository
    runs: frozenset[str]  # names of config/runs that have scores here
    borrowed: frozenset[str]  # of these those that are not trained here: their scores are the repository's
    unselected: frozenset[str]  # names of config/runs that are neither
    absent: frozenset[str]  # runs that this scale has no use for: rows that show nothing else are left out
    untrained: frozenset[str]  # runs whose pre-training has no step
    tasks: Mapping[str, frozenset[str]]  # task -> its settings


def context_of(config: Config, scores_root: Path) -> Context:
    borrowed = plan.needs.borrowed(config)
    return Context(
        config=config,
        scores_root=scores_root,
        trainings_root=config.root / evidence(config, "trainings"),
        root=config.root,
        scale=config.scale_name,
        world=config.has_world,
        description=described(config.scale),
        warning=config.scale.get("warning"),
        reference=config.from_reference,
        runs=config.selected | borrowed,
        borrowed=borrowed,
        unselected=frozenset(config.runs) - config.selected - borrowed,
        absent=frozenset(config.not_here),
        untrained=config.untrained,
        tasks={name: frozenset(task["settings"]) for name, task in config.tasks.items()},
    )


def why_unselected(run: str, context: Context) -> str | None:
    """Why a run is neither trained here nor kept in the repository; None where it is."""
    if run not in context.unselected:
        return None
    if run in context.absent:
        return not_here(context.config, run)
    return f"run {run} is not trained here; add it to `runs`, or say --config runs=all"


def expected_scores(spec: dict, context: Context) -> list[Path]:
    """The score files that a table or figure asks for, be they there or not."""
    config = context.config
    keys = {
        (canonical_run(config, run, task), task, setting)
        for run, task, setting in needs(config, spec, f"{spec['paper']}/{spec['item']}")
    }
    paths = [
        context.scores_root / run / task / setting / f"seed-{seed}.json"
        for run, task, setting in sorted(keys)
        for seed in seeds_of(config, run)
    ]
    if config.from_reference:
        kept = {(*path.parts[-4:-1], path.name) for path in map(Path, score_paths(config, spec))}
        return [path for path in paths if (*path.parts[-4:-1], path.name) in kept]
    return [*paths, *(context.root / path for path in borrowed_paths(config, spec))]


def training_files(run: str, context: Context) -> dict[int, Path]:
    """Seed of pre-training -> the summary of a run's training."""
    found = trainings_of(context.config, run)
    return {seed: context.trainings_root.joinpath(*Path(path).parts[-2:]) for seed, path in found.items()}


def own_alone(context: Context) -> Context:
    """Without what is borrowed from the repository: for what has no place to mark it."""
    unselected = context.unselected | context.borrowed
    return replace(context, runs=context.runs - context.borrowed, unselected=unselected, borrowed=frozenset())


def parse_overrides(pairs: Iterable[str]) -> dict:
    """`seeds=[1, 2]` -> {"seeds": [1, 2]}: the values are YAML, as in Snakemake's --config."""
    overrides = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise UserError(f"--override {pair}: write key=value, for example seeds=[1,2,3]")
        overrides[key] = parse_yaml(value, f"--override {key}")
    return overrides


def load_context(
    config_path: str | Path, scale: str, scores_root: str | Path, overrides: Iterable[str] = ()
) -> tuple[Context, dict[str, dict], dict[str, dict]]:
    """The context of the configuration, its tables and its figures."""
    config_path = Path(config_path)
    root = config_path.resolve().parent.parent
    changes = {**parse_overrides(overrides), "scale": scale}
    config = kept_config(root, changes, config_path.resolve().relative_to(root))
    return context_of(config, Path(scores_root)), config.tables, config.figures


def add_context_arguments(parser: argparse.ArgumentParser) -> None:
    """The options that every script of tables, figures and the document takes."""
    parser.add_argument("--scale", required=True, help="name of config/scales, for example mini")
    parser.add_argument("--scores-root", required=True, type=Path, help="folder of score files: results/<scale>/scores")
    parser.add_argument("--config", default=Path("config/config.yaml"), type=Path, help="default: %(default)s")
    parser.add_argument(
        "--override",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="replace one key of --config, as Snakemake's --config does; may be given several times",
    )


def load_expected(spec: dict, context: Context) -> dict[Key, Results]:
    """Read every expected score file of a spec that exists."""
    results, parts = {}, {}
    for (run, task, name), paths in group_paths(expected_scores(spec, context)).items():
        setting, language = split_setting(name, context.tasks.get(task, ()))
        if language is None:
            results[run, task, setting] = load_results(paths, context.scale)
        else:
            parts.setdefault((run, task, setting), {})[language] = paths
    results |= {key: load_parts(of_language, context.scale) for key, of_language in parts.items()}
    check_hashes(context.config, (rows[0] for found in results.values() for rows in found.by_seed.values()))
    return results


def item_name(spec: dict, context: Context) -> str:
    """`ERNIE-M, table 1`."""
    names = paper_names(context.root)
    if spec["paper"] not in names:
        raise UserError(f"config/published/papers.tsv: no line with key {spec['paper']!r}; add one")
    kind, _, number = spec["item"].partition("-")
    item = f"{kind} {int(number)}" if number.isdigit() else spec["item"]
    return f"{names[spec['paper']]}, {item}"


def citations(context: Context) -> dict[str, str]:
    """By paper; empty for this project's own items, which no paper prints."""
    rows = read_rows(context.root / "config/published/papers.tsv")
    return {row["key"]: row["citation"] for row in rows}


def label(spec: dict) -> str:
    """The LaTeX label of an item."""
    return f"item:{spec['paper']}-{spec['item']}"


def scale_words(context: Context) -> str:
    """What a reader must know of the reproduced numbers before comparing them."""
    if context.warning:
        return (
            f"Scale {context.scale}, {'generated mini-world' if context.world else 'real text'}: this scale tests the "
            "code, its numbers mean nothing and are not comparable with the published ones."
        )
    if context.world:
        return (
            f"Scale {context.scale}: reproduced numbers come from the generated mini-world and are not comparable "
            "in absolute value with the published ones."
        )
    return f"Scale {context.scale}."


def seed_words(seeds: Iterable[int]) -> str:
    seeds = sorted(set(seeds))
    if not seeds:
        return "No run of this item has scores at this scale."
    many = f"{seeds[0]} to {seeds[-1]} seeds" if len(seeds) > 1 else f"{seeds[0]} seed{'s' if seeds[0] > 1 else ''}"
    if seeds == [1]:
        return "Reproduced: one seed, hence no deviation."
    return f"Reproduced: mean and standard deviation over {many}."
