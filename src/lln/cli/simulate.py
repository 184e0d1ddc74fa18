"""`lln simulate`: a preset's trajectories as a file of data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lln.cli.console import DataOut, Seeds, data_file, option, preset_names, renamed, stopwatch
from lln.core.errors import InputError, choice

if TYPE_CHECKING:
    from lln.data.series import Dataset
    from lln.systems import System


def simulate(
    preset: Annotated[
        str,
        typer.Argument(
            help="Name of a system, as in lorenz-28 or ks-128; an unknown one lists all.", autocompletion=preset_names
        ),
    ],
    out: DataOut,
    steps: int | None = option("Steps to write, after the burn-in.", shown="3500; fields: their own number", min=1),
    burn_in: int | None = option("Steps to simulate and discard first.", shown="500; fields: their own number", min=0),
    random_state: list[int] | None = option(
        "Perturb the start by 2 % RMS (fields: a random smooth start); several for several trajectories.",
        shown="the system's own start",
        min=0,
    ),
    dtype: str = option("float32, as in the paper, or float64.", "float32"),
    seed: Seeds = None,
) -> None:
    """Simulate one of the paper's ten systems, or a field, and write its trajectories.

    The file has STEPS + 1 states: the end of the burn-in, and one after each step. With the default numbers the first
    3000 steps are the paper's training pairs and the last 500 its test window.
    """
    from lln.data.read.formats import write
    from lln.systems import SYSTEMS, SpectralField

    system = SYSTEMS.get(choice("system", preset.lower(), SYSTEMS.names()))
    usual = (system.steps, system.burn_in) if isinstance(system, SpectralField) else (3500, 500)
    steps, burn_in = usual[0] if steps is None else steps, usual[1] if burn_in is None else burn_in
    seeds = renamed("random-state", random_state, "seed", seed) or []
    data_file(out)
    taken = stopwatch()
    dataset = trajectories(system, steps, burn_in, seeds, dtype)
    write(out, dataset)
    count = len(dataset.series)
    each = f"{count} trajectories of {steps + 1:,} states" if count > 1 else f"{steps + 1:,} states"
    typer.echo(f"wrote {out} in {taken()}: {each}, {system.size:,} coordinates, dt = {system.dt:g}")


def trajectories(system: System, steps: int, burn_in: int, seeds: list[int], dtype: str = "float32") -> Dataset:
    """Simulate from the system's own start, or one trajectory for each seed."""
    from dataclasses import replace

    import numpy as np

    from lln.data.series import Dataset, Series
    from lln.systems import SYSTEMS, SpectralField, seeded_start
    from lln.systems import simulate as advance

    repeated = [one for one in seeds if seeds.count(one) > 1]
    if repeated:
        raise InputError(
            f"--random-state {repeated[0]} is given twice, which gives the same trajectory twice; choose another"
        )
    starts = [seeded_start(system, one) for one in seeds] if seeds else [system.start()]
    # One at a time: the rounding of a trajectory must not depend on how many others there are.
    runs = [advance(system, burn_in + steps, starts=start, dtype=dtype)[burn_in:] for start in starts]
    labels = [f"seed {one}" for one in seeds] if seeds else [system.name]
    first = burn_in * system.dt
    series = tuple(Series(states, name=label, start=first) for states, label in zip(runs, labels, strict=True))
    named = next((name for name in SYSTEMS if SYSTEMS.get(name) == system), "")
    plain = Dataset(series, system.dt, system.coordinates, source=system.name, system=named)
    if isinstance(system, SpectralField):
        return replace(plain, space=system.space, channels=system.channels, coords=system.coords)
    if system.grid is None:
        return plain
    return replace(plain, space=system.grid.shape, channels=("u",), coords={"x": np.asarray(system.grid)})
