"""A rollout as a film, from arrays: phase curve, time series, curve of a field, or image of a field, by its shape."""

from __future__ import annotations

import io
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import ArrayLike, NDArray
from PIL import Image

from lln.core.errors import InputError
from lln.core.shapes import positive, whole
from lln.plots.style import BLACK, BLUE, FIELD_COLOURS, VERMILION, WIDTH, house_style

Array = NDArray[np.float64]
Update = Callable[[int], None]

MOST_SERIES = 6
TRAIL = 150
FILM_DPI = 100


@dataclass(frozen=True, eq=False)
class Scene:
    """What is filmed.

    Attributes:
        runs: a name and states (time, n) for each, the one to be judged by first; all of one shape.
        dt: time between rows.
        names: of the n coordinates.
        space: grid shape; () for plain states.
        channels: names of the fields on the grid.
        coords: positions along each direction of space, by its name.
        title: above the picture.
    """

    runs: Mapping[str, ArrayLike]
    dt: float
    names: Sequence[str]
    space: tuple[int, ...] = ()
    channels: Sequence[str] = ("u",)
    coords: Mapping[str, ArrayLike] = field(default_factory=dict)
    title: str = ""

    def __post_init__(self) -> None:
        """Hold all runs to one shape."""
        shapes = {name: np.shape(states) for name, states in self.runs.items()}
        if not shapes or len(set(shapes.values())) != 1 or len(next(iter(shapes.values()))) != 2:
            raise InputError(f"a film needs states of one shape (time, n) for every run, got {shapes}")
        if len(self.space) > 2:
            raise InputError(f"a film shows fields in one or two directions of space, got {len(self.space)}")

    @property
    def steps(self) -> int:
        """Number of rows."""
        return int(next(iter(self.arrays.values())).shape[0])

    @property
    def arrays(self) -> dict[str, Array]:
        """The runs as float64."""
        return {name: np.asarray(states, dtype=np.float64) for name, states in self.runs.items()}

    def limits(self, first: int, last: int) -> tuple[float, float]:
        """Lowest and highest value of some coordinates, by the first run, with a margin."""
        seen = next(iter(self.arrays.values()))[:, first:last]
        low, high = float(np.nanmin(seen)), float(np.nanmax(seen))
        margin = 0.08 * (high - low) or 1.0
        return low - margin, high + margin


def draw_frames(scene: Scene, frames: int = 120) -> Iterator[Image.Image]:
    """The film's pictures, evenly spread over time."""
    count = min(whole("frames", frames, 2), scene.steps)
    positive("dt", scene.dt)
    with house_style(), mpl.rc_context({"text.parse_math": False}):  # names from files are no formulas
        figure = Figure(figsize=(WIDTH, 4.2), dpi=FILM_DPI, layout="constrained")
        canvas: Any = FigureCanvasAgg(figure)
        update = _stage(figure, scene)
        for k in np.linspace(0, scene.steps - 1, count).round().astype(int):
            update(int(k))
            figure.suptitle(f"{scene.title}   t = {k * scene.dt:.2f}".strip())
            canvas.draw()
            if figure.get_layout_engine() is not None:
                figure.set_layout_engine("none")  # the first frame decides, or the axes would tremble
            yield Image.fromarray(np.asarray(canvas.buffer_rgba())[..., :3].copy())


def _stage(figure: Figure, scene: Scene) -> Update:
    if len(scene.space) == 2:
        return _images(figure, scene)
    if len(scene.space) == 1:
        return _curves(figure, scene)
    if len(scene.names) in (2, 3):
        return _portrait(figure, scene)
    return _series(figure, scene)


def _look(index: int) -> dict[str, Any]:
    """The truth in black beneath, the model in colour over it; one run alone in colour."""
    colours = (BLACK, VERMILION, BLUE)
    return {"color": colours[index % 3], "linewidth": 2.4 if index == 0 else 1.4, "alpha": 0.8 if index == 0 else 1.0}


def _portrait(figure: Figure, scene: Scene) -> Update:
    size, runs = len(scene.names), list(scene.arrays.items())
    axis: Any = figure.add_subplot(projection="3d" if size == 3 else None)
    for letter, name, j in zip("xyz", scene.names, range(size), strict=False):
        getattr(axis, f"set_{letter}label")(name)
        getattr(axis, f"set_{letter}lim")(*scene.limits(j, j + 1))
    if size == 3:
        axis.view_init(elev=18, azim=-60)
        for letter in "xyz":
            getattr(axis, f"{letter}axis").set_pane_color((1.0, 1.0, 1.0, 0.0))
    pale = [
        axis.plot(*states.T[:, :1], **{**_look(i), "linewidth": 0.5, "alpha": 0.35})[0]
        for i, (_, states) in enumerate(runs)
    ]
    bright = [axis.plot(*states.T[:, :1], **_look(i), label=name)[0] for i, (name, states) in enumerate(runs)]
    heads = [
        axis.plot(*states.T[:, :1], "o", color=_look(i)["color"], markersize=5)[0] for i, (_, states) in enumerate(runs)
    ]
    if len(runs) > 1:
        axis.legend(loc="upper right")

    def update(k: int) -> None:
        for lines, first in ((pale, 0), (bright, max(0, k - TRAIL)), (heads, k)):
            for line, (_, states) in zip(lines, runs, strict=True):
                rows = states[first : k + 1].T
                if size == 3:
                    line.set_data_3d(*rows)
                else:
                    line.set_data(*rows)

    return update


