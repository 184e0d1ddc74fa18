import io
import json

import numpy as np
import pytest
from rich.console import Console

from lln.core.errors import InputError
from lln.data.read.formats import as_dataset
from lln.data.series import Dataset, Series
from lln.data.trajectory import simulated
from lln.fit.fitter import Recipe
from lln.forecaster.comparison.compare import ALL, SIMPLE, compare
from lln.forecaster.comparison.result import Comparison, Score
from lln.forecaster.forecaster import LensForecaster
from lln.forecaster.references.simple import Persistence
from lln.models import MODELS
from lln.systems import perturbed_start, preset, rk4_step, simulate

LORENZ = preset("lorenz-28")
PLAIN = ("linear", "analog", "persistence", "mean")


def quick(**options):
    return Recipe(
        **{"width": 8, "depth": 3, "basis": 6, "members": 1, "epochs": 2, "history": 1, "ridge": 1e-8, **options}
    )


@pytest.fixture(scope="module")
def states():
    return simulate(LORENZ, 1300, dtype="float64")[300:]


def truth(x):
    return rk4_step(LORENZ.rhs, x, LORENZ.dt)


@pytest.fixture(scope="module")
def plain(states):
    return compare(states, dt=0.01, models=PLAIN, others={"truth": truth}, steps=60, exponent=0.9)


def test_the_last_part_of_one_trajectory_is_judged_and_trains_nothing(states, plain):
    assert plain.scored == "the last part of the data"
    # The last 200 of 1001 states hold 141 rollouts of 60 steps, of which 64 are taken; the first starts from the last
    # state that trained.
    assert (plain.windows, plain.steps) == (64, 60)
    rows = np.linspace(800, 940, 64).round().astype(int)
    expected = states[rows[:, None] + np.arange(1, 61)]
    mse = np.square((states[rows, None] - expected) / states[:800].std(axis=0)).mean(axis=(1, 2))
    np.testing.assert_allclose(plain["persistence"].nmse_by_window[0], mse, rtol=1e-10)
    changed = states.copy()
    changed[802:] += 100.0
    again = compare(changed, dt=0.01, models=["mean"], steps=60)
    np.testing.assert_array_equal(again["mean"].errors.shape, plain["mean"].errors.shape)
    assert again["mean"].nmse > 10 * plain["mean"].nmse


def test_the_best_comes_first_and_is_bold(plain):
    assert plain.best.name == "truth"
    assert plain.best.nmse < 1e-20
    errors = [plain.error(score.name) for score in plain.scores]
    assert errors == sorted(errors)
    table = plain.table
    assert {(0, 1), (0, 2), (0, 3)} <= set(table.best)
    assert table.columns[-2:] == ["parameters", "seconds"]
    assert "Lyapunov times" in table.columns
    assert "**" in table.to_markdown()
    out = io.StringIO()
    Console(file=out, width=120).print(table.to_rich())
    assert all(name in out.getvalue() for name in (*PLAIN, "truth"))


def test_a_comparison_shows_itself_as_tables(plain):
    assert repr(plain) == str(plain)
    lines = repr(plain).splitlines()
    assert lines[0] == plain.title
    assert [line.split()[0] for line in lines[2 : 2 + len(plain.scores)]] == [score.label for score in plain.scores]
    assert "normalised MSE by lead time, in steps" in lines
    assert max(map(len, lines[:6])) <= 100
    assert "array(" not in repr(plain)
    page = plain._repr_html_()
    assert page.count("<table>") == 2
    assert all(f">{score.label}</td>" in page for score in plain.scores)


def test_one_model_is_compared_with_nothing(states):
    found = compare(states, dt=0.01, models="persistence", steps=60)
    assert [score.name for score in found.scores] == ["persistence"]
    assert "persistence" in repr(found)
    assert found.remarks == []


def test_the_same_numbers_come_out_as_json_and_as_a_figure(plain):
    record = json.loads(json.dumps(plain.record(), allow_nan=False))
    assert [model["name"] for model in record["models"]] == [score.name for score in plain.scores]
    assert record["models"][1]["nmse"] == pytest.approx(plain.scores[1].nmse)
    assert len(record["models"][0]["rmse_by_step"]) == 60
    figure = plain.figure()
    figure.savefig(io.BytesIO(), format="png")
    assert record["models"][1]["nmse_by_lead"][0] == pytest.approx(plain.scores[1].by_lead.by_lead()[0])
    assert record["lead_times"] == [1, 2, 4, 8, 16, 32, 60]
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    band = "half of the rollouts\nof truth"
    assert labels == [*(score.label for score in plain.scores), band, "valid below 0.4"]


