import math
import time
from functools import lru_cache

import numpy as np
import pytest
import torch

import lln
from lln.data.trajectory import simulated
from lln.evaluate import rollout
from lln.evaluate.rollout import Ending
from lln.models import FieldLensNetwork, PlainMLP
from lln.systems import preset

QUICK = {"width": 4, "depth": 2, "basis": 4, "members": 2, "epochs": 1, "unroll": 0, "history": 1}
MILLION = 10**6


def network(n=3, **sizes):
    given = {"width": 4, "depth": 2, "basis": 4, **sizes}
    return lln.LensNetwork(n, n, generator=torch.Generator().manual_seed(0), **given)


@lru_cache
def lorenz():
    return simulated(preset("lorenz-28"), 400, dtype="float64").states[100:]


def circle(rows=120, radius=1.0):
    angle = 0.1 * np.arange(rows)
    return radius * np.stack([np.cos(angle), np.sin(angle)], axis=1)


@lru_cache
def fitted():
    made = lln.LensForecaster(**QUICK).fit(lorenz(), dt=0.01)
    assert made.surrogate_.frame.gain.any()
    return made


def outcome_is_honest(run):
    """Every state is finite up to where the outcome says that it is not, and NaN from there."""
    states = run.states.reshape(-1, *run.states.shape[-2:])
    for rows, outcome in zip(states, run.outcomes, strict=True):
        lost = outcome.step if outcome.ending is Ending.DIVERGED else len(rows)
        assert np.isfinite(rows[:lost]).all()
        assert np.isnan(rows[lost:]).all()


def test_a_million_steps_as_one_kernel():
    run = rollout(network(), torch.randn(1, 3), MILLION)
    assert run.states.shape == (1, MILLION + 1, 3)
    assert run.outcome.ending is Ending.FINISHED
    outcome_is_honest(run)
    growing = network()
    with torch.no_grad():
        growing.readout.weight.mul_(50)
    run = rollout(growing, torch.randn(2, 3), MILLION)
    assert run.outcome.ending is Ending.DIVERGED
    outcome_is_honest(run)


@pytest.mark.slow
def test_a_million_steps_of_a_forecaster():
    made = lln.LensForecaster(**QUICK).fit(circle(300), dt=0.1)
    run = made.rollout(steps=MILLION)
    assert run.array.shape == (MILLION + 1, 2)
    outcome_is_honest(run)


def test_a_rollout_that_is_lost_costs_no_more_steps():
    made, lost = fitted(), np.full((2, 3), 1e300)
    began = time.perf_counter()
    run = made.rollout(lost, steps=MILLION)
    assert time.perf_counter() - began < 5  # a million steps of the fused kernel take longer
    assert [str(outcome) for outcome in run.outcomes] == ["diverged at step 1"] * 2
    network, seen = PlainMLP(3, 3, width=4, depth=1), []
    network.register_forward_hook(lambda *_: seen.append(1))
    states = made.surrogate_.replace(members=[network]).rollout(lost[:, None], MILLION)
    assert not np.isfinite(states).any()
    assert len(seen) <= 16  # the loop in torch looks every sixteen steps


def test_more_steps_than_memory_are_refused():
    many = 10**13
    for call in (
        lambda: network().rollout(torch.zeros(3), many),
        lambda: rollout(network(), torch.zeros(3), many),
        lambda: rollout(lambda x: x, np.zeros(3), many),
        lambda: fitted().rollout(steps=many),
        lambda: fitted().sample(steps=10**20),
    ):
        with pytest.raises(lln.InputError, match=r"^a rollout of 1[0,]+ steps needs .* GiB of memory, and .* are free"):
            call()


@pytest.mark.parametrize("value", [1e30, -1e30, 1e-40, 1e-45, 0.0])
@pytest.mark.parametrize("backend", ["cpu", "eager", "reference"])
def test_a_network_at_far_and_denormal_states(backend, value):
    net = network()
    net.backend = backend
    x = torch.full((2, 3), value, requires_grad=True)
    out = net(x)
    out.sum().backward()
    assert torch.isfinite(out).all()
    assert torch.isfinite(x.grad).all()
    assert torch.isfinite(net.coefficients.grad).all()
    outcome_is_honest(rollout(net, x.detach(), 50))


