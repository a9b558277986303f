"""Figures: the points that are drawn, the look, and the bytes."""

import dataclasses
import json
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

import made_up
import plan
import plot_figure
import plot_training
from errors import UserError
from tables import load_spec


@pytest.fixture
def spec(repository):
    return load_spec(repository / "config/figures/xlm-e/figure-03.yaml")


@pytest.fixture
def drawn(repository, spec, tmp_path):
    """The figure with made-up scores of three-layer models, closed after the test."""
    made_up.write_all(tmp_path / "scores")
    context = made_up.make_context(repository, tmp_path / "scores")
    figure = plot_figure.draw(plot_figure.read_curves(spec, context), spec, context)
    yield figure
    plt.close(figure)


def all_lines(figure):
    return [line for axes in figure.axes for line in axes.lines]


def test_published_points_and_curves(repository, spec, tmp_path):
    made_up.write_all(tmp_path)
    curves = plot_figure.read_curves(spec, made_up.make_context(repository, tmp_path))
    lines = {line.label: line for line in curves.lines}
    assert lines["XLM-E base"].published == {9: 63.66, 10: 57.14} and not lines["XLM-E base"].points
    assert lines["XLM-R base"].published == {7: 54.42, 10: 43.34} and lines["XLM-R base"].published_layers == 12
    assert sorted(lines["XLM-R base"].points) == [0, 1, 2, 3]
    assert {summary.n for summary in lines["XLM-R base"].points.values()} == {3}
    assert curves.languages == [code for code in made_up.LANGUAGES if code != "en"]
    assert curves.chance == 0.25 and not curves.same_depth
    assert curves.missing == [("XLM-E base", "run xlm-e-base has no file in config/runs yet")]


def test_models_of_one_depth_share_an_axis_of_layers(repository, spec, tmp_path):
    made_up.write_all(tmp_path, layers=12)
    context = made_up.make_context(repository, tmp_path)
    curves = plot_figure.read_curves(spec, context)
    assert curves.same_depth
    figure = plot_figure.draw(curves, spec, context)
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
    figure = plot_figure.draw(plot_figure.read_curves(spec, real), spec, real)
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
    figure = plot_figure.draw(plot_figure.read_curves(spec, context), spec, context)
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


def test_error_rates_by_layer_say_that_less_is_better(repository, tmp_path):
    spec = load_spec(repository / "config/figures/xlm-e/figure-04.yaml")
    for run, gain in (("xlm-r", 10), ("xlm", 20)):
        alignment_scores(tmp_path, run, gain)
    context = dataclasses.replace(
        made_up.make_context(repository, tmp_path),
        tasks={"word-alignment": frozenset({"zero-shot-retrieval"})},
        expected=lambda _: sorted(tmp_path.glob("*/*/*/*.json")),
    )
    curves = plot_figure.read_curves(spec, context)
    lines = {line.label: line for line in curves.lines}
    assert lines["XLM-E base"].published == {9: 19.32} and curves.chance == 80.0
    assert {layer: one.mean for layer, one in lines["XLM-R base"].points.items()} == {0: 88, 1: 78, 2: 68, 3: 58}
    figure = plot_figure.draw(curves, spec, context)
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
    context = dataclasses.replace(
        made_up.make_context(repository, tmp_path),
        tasks={"word-alignment": frozenset({"zero-shot-retrieval"})},
        expected=lambda _: sorted(tmp_path.glob("*/*/*/*.json")),
    )
    curves = plot_figure.read_curves(spec, context)
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
    context = dataclasses.replace(
        made_up.make_context(repository, tmp_path / "scores"),
        runs=frozenset(LEARNERS),
        tasks={"wmt14-en-de": frozenset({"pretrained-init", "random-init"})},
        expected=lambda _: sorted((tmp_path / "scores").glob("*/*/*/*.json")),
    )
    return load_spec(repository / "config/figures/veco/figure-04.yaml"), context


