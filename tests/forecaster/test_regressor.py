from contextlib import suppress
from unittest import SkipTest

import numpy as np
import pandas as pd
import pytest
from sklearn.kernel_ridge import KernelRidge
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from lln import InputError, LensRegressor

RNG = np.random.default_rng(4)
X = RNG.uniform(-2, 2, (300, 2))
Y = np.sin(2 * X[:, 0]) * np.cos(X[:, 1]) + 0.3 * X[:, 0] ** 2


@parametrize_with_checks([LensRegressor(width=20, scale=0.3, ridge=1e-6)])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_what_scikit_learn_asks_of_a_regressor(estimator, check):
    with suppress(SkipTest):
        check(estimator)


def test_it_learns_a_smooth_function_better_than_a_plain_kernel():
    model = LensRegressor().fit(X[:200], Y[:200])
    kernel = KernelRidge(kernel="rbf", gamma=0.5, alpha=1e-6).fit(X[:200], Y[:200])
    ours, theirs = (np.abs(one.predict(X[200:]) - Y[200:]).mean() for one in (model, kernel))
    assert ours < min(theirs, 1e-3)


def test_features_are_the_columns_that_the_weights_belong_to():
    model = LensRegressor(width=30, scale=0.2, ridge=1e-8).fit(X, np.stack([Y, -Y], axis=1))
    features = model.transform(X[:5])
    assert features.shape == (5, 32)
    np.testing.assert_allclose(features @ model.coef_.T + model.intercept_, model.predict(X[:5]))
    np.testing.assert_allclose(model.predict(X)[:, 0], -model.predict(X)[:, 1], atol=1e-9)


def test_it_serves_as_a_transformer_in_a_pipeline():
    pipeline = make_pipeline(LensRegressor(width=40, scale=0.4, ridge=1e-6), KernelRidge(alpha=1e-3)).fit(X, Y)
    assert np.abs(pipeline.predict(X) - Y).mean() < 0.05


def test_noise_gets_a_larger_ridge():
    clean = LensRegressor().fit(X, Y)
    noisy = LensRegressor().fit(X, Y + RNG.standard_normal(len(Y)))
    assert noisy.ridge_ > clean.ridge_


@pytest.mark.parametrize("options", [{"scale": -1.0}, {"scale": "wide"}, {"ridge": -1.0}, {"width": 0}])
def test_wrong_options_are_refused(options):
    with pytest.raises(InputError):
        LensRegressor(**options).fit(X, Y)


def test_features_have_names_and_may_be_a_table():
    table = pd.DataFrame(X, columns=["a", "b"])
    model = LensRegressor(width=10, scale=0.3, ridge=1e-6).set_output(transform="pandas").fit(table, Y)
    assert list(model.transform(table).columns) == ["a", "b", *(f"ray{k}" for k in range(10))]
    assert list(LensRegressor(width=10).fit(X, Y).get_feature_names_out()[:3]) == ["x0", "x1", "ray0"]
