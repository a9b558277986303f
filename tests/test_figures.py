"""Figures: the points that are drawn, the look, and the bytes."""

import csv
import dataclasses
import json
import math
import shutil
import statistics
from itertools import pairwise
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest
import yaml
from matplotlib.container import BarContainer
from matplotlib.text import Text

import draw_diagram
import draw_effects
import made_up
import plot_training
import report.figures
from common.errors import UserError
from plan import claims
from plan.check_claims import differences
from plan.claimed import all_needs
from plan.load import load_config
from plan.needs import diagram_digest, figure_trainings
from plan.runs import resolve_run, trained_run
from report import figure_curves, figure_masks, figure_simulation, figure_style, objective_trace, simulate_intervals
from report.context import Context
from report.figures import missing_lines
from report.table_spec import load_spec
from report.tables import build


@pytest.fixture
def spec(repository):
    return load_spec(repository / "config/figures/xlm-e/figure-03.yaml")


@pytest.fixture
def drawn(repository, spec, tmp_path):
    """The figure with made-up scores of three-layer models, closed after the test."""
    made_up.write_all(tmp_path / "scores")
    context = made_up.make_context(repository, tmp_path / "scores")
    figure = report.figures.draw(spec, context)
    yield figure
    plt.close(figure)


def all_lines(figure):
    return [line for axes in figure.axes for line in axes.lines]


def test_published_points_and_curves(repository, spec, tmp_path):
    made_up.write_all(tmp_path)
    curves = figure_curves.read_curves(spec, made_up.make_context(repository, tmp_path))
    lines = {line.label: line for line in curves.lines}
    assert lines["XLM-E base"].published == {9: 63.66, 10: 57.14} and not lines["XLM-E base"].points
    assert lines["XLM-R base"].published == {7: 54.42, 10: 43.34} and lines["XLM-R base"].published_layers == 12
    assert sorted(lines["XLM-R base"].points) == [0, 1, 2, 3]
    assert {summary.n for summary in lines["XLM-R base"].points.values()} == {3}
    assert curves.languages == [code for code in made_up.LANGUAGES if code != "en"]
    assert curves.chance == 0.25 and not curves.same_depth
    reason = "run xlm-e-base has no file in config/runs yet"
    assert curves.missing == [("Retrieval without fine-tuning", "XLM-E base (xlm-e-base)", reason)]


def test_models_of_one_depth_share_an_axis_of_layers(repository, spec, tmp_path):
    made_up.write_all(tmp_path, layers=12)
    context = made_up.make_context(repository, tmp_path)
    curves = figure_curves.read_curves(spec, context)
    assert curves.same_depth
    figure = report.figures.draw(spec, context)
    assert figure.axes[0].get_xlabel() == "layer (0 = embeddings)"
    points = [line for line in all_lines(figure) if line.get_label() == "XLM-R base, published"]
    assert list(points[0].get_xdata()) == [7, 10]
    plt.close(figure)


def test_published_points_are_hollow_and_placed_by_relative_depth(drawn):
    published = [line for line in all_lines(drawn) if line.get_label().endswith("published")]
    assert len(published) == 2
    assert all(line.get_markerfacecolor() == "none" and line.get_linestyle() == "None" for line in published)
    assert list(published[1].get_xdata()) == [7 / 12, 10 / 12]
    assert all("relative depth" in axes.get_xlabel() for axes in drawn.axes)


def test_numbers_of_a_generated_world_have_axes_of_their_own(drawn, repository, spec, tmp_path):
    papers, own = drawn.axes
    assert {line.get_label().endswith("published") for line in papers.lines} == {True}
    assert {line.get_label().endswith("published") for line in own.lines} == {False}
    made_up.write_all(tmp_path)
    real = dataclasses.replace(made_up.make_context(repository, tmp_path), world=False)
    figure = report.figures.draw(spec, real)
    assert len(figure.axes) == 1 and len(figure.axes[0].lines) == 6
    plt.close(figure)


def test_curves_differ_in_style_and_marker_not_in_colour_alone(drawn):
    curves = [line for line in all_lines(drawn) if line.get_label().endswith("seeds)")]
    assert len(curves) == 3
    for styles in ([str(line.get_linestyle()) for line in curves], [line.get_marker() for line in curves]):
        assert len(set(styles)) == 3
    assert sum(len(axes.collections) for axes in drawn.axes) == 3  # one band of deviation for each


def test_a_figure_that_no_paper_prints_is_after_none(repository, tmp_path):
    spec = load_spec(repository / "config/figures/parallax/tatoeba-by-layer.yaml")
    made_up.write_all(tmp_path / "scores")
    context = made_up.make_context(repository, tmp_path / "scores")
    figure = report.figures.draw(spec, context)
    assert figure._suptitle.get_text() == spec["title"]
    assert_nothing_overlaps_or_leaves_the_page(figure)
    plt.close(figure)


def alignment_scores(root: Path, run: str, gain: float) -> None:
    for seed in made_up.SEEDS:
        entries = [
            made_up.entry(code, 90 - seed - gain * layer, "error-rate-by-layer", 80.0, layer)
            for code in ("de", "fr")
            for layer in range(4)
        ]
        made_up.write_score(root, run, "word-alignment", "zero-shot-retrieval", seed, entries)


ALIGNMENT = {"word-alignment": ["zero-shot-retrieval"]}


def test_error_rates_by_layer_say_that_less_is_better(repository, tmp_path):
    spec = load_spec(repository / "config/figures/xlm-e/figure-04.yaml")
    for run, gain in (("xlm-r", 10), ("xlm", 20)):
        alignment_scores(tmp_path, run, gain)
    context = made_up.make_context(repository, tmp_path, tasks=ALIGNMENT)
    curves = figure_curves.read_curves(spec, context)
    lines = {line.label: line for line in curves.lines}
    assert lines["XLM-E base"].published == {9: 19.32} and curves.chance == 80.0
    assert {layer: one.mean for layer, one in lines["XLM-R base"].points.items()} == {0: 88, 1: 78, 2: 68, 3: 58}
    figure = report.figures.draw(spec, context)
    assert figure.axes[0].get_ylabel() == "error rate, per cent (less is better)"
    words = " ".join(figure._supxlabel.get_text().split())
    assert "mean over 2 languages;" in words and "directions" not in words
    assert_nothing_overlaps_or_leaves_the_page(figure)
    plt.close(figure)


def test_a_figure_draws_the_models_of_each_language_as_one_curve(repository, tmp_path):
    """A setting that trains one model for each language leaves a file for each."""
    spec = load_spec(repository / "config/figures/xlm-e/figure-04.yaml")
    for seed in made_up.SEEDS:
        for code, value in (("de", 20.0), ("fr", 40.0)):
            entries = [made_up.entry(code, value + seed, "error-rate-by-layer", 80.0, layer) for layer in range(2)]
            made_up.write_score(tmp_path, "xlm-r", "word-alignment", f"zero-shot-retrieval-{code}", seed, entries)
    context = made_up.make_context(repository, tmp_path, tasks=ALIGNMENT)
    context.config.tasks["word-alignment"]["settings"]["zero-shot-retrieval"]["train"] = "each"
    curves = figure_curves.read_curves(spec, context)
    (line,) = [line for line in curves.lines if line.points]
    assert curves.languages == ["de", "fr"] and [one.mean for one in line.points.values()] == [32.0, 32.0]
    assert line.points[0].std == 1.0


# --- by update ------------------------------------------------------------------------------------------------------

LEARNERS = {"veco-large": ("pretrained-init", 12.0), "transformer-xbig": ("random-init", 6.0)}


@pytest.fixture
def learning(repository, tmp_path):
    """VECO's figure 4 and a context with made-up curves of three seeds, of which the third lacks the last snapshot."""
    for run, (setting, gain) in LEARNERS.items():
        for seed in made_up.SEEDS:
            entries = [
                made_up.entry("de", gain * i / (i + 2) + seed, "sacrebleu-by-update", None)
                | {"update": 100 * i, "epoch": i / 4 + seed / 100}
                for i in range(1, 9 if seed < 3 else 8)
            ]
            made_up.write_score(tmp_path / "scores", run, "wmt14-en-de", setting, seed, entries)
    tasks = {"wmt14-en-de": {"pretrained-init", "random-init"}}
    context = made_up.make_context(repository, tmp_path / "scores", runs=LEARNERS, tasks=tasks)
    return load_spec(repository / "config/figures/veco/figure-04.yaml"), context


