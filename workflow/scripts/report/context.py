"""What tables and figures know of the configuration, the scale and its scores."""

import argparse
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from common.errors import UserError
from common.yamlfiles import parse_yaml
from report.scores import Key, Results, group_paths, load_parts, load_results
from report.table_spec import paper_names, read_rows, split_setting


@dataclass(frozen=True)
class Context:
    """What the tables need to know of the configuration, the scale and the score files."""

    scale: str
    world: bool  # the scale's data is generated
    runs: frozenset[str]  # names of config/runs that are trained here
    tasks: Mapping[str, frozenset[str]]  # task -> its settings
    canonical: Callable[[str, str], str]  # run, task -> the run that stands for it at this scale (equal content)
    expected: Callable[[dict], Iterable[Path]]  # spec -> the score files that it asks for
    description: str = ""  # of the scale
    warning: str | None = None  # of a scale whose numbers mean nothing
    untrained: frozenset[str] = frozenset()  # runs whose pre-training has no step
    root: Path = Path()  # of the repository: where config/ lies
    unselected: frozenset[str] = frozenset()  # names of config/runs that are not
    absent: frozenset[str] = (
        frozenset()
    )  # published checkpoints that this scale has no use for: rows that show nothing else are left out
    reference: bool = False  # the scores are those of the repository
    borrowed: frozenset[str] = (
        frozenset()
    )  # of `runs` those that are not trained here: their scores are the repository's
    unfit: Callable[[str, str, str], str | None] = lambda run, task, setting: None  # why a run can have no such score
    seeds: Callable[[str], Iterable[int]] = lambda run: ()  # of a run's scores, also where `expected` leaves files out
    trainings: Callable[[str], Mapping[int, Path]] = lambda run: {}  # run -> seed -> the summary of its training
    lineage: Callable[[str], list[str]] = lambda run: [run]  # the run and those that it starts from
    cost_unknown: Callable[[str], str | None] = lambda run: None  # why nobody can say what a run cost
    config: object = None  # the plan's configuration, for what is compared without a score


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
    """The context of the configuration, its tables and its figures. `plan` is imported late: tests do without it."""
    import plan.claimed
    import plan.needs
    import plan.runs
    from plan.evidence import seeds_of, trainings_of
    from plan.load import load_config
    from plan.needs import canonical_run, needs, score_paths
    from plan.words import described

    config_path, scores_root = Path(config_path), Path(scores_root)
    root = config_path.resolve().parent.parent
    changes = {**parse_overrides(overrides), "scale": scale}
    config = load_config(root, changes, config_path.resolve().relative_to(root))

    def expected(spec: dict) -> list[Path]:
        keys = {
            (canonical_run(config, run, task), task, setting)
            for run, task, setting in needs(config, spec, f"{spec['paper']}/{spec['item']}")
        }
        paths = [
            scores_root / run / task / setting / f"seed-{seed}.json"
            for run, task, setting in sorted(keys)
            for seed in seeds_of(config, run)
        ]
        kept = {(*path.parts[-4:-1], path.name) for path in map(Path, score_paths(config, spec))}
        if config.from_reference:
            return [path for path in paths if (*path.parts[-4:-1], path.name) in kept]
        return [*paths, *(root / path for path in plan.needs.borrowed_paths(config, spec))]

    borrowed = plan.needs.borrowed(config)
    context = Context(
        scale=scale,
        world=config.has_world,
        runs=config.selected | borrowed,
        tasks={name: frozenset(task["settings"]) for name, task in config.tasks.items()},
        canonical=lambda run, task: canonical_run(config, run, task),
        expected=expected,
        description=described(config.scale),
        warning=config.scale.get("warning"),
        untrained=frozenset(name for name, run in config.runs.items() if run.get("schedule", {}).get("steps") == 0),
        root=root,
        unselected=frozenset(config.runs) - config.selected - borrowed,
        borrowed=borrowed,
        absent=frozenset(config.not_here),
        reference=config.from_reference,
        unfit=lambda run, task, setting: plan.needs.unfit(config, run, task, setting),
        seeds=lambda run: seeds_of(config, run),
        trainings=lambda run: {seed: root / path for seed, path in trainings_of(config, run).items()},
        lineage=lambda run: plan.runs.lineage(config, run),
        cost_unknown=lambda run: plan.claimed.cost_unknown(config, run),
        config=config,
    )
    return context, config.tables, config.figures


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
    for (run, task, name), paths in group_paths(context.expected(spec)).items():
        setting, language = split_setting(name, context.tasks.get(task, ()))
        if language is None:
            results[run, task, setting] = load_results(paths, context.scale)
        else:
            parts.setdefault((run, task, setting), {})[language] = paths
    return results | {key: load_parts(of_language, context.scale) for key, of_language in parts.items()}


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
    rows = read_rows(context.root / "config/published/papers.tsv", "\t")
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
