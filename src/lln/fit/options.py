"""Options of a fit, progress events, and the report of a fit, as plain data."""

from __future__ import annotations

import enum
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from lln.core.errors import InputError, check_device, check_int, choice, did_you_mean, finite, positive
from lln.core.table import plain
from lln.fit.choice.holdout import Part
from lln.fit.report.words import report_line, report_page
from lln.models.factory import state_networks
from lln.step.parts import PARTS as OTHER_PARTS
from lln.step.step import AnyStep

RECIPES = ("lens", "paper")
PARTS = ("linear", "polynomial", "flow", "lens", "network")
_OLD_NAMES = {"share": "correction_weight", "reach": "radius", "horizon": "optical_length"}  # in stored files
_OLD_METHODS = {"linear map": "linear", "the last season": "seasonal", "the training mean": "mean"}  # and in `skill`


class Phase(enum.StrEnum):
    """What a fit is doing."""

    GRID = "grid"
    LINEAR = "linear part"
    CLOSED = "closed forms"
    SCREENING = "screening"
    CHOOSING = "choosing"
    TRAINING = "training"
    UNROLLED = "training over several steps"
    WEIGHT = "correction weight"
    REFIT = "refit"
    INTERVALS = "intervals"


@dataclass(frozen=True)
class Recipe:
    """How a surrogate is made: the parameters of `LensForecaster`; None and "auto" leave a choice to the recipe.

    The recipe "paper" is the paper's own: next state, one network, six epochs, no linear part. `refit` trains
    everything once the choices are made; of fields only closed-form parts are solved again. `parts` may also name parts
    of other packages; "auto" tries all of lln's own and, where options of a trained network are given, linear parts and
    one.
    """

    recipe: str = "lens"
    model: str = "lens"
    width: int | None = None
    depth: int | None = None
    basis: int | None = None
    optical_length: float | None = None
    history: int | str = "auto"
    ridge: float | str | None = "auto"
    members: int | None = None
    epochs: int | str = "auto"
    batch_size: int | None = None
    learning_rate: float | None = None
    unroll: int | str = "auto"
    time_limit: float | None = None
    seed: int = 0
    device: str = "cpu"
    validation: float | None = None
    refit: bool = True
    parts: str | tuple[str, ...] = "auto"

    def __post_init__(self) -> None:
        """Check every choice; the first fault is reported in one sentence."""
        choice("recipe", self.recipe, RECIPES)
        if self.model != "lens":
            choice("model", self.model, state_networks())
        for name, least in (("width", 1), ("depth", 1), ("basis", 1), ("members", 1), ("batch_size", 1)):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, check_int(name, getattr(self, name), least))
        for name in ("optical_length", "learning_rate", "time_limit"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, positive(name, getattr(self, name)))
        for name, least in (("history", 1), ("epochs", 1), ("unroll", 0)):
            if getattr(self, name) != "auto":
                object.__setattr__(self, name, _auto(name, getattr(self, name), least))
        if self.ridge not in ("auto", None):
            object.__setattr__(self, "ridge", _not_negative(self.ridge))
        if self.validation is not None and not 0 < finite("validation", self.validation) < 1:
            raise InputError(f"validation must be a fraction between 0 and 1, got {self.validation}")
        if self.refit not in (True, False):
            raise InputError(f"refit must be true or false, got {self.refit!r}")
        check_int("seed", self.seed, 0)
        object.__setattr__(self, "parts", _parts(self.parts))
        check_device(self.device)
        if self.model != "lens" and (self.basis is not None or self.optical_length is not None):
            raise InputError(f"basis and optical_length belong to the lens network; model {self.model!r} has neither")

    @property
    def tried_parts(self) -> tuple[str, ...]:
        """The parts that a fit tries; where options of a trained network are given, one is trained."""
        if self.parts != "auto":
            return tuple(self.parts)
        names = ("width", "depth", "basis", "optical_length", "members", "batch_size", "learning_rate")
        given = any(getattr(self, name) is not None for name in names)
        trained = given or self.epochs != "auto" or self.unroll not in ("auto", 0)
        return ("linear", "network") if trained or self.model != "lens" or self.ridge is None else PARTS

    @property
    def sizes(self) -> dict[str, Any]:
        """The sizes that were given, by the names of the networks' options."""
        names = ("width", "depth", "basis", "optical_length")
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}

    def record(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Recipe:
        """The recipe that `record` wrote down; choices that this version does not know are refused."""
        known = [one.name for one in fields(cls)]
        choices = {_OLD_NAMES.get(name, name): value for name, value in record.items()}
        for name in choices:
            if name not in known:
                raise InputError(f"the recipe has no option {name!r}{did_you_mean(name, known)}", topic="unknown-name")
        return cls(**choices)


@dataclass(frozen=True)
class Event:
    """What a progress callback receives."""

    phase: Phase  #: what is being done.
    done: int  #: number of pieces that are done.
    total: int  #: number of pieces in all.
    message: str = ""  #: details, as text.
    part: int = 0  #: which run of this phase, from 1; 0 where there is one alone.
    parts: int = 0  #: how many runs of it there are.
    group: str = ""  #: which of several models, by name; empty where there is one alone.

    def __str__(self) -> str:
        which = f" {self.part}/{self.parts}" if self.parts else ""
        return f"{self.phase}{which}: {self.done} of {self.total}" + (f", {self.message}" if self.message else "")


Progress = Callable[[Event], object]


def say_nothing(event: Event) -> None:
    """Ignore progress events."""
    del event


@dataclass(frozen=True, repr=False)
class FitReport:
    """What was done, as plain values."""

    n: int = 0  #: number of coordinates.
    trajectories: int = 1  #: number of them.
    pairs: int = 0  #: that trained in the end.
    left_out: int = 0  #: pairs that touch a gap.
    #: estimated standard deviation of observation noise against that of the states; an upper bound unless `noisy`.
    noise: float = math.nan
    noise_of_increments: float = math.nan  #: the same against one step's change.
    noisy: bool = False  #: whether noise was found that matters.
    #: what was tried, with the normalised mean square error of held-out rollouts.
    candidates: list[dict[str, Any]] = field(default_factory=list)
    history: int = 1  #: states that a step looks at.
    ridge: float | None = None  #: of the linear part; None without one.
    radius: int | None = None  #: of the neighbourhood on the grid that it looks at, in points; None for all.
    correction_weight: float = 0.0  #: of the networks; 0 if the linear part alone did better.
    #: which kind of part forecasts: "persistence", "drift", "mean", "smoothing", "last change", "seasonal naive",
    #: "linear", "polynomial", "flow", "lens" (in closed form) or "network".
    part: str = ""
    degree: int | None = None  #: of a polynomial part or of a polynomial vector field.
    lead_times: tuple[int, ...] = ()  #: in steps, at which held-out rollouts were scored.
    #: normalised mean square error at each lead time, by name: the model, its linear part, simple references.
    skill: dict[str, list[float]] = field(default_factory=dict)
    valid_steps: int = 0  #: the longest lead time at which the model forecasts; 0 if it never does.
    #: half widths of prediction intervals, as `Intervals.record` gives them; empty for none.
    intervals: dict[str, Any] = field(default_factory=dict)
    #: how many held-out states the 90 % intervals cover, as a fraction; None where there are none.
    coverage_90: float | None = None
    #: largest Lyapunov exponent of the learned step, per unit of time; None where it is not chaotic.
    exponent: float | None = None
    #: settings of the closed-form part, from which it is solved again on new data; empty for networks.
    structure: dict[str, Any] = field(default_factory=dict)
    model: str = ""  #: name of the network; empty if none is used.
    width: int | None = None  #: of a member.
    depth: int | None = None  #: of a member.
    basis: int | None = None  #: of a lens.
    optical_length: float | None = None  #: of a lens network.
    members: int = 0  #: in the ensemble.
    updates: int = 0  #: optimizer steps of the last training.
    unroll: int = 0  #: steps of the fine-tuning over several steps.
    parameters: int = 0  #: numbers that were fitted, linear part and all members.
    parameters_per_member: int = 0  #: of one network.
    linear_parameters: int = 0  #: of the linear part.
    seconds: float = 0.0  #: that it took.
    #: normalised mean square error of held-out rollouts of the chosen model, geometric mean over windows and leads.
    held_out_nmse: float = math.nan
    linear_nmse: float = math.nan  #: the same for the linear part alone.
    held_out_steps: int = 0  #: length of those rollouts.
    spectral_radius: float = math.nan  #: of the linear part; above one it grows without bound in the long run.
    #: fraction of hidden positions outside the control points on the training data; None without lenses.
    coverage: float | None = None
    #: smallest and largest standardised value of each coordinate in training.
    region: tuple[list[float], list[float]] = ((), ())  # type: ignore[assignment]
    training_rows: tuple[Part, ...] = ()  #: which rows trained: (trajectory, first, last + 1).
    held_out_rows: tuple[Part, ...] = ()  #: which rows only helped to choose.
    dataset: str = ""  #: digest of the data.
    source: str = ""  #: where it came from.
    input_lags: int = 0  #: how many earlier values of each known input a step looks at, beside the present one.
    logarithms: bool = False  #: whether the step computes with logarithms of the states.
    #: known inputs at the last state of training, which drive the first step of a forecast, with their lags.
    last_inputs: list[float] = field(default_factory=list)
    last_filled: list[int] = field(default_factory=list)  #: places in the last window of values that were filled in.
    last_trajectory: str = ""  #: the trajectory of the last state of training, by name; empty where there was only one.
    notes: tuple[str, ...] = ()  #: sentences for the user.

    def __repr__(self) -> str:
        return report_line(self)

    def _repr_html_(self) -> str:
        return report_page(self)

    @property
    def share(self) -> float:
        """Former name of `correction_weight`."""
        return self.correction_weight

    @property
    def horizon(self) -> float | None:
        """Former name of `optical_length`."""
        return self.optical_length

    @property
    def reach(self) -> int | None:
        """Former name of `radius`."""
        return self.radius

    def record(self) -> dict[str, Any]:
        """As values that JSON knows; what is not a number becomes None."""
        found: dict[str, Any] = plain(asdict(self))
        return found

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> FitReport:
        """The report that `record` wrote down; entries that this version does not know are left out."""
        known = {one.name: one for one in fields(cls)}
        values = {key: value for key, value in _current_names(record).items() if key in known}
        for key in ("noise", "noise_of_increments", "held_out_nmse", "linear_nmse", "spectral_radius"):
            if values.get(key) is None:
                values[key] = math.nan
        for key in ("training_rows", "held_out_rows"):
            values[key] = tuple((int(i), int(a), int(b)) for i, a, b in values.get(key, ()))
        values["region"] = tuple(list(map(float, side)) for side in values.get("region", ((), ())))
        values["notes"] = tuple(map(str, values.get("notes", ())))
        values["lead_times"] = tuple(int(lead) for lead in values.get("lead_times", ()))
        values["last_filled"] = [int(place) for place in values.get("last_filled", ())]
        skill = {_OLD_METHODS.get(name, str(name)): row for name, row in values.get("skill", {}).items()}
        values["skill"] = {name: [math.nan if v is None else float(v) for v in row] for name, row in skill.items()}
        if not isinstance(values.get("candidates", []), list):
            raise ValueError("report.candidates should be a list")
        if isinstance(values.get("exponent"), (int, float)) and not values["exponent"] > 0:
            raise ValueError(f"report.exponent should be above zero, got {values['exponent']}")
        for key, value in values.items():
            _check_kind(f"report.{key}", value, str(known[key].type))
        if not isinstance(values.get("structure", {}).get("members", []), list):
            raise ValueError("report.structure.members should be a list")
        return cls(**values)


def _check_kind(what: str, value: Any, declared: str) -> None:
    """Refuse a plain value out of a file that is not of the kind that its field declares."""
    if declared.startswith("list[dict") and not (isinstance(value, list) and all(isinstance(v, dict) for v in value)):
        raise ValueError(f"{what} should be a list of tables, got {type(value).__name__}")
    if declared.startswith("dict") and not isinstance(value, dict):
        raise ValueError(f"{what} should be a table, got {type(value).__name__}")
    kinds: dict[str, Any] = {"int": int, "float": (int, float), "bool": bool, "str": str}
    kind, _, optional = declared.partition(" | ")
    if (optional == "None" and value is None) or kind not in kinds:
        return
    if not isinstance(value, kinds[kind]) or (isinstance(value, bool) and kind != "bool"):
        raise ValueError(f"{what} should be of type {declared}, got {type(value).__name__}")
    if isinstance(value, int) and abs(value) >= 1 << 63:
        raise ValueError(f"{what} should be of type {declared} in 64 bits, got a number of {value.bit_length()} bits")


def _current_names(record: Mapping[str, Any]) -> dict[str, Any]:
    """A stored report, its rows of candidates and its structure, with the names of this version."""
    found = {_OLD_NAMES.get(key, key): value for key, value in record.items()}
    if isinstance(found.get("candidates"), list):
        found["candidates"] = [_current_names(row) if isinstance(row, dict) else row for row in found["candidates"]]
    if isinstance(found.get("structure"), dict):
        found["structure"] = _current_names(found["structure"])
    return found


@dataclass(frozen=True, eq=False)
class Fit:
    """The result of a fit."""

    surrogate: AnyStep  #: the learned step.
    recipe: Recipe  #: with every choice filled in.
    report: FitReport  #: what was done.


def filled_in(recipe: Recipe, report: FitReport) -> Recipe:
    """The recipe with the choices that were made."""
    sizes = ("width", "depth", "basis", "optical_length", "members") if report.model else ()
    ridge = recipe.ridge if report.structure.get("members") else report.ridge
    made = {name: getattr(report, name) for name in (*sizes, "history", "unroll")}
    return replace(recipe, ridge=ridge, **made)


def _parts(value: Any) -> str | tuple[str, ...]:
    if value == "auto":
        return "auto"
    names = (value,) if isinstance(value, str) else tuple(value)
    for name in names:
        choice("part", name, (*PARTS, *OTHER_PARTS))
    if not names:
        raise InputError(f'parts must be "auto" or some of {", ".join(PARTS)}, got none')
    return names


def _auto(name: str, value: Any, least: int) -> int:
    if isinstance(value, str):
        raise InputError(f'{name} must be a whole number of at least {least} or "auto", got {value!r}')
    return check_int(name, value, least)


def _not_negative(value: Any) -> float:
    if isinstance(value, str):
        raise InputError(f'ridge must be a number, "auto", or None for no linear part, got {value!r}')
    number = finite("ridge", value)
    if number < 0:
        raise InputError(f"ridge must not be negative, got {number}")
    return number


@dataclass(frozen=True)
class TimeLimit:
    """A time limit that starts when it is made."""

    seconds: float | None = None  #: the limit; None for none.
    began: float = field(default_factory=lambda: time.monotonic())  #: by the clock of `passed`, read when it is made.
    #: what was not done for want of time, shared with the limits of single phases.
    left_out: list[str] = field(default_factory=list)

    @property
    def end(self) -> float | None:
        """The end by the monotonic clock; None without a limit."""
        return None if self.seconds is None else self.began + self.seconds

    def passed(self, fraction: float = 1.0) -> bool:
        """Whether this fraction of the time has passed; never without a limit."""
        return self.seconds is not None and time.monotonic() > self.began + fraction * self.seconds

    def left(self) -> float:
        """Seconds that are left; infinite without a limit."""
        return math.inf if self.end is None else max(0.0, self.end - time.monotonic())

    def first(self, fraction: float) -> TimeLimit:
        """The limit of phases that must end within this fraction of the whole time."""
        return self if self.seconds is None else replace(self, seconds=fraction * self.seconds)

    def part(self, fraction: float) -> TimeLimit:
        """The limit of a phase that begins now and may take this fraction of the time that is left."""
        return self if self.seconds is None else TimeLimit(fraction * self.left(), left_out=self.left_out)

    def allows(self, seconds: float, what: str) -> bool:
        """Whether a phase of about this many seconds ends in time; if not, `what` is noted as left out."""
        if seconds < self.left():
            return True
        if what not in self.left_out:
            self.left_out.append(what)
        return False

    def notes(self) -> list[str]:
        """A note on what was left out, if anything was."""
        return [f"The time limit left out: {', '.join(self.left_out)}."] if self.left_out else []
