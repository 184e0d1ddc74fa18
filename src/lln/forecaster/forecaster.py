"""The estimator: it learns one step of a system from trajectories, rolls it out and scores itself."""

from __future__ import annotations

import dataclasses
import math
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from lln.core.errors import InputError, check_int, did_you_mean
from lln.core.workers.mapping import one_thread
from lln.data.dataset import as_dataset
from lln.data.series import HORIZON, Dataset
from lln.data.stream import with_input_lags
from lln.evaluate.metrics import VALID_RMSE, Metric
from lln.fit.learn import Field, learn
from lln.fit.options import Fit, Recipe, TimeLimit
from lln.forecaster.fitted import FittedForecaster, save
from lln.forecaster.layout import Layout, TrainingFingerprint
from lln.forecaster.scoring.lyapunov import growth_rate, spectra_beside, true_system
from lln.forecaster.summary import LINEAR, progress_for
from lln.models.lens import renamed_length
from lln.systems import System

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from matplotlib.figure import Figure

    from lln.evaluate.chaos import LyapunovSpectrum
    from lln.forecaster.scoring.evaluation import Evaluation
    from lln.view.page.build import InlinePage

WINDOWS = 64
# Rollouts from which the Lyapunov exponent is estimated: their number, and values of all states together.
_ORBITS, _ORBIT_VALUES = 16, 20_000


@dataclasses.dataclass(eq=False, repr=False, kw_only=True)
class LensForecaster(FittedForecaster):
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
        ridge: penalty of the linear part; "auto" chooses on held-out rollouts, None leaves the linear part out.
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
        region_: the box of states that training saw, widened by a tenth; angles that turn on have no bounds.
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
            scheduler: address of a Dask scheduler, as in "tcp://10.0.0.5:8786", whose workers compute the independent
                pieces of the fit, with the same result. None computes everything here.
        """
        if y is not None:
            raise InputError("fit takes no y: the targets are the next states of the trajectories; leave it out")
        _refuse_other_arrays(trajectories)
        dataset = as_dataset(
            trajectories, dt=dt, inputs=inputs, weights=weights, names=names, grid=grid, time=time, states=states,
            trajectory=trajectory, resample=resample,
        )  # fmt: skip
        kept, wishes = None if checkpoint is None else Path(checkpoint), self._wishes()
        limit = TimeLimit(wishes.time_limit)
        with progress_for(self.verbose if progress is None else False) as shown:
            fit = learn(
                dataset, wishes, field=self.field, static=static, progress=progress or shown, checkpoint=kept,
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
        dataset = self.layout_.read(trajectories, **data)
        with progress_for(self.verbose if progress is None else False) as shown:
            fit = continue_fit(dataset, self.recipe_, self.report_, field=self.field, progress=progress or shown)
        return self._adopt(fit, dataset)

    def _wishes(self) -> Recipe:
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
        fit = dataclasses.replace(fit, report=dataclasses.replace(fit.report, exponent=exponent, last_inputs=inputs))
        training = TrainingFingerprint.of(dataset, fit.report.training_rows, fit.report.held_out_rows)
        window = np.asarray(series.rows(last - history, last), dtype=np.float64)
        time = float(series.start + (last - 1) * dataset.dt)
        return self.assemble(fit.surrogate, fit.recipe, fit.report, Layout.of(dataset), training, window, time)

    def score(self, trajectories: Any, y: None = None, **data: Any) -> float:  # noqa: ARG002
        """1 minus the normalised mean square error of rollouts over unseen rows: 1 is perfect, 0 the training mean."""
        return 1.0 - self.evaluate(trajectories, baselines=None, **data).nmse

    @one_thread
    def evaluate(
        self,
        trajectories: Any,
        *,
        steps: int | None = None,
        windows: int | None = WINDOWS,
        threshold: float = VALID_RMSE,
        metrics: Sequence[str | Metric] | str | None = None,
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
            metrics: more metrics to compute: names in `lln.evaluate.METRICS`, or functions of the same form.
            baselines: simple methods to score beside the model, from rolling origins: "auto" for those that need no
                fit (persistence, training mean, seasonal naive), "all" that are not too large, or names of
                `lln.compare`, which are fitted to those rows of the data that trained the model. None takes no scores
                by lead time.
            **data: dt, inputs, names and the other arguments of `fit` that describe the data.
        """
        from lln.forecaster.scoring.evaluation import evaluate_model

        self._fitted()
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
        dataset = self.layout_.read(trajectories, **data)
        true = true_system(dataset.system if system is None else system, self.n_features_in_)
        windows = dataset.windows(self.history_, WINDOWS)
        return spectra_beside(self.surrogate_, windows, self.dt_, true, count=check_int("count", count, 1))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to one file, which `lln.load` reads."""
        save(self, path)

    def plot(self, data: Any = None, *, steps: int = HORIZON, level: float | None = None) -> Figure:
        """Draw a rollout.

        Args:
            data: trajectories, as for `fit`; the rollout starts on rows that did not train and is drawn with the truth.
                None continues from the end of the training data.
            steps: length of the rollout, at most.
            level: probability of an interval to shade, such as 0.9; None draws none.
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
    """Refuse sparse, complex and empty arrays with the words that scikit-learn asks of every estimator."""
    if type(values).__module__.startswith("scipy.sparse"):
        raise InputError("sparse input is not supported: states are dense, give x.toarray()")
    if not isinstance(values, np.ndarray):
        return
    if values.dtype.kind == "c":
        raise InputError("Complex data not supported: give real and imaginary parts as columns of their own")
    if 0 in values.shape:
        what = "sample(s)" if values.shape[0] == 0 else "feature(s)"
        raise InputError(f"0 {what} (shape={values.shape}) while a minimum of 1 is required; give states (time, n)")


_OTHER_NAMES = {"seed": "random_state", "horizon": "optical_length"}


def keyword_options(given: LensForecaster | Mapping[str, Any] | None) -> dict[str, Any]:
    """The keyword arguments of `LensForecaster` that differ from its defaults.

    Args:
        given: an estimator, a mapping of keyword arguments, or None for the defaults. `seed` and `horizon` are
            other names for `random_state` and `optical_length`.
    """
    defaults = LensForecaster._parameters()
    if given is None:
        return {}
    if isinstance(given, LensForecaster):
        given = {name: value for name, value in given.get_params(deep=False).items() if value != defaults[name]}
    if not isinstance(given, Mapping):
        raise InputError(f"options are keyword arguments of LensForecaster or an estimator, got {type(given).__name__}")
    options = {_OTHER_NAMES.get(name, name): value for name, value in given.items()}
    for old, name in _OTHER_NAMES.items():
        if old in given and name in given:
            raise InputError(f"{old} is another name of {name}; give one of the two")
    for name in options:
        if name not in defaults:
            raise InputError(
                f"LensForecaster has no option {name!r}{did_you_mean(str(name), defaults)}", topic="unknown-name"
            )
    return options