def test_learning_curves_stand_at_their_epochs_each_run_in_its_setting(learning):
    spec, context = learning
    curves = figure_curves.read_curves(spec, context)
    veco, scratch = curves.lines
    assert (veco.label, veco.published, scratch.published) == ("VECO large", {10: 28.0}, {})
    begin, end = min(veco.points), max(veco.points)
    assert (begin, end) == (pytest.approx(0.27), pytest.approx(2.015))
    first, last = veco.points[begin], veco.points[end]
    assert (first.mean, first.std, first.n) == (pytest.approx(6.0), pytest.approx(1.0), 3)
    assert (last.mean, last.n) == (pytest.approx(9.6 + 1.5), 2)
    assert max(scratch.points.values(), key=lambda one: one.mean).mean < last.mean
    assert curves.chance is None and curves.languages == ["de"] and curves.missing == []
    assert (curves.place, curves.same_depth) == ("epoch", True)


def test_learning_curves_are_drawn_and_say_which_data_they_are_of(learning):
    spec, context = learning
    figure = report.figures.draw(spec, context)
    papers, own = figure.axes
    assert [axes.get_xlabel() for axes in figure.axes] == ["epochs", "epochs"]
    assert all(axes.get_xlim()[0] <= 0 and axes.get_ylim()[0] <= 0 for axes in figure.axes)
    assert papers.get_ylabel() == "sacreBLEU" and len(own.collections) == 2
    (hollow,) = papers.lines
    assert (list(hollow.get_xdata()), list(hollow.get_ydata())) == ([10], [28.0])
    assert hollow.get_markerfacecolor() == "none"
    assert len({(line.get_linestyle(), line.get_marker(), line.get_color()) for line in own.lines}) == 2
    words = " ".join(figure._supxlabel.get_text().split())
    assert "validation data, newstest2013 or what a generated world has in its place" in words
    assert "the test set is looked at once" in words and "the paper does not say which set" in words
    assert "languages" not in words and "depth" not in words
    assert_nothing_overlaps_or_leaves_the_page(figure)
    plt.close(figure)


def test_learning_curves_without_scores_show_the_published_point(learning):
    spec, context = learning
    context = dataclasses.replace(context, scores_root=Path("none"))
    curves = figure_curves.read_curves(spec, context)
    assert [(line.label, line.published) for line in curves.lines] == [("VECO large", {10: 28.0})]
    assert [row for _, row, _ in curves.missing] == ["VECO large (veco-large)", "Transformer xBig (transformer-xbig)"]
    figure = report.figures.draw(spec, context)
    assert len(figure.axes) == 1 and figure.axes[0].get_xlabel() == "epochs"
    plt.close(figure)


def test_a_printed_point_without_its_epoch_is_named(learning):
    spec, context = learning
    spec["published"] = "config/published/veco/table-04.csv"
    with pytest.raises(
        UserError, match=r"table-04\.csv: veco-large 30\.5: column 'epoch' is needed in a figure by epoch"
    ):
        figure_curves.read_curves(spec, context)


def test_a_metric_that_is_not_by_layer_is_no_curve(repository, spec, tmp_path):
    spec["columns"][0]["metric"] = "accuracy"
    with pytest.raises(UserError, match="xlm-e/figure-03: metric 'accuracy' is none by layer or by update"):
        figure_curves.read_curves(spec, made_up.make_context(repository, tmp_path))


def test_every_line_of_every_figure_has_a_look_of_its_own(repository):
    for path in (repository / "config/figures").glob("*/*.yaml"):
        spec = load_spec(path)
        rows = [row for group in spec.get("groups", []) for row in group["rows"]]
        rows = spec["groups"] if "cost" in spec else [] if "points" in spec else rows  # points are told by their place
        for looks in (figure_style.COLOURS, figure_style.LINE_STYLES, figure_style.MARKERS):
            assert len(rows) <= len(looks) == len(set(map(str, looks))), path


def test_nothing_overlaps_or_leaves_the_page(drawn):
    assert drawn._suptitle.get_text().endswith("(after XLM-E, figure 3)")
    assert_nothing_overlaps_or_leaves_the_page(drawn)


def assert_nothing_overlaps_or_leaves_the_page(figure):
    """Neither axes with their labels nor what stands beside them, nor any two words."""
    figure.canvas.draw()
    renderer = figure.canvas.get_renderer()
    page = figure.bbox
    legends = [legend.get_window_extent(renderer) for legend in figure.legends]
    axes = [part.get_tightbbox(renderer) for part in figure.axes]
    beside = [text for text in (figure._suptitle, figure._supxlabel) if text is not None]
    boxes = [*legends, *axes, *(text.get_window_extent(renderer) for text in beside)]
    for box in boxes:
        assert box.x0 >= page.x0 - 1 and box.x1 <= page.x1 + 1 and box.y0 >= page.y0 - 1 and box.y1 <= page.y1 + 1
    for i, box in enumerate(boxes):
        for other in boxes[i + 1 :]:
            assert not box.padded(-1).overlaps(other), (box, other)
    assert_no_words_overlap(figure)


def assert_no_words_overlap(figure):
    renderer, page = figure.canvas.get_renderer(), figure.bbox
    with pytest.MonkeyPatch.context() as patch:  # axes keep texts of ticks that are not drawn
        texts, draw = [], Text.draw
        patch.setattr(Text, "draw", lambda text, *args: (texts.append(text), draw(text, *args)))
        figure.canvas.draw()
    texts = [text for text in dict.fromkeys(texts) if text.get_visible() and text.get_text().strip()]
    extents = [text.get_window_extent(renderer) for text in texts]
    for i, box in enumerate(extents):
        assert box.x0 >= page.x0 and box.x1 <= page.x1 and box.y0 >= page.y0 and box.y1 <= page.y1, texts[i].get_text()
        for j in range(i + 1, len(extents)):
            assert not box.padded(-0.5).overlaps(extents[j]), (texts[i].get_text(), texts[j].get_text())


def test_the_picture_says_where_its_numbers_come_from(drawn):
    words = " ".join(drawn._supxlabel.get_text().split())
    assert "not comparable in absolute value" in words and "7 languages and both directions" in words
    assert "layer divided by its model's number of layers" in words


def test_the_same_scores_are_the_same_bytes(repository, spec, tmp_path):
    made_up.write_all(tmp_path / "scores")
    context = made_up.make_context(repository, tmp_path / "scores")
    for name in ("a", "b"):
        figure = report.figures.draw(spec, context)
        figure_style.save(figure, tmp_path / f"{name}.pdf", "pdf")
        figure_style.save(figure, tmp_path / f"{name}.png", "png")
        plt.close(figure)
    for kind in ("pdf", "png"):
        assert (tmp_path / f"a.{kind}").read_bytes() == (tmp_path / f"b.{kind}").read_bytes()
    pdf = (tmp_path / "a.pdf").read_bytes()
    assert b"CreationDate" not in pdf and b"/Type3" not in pdf.replace(b" ", b"")
    assert b"/FontFile2" in pdf  # TrueType, embedded: text stays text


def test_no_scores_still_draws_the_published_points(repository, spec, tmp_path):
    context = made_up.make_context(repository, tmp_path)
    curves = figure_curves.read_curves(spec, context)
    assert [line.label for line in curves.lines] == ["XLM-E base", "XLM-R base"]
    assert len(curves.missing) == 4
    figure = report.figures.draw(spec, context)
    assert [line.get_label() for line in all_lines(figure)] == ["XLM-E base, published", "XLM-R base, published"]
    plt.close(figure)


