import math
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from lln.core.errors import InputError
from lln.data.series import Dataset, Series
from lln.fit.fitter import FitReport, Recipe, fit_many, fit_surrogate
from lln.fit.prepare import FrameChoice, Preparer
from lln.systems import preset, simulate

QUICK = {"members": 2, "epochs": 40, "width": 24, "depth": 2, "history": 1}


def pendulum(rows=700, seed=0, forcing=None):
    rng = np.random.default_rng(seed)
    states = [rng.uniform(1, 2, 2) * (1.0, 0.5)]
    for k in range(rows - 1):
        angle, speed = states[-1]
        push = 0.0 if forcing is None else forcing[k, 0]
        states.append(np.array([angle + 0.1 * speed, speed + 0.1 * (push - np.sin(angle) - 0.1 * speed)]))
    return np.array(states)


@pytest.fixture(scope="module")
def forced():
    forcing = 0.2 * np.random.default_rng(5).standard_normal((700, 1))
    data = Dataset((Series(pendulum(forcing=forcing), forcing),), dt=0.1)
    return data, fit_surrogate(data, Recipe(**QUICK))


def test_the_network_is_used_where_it_helps_and_the_report_says_so(forced):
    data, fit = forced
    report = fit.report
    assert report.correction_weight > 0
    assert report.held_out_nmse < 0.1 * report.linear_nmse
    assert len(fit.surrogate.members) == 2
    assert fit.surrogate.frame.inputs == 1
    assert (report.n, report.left_out) == (2, 0)
    assert report.dataset == data.digest()
    ((index, first, last),) = report.training_rows
    assert (index, first, report.pairs) == (0, 0, last - 1)
    assert 0 <= report.coverage <= 1
    low, high = np.array(report.region)
    present = (np.asarray(data.series[0].states)[: last - 1] - fit.surrogate.frame.mean) / fit.surrogate.frame.scale
    np.testing.assert_allclose([low, high], [present.min(axis=0), present.max(axis=0)])
    assert fit.recipe.ridge == report.ridge
    assert fit.recipe.width == 24
    each = sum(p.numel() for p in fit.surrogate.members[0].parameters())
    assert report.parameters == 2 * each + report.linear_parameters
    assert any(row["correction_weight"] == 0.0 for row in report.candidates)


def test_recipe_and_report_survive_being_written_down(forced):
    _, fit = forced
    assert Recipe.from_record(fit.recipe.record()) == fit.recipe
    assert FitReport.from_record(fit.report.record()).record() == fit.report.record()


def test_a_linear_system_needs_no_network():
    angle = 0.1 * np.arange(400)
    fit = fit_surrogate(Dataset((Series(np.stack([np.cos(angle), np.sin(angle)], axis=1)),)), Recipe(**QUICK))
    assert fit.report.correction_weight == 0.0
    assert fit.surrogate.members == ()
    assert fit.report.held_out_nmse < 1e-20
    assert any("linear map did best" in note for note in fit.report.notes)


def test_pairs_that_touch_a_gap_are_left_out_and_counted():
    states = pendulum(400)
    states[200] = np.nan
    fit = fit_surrogate(Dataset((Series(states),)), Recipe(**{**QUICK, "epochs": 2}))
    assert (fit.report.pairs, fit.report.left_out) == (397, 2)
    assert np.isfinite(fit.surrogate.frame.matrix).all()


def test_weights_of_zero_are_as_if_the_rows_were_not_there():
    states = pendulum(400)
    spoiled = states.copy()
    spoiled[150:160] += 100.0
    weights = np.ones(400)
    weights[150:160] = 0.0
    fit = fit_surrogate(Dataset((Series(spoiled, weights=weights),)), Recipe(**{**QUICK, "epochs": 1}))
    assert np.abs(fit.surrogate.frame.mean).max() < 5


def test_a_given_history_and_ridge_are_kept():
    fit = fit_surrogate(
        Dataset((Series(pendulum(300)),)), Recipe(**{**QUICK, "history": 5, "ridge": 1e-3, "epochs": 1})
    )
    assert fit.surrogate.frame.history == 5
    assert fit.report.ridge == 1e-3
    none = fit_surrogate(Dataset((Series(pendulum(300)),)), Recipe(**{**QUICK, "ridge": None, "epochs": 1}))
    assert not none.surrogate.frame.matrix.any()


def test_the_papers_recipe_predicts_the_next_state_with_one_network():
    data = Dataset((Series(pendulum(300)),))
    fit = fit_surrogate(data, Recipe(recipe="paper", width=8, depth=2))
    frame = fit.surrogate.frame
    np.testing.assert_array_equal(frame.matrix, -np.eye(2))
    assert len(fit.surrogate.members) == 1
    window = np.asarray(data.series[0].states)[:1]
    z = (window - frame.mean) / frame.scale
    with torch.no_grad():
        after = fit.surrogate.members[0](torch.from_numpy(z).float()).double().numpy()
    np.testing.assert_allclose(fit.surrogate.rollout(window, 1), after * frame.scale + frame.mean, rtol=1e-6, atol=1e-6)
    assert math.isnan(fit.report.held_out_nmse)


