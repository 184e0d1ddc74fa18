"""The lens network as a plain regressor: drawn lenses, a readout solved in closed form in float64."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from lln.core.errors import InputError, check_int, finite
from lln.fit.closed.bases import LensBasis, drawn_lenses
from lln.fit.closed.forms import SCALES
from lln.fit.closed.ridge import RIDGES, RidgePath
from lln.step.frame import Array
from lln.train.batches import subseed

_BLOCK = 4096
_OPERATIONS = 6e9


@dataclass(eq=False, repr=False, kw_only=True)
class LensRegressor(RegressorMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn is untyped
    """Regression by a lens network whose lenses are drawn and whose readout is solved.

    Rays leave an affine embedding of X and pass through a few random lenses; their positions, and X itself, are the
    features of a ridge regression in float64. There is no gradient descent: a fit is one decomposition, and the
    accuracy is that of a kernel method whose kernel is the network.

    >>> import numpy as np
    >>> x = np.linspace(-3, 3, 200)[:, None]
    >>> model = LensRegressor(random_state=0).fit(x, np.sin(2 * x[:, 0]))
    >>> bool(abs(model.predict([[0.5]])[0] - np.sin(1.0)) < 1e-3)
    True

    Args:
        width: number of rays; "auto" takes twice as many as there are rows, up to 1,200.
        scale: standard deviation of the embedding, for standardised X; "auto" chooses on held-out rows.
        ridge: penalty, relative to the largest squared singular value; "auto" chooses on held-out rows.
        validation: fraction of the rows that is held out while choosing.
        random_state: an integer; the same one draws the same lenses.

    Attributes:
        scale_: the scale in use.
        ridge_: the ridge in use.
        coef_: weights of the features, (targets, n_features + width).
        intercept_: (targets,).
        n_features_in_: number of columns of X.
    """

    width: int | str = "auto"
    scale: float | str = "auto"
    ridge: float | str = "auto"
    validation: float = 0.2
    random_state: int = 0

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from rows X (rows, columns) and targets y (rows,) or (rows, targets)."""
        X, y = validate_data(self, X, y, multi_output=True, y_numeric=True, dtype=np.float64)
        weights = None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        if weights is not None and (weights.shape != (len(X),) or not (weights >= 0).all()):
            raise InputError(f"sample_weight must hold {len(X)} numbers of at least 0, one for each row")
        if weights is not None and not weights.any():
            raise InputError("Sample weights must contain at least one non-zero number, got zeros alone")
        self._flat = y.ndim == 1
        targets = np.asarray(y, dtype=np.float64).reshape(len(X), -1)
        self._mean = np.average(X, axis=0, weights=weights)
        deviation = np.sqrt(np.average((X - self._mean) ** 2, axis=0, weights=weights))
        self._deviation = np.where(deviation > 0, deviation, 1.0)
        rows = (X - self._mean) / self._deviation
        self.scale_, self.ridge_ = self._choose(rows, targets, weights)
        self._basis = self._drawn(self.scale_, len(rows), rows.shape[1])
        path = RidgePath(_blocks(self._basis, rows, targets, weights))
        self.coef_, self.intercept_ = path.solve(self.ridge_)
        return self

    def transform(self, X: Any) -> Array:
        """The features of rows: X standardised, then the positions of the rays, (rows, n_features + width)."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=np.float64)
        return _columns(self._basis, (X - self._mean) / self._deviation)

    def predict(self, X: Any) -> Array:
        """The targets of rows."""
        found = self.transform(X) @ self.coef_.T + self.intercept_
        return np.asarray(found[:, 0] if self._flat else found)

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """Names of the features that `transform` makes: those of X, then ray0, ray1, ..."""
        check_is_fitted(self)
        names = getattr(self, "feature_names_in_", [f"x{k}" for k in range(self.n_features_in_)])
        if input_features is not None and list(input_features) != list(names):
            raise InputError(f"input_features is not equal to the names of the columns in fit, {', '.join(names)}")
        rays = self.coef_.shape[1] - len(names)
        return np.asarray([*names, *(f"ray{k}" for k in range(rays))], dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def _choose(self, rows: Array, targets: Array, weights: Array | None) -> tuple[float, float]:
        scales = SCALES if self.scale == "auto" else (_positive("scale", self.scale),)
        ridges = RIDGES if self.ridge == "auto" else (_positive("ridge", self.ridge, least=0.0),)
        held = max(1, round(float(self.validation) * len(rows)))
        if len(scales) * len(ridges) == 1 or len(rows) <= 4:
            return scales[0], ridges[0]
        order = np.random.default_rng(subseed(self.random_state, "rows")).permutation(len(rows))
        judge, train = order[:held], order[held:]
        best = (math.inf, scales[0], ridges[0])
        for scale in scales:
            basis = self._drawn(scale, len(train), rows.shape[1])
            some = None if weights is None else weights[train]
            path = RidgePath(_blocks(basis, rows[train], targets[train], some))
            errors = path.one_step(_columns(basis, rows[judge]), targets[judge], ridges)
            place = int(np.argmin(np.where(np.isfinite(errors), errors, np.inf)))
            best = min(best, (float(errors[place]), scale, ridges[place]))
        return best[1], best[2]

    def _drawn(self, scale: float, rows: int, columns: int) -> LensBasis:
        if self.width == "auto":
            width = int(min(1200, 2 * rows, max(50, math.sqrt(_OPERATIONS / (2 * rows)))))
        else:
            width = check_int("width", self.width, 1)  # type: ignore[arg-type]  # a text is refused there
        return drawn_lenses(range(columns), columns, 1, max(width, 8), scale, subseed(self.random_state, "lenses"))


def _columns(basis: LensBasis, rows: Array) -> Array:
    return np.concatenate([rows, basis.columns(rows)], axis=1)


def _blocks(basis: LensBasis, rows: Array, targets: Array, weights: Array | None) -> Any:
    for first in range(0, len(rows), _BLOCK):
        part = slice(first, first + _BLOCK)
        yield _columns(basis, rows[part]), targets[part], None if weights is None else weights[part]


def _positive(name: str, value: Any, least: float | None = None) -> float:
    if isinstance(value, str):
        raise InputError(f'{name} must be a number or "auto", got {value!r}')
    number = finite(name, value)
    if number < 0 or (least is None and number == 0):
        raise InputError(f"{name} must be {'positive' if least is None else 'at least 0'}, got {number}")
    return number
