"""A rollout as a film, from arrays: phase curve, time series, curve of a field, or image of a field, by its shape."""

from __future__ import annotations

import io
import shutil
import subprocess
import tempfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import matplotlib as mpl
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike, NDArray
from PIL import Image

from lln.core.errors import InputError, check_int, positive
from lln.plots.forecasts import axis_limits, label_bar, short_dates, upright
from lln.plots.style import BLACK, BLUE, FIELD_COLOURS, VERMILION, WIDTH, figure_style

Array = NDArray[np.float64]
Update = Callable[[int], None]

MOST_SERIES = 6
TRAIL = 150
FILM_DPI = 100


@dataclass(frozen=True, eq=False)
class Scene:
    """What is filmed; attributes that a `Dataset` or its series have too mean the same there.

    Attributes:
        runs: a name and states (time, n) for each, the reference first; all of one shape.
        title: above the picture.
    """

    runs: Mapping[str, ArrayLike]
    dt: float
    names: Sequence[str]
    space: tuple[int, ...] = ()
    channels: Sequence[str] = ("u",)
    coords: Mapping[str, ArrayLike] = field(default_factory=dict)
    title: str = ""
    units: Mapping[str, str] = field(default_factory=dict)
    time_name: str = "time"
    start: float = 0.0
    dates: NDArray[np.datetime64] | None = None  #: of the rows, where time counts from a date.

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

    def label(self, name: str) -> str:
        """A name with its unit."""
        unit = self.units.get(name, "")
        return f"{name} ({unit})" if unit else name

    def clock(self, row: int) -> str:
        """The title of a picture: what is seen, and when; all of one width, so that it stands still."""
        if self.dates is not None:
            now = np.datetime_as_string(self.dates, unit=self._unit())[row].replace("T", " ")
            return f"{self.title}   {now}".strip()
        # Enough decimals to distinguish the times of a step: 0.25 needs two, a third gets one more than its size
        # requires.
        fewest = max(0, -int(np.floor(np.log10(self.dt) + 1e-9)))
        exact = (d for d in range(fewest, fewest + 3) if abs(round(self.dt, d) - self.dt) < 1e-6 * self.dt)
        decimals = min(next(exact, fewest + 1), 9)
        last = f"{self.start + (self.steps - 1) * self.dt:.{decimals}f}"
        now = f"{self.start + row * self.dt:.{decimals}f}".rjust(len(last), "\N{FIGURE SPACE}")
        unit = self.units.get(self.time_name, "").partition(" since ")[0]
        return f"{self.title}   {self.time_name} {now} {unit}".strip()

    def _unit(self) -> Literal["D", "m", "s"]:
        """The coarsest unit that distinguishes all dates."""
        fits = (unit for unit in ("D", "m") if (np.asarray(self.dates).astype(f"M8[{unit}]") == self.dates).all())
        return next(fits, "s")  # type: ignore[arg-type]

    def limits(self, first: int, last: int) -> tuple[float, float]:
        """Limits of some coordinates: those of the first run, widened at most by its own range for the others."""
        truth, *others = (states[:, first:last] for states in self.arrays.values())
        return axis_limits(np.concatenate([truth, *others]), truth)


def draw_frames(scene: Scene, frames: int = 120) -> Iterator[Image.Image]:
    """The film's pictures, evenly spread over time."""
    count = min(check_int("frames", frames, 2), scene.steps)
    positive("dt", scene.dt)
    with figure_style(), mpl.rc_context({"text.parse_math": False}):  # names from files are no formulas
        # Even numbers of pixels, for players of MP4.
        figure = Figure(
            figsize=(WIDTH, 2 * round(0.5 * FILM_DPI * _height(scene)) / FILM_DPI), dpi=FILM_DPI, layout="constrained"
        )
        canvas: Any = FigureCanvasAgg(figure)
        update, title = _stage(figure, scene), figure.suptitle("")
        for k in np.linspace(0, scene.steps - 1, count).round().astype(int):
            update(int(k))
            title.set_text(scene.clock(int(k)))
            canvas.draw()
            if figure.get_layout_engine() is not None:
                figure.set_layout_engine("none")  # the first frame decides, or the axes would tremble
            yield Image.fromarray(np.asarray(canvas.buffer_rgba())[..., :3].copy())