@pytest.mark.parametrize("model", ["mlp", "residual-batchnorm"])
def test_comparators_go_through_the_same_recipe(model):
    data = Dataset((Series(pendulum(300)),))
    fit = fit_surrogate(
        data, Recipe(model=model, members=1, epochs=60, history=1, depth=2, width=16, learning_rate=1e-2)
    )
    assert fit.report.held_out_nmse <= fit.report.linear_nmse
    if fit.surrogate.members:
        assert type(fit.surrogate.members[0]).__name__ != "LensNetwork"


def test_seeds_in_one_pass_are_as_if_each_was_alone():
    data = Dataset((Series(pendulum(300)),))
    recipe = Recipe(**{**QUICK, "epochs": 10})
    together = fit_many(data, recipe, [3, 4])
    window = np.asarray(data.series[0].states)[:1]
    for fit, seed in zip(together, (3, 4), strict=True):
        alone = fit_many(data, recipe, [seed])[0]
        assert fit.recipe.seed == seed
        # Batched sums round differently; the choices and the step must be the same.
        assert fit.report.correction_weight == alone.report.correction_weight
        np.testing.assert_allclose(
            fit.surrogate.rollout(window, 5), alone.surrogate.rollout(window, 5), rtol=1e-3, atol=1e-3
        )


@pytest.mark.parametrize("refit", [True, False])
def test_seeds_that_decline_a_network_leave_the_others_theirs(monkeypatch, refit):
    data = Dataset((Series(pendulum(rows=400)),), dt=0.1)
    recipe = Recipe(members=2, epochs=10, width=8, depth=1, history=1, ridge=1e-9, refit=refit)
    seeds, window = [3, 4, 5], pendulum(rows=400)[:1]
    all_of_them = fit_many(data, recipe, seeds)
    assert all(fit.report.correction_weight > 0 for fit in all_of_them)
    gains = sorted(math.log(fit.report.linear_nmse / fit.report.held_out_nmse) for fit in all_of_them)
    monkeypatch.setattr("lln.fit.fitter.MARGIN", (gains[0] + gains[1]) / 2)
    some = fit_many(data, recipe, seeds)
    assert sorted(fit.report.correction_weight > 0 for fit in some) == [False, True, True]
    for fit, before in zip(some, all_of_them, strict=True):
        if fit.report.correction_weight > 0:
            states = fit.surrogate.rollout(window, 5)
            np.testing.assert_allclose(states, before.surrogate.rollout(window, 5), rtol=1e-5, atol=1e-6)


def test_a_fit_without_refit_leaves_the_held_out_rows_alone():
    data = Dataset((Series(pendulum(400)),))
    fit = fit_surrogate(data, Recipe(**{**QUICK, "epochs": 2, "refit": False, "validation": 0.25}))
    assert fit.report.training_rows == ((0, 0, 300),)
    assert fit.report.held_out_rows == ((0, 300, 400),)


def test_unrolled_fine_tuning_is_a_choice_among_others():
    data = Dataset((Series(pendulum(400)),))
    fit = fit_surrogate(data, Recipe(**{**QUICK, "epochs": 5, "unroll": 3}))
    stops = {row.get("stop") for row in fit.report.candidates}
    assert fit.report.unroll in (0, 3)
    assert stops <= {None, 0, 1, 2, 3}


def test_a_time_limit_means_fewer_updates():
    data = Dataset((Series(pendulum(400)),))
    fit = fit_surrogate(data, Recipe(**{**QUICK, "epochs": 100_000, "time_limit": 3.0}))
    assert fit.report.updates < 50_000


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"recipe": "lenz"}, "did you mean 'lens'"),
        ({"model": "mpl"}, "did you mean 'mlp'"),
        ({"history": 0}, "history must be an integer of at least 1"),
        ({"history": "some"}, "history must be a whole number"),
        ({"ridge": -1.0}, "ridge must not be negative"),
        ({"ridge": "much"}, "ridge must be a number"),
        ({"members": 0}, "members must be"),
        ({"validation": 1.5}, "validation must be a fraction"),
        ({"refit": "maybe"}, "refit must be true or false, got 'maybe'"),
        ({"time_limit": 0}, "time_limit must be above zero"),
        ({"model": "mlp", "basis": 4}, "belong to the lens network"),
        ({"device": "cuba"}, "device must be one of cpu, cuda"),
    ],
)
def test_wrong_choices_are_refused_in_one_sentence(options, words):
    with pytest.raises(InputError, match=words):
        fit_surrogate(Dataset((Series(pendulum(100)),)), Recipe(**options))


