"""Draw the training of one run: its losses and health signals by step, one panel per signal, one line per seed.

The same as a table: of each signal the mean over the first and the last tenth of the logged steps, and over seeds.

What to look for: losses that fall, a gradient norm without spikes, replaced-token detection better on replaced tokens
than guessing, a contrast that finds its positives, pseudo tokens that are not copies.
"""

import argparse
import math
from collections import defaultdict
from pathlib import Path
from statistics import mean, stdev

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt

from common.atomic import write_text
from common.errors import UserError, run_main
from report.figure_style import COLOURS, LINE_STYLES, STYLE, save
from report.trainings import Points, read_log, signals

COLUMNS = 3

Curves = dict[str, dict[str, Points]]  # signal ("mmlm/loss") -> seed -> (step, value)


def read_curves(logs: list[Path]) -> Curves:
    curves: Curves = defaultdict(dict)
    for path in logs:
        for name, points in signals(read_log(path)).items():
            curves[name][path.parent.name] = points
    return curves


def panels(curves: Curves) -> dict[str, list[str]]:
    """Signals of one kind share a panel: `loss` -> [mmlm/loss, tlm/loss]."""
    kinds = defaultdict(list)
    for name in curves:
        kinds[name.split("/")[-1]].append(name)
    return dict(sorted(kinds.items(), key=lambda item: (item[0] != "loss", item[0])))


def draw(curves: Curves, title: str) -> plt.Figure:
    kinds = panels(curves)
    objectives = sorted({name.split("/")[0] for name in curves})
    rows = max(1, math.ceil(len(kinds) / COLUMNS))
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(rows, COLUMNS, figsize=(9, 2.3 * rows + 0.5), squeeze=False, layout="constrained")
        for axis in axes.flat[len(kinds) :]:
            axis.axis("off")
        for axis, (kind, names) in zip(axes.flat, kinds.items(), strict=False):
            axis.set_title(kind.replace("_", " "), fontsize=9)
            for name in names:
                number = objectives.index(name.split("/")[0])
                look = {"color": COLOURS[number % len(COLOURS)], "linestyle": LINE_STYLES[number % len(LINE_STYLES)]}
                for seed, points in sorted(curves[name].items()):
                    label = name.split("/")[0] if seed == min(curves[name]) and "/" in name else None
                    axis.plot(*zip(*points, strict=True), linewidth=0.9, label=label, **look)
            if any("/" in name for name in names):
                axis.legend(fontsize=7)
        figure.supxlabel("step", fontsize=9)
        figure.suptitle(title, fontsize=10)
    return figure


def render(curves: Curves) -> str:
    lines = ["\t".join(("signal", "first_tenth", "last_tenth", "std_over_seeds", "seeds"))]
    for name, seeds in sorted(curves.items()):
        values = [[value for _, value in sorted(points)] for points in seeds.values()]
        ends = [(mean(own[: tenth(own)]), mean(own[-tenth(own) :])) for own in values]
        first, last = (list(column) for column in zip(*ends, strict=True))
        spread = f"{stdev(last):.4g}" if len(last) > 1 else ""
        lines.append("\t".join((name, f"{mean(first):.4g}", f"{mean(last):.4g}", spread, str(len(last)))))
    return "\n".join(lines) + "\n"


def tenth(values: list[float]) -> int:
    return max(1, len(values) // 10)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--logs", required=True, type=Path, nargs="+", help="seed-*/train.jsonl of one run")
    parser.add_argument("--title", required=True, help="of the page, for example the run and the scale")
    parser.add_argument("--out-pdf", required=True, type=Path)
    parser.add_argument("--out-png", required=True, type=Path)
    parser.add_argument("--out-tsv", required=True, type=Path)
    arguments = parser.parse_args()
    curves = read_curves(arguments.logs)
    if not curves:
        raise UserError(f"{arguments.logs[0]}: no steps in the log; a run of zero steps has no training to draw")
    write_text(arguments.out_tsv, render(curves))
    figure = draw(curves, arguments.title)
    save(figure, arguments.out_pdf, "pdf")
    save(figure, arguments.out_png, "png")


if __name__ == "__main__":
    run_main(main)