def _height(scene: Scene) -> float:
    """In inches: what the panels need, and no empty stripes beside images."""
    if len(scene.space) == 2:
        wide, tall = (float(np.ptp(_places(scene)[axis])) or 1.0 for axis in _directions(scene))
        panel = (WIDTH - 1.0) / len(scene.runs) - 0.5
        return float(np.clip(0.5 + len(scene.channels) * (panel * tall / wide + 0.65), 2.4, 9.0))
    rows = len(scene.channels) if scene.space else min(len(scene.names), MOST_SERIES)
    return 4.2 if rows <= 3 else 1.4 * rows


def _places(scene: Scene) -> list[Array]:
    """Positions along each direction of space; indices where there are none."""
    given = [np.asarray(values, dtype=float) for values in scene.coords.values()]
    fits = len(given) == len(scene.space) and all(len(a) == n for a, n in zip(given, scene.space, strict=True))
    return given if fits else [np.arange(float(n)) for n in scene.space]


def _directions(scene: Scene) -> tuple[int, int]:
    """Which direction of a plane runs across and which up: x and longitude across; of others the first runs up."""
    first = next(iter(scene.coords), "x").lower()
    return (0, 1) if first in ("x", "lon", "longitude") else (1, 0)


def _edges(places: Array) -> tuple[float, float]:
    """Where the first cell begins and the last one ends: half a spacing beyond their centres."""
    half = 0.5 * float(places[-1] - places[0]) / max(len(places) - 1, 1) or 0.5
    return float(places[0]) - half, float(places[-1]) + half


def _stage(figure: Figure, scene: Scene) -> Update:
    if len(scene.space) == 2:
        return _images(figure, scene)
    if len(scene.space) == 1:
        return _curves(figure, scene)
    if len(scene.names) in (2, 3) and scene.dates is None:
        return _portrait(figure, scene)
    return _series(figure, scene)


def _look(index: int, count: int) -> dict[str, Any]:
    """Of run `index` out of `count`: the truth in black, the forecast in colour over it; one alone in colour."""
    if count == 1:
        return {"color": BLUE, "linewidth": 1.8}
    colours = (BLACK, BLUE, VERMILION)
    return {"color": colours[index % 3], "linewidth": 2.4 if index == 0 else 1.4, "alpha": 0.8 if index == 0 else 1.0}


def _portrait(figure: Figure, scene: Scene) -> Update:
    size, runs = len(scene.names), list(scene.arrays.items())
    axis: Any = figure.add_subplot(projection="3d" if size == 3 else None)
    for letter, name, j in zip("xyz", scene.names, range(size), strict=False):
        getattr(axis, f"set_{letter}label")(scene.label(name))
        getattr(axis, f"set_{letter}lim")(*scene.limits(j, j + 1))
    if size == 3:
        axis.view_init(elev=18, azim=-60)
        axis.set_box_aspect(None, zoom=1.15)
        for letter in "xyz":
            getattr(axis, f"{letter}axis").set_pane_color((1.0, 1.0, 1.0, 0.0))
            getattr(axis, f"{letter}axis").set_major_locator(MaxNLocator(5))  # more labels overlap
    looks = [_look(i, len(runs)) for i in range(len(runs))]
    pale = [{**look, "linewidth": 0.5, "alpha": 0.35} for look in looks]
    bright = [{**look, "label": name} for look, (name, _) in zip(looks, runs, strict=True)]
    heads = [{"color": look["color"], "marker": "o", "linestyle": "none", "markersize": 5} for look in looks]
    drawn = [
        [axis.plot(*states.T[:, :1], **look)[0] for look, (_, states) in zip(styles, runs, strict=True)]
        for styles in (pale, bright, heads)
    ]
    if len(runs) > 1:  # outside, where no curve can run through it
        figure.legend(handles=drawn[1], loc="outside lower center", ncols=len(runs))

    def update(k: int) -> None:
        for lines, first in zip(drawn, (0, max(0, k - TRAIL), k), strict=True):
            for line, (_, states) in zip(lines, runs, strict=True):
                (line.set_data_3d if size == 3 else line.set_data)(*states[first : k + 1].T)

    return update


