"""Write the reference scores into the pages that quote them: tables, costs, differences, verdicts, claims in
quotation, and README's picture.

    python docs/quote.py

To be called when keep_reference.py has kept new ones, with tests/requirements.txt installed. A table is known by its
first line, a claim by `> - ` and its name. The prose around them says what it said before: read it again.
"""

import json
import math
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from statistics import fmean, stdev, variance

from scipy import stats

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPOSITORY / "workflow/scripts"))

import compare  # noqa: E402
from common.atomic import write_text  # noqa: E402
from common.errors import UserError, run_main  # noqa: E402
from plan.claims import BY_LAYER  # noqa: E402
from plan.config import Config  # noqa: E402
from plan.load import load_config  # noqa: E402
from plan.needs import canonical_run  # noqa: E402
from plan.runs import resolve_run, with_ancestors  # noqa: E402
from report.context import load_context  # noqa: E402
from report.figure_style import save  # noqa: E402
from report.figures import draw  # noqa: E402
from report.intervals import adjusted, holm  # noqa: E402
from report.ledger import measured_lines, verdict_words  # noqa: E402
from report.measured import DECIDED, LEVEL  # noqa: E402
from report.scores import LESS_IS_BETTER, group_paths, load_results  # noqa: E402
from report.table_text import render_markdown  # noqa: E402
from report.tables import build  # noqa: E402
from report.verdicts import counts_of, points, tried  # noqa: E402