SCRIPT = """
import sys, numpy as np, torch
from pathlib import Path
sys.path.insert(0, {here!r})
torch.set_num_threads(1)
from test_recipe import pendulum
from lln.data.series import Dataset, Series
from lln.fit.fitter import Recipe, fit_surrogate
from lln.train import loop
loop.EVERY = 0.05
data = Dataset((Series(pendulum(500)),))
fit = fit_surrogate(data, Recipe(members=1, epochs=60, width=16, depth=2, history=1), checkpoint=Path({path!r}))
np.save({out!r}, fit.surrogate.rollout(np.asarray(data.series[0].states)[:1], 50))
"""


def _written(path):
    return path.stat().st_mtime_ns if path.exists() else 0


@pytest.mark.slow
def test_killed_and_resumed_it_comes_to_bitwise_the_same(tmp_path):
    here, path = str(Path(__file__).parent), tmp_path / "fit.checkpoint"

    def run(out, checkpoint):
        code = textwrap.dedent(SCRIPT).format(here=here, path=str(checkpoint), out=str(out))
        return subprocess.Popen([sys.executable, "-c", code])

    assert run(tmp_path / "whole.npy", tmp_path / "other.checkpoint").wait(300) == 0
    for saves in (1, 5):
        process, saved, seen = run(tmp_path / "resumed.npy", path), 0, _written(path)
        while saved < saves:
            assert process.poll() is None, "it ended before it could be killed"
            saved, seen = saved + (_written(path) > seen), max(seen, _written(path))
            time.sleep(0.001)
        process.kill()
        process.wait()
    assert path.exists()
    assert run(tmp_path / "resumed.npy", path).wait(300) == 0
    assert not path.exists()
    np.testing.assert_array_equal(np.load(tmp_path / "whole.npy"), np.load(tmp_path / "resumed.npy"))


@pytest.mark.slow
@pytest.mark.parametrize("system", ["lorenz-28", "burgers-48"])
def test_noisy_data_leads_to_rollouts_that_stay_bounded(system):
    states = simulate(preset(system), 3500).astype(float)[500:]
    scale = states.std(axis=0)
    noisy = states + 0.01 * scale * np.random.default_rng(0).standard_normal(states.shape)
    space = () if preset(system).grid is None else (preset(system).size,)
    fit = fit_surrogate(Dataset((Series(noisy),), space=space), Recipe())
    assert fit.report.noise == pytest.approx(0.01, rel=0.3)
    history = fit.surrogate.frame.history
    rolled = fit.surrogate.rollout(noisy[-history:], 10_000)
    assert np.abs((rolled - states.mean(axis=0)) / scale).max() < 20


def test_rollouts_of_trained_networks_stay_near_the_data_wherever_they_start():
    states = pendulum(300)
    fit = fit_surrogate(Dataset((Series(states),), dt=0.1), Recipe(history=1, epochs=1, members=1, parts=("network",)))
    assert fit.report.part == "network"
    far = states.mean(axis=0) + np.array([[50.0, -50.0], [1e4, 1e4]]) * states.std(axis=0)
    rolled = fit.surrogate.rollout(far[:, None], 2000)
    least, most = states.min(axis=0), states.max(axis=0)
    assert (rolled >= least - 0.26 * (most - least)).all()
    assert (rolled <= most + 0.26 * (most - least)).all()


def test_a_linear_part_alone_is_the_mean_over_neighbouring_ridges_where_that_does_as_well(monkeypatch):
    monkeypatch.setattr("lln.fit.fitter.MARGIN", math.inf)  # no network is ever good enough
    data = Dataset((Series(pendulum(400)),), dt=0.1)
    fit = fit_surrogate(data, Recipe(history=1, epochs=1, members=1))
    assert fit.report.correction_weight == 0
    assert [row["ridge"] for row in fit.report.candidates if row.get("blended")] == [fit.report.ridge]
    ready = Preparer(data).prepare(None, 1)
    maps = [ready.linear(FrameChoice(1, None, ridge)).matrix for ridge in (fit.report.ridge, 10 * fit.report.ridge)]
    if fit.report.ridge > 2e-16:
        maps.append(ready.linear(FrameChoice(1, None, fit.report.ridge / 10)).matrix)
    np.testing.assert_allclose(fit.surrogate.frame.matrix, np.mean(maps, axis=0), rtol=1e-12)
    fixed = fit_surrogate(data, Recipe(history=1, epochs=1, members=1, ridge=1e-3))
    np.testing.assert_array_equal(fixed.surrogate.frame.matrix, ready.linear(FrameChoice(1, None, 1e-3)).matrix)
    monkeypatch.setattr("lln.fit.fitter.ALIKE", -math.inf)
    plain = fit_surrogate(data, Recipe(history=1, epochs=1, members=1))
    chosen = FrameChoice(1, None, plain.report.ridge)
    np.testing.assert_array_equal(plain.surrogate.frame.matrix, ready.linear(chosen).matrix)
