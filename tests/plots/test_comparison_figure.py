import io

import numpy as np
import pytest

from lln.core.errors import InputError
from lln.plots.forecasts import comparison_figure

STEPS = np.arange(1, 101)


def drawn(figure):
    figure.savefig(io.BytesIO(), format="png")
    return figure.axes[0]


def test_one_labelled_curve_a_model_on_a_logarithmic_axis():
    errors = {"lens": 1e-4 * STEPS, "linear": 1e-3 * STEPS, "mean": np.ones(100)}
    axis = drawn(comparison_figure(errors, references=["linear", "mean"], threshold=0.4, dt=0.1, title="t"))
    assert axis.get_yscale() == "log"
    lines = {line.get_label(): line for line in axis.lines}
    assert list(lines) == ["LensForecaster", "linear", "mean", "valid below 0.4"]
    np.testing.assert_allclose(lines["LensForecaster"].get_ydata(), 1e-4 * STEPS)
    assert lines["LensForecaster"].get_linestyle() == "-"
    assert lines["linear"].get_linestyle() == lines["mean"].get_linestyle() == "--"
    looks = {(line.get_color(), str(line._unscaled_dash_pattern)) for line in lines.values()}
    assert len(looks) == len(lines)


def test_times_have_a_human_unit_and_few_decades_plain_numbers():
    figure = comparison_figure({"lens": np.linspace(0.2, 1.0, 48)}, dt=3600.0, time_unit="seconds")
    axis = drawn(figure)
    assert axis.child_axes[0].get_xlabel() == "time after the start (days)"
    assert {"0.2", "0.5", "1"} <= {label.get_text() for label in axis.get_yticklabels()}


def test_ten_models_can_be_told_apart():
    networks = ["lens", "mlp", "residual", "scaled-residual", "residual-batchnorm", "layerscale"]
    references = ["linear", "analog", "persistence", "mean"]
    axis = drawn(comparison_figure(dict.fromkeys(networks + references, np.ones(5)), references=references))
    looks = {(line.get_color(), str(line._unscaled_dash_pattern)) for line in axis.lines}
    assert len(looks) == 10


def test_a_lost_model_is_marked_and_does_not_flatten_the_rest():
    lost = np.where(STEPS < 50, 10.0 ** (STEPS / 5), np.inf)
    axis = drawn(comparison_figure({"lens": 1e-4 * STEPS, "lost": lost, "exact": np.zeros(100)}))
    assert axis.get_ylim()[1] <= 200
    assert axis.get_ylim()[0] > 1e-6
    marks = [line for line in axis.lines if line.get_marker() == "x"]
    assert [mark.get_xdata()[0] for mark in marks] == [9]  # the last step below 100


def test_the_error_of_the_first_step_is_in_sight():
    axis = drawn(comparison_figure({"lens": np.geomspace(1e-3, 1.0, 20) * np.r_[0.1, np.ones(19)]}))
    assert axis.get_ylim()[0] < 1e-4


def test_steps_are_whole_numbers_and_bands_are_named():
    figure = comparison_figure({"lens": np.ones(22)}, bands={"lens": (np.full(22, 0.5), np.full(22, 2.0))})
    assert all(float(place).is_integer() for place in figure.axes[0].get_xticks())
    assert "half of the rollouts\nof LensForecaster" in [text.get_text() for text in figure.legends[0].get_texts()]


def test_bands_surround_their_curves():
    axis = drawn(comparison_figure({"lens": np.ones(100)}, bands={"lens": (np.full(100, 0.5), np.full(100, 2.0))}))
    assert len(axis.collections) == 1


@pytest.mark.parametrize(
    ("errors", "message"),
    [({}, "at least one model"), ({"lens": np.ones((2, 3))}, r"errors of lens must have shape \(steps,\)")],
)
def test_bad_input_gets_a_sentence(errors, message):
    with pytest.raises(InputError, match=message):
        comparison_figure(errors)


def test_curves_that_lie_on_each_other_are_drawn_once_and_named():
    errors = {"lens": [0.1, 0.2], "mlp": [0.3, 0.4], "residual": [0.3, 0.4], "linear": [0.3, 0.4]}
    figure = comparison_figure(errors, references=["linear"])
    lines = {line.get_label(): line for line in figure.axes[0].get_lines()}
    assert [label for label in lines if not label.startswith("_")] == [
        *("LensForecaster", "mlp (as linear)", "residual (as linear)", "linear")
    ]
    assert len(lines["linear"].get_xdata()) == 2
    ours = comparison_figure({"linear": [0.3, 0.4], "lens": [0.3, 0.4]}, references=["linear"]).axes[0].get_lines()
    assert [line.get_label() for line in ours] == ["linear (as LensForecaster)", "LensForecaster"]
    assert len(lines["mlp (as linear)"].get_xdata()) == 0