@pytest.mark.parametrize(
    "sizes",
    [
        {"depth": 10_000},
        {"width": 1},
        {"basis": 1},
        {"width": 1, "depth": 1, "basis": 1, "n": 1},
        {"n": 4096},
        {"optical_length": 0.0},
        {"optical_length": 1e30},
        {"lens_scale": 1e30},
        {"sigma": 1e-30},
        {"sigma": 1e30},
        {"control_range": (-1e30, 1e30)},
        {"control_range": (0.0, 1e-30)},
    ],
    ids=str,
)
@pytest.mark.parametrize("batch", [0, 1, 5])
def test_a_network_of_extreme_size_or_optics(sizes, batch):
    net = network(**sizes)
    x = torch.randn(batch, net.n_in, generator=torch.Generator().manual_seed(0))
    assert net(x).shape == x.shape
    run = rollout(net, x, 5)
    assert run.states.shape == (batch, 6, net.n_in)
    outcome_is_honest(run)


def test_a_field_network_at_extremes():
    net = FieldLensNetwork(
        1, 1, dimensions=1, width=2, depth=1, basis=1, kernel=3, generator=torch.Generator().manual_seed(0)
    )
    for value in (1e30, 1e-40, 0.0):
        assert torch.isfinite(net(torch.full((1, 8, 1), value))).all()
    assert net(torch.zeros(0, 8, 1)).shape == (0, 8, 1)
    assert net(torch.zeros(1, 4096, 1)).shape == (1, 4096, 1)


@pytest.mark.parametrize("value", [1e30, 1e38, 1e300, 1.7e308, 5e-324, 0.0])
def test_a_forecaster_started_anywhere_finite_says_how_it_ended(value):
    made, x = fitted(), np.full(3, value)
    for run in (made.rollout(x, steps=30), made.sample(x, steps=30)):
        outcome_is_honest(run)
        assert run.outcome.ending in (Ending.LEFT, Ending.DIVERGED)
    try:
        assert np.isfinite(made.invert(x)).all()
    except lln.InputError as error:
        assert "no state was found whose successor" in str(error)  # noqa: PT017 - either is right


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_a_start_that_is_not_finite_is_refused(value):
    for ask in (fitted().rollout, fitted().sample, fitted().invert, fitted().coverage):
        with pytest.raises(lln.InputError, match=f"x0 is {value} in coordinate 'x0'; a rollout must start at finite"):
            ask(np.full(3, value))
    with pytest.raises(lln.InputError, match=rf"x0 is {value} at \[0, 2\]; a rollout must start at finite states"):
        rollout(network(), torch.tensor([[0.0, 0.0, value]]), 5)


def test_rays_that_overflow_are_not_covered():
    assert fitted().coverage(np.full(3, 1e300), steps=5).outside == 1.0
    back = fitted().coverage(np.full(3, 1e30), steps=5)  # the states after the start are bounded near the data
    assert back.outside == pytest.approx(1 / 5)


def test_no_starts_at_all():
    made, none = fitted(), np.zeros((0, 3))
    assert made.rollout(none, steps=5).array.shape == (0, 6, 3)
    assert made.rollout(none, steps=5).outcome.ending is Ending.FINISHED
    assert made.sample(none, steps=5).array.shape == (2, 0, 6, 3)
    assert made.predict(none).shape == (0, 3)
    assert made.invert(none).shape == (0, 3)


@pytest.mark.parametrize("level", [0.0, 2.5, -1e30])
@pytest.mark.parametrize("field", [False, True])
def test_a_state_that_never_changes_stays(level, field):
    words = {"field": True, "grid": [np.arange(16.0)]} if field else {"field": False}
    grid = {"grid": words.pop("grid")} if field else {}
    states = np.full((60, 16), level)
    made = lln.LensForecaster(**{**QUICK, "members": 1}, **words).fit(states, dt=0.1, **grid)
    run = made.rollout(steps=50)
    assert run.outcome.ending is Ending.FINISHED
    np.testing.assert_array_equal(run.array, np.full((51, 16), level))
    assert made.evaluate(states, dt=0.1, steps=5).nmse == 0.0


