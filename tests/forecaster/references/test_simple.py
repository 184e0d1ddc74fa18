import numpy as np
import pytest

from lln.core.errors import InputError
from lln.data.series import Dataset, Series
from lln.evaluate import normalized_mse
from lln.forecaster.references.simple import (
    FEW_DIMENSIONS,
    Analog,
    LinearReference,
    Memory,
    Nearest,
    Persistence,
    TrainingMean,
)
from lln.systems import perturbed_start, preset, simulate

RNG = np.random.default_rng(0)
ALL = (Persistence, TrainingMean, LinearReference, Analog)


def spiral(steps, start=(1.0, 0.0), matrix=((0.98, -0.15), (0.15, 0.98))):
    states = [np.asarray(start)]
    for _ in range(steps):
        states.append(np.asarray(matrix) @ states[-1])
    return np.array(states)


def data(*states, **options):
    return Dataset(tuple(Series(one, **options) for one in states), dt=0.1)


@pytest.fixture(scope="module")
def lorenz():
    system = preset("lorenz-28")
    return data(*(simulate(system, 1500, starts=perturbed_start(system, seed))[500:] for seed in range(3)))


@pytest.mark.parametrize("kind", ALL)
def test_every_reference_rolls_out_one_window_or_many(kind, lorenz):
    model = kind().fit(lorenz)
    window = lorenz.windows(4, 6).reshape(2, 3, 4, 3)
    states = model.rollout(window, 7)
    assert states.shape == (2, 3, 7, 3)
    assert states.dtype == np.float64
    np.testing.assert_allclose(model.rollout(window[1, 2], 7), states[1, 2], rtol=0, atol=1e-12 * np.abs(states).max())
    # A window longer than needed is as good as its last states.
    np.testing.assert_array_equal(model.rollout(window[..., -model.history :, :], 7), states)
    assert model.parameters >= 0


def test_persistence_and_the_mean():
    x = RNG.standard_normal((50, 2))
    np.testing.assert_array_equal(Persistence().fit(data(x)).rollout(x[None, :3], 2)[0], x[[2, 2]])
    mean = TrainingMean().fit(data(x[:20], x[20:]))
    # The last state of each trajectory is nobody's input.
    expected = np.concatenate([x[:19], x[20:49]]).mean(axis=0)
    np.testing.assert_allclose(mean.rollout(x[:1], 2), [expected] * 2, atol=1e-14)
    assert (Persistence().parameters, mean.parameters) == (0, 2)


def test_a_linear_system_is_found_to_the_last_digits():
    states = spiral(400)
    model = LinearReference().fit(data(states[:300]))
    predicted = model.rollout(states[298:300], 100)
    assert normalized_mse(predicted, states[300:400], states.std(axis=0)) < 1e-20


def test_without_a_choice_it_is_plain_least_squares():
    x = np.cumsum(RNG.standard_normal((200, 3)), axis=0)
    ones = np.ones((len(x), 1))
    weights = np.linalg.lstsq(np.hstack([x, ones])[:-1], np.diff(x, axis=0), rcond=None)[0]
    right = x[-1] + np.hstack([x, ones])[-1] @ weights
    model = LinearReference(history=1, ridge=0.0).fit(data(x))
    np.testing.assert_allclose(model.rollout(x[-1:], 1)[0], right, rtol=1e-10)


def test_the_ridge_shrinks_the_map():
    x = np.cumsum(RNG.standard_normal((200, 3)), axis=0)
    sizes = [np.abs(LinearReference(1, ridge).fit(data(x)).frame.matrix).sum() for ridge in (0.0, 1e-2, 1.0, 1e6)]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] < 1e-5 * sizes[0]


def test_a_column_that_repeats_another_does_no_harm():
    states = spiral(400)
    twice = np.concatenate([states, states[:, :1]], axis=1)
    model = LinearReference(1, 0.0).fit(data(twice[:300]))
    np.testing.assert_allclose(model.rollout(twice[299:300], 100), twice[300:400], atol=1e-10)