WITHOUT_TUNING = {  # column -> task, setting, metric
    "alignment, error": ("word-alignment", "zero-shot-retrieval", "error-rate"),
    "Tatoeba": ("tatoeba", "zero-shot-retrieval", "accuracy"),
}
# Columns and rows of tables of differences, as `make compare` prints them.
OF_WORLDS = (
    {
        "XNLI": ("xnli", "cross-lingual-transfer", "accuracy"),
        "MLQA": ("mlqa", "cross-lingual-transfer", "f1"),
        "UD-POS": ("ud-pos", "cross-lingual-transfer", "f1"),
        **WITHOUT_TUNING,
        "Tatoeba, layer 2": ("tatoeba", "zero-shot-retrieval", "accuracy", 2),  # where claims are read
        "centred": ("tatoeba", "zero-shot-retrieval-centred", "accuracy"),
        "BUCC": ("bucc", "zero-shot-retrieval", "f1"),
    },
    {
        "XLM less XLM-R": ("xlm", "xlm-r"),
        "XLM-E less XLM-R": ("xlm-e-base", "xlm-r"),
        "XLM-E less XLM": ("xlm-e-base", "xlm"),
        "ERNIE-M less XLM-R, its start": ("ernie-m-base", "xlm-r"),
        "ERNIE-M less its control": ("ernie-m-base", "xlm-r-continued"),
        "ERNIE-M less its control with TLM": ("ernie-m-base", "ernie-m-base-exp2"),
        "ERNIE-M less InfoXLM": ("ernie-m-base", "infoxlm-base"),
        "InfoXLM less its control with TLM": ("infoxlm-base", "ernie-m-base-exp2"),
        "InfoXLM less XLM": ("infoxlm-base", "xlm"),
        "XLM-Align less its control with TLM": ("xlm-align-base", "ernie-m-base-exp2"),
        "XLM-Align less XLM": ("xlm-align-base", "xlm"),
        "VECO less XLM-R, its start": ("veco-large", "xlm-r"),
        "VECO less its control": ("veco-large", "xlm-r-large-continued"),
        "PPA less mBERT, its start": ("ppa-250k", "mbert"),
        "PPA less its control": ("ppa-250k", "mbert-continued"),
    },
)
OF_REAL = (
    {
        "UD-POS": ("ud-pos", "cross-lingual-transfer", "f1"),
        "WikiANN": ("wikiann-ner", "cross-lingual-transfer", "f1"),
        "TyDiQA": ("tydiqa-goldp", "cross-lingual-transfer", "f1"),
        **WITHOUT_TUNING,
        "FLORES": ("flores", "zero-shot-retrieval", "accuracy"),
    },
    {
        "PPA less mbert, its start": ("ppa-250k", "mbert"),
        "PPA less xlm-r": ("ppa-250k", "xlm-r"),
        "ERNIE-M less xlm-r, its start": ("ernie-m-base", "xlm-r"),
        "XLM less xlm-r": ("xlm", "xlm-r"),
        "XLM-E less xlm-r": ("xlm-e-base", "xlm-r"),
        "XLM-E less XLM": ("xlm-e-base", "xlm"),
        "ERNIE-M less XLM": ("ernie-m-base", "xlm"),
        "PPA less ERNIE-M": ("ppa-250k", "ernie-m-base"),
    },
)
WITH_TLM = {
    "XLM-Align": "xlm-align-base",
    "ERNIE-M": "ernie-m-base",
    "InfoXLM": "infoxlm-base",
    "VECO": "veco-large",
}
# Tables of what methods have that XLM-R does not have that goes on without them -> that control and their rows.
OVER_XLM_R = {
    "over XLM-R's control": (
        "xlm-r-continued",
        {"text and TLM": "ernie-m-base-exp2", **WITH_TLM, "PPA, from mBERT": "ppa-250k"},
    ),
    "over the control with TLM": ("ernie-m-base-exp2", WITH_TLM),
}
# Rows of a table of what a control has of a method's lead over its start; an error counts against.
OF_CONTROLS = {
    "UD-POS": (1, "ud-pos", "cross-lingual-transfer", "f1"),
    "WikiANN": (1, "wikiann-ner", "cross-lingual-transfer", "f1"),
    "alignment, errors fewer": (-1, "word-alignment", "zero-shot-retrieval", "error-rate"),
    "Tatoeba": (1, "tatoeba", "zero-shot-retrieval", "accuracy"),
    "Tatoeba, centred": (1, "tatoeba", "zero-shot-retrieval-centred", "accuracy"),
    "FLORES, centred": (1, "flores", "zero-shot-retrieval-centred", "accuracy"),
}
WITH_FLORES = OF_CONTROLS | {"FLORES": (1, "flores", "zero-shot-retrieval", "accuracy")}
# Those that are ahead of text alone somewhere, and what is read of each layer.
AHEAD_OF_TEXT = {label: run for label, run in WITH_TLM.items() if label != "VECO"}
AT_LAYERS = (
    {row: key for row, key in WITH_FLORES.items() if row not in ("UD-POS", "WikiANN")},
    {
        "TLM": ("ernie-m-base-exp2", "xlm-r-continued"),
        **{label: (run, "ernie-m-base-exp2") for label, run in AHEAD_OF_TEXT.items()},
    },
)
# Columns of a table of what one task does to an average: a claim, and what it is tried beside if not what it names.
OF_AVERAGES = {
    "XLM-E over XLM-R": ("xlm-e-xtreme-xlm-r", None),
    "VECO over XLM-R": ("veco-xtreme", None),
    "VECO over its control": ("veco-xtreme", "xlm-r-large-continued"),
    "with translations, over XLM-R": ("veco-xtreme-translate-train-all", None),
    "over the control": ("veco-xtreme-translate-train-all", "xlm-r-large-continued"),
}
CLAIMS = {"docs/what-we-learnt.md": "mini", "docs/real-results.md": "real"}  # page -> scale
QUOTED = re.compile(r"^> - `([\w-]+)`: .+$", re.MULTILINE)


def scores_of(scale: str) -> tuple:
    """Context, tables and figures of the reference scores of a scale."""
    scores = REPOSITORY / "reference/scores" / scale
    return load_context(REPOSITORY / "config/config.yaml", scale, scores, ["scores_from=reference"])


def table_of(scale: str, item: str) -> str:
    """Without notes, and without the rows and columns that have no score yet."""
    context, tables, _ = scores_of(scale)
    rendered = render_markdown(build(tables[item], context))
    rows = [line.strip("|").split("|") for line in rendered.splitlines() if line.startswith("|")]
    rows = rows[:2] + [row for row in rows[2:] if {cell.strip() for cell in row[2:]} != {"--"}]
    columns = [i for i in range(len(rows[0])) if i < 2 or {row[i].strip() for row in rows[2:]} - {"--", ""}]
    return "\n".join(f"|{'|'.join(row[i] for i in columns)}|" for row in rows)


