"""The closed forms: polynomials, vector fields and lenses, screened by one-step errors, judged by rollouts."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch

from lln.core.workers import Mapper, serial
from lln.fit.choice.holdout import Fold, Part, horizon_of, load
from lln.fit.choice.noise_and_seasons import nonlinear_histories, typical_square
from lln.fit.closed.bases import (
    MOST_ROWS,
    RAYS,
    WIDEST,
    Basis,
    ClosedChoice,
    FeatureRows,
    LensBasis,
    PolynomialBasis,
    Projection,
    Scored,
    drawn_lenses,
    lag_space,
    with_factors,
)
from lln.fit.closed.flow_search import FlowForms
from lln.fit.closed.linear import Units
from lln.fit.closed.ridge import FLOW_RIDGES, RIDGES, RidgePath
from lln.fit.closed.vector_fields import monomial_count
from lln.fit.options import TimeLimit
from lln.fit.prepare import PreparedData, Preparer
from lln.step.frame import Array
from lln.step.parts import PARTS, ClosedFormPart
from lln.step.step import DenseStep
from lln.train.batches import subseed

SCALES = (0.1, 0.2, 0.4, 0.8)
DEGREES = (2, 3, 4, 5)
DRAWS = 3  # lens networks whose mean is used in the end
_SCREENING_WIDTH, _SCREENING_ROWS = 250, 2000
_OPERATIONS = 6e9  # of one decomposition, which bounds the width
_MOST_MONOMIALS = 1500
_MARGIN = 0.25  # of the range of the data: how far a rollout of a nonlinear part may leave it
_LAW_MARGIN = 2.0  # the same for a vector field that is the law: its orbits may go where no row has been
_FOLLOWS = 0.8  # correlation with time of a coordinate that is taken for a clock or a trend
_NOISY_MARGIN = 0.05  # the same for what counts as a drift where the data looks noisy: a law there is weak
_FREE = 1e12  # standard deviations: no bound
_LEARNS = 0.4  # ratio of squared errors with four times as many rows, below which a law is still being learned
_ENOUGH = 1e-12  # one-step error, squared against the change of one step, below which nothing more is tried
_FALLING = (0.5, 0.9)  # quantiles of the absolute errors that fall by so much
_TELLING = 400  # rows below which that ratio has no meaning
_NOISE_LEFT = 1e-4  # of the squared change of one step: with noise, a larger error is taken for noise
_NEARLY = 1.02  # one-step errors on noisy rows that exceed those of linear maps by this factor rule a setting out
_HISTORIES = 3  # for which all settings are screened, where more are tried
_PRECISE = 1e-7  # one-step error, squared against the change of one step, below which rounding of sums counts
_SETTINGS = 3  # of each kind that go on to rollouts
_LONGEST = 2  # histories that are rolled out on noisy rows in any case
_CLIMB = 6  # lenses that are rolled out near the best one
_BEHIND = math.log(10.0)  # in score: lenses that do worse than another kind by so much are left
_ROUNDED = 1e-13  # error of one step below which lenses are not trained: rounding is most of it
_LEAST_RIDGE = 5e-14  # smaller ones make no difference to sums of products
_SCREENED_BY, _ROLLED_BY, _DRAWN_BY = 0.25, 0.35, 0.5  # of a time limit


Screened = tuple[float, ClosedChoice, list[float]]  # one-step error, setting, ridges to try


def _say_nothing(done: int, total: int, text: str) -> None:
    del done, total, text


@dataclass(eq=False)
class ClosedForms:
    """Solves and judges the closed forms of one dataset."""

    preparer: Preparer  #: prepares the data.
    fold: Fold  #: what trains and what judges.
    scale: Array  #: unit of errors in scores, (n,).
    seed: int  #: of the draws.
    say: Callable[[int, int, str], None] = _say_nothing  #: receives a number done, a total and a text.
    noisy: bool = False  #: whether the data looks noisy.
    mapper: Mapper = serial  #: calls the independent pieces: settings and draws.
    limit: TimeLimit = field(default_factory=TimeLimit)  #: of the fit; late settings and draws are left out.

    def __post_init__(self) -> None:
        """Start without any results."""
        self._rows: dict[tuple[tuple[Part, ...] | None, int], FeatureRows] = {}
        self._best: ClosedChoice | None = None
        self._histories: list[int] = []  # of lenses near the best that are rolled out
        self._exact = True  # whether rounding of sums of products counts
        self._at_noise = False  # whether noise is most of what screened settings left over
        self._steps: dict[ClosedChoice, DenseStep] = {}
        self._last: dict[ClosedChoice, tuple[Units, Basis, RidgePath]] = {}

    def search(
        self, histories: Sequence[int], kinds: Sequence[str], steps: int, linear: Sequence[int] = ()
    ) -> list[Scored]:
        """Screen every setting by its one-step error on held-out rows, then roll the best of each kind out.

        Args:
            histories: to try.
            kinds: some of "polynomial", "flow", "lens" and the names of parts of other packages.
            steps: length of the rollouts.
            linear: histories of linear maps; on noisy rows, settings whose one-step errors are larger than those of
                linear maps are not rolled out.
        """
        found: list[Scored] = []
        if len(histories) > 1:
            further = nonlinear_histories(self.preparer.dataset, noisy=True)
            self._histories = [one for one in further if one in histories or one <= max(linear, default=0)]
        screened = self._screen(histories, kinds)
        if linear and self._at_noise:
            least = _NEARLY * min(map(self._linear_one_step, linear))
            screened = [one for one in screened if one[0] < least]
        chosen = [one for kind in kinds for one in [c for c in screened if c[1].kind == kind][:_SETTINGS]]
        rolled = self.mapper(_rolled, self, [(choice, ridges, steps, self._exact) for _, choice, ridges in chosen])
        for index, (_, choice, _) in enumerate(chosen):
            self.say(index, len(chosen), f"{choice.kind}, history {choice.history}")
            found += next(rolled)
            if not self.limit.first(_ROLLED_BY).allows(0.0, "some closed forms"):
                return found
        if "flow" in kinds and 1 in histories and self.preparer.dataset.size > 1:
            limit = min((error for error, choice, _ in screened if choice.history == 1), default=math.inf)
            for flow in self.flows.search(limit):
                self.say(len(chosen), len(chosen), f"flow of degree {flow.degree}")
                ridges = FLOW_RIDGES if self.flows.in_time() else FLOW_RIDGES[:1]
                found += self._roll(ClosedChoice("flow", 1, 0.0, flow.degree, flow=flow), ridges, steps)
        local = [one for _, one, _ in screened if one.scale == SCALES[-1] and (one.lags or one.history == 1)]
        found += self._climb(found, [*local[:_HISTORIES], *self._longer(local)], steps)
        found += self._left_by_field(found, steps) if "lens" in kinds else []
        found += self._trained(found, steps)
        self._last.clear()
        return found

    def _longer(self, local: Sequence[ClosedChoice]) -> list[ClosedChoice]:
        """Smooth lenses with the longest histories, for noisy rows: one-step errors do not show what these gain."""
        if not local or not self._at_noise:
            return []
        known = {one.history for one in local[:_HISTORIES]}
        return [
            replace(local[0], history=h, lags=True) for h in self._histories[-_LONGEST:] if h > 1 and h not in known
        ]

    def _climb(self, found: Sequence[Scored], starts: Sequence[ClosedChoice], steps: int) -> list[Scored]:
        """Rollouts of some lenses and of those near the best, from one to the next that is better.

        One-step errors are least for smooth lenses, but these do not confine rollouts to where the rows lie, and errors
        may grow fast. Where no other kind is far ahead, rollouts decide about scale and lags.

        Args:
            found: what was rolled out.
            starts: lenses that are rolled out first.
            steps: length of the rollouts.
        """
        every, known, ahead = list(found), {replace(one.choice, ridge=0.0) for one in found}, list(starts)
        for _ in range(len(starts) + _CLIMB):
            lens = next((one for one in self.ranked(every, _BEHIND) if one.choice.kind == "lens"), None)
            if lens is None or self.limit.passed(_ROLLED_BY):
                break
            ahead = [one for one in ahead or self._near(replace(lens.choice, ridge=0.0)) if one not in known]
            if not ahead:
                break
            known.add(ahead[0])
            every += self._roll(ahead[0], self._ridges(ahead[0]), steps)
            ahead = [one for one in ahead[1:] if one in starts]
        return every[len(found) :]

    def _left_by_field(self, found: Sequence[Scored], steps: int) -> list[Scored]:
        """Rollouts of lenses that learn what the best vector field leaves over, if it is near the law but not the law.

        What a poor field leaves over is no simpler than the whole change.
        """
        field = next((one.choice for one in self.ranked(found) if one.choice.kind == "flow"), None)
        if field is None or field.flow is None or self._noise_is_left() or not self.flows.is_near_law(field.flow):
            return []
        settings = self._settings(1, ["lens"])
        lens = next(replace(one, flow=field.flow) for one in settings if one.scale == SCALES[1])
        if self.limit.passed(_ROLLED_BY):
            return []
        first = self._roll(lens, self._ridges(lens), steps)
        return first + self._climb([*(one for one in found if one.choice.kind != "lens"), *first], (), steps)

    def _near(self, lens: ClosedChoice) -> list[ClosedChoice]:
        """Drawn lenses that differ in one setting."""
        others = [replace(lens, scale=factor * lens.scale) for factor in (2.0, 0.5)]
        others += [replace(lens, lags=not lens.lags)] if lens.history > 1 else []
        histories = self._histories if lens.flow is None else []
        longer = [h for h in histories if h > lens.history][:1]
        shorter = [h for h in histories if h < lens.history][-1:]
        return [*(replace(lens, history=h, lags=lens.lags and h > 1) for h in (*longer, *shorter)), *others]

    def _trained(self, found: Sequence[Scored], steps: int) -> list[Scored]:
        """Rollouts of the best lenses after training, unless another kind is far ahead or noise or rounding is left."""
        lenses = [one for one in self.ranked(found, _BEHIND) if one.choice.kind == "lens"]
        if not lenses or self._noise_is_left():
            return []
        rolled: list[Scored] = []
        for beside in (True, False):  # those beside a vector field, and those that learn everything
            best = next((one for one in lenses if (one.choice.flow is None) != beside), None)
            if best is None or best.errors.by_lead()[0] < _ROUNDED or self.limit.passed(_ROLLED_BY):
                continue
            trained = self._with_trained_factors(best.choice)
            if trained is not None and not self.limit.passed(_ROLLED_BY):
                rolled += self._roll(trained, self._ridges(trained), steps)
        return rolled

    def _with_trained_factors(self, lens: ClosedChoice) -> ClosedChoice | None:
        """The same lenses with factors from a short training; None where no better ones were found."""
        few = replace(lens, width=min(lens.width, RAYS))
        _, basis, rows = self._problem(few, self.fold.train)
        assert isinstance(basis, LensBasis)
        factors = Projection(basis.network, rows, few.ridge).trained(lambda: self.limit.passed(_ROLLED_BY))
        return None if factors is None else replace(lens, ridge=0.0, factors=factors)

    def ranked(self, found: Sequence[Scored], behind: float = math.inf) -> list[Scored]:
        """Those at most `behind` worse than the best, best first, by errors up to where the best loses the truth."""
        horizon = max((horizon_of([one.errors]) for one in found), default=0)
        errors = {one: one.errors if self.noisy else one.errors.late(horizon) for one in found}
        scores = {one: each.score(noisy=self.noisy) for one, each in errors.items()}
        return sorted((one for one in found if scores[one] <= min(scores.values()) + behind), key=scores.__getitem__)

    def _ridges(self, choice: ClosedChoice) -> list[float]:
        """Ridges near that of the least one-step error on held-out rows."""
        units, basis, path = self._path(choice)
        held = self._left_over(choice, self._held_out(choice.history, units), self.fold.train)
        ridges = [ridge for ridge in RIDGES if self._exact or ridge > _LEAST_RIDGE]
        return _around(ridges[_lowest(path.one_step(held.columns(basis), held.increments, ridges))])

    @cached_property
    def flows(self) -> FlowForms:
        """The vector fields of the same rows."""
        active = self._active(self.preparer.prepare(self.fold.train, 1))
        return FlowForms(self.preparer, self.fold.train, self.fold.held_out, active, noisy=self.noisy, limit=self.limit)

    def _noise_is_left(self) -> bool:
        """Whether noise is what the best closed forms leave over."""
        return self._at_noise and not self.learns_with_more_rows()

    def learns_with_more_rows(self) -> bool | None:
        """Whether the typical one-step error still falls as rows are added; None where rows are too few.

        Coarsely sampled data looks noisy to differences, but a law that is not yet learned is learned better from four
        times as many rows. Where the error stays, what is left cannot be predicted. Rows that nearly repeat, such as
        zeros at night, are soon learned: all but the largest errors must fall too.
        """
        rows = 0 if self._best is None else len(self._data(self.fold.train, self._best.history).features)
        if self._best is None or rows < _TELLING:
            return None
        few = list(self._residuals(self._best, _SCREENING_ROWS // 4 if rows >= _SCREENING_ROWS else None))
        whole = list(self._residuals(self._best))
        return all(
            min(typical_square(one, part) for one in whole) < _LEARNS * min(typical_square(one, part) for one in few)
            for part in _FALLING
        )

    def step(self, choice: ClosedChoice, parts: tuple[Part, ...] | None, *, draws: int = 1) -> DenseStep:
        """The step that `choice` gives on some parts of the data, or on all; the mean of several draws of lenses."""
        if choice.kind in PARTS:
            ready = self.preparer.prepare(parts, choice.history)
            return self.bounded(DenseStep(replace(ready.units.frame(), part=self._part(choice, parts))), ready)
        if choice.kind == "flow":
            assert choice.flow is not None
            field = DenseStep(self.flows.frame(choice.flow, choice.ridge, parts))
            ready = self.preparer.prepare(parts, choice.history)
            if choice.flow.radius:
                ready = _alike(ready)
            margin = _LAW_MARGIN if self.flows.is_law(choice.flow) else _safe_margin(field, ready)
            return self.bounded(field, ready, margin)
        if choice.flow is not None:
            self.flows.frame(choice.flow, FLOW_RIDGES[0], parts)  # once, and not for every draw
        pieces = [(choice, parts, draw) for draw in range(draws if choice.kind == "lens" else 1)]
        made = []
        for one in (serial if len(pieces) == 1 else self.mapper)(_drawn, self, pieces):
            made.append(one)
            if self.limit.passed(_DRAWN_BY):
                break
        mean = replace(
            made[0].frame,
            matrix=np.mean([one.frame.matrix for one in made], axis=0),
            offset=np.mean([one.frame.offset for one in made], axis=0),
        )
        return DenseStep(mean, tuple(member for one in made for member in one.members))

    def judge(self, choice: ClosedChoice, steps: int) -> Scored:
        """Held-out rollouts of one closed form over `steps`."""
        return self._roll(choice, [choice.ridge], steps)[0]

    def _screen(self, histories: Sequence[int], kinds: Sequence[str]) -> list[Screened]:
        """Every setting with its one-step error, the best first."""
        change = float(np.mean(self._held_out(histories[0]).increments ** 2))
        settings = [one for history in histories for one in self._settings(history, kinds)]
        self._exact = False
        screened = self._screen_in_stages(settings, change)
        if screened and screened[0][0] < _PRECISE * change:
            self._exact = True
            screened = self._screen_settings(settings, change)
        self._best = screened[0][1] if screened else None
        self._at_noise = self.noisy and bool(screened) and screened[0][0] > _NOISE_LEFT * change
        return screened

    def _screen_in_stages(self, settings: Sequence[ClosedChoice], change: float) -> list[Screened]:
        """Two settings of each history, which show for which histories the others are worth trying."""
        # Differences of past states hold more noise than the states do.
        lens = [one for one in settings if one.scale == SCALES[1] and one.lags == (self.noisy and one.history > 1)]
        first = [one for one in settings if one.degree == DEGREES[0]] + lens
        if len({one.history for one in settings}) <= _HISTORIES + 1:
            return self._screen_settings(settings, change)
        screened = self._screen_settings(first, change)
        if screened and screened[0][0] < _PRECISE * change:
            return screened
        worth = list(dict.fromkeys(one.history for _, one, _ in screened))[:_HISTORIES]
        rest = [one for one in settings if one not in first and (one.history in worth or one.kind in PARTS)]
        return sorted([*screened, *self._screen_settings(rest, change)], key=lambda one: one[0])

    def _screen_settings(self, settings: Sequence[ClosedChoice], change: float) -> list[Screened]:
        screened: list[Screened] = []
        enough = (_ENOUGH if self._exact else _PRECISE) * change
        for choice, error, ridge in self.mapper(_screened, self, [(one, self._exact) for one in settings]):
            if math.isfinite(error):
                screened.append((error, choice, _around(ridge)))
            if error < enough or (screened and self.limit.passed(_SCREENED_BY)):
                break
        return sorted(screened, key=lambda one: one[0])

    def _linear_one_step(self, history: int) -> float:
        """The least one-step error of a linear map on held-out rows."""
        data, held = self._data(self.fold.train, history).some(_SCREENING_ROWS), self._held_out(history)
        path = RidgePath([(data.features, data.increments, data.weights)], exact=False)
        return float(path.one_step(held.features, held.increments, RIDGES).min())

    def _settings(self, history: int, kinds: Sequence[str]) -> Iterator[ClosedChoice]:
        ready = self.preparer.prepare(self.fold.train, history)
        rows, factors = min(ready.pairs, MOST_ROWS), len(self._active(ready))
        for degree in DEGREES if "polynomial" in kinds else ():
            if monomial_count(factors, degree) <= min(_MOST_MONOMIALS, 0.8 * rows):
                yield ClosedChoice("polynomial", history, 0.0, degree=degree)
        width = int(min(WIDEST, 2 * rows, max(50, math.sqrt(_OPERATIONS / (2 * rows)))))
        for scale in SCALES if "lens" in kinds else ():
            for lags in (False, True) if history > 1 else (False,):
                yield ClosedChoice("lens", history, 0.0, scale=scale, width=width, lags=lags)
        yield from (ClosedChoice(kind, history, 0.0) for kind in kinds if kind in PARTS)

    def _one_step(self, choice: ClosedChoice) -> tuple[float, float]:
        """The least one-step error on held-out rows, and the ridge that has it."""
        errors = [float(np.mean(rest**2)) for rest in self._residuals(choice)]
        best = _lowest(errors)
        return errors[best], 0.0 if choice.kind in PARTS else RIDGES[best]

    def _residuals(self, choice: ClosedChoice, rows: int | None = _SCREENING_ROWS) -> Iterator[Array]:
        """What each ridge errs by in one step on held-out rows, (P, n); solved from a quarter of the rows if None."""
        held = self._held_out(choice.history)
        if choice.kind in PARTS:
            with torch.no_grad():
                predicted = self._part(choice, self.fold.train, rows)(torch.from_numpy(held.features)).numpy()
            yield predicted - held.increments
            return
        ready = self.preparer.prepare(self.fold.train, choice.history)
        small = replace(choice, width=min(choice.width, _SCREENING_WIDTH))
        basis = self._basis(small, ready, 0)
        data = self._data(self.fold.train, choice.history)
        some = data.some(len(data.features) // 4 if rows is None else rows)
        path = RidgePath(some.blocks(basis), exact=self._exact)
        yield from path.residuals(held.columns(basis), held.increments, RIDGES)

    def _roll(self, choice: ClosedChoice, ridges: Sequence[float], steps: int) -> list[Scored]:
        windows = load(self.preparer.dataset, self.fold, choice.history, self.scale, steps)
        found = []
        for ridge, surrogate in zip(ridges, self.known(choice, ridges), strict=True):
            predicted = surrogate.rollout(windows.start, windows.truth.shape[1], windows.inputs)
            found.append(Scored(replace(choice, ridge=ridge), windows.errors(predicted)))
        return found

    def known(self, choice: ClosedChoice, ridges: Sequence[float]) -> list[DenseStep]:
        """The step of each ridge; what was solved once is not solved again."""
        every = [replace(choice, ridge=ridge) for ridge in ridges]
        missing = [one.ridge for one in every if one not in self._steps]
        for ridge, step in zip(missing, self._solved(choice, missing), strict=True) if missing else ():
            self._steps[replace(choice, ridge=ridge)] = step
        return [self._steps[one] for one in every]

    def _solved(self, choice: ClosedChoice, ridges: Sequence[float]) -> Iterator[DenseStep]:
        """The step of each ridge on the rows that train."""
        train = self.fold.train
        if choice.kind == "flow" or choice.kind in PARTS:
            yield from (self.step(replace(choice, ridge=ridge), train) for ridge in ridges)
            return
        units, basis, path = self._path(choice)
        for ridge in ridges:
            yield self._assembled(choice, train, units, basis, *path.solve(ridge))

    def _path(self, choice: ClosedChoice) -> tuple[Units, Basis, RidgePath]:
        """The decomposition of the rows that train; the last one is kept."""
        key = replace(choice, ridge=0.0)
        if key not in self._last:
            self._last.clear()  # two of them would take twice the memory
            units, basis, rows = self._problem(choice, self.fold.train)
            self._last[key] = (units, basis, RidgePath(rows.blocks(basis), exact=self._exact))
        return self._last[key]

    def _problem(
        self, choice: ClosedChoice, parts: tuple[Part, ...] | None, draw: int = 0
    ) -> tuple[Units, Basis, FeatureRows]:
        """What the weights of a closed form are solved from: its units and columns, and the rows."""
        ready = self.preparer.prepare(parts, choice.history)
        basis = self._basis(choice, ready, draw)
        if choice.flow is None:
            return ready.units, basis, self._data(parts, choice.history)
        units = self.flows.units(choice.flow)
        return units, basis, self._left_over(choice, FeatureRows.of(ready, units), parts)

    def _left_over(self, choice: ClosedChoice, rows: FeatureRows, parts: tuple[Part, ...] | None) -> FeatureRows:
        """The rows, with what the vector field leaves of their increments if the lenses stand beside one.

        Rows from which the field overflows teach nothing.
        """
        if choice.flow is None:
            return rows
        frame = self.flows.frame(choice.flow, FLOW_RIDGES[0], parts)
        assert frame.flow is not None
        states, inputs = rows.features[:, : frame.size], rows.features[:, frame.size :]
        with np.errstate(over="ignore", invalid="ignore"):
            left = rows.increments - frame.flow(states, inputs)
        return replace(rows, increments=left).at(np.isfinite(left).all(axis=1))

    def _part(
        self, choice: ClosedChoice, parts: tuple[Part, ...] | None, rows: int | None = MOST_ROWS
    ) -> ClosedFormPart:
        """A part of another package, solved on at most `rows` rows, or on a quarter of them if None."""
        data = self._data(parts, choice.history)
        data = data.some(len(data.features) // 4 if rows is None else rows)
        return PARTS.get(choice.kind).fit(data.features, data.increments, data.weights)

    def _basis(self, choice: ClosedChoice, ready: PreparedData, draw: int) -> Basis:
        active = self._active(ready)
        if choice.kind == "polynomial":
            return PolynomialBasis(active, choice.degree)
        units, n = ready.units, self.preparer.dataset.size
        features = n * units.history + len(units.input_mean)
        seed = subseed(self.seed, "lenses", draw)
        mixing = lag_space(units) if choice.lags else None
        drawn = drawn_lenses(active, features, n, choice.width, choice.scale, seed, mixing)
        return LensBasis(with_factors(drawn.network, choice.factors)) if choice.factors else drawn

    def _assembled(
        self, choice: ClosedChoice, parts: tuple[Part, ...] | None, units: Units, basis: Basis, weights: Array,
        offset: Array,
    ) -> DenseStep:  # fmt: skip
        count = units.history * self.preparer.dataset.size + len(units.input_mean)
        frame = units.frame(np.ascontiguousarray(weights[:, :count]), offset)
        if choice.flow is not None:
            frame = replace(frame, flow=self.flows.frame(choice.flow, FLOW_RIDGES[0], parts).flow)
        made = basis.step(frame, np.ascontiguousarray(weights[:, count:]))
        ready = self.preparer.prepare(parts, choice.history)
        return self.bounded(made, _alike(ready) if choice.flow is not None and choice.flow.radius else ready)

    def bounded(self, made: DenseStep, ready: PreparedData, margin: float = _MARGIN) -> DenseStep:
        """The step whose rollouts are kept near all rows, also those that judge, but for what drifts.

        The final model knows all rows. Bounds of fewer would judge it by where it may not go.
        """
        held = self._judges
        least, most = np.minimum(ready.low, held.low), np.maximum(ready.high, held.high)
        room, far, drifts = margin * (most - least), _FREE * ready.units.scale, self._drifting | made.angles
        low = np.where(drifts, ready.units.mean - far, least - room)
        high = np.where(drifts, ready.units.mean + far, most + room)
        return DenseStep(replace(made.frame, low=low, high=high), made.members)

    @property
    def _judges(self) -> PreparedData:
        """The held-out rows, or all where there is no pair of them."""
        held = self.fold.held_out
        return self.preparer.prepare(held if self.preparer.transitions(held, 1) else None, 1)

    @cached_property
    def _drifting(self) -> Any:
        """Clocks and trends, (n,): rows follow time, and held-out rows leave the range of the training rows.

        An orbit that reaches a new part of its attractor leaves the range too, but does not follow time.
        """
        ready = self.preparer.prepare(self.fold.train, 1)
        margin = (_NOISY_MARGIN if self.noisy else _MARGIN) * (ready.high - ready.low)
        held = self._judges
        leaves = (held.low < ready.low - margin) | (held.high > ready.high + margin)
        if not ready.in_memory:
            return leaves
        rows = np.concatenate([features for features, _, _ in ready.blocks()])[:, : len(margin)]
        time = np.linspace(-1.0, 1.0, len(rows))
        return leaves & (np.abs(time @ rows) > _FOLLOWS * np.linalg.norm(time) * np.linalg.norm(rows, axis=0))

    def _active(self, ready: PreparedData) -> tuple[int, ...]:
        """The features that nonlinear parts see: all but the present value of coordinates that drift, if not all do."""
        n, count = self.preparer.dataset.size, ready.units.history * self.preparer.dataset.size
        drifts = self._drifting
        every = range(count + len(ready.units.input_mean))
        return tuple(index for index in every if index >= n or drifts.all() or not drifts[index])

    def _data(self, parts: tuple[Part, ...] | None, history: int) -> FeatureRows:
        key = (parts, history)
        if key not in self._rows:
            ready = self.preparer.prepare(parts, history)
            self._rows[key] = FeatureRows.of(ready, ready.units)
        return self._rows[key]

    def _held_out(self, history: int, units: Units | None = None) -> FeatureRows:
        units = units or self.preparer.prepare(self.fold.train, history).units
        held = self.preparer.prepare(self.fold.held_out, history)
        return FeatureRows.of(held, units).some(_SCREENING_ROWS)

    def __getstate__(self) -> dict[str, Any]:
        kept: dict[str, Any] = {"_rows": {}, "_best": None, "_steps": {}, "_last": {}}
        return {**self.__dict__, "say": _say_nothing, "mapper": serial, **kept}


# The pieces that a mapper calls. A worker has the forms as they were sent to it, so a piece says what has changed.


def _screened(forms: ClosedForms, piece: tuple[ClosedChoice, bool]) -> tuple[ClosedChoice, float, float]:
    """A setting, its least one-step error and the ridge that has it."""
    choice, forms._exact = piece
    return (choice, *forms._one_step(choice))


def _rolled(forms: ClosedForms, piece: tuple[ClosedChoice, list[float], int, bool]) -> list[Scored]:
    """The rollouts of a setting at several ridges."""
    choice, ridges, steps, forms._exact = piece
    return forms._roll(choice, ridges, steps)


def _drawn(forms: ClosedForms, piece: tuple[ClosedChoice, tuple[Part, ...] | None, int]) -> DenseStep:
    """The step of one draw, solved on some parts of the data."""
    choice, parts, draw = piece
    units, basis, rows = forms._problem(choice, parts, draw)
    return forms._assembled(choice, parts, units, basis, *RidgePath.solved(rows.blocks(basis), choice.ridge))


def _alike(ready: PreparedData) -> PreparedData:
    """The same with one range for all coordinates: on a ring every point may go where any of them has been."""
    low, high = np.full_like(ready.low, ready.low.min()), np.full_like(ready.high, ready.high.max())
    return replace(ready, low=low, high=high)


def _safe_margin(step: DenseStep, ready: PreparedData) -> float:
    """How far a rollout may leave the range of the rows: where one step of a vector field overflows, less far."""
    rng, n, inputs = np.random.default_rng(0), len(ready.low), len(ready.units.input_mean)
    corners, inside = rng.integers(0, 2, (64, n)), rng.uniform(size=(192, n))
    places = np.concatenate([corners, inside])
    known = ready.units.input_mean + ready.units.input_scale * rng.normal(size=(len(places), 1, inputs))
    for margin in (_MARGIN, 0.1):
        starts = ready.low + (ready.high - ready.low) * ((1.0 + 2.0 * margin) * places - margin)
        with np.errstate(all="ignore"):
            if np.isfinite(step.rollout(starts[:, None], 1, known if inputs else None)).all():
                return margin
    return 0.0


def _around(ridge: float) -> list[float]:
    """Ridges that are tried in rollouts, where `ridge` has the least one-step error."""
    near = dict.fromkeys(ridge * factor for factor in (0.1, 1.0, 10.0, 1000.0))
    return [one for one in near if one <= RIDGES[-1]]


def _lowest(scores: Sequence[float] | Array) -> int:
    """Index of the lowest finite score; the first if there is none."""
    return int(np.argmin(np.where(np.isfinite(scores), scores, np.inf)))


def replace_seed(forms: ClosedForms, seed: int) -> ClosedForms:
    """The same forms with lenses drawn from another seed."""
    return forms if seed == forms.seed else replace(forms, seed=seed)