def test_the_ridge_is_chosen_on_rollouts():
    system = preset("burgers-32")
    states = [simulate(system, 1200, starts=perturbed_start(system, seed))[200:] for seed in range(4)]
    model = LinearReference(history=1).fit(data(*states[:3]))
    plain = LinearReference(history=1, ridge=0.0).fit(data(*states[:3]))
    truth, scale = states[3][301:801], states[0].std(axis=0)
    chosen, free = (normalized_mse(one.rollout(states[3][300:301], 500), truth, scale) for one in (model, plain))
    assert chosen < 0.1 * free


def test_known_inputs_drive_the_linear_map_and_the_analog():
    forcing = RNG.standard_normal((400, 1))
    states = np.zeros((400, 1))
    for k in range(399):
        states[k + 1] = 0.9 * states[k] + 0.5 * forcing[k]
    dataset = Dataset((Series(states[:300], inputs=forcing[:300]),), dt=1.0)
    predicted = LinearReference(1, 0.0).fit(dataset).rollout(states[299:300], 100, forcing[299:399])
    np.testing.assert_allclose(predicted, states[300:], atol=1e-12)
    near = Analog(1).fit(dataset).rollout(states[299:300], 100, forcing[299:399])
    assert normalized_mse(near, states[300:], states.std(axis=0)) < 0.2
    assert normalized_mse(Persistence().rollout(states[299:300], 100), states[300:], states.std(axis=0)) > 0.5


def test_the_analog_repeats_what_it_has_seen():
    angle = 2 * np.pi * np.arange(101) / 20
    circle = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    for move in ("successor", "increment"):
        model = Analog(1, move).fit(data(circle[:41]))
        np.testing.assert_allclose(model.rollout(circle[40:41], 60), circle[41:], atol=1e-6)


def test_increments_carry_over_where_successors_do_not():
    ramp = np.arange(60.0)[:, None] * [1.0, 2.0]
    assert Analog().fit(data(ramp)).move == "increment"
    np.testing.assert_allclose(Analog().fit(data(ramp)).rollout(ramp[-2:], 3), ramp[-1] + ramp[1:4], atol=1e-9)


@pytest.mark.parametrize("columns", [3, 24])
def test_the_nearest_is_the_nearest(columns):
    points, queries = RNG.standard_normal((500, columns)), RNG.standard_normal((4, 5, columns))
    nearest = Nearest(points)
    assert (nearest.tree is None) == (columns > FEW_DIMENSIONS)
    distances = np.linalg.norm(queries[..., None, :] - points, axis=-1)
    np.testing.assert_array_equal(nearest(queries), distances.argmin(axis=-1))


def test_of_very_many_pairs_an_even_choice_is_kept(monkeypatch):
    monkeypatch.setattr("lln.forecaster.references.simple.MOST", 40)
    memory = Memory.of(data(np.arange(100.0)[:, None]), 1)
    np.testing.assert_array_equal(memory.present[:, 0], np.arange(0, 99, 3))
    np.testing.assert_array_equal(memory.target, memory.present + 1)


def test_a_linear_system_is_found_from_a_choice_of_its_pairs(monkeypatch):
    monkeypatch.setattr("lln.forecaster.references.simple.MOST", 40)
    states = 5.0 + spiral(400)
    model = LinearReference(1, 0.0).fit(data(states[:300]))
    np.testing.assert_allclose(model.rollout(states[299:300], 100), states[300:400], atol=1e-9)


def test_gaps_are_left_out():
    states = spiral(400)
    states[100] = np.nan
    for kind in (LinearReference, Analog):
        assert np.isfinite(kind().fit(data(states[:300])).rollout(states[298:300], 5)).all()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Analog(move="sucessor"), "unknown move 'sucessor'; did you mean 'successor'"),
        (lambda: LinearReference(ridge=-1.0), "ridge must not be negative, got -1.0"),
        (lambda: LinearReference(history=0), "history must be an integer of at least 1"),
        (lambda: Persistence().rollout(np.ones((1, 2)), 0), "steps must be an integer of at least 1"),
    ],
)
def test_bad_input_gets_a_sentence(make, message):
    with pytest.raises(InputError, match=message):
        make()
