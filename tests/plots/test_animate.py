import io
import shutil
import stat

import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image

from lln import InputError
from lln.plots.animate import COLOURS, Scene, _stage, draw_frames, film_bytes, no_film

TIMES = np.linspace(0, 6, 60)[:, None]


def scene(size, space=(), channels=("u",), **more):
    states = np.sin(TIMES + np.arange(size))
    return Scene({"truth": states, "model": 0.9 * states}, 0.1, [f"x{i}" for i in range(size)], space, channels, **more)


SCENES = {
    "phase space": scene(3),
    "phase plane": scene(2),
    "time series": scene(9),
    "one coordinate": scene(1),
    "a field on a line": scene(16, (16,), coords={"x": np.arange(16) / 16}),
    "two fields on a line": scene(16, (8,), ("u", "v")),
    "a field on a plane": scene(30, (5, 6), coords={"x": np.arange(5.0), "y": np.arange(6.0)}),
    "two fields on a plane": scene(24, (3, 4), ("u", "v")),
}


@pytest.mark.parametrize("name", SCENES)
def test_every_kind_of_system_moves(name):
    pictures = list(draw_frames(SCENES[name], frames=3))
    assert len(pictures) == 3
    assert len({picture.size for picture in pictures}) == 1
    first, last = (np.asarray(picture, dtype=float) for picture in (pictures[0], pictures[-1]))
    below_title = first.shape[0] // 8
    assert np.abs(first - last)[below_title:].max() > 50


def test_the_title_stands_still():
    # A title whose words do not change: every picture has it where the first one has it.
    film = draw_frames(scene(16, (16,), title="tank", dates=np.full(60, np.datetime64("2024-01-01", "D"))), frames=3)
    first, *later = (np.asarray(picture)[:40] for picture in film)
    assert (first < 128).any()
    assert all((first == one).all() for one in later)


@pytest.mark.parametrize("name", ["phase plane", "phase space"])
def test_the_names_of_the_curves_stand_below_them(name, monkeypatch):
    figures = []
    monkeypatch.setattr("lln.plots.animate.Figure", lambda **options: figures.append(Figure(**options)) or figures[0])
    next(draw_frames(SCENES[name], frames=2))
    (legend,) = figures[0].legends
    assert legend.get_window_extent().y1 <= figures[0].axes[0].get_window_extent().y0
    assert [text.get_text() for text in legend.get_texts()] == ["truth", "model"]


def test_a_gif_holds_every_frame_at_its_speed():
    content = film_bytes(".gif", draw_frames(SCENES["phase plane"], frames=7), fps=20)
    film = Image.open(io.BytesIO(content))
    assert (film.format, film.n_frames, film.info["duration"], film.info["loop"]) == ("GIF", 7, 50, 0)


def test_a_gif_has_one_palette_that_keeps_white_and_the_ends_of_the_colours():
    # Pale at first, strong in the end: with a palette of its own the first picture would lack what comes later.
    states = np.linspace(0.05, 1.0, 40)[:, None] * np.linspace(-1, 1, 30)
    pictures = list(draw_frames(Scene({"data": states}, 0.1, "x" * 30, (5, 6)), frames=5))
    film = Image.open(io.BytesIO(film_bytes(".gif", iter(pictures))))
    colours = set()
    for k, picture in enumerate(pictures):
        film.seek(k)
        shown, drawn = np.asarray(film.convert("RGB"), dtype=int), np.asarray(picture, dtype=int)
        assert shown[2, 2].tolist() == [255, 255, 255]
        # Median cut over a few thousand colours: what is off is off by no more than the eye forgives.
        assert np.abs(shown - drawn).max() <= 24
        colours |= set(map(tuple, shown.reshape(-1, 3).tolist()))
    assert len(colours) <= COLOURS


def test_times_and_units_are_told_as_the_data_has_them():
    told = Scene(
        {"data": np.zeros((3, 2))}, 0.25, "xy", title="tank", units={"x": "m", "t": "s"}, time_name="t", start=10
    )
    assert [told.clock(k) for k in range(3)] == ["tank   t 10.00 s", "tank   t 10.25 s", "tank   t 10.50 s"]
    assert (told.label("x"), told.label("y")) == ("x (m)", "y")
    assert Scene({"data": np.zeros((2, 2))}, 1 / 3, "xy").clock(1) == "time 0.33"
    assert Scene({"data": np.zeros((11, 2))}, 1.0, "xy").clock(1) == "time \N{FIGURE SPACE}1"


