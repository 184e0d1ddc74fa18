"""The defaults of the two strategies, dense states and fields, in one table.

==================  =============================  ============================================
option              dense                          field
==================  =============================  ============================================
members             3                              2
correction weights  0.25, 0.5, 0.75, 1             the same
ridges              `RIDGES` of `closed/ridge.py`  `FIELD_RIDGES` of `closed/ridge.py`
refit               everything trains again        closed-form parts are solved again; networks
                                                   keep what they learned without held-out rows
noise on inputs     none                           0.003 on a CPU; 0.001, 0.003 or 0.01 on GPUs
updates             `trials.py`                    2,500 on a CPU, 8,000 on a GPU
==================  =============================  ============================================
"""

from __future__ import annotations

from dataclasses import dataclass

CORRECTION_WEIGHTS = (0.25, 0.5, 0.75, 1.0)
VALIDATION = 0.2


@dataclass(frozen=True)
class FieldBudget:
    """Optimizer steps of a field fit on one kind of device."""

    updates: int  #: of the training on single steps.
    fine: int  #: of each fine-tuning.
    screening: float  #: fraction of `updates` by which frames and levels of noise are compared.
    noises: tuple[float, ...]  #: levels of noise on the inputs that are compared, in units of the spread.


DENSE_MEMBERS = 3
FIELD_MEMBERS = 2
_BUDGETS = {"cpu": FieldBudget(2500, 600, 0.15, (0.003,)), "cuda": FieldBudget(8000, 2000, 0.25, (0.001, 0.003, 0.01))}


def field_budget(device: str) -> FieldBudget:
    """What a device trains in a few minutes."""
    return _BUDGETS["cuda" if device.startswith("cuda") else "cpu"]