def test_a_layer_without_a_language_is_an_error(repository, spec, tmp_path):
    made_up.write_all(tmp_path)
    scores = [made_up.entry(code, 1.0, "accuracy-by-layer", 0.25, 0, "en-xx") for code in ("de", "fr")]
    scores.append(made_up.entry("de", 1.0, "accuracy-by-layer", 0.25, 1, "en-xx"))
    made_up.write_score(tmp_path, "xlm", "tatoeba", "zero-shot-retrieval", 1, scores)
    with pytest.raises(UserError, match=r"xlm tatoeba seed 1, layer 0: languages ar, es, hi, ru, zh are missing"):
        figure_curves.read_curves(spec, made_up.make_context(repository, tmp_path))


# --- bars by language -----------------------------------------------------------------------------------------------


@pytest.fixture
def bars(repository, tmp_path):
    """ERNIE-M's figure 5 and a context with made-up scores of three seeds in four languages."""
    value = {"best-xnli-model": 10.0, "retrieval-fine-tuned": 40.0}
    for setting, base in value.items():
        for seed in made_up.SEEDS:
            entries = [
                made_up.entry(code, base + 2 * i + seed, "accuracy", 0.25, 3, "both")
                for i, code in enumerate(("ar", "de", "hi", "zh"))
            ]
            by_layer = [
                entry | {"metric": "accuracy-by-layer", "direction": "en-xx", "value": entry["value"] + 1}
                for entry in entries
            ]
            made_up.write_score(tmp_path, "ernie-m-large", "tatoeba", setting, seed, entries + by_layer)
    context = made_up.make_context(repository, tmp_path, runs=["ernie-m-large"], tasks={"tatoeba": value})
    return load_spec(repository / "config/figures/ernie-m/figure-05.yaml"), context


def rows_of_bars(axes: plt.Axes) -> list[BarContainer]:
    return [row for row in axes.containers if isinstance(row, BarContainer)]


def heights(axes: plt.Axes) -> dict[str, list[float]]:
    """Language -> the heights of its bars, left to right."""
    codes = [label.get_text() for label in axes.get_xticklabels()]
    found: dict[str, list[float]] = {}
    for bar in sorted((bar for row in rows_of_bars(axes) for bar in row), key=lambda bar: bar.get_x()):
        found.setdefault(codes[round(bar.get_x() + bar.get_width() / 2)], []).append(round(bar.get_height(), 6))
    return found


def test_bars_stand_by_the_size_of_the_corpora_with_the_numbers_of_the_table(bars, repository):
    spec, context = bars
    figure = report.figures.draw(spec, context)
    papers, own = figure.axes
    with open(repository / "config/published/ernie-m/table-09.csv", encoding="utf-8", newline="") as file:
        size = {row["language"]: float(row["size_gb"]) for row in csv.DictReader(file)}
    codes = [label.get_text() for label in papers.get_xticklabels()]
    assert len(codes) == 36 and [size[code] for code in codes] == sorted(size[code] for code in codes)
    assert [label.get_text() for label in own.get_xticklabels()] == ["hi", "ar", "de", "zh"]
    with open(repository / "config/published/ernie-m/table-16.csv", encoding="utf-8", newline="") as file:
        printed = {
            (row["setting"], row["language"]): float(row["value"])
            for row in csv.DictReader(file)
            if row["model"] == "ernie-m-large"
        }
    drawn = heights(papers)
    for code in codes:
        assert drawn[code] == [printed["best-xnli-model", code], printed["retrieval-fine-tuned", code]]
    assert max(papers.get_yticks()) == 100 and 49 < own.get_ylim()[1] < 80
    assert heights(own) == {"hi": [17, 47], "ar": [13, 43], "de": [15, 45], "zh": [19, 49]}  # en-xx: one more
    assert_nothing_overlaps_or_leaves_the_page(figure)
    plt.close(figure)


def test_published_bars_are_hollow_and_rows_differ_by_hatching(bars):
    spec, context = bars
    figure = report.figures.draw(spec, context)
    papers, own = figure.axes
    for axes, hollow in ((papers, True), (own, False)):
        rows = rows_of_bars(axes)
        assert all((bar.get_facecolor()[3] == 0) == hollow for row in rows for bar in row)
        assert len({row[0].get_hatch() for row in rows}) == len(rows) == 2
        assert len(axes.get_legend().get_texts()) == 2
    plt.close(figure)


def test_on_common_axes_published_numbers_are_hollow_markers_over_the_bars(bars):
    spec, context = bars
    figure = report.figures.draw(spec, dataclasses.replace(context, world=False))
    [axes] = figure.axes
    markers = [line for line in axes.lines if line.get_label().endswith("published")]
    assert len(markers) == 2 and {line.get_markerfacecolor() for line in markers} == {"white"}
    assert len(markers[0].get_xdata()) == 36 and len(heights(axes)) == 4
    assert_nothing_overlaps_or_leaves_the_page(figure)
    plt.close(figure)


def test_bars_that_are_missing_are_listed(bars):
    spec, context = bars
    found = missing_lines(spec, context)
    assert [(row, reason) for _, row, _, reason in found] == [
        (f"{label} (ernie-m-large)", "language not evaluated at scale mini")
        for label in ("ERNIE-M large, best XNLI model", "ERNIE-M large, fine-tuned for retrieval")
    ]
    assert "hi" not in found[0][2].split(", ") and "sw" in found[0][2].split(", ")
    nothing = dataclasses.replace(context, scores_root=Path("none"), reference=True)
    assert {(what, reason) for _, _, what, reason in missing_lines(spec, nothing)} == {
        ("all bars", "not among the reference scores")
    }


# --- points ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def dots(repository, tmp_path):
    """Two panels of the figure of scale real, and made-up scores of three seeds of three of its runs."""
    made_up.write_all(tmp_path)
    spec = load_spec(repository / "config/figures/parallax/real-points.yaml")
    spec["columns"] = [column for column in spec["columns"] if column["task"] in ("ud-pos", "tatoeba")][:2]
    return spec, made_up.make_context(repository, tmp_path)


def test_a_point_is_one_pre_training_and_a_stroke_their_mean(dots):
    spec, context = dots
    table = build(spec, context)
    figure = report.figures.draw(spec, context)
    panels = [axes for axes in figure.axes if axes.get_title()]
    assert [axes.get_title() for axes in panels] == ["UD-POS", "Tatoeba"]
    labels = [label.get_text() for label in panels[0].get_yticklabels()]
    heights = dict(zip(labels, panels[0].get_yticks(), strict=True))
    assert labels == [row.label for row in table.rows] and len(labels) == 13
    for number, axes in enumerate(panels):
        for row in table.rows:
            values = list(row.cells[number].values.values())
            own = [line for line in axes.lines if len(line.get_ydata()) and line.get_ydata()[0] == heights[row.label]]
            drawn = {line.get_marker(): list(line.get_xdata()) for line in own if line.get_marker() != "None"}
            assert drawn == ({"o": values, "|": [statistics.fmean(values)]} if values else {}), row.label
            assert len(values) == (3 if row.run in ("random-init", "xlm-r", "xlm") else 0)
            hollow = {line.get_markerfacecolor() == "white" for line in own if line.get_marker() == "o"}
            assert hollow == ({row.run == "random-init"} if values else set())
        [through] = [line for line in axes.lines if line.get_linestyle() == "--"]
        mean = next(row.cells[number].summary.mean for row in table.rows if row.run == "xlm-r")
        assert set(through.get_xdata()) == {mean}
    assert_nothing_overlaps_or_leaves_the_page(figure)
    plt.close(figure)


def test_pre_trainings_that_are_missing_are_listed(dots):
    spec, context = dots
    found = missing_lines(spec, context)
    assert [(row, what) for _, row, what, _ in found[:2]] == [
        ("XLM-E (xlm-e-base)", "UD-POS"), ("XLM-E (xlm-e-base)", "Tatoeba")
    ]  # fmt: skip
    assert len(found) == 2 * 10
    nothing = dataclasses.replace(context, scores_root=Path("none"), reference=True)
    figure = report.figures.draw(spec, nothing)
    assert len(missing_lines(spec, nothing)) == 2 * 13 and not figure.axes[0].lines
    plt.close(figure)


# --- trainings ------------------------------------------------------------------------------------------------------

