"""Options of a forecaster, given as keyword arguments in a mapping or as an estimator."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from lln.core.errors import InputError, did_you_mean
from lln.forecaster.forecaster import LensForecaster

_OTHER_NAMES = {"seed": "random_state", "horizon": "optical_length"}


def keyword_options(given: LensForecaster | Mapping[str, Any] | None) -> dict[str, Any]:
    """The keyword arguments of `LensForecaster` that differ from its defaults.

    Args:
        given: an estimator, a mapping of keyword arguments, or None for the defaults. `seed` and `horizon` are
            other names for `random_state` and `optical_length`.
    """
    defaults = {
        name: one.default
        for name, one in inspect.signature(LensForecaster.__init__).parameters.items()
        if one.kind is inspect.Parameter.KEYWORD_ONLY
    }
    if given is None:
        return {}
    if isinstance(given, LensForecaster):
        given = {name: value for name, value in given.get_params(deep=False).items() if value != defaults[name]}
    if not isinstance(given, Mapping):
        raise InputError(f"options are keyword arguments of LensForecaster or an estimator, got {type(given).__name__}")
    options = {_OTHER_NAMES.get(name, name): value for name, value in given.items()}
    for old, name in _OTHER_NAMES.items():
        if old in given and name in given:
            raise InputError(f"{old} is another name of {name}; give one of the two")
    for name in options:
        if name not in defaults:
            raise InputError(
                f"LensForecaster has no option {name!r}{did_you_mean(str(name), defaults)}", topic="unknown-name"
            )
    return options
