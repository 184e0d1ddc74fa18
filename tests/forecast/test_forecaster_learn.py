import numpy as np
import pytest
from forecasters import QUICK, lorenz, wave

from lln import InputError, LensForecaster
from lln.data.series import Dataset, Series
from lln.forecast.field_surrogate import FieldSurrogate
from lln.forecast.learn import DENSE_POINTS, on_grid
from lln.forecast.options import Recipe


def grid(*space):
    return Dataset((Series(np.zeros((3, int(np.prod(space))))),), space=space)


def test_points_share_weights_on_large_grids_alone():
    assert not on_grid(grid(DENSE_POINTS), Recipe(), "auto")
    assert on_grid(grid(DENSE_POINTS + 1), Recipe(), "auto")
    assert on_grid(grid(12, 12), Recipe(), "auto")
    assert not on_grid(grid(12, 12), Recipe(recipe="paper"), "auto")
    assert not on_grid(grid(12, 12), Recipe(model="mlp"), "auto")
    assert not on_grid(grid(12, 12), Recipe(), False)
    assert on_grid(grid(4), Recipe(), True)
    assert on_grid(grid(4), Recipe(), {"noise": 0.1})
    assert not on_grid(Dataset((Series(np.zeros((3, 500))),)), Recipe(), "auto")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"field": True}, "field networks need states on a grid: give grid="),
        ({"field": "yes"}, "field must be \"auto\", True, False or a mapping of options, got 'yes'"),
        ({"model": "lenz"}, "unknown model 'lenz'; did you mean 'lens'"),
        ({"width": 0}, "width must be an integer of at least 1, got 0"),
        ({"history": "some"}, 'history must be a whole number of at least 1 or "auto"'),
    ],
)
def test_a_wrong_parameter_is_said_at_fit(options, message):
    with pytest.raises(InputError, match=message):
        LensForecaster(**options).fit(lorenz())


def test_wrong_options_of_fields():
    with pytest.raises(InputError, match="field has no option 'boundery'; did you mean 'boundary'"):
        LensForecaster(field={"boundery": "periodic"}).fit(wave(), grid=(2, 3))
    with pytest.raises(InputError, match="static fields are seen by field networks alone"):
        LensForecaster().fit(lorenz(), static=np.ones((3, 1)))


def test_a_field_is_fitted_saved_and_rolled_out(tmp_path):
    quick = {**QUICK, "refit": True}
    states = wave(points=16, channels=1, rows=150)
    forecaster = LensForecaster(**quick, field={"boundary": "periodic", "blocks": 1, "kernel": 3}).fit(states, grid=16)
    assert isinstance(forecaster.surrogate_, FieldSurrogate)
    run = forecaster.rollout(states[-1], 5)
    assert run.states.shape == (6, 16)
    np.testing.assert_allclose(
        forecaster.rollout(np.roll(states[-1], 3), 5).states, np.roll(run.states, 3, axis=1), atol=1e-5
    )
    assert "on a grid of 16" in forecaster.summary()
    forecaster.save(tmp_path / "a")
    from lln import load

    np.testing.assert_array_equal(load(tmp_path / "a").rollout(states[-1], 5).states, run.states)
    assert load(tmp_path / "a").evaluate(states).scored == "held-out rows"
