"""`lln page`, `lln draw`, `lln animate`: a model as a web page, a drawing, a film."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lln.cli.console import echo, output_file, picture_file, read_data, read_for, read_model
from lln.cli.options import MODEL_SUFFIX, ModelFile, Selection, option, switch
from lln.core.errors import InputError


def page(
    model: ModelFile,
    selection: Selection,
    out: Path | None = option("HTML file to write.", None, "--out", "-o", shown="the model's name with .html"),
    show: bool = switch("Open the page in the browser.", "--open"),
    data: Path | None = option("Trajectories to start from and to compare rollouts with."),
    steps: int | None = option("States after the start.", shown="all rows to compare with, 50 to 500", min=1),
    members: int | None = option("Number of networks of the ensemble to include.", shown="all", min=1),
    title: str | None = option("Title of the page.", shown="the name of the data"),
) -> None:
    """Write one HTML file that runs a model in the browser: a start to drag, its future, and the rays inside.

    The file needs no server, no network and no other file. Training rows of --data are marked; the first start lies on
    other rows if there are any. Without --data a rollout starts where the training data ends, and there is no truth to
    compare it with.
    """
    from lln.core.safe_files import whole_file
    from lln.view.page import forecaster_page

    target = output_file(Path(f"{model.stem}.html") if out is None else out, model, data)
    forecaster = read_model(model)
    truth = None if data is None else read_for(forecaster, data, selection)
    text = forecaster_page(forecaster, truth, title=title, steps=steps, members=members)
    with whole_file(target) as partial:
        partial.write_text(text, encoding="utf-8")
    echo(f"wrote {target}: {target.stat().st_size / 1e6:.2f} MB{'' if show else ', open it in a browser'}")
    if show:
        typer.launch(target.resolve().as_uri())


def draw(
    model: ModelFile,
    out: Annotated[Path, typer.Option("--out", "-o", help="Picture to write: .svg, .png or .pdf.")],
    rays: int = option("How many rays to draw.", 12, min=1),
    member: int = option("Which member of the ensemble.", 0, min=0),
) -> None:
    """Draw a lens network at the last training state: embedding, rays, lenses with their strength, readout."""
    from lln.plots.style import save_figure
    from lln.view.drawing import architecture_figure
    from lln.view.rays import bench_of

    picture_file(out, model, what="drawing", suffixes=(".svg", ".png", ".pdf"))
    forecaster = read_model(model)
    count = len(forecaster.surrogate_.members)
    if count and member >= count:
        raise InputError(f"--member must be below {count}, the number of members of this model, got {member}")
    bench = bench_of(forecaster.surrogate_, forecaster.last_window_, member=member)
    inside = "the lens network inside"
    if forecaster.surrogate_.kind == "field":
        inside = (
            f"the first of {len(forecaster.surrogate_.members[0].blocks)} blocks of lenses, at one point of the grid"
        )
    figure = architecture_figure(bench, rays=rays, title=f"{model.stem}: {inside}")
    save_figure(figure, out)
    echo(f"wrote {out}: {min(rays, bench.width)} of {bench.width} rays through {bench.depth} lenses")


def animate(
    source: Annotated[Path, typer.Argument(help=f"A model ({MODEL_SUFFIX}) to roll out, or a file of trajectories.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Film to write: .gif, or .mp4 where ffmpeg is installed.")],
    selection: Selection,
    data: Path | None = option("Data to show beside a model's rollout, which then starts where the data does."),
    steps: int = option("Steps to show.", 500, min=1),
    frames: int = option("Pictures in the film.", 120, min=2),
    fps: int = option("Pictures a second.", 25, min=1, max=100),
) -> None:
    """Make a film of a rollout: a curve in phase space or over time, or a field as a curve or an image."""
    from lln.core.safe_files import whole_file
    from lln.plots.animate import draw_frames, film_bytes, no_film
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
