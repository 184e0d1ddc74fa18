"""The options of a training, checked and frozen."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from lln.core.errors import InputError, did_you_mean
from lln.train.loop import Schedule


class TrainConfig(BaseModel):
    """One training recipe; the defaults are the paper's six-epoch Adam runs of the lens network.

    Attributes:
        epochs: passes over the training pairs.
        batch_size: pairs in one update; the last batch of an epoch takes what is left.
        learning_rate: at the start.
        optimizer: "adam", whose weight decay adds to the gradient, or "adamw", whose weight decay shrinks weights.
        weight_decay: its strength.
        clip: largest norm of the whole gradient; None leaves it as it is.
        schedule: "constant", or "cosine" from `learning_rate` down to zero over all updates.
        seed: of the order in which pairs are visited.
    """

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", allow_inf_nan=False)

    epochs: int = Field(6, ge=1)
    batch_size: int = Field(64, ge=1)
    learning_rate: float = Field(1e-3, gt=0)
    optimizer: Literal["adam", "adamw"] = "adam"
    weight_decay: float = Field(0.0, ge=0)
    clip: float | None = Field(None, gt=0)
    schedule: Literal["constant", "cosine"] = "constant"
    seed: int = Field(0, ge=0)

    def __init__(self, **options: Any) -> None:
        """Check the options; the first fault is reported in one sentence."""
        try:
            super().__init__(**options)
        except ValidationError as error:
            raise InputError(_sentence(error)) from None

    def rate(self, update: int, updates: int) -> float:
        """Learning rate of update number `update` (from 0) of `updates` in all."""
        return Schedule(updates, self.learning_rate, self.schedule).at(update, updates)


def _sentence(error: ValidationError) -> str:
    fault = error.errors()[0]
    key = ".".join(map(str, fault["loc"]))
    if fault["type"] == "extra_forbidden":
        return f"the training configuration has no option {key!r}{did_you_mean(key, TrainConfig.model_fields)}"
    if fault["type"] == "literal_error":
        return f"{key} of the training configuration must be {fault['ctx']['expected']}, got {fault['input']!r}"
    wish = fault["msg"].replace("Input should be", "must be")
    return f"{key} of the training configuration {wish}, got {fault['input']!r}"