def test_dates_are_dates_in_the_title_and_on_the_axis():
    months = np.array(["2024-01-01", "2024-02-01", "2024-03-01"], dtype="M8[ns]")
    told = Scene({"truth": np.ones((3, 1)), "forecast": np.ones((3, 1))}, 1.0, "x", title="sales", dates=months)
    assert [told.clock(k) for k in (0, 2)] == ["sales   2024-01-01", "sales   2024-03-01"]
    hours = Scene({"data": np.ones((3, 1))}, 1.0, "x", dates=months + np.timedelta64(90, "m"))
    assert hours.clock(0) == "2024-01-01 01:30"
    assert len(list(draw_frames(told, frames=2))) == 2


def test_dated_data_is_drawn_over_time_not_in_phase_space():
    figure = Figure()
    _stage(figure, scene(2, dates=np.datetime64("2024-01-01", "ns") + np.arange(60) * np.timedelta64(1, "D")))
    assert [axis.get_ylabel() for axis in figure.axes] == ["x0", "x1"]


def test_a_forecast_that_leaves_the_range_of_the_truth_stays_in_sight():
    truth = np.linspace(-1.0, 1.0, 20)[:, None]
    low, high = Scene({"truth": truth, "forecast": 1.5 * truth}, 0.1, "x").limits(0, 1)
    assert (low, high) == pytest.approx((-1.66, 1.66))
    low, high = Scene({"truth": truth, "forecast": np.where(truth > 0, np.inf, 1e9)}, 0.1, "x").limits(0, 1)
    assert high == pytest.approx(3.16)  # at most by the range of the truth


def test_longitude_runs_across_and_latitude_up():
    states = np.zeros((2, 4 * 8))
    states[:, :8] = 1.0  # the southern row
    places = {"lat": np.arange(4.0), "lon": np.arange(8.0)}
    film = draw_frames(Scene({"data": states}, 0.1, "x" * 32, (4, 8), coords=places), frames=2)
    red = np.asarray(next(film), dtype=int)
    rows, columns = np.nonzero((red[..., 0] > 90) & (red[..., 1] < 60))
    inside = columns < 0.8 * red.shape[1]  # to the right of it is the colour bar
    assert rows[inside].mean() > 0.6 * red.shape[0]
    assert np.ptp(columns[inside]) > 0.5 * red.shape[1]


def test_images_fill_the_picture():
    wide, tall = (
        next(draw_frames(Scene({"data": np.zeros((2, 200))}, 0.1, "x" * 200, space), frames=2)).size[1]
        for space in ((20, 10), (10, 20))
    )
    assert wide < tall
    assert wide % 2 == tall % 2 == 0


def test_no_more_frames_than_states_and_a_diverged_run_is_drawn():
    states = np.sin(TIMES[:4] + np.arange(3))
    lost = states.copy()
    lost[2:] = np.nan
    both = Scene({"truth": states, "model": lost}, 0.1, "xyz")
    assert len(list(draw_frames(both, frames=50))) == 4


def test_names_with_formulas_in_them_are_text():
    odd = Scene(
        {"$\\frac{": np.sin(TIMES + np.arange(2)), "b": np.cos(TIMES + np.arange(2))}, 0.1, ["$x", r"\q$"], title="$_^$"
    )
    assert len(list(draw_frames(odd, frames=2))) == 2


@pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="ffmpeg is not installed")
def test_an_mp4_is_a_film():
    assert film_bytes(".mp4", draw_frames(SCENES["phase plane"], frames=4))[4:8] == b"ftyp"


def test_ffmpeg_gets_every_picture(tmp_path, monkeypatch):
    """A stand-in writes what it was given, where it was told to, so that the call is tested without ffmpeg."""
    program = tmp_path / "ffmpeg"
    program.write_text('#!/bin/sh\nfor last; do :; done\ncat > "$last"\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    content = film_bytes(".mp4", draw_frames(SCENES["phase plane"], frames=3))
    assert content.count(b"\x89PNG\r\n\x1a\n") == 3


def test_refusals(monkeypatch):
    with pytest.raises(InputError, match=r"a film is a \.gif or an \.mp4 file, got '\.avi'"):
        film_bytes(".avi", iter([]))
    monkeypatch.setenv("PATH", "")
    assert no_film(".mp4") == "writing .mp4 needs ffmpeg, and it is not installed; install ffmpeg or write a .gif"
    with pytest.raises(InputError, match="needs ffmpeg"):
        film_bytes(".mp4", iter([]))
    with pytest.raises(InputError, match="one shape"):
        Scene({"truth": np.zeros((3, 2)), "model": np.zeros((4, 2))}, 0.1, "xy")
    with pytest.raises(InputError, match="one or two directions of space, got 3"):
        Scene({"data": np.zeros((3, 8))}, 0.1, "abcdefgh", (2, 2, 2))
