"""What scikit-learn asks of an estimator, without importing it: that takes longer than many fits."""

from __future__ import annotations

import inspect
from typing import Any, Self

from lln.core.errors import InputError, did_you_mean


class Estimator:
    """Parameters by name, as scikit-learn's `clone`, pipelines and searches handle them.

    A subclass takes its parameters as keywords and stores each under its own name, unchanged.
    """

    @classmethod
    def _parameters(cls) -> dict[str, Any]:
        """Every parameter with its default."""
        signature = inspect.signature(cls.__init__)
        return {name: one.default for name, one in signature.parameters.items() if name != "self"}

    def get_params(self, deep: bool = True) -> dict[str, Any]:  # noqa: ARG002 - no parameter is an estimator
        """The parameters by name."""
        return {name: getattr(self, name) for name in sorted(self._parameters())}

    def set_params(self, **params: Any) -> Self:
        """Change some parameters."""
        known = self._parameters()
        for name in params:
            if name not in known:
                raise InputError(f"{type(self).__name__} has no parameter {name!r}{did_you_mean(name, known)}")
        for name, value in params.items():
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        defaults = self._parameters()
        changed = [
            f"{name}={value!r}"
            for name, value in self.get_params().items()
            if type(value) is not type(defaults[name]) or repr(value) != repr(defaults[name])
        ]
        return f"{type(self).__name__}({', '.join(changed)})"

    def _repr_html_(self) -> str:
        from sklearn.utils import estimator_html_repr

        return str(estimator_html_repr(self))

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import InputTags, Tags, TargetTags

        return Tags(
            estimator_type=None, target_tags=TargetTags(required=False), transformer_tags=None,
            classifier_tags=None, regressor_tags=None, input_tags=InputTags(),
        )  # fmt: skip
