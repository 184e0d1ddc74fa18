import io
import shutil
import stat

import numpy as np
import pytest
from PIL import Image

from lln import InputError
from lln.plots.animate import Scene, draw_frames, film_bytes, no_film

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


def test_a_gif_holds_every_frame_at_its_speed():
    content = film_bytes(".gif", draw_frames(SCENES["phase plane"], frames=7), fps=20)
    film = Image.open(io.BytesIO(content))
    assert (film.format, film.n_frames, film.info["duration"], film.info["loop"]) == ("GIF", 7, 50, 0)


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
