import io
import subprocess
import sys

import matplotlib as mpl
import numpy as np
import pytest

from lln.core.errors import InputError
from lln.plots import colour, error_figure, field_figure, house_style, portrait_figure, save_figure, trajectory_figure

T, N = 40, 8
FIELD = np.sin(np.arange(N)[None] + 0.1 * np.arange(T)[:, None])
GRID = np.arange(N) * 2 * np.pi / N


def drawn(figure):
    figure.savefig(io.BytesIO(), format="png")
    return figure


def test_fields_share_their_colours_and_errors_have_their_own():
    wrong = FIELD + np.linspace(0, 0.3, T)[:, None]
    figure = drawn(field_figure(FIELD, {"lens": wrong, "mlp": FIELD}, dt=0.1, grid=GRID, before=FIELD, title="u"))
    images = {axis.get_title(loc="left"): axis.images[0] for axis in figure.axes if axis.images}
    fields = [images[name].get_clim() for name in ("truth", "lens network", "plain MLP", "before the rollout")]
    assert len(set(fields)) == 1
    low, high = images["error of lens network"].get_clim()
    assert (low, high) == pytest.approx((-0.3, 0.3))
    np.testing.assert_allclose(images["error of lens network"].get_array(), (wrong - FIELD).T)
    assert images["truth"].get_extent() == pytest.approx([0, 4, 0, 2 * np.pi])
    assert images["before the rollout"].get_extent()[:2] == pytest.approx([-4, 0])


def test_a_diverged_prediction_is_drawn_as_far_as_it_went():
    lost = FIELD.copy()
    lost[20:] = np.nan
    drawn(field_figure(FIELD, {"lost": lost}, dt=0.1, grid=GRID))
    drawn(trajectory_figure(FIELD, {"lost": lost}, dt=0.1, names=("a", "b")))
    drawn(portrait_figure(FIELD, {"lost": lost}, names=("a", "b", "c")))
    drawn(error_figure({"lost": np.where(np.arange(T) < 20, 1e-3, np.inf), "exact": np.zeros(T)}, threshold=0.16))


def test_trajectories_have_a_labelled_panel_a_coordinate():
    figure = drawn(trajectory_figure(FIELD[:, :3], {"lens": FIELD[:, :3]}, dt=0.5, names=("x", "y", "z")))
    assert [axis.get_ylabel() for axis in figure.axes] == ["x", "y", "z"]
    assert "time" in figure.axes[-1].get_xlabel()
    np.testing.assert_allclose(figure.axes[1].lines[1].get_ydata(), FIELD[:, 1])
    assert figure.axes[0].lines[0].get_xdata()[0] == 0.5


@pytest.mark.parametrize("n", [2, 3])
def test_portraits_are_in_the_plane_or_in_space(n):
    models = dict.fromkeys(("a", "b", "c"), FIELD[:, :n])
    figure = drawn(portrait_figure(FIELD[:, :n], models, names=("x", "y", "z")[:n]))
    assert len(figure.axes) == 4
    assert all((axis.name == "3d") == (n == 3) for axis in figure.axes)


def test_errors_are_on_a_logarithmic_axis_with_one_colour_a_model():
    curves = {"lens": np.geomspace(1e-8, 1e-5, T), "mlp": np.geomspace(1e-3, 1e9, T)}
    axis = drawn(error_figure(curves, threshold=0.16, title="e")).axes[0]
    assert axis.get_yscale() == "log"
    assert [line.get_color() for line in axis.lines[:2]] == [colour("lens"), colour("mlp")]
    low, high = axis.get_ylim()
    assert low < 1e-6
    assert high == 100
    assert colour(0) == colour(7)


def test_the_style_leaves_no_trace(tmp_path):
    before = dict(mpl.rcParams)
    with house_style():
        assert mpl.rcParams["legend.frameon"] is False
    path = save_figure(error_figure({"a": np.ones(3)}), tmp_path / "new" / "e.png")
    assert path.stat().st_size > 1000
    assert dict(mpl.rcParams) == before


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: field_figure(FIELD[0], {}, dt=0.1, grid=GRID), r"truth must have shape \(time, n\), got \(8,\)"),
        (
            lambda: trajectory_figure(FIELD, {"m": FIELD[1:]}, dt=0.1, names=("a",)),
            r"m must have the shape of the truth, \(40, 8\), got \(39, 8\)",
        ),
        (lambda: portrait_figure(FIELD[:, :1], {}, names=("a",)), "needs at least 2 coordinates, got 1"),
        (lambda: field_figure(FIELD, {}, dt=0.0, grid=GRID), "dt must be above zero, got 0.0"),
    ],
)
def test_bad_input_gets_a_sentence(make, message):
    with pytest.raises(InputError, match=message):
        make()


def test_plots_need_no_torch_and_no_display():
    code = "import sys, lln.view; assert 'torch' not in sys.modules; assert 'matplotlib.pyplot' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, env={"DISPLAY": ""})
