from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from lln.core.errors import InputError
from lln.data.series import Dataset, Series
from lln.fit.choice.holdout import RolloutErrors
from lln.fit.choice.noise_and_seasons import linear_histories, seasons
from lln.fit.closed.bases import ClosedChoice, FeatureRows, PolynomialBasis, Scored, drawn_lenses
from lln.fit.closed.forms import ClosedForms, _safe_margin
from lln.fit.fitter import Recipe, fit_surrogate
from lln.fit.options import TimeLimit
from lln.fit.prepare import Preparer
from lln.step.frame import Flow, Polynomial, monomial_table
from lln.step.step import DenseStep

RNG = np.random.default_rng(2)


def lorenz(rows, dt=0.025):
    x, states = np.array([1.0, 1.0, 20.0]), []

    def slope(s):
        return np.array([10 * (s[1] - s[0]), s[0] * (28 - s[2]) - s[1], s[0] * s[1] - 8 / 3 * s[2]])

    for _ in range(rows + 200):
        for _ in range(5):
            h = dt / 5
            k1 = slope(x)
            k2 = slope(x + h / 2 * k1)
            k3 = slope(x + h / 2 * k2)
            x = x + h / 6 * (k1 + 2 * k2 + 2 * k3 + slope(x + h * k3))
        states.append(x)
    return np.array(states[200:])


def fitted(states, **options):
    return fit_surrogate(Dataset((Series(states),), dt=1.0), Recipe(**options))


@pytest.mark.parametrize("parts", ["polynomial", "lens"])
def test_closed_forms_forecast_a_chaotic_system_for_several_lyapunov_times(parts):
    states = lorenz(700)
    fit = fitted(states[:500], parts=("linear", parts))
    assert fit.report.part == parts
    predicted = fit.surrogate.rollout(states[500 - fit.report.history : 500], 150)
    error = np.sqrt((((predicted - states[500:650]) / states.std(axis=0)) ** 2).mean(axis=1))
    assert (error[:130] < 0.4).all()  # three Lyapunov times
    assert fit.report.updates == 0


class ScaleMatters(ClosedForms):
    """Rollouts whose errors are least for lenses of scale 0.8 over lags of five states."""

    def __init__(self):
        self.noisy, self.limit, self.rolled, self._histories = False, TimeLimit(), [], []

    def _ridges(self, _):
        return [1e-6]

    def _roll(self, choice, *_):
        self.rolled.append((choice.scale, choice.lags))
        worse = abs(np.log2(choice.scale / 0.8)) + 2 * (not choice.lags) + abs(choice.history - 5)
        return [Scored(choice, RolloutErrors((1, 2, 4), np.full((2, 3), 1e-6 * 2**worse)))]


def test_lenses_are_sought_from_one_to_the_next_that_rolls_out_better():
    forms = ScaleMatters()
    first = forms._roll(ClosedChoice("lens", 2, 1e-6, scale=0.4, width=10), [1e-6], 4)
    found = forms._climb(first, [], 4)
    assert forms.rolled == [(0.4, False), (0.8, False), (1.6, False), (0.8, True), (1.6, True), (0.4, True)]
    assert forms.ranked([*first, *found])[0].choice == ClosedChoice("lens", 2, 0.0, scale=0.8, width=10, lags=True)


def test_histories_of_lenses_are_sought_from_one_to_the_next_that_rolls_out_better():
    forms = ScaleMatters()
    forms._histories = [1, 2, 3, 5, 8]
    first = forms._roll(ClosedChoice("lens", 2, 1e-6, scale=0.8, width=10, lags=True), [1e-6], 4)
    found = forms._climb(first, [], 4)
    assert [one.choice.history for one in found] == [3, 5, 8, 5, 5, 5]
    assert forms.ranked([*first, *found])[0].choice.history == 5


def test_lenses_far_behind_another_kind_are_not_sought_further():
    forms = ScaleMatters()
    first = forms._roll(ClosedChoice("lens", 2, 1e-6, scale=0.4, width=10), [1e-6], 4)
    other = Scored(ClosedChoice("flow", 1, 1e-6), RolloutErrors((1, 2, 4), np.full((2, 3), 1e-9)))
    assert forms._climb([*first, other], [], 4) == []