def _series(figure: Figure, scene: Scene) -> Update:
    shown, runs = min(len(scene.names), MOST_SERIES), list(scene.arrays.items())
    columns = np.linspace(0, len(scene.names) - 1, shown).round().astype(int)
    axes = figure.subplots(shown, 1, sharex=True, squeeze=False)[:, 0]
    times = np.arange(scene.steps) * scene.dt
    lines = []
    for j, axis in zip(columns, axes, strict=True):
        axis.set_ylim(*scene.limits(j, j + 1))
        axis.set_ylabel(scene.names[j])
        lines.append([axis.plot([], [], **_look(i), label=name)[0] for i, (name, _) in enumerate(runs)])
    axes[-1].set_xlim(0.0, times[-1])
    axes[-1].set_xlabel("time t")
    if len(runs) > 1:
        axes[0].legend(loc="upper right", ncols=len(runs))

    def update(k: int) -> None:
        for j, row in zip(columns, lines, strict=True):
            for line, (_, states) in zip(row, runs, strict=True):
                line.set_data(times[: k + 1], states[: k + 1, j])

    return update


def _curves(figure: Figure, scene: Scene) -> Update:
    (points,), runs = scene.space, list(scene.arrays.items())
    axes = figure.subplots(len(scene.channels), 1, sharex=True, squeeze=False)[:, 0]
    name, places = next(iter(scene.coords.items()), ("position", np.arange(points)))
    lines = []
    for c, axis in enumerate(axes):
        axis.set_ylim(*scene.limits(c * points, (c + 1) * points))
        axis.set_ylabel(scene.channels[c])
        lines.append(
            [
                axis.plot(places, states[0, c * points : (c + 1) * points], **_look(i), label=run)[0]
                for i, (run, states) in enumerate(runs)
            ]
        )
    axes[-1].set_xlabel(name)
    axes[-1].set_xlim(float(np.min(np.asarray(places))), float(np.max(np.asarray(places))))
    if len(runs) > 1:
        axes[0].legend(loc="upper right", ncols=len(runs))

    def update(k: int) -> None:
        for c, row in enumerate(lines):
            for line, (_, states) in zip(row, runs, strict=True):
                line.set_ydata(states[k, c * points : (c + 1) * points])

    return update


def _images(figure: Figure, scene: Scene) -> Update:
    runs, size = list(scene.arrays.items()), int(np.prod(scene.space))
    axes = figure.subplots(len(scene.channels), len(runs), squeeze=False)
    directions = [*scene.coords, "x", "y"][:2]
    places = [np.asarray(values, dtype=float) for values in scene.coords.values()]
    extent = (*places[0][[0, -1]], *places[1][[0, -1]]) if len(places) == 2 else None
    pictures = []
    for c, channel in enumerate(scene.channels):
        low, high = scene.limits(c * size, (c + 1) * size)
        bound = max(abs(low), abs(high))
        for i, (name, states) in enumerate(runs):
            axis = axes[c, i]
            picture = axis.imshow(
                states[0, c * size : (c + 1) * size].reshape(scene.space).T,
                extent=extent, cmap=FIELD_COLOURS, vmin=-bound, vmax=bound, origin="lower", interpolation="nearest",
            )  # fmt: skip
            axis.set_title(f"{name}: {channel}" if len(scene.channels) > 1 else name)
            axis.set_xlabel(directions[0])
            axis.set_ylabel(directions[1])
            axis.grid(False)
            pictures.append((picture, states, c))
        figure.colorbar(pictures[-1][0], ax=list(axes[c]), shrink=0.85).ax.set_title(channel, loc="center")

    def update(k: int) -> None:
        for picture, states, c in pictures:
            picture.set_data(states[k, c * size : (c + 1) * size].reshape(scene.space).T)

    return update


def film_bytes(suffix: str, pictures: Iterator[Image.Image], fps: int = 25) -> bytes:
    """The pictures as the content of a .gif or .mp4 file."""
    fps = whole("fps", fps, 1)
    if suffix.lower() == ".gif":
        return _gif(pictures, fps)
    if suffix.lower() == ".mp4":
        return _mp4(pictures, fps)
    raise InputError(f"a film is a .gif or an .mp4 file, got {suffix!r}")


def no_film(suffix: str) -> str | None:
    """Why a film of this kind cannot be written here, or None."""
    if suffix.lower() == ".mp4" and shutil.which("ffmpeg") is None:
        return "writing .mp4 needs ffmpeg, and it is not installed; install ffmpeg or write a .gif"
    return None if suffix.lower() in (".gif", ".mp4") else f"a film is a .gif or an .mp4 file, got {suffix!r}"


def _gif(pictures: Iterator[Image.Image], fps: int) -> bytes:
    frames = [picture.quantize(colors=96, dither=Image.Dither.NONE) for picture in pictures]
    content = io.BytesIO()
    frames[0].save(
        content, "GIF", save_all=True, append_images=frames[1:], duration=round(1000 / fps), loop=0, optimize=True
    )
    return content.getvalue()


def _mp4(pictures: Iterator[Image.Image], fps: int) -> bytes:
    reason = no_film(".mp4")
    if reason is not None:
        raise InputError(reason)
    with tempfile.TemporaryDirectory() as place:
        target = Path(place) / "film.mp4"
        command = ["ffmpeg", "-loglevel", "error", "-f", "image2pipe", "-framerate", str(fps), "-c:v", "png", "-i", "-"]
        # Even sizes and this pixel format are what every player reads.
        command += ["-vf", "pad=ceil(iw/2)*2:ceil(ih/2)*2", "-pix_fmt", "yuv420p", str(target)]
        frames = io.BytesIO()
        for picture in pictures:
            picture.save(frames, "PNG")
        done = subprocess.run(command, input=frames.getvalue(), capture_output=True, check=False)
        if done.returncode:
            raise InputError(f"ffmpeg could not write the film ({done.stderr.decode(errors='replace').strip()})")
        return target.read_bytes()
