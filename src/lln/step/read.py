"""A step of any kind from its record and arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from lln.core.errors import choice
from lln.step.base import AnyStep
from lln.step.dense import DenseStep
from lln.step.field import FieldStep

STEPS: dict[str, type[AnyStep]] = {kind.kind: kind for kind in (DenseStep, FieldStep)}


def step_of(record: Mapping[str, Any], arrays: Mapping[str, Any], device: torch.device | str = "cpu") -> AnyStep:
    """The step that `Step.record` and `Step.arrays` describe."""
    return STEPS[choice("surrogate", str(record["surrogate"]), STEPS)].from_arrays(record, arrays, device)