@pytest.mark.parametrize(("jumps", "rest", "learns"), [(0.1, 1.0, False), (1.0, 0.5, True)])
def test_a_law_is_still_learned_if_the_errors_of_most_rows_fall(jumps, rest, learns, monkeypatch):
    forms = ScaleMatters()
    forms._best, forms.fold = ClosedChoice("lens", 1, 0.0), SimpleNamespace(train=())
    errors = np.random.default_rng(0).standard_normal((500, 2))
    errors[:10] *= 1e3  # a few rows are all of the mean square
    better = errors * np.where(np.arange(500) < 10, jumps, rest)[:, None]
    monkeypatch.setattr(forms, "_data", lambda *_: SimpleNamespace(features=errors))
    monkeypatch.setattr(forms, "_residuals", lambda _, rows=0: [9.0 * errors, errors if rows is None else better])
    assert forms.learns_with_more_rows() == learns


def test_a_law_is_not_still_learned_if_the_errors_of_rows_that_repeat_alone_fall(monkeypatch):
    forms = ScaleMatters()
    forms._best, forms.fold = ClosedChoice("lens", 1, 0.0), SimpleNamespace(train=())
    errors = np.random.default_rng(0).standard_normal((500, 1))
    better = errors * np.where(np.arange(500) < 350, 0.1, 1.0)[:, None]  # nights
    monkeypatch.setattr(forms, "_data", lambda *_: SimpleNamespace(features=errors))
    monkeypatch.setattr(forms, "_residuals", lambda _, rows=0: [errors if rows is None else better])
    assert not forms.learns_with_more_rows()


@pytest.mark.parametrize("noisy", [False, True])
def test_histories_of_noisy_rows_are_told_apart_by_past_states_not_by_differences(noisy, monkeypatch):
    forms, stages = ScaleMatters(), []
    forms.noisy = noisy
    settings = [ClosedChoice("lens", h, 0.0, scale=0.2, lags=p) for h in (1, 2, 3, 5, 8) for p in (False, True)[:h]]
    monkeypatch.setattr(forms, "_screen_settings", lambda some, _: stages.append(some) or [])
    forms._screen_in_stages(settings, 1.0)
    assert [one.lags for one in stages[0]] == [False] + [noisy] * 4


def test_rollouts_of_a_nonlinear_part_stay_near_the_data():
    states = lorenz(400)
    fit = fitted(states, parts=("linear", "lens"))
    far = states[:1] + 1000.0
    after = fit.surrogate.rollout(np.repeat(far, fit.report.history, axis=0), 2000)
    span = np.ptp(states, axis=0)
    assert (after < states.max(axis=0) + 0.3 * span).all()
    assert (after > states.min(axis=0) - 0.3 * span).all()


def test_white_noise_around_an_exact_law_gives_the_law_and_no_lens():
    x = np.zeros(1500)
    for k in range(2, 1500):
        x[k] = 1.2 * x[k - 1] - 0.5 * x[k - 2] + RNG.standard_normal()
    report = fitted(x[:, None]).report
    assert report.part == "linear"
    assert report.history >= 2
    assert report.noisy


def test_a_season_is_found_and_used():
    months = np.arange(180)
    series = 100 + months + 30 * np.sin(2 * np.pi * months / 12) + 10 * np.cos(2 * np.pi * months / 4)
    data = Dataset((Series(series[:, None] + RNG.standard_normal((180, 1))),), dt=1.0)
    assert seasons(data)[0] in (12, 24, 36, 48)
    assert max(linear_histories(data)) >= 12
    fit = fitted(series[:150, None] + RNG.standard_normal((150, 1)))
    predicted = fit.surrogate.rollout(series[150 - fit.report.history : 150, None], 24)[:, 0]
    assert np.sqrt(np.mean((predicted - series[150:174]) ** 2)) < 6


def test_a_clock_is_no_reason_to_forget_the_dynamics():
    # The phase of a forcing grows for ever; a part that multiplies or bends it would leave what it has seen.
    steps = np.arange(700)
    states = np.stack([np.sin(0.3 * steps), np.cos(0.3 * steps) ** 3, 0.3 * steps], axis=1)
    fit = fitted(states[:500])
    predicted = fit.surrogate.rollout(states[500 - fit.report.history : 500], 200)
    assert np.abs(predicted[:, 2] - states[500:, 2]).max() < 1e-3
    assert np.abs(predicted[:, 0] - states[500:, 0]).max() < 0.1


