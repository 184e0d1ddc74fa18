import io
import subprocess
import sys

import matplotlib as mpl
import numpy as np
import pytest

from lln.core.table import label
from lln.plots.forecasts import comparison_figure
from lln.plots.style import LOOKS, colour, figure_style, look, new_figure, save_figure

MODELS = ("lens", "mlp", "residual", "scaled-residual", "residual-batchnorm", "layerscale")


def test_the_product_has_one_look_under_both_of_its_names():
    assert look("lens") == look("LensForecaster")


def test_a_model_keeps_its_colour_whoever_is_drawn_beside_it():
    curves = {name: np.geomspace(1e-3, 1, 40) * (k + 1) for k, name in enumerate(MODELS)}
    for names in (MODELS, MODELS[3:], MODELS[::-1]):
        figure = comparison_figure({name: curves[name] for name in names})
        drawn = {line.get_label(): line.get_color() for line in figure.axes[0].lines}
        assert drawn == {label(name): colour(name) for name in names}


def test_looks_differ_without_colour():
    shapes = [(str(one.dash), one.marker) for one in map(look, MODELS)]
    assert len(set(shapes)) == len(shapes)


def test_an_unlisted_model_always_looks_the_same():
    assert look("my network") == look("my network")
    assert look("my network") not in LOOKS.values()


def test_a_figure_shows_itself_in_a_notebook():
    figure = new_figure(2)
    assert figure._repr_png_().startswith(b"\x89PNG")
    content = io.BytesIO()
    figure.savefig(content, format="png")
    assert content.tell() > 0


@pytest.mark.parametrize("number", [0, 3, 9])
def test_numbered_series_have_palette_colours(number):
    assert colour(number) == colour(number + 7)


def test_the_style_leaves_no_trace(tmp_path):
    before = dict(mpl.rcParams)
    with figure_style():
        assert mpl.rcParams["legend.frameon"] is False
    path = save_figure(comparison_figure({"lens": np.ones(3)}), tmp_path / "new" / "e.png")
    assert path.stat().st_size > 1000
    assert dict(mpl.rcParams) == before


def test_plots_need_no_torch_and_no_display():
    code = "import sys, lln.view; assert 'torch' not in sys.modules; assert 'matplotlib.pyplot' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, env={"DISPLAY": ""})
