import numpy as np
import pytest
from sklearn.decomposition import PCA

from lln.core.errors import InputError
from lln.paper.case_study import principal_plane, turn_angles


def test_known_turns_in_the_plane():
    # With one ray coordinate, (1, theta) has the slope theta: from 0 to 1 is 45 degrees, back again another 45.
    turns = turn_angles(np.array([[[0.0]], [[1.0]], [[0.0]], [[0.0]]]))
    assert turns.shape == (1, 3)
    assert turns[0] == pytest.approx([45.0, 45.0, 0.0])


def test_turns_in_more_dimensions_are_angles_between_directions():
    theta = np.random.default_rng(0).normal(size=(5, 7, 6))
    turns = turn_angles(theta)
    rays = np.concatenate([np.ones((5, 7, 1)), theta], axis=-1)
    for layer in range(4):
        cosine = (rays[layer] * rays[layer + 1]).sum(-1)
        cosine /= np.linalg.norm(rays[layer], axis=-1) * np.linalg.norm(rays[layer + 1], axis=-1)
        assert turns[:, layer] == pytest.approx(np.degrees(np.arccos(cosine)))


def test_the_smallest_turns_keep_their_digits():
    theta = np.array([[0.0, 0.0], [1e-9, 0.0]])
    # The turn is atan(1e-9); an arc cosine would give zero.
    assert turn_angles(theta)[0] == pytest.approx(np.degrees(1e-9), rel=1e-6)


def test_shapes_are_checked():
    with pytest.raises(InputError, match=r"\(D \+ 1, \.\.\., h\)"):
        turn_angles(np.zeros((1, 4)))
    with pytest.raises(InputError, match="h at least 2"):
        principal_plane(np.zeros((4, 1)))
    with pytest.raises(InputError, match="must spread"):
        principal_plane(np.ones((4, 3)))


def test_plane_is_the_principal_components():
    cloud = np.random.default_rng(1).normal(size=(9, 40, 5)) * np.array([5.0, 1.0, 3.0, 0.5, 0.1])
    plane, truth = principal_plane(cloud), PCA(2).fit(cloud.reshape(-1, 5))
    assert plane.explained == pytest.approx(truth.explained_variance_ratio_)
    assert np.abs(np.sum(plane.axes * truth.components_, axis=1)) == pytest.approx([1.0, 1.0])
    assert (plane.axes.max(axis=1) == np.abs(plane.axes).max(axis=1)).all()
    shown = plane.project(cloud[0, 0])
    assert shown == pytest.approx((cloud[0, 0] - truth.mean_) @ plane.axes.T)
