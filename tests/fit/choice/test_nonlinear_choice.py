import numpy as np
import pytest

from lln.data.series import Dataset, Series
from lln.fit.choice.holdout import folds
from lln.fit.closed.forms import ClosedChoice
from lln.fit.fitter import DenseFitting, Recipe
from lln.fit.prepare import FrameChoice
from lln.train.checkpoint import Checkpoint


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
