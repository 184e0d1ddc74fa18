"""Which vector field fits: degree, Runge-Kutta steps, sharing over a ring, ridge and pruning.

Candidates are compared by the one-step error of their flow on held-out rows. The best ones go on to rollouts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from lln.data.stream import Pairs, pair_batches
from lln.fit.choice.holdout import Part
from lln.fit.closed.calm_rows import fitted_from_calm_rows
from lln.fit.closed.function_search import BROKEN, SMOOTH, Candidate, add_functions
from lln.fit.closed.linear import Units
from lln.fit.closed.ridge import FLOW_RIDGES
from lln.fit.closed.vector_fields import (
    MonomialLibrary,
    Pieces,
    VectorField,
    descend,
    errors,
    fitted,
    monomial_count,
    pruned,
    squared_error,
)
from lln.fit.options import TimeLimit
from lln.fit.prepare import Preparer
from lln.step.frame import Array, Frame, Functions

DEGREES = (2, 3, 5, 7, 9)
RADII = (1, 2, 3)
SUBSTEPS, MORE, FEWER = 4, (8, 16, 32, 64), (2, 1)  # of Runge-Kutta at first; what is tried where their number counts
_USUAL = 16  # of them; more where the error is above rounding
THRESHOLDS = (1e-2, 1e-4)
ANGLES = (1.0, np.pi / 180, 2 * np.pi)  # radians, degrees, turns
LENSES = ((2, 8), (2, 16), (3, 12))  # degree of the polynomial, Gaussians of every variable
# Degree, kinds of functions, and whether they are multiplied by variables.
FOUND = ((1, BROKEN, False), (1, SMOOTH, False), (2, BROKEN, False), (2, SMOOTH, False), (2, SMOOTH, True))
CALM_DEGREES = (2, 3)  # of fields that are fitted to rows of small changes first
_SPACINGS = 1.5  # width of the Gaussians
_LEAST_TURN, _MOST_TURN = 1.0, 6.0  # radians: range of an angle, and its root mean square change in one step
_FEWEST_CELLS, _MOST_CELLS = 8, 512  # coordinates that may be a ring
_MOST_WEIGHTS, _MOST_TERMS = 400, 60
_MOST_FUNCTION_WEIGHTS, _ROWS_TO_A_TERM = 320, 0.2
_MOST_WEIGHTS_TO_FIND = 120  # while functions are found
_ROWS, _JUDGES, _FEWEST = 2000, 1000, 60  # rows that fit, rows that judge, and the fewest of both
_SENSITIVITIES = 4e5  # numbers that bound the rows that fit; where there is noise, more rows count
_MORE_WHERE_NOISY = 5
_MONOMIALS = 2e6  # numbers that bound the rows that judge
_STREAMED_ROWS = 6000
_ALIKE = 1e-16  # squared error against the change of one step, below which all are alike
_LAW = 1e-11  # the same, at which a field whose integrator errs is the law
_NEAR_LAW = 1e-3  # the same, at which lenses may learn what a field leaves over
_EXACT = 1e-15  # the same, at which no more Runge-Kutta steps than usual are tried
_SHARED = 1e-8  # the same, at which shared weights are taken
_NEW = 100.0  # times the squared error of other rows: more rows show what those did not
_USEFUL = 0.3  # the same, below which a field is useful, so that Gaussians may add to it
_NO_FUNCTIONS = 1e-8  # the same, at which a polynomial needs no Gaussians or sines
_BETTER = 0.5  # of the squared error: what more numbers must gain
_SIMPLER = 1.2  # of the squared error: what fewer numbers may lose
# Of a time limit: no other field is tried later; no descent goes on later, on other rows and on those that train.
_SEARCHED_BY, _DESCENDED_BY = 0.4, (0.8, 0.65)
_FAR = 100.0  # times the squared error of the best other form: a vector field that errs by more is dropped


@dataclass(frozen=True)
class FlowChoice:
    """One vector field with all that is needed to fit it again but the ridge.

    Attributes:
        degree: of its polynomial.
        radius: neighbours that a coordinate sees on both sides of a ring, with shared weights; 0 for no ring.
        substeps: Runge-Kutta steps in one step of data.
        threshold: weights that count for less of the largest are left out.
        angle: sines and cosines of the variables are among the terms, of this factor times the variable in its own
            units; 0 for none.
        lenses: Gaussians of every variable that are among the terms; 0 for none.
        functions: other functions of single variables that are among the terms: variable, kind, slope and shift of
            each; slopes and shifts are where the fit begins.
        products: whether these functions are also multiplied by every variable.
        calm_first: whether the fit begins with the rows of the smallest changes.
    """

    degree: int
    radius: int = 0
    substeps: int = SUBSTEPS
    threshold: float = 0.0
    angle: float = 0.0
    lenses: int = 0
    functions: tuple[Candidate, ...] = ()
    products: bool = False
    calm_first: bool = False

    def record(self) -> dict[str, Any]:
        """As plain values."""
        plain = {"degree": self.degree, "substeps": self.substeps}
        names = ("radius", "threshold", "angle", "lenses", "functions", "products")
        return {**plain, **{name: getattr(self, name) for name in names if getattr(self, name)}}


class FlowForms:
    """Fits the vector fields of one dataset.

    Args:
        preparer: prepares the data.
        train: rows that train while choices are made.
        held_out: rows that judge one-step errors.
        active: variables of the field, indices into [z, u]: all but coordinates that drift.
        noisy: whether the data looks noisy.
        limit: time limit of the fit; late settings and late steps of a descent are left out.
    """

    def __init__(
        self,
        preparer: Preparer,
        train: tuple[Part, ...],
        held_out: tuple[Part, ...],
        active: tuple[int, ...],
        *,
        noisy: bool = False,
        limit: TimeLimit | None = None,
    ) -> None:
        self.preparer, self.train, self.held_out, self.active, self.noisy = preparer, train, held_out, active, noisy
        self.limit = limit or TimeLimit()
        self._fields: dict[tuple[FlowChoice, float, tuple[Part, ...] | None], VectorField] = {}

    def search(self, limit: float) -> list[FlowChoice]:
        """The fields that are worth rollouts, none if all err by far more than `limit`, a squared one-step error."""
        best, least, change = None, np.inf, self._change
        for found in (
            self._polynomial,
            self._law_from_calm_rows,
            self._with_given_functions,
            self._with_found_functions,
        ):
            if not least < _NO_FUNCTIONS * change:
                best, least = found(best, least)
        if best is not None and best.substeps == SUBSTEPS and not best.functions:
            best, least = self._with_substeps(best, least, FEWER, _SIMPLER)
        if best is None or not least <= _FAR * limit:
            return []
        for threshold in () if best.lenses else THRESHOLDS:  # Gaussians that overlap stand for each other
            sparse = replace(best, threshold=threshold)
            if not self.in_time():
                break
            if not self.error(sparse) < max(_SIMPLER * least, _ALIKE * self._change):
                continue
            if not self.field(sparse, FLOW_RIDGES[0], self.train).used.all():
                return [best, sparse]
        return [best]

    def in_time(self) -> bool:
        """Whether there is time to try another vector field."""
        return self.limit.first(_SEARCHED_BY).allows(0.0, "some vector fields")

    def _polynomial(self, best: FlowChoice | None, least: float) -> tuple[FlowChoice | None, float]:
        """Sharing, degree and substeps with the least one-step error."""
        return self._best_of(self._polynomials(), best, least)

    def _with_given_functions(self, best: FlowChoice | None, least: float) -> tuple[FlowChoice | None, float]:
        """The same with sines of angles or with Gaussians, if it is better."""
        return self._best_of(self._functions_added(), best, least)

    def _best_of(
        self, settings: Iterator[FlowChoice], best: FlowChoice | None, least: float
    ) -> tuple[FlowChoice | None, float]:
        """The setting with the least one-step error; more weights must gain something."""
        change, enough = self._change, _ALIKE
        for setting in settings:
            choice = setting if best is None else replace(setting, substeps=best.substeps)
            if best is not None and least < (_SHARED if best.radius and not choice.radius else enough) * change:
                break
            if (choice.angle or choice.lenses) and least < _NO_FUNCTIONS * change:
                break
            if choice.lenses and not least < _USEFUL * change:
                break
            if best is not None and not self.in_time():
                break
            error = self.error(choice)
            if not error < _BETTER * least:
                continue
            best, least = choice, error
            if error < self._truncation(choice):  # the integrator errs, not the field
                best, least = self._with_substeps(choice, error, MORE, _BETTER)
                enough = _LAW
        return best, least

    def _law_from_calm_rows(self, best: FlowChoice | None, least: float) -> tuple[FlowChoice | None, float]:
        """A polynomial whose fit begins with the rows of the smallest changes, if that finds the law."""
        for degree in CALM_DEGREES:
            terms = monomial_count(len(self.active), degree) + 1
            if self.preparer.dataset.size * terms > _MOST_WEIGHTS_TO_FIND or not self.in_time():
                break
            base = FlowChoice(degree, calm_first=True)
            field = self.field(base, FLOW_RIDGES[0], self.train)
            choice = replace(base, substeps=field.substeps)
            self._fields[choice, FLOW_RIDGES[0], self.train] = field
            error = self.error(choice)
            if error < min(_NO_FUNCTIONS * self._change, least):
                return choice, error
        return best, least

    def _with_found_functions(self, best: FlowChoice | None, least: float) -> tuple[FlowChoice | None, float]:
        """The field with functions of single variables that a search finds, if it is better."""
        n = self.preparer.dataset.size
        late = partial(self.limit.passed, _SEARCHED_BY)
        for degree, kinds, products in FOUND:
            terms = monomial_count(len(self.active), degree) + 1 + products * 2 * (1 + len(self.active))
            if n * terms > _MOST_WEIGHTS_TO_FIND or not self.in_time():
                continue
            base = FlowChoice(degree)
            pieces = self._training_pieces(base, self.train)
            start = self.field(base, FLOW_RIDGES[0], self.train)
            path: list[tuple[float, FlowChoice]] = []
            for field in add_functions(start, pieces, FLOW_RIDGES[0], late, kinds, products):
                functions = field.library.functions
                assert functions is not None
                rows = zip(functions.table.tolist(), functions.arguments.tolist(), strict=True)
                choice = replace(base, functions=tuple((*a, *b) for a, b in rows), products=products)
                self._fields[choice, FLOW_RIDGES[0], self.train] = field
                path.append((self.error(choice), choice))
            error, choice = min(path, key=lambda one: one[0], default=(np.inf, base))
            if not error < _BETTER * least:
                continue
            best, least = choice, error
            if error < self._truncation(choice):
                best, least = self._with_substeps(choice, error, MORE, _BETTER)
            if least < _NO_FUNCTIONS * self._change:
                break
        return best, least

    def _with_substeps(
        self, choice: FlowChoice, error: float, numbers: tuple[int, ...], most: float
    ) -> tuple[FlowChoice, float]:
        """The choice with each number of substeps in turn, as long as the error is below `most` times the last one."""
        for substeps in numbers:
            if not self.in_time() or (substeps > _USUAL and error < _EXACT * self._change):
                break
            tried = self.error(replace(choice, substeps=substeps))
            if not tried < most * error:
                break
            choice, error = replace(choice, substeps=substeps), tried
        return choice, error

    @np.errstate(over="ignore", invalid="ignore")
    def _truncation(self, choice: FlowChoice) -> float:
        """Mean squared difference of flows with one Runge-Kutta step and with those of `choice`, on held-out rows."""
        field, (pieces, ratio) = self.field(choice, FLOW_RIDGES[0], self.train), self._judges(choice)
        apart = errors(field, pieces) - errors(replace(field, substeps=1), pieces)
        return float(np.mean(np.square(apart * ratio)))

    @np.errstate(over="ignore", invalid="ignore")
    def error(self, choice: FlowChoice) -> float:
        """Mean squared one-step error on held-out rows, in the units of all closed forms."""
        pieces, ratio = self._judges(choice)
        try:
            found = errors(self.field(choice, FLOW_RIDGES[0], self.train), pieces) * ratio
        except (ValueError, np.linalg.LinAlgError):  # products of the states are not finite, or all alike
            return np.inf
        error = float(np.mean(np.square(found)))
        return error if np.isfinite(error) else np.inf

    def is_law(self, choice: FlowChoice) -> bool:
        """Whether the field errs so little on held-out rows that it is the law behind them."""
        return self.error(choice) < _LAW * self._change

    def is_near_law(self, choice: FlowChoice) -> bool:
        """Whether the field leaves little over on held-out rows, but more than the law would."""
        return _LAW * self._change <= self.error(choice) < _NEAR_LAW * self._change

    def _judges(self, choice: FlowChoice) -> tuple[Pieces, Array]:
        """Held-out rows, and the scale of their units in those of all closed forms."""
        library, units = self._library(choice), self.units(choice)
        rows = int(np.clip(_MONOMIALS / (len(library.place) * library.terms), _FEWEST, _JUDGES))
        return self._pieces(self.held_out, units, rows), units.scale / self.units().scale

    def field(self, choice: FlowChoice, ridge: float, parts: tuple[Part, ...] | None) -> VectorField:
        """The field that `choice` gives on some parts of the data, or on all."""
        key = (choice, ridge, parts)
        if key not in self._fields:
            self._fields[key] = self._no_worse(self._fit(*key), *key)
        return self._fields[key]

    def _no_worse(
        self, field: VectorField, choice: FlowChoice, ridge: float, parts: tuple[Part, ...] | None
    ) -> VectorField:
        """The field, or, if that of the training rows is better on these rows, a descent from there."""
        if parts == self.train:
            return field
        known, pieces = self.field(choice, ridge, self.train), self._training_pieces(choice, parts)
        if squared_error(field, pieces) <= squared_error(known, pieces):
            return field
        return descend(known, pieces, ridge, self._late(parts))

    def frame(self, choice: FlowChoice, ridge: float, parts: tuple[Part, ...] | None) -> Frame:
        """The frame of a step with this field alone."""
        field = self.field(choice, ridge, parts)
        return replace(self.units(choice).frame(), flow=field.library.flow(field.weights, field.substeps))

    def _fit(self, choice: FlowChoice, ridge: float, parts: tuple[Part, ...] | None) -> VectorField:
        pieces = self._training_pieces(choice, parts)
        late = self._late(parts)
        far = choice.angle or choice.lenses or choice.functions or choice.calm_first
        # Weights that other rows gave are nearly right; a descent from afar may end elsewhere.
        if parts != self.train and (far or self.limit.passed(_SEARCHED_BY)):
            known = self.field(choice, ridge, self.train)
            field = descend(known, pieces, ridge, late)
            return self._with_what_is_new(choice, known, field, pieces, late) if choice.functions else field
        if choice.threshold:
            whole = self.field(replace(choice, threshold=0.0), ridge, parts)
            if parts == self.train:
                return pruned(whole, pieces, ridge, choice.threshold, late)
            used = self.field(choice, ridge, self.train).used  # a weight near the threshold must not come and go
            sparse = replace(whole, weights=np.where(used, whole.weights, 0.0), used=used & (whole.weights != 0))
            return descend(sparse, pieces, ridge, late)
        # Fits at other ridges and substeps start from the weights of the first.
        first = (choice if choice.calm_first else replace(choice, substeps=SUBSTEPS), FLOW_RIDGES[0])
        if first == (choice, ridge):
            if choice.calm_first:
                return fitted_from_calm_rows(self._library(choice), pieces, ridge, late)
            return fitted(self._library(choice), pieces, choice.substeps, ridge, late)
        return descend(replace(self.field(*first, parts), substeps=choice.substeps), pieces, ridge, late)

    def _late(self, parts: tuple[Part, ...] | None) -> Callable[[], bool]:
        return partial(self.limit.passed, _DESCENDED_BY[parts == self.train])

    def _with_what_is_new(
        self, choice: FlowChoice, known: VectorField, field: VectorField, pieces: Pieces, late: Callable[[], bool]
    ) -> VectorField:
        """A field with found functions on more rows: if it errs by far more there, more functions may be needed."""
        rows = self._training_pieces(choice, self.train)
        usual = squared_error(known, rows) / len(rows)
        kinds = next(kinds for _, kinds, _ in FOUND if choice.functions[0][1] in kinds)
        if squared_error(field, pieces) / len(pieces) > _NEW * usual:
            for more in add_functions(field, pieces, FLOW_RIDGES[0], late, kinds, choice.products):
                field = more
        return field

    def _training_pieces(self, choice: FlowChoice, parts: tuple[Part, ...] | None) -> Pieces:
        """Rows that fit a field."""
        library = self._library(choice)
        weights, fewest = library.outputs * library.terms, _FEWEST if choice.radius else 4 * library.terms
        rows = int(np.clip(_SENSITIVITIES / (library.size * weights), fewest, _ROWS))
        rows *= _MORE_WHERE_NOISY if self.noisy else 1
        return self._pieces(parts, self.units(choice), rows)

    def _polynomials(self) -> Iterator[FlowChoice]:
        """Fields with few weights first."""
        n, m = self.preparer.dataset.size, self.preparer.dataset.inputs
        rows = min(self.preparer.prepare(self.train, 1).pairs, _ROWS)
        every = len(self.active) == n + m
        for radius in RADII if every and _FEWEST_CELLS <= n <= _MOST_CELLS else ():
            yield FlowChoice(2, radius)
        for degree in DEGREES:
            terms = monomial_count(len(self.active), degree) + 1
            if terms <= min(_MOST_TERMS, 0.8 * rows) and n * terms <= _MOST_WEIGHTS:
                yield FlowChoice(degree)

    def _functions_added(self) -> Iterator[FlowChoice]:
        """Fields with functions that the rows have room for."""
        rows, variables = min(self.preparer.prepare(self.train, 1).pairs, _ROWS), len(self.active)
        for choice in self._with_functions():
            count = choice.lenses * variables if choice.lenses else 2 * len(self._angles(choice.angle))
            terms = monomial_count(variables, choice.degree) + 1 + count * (1 + choice.products * variables)
            if terms <= _ROWS_TO_A_TERM * rows and self.preparer.dataset.size * terms <= _MOST_FUNCTION_WEIGHTS:
                yield choice

    def _with_functions(self) -> Iterator[FlowChoice]:
        """Fields with sines of angles, then with Gaussians where the data is clean."""
        for angle in ANGLES:
            if self._angles(angle):
                yield FlowChoice(3, angle=angle)
                yield FlowChoice(2, angle=angle, products=True)
        if not self.noisy:
            for degree, lenses in LENSES:
                yield FlowChoice(degree, lenses=lenses)

    def _angles(self, angle: float) -> list[int]:
        """Variables that may be angles in these units: they turn far, and not too far in one step."""
        pairs, units = self._pairs(self.train), self.units()
        states = pairs.window[:, -1]
        far = np.ptp(states, axis=0) * angle
        step = np.sqrt(np.mean(np.square(pairs.target - states), axis=0)) * angle
        moving = np.asarray(units.scale) > 0
        return [int(i) for i in np.flatnonzero(moving & (far > _LEAST_TURN) & (step < _MOST_TURN))]

    def _functions(self, choice: FlowChoice) -> Functions | None:
        """Sines and cosines of angles, or Gaussians spread over the range of every variable."""
        units = self.units()
        if choice.functions:
            found = choice.functions
            return Functions(np.asarray([one[:2] for one in found]), np.asarray([one[2:] for one in found]))
        if choice.angle:
            places = np.repeat(np.asarray(self._angles(choice.angle), dtype=np.int64), 2)
            if not len(places):  # other rows than those that the field was chosen on
                return None
            slope = choice.angle * units.scale[places]
            shift = choice.angle * units.mean[places] + np.tile([0.0, np.pi / 2], len(places) // 2)
            return Functions(np.stack([places, np.ones_like(places)], axis=1), np.stack([slope, shift], axis=1))
        if not choice.lenses:
            return None
        seen = self._seen(self.train)
        low, high = seen.min(axis=0), seen.max(axis=0)
        table, arguments = [], []
        for place in (one for one in self.active if high[one] > low[one]):
            width = _SPACINGS * (high[place] - low[place]) / (choice.lenses - 1)
            for centre in np.linspace(low[place], high[place], choice.lenses):
                table.append((place, 0))
                arguments.append((1.0 / width, -centre / width))
        return Functions(np.asarray(table, dtype=np.int64), np.asarray(arguments)) if table else None

    def _library(self, choice: FlowChoice) -> MonomialLibrary:
        n, m = self.preparer.dataset.size, self.preparer.dataset.inputs
        if choice.radius:
            return MonomialLibrary.ring(n, m, choice.radius, choice.degree)
        functions, adaptive = self._functions(choice), bool(choice.functions)
        return MonomialLibrary.whole(n, self.active, choice.degree, m, functions, choice.products, adaptive)

    def units(self, choice: FlowChoice | None = None) -> Units:
        """Units of the rows that train, so that weights mean the same in every fit; on a ring all are alike."""
        units = self.preparer.prepare(self.train, 1).units
        if choice is None or not choice.radius:
            return units
        mean, n = units.mean.mean(), len(units.mean)
        scale = np.sqrt(np.mean(np.square(units.scale) + np.square(units.mean - mean)))
        return replace(units, mean=np.full(n, mean), scale=np.full(n, scale))

    @property
    def _change(self) -> float:
        """Mean squared change of one step, in the units of all closed forms."""
        states = self._pieces(self.held_out, self.units(), _JUDGES).states
        return float(np.mean(np.square(states[:, 1] - states[:, 0])))

    def _pairs(self, parts: tuple[Part, ...] | None) -> Pairs:
        ready = self.preparer.prepare(parts, 1)
        if ready.held is not None:
            return ready.held
        return next(pair_batches(ready.dataset, 1, rows=_STREAMED_ROWS, shuffle=0))

    def _seen(self, parts: tuple[Part, ...] | None) -> Array:
        """Standardised states and inputs of some rows, (P, n + m)."""
        pieces = self._pieces(parts, self.units(), _STREAMED_ROWS)
        return np.concatenate([pieces.states[:, 0], pieces.inputs], axis=1)

    def _pieces(self, parts: tuple[Part, ...] | None, units: Units, rows: int) -> Pieces:
        pairs = self._pairs(parts)
        states = (np.stack([pairs.window[:, -1], pairs.target], axis=1) - units.mean) / units.scale
        known = np.zeros((len(pairs), 0))
        if pairs.inputs is not None:
            known = (pairs.inputs - units.input_mean) / units.input_scale
        weights = np.ones(len(pairs)) if pairs.weights is None else pairs.weights / pairs.weights.mean()
        return Pieces(states, known, weights).some(rows)