BTMLM = {"ernie-m-base-rho-05": 2.0, "ernie-m-base-rho-10": 1.5, "ernie-m-base-rho-15": 1.0}


def write_training(root: Path, run: str, seed: int, curves: dict | None = None, **cost: float) -> None:
    path = root / run / f"seed-{seed}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    whole = {
        "flops": 1e12,
        "flops_by_the_papers_counting": 2e12,
        "tokens": 1,
        "steps": 40,
        "seconds": 1,
        "parameters": {},
    }
    about = {"run": run, "seed": seed, "scale": "mini", "run_hash": f"hash of {run}"}
    path.write_text(json.dumps({**about, "cost": {**whole, **cost}, "curves": curves or {}}))


@pytest.fixture
def btmlm(repository, tmp_path):
    """ERNIE-M's figure 6 and a context with made-up trainings of three runs and three seeds, of which the last run
    lacks the last."""
    for run, last in BTMLM.items():
        for seed in made_up.SEEDS:
            if (run, seed) != ("ernie-m-base-rho-15", 3):
                curve = [[step, last + (4 - i) * 0.5 + seed / 10] for i, step in enumerate((100, 200, 300, 400, 500))]
                curves = {"btmlm/loss": curve, "btmlm/copied": [[300, 0.1], [400, 0.1]]}
                write_training(tmp_path / "trainings", run, seed, curves)
    context = made_up.make_context(repository, tmp_path / "scores", runs=[*BTMLM, "ernie-m-base-rho-20"])
    return load_spec(repository / "config/figures/ernie-m/figure-06.yaml"), context


def test_perplexity_is_the_exponential_of_the_loss_mean_over_seeds(btmlm):
    spec, context = btmlm
    figure = report.figures.draw(spec, context)
    [axes] = figure.axes
    curves = {line.get_label(): line for line in axes.lines}
    assert list(curves) == ["5 % (3 seeds)", "10 % (3 seeds)", "15 % (2 seeds)", "first pseudo tokens"]
    assert list(curves["5 % (3 seeds)"].get_xdata()) == [100, 200, 300, 400, 500]
    expected = [statistics.fmean(math.exp(2 + (4 - i) / 2 + seed / 10) for seed in (1, 2, 3)) for i in range(5)]
    assert list(curves["5 % (3 seeds)"].get_ydata()) == pytest.approx(expected)
    assert curves["15 % (2 seeds)"].get_ydata()[-1] == pytest.approx((math.exp(1.1) + math.exp(1.2)) / 2)
    assert curves["first pseudo tokens"].get_xdata()[0] == 300
    assert len(axes.collections) == 3 and axes.get_yscale() == "log"
    assert len({(str(line.get_linestyle()), line.get_marker()) for line in axes.lines}) == 4
    assert_nothing_overlaps_or_leaves_the_page(figure)
    plt.close(figure)


def test_a_training_that_is_missing_is_listed_with_its_reason(btmlm):
    spec, context = btmlm
    line = ("Proportion of pseudo tokens", "20 % (ernie-m-base-rho-20)", "curve")
    assert missing_lines(spec, context) == [(*line, "no summary of its training found")]
    reference = dataclasses.replace(context, reference=True)
    assert missing_lines(spec, reference) == [(*line, "not among the reference trainings")]
    unselected = dataclasses.replace(context, unselected=frozenset({"ernie-m-base-rho-20"}))
    [(*_, reason)] = missing_lines(spec, unselected)
    assert "--config runs=all" in reason


def test_a_figure_without_any_number_keeps_its_place(btmlm):
    spec, context = btmlm
    figure = report.figures.draw(spec, dataclasses.replace(context, trainings_root=Path("none")))
    words = figure.axes[0].texts[0].get_text()
    assert "at scale mini nothing behind it is computed" in words and "No summary of its training found." in words
    assert_nothing_overlaps_or_leaves_the_page(figure)
    plt.close(figure)


def test_a_signal_that_no_training_logs_is_named(btmlm):
    spec, context = btmlm
    spec["training"]["signal"] = "btmlm/perplexity"
    words = r"training\.signal: run ernie-m-base-rho-05 logs no 'btmlm/perplexity'; it has btmlm/copied, btmlm/loss"
    with pytest.raises(UserError, match=words):
        report.figures.draw(spec, context)


def test_each_line_of_a_training_may_have_a_signal_of_its_own(btmlm):
    spec, context = btmlm
    rows = spec["groups"][0]["rows"]
    spec["training"] = {"label": "share"}
    spec["groups"][0]["rows"] = [
        {"label": "loss", "run": "ernie-m-base-rho-05", "signal": "btmlm/loss"},
        {"label": "copied", "run": "ernie-m-base-rho-05", "signal": "btmlm/copied"},
    ]
    figure = report.figures.draw(spec, context)
    curves = {line.get_label(): list(line.get_ydata()) for line in figure.axes[0].lines}
    assert list(curves) == ["loss (3 seeds)", "copied (3 seeds)"]
    assert curves["loss (3 seeds)"] == pytest.approx([2.2 + (4 - i) / 2 for i in range(5)])
    assert curves["copied (3 seeds)"] == pytest.approx([0.1, 0.1])
    assert "Signals btmlm/loss, btmlm/copied of" in " ".join(text.get_text() for text in figure.texts)
    plt.close(figure)
    spec["groups"][0]["rows"] = [{**rows[0], "signal": "btmlm/perplexity"}]
    with pytest.raises(UserError, match=r"row '5 %', signal: run ernie-m-base-rho-05 logs no 'btmlm/perplexity'"):
        report.figures.draw(spec, context)


# --- quality against cost -------------------------------------------------------------------------------------------

COSTS = {
    "xlm-e-base-steps-25": 1.0,
    "xlm-e-base-steps-50": 2.0,
    "xlm-e-base": 4.0,
    "xlm": 3.0,
    "xlm-r": 2.0,
    "infoxlm-base": 0.5,
}


@pytest.fixture
def costs(repository, tmp_path):
    """XLM-E's figure 1 and a context with made-up scores and trainings; InfoXLM starts from XLM-R."""
    for run, flops in COSTS.items():
        for seed in made_up.SEEDS:
            values = [made_up.entry(code, 40 + 5 * flops + seed) for code in ("en", "de")]
            made_up.write_score(tmp_path / "scores", run, "xnli", "cross-lingual-transfer", seed, values)
            write_training(tmp_path / "trainings", run, seed, flops=flops * 1e13, steps=100 * flops)
    context = made_up.make_context(repository, tmp_path / "scores", runs=[*COSTS, "xlm-align-base"])
    context.config.runs["infoxlm-base"]["init"] = {"run": "xlm-r"}
    return load_spec(repository / "config/figures/xlm-e/figure-01.yaml"), context


def points(axes: plt.Axes) -> dict[str, list[tuple[float, float]]]:
    """First line of a label -> its points."""
    drawn = [bars.lines[0] for bars in axes.containers] + [
        line for line in axes.lines if "published" in line.get_label()
    ]
    labels = [bars.get_label() for bars in axes.containers] + [
        line.get_label() for line in drawn[len(axes.containers) :]
    ]
    return {
        label.split("\n")[0]: list(zip(line.get_xdata().tolist(), line.get_ydata().tolist(), strict=True))
        for label, line in zip(labels, drawn, strict=True)
    }


def test_points_of_quality_stand_at_the_cost_of_everything_they_start_from(costs):
    spec, context = costs
    figure = report.figures.draw(spec, context)
    papers, own = figure.axes
    assert points(own) == {
        "XLM-E base": [(1e13, 47), (2e13, 52), (4e13, 62)],
        "XLM-R base + TLM": [(3e13, 57)],
        "XLM-R base": [(2e13, 52)],
        "InfoXLM base": [(2.5e13, 44.5)],
    }
    assert points(papers) == {
        "XLM-E base, published": [(9.5e19, 76.6)],
        "XLM-R base, published": [(9.6e21, 75.0)],
        "InfoXLM base, published": [(9.6e21 + 1.7e20, 76.5)],
        "XLM-Align base, published": [(9.6e21 + 9.6e19, 76.2)],
    }
    assert {line.get_markerfacecolor() for line in papers.lines} == {"none"}
    assert "100, 200 and 400 steps" in own.containers[0].get_label()
    assert own.get_xlabel() == "training, $10^{13}$ FLOPs\nour counting" and "paper's" in papers.get_xlabel()
    assert_nothing_overlaps_or_leaves_the_page(figure)
    plt.close(figure)


