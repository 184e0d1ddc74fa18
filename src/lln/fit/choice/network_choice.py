"""The choice of a trained network on held-out rollouts: when to stop, its readout and the weight of its correction."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor, nn

from lln.fit.choice.holdout import Fold, Windows
from lln.fit.choice.linear_choice import ALIKE
from lln.fit.choice.scores import better_by
from lln.fit.closed.choices import ClosedChoice, Scored
from lln.fit.defaults import CORRECTION_WEIGHTS
from lln.fit.prepare import FrameChoice
from lln.models.stacked import Ensemble
from lln.step.base import roll
from lln.step.dense import DenseStep
from lln.step.frame import Array, Frame
from lln.train.batches import Batches
from lln.train.ensemble import ReadoutFit, Trained, join

READOUTS: tuple[float | None, ...] = (None, 1e-9, 1e-6)
_EARLY = math.log(2.0)
_RAW = math.log(2.0)
_READOUT_ROWS = 16384


@dataclass(frozen=True)
class NetworkChoice:
    """How a trained network is used: at which stop, with which readout, at which correction_weight."""

    stop: int
    readout: float | None
    correction_weight: float


@dataclass(frozen=True)
class Choice:
    """What one seed uses.

    Attributes:
        candidate: its frame.
        setting: of the network; None for the linear part alone.
        error: log error of held-out rollouts.
        closed: a closed form with more than a linear part; None for none.
    """

    candidate: FrameChoice
    setting: NetworkChoice | None
    error: float
    closed: ClosedChoice | None = None


def steady_score(one: Scored, scored: Sequence[Scored], *, noisy: bool) -> float:
    """The mean score over neighbouring ridges: one that is good alone was lucky, which does not outlast a refit."""
    setting, ridge = replace(one.choice, ridge=0.0), one.choice.ridge
    near = [
        other for other in scored
        if replace(other.choice, ridge=0.0) == setting and 0.05 * ridge <= other.choice.ridge <= 20.0 * ridge
    ]  # fmt: skip
    return float(np.mean([other.errors.score(noisy=noisy) for other in near]))


def where_it_counts(scored: list[Scored], steps: int, *, noisy: bool) -> list[Scored]:
    """Closed forms at the lead times that decide among them.

    All lead times, unless the best over all loses the truth earlier than another: what is most exact in its first steps
    is then not what is right for longest, and the last lead times tell.
    """
    best = min(scored, key=lambda one: steady_score(one, scored, noisy=noisy))
    if noisy or best.errors.valid_steps() == max(one.errors.valid_steps() for one in scored):
        return scored
    return [Scored(one.choice, one.errors.late(steps)) for one in scored]


def best_form(scored: list[Scored], steps: int, *, noisy: bool) -> ClosedChoice:
    """The best closed form; of those that do about as well, the one with fewer numbers."""
    scored = where_it_counts(scored, steps, noisy=noisy)
    best = min(scored, key=lambda one: steady_score(one, scored, noisy=noisy))
    fewer = [one for one in scored if one.choice.size < best.choice.size and alike(one, best, noisy=noisy)]
    return min(fewer, key=lambda one: one.choice.size, default=best).choice


def alike(one: Scored, best: Scored, *, noisy: bool) -> bool:
    """Whether a closed form does about as well as the best one."""
    gain, error = better_by(best.errors, one.errors, noisy=noisy)
    return gain < min(ALIKE, error)


def overlap(fold: Fold) -> float:
    """By how much the standard error of held-out windows is too small because they overlap."""
    rows = sum(last - first for _, first, last in fold.held_out)
    return math.sqrt(max(1.0, len(fold.windows) * fold.steps / max(rows, 1)))


@dataclass(frozen=True, eq=False)
class Judgement:
    """How one trained ensemble did, for each group of members.

    Attributes:
        errors: log error of each setting, (G,).
    """

    errors: dict[NetworkChoice, Array] = field(default_factory=dict)

    def best(self, group: int) -> tuple[NetworkChoice, float]:
        """The best setting of one group, and its log error.

        A snapshot before the schedule has run down, or a readout that was not solved for, is good by luck more often
        than others are; when everything trains again, the luck is gone.
        """
        last = max((setting.stop for setting in self.errors if setting.readout is not None), default=0)

        def expected(setting: NetworkChoice) -> float:
            early, raw = setting.stop < last, setting.readout is None and setting.stop <= last
            return float(self.errors[setting][group]) + early * _EARLY + raw * _RAW

        setting = min(self.errors, key=expected)
        return setting, float(self.errors[setting][group])


def judge(
    trained: Trained,
    frame: Frame,
    windows: Windows,
    source: Batches,
    allowed: torch.Tensor | None,
    groups: int,
    settings: Sequence[NetworkChoice] | None = None,
) -> Judgement:
    """Roll every group out at every stop, readout and correction_weight (or at the given settings)."""
    weights = (
        CORRECTION_WEIGHTS if settings is None else tuple(sorted({setting.correction_weight for setting in settings}))
    )
    wanted = None if settings is None else {(setting.stop, setting.readout) for setting in settings}
    uses: list[tuple[int, float | None]] = []
    states: list[dict[str, torch.Tensor]] = []
    model = trained.model
    for stop, snapshot in enumerate(trained.snapshots):
        # What was trained over several steps, behind the last stop, would be undone by another readout.
        readouts = READOUTS if stop < trained.stops else (None,)
        readouts = tuple(one for one in readouts if wanted is None or (stop, one) in wanted)
        if not readouts:
            continue
        model.load_state_dict(snapshot)
        fit = ReadoutFit(model, *source.some(_READOUT_ROWS), allowed)
        for readout in readouts:
            model.load_state_dict(snapshot)
            if readout is not None:
                fit.apply(readout)
            uses.append((stop, readout))
            states.append({name: tensor.clone() for name, tensor in model.state_dict().items()})
    # All of them go through one rollout side by side: its length, not its width, is what takes time.
    rolled = roll_groups(join(model, states), frame, windows, len(uses) * groups, weights)
    errors = windows.log_error(rolled).reshape(len(uses), groups, len(weights))
    found = {
        NetworkChoice(stop, readout, correction_weight): errors[index, :, place]
        for index, (stop, readout) in enumerate(uses)
        for place, correction_weight in enumerate(weights)
    }
    return Judgement(found)


def adopt(trained: Trained, setting: NetworkChoice, source: Batches, allowed: torch.Tensor | None) -> Ensemble:
    """The ensemble as `setting` uses it."""
    model = trained.model
    model.load_state_dict(trained.snapshots[setting.stop])
    if setting.readout is not None:
        ReadoutFit(model, *source.some(_READOUT_ROWS), allowed).apply(setting.readout)
    return model


def roll_groups(model: Ensemble, frame: Frame, windows: Windows, groups: int, weights: Sequence[float]) -> Array:
    """The states of every group of members at every weight: (G, A, W, steps, n), in the units of the data."""
    weighted = replace(frame, gain=np.asarray(weights)[:, None, None] * frame.gain)
    step = DenseStep(weighted, [_GroupMeans(model, groups)])
    start = torch.from_numpy(windows.start).to(step.device)
    known = None if windows.inputs is None else torch.from_numpy(windows.inputs).to(step.device)
    states = roll(step, start.expand(groups, len(weights), *start.shape), windows.truth.shape[1], known)
    rows: Array = states.cpu().numpy()
    return rows


class _GroupMeans(nn.Module):
    """The mean output of each group of an ensemble: (G, ..., F) -> (G, ..., n)."""

    def __init__(self, model: Ensemble, groups: int) -> None:
        super().__init__()
        self.model, self.groups, self.each = model, groups, len(model) // groups

    def forward(self, features: Tensor) -> Tensor:
        rows = features.reshape(self.groups, 1, -1, features.shape[-1]).expand(-1, self.each, -1, -1)
        out: Tensor = self.model(rows.reshape(self.groups * self.each, -1, features.shape[-1])).double()
        return out.reshape(self.groups, self.each, *features.shape[1:-1], -1).mean(dim=1)