def test_test_data_is_used_as_it_is_unless_it_trained(states):
    other = simulate(LORENZ, 400, starts=perturbed_start(LORENZ, 7), dtype="float64")[198:]
    found = compare(states, other, dt=0.01, models=["persistence"], steps=100)
    # Three states are given, and 199 of the 203 rows can be reached: 101 starts of 100 steps, 64 taken.
    assert (found.scored, found.windows, found.steps) == ("test data", 64, 100)
    both = compare(states[:800], states, dt=0.01, models=["persistence"], steps=100)
    assert both.windows == 64
    np.testing.assert_allclose(
        both["persistence"].errors[0, 0], np.square((states[799] - states[800:900]) / states[:799].std(0)).mean(-1)
    )
    with pytest.raises(InputError, match="every row of the test data is in the training data"):
        compare(states, states[100:300], dt=0.01, models=["mean"])


def test_a_rollout_that_diverged_is_infinitely_wrong(states):
    class Bad:
        history = 2

        def rollout(self, window, steps, _):
            after = np.repeat(window[..., -1:, :], steps, axis=-2)
            after[..., 5, :] = np.nan
            return after

    found = compare(states, dt=0.01, models=["persistence"], others={"bad": Bad()}, steps=20, windows=4)
    assert [score.name for score in found.scores] == ["persistence", "bad"]
    bad = found["bad"]
    assert np.isinf(bad.errors[..., 5:]).all()
    assert (bad.nmse, bad.diverged, bad.history) == (np.inf, 4, 2)
    assert found.record()["models"][1]["nmse"] is None
    assert "∞" in found.table.to_markdown()
    found.figure().savefig(io.BytesIO(), format="png")


def test_a_fit_that_looks_far_back_is_given_as_many_states():
    rng, states = np.random.default_rng(3), np.zeros((400, 1))
    for k in range(12, 400):  # the last year counts, so twelve states do best
        states[k] = 0.95 * states[k - 12] + 0.1 * rng.standard_normal()
    found = compare(states, models={"ours": {"parts": ["linear"]}}, others={"last": Persistence()}, steps=24)
    assert found["ours"].history >= 12
    assert found["ours"].nmse < found["last"].nmse
    short = compare(states[:300], states[300:330], models=["persistence"], steps=8)
    assert short.steps == 8
    with pytest.raises(InputError, match="looks at 12 states at a time, but only 3 rows lie before"):
        compare(states[:300], states[300:310], models={"ours": {"parts": ["linear"], "history": 12}}, steps=3)


def test_a_fit_that_looks_further_back_than_foreseen_sees_rows_that_trained(monkeypatch):
    monkeypatch.setattr("lln.forecaster.comparison.compare.longest_history", lambda *_: 1)
    states = np.sin(0.3 * np.arange(200))[:, None]
    found = compare(states, models={"ours": {"parts": ["linear"], "history": 40}}, steps=20)
    assert found["ours"].history == 40


def test_geometric_means_are_over_windows_and_seeds():
    errors = np.array([[[1.0, 1.0], [4.0, 4.0]], [[1.0, 1.0], [0.0, 0.0]]])
    score = Score("m", errors[:1], np.array([[2, 0]]), 1, 5, 0.1)
    assert score.nmse == pytest.approx(2.0)
    np.testing.assert_allclose(score.rmse_by_step, np.sqrt([2.0, 2.0]))
    chance = Score("m", np.array([[[1e-2]] * 19 + [[0.0]]]), np.array([[1] * 20]), 1, 5, 0.1)
    assert chance.rmse_by_step[0] > 0.02  # one rollout that is right by chance
    tiny = Score("m", np.full((1, 2, 1), 1e-29), np.ones((1, 2), dtype=np.int64), 1, 5, 0.1)
    np.testing.assert_allclose(tiny.rmse_by_step, np.sqrt(1e-29))
    assert score.valid_steps == 1.0
    assert Score("m", 0 * errors, np.zeros((2, 2), dtype=np.int64), 1, 5, 0.1).nmse == 0.0
    both = Comparison((score,), (), 2, 2, (0, 1), 0.1, 0.4, None, "test data")
    assert "2 rollouts of 2 steps on test data, 2 seeds" in both.title
    with pytest.raises(KeyError):
        both["n"]