def test_the_paper_s_counting_shares_the_published_axes_where_data_are_real(costs):
    spec, context = costs
    spec["cost"]["counting"] = "papers"
    real = dataclasses.replace(context, world=False)
    figure = report.figures.draw(spec, real)
    [axes] = figure.axes
    assert points(axes)["XLM-E base"][0] == (2e12, 47) and points(axes)["XLM-E base, published"] == [(9.5e19, 76.6)]
    plt.close(figure)


def test_points_that_are_missing_are_listed(costs):
    spec, context = costs
    rows = [row.split(" (")[1][:-1] for _, row, _, _ in missing_lines(spec, context)]
    assert rows == ["xlm-e-base-steps-75", "xlm-steps-25", "xlm-steps-50", "xlm-steps-75", "xlm-align-base"]
    without = dataclasses.replace(context, trainings_root=Path("none"))
    reasons = {row: reason for _, row, _, reason in missing_lines(spec, without)}
    assert reasons["all steps (xlm)"] == "no summary of its training found"


# --- looks, and what a spec may say -----------------------------------------------------------------------------------


@pytest.mark.parametrize("item", ["bars", "dots", "btmlm", "costs"])
def test_every_kind_of_figure_is_the_same_bytes_twice(item, request, tmp_path):
    spec, context = request.getfixturevalue(item)
    for name in ("a", "b"):
        figure = report.figures.draw(spec, context)
        for kind in ("pdf", "png"):
            figure_style.save(figure, tmp_path / f"{name}.{kind}", kind)
        plt.close(figure)
    for kind in ("pdf", "png"):
        assert (tmp_path / f"a.{kind}").read_bytes() == (tmp_path / f"b.{kind}").read_bytes()
    assert b"CreationDate" not in (tmp_path / "a.pdf").read_bytes()


def test_a_spec_may_choose_the_colour_of_a_line(drawn, repository, spec, tmp_path):
    made_up.write_all(tmp_path)
    before = {line.get_label(): line.get_color() for line in all_lines(drawn)}
    spec["colours"] = {"XLM-R base": "#123456"}
    figure = report.figures.draw(spec, made_up.make_context(repository, tmp_path))
    after = {line.get_label(): line.get_color() for line in all_lines(figure)}
    changed = {label for label in before if before[label] != after[label]}
    assert changed == {"XLM-R base (3 seeds)", "XLM-R base, published"} and after[min(changed)] == "#123456"
    plt.close(figure)


def grey(colour: str) -> float:
    """How light a colour is in a grey print, 0 to 1."""
    red, green, blue = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    return 0.299 * red + 0.587 * green + 0.114 * blue


@pytest.mark.parametrize("colours", [figure_style.COLOURS, draw_diagram.TINTS])
def test_neighbours_of_a_palette_differ_in_grey(colours):
    shades = [grey(colour) for colour in colours]
    assert min(abs(a - b) for a, b in pairwise(shades)) > 0.07


SLIPS = {
    "run": (
        "ernie-m/figure-06",
        ("groups", 0, "rows", 0, "run"),
        "ernie-m-base-rho-5",
        "unknown run 'ernie-m-base-rho-5'",
    ),
    "signal": ("ernie-m/figure-06", ("training", "signal"), "btmml/loss", "training.signal: unknown objective of run"),
    "mark": ("ernie-m/figure-06", ("training", "mark", "signal"), "copied", "training.mark.signal: unknown objective"),
    "signal of a row": (
        "parallax/who-translates",
        ("groups", 0, "rows", 0, "signal"),
        "trtd/accuracy",
        "row 'XLM, pairs (TLM)', signal: unknown objective of run xlm-long 'trtd'",
    ),
    "no signal": (
        "parallax/who-translates",
        ("groups", 0, "rows", 0),
        {"label": "XLM", "run": "xlm-long"},
        "row 'XLM': no signal; give it one, or training.signal for all rows",
    ),
    "signal of another kind": (
        "ernie-m/figure-05",
        ("groups", 0, "rows", 0, "signal"),
        "tlm/accuracy",
        "signal: only rows of a figure with 'training' have one",
    ),
    "form of a signal": ("ernie-m/figure-06", ("training", "signal"), "loss", "training.signal: 'loss' is not right"),
    "kind of value": ("ernie-m/figure-06", ("training", "as"), "ppl", "training.as: 'ppl' is unknown"),
    "key of a training": (
        "ernie-m/figure-06",
        ("training", "sginal"),
        "a",
        "training.sginal: unknown key; did you mean",
    ),
    "columns": (
        "ernie-m/figure-06",
        ("published",),
        "config/a.csv",
        "unknown key of a figure with 'training' 'published'",
    ),
    "order": (
        "ernie-m/figure-05",
        ("bars", "order"),
        "config/published/no.csv",
        "config/published/no.csv: no such file",
    ),
    "colour": (
        "ernie-m/figure-05",
        ("colours",),
        {"ERNIE-M": "#0072B2"},
        "colours: unknown line of this figure 'ERNIE-M'",
    ),
    "form of a colour": (
        "ernie-m/figure-05",
        ("colours",),
        {"a": "blue"},
        "a colour is written as six digits of base 16",
    ),
    "line through points": (
        "parallax/real-points",
        ("points", "line"),
        "xlmr",
        "points: unknown run of a row of this figure",
    ),
    "hollow points": (
        "parallax/real-points",
        ("points", "hollow"),
        ["xlm-r-cont"],
        "unknown run of a row of this figure",
    ),
    "key of points": ("parallax/real-points", ("points", "lines"), "xlm-r", "points.lines: unknown key; did you mean"),
    "counting": ("xlm-e/figure-01", ("cost", "counting"), "mine", "cost.counting: 'mine' is unknown"),
    "file of costs": ("xlm-e/figure-01", ("cost", "published", "file"), "config/no.csv", "config/no.csv: no such file"),
    "colour of a cost": ("xlm-e/figure-01", ("colours",), {"all steps": "#000000"}, "unknown line of this figure"),
}


@pytest.mark.parametrize("slip", SLIPS)
def test_a_slip_in_a_figure_is_named_with_its_file_and_key(repository, tmp_path, slip):
    assert_slip_is_named(repository, tmp_path, *SLIPS[slip])


def assert_slip_is_named(repository: Path, root: Path, item: str, keys: tuple, value: object, words: str) -> None:
    shutil.copytree(repository / "config", root / "config")
    path = root / f"config/figures/{item}.yaml"
    spec = yaml.safe_load(path.read_text())
    place = spec
    for key in keys[:-1]:
        place = place[key]
    place[keys[-1]] = value
    path.write_text(yaml.safe_dump(spec, sort_keys=False))
    with pytest.raises(UserError) as error:
        load_config(root, {"scale": "smoke"})
    assert str(error.value).startswith(f"config/figures/{item}.yaml") and words in str(error.value)


def test_a_figure_asks_for_the_trainings_of_its_runs_and_of_what_they_start_from(repository):
    config = load_config(repository, {"scale": "smoke", "runs": "all"})
    asked = {path.split("/")[3] for path in figure_trainings(config, config.figures["xlm-e/figure-01"])}
    assert {"xlm", "xlm-e-base", "xlm-e-base-steps-25", "infoxlm-base", "xlm-r"} <= asked
    asked = {path.split("/")[3] for path in figure_trainings(config, config.figures["ernie-m/figure-06"])}
    assert asked == {trained_run(config, f"ernie-m-base-rho-{share}") for share in ("05", "10", "15", "20")}
    assert figure_trainings(config, config.figures["xlm-e/figure-03"]) == []
    few = load_config(repository, {"scale": "smoke", "runs": ["xlm"]})
    assert figure_trainings(few, few.figures["ernie-m/figure-06"]) == []
    assert figure_trainings(few, few.figures["xlm-e/figure-01"]) == ["results/smoke/trainings/xlm/seed-1.json"]


