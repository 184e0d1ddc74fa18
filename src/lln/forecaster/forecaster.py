"""The estimator: it learns one step of a system from trajectories, rolls it out, and scores itself.

What scikit-learn asks of an estimator is here without an import of scikit-learn, which takes longer than many fits.
"""

from __future__ import annotations

import dataclasses
import inspect
import math
import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from lln.core.errors import InputError, check_int, did_you_mean
from lln.core.workers import one_thread
from lln.data.read.formats import as_dataset, check_options
from lln.data.series import HORIZON, Dataset
from lln.data.stream import lagged_names, with_input_lags
from lln.evaluate.metrics import VALID_RMSE, Metrics
from lln.evaluate.rollout import Region, judge, marked, training_region
from lln.fit.learn import Field, learn_with_gaps
from lln.fit.options import Fit, FitReport, Recipe, TimeLimit
from lln.fit.report.report import Coverage
from lln.fit.report.report import coverage as coverage_of
from lln.forecaster.layout import Layout, TrainingFingerprint
from lln.forecaster.results import Forecast, Start, check_level, forecast, one_step, with_bounds
from lln.forecaster.scoring.lyapunov import growth_rate, spectra_beside, true_system
from lln.forecaster.starts import Present, last_start, read_inputs, read_start
from lln.forecaster.summary import LINEAR, WIDTH, progress_for, summary
from lln.models import FieldLensNetwork, LensNetwork
from lln.models.lens import renamed_length
from lln.step.frame import Array
from lln.systems import System

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from matplotlib.figure import Figure

    from lln.evaluate.chaos import LyapunovSpectrum
    from lln.forecaster.scoring.evaluation import Evaluation
    from lln.step.step import AnyStep
    from lln.view.page.build import InlinePage


WINDOWS = 64
# Rollouts from which the Lyapunov exponent is estimated: their number, and values of all states together.
_ORBITS, _ORBIT_VALUES = 16, 20_000


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