def test_inputs_reach_every_reference():
    forcing = np.random.default_rng(0).standard_normal((300, 1))
    states = np.zeros((300, 1))
    for k in range(299):
        states[k + 1] = 0.9 * states[k] + 0.5 * forcing[k]
    found = compare(Dataset((Series(states, inputs=forcing),), dt=1.0), models=PLAIN, steps=40)
    assert found["linear"].nmse < 1e-20
    assert found["analog"].nmse < found["persistence"].nmse


def test_short_data_is_judged_on_shorter_rollouts(states):
    found = compare(states[:120], dt=0.01, models=["persistence"])
    assert (found.steps, found.windows) == (14, 11)  # six tenths of the last 24 rows
    asked = compare(states[:120], dt=0.01, models=["persistence"], steps=500)
    assert (asked.steps, asked.windows) == (60, 1)


def test_networks_are_fitted_under_one_recipe_with_every_seed(states):
    models, few = ("lens", "mlp", "linear"), states[:400]
    found = compare(few, dt=0.01, models=models, recipe=quick(), seeds=(0, 1), steps=40)
    assert {score.name for score in found.scores} == set(models)
    assert found["lens"].errors.shape == (2, 41, 40)
    assert found["linear"].errors.shape == (1, 41, 40)
    assert found["lens"].parameters > 0
    assert found["lens"].seconds > 0
    assert "correction weight" in found["lens"].note


def test_a_depth_is_chosen_for_each_network(states):
    found = compare(states[:400], dt=0.01, models=["mlp"], recipe=quick(), depths=(1, 2), steps=40)
    assert found["mlp"].note.endswith(("depth 1", "depth 2"))


def test_everything_is_compared_unless_told_otherwise():
    assert set(ALL) == {*MODELS, *PLAIN, "seasonal", "polynomial", "kernel", "esn"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"models": ["lense"]}, "unknown model 'lense'; did you mean 'lens'"),
        ({"models": ["mean", "mean"]}, "each of them once"),
        ({"seeds": [1, 1]}, "each of them once"),
        ({"models": []}, "at least one model"),
        ({"models": ["mean"], "seeds": ()}, "one seed"),
        ({"models": ["mean"], "others": {"mine": 3}}, "mine must be a step"),
        ({"models": ["mean"], "steps": 0}, "steps must be an integer of at least 1"),
        ({"models": ["mean"], "test": np.ones((50, 2))}, "has 2 columns and 0 inputs but the training data 3 and 0"),
        ({"models": ["mean"], "test": simulated(preset("lorenz-28"), 60).cut(0, 60), "dt": None}, "time step"),
    ],
)
def test_bad_input_gets_a_sentence(states, options, message):
    with pytest.raises(InputError, match=message):
        compare(states, **{"dt": 0.01, **options})


def test_an_object_with_a_rollout_is_judged_as_it_is(states):
    found = compare(states, dt=0.01, models=["persistence"], others={"same": Persistence()}, steps=20)
    np.testing.assert_array_equal(found["same"].errors, found["persistence"].errors)


def test_rollouts_roll_and_jump_over_gaps(states):
    test = np.arange(50.0)[:, None] * np.ones(3)
    test[20] = np.nan
    found = compare(states, test, dt=0.01, models=["persistence"], steps=8)
    # Starts at rows 2 to 11 and 23 to 41 have two rows before and eight after them without a gap.
    assert found.windows == 10 + 19


def test_rollouts_start_where_the_caller_says(states):
    other = simulate(LORENZ, 300, starts=perturbed_start(LORENZ, 7), dtype="float64")
    found = compare(states, other, dt=0.01, models=["persistence"], steps=100, starts=(100, 200))
    expected = np.square((other[[100, 200], None] - other[101:].reshape(2, 100, 3)) / states[:-1].std(0)).mean(-1)
    np.testing.assert_allclose(found["persistence"].errors[0], expected)
    for options, message in (
        ({"starts": (250,)}, "rollout of 100 steps from row 250 of trajectory 0 needs rows 248 to 350"),
        ({"starts": (1,)}, "needs rows -1 to 101"),
        ({"starts": (100,), "test": None}, "starts are rows of the test data"),
        ({"starts": (100,), "test": states[600:]}, "some rows of the test data are in the training data"),
    ):
        with pytest.raises(InputError, match=message):
            compare(states[:700], **{"test": other, "dt": 0.01, "models": ["mean"], "steps": 100, **options})