# --- who sees whom ---------------------------------------------------------------------------------------------------

MASKS = {"ernie-m/figure-02": ["mmlm", "tlm", "camlm", "camlm"], "ernie-m/figure-04": ["camlm", None, "btmlm"]}


def panels(repository: Path, item: str) -> list[figure_masks.Panel]:
    spec = load_spec(repository / f"config/figures/{item}.yaml")
    return [figure_masks.read_panel(panel, item) for panel in spec["masks"]]


def sees(panel: figure_masks.Panel, label: str) -> str:
    return " ".join(
        other for other, seen in zip(panel.labels, panel.seen[panel.labels.index(label)], strict=True) if seen
    )


def test_masks_see_what_the_paper_conditions_them_on(repository):
    mmlm, tlm, camlm, append = panels(repository, "ernie-m/figure-02")
    assert sees(mmlm, "M2") == "x1 M2 x3" and sees(mmlm, "y7") == "y4 M5 M6 y7"
    assert tlm.seen.all()
    assert sees(camlm, "M2") == "M2 y4 y7"  # equation: without what is masked
    assert sees(camlm, "M5") == "x1 x3 M5" and sees(camlm, "x1") == "x1 x3"
    assert sees(append, "M2") == "y4 y5 y6 y7 M2"  # p(x2 | M2, y4, y5, y6, y7) as the text has it
    assert sees(append, "M5") == "x1 x2 x3 M5" and sees(append, "M6") == "x1 x2 x3 M6"
    assert sees(append, "x2") == "x1 x2 x3" and sees(append, "y5") == "y4 y5 y6 y7"
    first, siblings, second = panels(repository, "ernie-m/figure-04")
    assert sees(first, "M5") == "x1 x2 x3 x4 M5" and sees(first, "x1") == "x1 x2 x3 x4"
    assert sees(siblings, "M5") == "x1 x2 x3 x4 M5 M6 M7"
    assert second.seen.all()


@pytest.mark.parametrize("item", MASKS)
def test_pictures_of_masks_show_the_rules_that_objectives_have(repository, item):
    from engine.objectives import OBJECTIVES

    for panel, objective in zip(
        load_spec(repository / f"config/figures/{item}.yaml")["masks"], MASKS[item], strict=True
    ):
        if objective:
            assert figure_masks.RULES[panel["rule"]] is OBJECTIVES[objective].rule


@pytest.mark.parametrize("item", MASKS)
def test_a_picture_of_masks_has_a_cell_for_each_that_is_seen(repository, item, tmp_path):
    spec = load_spec(repository / f"config/figures/{item}.yaml")
    context = made_up.make_context(repository, tmp_path)
    for name in ("a", "b"):
        figure = report.figures.draw(spec, context)
        for axes, panel in zip(figure.axes, panels(repository, item), strict=True):
            cells = {(int(cell.get_y()), int(cell.get_x())): cell for cell in axes.patches}
            assert cells.keys() == set(zip(*(indices.tolist() for indices in panel.seen.nonzero()), strict=True))
            for (q, k), cell in cells.items():
                assert bool(cell.get_hatch()) == (panel.fields.side[q] != panel.fields.side[k])
        for kind in ("pdf", "png"):
            figure_style.save(figure, tmp_path / f"{name}.{kind}", kind)
        plt.close(figure)
    for kind in ("pdf", "png"):
        assert (tmp_path / f"a.{kind}").read_bytes() == (tmp_path / f"b.{kind}").read_bytes()
    pdf = (tmp_path / "a.pdf").read_bytes()
    assert b"/Subtype /Image" not in pdf and b"/Type3" not in pdf.replace(b" ", b"")  # vectors, and text stays text


@pytest.mark.parametrize("scale", ["smoke", "mini", "small", "paper"])
def test_pictures_of_masks_are_planned_without_runs(repository, scale):
    config = load_config(repository, {"scale": scale, "items": list(MASKS)})
    assert list(config.figures) == list(MASKS) and all_needs(config) == []


def test_a_wrong_picture_of_masks_is_named(tmp_path):
    with pytest.raises(UserError, match="here, rule: `camel` is unknown; known: full, camlm, camlm_siblings"):
        figure_masks.read_panel({"rule": "camel", "documents": [[["x1"]]]}, "here")
    (tmp_path / "spec.yaml").write_text("paper: a\nitem: figure-01\ntitle: b\nmasks: []\ncolumns: []\n")
    with pytest.raises(UserError, match="unknown key 'columns'"):
        load_spec(tmp_path / "spec.yaml")


# --- claims and their intervals -------------------------------------------------------------------------------------


def test_the_simulation_draws_what_it_counts(repository, tmp_path):
    """Each interval by a line of its own; where the chosen one gives no verdict it has no point and says so."""
    spec = load_spec(repository / "config/figures/parallax/intervals.yaml")
    spec["simulation"] |= {"trials": 400}
    spec["simulation"]["panels"] = spec["simulation"]["panels"][2:6]
    figure = report.figures.draw(spec, made_up.make_context(repository, tmp_path))
    panels = {axes.get_title(): axes for axes in figure.axes if axes.get_title()}
    assert list(panels) == [panel["title"] for panel in spec["simulation"]["panels"]]
    for panel in spec["simulation"]["panels"]:
        lines = {line.get_label(): line for line in panels[panel["title"]].lines}
        for name in simulate_intervals.CANDIDATES:
            found = figure_simulation.worst(name, panel, spec["simulation"])
            assert list(lines[name].get_ydata()) == [value for value in found if value is not None]
    chosen = next(iter(simulate_intervals.CANDIDATES))
    drawn = {title: len(lines) for title, axes in panels.items() for lines in [
        [line for line in axes.lines if line.get_label() == chosen and len(line.get_ydata())]
    ]}  # fmt: skip
    assert drawn == {"6 pre-trainings": 1, "10 pre-trainings": 1, "5 seeds of 1": 0, "5 seeds of 3": 1}
    assert "chosen: no verdict" in [text.get_text() for text in panels["5 seeds of 1"].texts]
    assert_nothing_overlaps_or_leaves_the_page(figure)
    plt.close(figure)


def made_up_ledger(config) -> dict:
    """Every claim of the repository at two scales, one of them without intervals."""
    rows = []
    for place, claim in enumerate(config.claims):
        published = differences(claim["published"])
        own = [{"estimate": 3.0 * (-1) ** place + i, "interval": [-4.0 + i, 9.0]} for i in range(len(published))]
        bare = [{"estimate": 0.5 * place, "interval": None}] * len(published)
        by_scale = {"mini": {"links": own if place % 3 else []}, "mini-2": {"links": bare}}
        about = {"id": claim["id"], "paper_name": claim["paper"], "kind": claims.kind_of(claim)}
        rows.append({**about, "published": published, "by_scale": by_scale})
    return {"scale": "mini", "scales": [{"scale": "mini"}, {"scale": "mini-2"}], "claims": rows}


def test_effects_stand_at_their_numbers_for_every_scale(repository, tmp_path):
    config = load_config(repository, {"scale": "mini"})
    ledger = made_up_ledger(config)
    spec = load_spec(repository / "config/figures/parallax/effects-by-scale.yaml")
    figure = draw_effects.draw(spec, ledger, made_up.make_context(repository, tmp_path))
    named = {}
    for axes in figure.axes[:2]:
        named |= {(label.get_text()): (axes, row) for row, label in enumerate(axes.get_yticklabels())}
    wanted = [row for row in ledger["claims"] if row["kind"] != "cost"]
    assert len(named) == sum(len(row["published"]) for row in wanted)
    axes, row = named["veco-tatoeba"]
    there = [line for line in axes.lines if abs(float(np.mean(line.get_ydata())) - row) < 0.4]
    points = {line.get_marker(): line.get_xdata()[0] for line in there if len(line.get_xdata()) == 1}
    one = next(claim for claim in wanted if claim["id"] == "veco-tatoeba")
    own = one["by_scale"]["mini"]["links"]
    assert points["D"] == 17.8 and points["s"] == one["by_scale"]["mini-2"]["links"][0]["estimate"]
    bars = [list(line.get_xdata()) for line in there if len(line.get_xdata()) == 2 and line.get_ydata()[0] > row - 0.4]
    assert ([own[0]["interval"]] if own else []) == [bar for bar in bars if bar != [0, 1]]
    assert points.get("o") == (own[0]["estimate"] if own else None)
    assert_nothing_overlaps_or_leaves_the_page(figure)
    plt.close(figure)
    nothing = draw_effects.draw(spec, ledger | {"claims": []}, made_up.make_context(repository, tmp_path))
    assert "No number" in nothing.axes[0].texts[0].get_text()
    plt.close(nothing)


