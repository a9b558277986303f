"""Keep finished results as reference: copy scores, summaries of pre-trainings and sizes of corpora from
results/<scale> into reference/, for `--config scores_from=reference`. No rule does this; it is called by hand, as often
as there is something new:

  python workflow/scripts/keep_reference.py --scale mini --machine "2 cores of an Intel Xeon, 24 GiB"

Kept is only what the configuration would compute today: a score of another run, task version or recipe is refused, and
one that lies in reference/ from before such a change is taken away. Tables read the scale's `reference_seeds`; others
are kept with --seeds until all of a study is there and that key names them. With the scores go
reference/PROVENANCE.tsv (which run, how many files, commits, torch, machines, dates) and
reference/recipes/<scale>.json, the digest of each recipe.
"""

import argparse
import json
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from common.atomic import atomic_path, write_json, write_text
from common.errors import UserError, run_main
from common.identity import run_hash
from plan.claimed import all_needs
from plan.config import Config
from plan.evidence import is_current, seeds_of, stale
from plan.load import load_config
from plan.recipes import recipe_digest, recipe_key
from plan.runs import resolve_run
from report.scores import group_paths, read_content, scores_of
from report.trainings import read_training

COLUMNS = ("scale", "run", "scores", "trainings", "commits", "torch", "machine", "first", "last")


def finished(config: Config, results: Path) -> Iterator[tuple[Path, Path, dict]]:
    """(file below results/<scale>, its place below reference/, content) of every score that is there and wanted."""
    scale = config.scale_name
    wanted = {(*need, seed) for need in all_needs(config) for seed in seeds_of(config, need[0])}
    for (run, task, setting), of_seed in group_paths((results / "scores").rglob("seed-*.json")).items():
        for seed, path in of_seed.items():
            if (run, task, setting, seed) in wanted:
                content = read_content(path, scale)
                scores_of(content, path)
                yield path, Path("scores") / scale / run / task / setting / path.name, content


def keep(config: Config, results: Path, reference: Path, machine: str) -> tuple[int, list[str]]:
    """How many files were kept, and what was left out, each with its reason."""
    scale, refused = config.scale_name, []
    recipes_file = reference / f"recipes/{scale}.json"
    recipes = json.loads(recipes_file.read_text(encoding="utf-8")) if recipes_file.exists() else {}
    rows = {(row["scale"], row["run"]): row for row in read_provenance(reference / "PROVENANCE.tsv")}
    new: dict[str, list[Path]] = {}
    remove_outdated(config, reference)
    for path, place, content in finished(config, results):
        if reason := stale(config, content, results):
            refused.append(f"{path}: {reason}")
            continue
        run, task, setting = (content[key] for key in ("run", "task", "setting"))
        recipes[recipe_key(config, run, task, setting)] = recipe_digest(config, run, task, setting)
        if copied(path, reference / place):
            new.setdefault(run, []).append(path)
    for path in sorted((results / "trainings").glob("*/seed-*.json")):
        one = read_training(path, scale)
        if one.run in config.runs and one.run_hash == run_hash(resolve_run(config, one.run))[:16]:
            if copied(path, reference / f"trainings/{scale}" / one.run / path.name):
                new.setdefault(one.run, []).append(path)
        else:
            refused.append(f"{path}: of another {one.run} than config/runs and the scale have today")
    if (counts := results / "corpus/counts.json").exists():
        copied(counts, reference / f"corpus/{scale}/counts.json")
    for run, files in new.items():
        rows[scale, run] = described(reference, scale, run, machine, files, rows.get((scale, run)))
    for key in [key for key in rows if key[0] == scale]:
        left = counted(reference, *key)
        rows[key] |= left
        if set(left.values()) == {"0"}:
            del rows[key]
    write_json(recipes_file, recipes)
    lines = ["\t".join(COLUMNS), *("\t".join(rows[key][name] for name in COLUMNS) for key in sorted(rows))]
    write_text(reference / "PROVENANCE.tsv", "\n".join(lines) + "\n")
    return sum(map(len, new.values())), refused