def test_a_comparison_that_was_cut_off_goes_on_with_the_models_it_lacks(states, tmp_path):
    class StopError(Exception):
        pass

    fitted = []

    def stop_at(name):
        def listen(event):
            fitted.append(event.group)
            if fitted[-1] == name:
                raise StopError

        return listen

    models, kept = ["persistence", "lens", "mlp"], tmp_path / "kept"
    words = {"dt": 0.01, "recipe": quick(epochs=1), "steps": 60}
    whole = compare(states, models=models, **words)
    with pytest.raises(StopError):
        compare(states, models=models, progress=stop_at("mlp"), checkpoint=kept, **words)
    fitted.clear()
    found = compare(states, models=models, progress=stop_at(""), checkpoint=kept, **words)
    assert set(fitted) == {"mlp"}
    for name in models:
        np.testing.assert_array_equal(found[name].errors, whole[name].errors)
        assert (found[name].note, found[name].parameters) == (whole[name].note, whole[name].parameters)
    fitted.clear()
    other = compare(states, models=["lens"], progress=stop_at(""), checkpoint=kept, **{**words, "steps": 50})
    assert set(fitted) == {"lens"}
    assert other["lens"].errors.shape[-1] == 50
    kept.write_bytes(b"no such file")
    assert compare(states, models=["mean"], checkpoint=kept, **words)["mean"].nmse > 0


def test_networks_that_were_left_out_are_named():
    errors, valid = np.full((1, 1, 3), 0.1), np.ones((1, 1), dtype=np.int64)
    scores = [
        Score("mlp", errors, valid, 1, 5, 1.0, parts=("linear", "linear")),
        Score("residual", errors, valid, 1, 5, 1.0, parts=("linear",)),
        Score("layerscale", errors, valid, 1, 5, 1.0, parts=("polynomial",)),
        Score("lens", errors, valid, 1, 5, 1.0, parts=("polynomial", "network")),
        Score("linear", np.full((1, 1, 3), np.inf), valid, 1, 5, 1.0, "ridge 1, history 1"),
    ]
    left_out = {"kernel": "too slow", "mean": "dull", "esn": "too slow"}
    found = Comparison(tuple(scores), ("linear",), 3, 1, (0,), 0.1, 0.4, None, "test data", left_out=left_out)
    assert [row[0] for row in found.table.rows] == [row[0] for row in found.leads.rows]
    assert found.table.rows[3][0] == "LensForecaster"
    assert found.remarks == [
        "mlp, residual: a linear map did best on held-out rollouts, so no network is used",
        "layerscale: a polynomial did best on held-out rollouts, so no network is used",
        "rollouts that did not stay finite: 1 of linear",
        "not compared: kernel, esn: too slow",
        "not compared: mean: dull",
    ]


def test_models_and_options_come_as_keywords_or_estimators():
    from lln.forecaster.forecaster import LensForecaster

    options = {"members": 1, "epochs": 1, "width": 8, "depth": 2, "history": 1}
    angle = 0.1 * np.arange(400)
    data = np.stack([np.cos(angle), np.sin(angle) ** 3], axis=1)
    found = compare(data, models={"keywords": options, "estimator": LensForecaster(**options)}, steps=20, dt=0.1)
    one, other = (next(score for score in found.scores if score.name == name) for name in ("keywords", "estimator"))
    np.testing.assert_array_equal(one.errors, other.errors)
    same = compare(data, models=["lens"], recipe=options, steps=20, dt=0.1)
    np.testing.assert_array_equal(same.scores[0].errors, one.errors)
    fraction = compare(data, 0.5, models=["persistence"], steps=20, dt=0.1)
    assert fraction.windows > compare(data, 0.1, models=["persistence"], steps=20, dt=0.1).windows
    with pytest.raises(InputError, match="did you mean 'epochs'"):
        compare(data, models={"mine": {"epoch": 3}}, dt=0.1)


def test_models_are_ranked_up_to_where_the_best_of_them_loses_the_truth():
    """One that is good early wins over one that is good late, when all are lost."""
    early, late = np.full((1, 20, 64), 1.0), np.full((1, 20, 64), 0.9)
    early[..., :8] = 1e-4
    valid = np.zeros((1, 20), dtype=np.int64)
    both = (Score("late", late, valid, 1, 5, 1.0), Score("early", early, valid, 1, 5, 1.0))
    found = Comparison(both, (), 64, 20, (0,), 0.1, 0.4, None, "test data").ranked()
    assert found["late"].nmse > found["early"].nmse * 0.9
    assert found.best.name == "early"
    assert found.horizon < 64
    factor, _ = found.against_best("late")
    assert factor == pytest.approx(found.error("late") / found.error("early"))
    assert "times the best" in found.leads.columns