def costs_of(scale: str) -> str:
    """What each run's kept pre-trainings took, of one and of the runs that it starts from."""
    config = load_config(REPOSITORY, {"scale": scale})
    kept = {
        run: [json.loads(path.read_text(encoding="utf-8"))["cost"] for path in sorted(folder.glob("seed-*.json"))]
        for run in set(config.pretrained) - config.untrained
        if (folder := REPOSITORY / "reference/trainings" / scale / run).is_dir()
    }
    lines = [
        "| run | tokens, M | with its start | FLOPs, T | with its start | minutes of a core |",
        "|---|---|---|---|---|---|",
    ]
    for run, costs in sorted(kept.items(), key=lambda item: (item[1][0]["flops"], item[0])):
        own, whole = costs[0], [kept[other][0] for other in with_ancestors(config, [run])]
        minutes = sorted({round(cost["seconds"] / 60) for cost in costs})
        cells = [
            f"{own['tokens'] / 1e6:.1f}",
            f"{sum(cost['tokens'] for cost in whole) / 1e6:.1f}",
            f"{own['flops'] / 1e12:.0f}",
            f"{sum(cost['flops'] for cost in whole) / 1e12:.0f}",
            " to ".join(map(str, dict.fromkeys([minutes[0], minutes[-1]]))),
        ]
        lines.append(f"| `{run}` | {' | '.join(cells)} |")
    return "\n".join(lines)


@cache
def reference_of(scale: str) -> Config:
    return load_config(REPOSITORY, {"scale": scale, "scores_from": "reference"})


def averages_of(scale: str, runs: Iterable[str], only: Collection[str] = ()) -> dict[str, dict]:
    """run -> its averages over the languages other than English, or over some, as `make compare` takes them."""
    config = reference_of(scale)
    folder = REPOSITORY / "reference/scores" / scale
    return {run: compare.scores_of(config, folder / canonical_run(config, run), only=only) for run in runs}


