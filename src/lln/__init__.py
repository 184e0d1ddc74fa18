"""Learnable Lens Networks: small, fast surrogates of dynamical systems that stay right for long rollouts.

Public names load on first use, because importing torch alone takes seconds and `lln --help` must not pay for it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lln.core.errors import InputError as InputError
    from lln.models import LensNetwork as LensNetwork
    from lln.ops import lens_transport as lens_transport

__version__ = "0.1.0"

_HOME = {
    "InputError": "lln.core.errors",
    "LensNetwork": "lln.models",
    "lens_transport": "lln.ops",
}
_ROOMS = {"data", "evaluate", "models", "ops", "plots", "systems", "train"}

__all__ = ["InputError", "LensNetwork", "__version__", "lens_transport"]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    if name in _ROOMS:
        return importlib.import_module(f"lln.{name}")
    raise AttributeError(f"module 'lln' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME, *_ROOMS})
