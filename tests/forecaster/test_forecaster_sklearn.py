from contextlib import suppress
from unittest import SkipTest

import pytest
from forecasters import QUICK, lorenz
from sklearn.base import BaseEstimator, clone
from sklearn.model_selection import GridSearchCV, TimeSeriesSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from lln import LensForecaster

EXCEPTIONS = {
    "check_fit1d": "an array of one dimension is a series of one coordinate",
    "check_fit2d_predict1d": "one state (n,) is a valid start here and gives one state",
    "check_dtype_object": "wrong input is an InputError, which is a ValueError; the check wants a TypeError",
}


def exceptions(_):
    return EXCEPTIONS


class WithoutTargets(LensForecaster, BaseEstimator):
    """The estimator for scikit-learn's checks, which hand every estimator a y; ours refuses one.

    The checks warn of estimators without scikit-learn's own base class; it stands behind ours, which answers first.
    """

    def fit(self, X, y=None):  # noqa: ARG002
        return super().fit(X)


@parametrize_with_checks(
    [
        WithoutTargets(recipe="paper", width=4, depth=1, basis=4, epochs=1),
        # Rows that are predicted one by one need a model that looks at one state.
        WithoutTargets(parts=("linear", "polynomial", "lens"), history=1),
    ],
    expected_failed_checks=exceptions,
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_what_scikit_learn_asks_of_an_estimator(estimator, check):
    with suppress(SkipTest):  # scikit-learn's way to say that a check needs what is switched off here
        check(estimator)


def test_targets_are_refused_in_one_sentence():
    with pytest.raises(ValueError, match="fit takes no y"):
        LensForecaster().fit(lorenz()[:50], lorenz()[1:51])


def test_in_a_pipeline_and_a_grid_search():
    pipeline = make_pipeline(StandardScaler(), LensForecaster(**QUICK)).fit(lorenz()[:300])
    assert pipeline.predict(lorenz()[:5]).shape == (5, 3)
    search = GridSearchCV(LensForecaster(**QUICK), {"width": [4, 8]}, cv=TimeSeriesSplit(2), error_score="raise")
    search.fit(lorenz()[:400])
    assert search.best_params_["width"] in (4, 8)


def test_parameters_are_read_and_set_by_name():
    forecaster = clone(LensForecaster(width=4))
    assert forecaster.set_params(width=8, ridge=None).get_params()["width"] == 8
    assert repr(forecaster) == "LensForecaster(ridge=None, width=8)"
    with pytest.raises(ValueError, match="LensForecaster has no parameter 'widht'; did you mean 'width'"):
        forecaster.set_params(widht=3)