@dataclasses.dataclass(eq=False, repr=False, kw_only=True)
class LensForecaster(Estimator):
    """Learn one step of a system from its trajectories, and roll it out.

    The step is a sum of parts: a linear map, a polynomial or a lens network in closed form, in float64, and a few small
    trained lens networks where those leave something to learn. Parts, ridge, history and stopping are chosen on
    held-out rollouts, so the result is never worse there than its linear part.

    >>> import numpy as np
    >>> angle = 0.1 * np.arange(200)
    >>> circle = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    >>> forecaster = LensForecaster(members=1, epochs=1).fit(circle[:150], dt=0.1)
    >>> forecaster.rollout(circle[148:150][-forecaster.history_ :], steps=50).predicted.shape
    (50, 2)

    Args:
        recipe: "lens" for the default recipe, "paper" for the recipe of the paper.
        model: which network corrects the linear part: "lens", or one of the paper's comparators.
        width: rays h of a member; None leaves it to the recipe, as everywhere below.
        depth: layers D.
        basis: control points K.
        optical_length: propagation distance T of a lens network.
        history: how many past states a step looks at; "auto" chooses on held-out rollouts.
        ridge: penalty of the linear part; "auto" chooses on held-out rollouts; None leaves the linear part out.
        members: networks in the ensemble; None takes three, and one for the paper's recipe.
        epochs: passes over the data.
        batch_size: pairs of states in one update.
        learning_rate: learning rate at the start of the schedule.
        unroll: steps of each rollout in fine-tuning; 0 for no fine-tuning, "auto" where the data is noisy.
        time_limit: seconds that the fit may take; `report_` says what was left out.
        validation: fraction of the data that is held out while choosing.
        refit: whether all rows train once the choices are made; False keeps held-out rows for `evaluate`.
        parts: which parts are tried: "auto" for all, or some of "linear", "polynomial", "flow" and "lens" (in closed
            form), and "network" (trained).
        field: on a grid, whether all points share the weights of convolutions: "auto" does what is better on held-out
            rollouts; True and False decide it; a mapping means True and gives options, such as {"conserve": "mean"}.
        device: where the networks are: "cpu", "cuda", ...
        random_state: an integer for the same result every time; None draws one.
        verbose: whether `fit` shows its progress. "auto" shows bars in an interactive session on a terminal and a line
            in a notebook, and is silent in scripts.
        horizon: old name of `optical_length`; works with a warning.

    Attributes:
        surrogate_: the learned step: `frame`, `members`, `rollout(window, steps, inputs)` on flat float64 states.
        recipe_: all options, with the choices that the fit made.
        report_: what the fit chose and how well the model does on held-out rows.
        training_: which rows of which data trained the model.
        layout_: names, units, grid, time step.
        dt_: time step.
        names_: names of the coordinates.
        input_names_: names of the known inputs.
        space_: grid shape, () for plain states.
        coords_: positions along each direction of space.
        history_: how many states a step looks at.
        input_lags_: how many earlier values of each known input a step looks at, beside the present one.
        region_: the box of states that training saw, widened by a tenth; angles have no bounds.
        last_window_: the last states of the training data, (H, n).
        last_time_: time of the last of them.
        n_features_in_: number of coordinates n.
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
    validation: float | None = None
    refit: bool = True
    parts: str | Sequence[str] = "auto"
    field: Field = "auto"
    device: str = "cpu"
    random_state: int | None = 0
    verbose: bool | str = "auto"
    horizon: float | None = None

    def fit(
        self,
        trajectories: Any,
        y: None = None,
        *,
        dt: float | None = None,
        inputs: Any = None,
        weights: Any = None,
        names: Any = None,
        grid: Any = None,
        time: str | None = None,
        states: Any = None,
        trajectory: str | None = None,
        resample: bool = False,
        static: Any = None,
        progress: Callable[[Any], None] | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        scheduler: str | None = None,
    ) -> Self:
        """Learn from trajectories.

        Args:
            trajectories: an array (time, n), a list of such arrays of any lengths, a stacked array (trajectories, time,
                n), an xarray object, a DataFrame, a path or a list of paths. NaN marks gaps.
            y: must be None; the targets are the trajectories' own next states.
            dt: time step, if the data does not contain it.
            inputs: known forcing or parameters, (time, m) for each trajectory, or constant.
            weights: how much each row counts, (time,).
            names: names of the coordinates.
            grid: positions of the coordinates in space.
            time: which variable or column is time, if its name does not say so.
            states: which variables or columns are the state.
            trajectory: which dimension or column tells trajectories apart.
            resample: whether to interpolate unevenly sampled data.
            static: fixed fields (*space, s) that field networks also see, such as geometry.
            progress: callback that receives an Event; None shows progress as `verbose` says.
            checkpoint: a file from which an interrupted fit continues to the same result.
            scheduler: address of a Dask scheduler, as in ``"tcp://10.0.0.5:8786"``, whose workers compute the
                independent pieces of the fit, with the same result. None computes everything here.
        """
        if y is not None:
            raise InputError("fit takes no y: the targets are the next states of the trajectories; leave it out")
        _refuse_other_arrays(trajectories)
        dataset = as_dataset(
            trajectories, dt=dt, inputs=inputs, weights=weights, names=names, grid=grid, time=time, states=states,
            trajectory=trajectory, resample=resample,
        )  # fmt: skip
        kept, recipe = None if checkpoint is None else Path(checkpoint), self._requested_recipe()
        limit = TimeLimit(recipe.time_limit)
        with progress_for(self.verbose if progress is None else False) as shown:
            fit, dataset = learn_with_gaps(
                dataset, recipe, field=self.field, static=static, progress=progress or shown, checkpoint=kept,
                scheduler=scheduler,
            )  # fmt: skip
        return self._adopt(fit, dataset, limit.left())

    def update(self, trajectories: Any, *, progress: Callable[[Any], None] | None = None, **data: Any) -> Self:
        """Continue a fit on new data: the structure that was chosen stays, its weights are fitted again.

        A closed form (linear map, polynomial or lens network with solved readout) is solved again with the lags, degree
        and ridge that were chosen, in a fraction of a second; errors and intervals stay those of the fit. A trained
        network is trained again in the frame and with the sizes that were chosen. The structure itself is chosen again
        by `fit`.

        Args:
            trajectories: every row to learn from, as for `fit`: the earlier rows too, if they still count.
            progress: callback that receives an Event; None shows progress as `verbose` says.
            **data: dt, inputs, names and the other arguments of `fit` that describe the data.
        """
        from lln.fit.learn import continue_fit

        self._fitted()
        check_options(data, self.update)
        dataset = self.layout_.read(trajectories, **data)
        with progress_for(self.verbose if progress is None else False) as shown:
            fit = continue_fit(dataset, self.recipe_, self.report_, field=self.field, progress=progress or shown)
        return self._adopt(fit, dataset)

    def _requested_recipe(self) -> Recipe:
        """The parameters as a recipe; checked there."""
        other = ("field", "random_state", "verbose", "horizon")
        given = {key: value for key, value in self.get_params(deep=False).items() if key not in other}
        if None not in (self.optical_length, self.horizon):
            raise InputError("horizon is the old name of optical_length; give one of the two")
        given["optical_length"] = renamed_length(self.optical_length, self.horizon)
        seed = secrets.randbits(31) if self.random_state is None else check_int("random_state", self.random_state, 0)
        return Recipe(**given, seed=seed)

    def _adopt(self, fit: Fit, dataset: Dataset, seconds: float = math.inf) -> Self:
        history = fit.surrogate.frame.history
        orbits = int(np.clip(_ORBIT_VALUES // dataset.size, 3, _ORBITS))
        exponent = None
        if fit.report.part not in LINEAR:  # a linear map that grows follows a trend, which is not chaos
            exponent = growth_rate(fit.surrogate, dataset.windows(history, orbits), dataset.dt, seconds)
        lagged = with_input_lags(dataset, fit.report.input_lags)
        index, _, last = lagged.stretches(history)[-1]
        series = lagged.series[index]
        known = series.input_rows(last - 1, last)
        inputs = [] if known is None else [float(value) for value in known[0]]
        label = dataset.labels[index] if len(dataset.series) > 1 else ""
        filled = np.flatnonzero(np.isnan(series.as_measured.rows(last - history, last))).tolist()
        report = dataclasses.replace(fit.report, exponent=exponent, last_inputs=inputs, last_trajectory=label)
        report = dataclasses.replace(report, last_filled=filled)
        training = TrainingFingerprint.of(dataset, report.training_rows, report.held_out_rows)
        window = np.asarray(series.rows(last - history, last), dtype=np.float64)
        time = float(series.start + (last - 1) * dataset.dt)
        return self.assemble(fit.surrogate, fit.recipe, report, Layout.of(dataset), training, window, time)

    def assemble(
        self,
        surrogate: AnyStep,
        recipe: Recipe,
        report: FitReport,
        layout: Layout,
        training: TrainingFingerprint,
        last_window: Array,
        last_time: float = 0.0,
    ) -> Self:
        """Make this a fitted forecaster out of its parts."""
        self.surrogate_, frame = surrogate, surrogate.frame
        self.recipe_, self.report_ = recipe, report
        self.layout_, self.training_ = layout, training
        self.dt_, self.names_, self.input_names_ = layout.dt, layout.names, layout.input_names
        self.space_, self.coords_ = layout.space, layout.coords
        self.history_, self.input_lags_ = frame.history, report.input_lags
        self.region_: Region = training_region(frame.mean, frame.scale, *report.region, surrogate.angles)
        self.last_window_, self.last_time_ = last_window, last_time
        self.n_features_in_ = layout.size
        return self

    def rollout(
        self, x0: Any = None, steps: int = HORIZON, inputs: Any = None, *, level: float | None = None
    ) -> Forecast:
        """The states after a start.

        Args:
            x0: one state (n,) or many (B, n); with a history of H > 1 the last H states, (H, n) or (B, H, n), oldest
                first; fields may keep their grid. xarray objects (the last states along time count) and tables
                work too. None starts where the training data ended, on the last of several trajectories.
            steps: how many.
            inputs: known inputs, (m,) if constant, (steps, m) or (B, steps, m); a table or mapping of them by name; or
                the path of a file of inputs alone, a row for each step from the start on. Where x0 is None, rows with
                dates are matched by date, and the file may begin after the training data. If the model looks at L
                earlier values of each (`input_lags_`) and x0 is given, L + steps rows begin with those before it.
            level: probability of prediction intervals, 0.5 to 0.95; they come from held-out rollouts, and are
                `lower` and `upper` of the result. None for none.

        Returns:
            The start and the states after it, of the same kind as x0, and how each rollout ended. Divergence and
            leaving the region that training saw are outcomes, not errors.
        """
        self._fitted()
        intervals = None if level is None else check_level(self.report_.intervals, level)
        start, steps, known = self._given(x0, steps, inputs)
        run = self._rolled(self.surrogate_, start, steps, known)
        found = forecast(run, start, self.layout_, scale=self.surrogate_.frame.scale)
        if intervals is None or level is None:
            return found
        spread = intervals.spread(self.surrogate_, start.window, found.array[..., 1:, :], known)
        return with_bounds(found, intervals, float(level), spread)

    def sample(self, x0: Any = None, steps: int = HORIZON, n: int | None = None, inputs: Any = None) -> Forecast:
        """Roll out each member of the ensemble alone, to show how far they agree.

        Args:
            x0: as for `rollout`.
            steps: how many.
            n: how many members; None takes all.
            inputs: as for `rollout`.

        Returns:
            As from `rollout`, with states (S, ..., steps + 1, n), whose first dimension is the members.
        """
        start, steps, known = self._given(x0, steps, inputs)
        alone = [self.surrogate_.replace(members=(member,)) for member in self.surrogate_.members]
        alone = alone if alone and self.surrogate_.frame.gain.any() else [self.surrogate_]
        count = len(alone) if n is None else check_int("n", n, 1)
        if count > len(alone):
            raise InputError(
                f"n = {count} members were asked for, but this model has {len(alone)}; fit with members={count}"
            )
        runs = [self._rolled(one, start, steps, known) for one in alone[:count]]
        outcomes = tuple(outcome for run in runs for outcome in run.outcomes)
        together = dataclasses.replace(runs[0], states=np.stack([run.states for run in runs]), outcomes=outcomes)
        return forecast(together, start, self.layout_, ("member",), self.surrogate_.frame.scale)

    def predict(self, x: Any, inputs: Any = None) -> Any:
        """One step: the state after each of `x`, of the same kind; `x` and `inputs` as for `rollout`, NaN stays NaN."""
        self._fitted()
        start = read_start(x, self.layout_, self.history_, gaps=True)
        known = self._known(inputs, 1, start)
        return one_step(self.surrogate_.rollout(start.window, 1, known), start, self.layout_)

    def invert(self, x: Any, inputs: Any = None) -> Any:
        """One step back: the state whose successor is `x` (with a history of H states, the one before the window).

        A learned step has an inverse only where it is one to one. It is sought by Newton's method in float64, and
        refused in one sentence where that does not converge.
        """
        start = self._start(x)
        known = self._known(inputs, 1, start)
        windows = start.window.reshape(-1, *start.window.shape[-2:])
        forcing = [None] * len(windows) if known is None else list(known.reshape(len(windows), -1))
        before = [self.surrogate_.inverse(*both) for both in zip(windows, forcing, strict=True)]
        states = np.reshape(before, (*start.lead, 1, self.layout_.size))
        return one_step(states, start, self.layout_, ahead=-self.history_)

    def coverage(self, x0: Any = None, steps: int = HORIZON, inputs: Any = None) -> Coverage | None:
        """Where hidden positions lie among the control points along a rollout; None for a model without lenses.

        The same on the training data is `report_.coverage`.
        """
        from lln.forecaster.scoring.evaluation import visited

        start, steps, known = self._given(x0, steps, inputs)
        windows = start.window.reshape(-1, *start.window.shape[-2:])
        forcing = None if known is None else known.reshape(len(windows), steps, -1)
        predicted = self.surrogate_.rollout(windows, steps, forcing)
        return self._coverage(visited(self.surrogate_.frame, windows, predicted, forcing))

    @property
    def input_columns_(self) -> tuple[str, ...]:
        """Names of the input columns of one step: the known inputs, then each of them one step before, and so on."""
        self._fitted()
        return lagged_names(self.input_names_, self.input_lags_) if self.input_lags_ else self.input_names_

    @property
    def parameters_(self) -> int:
        """Numbers that were fitted: of all networks and, where there is one, the linear part."""
        self._fitted()
        return self.report_.parameters

    def summary(self, width: int = WIDTH) -> str:
        """The data, the choices and the held-out errors of the fit, as text of at most `width` columns."""
        self._fitted()
        flow, width = getattr(self.surrogate_.frame, "flow", None), check_int("width", width, 40)
        return summary(self.layout_, self.recipe_, self.report_, self.training_, flow, width)

    def export(self, path: str | os.PathLike[str], format: str | None = None, **options: Any) -> Any:  # noqa: A002
        """Write the step for other programs, run it there, and return its difference from the float64 rollout.

        Args:
            path: a file ending in .onnx or .pt2, or a folder for C.
            format: "onnx", "torch" or "c"; None goes by the ending of `path`.
            **options: `rollout` for ONNX; `precision`, `name` and `check` for C.
        """
        from lln.export.parts import export_step

        self._fitted()
        names = {"names": self.names_, "input_names": self.input_columns_}
        return export_step(self.surrogate_, path, format, names, window=self.last_window_, **options)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.three_d_array = True
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "surrogate_")

    def _fitted(self) -> None:
        if not self.__sklearn_is_fitted__():
            from sklearn.exceptions import NotFittedError

            raise NotFittedError("this LensForecaster has not learned anything yet; call fit first, or lln.load a file")

    def _start(self, x0: Any) -> Start:
        self._fitted()
        if x0 is None:
            return last_start(self.last_window_, self.last_time_, self.report_)
        return read_start(x0, self.layout_, self.history_)

    def _given(self, x0: Any, steps: int, inputs: Any) -> tuple[Start, int, Array | None]:
        """The start of a rollout, its length and its known inputs, checked."""
        start, steps = self._start(x0), check_int("steps", steps, 1)
        present = Present(self.last_time_, self.report_.last_inputs) if x0 is None else None
        return start, steps, self._known(inputs, steps, start, present)

    def _known(self, inputs: Any, steps: int, start: Start, present: Present | None = None) -> Array | None:
        """The known inputs of each step with their lags; None for a model without inputs."""
        if inputs is None and not self.input_names_:
            return None
        return read_inputs(inputs, self.layout_, steps, start.lead, present, self.input_lags_)

    def _rolled(self, surrogate: Any, start: Start, steps: int, known: Array | None) -> Any:
        window, region = start.window, self.region_
        found = surrogate.track(window, steps, known, region)
        if found is None:
            after = surrogate.rollout(window, steps, known)
            return judge(np.concatenate([window[..., -1:, :], after], axis=-2), region=region)
        states = found.states.reshape(*start.lead, steps + 1, window.shape[-1])
        return marked(states, found.marks)

    def _coverage(self, features: Array) -> Coverage | None:
        frame, members = self.surrogate_.frame, self.surrogate_.members
        lenses = [member for member in members if isinstance(member, LensNetwork | FieldLensNetwork)]
        if not (lenses and frame.gain.any()):
            return None
        return coverage_of(lenses, features, getattr(frame, "static", None))

    def score(self, trajectories: Any, y: None = None, **data: Any) -> float:  # noqa: ARG002
        """1 minus the normalised mean square error of rollouts over unseen rows: 1 is perfect, 0 the mean."""
        return 1.0 - self.evaluate(trajectories, baselines=None, **data).nmse

    @one_thread
    def evaluate(
        self,
        trajectories: Any,
        *,
        steps: int | None = None,
        windows: int | None = WINDOWS,
        threshold: float = VALID_RMSE,
        metrics: Metrics = None,
        baselines: Sequence[str] | str | None = "auto",
        **data: Any,
    ) -> Evaluation:
        """Score rollouts on unseen rows, wherever they are in `trajectories`.

        Rows that trained and rows that helped to choose are recognised and left out; the latter are scored separately.
        Where no other rows are left, these are scored and the result says so (`scored`).

        Args:
            trajectories: as for `fit`.
            steps: length of each rollout; None takes 500, or what there is.
            windows: the largest number of rollouts, evenly spread; None for all.
            threshold: normalised root mean square error up to which a prediction counts as valid.
            metrics: more metrics to compute: names in `lln.evaluate.METRICS`, functions of the same form, or a mapping
                from names to such functions.
            baselines: simple methods to score beside the model, from rolling origins: "auto" for those that need no
                fit (persistence, mean, seasonal), "all" for all that are not too large, or names of
                `lln.compare`, which are fitted to those rows of the data that trained the model. None takes no scores
                by lead time.
            **data: dt, inputs, names and the other arguments of `fit` that describe the data.
        """
        from lln.forecaster.scoring.evaluation import evaluate_model

        self._fitted()
        check_options(data, self.evaluate)
        dataset = self.layout_.read(trajectories, **data)
        return evaluate_model(
            self, dataset, steps=steps, windows=windows, threshold=threshold, metrics=metrics, baselines=baselines
        )

    def lyapunov(
        self, trajectories: Any, *, system: System | str | None = None, count: int = 3, **data: Any
    ) -> dict[str, LyapunovSpectrum]:
        """Lyapunov exponents of the learned step and, where it is known, of the true system beside them.

        Args:
            trajectories: as for `fit`; orbits start from states in it, seen or not. Inputs are held at their mean.
            system: the true one, or the name of a preset; None takes the one that the data says it was simulated from.
            count: how many exponents, the largest ones.
            **data: dt, inputs, names and the other arguments of `fit` that describe the data.

        Returns:
            The spectra, per unit of time, by "learned" and "true".
        """
        self._fitted()
        check_options(data, self.lyapunov)
        dataset = self.layout_.read(trajectories, **data)
        true = true_system(dataset.system if system is None else system, self.n_features_in_)
        windows = dataset.windows(self.history_, WINDOWS)
        return spectra_beside(self.surrogate_, windows, self.dt_, true, count=check_int("count", count, 1))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to one file, which `lln.load` reads."""
        from lln.forecaster.file import save

        save(self, path)

    def plot(self, data: Any = None, *, steps: int = HORIZON, level: float | None = None) -> Figure:
        """Draw a rollout.

        Args:
            data: trajectories, as for `fit`; the rollout starts on rows that did not train and is drawn with the truth.
                None continues from the end of the training data.
            steps: length of the rollout, at most.
            level: probability of an interval to shade, 0.5 to 0.95; None draws none.
        """
        from lln.forecaster.display import plot_model

        self._fitted()
        return plot_model(self, data, steps=steps, level=level)

    def page(self, data: Any = None, *, height: int = 900, **options: Any) -> InlinePage:
        """The model as an interactive web page, which a notebook shows in a frame.

        Args:
            data: trajectories to compare rollouts with, as for `fit`; None starts where training ended.
            height: of the frame in a notebook, in pixels.
            **options: title, steps and members, as for `lln.view.page.forecaster_page`.

        Returns:
            The page; `save(path)` writes it as one HTML file.
        """
        from lln.view.page.build import inline_page

        self._fitted()
        return inline_page(self, data, height=height, **options)


def _refuse_other_arrays(values: Any) -> None:
    """Refuse sparse, complex and empty arrays with the messages that scikit-learn requires of every estimator."""
    if type(values).__module__.startswith("scipy.sparse"):
        raise InputError("sparse input is not supported: states are dense, give x.toarray()")
    if not isinstance(values, np.ndarray):
        return
    if values.dtype.kind == "c":
        raise InputError("Complex data not supported: give real and imaginary parts as columns of their own")
    if 0 in values.shape:
        what = "sample(s)" if values.shape[0] == 0 else "feature(s)"
        raise InputError(f"0 {what} (shape={values.shape}) while a minimum of 1 is required; give states (time, n)")