# --- what objectives make of an example -----------------------------------------------------------------------------

DIAGRAMS = ("ernie-m/figure-01", "ernie-m/figure-03", "ppa/figure-01", "veco/figure-01", "xlm-e/figure-02")


@pytest.fixture(scope="module")
def mini(repository):
    """The configuration at mini, as the context of diagrams."""
    config = load_config(repository, {"scale": "mini"})
    return dataclasses.replace(made_up.make_context(repository, Path("none")), config=config)


def traces(repository: Path, context: Context, item: str) -> dict[str, objective_trace.Trace]:
    spec = load_spec(repository / f"config/figures/{item}.yaml")
    return {panel.title: panel.trace for panel in draw_diagram.read_panels(spec, context)}


def row_sees(one: objective_trace.Pass, place: int) -> list[int]:
    return one.seen[place].nonzero()[0].tolist()


def test_masked_words_are_what_is_predicted(repository, mini):
    found = traces(repository, mini, "ernie-m/figure-01")
    for title, sides in (("MMLM", 1), ("TLM", 2), ("CAMLM", 2)):
        [one] = found[title].passes
        [head] = one.outputs
        assert head.module == "mlm_head" and head.targets == [found[title].original[place] for place in head.places]
        assert {place for place, token in enumerate(one.tokens) if token == "<mask>"} <= set(head.places)
        words = [token for token in found[title].original if not token.startswith("<")]
        assert len(words) == 5 * sides and one.tokens == found[title].given
    assert found["MMLM"].passes[0].seen.all() and found["TLM"].passes[0].seen.all()
    assert found["TLM"].passes[0].modules == ["encoder.tokens", "encoder.positions", "encoder.blocks", "mlm_head"]
    assert "mask_languages" in found["CAMLM"].passes[0].modules


def test_a_mask_of_camlm_sees_the_other_sentence_alone(repository, mini):
    [one] = traces(repository, mini, "ernie-m/figure-01")["CAMLM"].passes
    second = one.tokens.index("</s>") + 1  # begins the second sentence
    masks = [place for place, token in enumerate(one.tokens) if token == "<mask>"]
    assert masks
    for place in masks:
        others = range(second, len(one.tokens)) if place < second else range(second)
        assert row_sees(one, place) == sorted([place, *(other for other in others if other not in masks)])


def test_pseudo_tokens_are_made_without_gradient_and_then_read(repository, mini):
    [first, second] = traces(repository, mini, "ernie-m/figure-03")["BTMLM"].passes
    assert (first.trained, second.trained) == (False, True)
    [made], [predicted] = first.outputs, second.outputs
    assert len(made.places) == 3 and made.targets is None  # half of six words
    assert [first.tokens[place] for place in made.places] == ["<mask>"] * 3
    assert all(not second.tokens[place].startswith("<") for place in made.places)
    assert not any(token == "<mask>" for token in first.tokens[: made.places[0]])  # nothing of the sentence is masked
    assert predicted.targets == [first.tokens[place] for place in predicted.places] and second.seen.all()


def test_the_discriminator_judges_every_token_against_the_generators(repository, mini):
    for title, trace in traces(repository, mini, "xlm-e/figure-02").items():
        [generator, discriminator] = trace.passes
        assert {"generator.blocks", "generator.head", "encoder.tokens"} <= set(generator.modules), title
        assert "encoder.blocks" not in generator.modules and "generator.blocks" not in discriminator.modules
        [judged] = discriminator.outputs
        assert judged.places == list(range(len(trace.original)))
        replaced = [str(int(a != b)) for a, b in zip(discriminator.tokens, trace.original, strict=True)]
        assert judged.targets == replaced and "1" in replaced
        assert trace.losses == {"generator_loss": 1.0, "discriminator_loss": 50.0}


def test_veco_crosses_what_its_decoder_then_keeps(repository, mini):
    found = traces(repository, mini, "veco/figure-01")
    alone, across, pair = found["Pre-training on a translation pair"].passes
    side = alone.seen[0]
    assert (alone.seen == (side[:, None] == side[None, :])).all()  # each its own sentence
    assert not across.memory_trained and (across.memory_seen == ~alone.seen).all() and pair.seen.all()
    assert (across.seen == np.tril(alone.seen)).all()
    shared = ["encoder.tokens", "encoder.positions", "encoder.blocks", "mlm_head"]
    assert alone.modules == shared and set(across.modules) == {*shared, "cross_attention"}
    [understanding] = found["Fine-tuning for understanding (XNLI)"].passes
    assert understanding.outputs[0].places == [0] and "cross_attention" not in understanding.modules
    encoder, decoder = found["Fine-tuning for generation (English to German)"].passes
    assert "decoder.cross_attention" in decoder.modules and decoder.outputs[0].targets == [*decoder.tokens[1:], "</s>"]
    assert encoder.seen.all() and (decoder.seen == np.tril(np.ones_like(decoder.seen))).all()


def test_the_contrast_compares_first_tokens_of_the_encoder_and_its_copy(repository, mini):
    key, query, pair = traces(repository, mini, "ppa/figure-01")["PPA"].passes
    assert not key.trained and query.trained
    assert [one.outputs[0].module for one in (key, query)] == ["ppa_contrast.key_projection", "ppa_contrast.projection"]
    assert [one.outputs[0].places for one in (key, query)] == [[0], [0]]
    assert not {*key.tokens[1:-1]} & {*query.tokens[1:-1]} and "<mask>" not in key.tokens + query.tokens
    assert pair.outputs[0].module == "mlm_head" and len(pair.tokens) == len(key.tokens) + len(query.tokens)


def test_sizes_are_those_of_the_run_at_the_scale(repository, mini):
    """Against a network that is made with numbers."""
    import torch

    from common.typed import build
    from engine.config import RunConfig
    from training.assembly import PretrainingModel

    resolved = resolve_run(mini.config, "xlm-e-base")
    run = build(RunConfig, resolved | {"model": resolved["model"] | {"vocabulary": 99}}, "")
    torch.manual_seed(1)
    state = dict(PretrainingModel(run).named_parameters())
    parts = traces(repository, mini, "xlm-e/figure-02")["MRTD"].parts
    shapes = {tuple(99 if n == objective_trace.VOCABULARY else n for n in parts["encoder.tokens"].matrices[""])}
    assert shapes == {tuple(state["encoder.tokens.weight"].shape)}
    assert len(parts["encoder.blocks"].layers) == run.model.layers == 3 and len(parts["generator.blocks"].layers) == 1
    assert parts["encoder.blocks"].matrices["up"] == tuple(state["encoder.blocks.2.up.weight"].shape)


def test_every_objective_of_every_run_can_be_drawn(mini):
    from common.typed import build
    from engine.config import RunConfig
    from engine.options import DESCRIPTIONS

    lines = {"en": ["the old cat sleeps", "a dog eats", "no bird sings", "we go home"]}
    lines["de"] = ["die alte Katze schläft", "ein Hund frisst", "kein Vogel singt", "wir gehen heim"]
    seen = set()
    for name in mini.config.pretrained:
        run = build(RunConfig, resolve_run(mini.config, name), "")
        for objective in run.objectives:
            if objective.name in seen:
                continue
            seen.add(objective.name)
            languages = ["en", "de"] if DESCRIPTIONS[objective.name].data == "bitext" else ["en"]
            trace = objective_trace.trace_objective(run, objective.name, lines, languages, {})
            assert trace.passes and trace.losses, objective.name
            for one in trace.passes:
                T = len(one.tokens)
                assert one.modules and set(one.modules) <= set(trace.parts), objective.name
                assert one.seen is None or one.seen.shape == (T, T), objective.name
                for output in one.outputs:
                    assert all(0 <= place < T for place in output.places), objective.name
                    assert output.targets is None or len(output.targets) == len(output.places), objective.name
    assert seen == set(DESCRIPTIONS)
    with pytest.raises(UserError, match="an item of veco-mono needs 2 lines of each language, here are 1"):
        run = build(RunConfig, resolve_run(mini.config, "veco-large"), "")
        objective_trace.trace_objective(run, "veco-mono", {"en": ["a cat"], "de": ["eine Katze"]}, ["en"], {})


