"""How often intervals are wrong, simulated: a panel a design, a line an interval, of all noises the worst."""

import matplotlib.pyplot as plt

from report.context import Context
from report.figure_style import COLOURS, LINE_STYLES, MARKERS, SIZE_INCHES, STYLE, dress
from report.simulate_intervals import CANDIDATES, NOISES, RESAMPLED, wrong

COLUMNS = 4
AIM = 5.0  # per cent
TOP = 100.0


def worst(candidate: str, panel: dict, about: dict) -> list[float | None]:
    """Per cent of false verdicts at each ratio, of the noise where they are most; None where there is no verdict."""
    trials = about["trials"] // (20 if candidate in RESAMPLED else 1)
    found = []
    for ratio in about["ratios"]:
        shares = [wrong(candidate, noise, panel["design"], *ratio, trials) for noise in NOISES]
        found.append(None if None in shares else 100 * max(shares))
    return found


def draw(spec: dict, context: Context) -> plt.Figure:
    about = spec["simulation"]
    panels = about["panels"]
    rows = -(-len(panels) // COLUMNS)
    with plt.rc_context(STYLE):
        figure = plt.figure(figsize=(SIZE_INCHES[0], 1.5 + 1.75 * rows), layout="constrained")
        grid = figure.add_gridspec(rows + 1, COLUMNS, height_ratios=[*[1.0] * rows, 0.3])
        for number, panel in enumerate(panels):
            axes = figure.add_subplot(grid[divmod(number, COLUMNS)])
            draw_panel(axes, panel, about)
            axes.set_ylabel("" if number % COLUMNS else "false, %", fontsize=8)
        below = figure.add_subplot(grid[rows, :])
        below.set_axis_off()
        below.legend(*figure.axes[0].get_legend_handles_labels(), loc="center", ncols=3, fontsize=7)
        words = f"{about['trials']} trials a point and noise, of intervals that resample a twentieth of that."
        dress(figure, spec, context, f"Below a panel: deviation of pre-training to that of fine-tuning. {words}")
    return figure


def draw_panel(axes: plt.Axes, panel: dict, about: dict) -> None:
    axes.axhline(AIM, color="0.4", linewidth=0.8, zorder=1)
    axes.set_title(panel["title"], fontsize=8)
    axes.set_yscale("log")
    axes.set_ylim(2, TOP)
    axes.set_yticks([2, 5, 10, 20, 50, 100], ["2", "5", "10", "20", "50", "100"], fontsize=7)
    axes.minorticks_off()
    ticks = [f"{of_training}:{of_tuning}" for of_training, of_tuning in about["ratios"]]
    axes.set_xticks(range(len(ticks)), ticks, fontsize=7)
    for number, candidate in enumerate(CANDIDATES):
        found = worst(candidate, panel, about)
        look = {"color": COLOURS[number], "linestyle": LINE_STYLES[number], "marker": MARKERS[number]}
        points = [(place, value) for place, value in enumerate(found) if value is not None]
        x, y = [place for place, _ in points], [value for _, value in points]
        axes.plot(x, y, linewidth=1.2, markersize=3, label=candidate, zorder=9 - number, **look)
        if not points and number == 0:
            axes.text(len(found) / 2 - 0.5, 2.6, "chosen: no verdict", fontsize=7, ha="center", color=COLOURS[0])


def missing(spec: dict, context: Context) -> list[tuple[str, str, str, str]]:
    """Nothing: it needs no run."""
    return []
