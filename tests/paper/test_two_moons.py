import numpy as np
import pytest

from lln.core.errors import InputError
from lln.paper.two_moons import two_moons


def test_sizes_types_and_classes():
    moons = two_moons(0)
    assert moons.points.shape == (800, 2)
    assert moons.held_out_points.shape == (400, 2)
    assert moons.points.dtype == np.float32
    labels = np.concatenate([moons.labels, moons.held_out_labels])
    assert np.bincount(labels).tolist() == [600, 600]


def test_without_noise_every_point_lies_on_its_half_circle():
    moons = two_moons(3, noise=0.0, training=50, held_out=10)
    centre = np.where(moons.labels[:, None] == 0, [0.0, 0.0], [1.0, 0.5])
    # Coordinates near one in float32: a few units of 6e-8.
    assert np.linalg.norm(moons.points - centre, axis=1) == pytest.approx(1.0, abs=1e-6)


def test_a_seed_fixes_the_draw():
    assert (two_moons(5).points == two_moons(5).points).all()
    assert (two_moons(5).points != two_moons(6).points).any()


def test_bad_sizes():
    with pytest.raises(InputError, match="held_out must be an integer of at least 1"):
        two_moons(0, held_out=0)