def test_constant_columns_and_inputs_do_no_harm():
    plain = lln.LensForecaster(**QUICK).fit(circle(), dt=0.1)
    column = lln.LensForecaster(**QUICK).fit(np.c_[circle(), np.full(120, 7.0)], dt=0.1)
    forced = lln.LensForecaster(**QUICK).fit(circle(), dt=0.1, inputs=np.full((120, 1), 3.0))
    for run in (plain.rollout(steps=50), column.rollout(steps=50), forced.rollout(steps=50, inputs=[3.0])):
        assert run.outcome.ending is Ending.FINISHED
        np.testing.assert_allclose(run.array[-1, :2], circle(170)[-1], atol=1e-3)
    np.testing.assert_allclose(column.rollout(steps=50).array[:, 2], 7.0)


@pytest.mark.parametrize("power", [-130, -40, 30, 130])
def test_units_do_not_matter(power):
    made = lln.LensForecaster(**QUICK).fit(circle(radius=10.0**power), dt=0.1)
    run = made.rollout(steps=50)
    assert run.outcome.ending is Ending.FINISHED
    np.testing.assert_allclose(run.array[-1] / 10.0**power, circle(170)[-1], atol=1e-3)


@pytest.mark.parametrize("field", [False, True])
def test_what_double_precision_cannot_square_is_refused(field):
    words = {"grid": [np.arange(2.0)]} if field else {}
    empty = lln.LensForecaster(**{**QUICK, "members": 1}, field=field)
    with pytest.raises(lln.InputError, match=r"^array: '\w+' reaches 1.0e\+200, and beyond 1e\+140 nothing can be"):
        empty.fit(circle(radius=1e200), dt=0.1, **words)
    for radius in (1e-300, 1e-310):
        with pytest.raises(lln.InputError, match=r"^column 0 varies by only 2.0e-3\d\d, and below 1e-140 nothing can"):
            empty.fit(circle(radius=radius), dt=0.1, **words)
    if not field:
        with pytest.raises(lln.InputError, match=r"^array: 'input0' reaches 1.0e\+200"):
            empty.fit(circle(), dt=0.1, inputs=1e200 * circle()[:, :1])


def test_the_shortest_trajectory():
    with pytest.raises(lln.InputError, match="no trajectory has 6 states in a row without a gap"):
        lln.LensForecaster(**QUICK).fit(circle(5), dt=0.1)
    outcome_is_honest(lln.LensForecaster(**QUICK).fit(circle(6), dt=0.1).rollout(steps=20))


def test_the_smallest_and_the_deepest_forecaster():
    for sizes in ({"width": 1, "basis": 1, "depth": 1}, {"width": 1, "basis": 2, "depth": 10_000, "members": 1}):
        made = lln.LensForecaster(**{**QUICK, **sizes}).fit(circle(40), dt=0.1)
        outcome_is_honest(made.rollout(steps=5))


def test_4096_coordinates():
    phase = 0.1 * np.arange(24)[:, None] + np.linspace(0, 2 * np.pi, 4096, endpoint=False)
    empty = lln.LensForecaster(field=True, **{**QUICK, "members": 1, "basis": 4})
    made = empty.fit(np.sin(phase), dt=0.1, grid=[np.arange(4096.0)])
    outcome_is_honest(made.rollout(steps=10))
    with pytest.raises(lln.InputError, match="a step of 4096 coordinates cannot be inverted; at most 2048"):
        made.invert(np.sin(phase[0]))


def test_comparison_of_constants_and_huge_states():
    for states in (np.full((80, 2), 3.0), circle(80, 1e100)):
        models = ("linear", "analog", "persistence", "mean")
        made = lln.compare(states, models=models, steps=10, dt=0.1)
        assert [score.nmse >= 0 for score in made.scores] == [True] * 4