def differences_of(head: str, scale: str, columns: dict, rows: dict, apart: bool = False) -> str:
    """Mean difference of two runs and half of its interval, over the pre-trainings that both have, by pairs of one seed
    or `apart`; bold where that leaves out zero. A column may name a layer. Without rows of runs that have no score."""
    scores = averages_of(scale, {run for pair in rows.values() for run in pair})

    def values(run: str, key: tuple) -> dict[int, float]:
        return curve_of(scale, run, *key[:3]).get(key[3], {}) if len(key) > 3 else scores[run].get(key, {})

    lines = [f"| {head} | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
    for label, (run, than) in rows.items():
        pairs = [(values(than, key), values(run, key)) for key in columns.values()]
        words = [
            apart_words([*b.values()], [*a.values()]) if apart else difference_words(*compare.difference(a, b))
            for a, b in pairs
        ]
        if {*words} != {"--"}:
            lines.append(f"| {label} | {' | '.join(words)} |")
    return "\n".join(lines)


def difference_words(value: float, half: float | None, count: int) -> str:
    if half is None:
        return f"{points(value)} ({count})" if count else "--"
    words = f"{points(value)} ± {half:.1f}"
    return f"**{words}**" if abs(value) > half else words


def control_of(scale: str, method: str, start: str, control: str, run: str) -> str:
    """What training on without the method has of its lead, and the method's own: as unlike pre-trainings, since those
    of a seed need not go on from the same start."""
    scores = averages_of(scale, (start, control, run)).values()
    lines = [
        f"| over {start} | the control | {method} | share of the control (95 %) | {method} ahead of it by |",
        "|---" * 5 + "|",
    ]
    for label, (sign, *key) in OF_CONTROLS.items():
        before, beside, after = ([sign * one for one in found[tuple(key)].values()] for found in scores)
        leads = [points(fmean(those) - fmean(before)).removeprefix("+") for those in (beside, after)]
        share = words = "--"
        if min(map(len, (before, beside, after))) >= compare.FEWEST_TRAININGS:
            share = share_words(before, beside, after)
            ahead, half = combined([(1, after), (-1, beside)])
            words = f"{points(ahead).removeprefix('+')} ± {half:.1f}"
        lines.append(f"| {label} | {' | '.join(leads)} | {share} | {words} |")
    return "\n".join(lines)


def with_pairs_of(scale: str, label: str, run: str, control: str) -> str:
    """A run less its control in the languages whose pairs it reads, and in its task's others: unlike pre-trainings."""
    config = load_config(REPOSITORY, {"scale": scale})
    read = {code for pair in resolve_run(config, run)["data"]["bitext"]["corpora"] for code in pair.split("-")} - {"en"}
    others = config.languages.keys() - read - {"en"}
    scores = [averages_of(scale, (run, control), only).values() for only in (read, others)]
    lines = [f"| {label} | languages with pairs | the others |", "|---" * 3 + "|"]
    for row, (sign, *key) in WITH_FLORES.items():
        cells = []
        for found in scores:
            pair = [list(one.get(tuple(key), {}).values()) for one in found]
            cells.append(apart_words(*([sign * value for value in values] for values in pair)) if all(pair) else "--")
        lines.append(f"| {row} | {' | '.join(cells)} |")
    return "\n".join(lines)


def apart_words(run: Sequence[float], control: Sequence[float]) -> str:
    return difference_words(*combined([(1, run), (-1, control)]), len(run))


def over_control_of(scale: str, label: str, control: str, columns: dict[str, tuple], runs: dict[str, str]) -> str:
    """Runs less one control, as unlike pre-trainings; † where that stays decided when all of the table is corrected."""
    scores = averages_of(scale, (control, *runs.values()))
    pairs = {
        (words, key): [[*scores[one].get(key, {}).values()] for one in (run, control)]
        for words, run in runs.items()
        for key in columns.values()
    }
    tested = {cell: pair for cell, pair in pairs.items() if min(map(len, pair)) >= compare.FEWEST_TRAININGS}
    corrected = holm([stats.ttest_ind(*pair, equal_var=False).pvalue for pair in tested.values()])
    stands = {cell for cell, p_value in zip(tested, corrected, strict=True) if p_value <= 0.05}
    said = {cell: apart_words(*pair) + " †" * (cell in stands) for cell, pair in tested.items()}
    lines = [f"| {label} | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
    for words in runs:
        lines.append(f"| {words} | {' | '.join(said.get((words, key), '--') for key in columns.values())} |")
    return "\n".join(lines)


def shares_of(scale: str, label: str, start: str, control: str, runs: dict[str, str]) -> str:
    """What a control has of the lead of each run over one start of both, where no tuning is needed."""
    before, beside, *after = averages_of(scale, (start, control, *runs.values())).values()
    lines = [f"| {label} | {' | '.join(WITHOUT_TUNING)} |", "|---" * (len(WITHOUT_TUNING) + 1) + "|"]
    for words, found in zip(runs, after, strict=True):
        shares = [
            share_words(*([*one[key].values()] for one in (before, beside, found))) for key in WITHOUT_TUNING.values()
        ]
        lines.append(f"| {words} | {' | '.join(shares)} |")
    return "\n".join(lines)


def layers_of(scale: str, label: str, rows: dict[str, tuple], runs: dict[str, tuple[str, str]]) -> str:
    """Each run less its control at each layer, as unlike pre-trainings; bold where that leaves out zero."""
    lines = []
    for words, pair in runs.items():
        for row, (sign, *key) in rows.items():
            both = [curve_of(scale, one, *key) for one in pair]
            cells = [
                apart_words(*([sign * value for value in values.values()] for values in at))
                for at in zip(*(curve.values() for curve in both), strict=True)
            ]
            lines.append(f"| {words}, {row} | {' | '.join(cells)} |")
    head = f"| {' | '.join([label, *map(str, both[0])])} |"
    return "\n".join([head, "|---" * (1 + len(both[0])) + "|", *lines])


@cache
def curve_of(scale: str, run: str, task: str, setting: str, metric: str) -> dict[int, dict[int, float]]:
    """Layer -> of each pre-training, by its seed, the mean over the languages other than English."""
    config = reference_of(scale)
    folder = REPOSITORY / "reference/scores" / scale / canonical_run(config, run) / task / setting
    kept = [path for path in folder.glob("seed-*.json") if int(path.stem.removeprefix("seed-")) in config.seeds]
    if not kept:
        return {}
    results = load_results(*group_paths(kept).values(), scale)
    languages = [language for language in results.languages(metric) if language != "en"]
    return results.curves(f"{metric}{BY_LAYER}", languages, "layer")


def combined(parts: Sequence[tuple[float, Sequence[float]]]) -> tuple[float, float]:
    """A weighted sum of means and half of its 95 % interval: Welch's, by Satterthwaite's degrees of freedom."""
    of_each = [weight**2 * variance(values) / len(values) for weight, values in parts]
    degrees = sum(of_each) ** 2 / sum(
        one**2 / (len(values) - 1) for one, (_, values) in zip(of_each, parts, strict=True)
    )
    value = sum(weight * fmean(values) for weight, values in parts)
    return value, float(stats.t.ppf(0.975, degrees)) * math.sqrt(sum(of_each))


def share_words(start: Sequence[float], control: Sequence[float], run: Sequence[float]) -> str:
    """(control - start) / (run - start) with Fieller's interval: the shares at which the difference of what is above
    and share times what is below is not decided; "–" where what is below may be none, and the shares have no end."""
    share = (fmean(control) - fmean(start)) / (fmean(run) - fmean(start))

    def is_possible(share: float) -> bool:
        value, half = combined([(1, control), (-share, run), (share - 1, start)])
        return abs(value) <= half

    low, high = (
        next((one for i in range(1, 1000) if not is_possible(one := share + way * i / 100)), None) for way in (-1, 1)
    )
    if low is None or high is None:
        return "–"
    share, low, high = (f"{100 * one:.0f}".replace("-", "−") for one in (share, low, high))
    return f"{share} % ({low} to {high})"


def with_table(text: str, table: str, page: str) -> str:
    head = table.partition("\n")[0]
    found = re.findall(rf"^{re.escape(head)}\n(?:\|.*\n)+", text, re.MULTILINE)
    if len(found) != 1:
        raise UserError(f"{page}: {len(found)} tables begin with {head!r}, where one should; mend that line by hand")
    return text.replace(found[0], f"{table}\n")


@cache
def claims_of(scale: str) -> list[dict]:
    """What becomes of each claim on the reference scores of a scale."""
    return tried_at(reference_of(scale))


def tried_at(config: Config) -> list[dict]:
    reference = REPOSITORY / "reference"
    return tried(config, reference / "scores" / config.scale_name, reference / "trainings" / config.scale_name)


def without_one_of(scale: str, label: str, columns: dict[str, tuple[str, str | None]]) -> str:
    """A claim on an average of tasks, tried without each of them, alone; its verdict where it is not that of all."""
    config = reference_of(scale)
    claims = {claim["id"]: claim for claim in config.claims}
    asked = {}
    for words, (name, than) in columns.items():
        claim, better = claims[name], claims[name]["better"]
        for left_out in (None, *better["xtreme"]):
            changed = {"than": than or better["than"], "xtreme": [one for one in better["xtreme"] if one != left_out]}
            asked[words, left_out] = claim | {"better": better | changed}
    found = dict(zip(asked, tried_at(replace(config, claims=[*asked.values()])), strict=True))
    lines = [f"| {label} | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
    for left_out in dict.fromkeys(left_out for _, left_out in asked):
        cells = []
        for words in columns:
            one, whole = found.get((words, left_out)), found[words, None]
            measured = "; ".join(measured_lines(one)).partition(" of ")[0] if one else "--"
            says = one and (one is whole or one["verdict"] != whole["verdict"])
            cells.append(f"{measured}; {one['verdict']}" if says else measured)
        lines.append(f"| {left_out or 'nothing'} | {' | '.join(cells)} |")
    return "\n".join(lines)


def verdicts_of(scale: str) -> str:
    """How many claims have which verdict, alone and after correction, and which they are."""
    found = claims_of(scale)
    lines = ["| verdict | claims | after correction | which stay so | which are undecided then |", "|---" * 5 + "|"]
    after = counts_of(one["verdict_corrected"] for one in found)
    for verdict, count in counts_of(one["verdict"] for one in found).items():
        stays, falls = [], []
        for one in found:
            if one["verdict"] == verdict:
                (stays if one["verdict_corrected"] == verdict else falls).append(f"`{one['id']}`")
        lines.append(f"| {verdict} | {count} | {after[verdict]} | {', '.join(stays)} | {', '.join(falls)} |")
    return "\n".join(lines)


def tries_of(scale: str) -> str:
    """Of the tasks whose fine-tunings start again: how often those of trained encoders did, on English and on
    translations."""
    config = load_config(REPOSITORY, {"scale": scale})
    lines = [
        "| task | rows of | bar | fine-tunings | tries | tries below the bar | never above it | which |",
        "|---" * 8 + "|",
    ]
    for task in config.tasks:
        read = [one for _, one in files_of(scale, task) if one["run"] not in config.untrained]
        tuned = [one for one in read if "tries" in (one.get("selection") or {})]
        english = [one for one in tuned if one["setting"] == "cross-lingual-transfer"]
        if not english:  # retrieval, by models of XNLI
            continue
        for rows, found in (("English", english), ("translations", [one for one in tuned if one not in english])):
            if not found:
                continue
            bar, below = found[0]["selection"]["below"], Counter()
            for one in found:
                below[one["run"]] += sum(score < bar for score in one["selection"]["tries"])
            cells = [
                rows,
                bar,
                len(found),
                sum(len(one["selection"]["tries"]) for one in found),
                below.total(),
                sum(max(one["selection"]["tries"]) < bar for one in found),
                ", ".join(f"`{run}` {count}" for run, count in below.most_common() if count),
            ]
            lines.append(f"| {task} | {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


@cache
def files_of(scale: str, task: str) -> list[tuple[str, dict]]:
    """The score files of a task that the reference of a scale keeps, with their settings' names."""
    paths = sorted((REPOSITORY / "reference/scores" / scale).glob(f"*/{task}/*/seed-*.json"))
    return [(path.parent.name, json.loads(path.read_text(encoding="utf-8"))) for path in paths]


def near_untrained_of(*scales: str) -> str:
    """Where the best run is not above the untrained encoder by more than two deviations, the larger of the two runs',
    task by task, and last how many languages of tasks there are and how many are above."""
    found = {scale: above_untrained(scale) for scale in scales}
    lines = [f"| not above an untrained encoder | {' | '.join(scales)} |", "|---" * (len(scales) + 1) + "|"]
    for task in dict.fromkeys(task for of_scale in found.values() for task in of_scale):
        near = [[words for words in found[scale].get(task, {}).values() if words] for scale in scales]
        if any(near):
            lines.append(f"| {task} | {' | '.join('; '.join(words) for words in near)} |")
    every = [[words for of_task in found[scale].values() for words in of_task.values()] for scale in scales]
    counts = [f"{len(of) - sum(map(bool, of))} of {len(of)}" for of in every]
    return "\n".join([*lines, f"| all tasks: above | {' | '.join(counts)} |"])


def above_untrained(scale: str) -> dict[str, dict[str, str]]:
    """task -> language -> nothing, or where the best of its runs is not above the untrained encoder, what both have:
    without fine-tuning on translations or pairs, of runs with three pre-trainings."""
    found: dict[str, dict[str, str]] = {}
    for task, content in load_config(REPOSITORY, {"scale": scale}).tasks.items():
        by_language = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))  # language, run, pre-training
        for setting, one in files_of(scale, task):
            if setting not in ("cross-lingual-transfer", "zero-shot-retrieval"):
                continue
            for score in one["scores"]:
                if score["metric"] == content["metric"] and score["language"]:
                    by_language[score["language"]][one["run"]][one["pretrain_seed"]].append(score["value"])
        sign = -1 if content["metric"] in LESS_IS_BETTER else 1
        for language, by_run in sorted(by_language.items()):
            runs = {run: [*map(fmean, seeds.values())] for run, seeds in by_run.items() if len(seeds) >= 3}
            untrained = runs.pop("random-init", None)
            if not untrained or not runs:
                continue
            best = max(runs, key=lambda run: sign * fmean(runs[run]))
            apart = sign * (fmean(runs[best]) - fmean(untrained))
            floor, ceiling = (f"{fmean(those):.1f} ± {stdev(those):.1f}" for those in (untrained, runs[best]))
            near = apart <= 2 * max(stdev(untrained), stdev(runs[best]))
            found.setdefault(task, {})[language] = f"{language} {floor}, `{best}` {ceiling}" if near else ""
    return found


def corrections_of(scale: str) -> str:
    """How many of the verdicts that a test decided stay decided, by how one counts tests and looks. A look is each
    number of pre-trainings at which verdicts were read: three, six and twelve."""
    tested = [one for one in claims_of(scale) if one["p_value"] is not None]
    looks = {3: 1, 6: 2, 12: 3}
    pre_trainings = [max(link.get("trainings", 0) for link in one["links"]) for one in tested]
    ledger = [one["p_value"] for one in tested]  # with 2 for a second look, at twelve
    each = [p * (looks[n] / 2 if n == 12 else looks[n]) for p, n in zip(ledger, pre_trainings, strict=True)]
    counted = {
        "the ledger's: Benjamini and Hochberg, twelve pre-trainings are two looks": adjusted(ledger),
        "the same, six are two looks and twelve three": adjusted(each),
        "Holm's, no false verdict among all of them in 19 of 20 such ledgers": holm(ledger),
        "Holm's, six are two looks and twelve three": holm(each),
    }
    lines = ["| correction | stand | which |", "|---" * 3 + "|"]
    for words, ps in counted.items():
        decided = [(one["id"], p <= 1 - LEVEL) for one, p in zip(tested, ps, strict=True) if one["verdict"] in DECIDED]
        stand, fall = ([f"`{claim}`" for claim, stands in decided if stands is those] for those in (True, False))
        which = ", ".join(stand) if len(stand) < len(fall) else f"all but {', '.join(fall)}"
        lines.append(f"| {words} | {len(stand)} of {len(decided)} | {which} |")
    return "\n".join(lines)


def in_both(first: str, second: str) -> str:
    """The claims that have scores at both scales, with what becomes of them at each."""
    there = {one["id"]: one for one in claims_of(second)}
    lines = [f"| claim | {first} | {second} |", "|---" * 3 + "|"]
    for one in claims_of(first):
        both = (one, there[one["id"]])
        if all(measured_lines(found) for found in both):
            lines.append(f"| `{one['id']}` | {' | '.join(said_of(found) for found in both)} |")
    return "\n".join(lines)


def said_of(one: dict) -> str:
    """What was measured for a claim, and the verdict without its mark."""
    return f"{'; '.join(measured_lines(one))}; {verdict_words(one).split(' ', 1)[1]}"


def quotes_of(scale: str) -> dict[str, str]:
    """claim -> the line that quotes it."""
    return {one["id"]: f"> - `{one['id']}`: {said_of(one)}" for one in claims_of(scale)}


def with_quotes(text: str, quotes: dict[str, str], page: str) -> str:
    if unknown := {*QUOTED.findall(text)} - quotes.keys():
        raise UserError(f"{page}: quotes {', '.join(sorted(unknown))}, no claim of config/claims.yaml")
    return QUOTED.sub(lambda found: quotes[found[1]], text)


# Page -> its tables: the function that makes each, and what it is told.
COMPUTED = {
    "README.md": [(table_of, "real", "parallax/real")],
    "docs/measured.md": [
        (tries_of, "mini"),
        (near_untrained_of, "mini", "mini-2"),
        (verdicts_of, "mini"),
    ],
    "docs/real-results.md": [
        (table_of, "real", "parallax/real-more"),
        (costs_of, "real"),
        (differences_of, "difference", "real", *OF_REAL, True),
        (control_of, "real", "ERNIE-M", "xlm-r", "xlm-r-continued", "ernie-m-base"),
        (control_of, "real", "PPA", "mbert", "mbert-continued", "ppa-250k"),
        *((over_control_of, "real", label, control, OF_REAL[0], runs) for label, (control, runs) in OVER_XLM_R.items()),
        (
            shares_of,
            "real",
            "TLM's share of the lead over text alone",
            "xlm-r-continued",
            "ernie-m-base-exp2",
            AHEAD_OF_TEXT,
        ),
        (layers_of, "real", "more at layer", *AT_LAYERS),
        (with_pairs_of, "real", "PPA less its control", "ppa-250k", "mbert-continued"),
    ],
    "docs/what-we-learnt.md": [
        (table_of, "mini", "parallax/methods"),
        (table_of, "mini", "parallax/tasks-retrieval"),
        (table_of, "mini", "parallax/xlm-e-study"),
        (differences_of, "world 1", "mini", *OF_WORLDS),
        (differences_of, "world 2", "mini-2", *OF_WORLDS),
        (in_both, "mini", "mini-2"),
        (corrections_of, "mini"),
        (without_one_of, "mini", "XTREME's average without", OF_AVERAGES),
    ],
}


@cache
def tables_in(page: str) -> list[str]:
    return [make(*told) for make, *told in COMPUTED[page]]


def renewed(page: str) -> str:
    """The page with today's numbers in its tables and quoted claims."""
    text = (REPOSITORY / page).read_text(encoding="utf-8")
    for table in tables_in(page):
        text = with_table(text, table, page)
    return with_quotes(text, quotes_of(CLAIMS[page]), page) if page in CLAIMS else text


def draw_picture(out: Path) -> None:
    """Every pre-training on real text, a panel for each task."""
    context, _, figures = scores_of("real")
    save(draw(figures["parallax/real-points"], context), out, "svg")


def main() -> None:
    for page in COMPUTED:
        write_text(REPOSITORY / page, renewed(page))
    draw_picture(REPOSITORY / "docs/real.svg")


if __name__ == "__main__":
    run_main(main)