def test_differences_are_paired_and_close_models_are_named():
    rng = np.random.default_rng(0)
    hard = np.exp(3 * rng.standard_normal((1, 30, 1))) * np.ones((1, 30, 16)) * 1e-3
    valid = np.ones((1, 30), dtype=np.int64)
    other = np.exp(3 * rng.standard_normal((1, 30, 1))) * np.ones((1, 30, 16)) * 1e-3
    scores = (
        Score("one", hard, valid, 1, 5, 1.0), Score("worse", 1.3 * hard, valid, 1, 5, 1.0),
        Score("other", 1.1 * np.exp(np.log(hard).mean() - np.log(other).mean()) * other, valid, 1, 5, 1.0),
    )  # fmt: skip
    found = Comparison(scores, (), 16, 30, (0,), 0.1, 0.4, None, "test data").ranked()
    assert found.best.name == "one"
    factor, error = found.against_best("worse")
    assert factor == pytest.approx(1.3)
    assert error < 1e-9  # every rollout is 1.3 times worse, however hard it is
    assert found.remarks == ["not clearly worse than one on these rollouts: other"]


def test_grids_are_seen_by_the_fitter():
    x = 2 * np.pi * np.arange(16) / 16
    time = 0.1 * np.arange(160)[:, None]
    field = np.sin(x - time) + 0.3 * np.sin(2 * x - 1.7 * time)
    data = Dataset((Series(field),), dt=0.1, space=(16,), channels=("u",))
    quick = {"epochs": 1, "members": 1, "width": 4, "depth": 1, "history": 1}
    found = compare(data, models={"shared": {"field": True, **quick}, "dense": {"field": False, **quick}}, steps=20)
    assert found["shared"].parameters < found["dense"].parameters  # points share their weights
    assert found["shared"].nmse < 1e-3


def test_every_reference_is_fitted_and_scored():
    rng = np.random.default_rng(1)
    season = np.sin(2 * np.pi * np.arange(240) / 12) + 0.02 * rng.standard_normal(240)
    found = compare(season[:, None], models=SIMPLE, steps=12)
    assert {score.name for score in found.scores} == set(SIMPLE)
    for name in ("seasonal", "linear", "polynomial", "kernel", "esn"):
        assert found[name].nmse < 0.05 * found["mean"].nmse, name
    assert found["seasonal"].history % 12 == 0


def season_with_gaps(rows=200, missing=0.1):
    rng = np.random.default_rng(0)
    x = 20 + 5 * np.sin(np.arange(rows) * 2 * np.pi / 12) + rng.normal(size=rows)
    x[rng.choice(np.arange(2, rows - 40), round(missing * rows), replace=False)] = np.nan
    x[rows - 20] = np.nan
    return as_dataset(x[:, None], dt=1.0)


@pytest.mark.parametrize("missing", [0.1, 0.03])
def test_gaps_are_filled_in_for_every_model_as_the_forecaster_fills_them(missing):
    data = season_with_gaps(missing=missing)
    product = LensForecaster(parts="linear").fit(data.split(0.2)[0])
    assert product.layout_.filling is not None
    found = compare(data, models=["lens", "seasonal", "persistence"], recipe={"parts": "linear"}, steps=8)
    scores = {score.name: score for score in found.scores}
    assert any("missing values were filled in before the fit" in remark for remark in found.remarks)
    assert scores["lens"].history == product.history_
    assert scores["lens"].parameters == product.parameters_
    assert all(np.isfinite(score.errors).all() for score in found.scores)  # what was filled in is not scored
    # The noise alone is a thirteenth of the variance.
    assert scores["lens"].errors.mean() < 0.15
    assert scores["seasonal"].errors.mean() < 0.35
    assert scores["persistence"].errors.mean() > 1.0


def test_a_rollout_that_the_caller_starts_may_not_run_over_a_gap():
    data = season_with_gaps()
    other = as_dataset(np.flip(np.asarray(data.series[0].states)).copy(), dt=1.0)
    for start in (15, 19):  # the gap is at row 19
        with pytest.raises(InputError, match=r"needs rows .* without a gap"):
            compare(data, other, models=["persistence"], recipe={"parts": "linear"}, starts=[start], steps=8)
