import dataclasses

import numpy as np
import pytest

from lln import InputError
from lln.view.drawing import Bench, architecture_figure


def bench(depth=5, width=9):
    source = np.random.default_rng(0)
    angles = np.cumsum(source.normal(size=(depth + 1, width)), axis=0)
    positions = np.concatenate([np.zeros((1, width)), 0.2 * np.cumsum(angles[:-1], axis=0)])
    at = np.linspace(-3, 3, 31)
    profiles = source.normal(size=(depth, width, 31))
    return Bench(positions, angles, np.abs(profiles).mean((1, 2)), at, profiles, 0.2, 12, 3, 4)


def test_three_panels_drawn_from_the_rays():
    one = bench()
    figure = architecture_figure(one, rays=6, title="inside")
    assert [axis.get_title(loc="left")[:3] for axis in figure.axes] == ["(a)", "(b)", "(c)"]
    stack = figure.axes[2]
    lines = [line for line in stack.lines if len(line.get_xdata()) == 6]
    assert len(lines) == 6
    drawn = {tuple(line.get_ydata()) for line in lines}
    assert drawn <= {tuple(one.positions[:, ray]) for ray in range(9)}
    turns = np.abs(np.diff(one.angles, axis=0)).max(axis=0)
    assert tuple(one.positions[:, turns.argmax()]) in drawn  # the largest turn is never left out
    widths = [patch.width for patch in stack.patches if hasattr(patch, "width")][:5]
    assert np.argmax(widths) == one.strength.argmax()


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_the_name_of_a_profile_stands_beside_its_curve(sign):
    one = bench()
    bowed = dataclasses.replace(one, profiles=np.full_like(one.profiles, sign))
    figure = architecture_figure(bowed, rays=6, title="inside")
    figure.draw_without_rendering()
    layer = figure.axes[1]
    words = next(text for text in layer.texts if "profile" in text.get_text()).get_window_extent()
    curve = next(line for line in layer.lines if len(line.get_xdata()) > 2).get_window_extent()
    assert not words.overlaps(curve)


@pytest.mark.parametrize(("depth", "width", "rays"), [(1, 1, 12), (40, 128, 12), (2, 3, 1)])
def test_any_size_is_drawn(depth, width, rays, tmp_path):
    figure = architecture_figure(bench(depth, width), rays=rays, title="$_^$")
    figure.savefig(tmp_path / "x.svg")
    assert (tmp_path / "x.svg").stat().st_size > 5000


def test_arrays_that_do_not_fit():
    with pytest.raises(InputError, match="one shape"):
        architecture_figure(dataclasses.replace(bench(), angles=np.zeros((2, 2))))
