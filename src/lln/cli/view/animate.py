"""`lln animate`: a rollout, or data, as a film."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lln.cli.options import MODEL_SUFFIX, Selection


def animate(
    source: Annotated[Path, typer.Argument(help=f"A model ({MODEL_SUFFIX}) to roll out, or a file of trajectories.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Film to write: .gif, or .mp4 where ffmpeg is installed.")],
    selection: Selection,
    data: Annotated[
        Path | None, typer.Option(help="Data to show beside a model's rollout, which then starts where the data does.")
    ] = None,
    steps: Annotated[int, typer.Option(min=1, help="Steps to show.")] = 500,
    frames: Annotated[int, typer.Option(min=2, help="Pictures in the film.")] = 120,
    fps: Annotated[int, typer.Option(min=1, max=100, help="Pictures a second.")] = 25,
) -> None:
    """Make a film of a rollout: a curve in phase space or over time, or a field as a curve or an image."""
    from lln.cli.console import echo, output_file, read_data, read_for, read_model
    from lln.core.errors import InputError
    from lln.core.safe_files import whole_file
    from lln.plots.animate import draw_frames
    from lln.plots.film import film_bytes, no_film
    from lln.view.scenes import data_scene, model_scene

    reason = no_film(out.suffix)
    if reason is not None:
        raise InputError(f"{out}: {reason}")
    output_file(out, source, data)
    if source.suffix == MODEL_SUFFIX:
        model = read_model(source)
        truth = None if data is None else read_for(model, data, selection)
        scene = model_scene(model, truth, steps, source.stem)
    elif data is not None:
        raise InputError("--data is shown beside a model's rollout; give a model, or one file of data alone")
    else:
        scene = data_scene(read_data([source], selection), steps, source.stem)
    content = film_bytes(out.suffix, draw_frames(scene, frames), fps)
    with whole_file(out) as partial:
        partial.write_bytes(content)
    echo(f"wrote {out}: {scene.steps:,} states, dt = {scene.dt:g}, {len(content) / 1e6:.1f} MB")