def test_nonlinear_parts_are_fitted_where_every_coordinate_leaves_its_range():
    # A limit cycle that is still growing: the held-out rows are larger than all rows before them.
    states = [np.array([0.05, 0.0])]
    for _ in range(4 * 260):
        x, v = states[-1]
        states.append(states[-1] + 0.0375 * np.array([v, 0.15 * (1 - x * x) * v - x]))
    report = fitted(np.stack(states)[::4]).report
    assert any(row.get("part") == "flow" and row["nmse"] < 1e-3 for row in report.candidates)


def test_a_wing_that_only_held_out_rows_visit_does_not_hide_the_law():
    def field(u):
        return np.array([u[1], u[2], 5.5 * u[0] - 3.5 * u[1] - u[2] - u[0] ** 3])

    h, states = 0.05, [np.array([0.2, 0.2, -0.75])]
    for _ in range(1084):
        u = states[-1]
        k1 = field(u)
        k2 = field(u + h / 2 * k1)
        k3 = field(u + h / 2 * k2)
        states.append(u + h / 6 * (k1 + 2 * k2 + 2 * k3 + field(u + h * k3)))
    rows = np.stack(states)[784:1084]
    wing = np.sign(rows[:240, 0].mean())
    assert (wing * rows[:240, 0]).min() > -0.7 > -1.0 > np.median(wing * rows[240:, 0])
    report = fitted(rows).report
    assert (report.part, report.history) == ("flow", 1)
    assert report.held_out_nmse < 1e-6


def test_drawn_lenses_see_the_active_features_alone_and_their_step_is_their_columns():
    basis = drawn_lenses((0, 2), 3, 2, 16, 0.4, seed=1)
    rows = RNG.standard_normal((5, 3))
    moved = rows.copy()
    moved[:, 1] += 9.0
    np.testing.assert_array_equal(basis.columns(rows), basis.columns(moved))
    assert np.ptp(basis.columns(rows)) > 0.1
    again = drawn_lenses((0, 2), 3, 2, 16, 0.4, seed=1)
    np.testing.assert_array_equal(basis.columns(rows), again.columns(rows))


def test_polynomial_columns_start_at_degree_two():
    basis = PolynomialBasis((0, 1), 2)
    assert sorted(basis.columns(np.array([[2.0, 3.0]]))[0].tolist()) == [4, 6, 9]
    assert basis.size == 3


@pytest.mark.parametrize("columns", [1, 2])
def test_six_states_are_the_least_and_no_longer_series_is_refused(columns):
    angle = 0.3 * np.arange(9)
    states = np.stack([np.cos(angle), np.sin(angle)], axis=1)[:, :columns]
    for length in (6, 7, 8, 9):
        step = fitted(states[:length]).surrogate
        assert np.isfinite(step.rollout(states[None, length - step.frame.history : length], 3)).all()
    with pytest.raises(InputError, match="no trajectory has 6 states in a row without a gap"):
        fitted(states[:5])
    with pytest.raises(InputError, match="one time step"):
        fitted(states[:1])


def test_a_vector_field_that_overflows_beyond_the_rows_may_not_leave_them():
    rows = np.random.default_rng(0).normal(size=(200, 2)).cumsum(axis=0)
    ready = Preparer(Dataset((Series(rows),), dt=1.0)).prepare(None, 1)
    far = ready.units.frame()

    def margin(power, strength):
        table = monomial_table([0], power)
        weights = np.zeros((2, len(table)))
        weights[:, -1] = strength, -strength
        weights[:, 0] = -strength, strength
        return _safe_margin(DenseStep(replace(far, flow=Flow(Polynomial(table, weights), np.zeros(2), 2))), ready)

    assert margin(1, 0.1) == 0.25
    assert margin(5, 100.0) == 0.0


def test_rows_from_which_a_vector_field_overflows_teach_nothing_to_the_lenses_beside_it():
    states = np.array([[0.1], [0.2], [1e9], [0.3]])
    flow = Flow(Polynomial(monomial_table([0], 9), np.array([[0.0] * 8 + [10.0]])), np.zeros(1), 2)
    frame = replace(Preparer(Dataset((Series(states),))).prepare(None, 1).units.frame(), flow=flow)
    forms = SimpleNamespace(flows=SimpleNamespace(frame=lambda *_: frame))
    rows = FeatureRows(states, np.ones_like(states), np.arange(4.0))
    left = ClosedForms._left_over(forms, ClosedChoice("lens", 1, 1e-6, flow=object()), rows, None)
    assert left.weights.tolist() == [0, 1, 3]
    assert np.isfinite(left.increments).all()