def _panels(figure: Figure, scene: Scene, labels: Sequence[str], spans: Sequence[tuple[int, int]]) -> Any:
    """A panel below the other for each label, with the limits of a span of columns, and in each a line for each run."""
    axes = figure.subplots(len(labels), 1, sharex=True, squeeze=False)[:, 0]
    lines = []
    for axis, label, span in zip(axes, labels, spans, strict=True):
        axis.set_ylim(*scene.limits(*span))
        axis.set_ylabel(scene.label(label), **upright(scene.label(label)))
        lines.append([axis.plot([], [], **_look(i, len(scene.runs)), label=run)[0] for i, run in enumerate(scene.runs)])
    if len(scene.runs) > 1:
        figure.legend(handles=lines[0], loc="outside lower center", ncols=len(scene.runs))
    return axes, lines


def _series(figure: Figure, scene: Scene) -> Update:
    shown, runs = min(len(scene.names), MOST_SERIES), list(scene.arrays.values())
    columns = np.linspace(0, len(scene.names) - 1, shown).round().astype(int)
    axes, lines = _panels(figure, scene, [scene.names[j] for j in columns], [(j, j + 1) for j in columns])
    times = scene.start + np.arange(scene.steps) * scene.dt if scene.dates is None else scene.dates
    axes[-1].set_xlim(times[0], times[-1])
    short_dates(axes[-1], times)
    axes[-1].set_xlabel(scene.label(scene.time_name) if scene.dates is None else scene.time_name)
    for line in (line for row in lines for line in row):
        line.set(marker="o", markersize=4, markevery=[-1], clip_on=False)  # the present state

    def update(k: int) -> None:
        for j, row in zip(columns, lines, strict=True):
            for line, states in zip(row, runs, strict=True):
                line.set_data(times[: k + 1], states[: k + 1, j])

    return update


def _curves(figure: Figure, scene: Scene) -> Update:
    (points,), (places,), runs = scene.space, _places(scene), list(scene.arrays.values())
    spans = [(c * points, (c + 1) * points) for c in range(len(scene.channels))]
    axes, lines = _panels(figure, scene, scene.channels, spans)
    axes[-1].set_xlabel(scene.label(next(iter(scene.coords), "position")))
    axes[-1].set_xlim(float(places.min()), float(places.max()))

    def update(k: int) -> None:
        for (first, last), row in zip(spans, lines, strict=True):
            for line, states in zip(row, runs, strict=True):
                line.set_data(places, states[k, first:last])

    return update


def _images(figure: Figure, scene: Scene) -> Update:
    runs, size = list(scene.arrays.items()), int(np.prod(scene.space))
    axes = figure.subplots(len(scene.channels), len(runs), squeeze=False)
    names = [*scene.coords, "x", "y"][:2]
    order = _directions(scene)
    (across, up), directions = [_edges(_places(scene)[axis]) for axis in order], [names[axis] for axis in order]

    def turned(states: Array) -> Array:
        """The field as rows that run up."""
        return states.reshape(scene.space).transpose(order[::-1])

    pictures = []
    for c, channel in enumerate(scene.channels):
        truth = next(iter(scene.arrays.values()))[:, c * size : (c + 1) * size]  # whose colours must not pale
        bound = max(map(abs, axis_limits(truth, truth)))
        for i, (name, states) in enumerate(runs):
            axis = axes[c, i]
            picture = axis.imshow(
                turned(states[0, c * size : (c + 1) * size]),
                extent=(*across, *up), cmap=FIELD_COLOURS, vmin=-bound, vmax=bound, origin="lower",
                interpolation="nearest",
            )  # fmt: skip
            axis.set_title(f"{name}: {channel}" if len(scene.channels) > 1 else name)
            axis.grid(False)
            if c == len(scene.channels) - 1:
                axis.set_xlabel(scene.label(directions[0]))
            if i == 0:
                axis.set_ylabel(scene.label(directions[1]))
            axis.label_outer()
            pictures.append((picture, states, c))
        bar = figure.colorbar(pictures[-1][0], ax=list(axes[c]), shrink=0.85, extend="both")
        label_bar(bar, scene.label(channel))

    def update(k: int) -> None:
        for picture, states, c in pictures:
            picture.set_data(turned(states[k, c * size : (c + 1) * size]))

    return update


COLOURS, FREQUENT = 192, 16  # of a GIF's palette; those among them that are taken as they are


def film_bytes(suffix: str, pictures: Iterator[Image.Image], fps: int = 25) -> bytes:
    """The pictures as the content of a .gif or .mp4 file."""
    fps, reason = check_int("fps", fps, 1), no_film(suffix)
    if reason is not None:
        raise InputError(reason)
    return _gif(pictures, fps) if suffix.lower() == ".gif" else _mp4(pictures, fps)


