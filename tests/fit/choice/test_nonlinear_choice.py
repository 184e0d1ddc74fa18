from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from lln.data.series import Dataset, Series
from lln.fit.choice.holdout import RolloutErrors, folds
from lln.fit.choice.models import Choice, best_forms
from lln.fit.choice.noise_and_seasons import nonlinear_histories
from lln.fit.closed.bases import ClosedChoice, Scored
from lln.fit.closed.forms import ClosedForms
from lln.fit.fitter import DenseFitting, Recipe
from lln.fit.prepare import FrameChoice
from lln.train.loop import Checkpoint


def test_folds_with_few_rows_do_not_judge_a_nonlinear_part(monkeypatch):
    states = np.cumsum(np.random.default_rng(1).standard_normal((600, 1)), axis=0)
    data = Dataset((Series(states),), dt=1.0)
    fitting = DenseFitting(data, Recipe(), (0,), lambda _: None, Checkpoint(None, ""), None)

    def refuse(_fold):
        raise AssertionError("judged")

    monkeypatch.setattr(fitting, "_forms", refuse)
    linear, lens = FrameChoice(1, 1e-6, None), ClosedChoice("lens", 1, 1e-6, scale=0.2, width=800)
    fitting.origins = list(folds(data.cut(0, 300), 0.2, 1))
    assert fitting._steadily_better(lens, linear, 1.0, sure=True)
    fitting.origins = list(folds(data.cut(0, 500), 0.2, 1))
    with pytest.raises(AssertionError, match="judged"):
        fitting._steadily_better(lens, linear, 1.0, sure=True)


def test_the_longest_histories_are_tried_where_noise_hides_what_they_gain():
    states = Dataset((Series(np.random.default_rng(0).standard_normal((200, 3))),), dt=1.0)
    histories = nonlinear_histories(states, noisy=True)
    assert histories == (1, 2, 3, 5, 8, 12)
    near = [ClosedChoice("lens", history, 1e-6) for history in (2, 1, 3)]
    noisy = SimpleNamespace(_at_noise=True, _histories=list(histories))
    assert [(one.history, one.lags) for one in ClosedForms._longer(noisy, near)] == [(8, True), (12, True)]
    assert not ClosedForms._longer(SimpleNamespace(_at_noise=False, _histories=list(histories)), near)


def test_the_last_lead_times_decide_among_closed_forms_of_clean_data():
    def rolled(kind, values):
        errors = RolloutErrors(tuple(2**k for k in range(7)), np.array([values] * 2))
        return Scored(ClosedChoice(kind, 1, 1e-6), errors)

    exact = rolled("polynomial", [1e-9, 1e-8, 1e-6, 1e-4, 1e-2, 0.1, 0.2])
    keeps = rolled("lens", [1e-5, 1e-5, 1e-4, 1e-3, 5e-3, 2e-2, 0.1])
    assert best_forms([exact, keeps], 64, noisy=False) == [keeps.choice, exact.choice]
    assert best_forms([exact, keeps], 64, noisy=True) == [exact.choice, keeps.choice]


def test_of_lenses_that_noise_makes_alike_the_longest_history_is_taken():
    rng = np.random.default_rng(0)

    def rolled(history, error):
        values = error * np.exp(0.3 * rng.standard_normal((12, 4)))
        return Scored(ClosedChoice("lens", history, 1e-6), RolloutErrors((1, 2, 4, 8), values))

    short, medium, long, bad = rolled(2, 0.100), rolled(5, 0.102), rolled(8, 0.104), rolled(12, 0.2)
    scored = [short, medium, long, bad]
    assert best_forms(scored, 8, noisy=True, overlap=2.0)[0] == long.choice
    assert best_forms(scored, 8, noisy=False)[0] != bad.choice
    one = [replace(form, errors=replace(form.errors, values=form.errors.values[:1])) for form in scored]
    assert best_forms(one, 8, noisy=True)[0] == min(one, key=lambda form: form.errors.score(noisy=True)).choice


@pytest.mark.parametrize(
    ("plain", "part"),
    [
        ([1e-9, 1e-9, 1.0, 1.0, 1.0, 1.0, 1.0], "lens"),  # lost early
        ([1e-9, 1e-8, 1e-7, 1e-6, 0.25, 0.25, 0.25], None),  # worse at the end, far better on the way there
        ([1e-9, 1e-9, 1e-9, 0.2, 0.25, 0.25, 0.25], "lens"),  # better in the first steps alone
        ([1e-9] * 7, None),
    ],
)
def test_a_closed_form_of_clean_data_that_is_better_at_late_lead_times_is_used(plain, part, monkeypatch):
    states = np.sin(np.arange(600) / 5)[:, None]
    fitting = DenseFitting(
        Dataset((Series(states),), dt=1.0), Recipe(), (0,), lambda _: None, Checkpoint(None, ""), None
    )
    fitting.noise = replace(fitting.noise, found=False)
    fitting.fold = replace(fitting.fold, steps=64)
    leads = tuple(2**k for k in range(7))
    lens = np.full((5, 7), 0.2)
    monkeypatch.setattr(fitting, "_alone", lambda _: Choice(FrameChoice(1, None, 1e-6), None, 0.0))
    monkeypatch.setattr(fitting, "_linear_errors", lambda *_: RolloutErrors(leads, np.array([plain] * 5)))
    chosen = fitting._simple(None, [Scored(ClosedChoice("lens", 1, 1e-6, width=9), RolloutErrors(leads, lens))])
    assert (None if chosen.closed is None else chosen.closed.kind) == part
