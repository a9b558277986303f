"""Gather the predictions of one run and seed as XTREME's evaluate.py reads them: predictions/<task>/test-<language>.tsv
or .json. The README.md beside them says what is missing, for XTREME's evaluator wants every language of a task.

    python workflow/scripts/gather_submission.py --predictions results/paper/predictions/xlm-r --seed 1 \\
        --settings cross-lingual-transfer zero-shot-retrieval --out submission
    python evaluate.py --prediction_folder submission/predictions --label_folder ...     (XTREME's)
"""

import argparse
import json
import shutil
from pathlib import Path

from common.atomic import atomic_folder, check_folder, write_text
from common.errors import UserError, run_main

QUESTIONS = ("xquad", "mlqa", "tydiqa")
NAMES = {  # ours -> XTREME's folder and languages
    "xnli": ("xnli", "ar bg de el en es fr hi ru sw th tr ur vi zh"),
    "paws-x": ("pawsx", "de en es fr ja ko zh"),
    "ud-pos": (
        "udpos",
        "af ar bg de el en es et eu fa fi fr he hi hu id it ja kk ko mr nl pt ru ta te th tl tr ur vi yo zh",
    ),
    "wikiann-ner": (
        "panx",
        "af ar bg bn de el en es et eu fa fi fr he hi hu id it ja jv ka kk ko ml mr ms my nl pt ru sw ta te th tl tr "
        "ur vi yo zh",
    ),
    "xquad": ("xquad", "ar de el en es hi ru th tr vi zh"),
    "mlqa": ("mlqa", "ar de en es hi vi zh"),
    "tydiqa-goldp": ("tydiqa", "ar bn en fi id ko ru sw te"),
    "bucc": ("bucc2018", "de fr ru zh"),
    "tatoeba": (
        "tatoeba",
        "af ar bg bn de el es et eu fa fi fr he hi hu id it ja jv ka kk ko ml mr nl pt ru sw ta te th tl tr ur vi zh",
    ),
}
NOTE = """
Tatoeba's numbers count the lines of LASER's files; XTREME's own files have the test sentences in another order, so
score these against LASER's. Predictions on a generated mini-world are made up, as its test sets are: never submit them.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--predictions", required=True, type=Path, help="results/<scale>/predictions/<run>")
    parser.add_argument("--settings", required=True, nargs="+", help="the first that a task has is taken")
    parser.add_argument("--seed", type=int, default=1, help="default: %(default)s")
    parser.add_argument("--out", required=True, type=Path, help="folder to write; must not be there")
    args = parser.parse_args()
    if args.out.exists():
        raise UserError(f"{args.out}: is there already; remove it, or give another folder")
    sources = {task: source_of(args.predictions / task, args.settings, args.seed) for task in NAMES}
    if not any(sources.values()):
        raise UserError(
            f"{args.predictions}: no predictions of {', '.join(args.settings)}, seed {args.seed}; predict first"
        )
    with atomic_folder(args.out) as folder:
        said = [f"- {NAMES[task][0]}: {gather(folder, task, source)}" for task, source in sources.items()]
        title = f"# {args.predictions.name}, seed {args.seed}: predictions in XTREME's layout"
        write_text(folder / "README.md", "\n".join([title, "", *said, NOTE]))
    print("\n".join(said))


def source_of(task: Path, settings: list[str], seed: int) -> Path | None:
    return next((path for setting in settings if (path := task / setting / f"seed-{seed}").is_dir()), None)


def gather(out: Path, task: str, source: Path | None) -> str:
    """Copies what is there, and says in a line what it is and what is not there."""
    name, wanted = NAMES[task]
    if source is None:
        return "missing"
    check_folder(source, "delete the folder and predict again")
    try:
        described = json.loads((source / "predictions.json").read_text(encoding="utf-8"))
        about = f"{described['setting']}, scale {described['scale']}, run hash {described['run_hash']}"
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        problem = f"does not say what it is of ({type(error).__name__}: {error})"
        raise UserError(f"{source}/predictions.json: {problem}; delete the folder and predict again") from None
    (out / "predictions" / name).mkdir(parents=True)
    missing = []
    for language in wanted.split():
        if (found := source / f"test-{language}.tsv").exists():
            ending = "json" if name in QUESTIONS else "tsv"
            shutil.copyfile(found, out / "predictions" / name / f"test-{language}.{ending}")
        else:
            missing.append(language)
    lacks = f"; lacks {', '.join(missing)}, so XTREME's evaluator stops at it" if missing else "; complete"
    return about + lacks


if __name__ == "__main__":
    run_main(main)
