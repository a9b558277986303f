"""Pre-trainings as a table of the page: losses as small curves, tokens, costs and machines."""

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

from report.html_tables import Body, Cell, HtmlTable, code, link, relative, render_table, text
from report.trainings import Points, Training

SPARK = (160, 34)  # width and height of a small curve, in pixels


def sparkline(curves: Mapping[int, Points], words: str) -> str:
    """A small curve for each seed, on one scale."""
    points = [point for curve in curves.values() for point in curve]
    width, height = SPARK
    left, right = min(step for step, _ in points), max(step for step, _ in points)
    low, high = min(value for _, value in points), max(value for _, value in points)

    def place(step: float, value: float) -> str:
        x = width * (step - left) / ((right - left) or 1)
        y = height * (high - value) / ((high - low) or 1)
        return f"{x:.1f},{y:.1f}"

    lines = "".join(f'<polyline points="{" ".join(place(*point) for point in curve)}"/>' for curve in curves.values())
    return (
        f'<svg class="spark" role="img" aria-label="{text(words)}" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}">{lines}</svg>'
    )


def loss_curves(training: Training) -> dict[str, Points]:
    """Objective -> its loss by step."""
    return {
        name.removesuffix("loss").strip("/") or "loss": points
        for name, points in training.curves.items()
        if name.split("/")[-1] == "loss" and points
    }


def loss_cell(trainings: Sequence[Training]) -> Cell:
    curves: dict[str, dict[int, Points]] = {}
    for training in trainings:
        for objective, points in loss_curves(training).items():
            curves.setdefault(objective, {})[training.seed] = points
    if not curves:
        return Cell(text("no steps"), kind="quiet")
    parts = []
    for objective, of_seed in curves.items():
        first = statistics.fmean(points[0][1] for points in of_seed.values())
        last = statistics.fmean(points[-1][1] for points in of_seed.values())
        steps = max(points[-1][0] for points in of_seed.values())
        seeds = f"mean of {len(of_seed)} seeds" if len(of_seed) > 1 else f"seed {next(iter(of_seed))}"
        words = f"Loss of {objective} by step: from {first:.2f} to {last:.2f} in {steps} steps, {seeds}."
        parts.append(f"{sparkline(of_seed, words)}{text(objective)}: {first:.2f} to {last:.2f}")
    return Cell("<br>".join(parts))


def span_of(values: Sequence[float], shown: str = ",.0f") -> str:
    low, high = format(min(values), shown), format(max(values), shown)
    return low if low == high else f"{low} to {high}"


def machine_of(cost: Mapping) -> str:
    threads = f", {cost['threads']} thread{'s' if cost['threads'] != 1 else ''}" if "threads" in cost else ""
    ranks = f" x {cost['world_size']}" if cost.get("world_size", 1) > 1 else ""
    version = f", PyTorch {cost['torch']}" if "torch" in cost else ""
    return f"{cost.get('device', 'not told')}{ranks}{threads}{version}"


def training_row(trainings: Sequence[tuple[Path, Training]], out: Path) -> list[Cell]:
    of_run = [training for _, training in trainings]
    costs = [training.cost for training in of_run]
    flops = [span_of([cost[name] for cost in costs], ".2e") for name in ("flops", "flops_by_the_papers_counting")]
    seeds = ", ".join(link(f"seed {one.seed}", relative(path, out)) for path, one in trainings)
    return [
        Cell(code(of_run[0].run), "row"),
        loss_cell(of_run),
        *(Cell(words, kind="number") for words in (span_of([cost["tokens"] for cost in costs]), *flops)),
        Cell("<br>".join(text(words) for words in dict.fromkeys(machine_of(cost) for cost in costs))),
        Cell(seeds),
    ]


def trainings_html(trainings: Sequence[tuple[Path, Training]], out: Path) -> str:
    by_run: dict[str, list[tuple[Path, Training]]] = {}
    for path, training in trainings:
        by_run.setdefault(training.run, []).append((path, training))
    headings = [
        "Run",
        "Loss by step",
        "Tokens",
        "FLOPs, ours",
        "FLOPs, as the papers count",
        "Machine",
        "Record",
    ]
    caption = (
        "<strong>Pre-trainings.</strong> Losses, one line a seed; tokens that were trained on, and what they cost by "
        "both ways of counting. A range: seeds differ. How long each took is in its record."
    )
    table = HtmlTable(
        identity="trainings-table",
        name="Pre-trainings: losses and costs",
        html_caption=caption,
        head=[[Cell(text(words), "col") for words in headings]],
        bodies=[Body("", [training_row(of_run, out) for _, of_run in sorted(by_run.items())])],
    )
    return render_table(table)
