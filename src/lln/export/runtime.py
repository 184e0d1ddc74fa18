"""ONNX Runtime with its telemetry switched off.

ONNX Runtime sends usage data unless this is switched off before its first import. Every module that needs the package
imports it through this one.
"""

from __future__ import annotations

import os
from typing import Any

from lln.core.errors import InputError

SWITCH = "ORT_DISABLE_TELEMETRY"
MISSING = "ONNX export needs the packages onnx and onnxruntime; install them with `pip install 'lln[export]'`"


def onnxruntime() -> Any:
    """The package `onnxruntime`, imported with its telemetry off; InputError if it is not installed."""
    os.environ[SWITCH] = "1"
    try:
        import onnxruntime as package
    except ModuleNotFoundError as error:
        raise InputError(MISSING) from error
    package.disable_telemetry_events()
    return package