def test_learning_curves_stand_at_their_epochs_each_run_in_its_setting(learning):
    spec, context = learning
    curves = plot_figure.read_curves(spec, context)
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
    figure = plot_figure.draw(plot_figure.read_curves(spec, context), spec, context)
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
    curves = plot_figure.read_curves(spec, dataclasses.replace(context, expected=lambda _: []))
    assert [(line.label, line.published) for line in curves.lines] == [("VECO large", {10: 28.0})]
    assert [label for label, _ in curves.missing] == ["VECO large", "Transformer xBig"]
    figure = plot_figure.draw(curves, spec, context)
    assert len(figure.axes) == 1 and figure.axes[0].get_xlabel() == "epochs"
    plt.close(figure)


def test_a_printed_point_without_its_epoch_is_named(learning):
    spec, context = learning
    spec["published"] = "config/published/veco/table-04.csv"
    with pytest.raises(
        UserError, match=r"table-04\.csv: veco-large 30\.5: column 'epoch' is needed in a figure by epoch"
    ):
        plot_figure.read_curves(spec, context)


def test_a_metric_that_is_not_by_layer_is_no_curve(repository, spec, tmp_path):
    spec["columns"][0]["metric"] = "accuracy"
    with pytest.raises(UserError, match="xlm-e/figure-03: metric 'accuracy' is none by layer or by update"):
        plot_figure.read_curves(spec, made_up.make_context(repository, tmp_path))


def test_every_line_of_every_figure_has_a_look_of_its_own(repository):
    for path in (repository / "config/figures").glob("*/*.yaml"):
        rows = [row for group in load_spec(path).get("groups", []) for row in group["rows"]]
        for looks in (plot_figure.COLOURS, plot_figure.LINE_STYLES, plot_figure.MARKERS):
            assert len(rows) <= len(looks) == len(set(map(str, looks))), path


def test_nothing_overlaps_or_leaves_the_page(drawn):
    assert drawn._suptitle.get_text().endswith("(after XLM-E, figure 3)")
    assert_nothing_overlaps_or_leaves_the_page(drawn)


def assert_nothing_overlaps_or_leaves_the_page(figure):
    figure.canvas.draw()
    renderer = figure.canvas.get_renderer()
    page = figure.bbox
    legend = figure.legends[0].get_window_extent(renderer)
    axes = [part.get_tightbbox(renderer) for part in figure.axes]
    boxes = [legend, *axes, *(text.get_window_extent(renderer) for text in (figure._suptitle, figure._supxlabel))]
    for box in boxes:
        assert box.x0 >= page.x0 - 1 and box.x1 <= page.x1 + 1 and box.y0 >= page.y0 - 1 and box.y1 <= page.y1 + 1
    for i, box in enumerate(boxes):
        for other in boxes[i + 1 :]:
            assert not box.padded(-1).overlaps(other), (box, other)


def test_the_picture_says_where_its_numbers_come_from(drawn):
    words = " ".join(drawn._supxlabel.get_text().split())
    assert "not comparable in absolute value" in words and "7 languages and both directions" in words
    assert "layer divided by its model's number of layers" in words


def test_the_same_scores_are_the_same_bytes(repository, spec, tmp_path):
    made_up.write_all(tmp_path / "scores")
    context = made_up.make_context(repository, tmp_path / "scores")
    for name in ("a", "b"):
        figure = plot_figure.draw(plot_figure.read_curves(spec, context), spec, context)
        plot_figure.save(figure, tmp_path / f"{name}.pdf", "pdf")
        plot_figure.save(figure, tmp_path / f"{name}.png", "png")
        plt.close(figure)
    for kind in ("pdf", "png"):
        assert (tmp_path / f"a.{kind}").read_bytes() == (tmp_path / f"b.{kind}").read_bytes()
    pdf = (tmp_path / "a.pdf").read_bytes()
    assert b"CreationDate" not in pdf and b"/Type3" not in pdf.replace(b" ", b"")
    assert b"/FontFile2" in pdf  # TrueType, embedded: text stays text