def no_film(suffix: str) -> str | None:
    """Why a film of this kind cannot be written here, or None."""
    if suffix.lower() == ".mp4" and shutil.which("ffmpeg") is None:
        return "writing .mp4 needs ffmpeg, and it is not installed; install ffmpeg or write a .gif"
    return None if suffix.lower() in (".gif", ".mp4") else f"a film is a .gif or an .mp4 file, got {suffix!r}"


def _gif(pictures: Iterator[Image.Image], fps: int) -> bytes:
    """One palette for the whole film: with one for each picture, colours would flicker from picture to picture."""
    counts: Counter[int] = Counter()
    kept, size = [], (0, 0)
    for picture in pictures:
        size = picture.size
        values, times = np.unique(_codes(np.asarray(picture)), return_counts=True)
        counts.update(dict(zip(values.tolist(), times.tolist(), strict=True)))
        kept.append(zlib.compress(picture.tobytes(), 1))  # because a long film is large
    codes, palette = np.array(sorted(counts)), _palette(counts)
    places = np.concatenate([_nearest(_rgb(part), palette) for part in np.array_split(codes, 1 + len(codes) // 4096)])
    frames = []
    for one in kept:
        pixels = np.frombuffer(zlib.decompress(one), dtype=np.uint8).reshape(size[1], size[0], 3)
        frame = Image.fromarray(places[np.searchsorted(codes, _codes(pixels))])
        frame.putpalette(palette.tobytes())
        frames.append(frame)
    content = io.BytesIO()
    frames[0].save(
        content, "GIF", save_all=True, append_images=frames[1:], duration=round(1000 / fps), loop=0, optimize=True
    )
    return content.getvalue()


def _palette(counts: Counter[int]) -> NDArray[np.uint8]:
    """The colours that cover most of the film as they are, and the others by median cut, (colours, 3).

    There every colour counts once, however few pixels have it: the ends of a colour bar are small but must be right.
    """
    frequent = [value for value, _ in counts.most_common(FREQUENT)]
    rest = [value for value in counts if value not in set(frequent)]
    if not rest:
        return _rgb(frequent)
    swatch = Image.fromarray(_rgb(rest)[None]).quantize(COLOURS - len(frequent), dither=Image.Dither.NONE)
    found = np.array(swatch.getpalette(), dtype=np.uint8).reshape(-1, 3)
    return np.concatenate([_rgb(frequent), found])[:COLOURS]


def _nearest(colours: NDArray[np.uint8], palette: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The place in the palette nearest to each colour; Pillow's own search is coarse, and white would not stay so."""
    apart = ((colours[:, None].astype(np.int32) - palette.astype(np.int32)) ** 2).sum(axis=-1)
    places: NDArray[np.uint8] = apart.argmin(axis=1).astype(np.uint8)
    return places


def _codes(picture: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Red, green and blue as one number of 24 bits."""
    wide: NDArray[np.int64] = picture.astype(np.int64) @ np.array([1 << 16, 1 << 8, 1])
    return wide


def _rgb(codes: Sequence[int] | NDArray[np.int64]) -> NDArray[np.uint8]:
    """Numbers of 24 bits as rows of red, green and blue."""
    values = np.asarray(codes, dtype=np.int64)
    return np.stack([values >> 16, values >> 8 & 255, values & 255], axis=-1).astype(np.uint8)


def _mp4(pictures: Iterator[Image.Image], fps: int) -> bytes:
    with tempfile.TemporaryDirectory() as place:
        target = Path(place) / "film.mp4"
        command = ["ffmpeg", "-loglevel", "error", "-f", "image2pipe", "-framerate", str(fps), "-c:v", "png", "-i", "-"]
        # Even sizes and this pixel format are what every player reads.
        command += ["-vf", "pad=ceil(iw/2)*2:ceil(ih/2)*2:color=white", "-pix_fmt", "yuv420p", str(target)]
        frames = io.BytesIO()
        for picture in pictures:
            picture.save(frames, "PNG")
        done = subprocess.run(command, input=frames.getvalue(), capture_output=True, check=False)
        if done.returncode:
            raise InputError(f"ffmpeg could not write the film ({done.stderr.decode(errors='replace').strip()})")
        return target.read_bytes()