def drawn_marks(spec: dict, context: Context) -> list:
    """The boxes and words of a diagram."""
    figure = draw_diagram.draw(spec, context)
    [axes] = figure.axes
    marks = [
        (round(box.get_x(), 6), round(box.get_y(), 6), box.get_facecolor())
        for box in axes.patches
        if hasattr(box, "get_x")
    ]
    words = [text.get_text() for text in axes.texts]
    plt.close(figure)
    return [marks, words]


def test_another_rule_is_another_picture(repository, mini, monkeypatch):
    spec = load_spec(repository / "config/figures/ernie-m/figure-01.yaml")
    spec["diagram"]["panels"] = [panel for panel in spec["diagram"]["panels"] if panel["objective"] == "camlm"]
    before = drawn_marks(spec, mini)
    assert drawn_marks(spec, mini) == before
    from engine.objectives import camlm

    monkeypatch.setattr(camlm, "camlm", camlm.camlm_siblings)
    marks, words = drawn_marks(spec, mini)
    assert marks != before[0] and words == before[1]  # the matrix alone
    monkeypatch.undo()
    spec["diagram"]["panels"][0]["options"] = {"masks": "append"}
    assert drawn_marks(spec, mini)[1] != before[1]


def test_another_loss_or_module_of_an_objective_is_another_picture(repository, mini, monkeypatch):
    from engine.objectives import OBJECTIVES, mlm

    spec = load_spec(repository / "config/figures/xlm-e/figure-02.yaml")
    words = drawn_marks(spec, mini)[1]
    assert "generator.head: dense 64×64" in words and "mlm_head: dense 64×64" not in words
    monkeypatch.setitem(OBJECTIVES, "mrtd", mlm.MMLM)
    changed = drawn_marks(spec, mini)[1]
    assert "mlm_head: dense 64×64" in changed and changed.count("generator.head: dense 64×64") == 1


@pytest.mark.parametrize("item", DIAGRAMS)
def test_a_diagram_has_no_words_over_others_and_the_same_bytes_twice(repository, mini, item, tmp_path):
    spec = load_spec(repository / f"config/figures/{item}.yaml")
    for name in ("a", "b"):
        figure = draw_diagram.draw(spec, mini)
        if name == "a":
            assert_no_words_overlap(figure)
            assert figure.get_size_inches()[1] < 10  # a page holds it
        for kind in ("pdf", "png"):
            figure_style.save(figure, tmp_path / f"{name}.{kind}", kind)
        plt.close(figure)
    for kind in ("pdf", "png"):
        assert (tmp_path / f"a.{kind}").read_bytes() == (tmp_path / f"b.{kind}").read_bytes()


@pytest.mark.parametrize("scale", ["smoke", "small", "paper"])
def test_diagrams_are_drawn_at_every_scale_with_its_sizes(repository, scale):
    config = load_config(repository, {"scale": scale, "items": list(DIAGRAMS)})
    assert list(config.figures) == sorted(DIAGRAMS) and all_needs(config) == []
    context = dataclasses.replace(made_up.make_context(repository, Path("none"), scale), config=config)
    spec = load_spec(repository / "config/figures/veco/figure-01.yaml")
    width = resolve_run(config, "veco-large")["model"]["width"]
    words = " ".join(drawn_marks(spec, context)[1])
    assert f"encoder: tokens V×{width}" in words and diagram_digest(config, spec)


@pytest.mark.parametrize(("item", "panels"), [("ernie-m/figure-01", 3), ("veco/figure-01", 1), ("ppa/figure-01", 1)])
def test_targets_stand_over_their_places_in_deep_networks_too(repository, item, panels):
    """With random weights the states of 12 or 24 layers are nearly the same."""
    config = load_config(repository, {"scale": "paper"})
    context = dataclasses.replace(made_up.make_context(repository, Path("none"), "paper"), config=config)
    checked = 0
    for trace in list(traces(repository, context, item).values())[:panels]:
        for one in trace.passes:
            for output in one.outputs:
                if output.module == "mlm_head":
                    assert output.targets == [trace.original[place] for place in output.places]
                    assert {i for i, token in enumerate(one.tokens) if token == "<mask>"} <= set(output.places)
                    checked += 1
                else:
                    assert output.places == [0]  # the contrast is of <s>
    assert checked >= panels


DIAGRAM_SLIPS = {
    "run": (("diagram", "run"), "ernie-m-bsae", "diagram.run: unknown run 'ernie-m-bsae'"),
    "objective": (("diagram", "panels", 0, "objective"), "camml", "panels[0].objective: unknown objective of run"),
    "language": (("diagram", "panels", 0, "languages"), ["fr"], "languages: unknown language of the sentences 'fr'"),
    "languages": (("diagram", "panels", 1, "languages"), ["en"], "languages: 'tlm' reads bitext: name 2"),
    "option": (("diagram", "panels", 2, "options"), {"mask": "append"}, "panels[2].options: unknown key mask"),
    "value": (("diagram", "panels", 2, "options"), {"masks": "apend"}, "options.masks: `apend` is unknown"),
    "lines": (("diagram", "sentences", "de"), ["eins", "zwei"], "give equally many"),
    "blank": (("diagram", "sentences", "de"), [" eins"], "words with a blank between them"),
    "columns": (
        ("columns",),
        [{"task": "xnli", "metric": "accuracy", "languages": "scale"}],
        "unknown key of a figure with 'diagram' 'columns'",
    ),
}


@pytest.mark.parametrize("slip", DIAGRAM_SLIPS)
def test_a_slip_in_a_diagram_is_named_with_its_file_and_key(repository, tmp_path, slip):
    assert_slip_is_named(repository, tmp_path, "ernie-m/figure-01", *DIAGRAM_SLIPS[slip])


def write_log(path: Path, seed: int) -> None:
    rows = [
        {
            "step": step,
            "lr": 0.1,
            "gradient_norm": 1.0,
            "mmlm/loss": 5.0 - step * seed,
            "tlm/loss": 4.0,
            "tlm/tokens": 9,
        }
        for step in (1, 2, 3)
    ]
    path.parent.mkdir(parents=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_a_training_is_drawn_by_signal_objective_and_seed(tmp_path):
    logs = [tmp_path / f"seed-{seed}" / "train.jsonl" for seed in (1, 2)]
    for seed, path in enumerate(logs, start=1):
        write_log(path, seed)
    curves = plot_training.read_curves(logs)
    assert curves["mmlm/loss"]["seed-2"] == [(1, 3.0), (2, 1.0), (3, -1.0)]
    assert plot_training.panels(curves) == {"loss": ["mmlm/loss", "tlm/loss"], "gradient_norm": ["gradient_norm"]}
    table = [line.split("\t") for line in plot_training.render(curves).splitlines()]
    assert table[0] == ["signal", "first_tenth", "last_tenth", "std_over_seeds", "seeds"]
    assert table[2] == ["mmlm/loss", "3.5", "0.5", "2.121", "2"]  # 2 and -1 after 4 and 3
    figure = plot_training.draw(curves, "test")
    losses = figure.axes[0]
    assert losses.get_title() == "loss" and len(losses.lines) == 4
    assert [text.get_text() for text in losses.get_legend().get_texts()] == ["mmlm", "tlm"]
    logs[1].write_text('{"step": 1}\n{"ste')
    with pytest.raises(UserError, match=r"train\.jsonl, line 2: not JSON"):
        plot_training.read_curves(logs)