def remove_outdated(config: Config, reference: Path) -> None:
    """Scores and trainings of a configuration that has changed since; a new digest of their recipe would hide it."""
    for kind in ("scores", "trainings"):
        for path in sorted((reference / kind / config.scale_name).rglob("seed-*.json")):
            named = path.parts[-4:-2] if kind == "scores" else (path.parent.name,)
            known = all(name in {*config.runs, *config.tasks} for name in named)
            if not known or not is_current(config, path.absolute()):
                path.unlink()
                print(f"taken away: {path} is of another configuration than today's")


def copied(path: Path, to: Path) -> bool:
    """Copy a file where there is none of the same content."""
    if to.exists() and to.read_bytes() == path.read_bytes():
        return False
    with atomic_path(to) as temporary:
        shutil.copyfile(path, temporary)
    return True


def described(
    reference: Path, scale: str, run: str, machine: str, files: list[Path], before: dict[str, str] | None
) -> dict[str, str]:
    """What is said of a run: of the new files beside what was said of those that lay there."""
    scores = sorted((reference / f"scores/{scale}/{run}").rglob("*.json"))
    trainings = sorted((reference / f"trainings/{scale}/{run}").glob("*.json"))
    number = counted(reference, scale, run)
    commits = {json.loads(path.read_text(encoding="utf-8")).get("commit") for path in scores} - {None}
    torch = {read_training(path).cost.get("torch", "") for path in trainings}
    days = [datetime.fromtimestamp(path.stat().st_mtime, UTC).date().isoformat() for path in files]
    machines = dict.fromkeys([*(before["machine"].split("; ") if before else []), machine])
    days = sorted([*days, *([before["first"], before["last"]] if before else [])])
    values = (scale, run, *number.values(), " ".join(sorted(c[:10] for c in commits)))
    return dict(
        zip(COLUMNS, map(str, (*values, " ".join(sorted(torch)), "; ".join(machines), days[0], days[-1])), strict=True)
    )


def counted(reference: Path, scale: str, run: str) -> dict[str, str]:
    """How many files of a run lie there."""
    return {
        kind: str(sum(1 for _ in (reference / kind / scale / run).rglob("seed-*.json")))
        for kind in ("scores", "trainings")
    }


def read_provenance(path: Path) -> list[dict[str, str]]:
    if not path.exists():
        return []
    header, *lines = path.read_text(encoding="utf-8").splitlines()
    if header.split("\t") != list(COLUMNS):
        raise UserError(f"{path}, line 1: columns are not {' '.join(COLUMNS)}; restore it from the repository")
    return [dict(zip(COLUMNS, line.split("\t"), strict=True)) for line in lines]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", required=True, help="name of config/scales, for example mini")
    parser.add_argument("--machine", required=True, help="what it was computed on, in words")
    parser.add_argument("--results", type=Path, help="default: results/<scale>")
    parser.add_argument("--reference", default=Path("reference"), type=Path, help="default: %(default)s")
    parser.add_argument("--seeds", nargs="+", type=int, help="default: the scale's reference_seeds, or its seeds")
    args = parser.parse_args()
    if not args.machine.isprintable() or ";" in args.machine:
        raise UserError("--machine: one line without tabs and semicolons")
    if not (args.results or Path("results") / args.scale).is_dir():
        raise UserError(f"{args.results or Path('results') / args.scale}: no such folder; compute something first")
    asked = {"scale": args.scale, "runs": "all"}
    config = load_config(Path(), asked)
    seeds = args.seeds or config.scale.get("reference_seeds") or config.seeds
    config = load_config(Path(), asked | {"seeds": seeds})
    kept, refused = keep(config, args.results or Path("results") / args.scale, args.reference, args.machine)
    for reason in refused:
        print(f"not kept: {reason}")
    print(f"{kept} files are new or changed below {args.reference}, {len(refused)} were not kept")


if __name__ == "__main__":
    run_main(main)