def test_no_scores_still_draws_the_published_points(repository, spec, tmp_path):
    context = made_up.make_context(repository, tmp_path)
    curves = plot_figure.read_curves(spec, context)
    assert [line.label for line in curves.lines] == ["XLM-E base", "XLM-R base"]
    assert len(curves.missing) == 4
    figure = plot_figure.draw(curves, spec, context)
    assert [line.get_label() for line in all_lines(figure)] == ["XLM-E base, published", "XLM-R base, published"]
    plt.close(figure)


def test_a_layer_without_a_language_is_an_error(repository, spec, tmp_path):
    made_up.write_all(tmp_path)
    scores = [made_up.entry(code, 1.0, "accuracy-by-layer", 0.25, 0, "en-xx") for code in ("de", "fr")]
    scores.append(made_up.entry("de", 1.0, "accuracy-by-layer", 0.25, 1, "en-xx"))
    made_up.write_score(tmp_path, "xlm", "tatoeba", "zero-shot-retrieval", 1, scores)
    with pytest.raises(UserError, match=r"xlm tatoeba seed 1, layer 0: languages ar, es, hi, ru, zh are missing"):
        plot_figure.read_curves(spec, made_up.make_context(repository, tmp_path))


# --- who sees whom ---------------------------------------------------------------------------------------------------

MASKS = {"ernie-m/figure-02": ["mmlm", "tlm", "camlm", "camlm"], "ernie-m/figure-04": ["camlm", None, "btmlm"]}


def panels(repository: Path, item: str) -> list[plot_figure.Panel]:
    spec = load_spec(repository / f"config/figures/{item}.yaml")
    return [plot_figure.read_panel(panel, item) for panel in spec["masks"]]


def sees(panel: plot_figure.Panel, label: str) -> str:
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
            assert plot_figure.RULES[panel["rule"]] is OBJECTIVES[objective].rule


@pytest.mark.parametrize("item", MASKS)
def test_a_picture_of_masks_has_a_cell_for_each_that_is_seen(repository, item, tmp_path):
    spec = load_spec(repository / f"config/figures/{item}.yaml")
    context = made_up.make_context(repository, tmp_path)
    for name in ("a", "b"):
        figure = plot_figure.draw_masks(spec, context)
        for axes, panel in zip(figure.axes, panels(repository, item), strict=True):
            cells = {(int(cell.get_y()), int(cell.get_x())): cell for cell in axes.patches}
            assert cells.keys() == set(zip(*(indices.tolist() for indices in panel.seen.nonzero()), strict=True))
            for (q, k), cell in cells.items():
                assert bool(cell.get_hatch()) == (panel.fields.side[q] != panel.fields.side[k])
        for kind in ("pdf", "png"):
            plot_figure.save(figure, tmp_path / f"{name}.{kind}", kind)
        plt.close(figure)
    for kind in ("pdf", "png"):
        assert (tmp_path / f"a.{kind}").read_bytes() == (tmp_path / f"b.{kind}").read_bytes()
    pdf = (tmp_path / "a.pdf").read_bytes()
    assert b"/Subtype /Image" not in pdf and b"/Type3" not in pdf.replace(b" ", b"")  # vectors, and text stays text


@pytest.mark.parametrize("scale", ["smoke", "mini", "small", "paper"])
def test_pictures_of_masks_are_planned_without_runs(repository, scale):
    config = plan.load_config(repository, {"scale": scale, "items": list(MASKS)})
    assert list(config.figures) == list(MASKS) and plan.all_needs(config) == []


def test_a_wrong_picture_of_masks_is_named(tmp_path):
    with pytest.raises(UserError, match="here, rule: `camel` is unknown; known: full, camlm, camlm_siblings"):
        plot_figure.read_panel({"rule": "camel", "documents": [[["x1"]]]}, "here")
    (tmp_path / "spec.yaml").write_text("paper: a\nitem: figure-01\ntitle: b\nmasks: []\ncolumns: []\n")
    with pytest.raises(UserError, match="unknown key 'columns'"):
        load_spec(tmp_path / "spec.yaml")


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
