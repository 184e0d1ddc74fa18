"""Pictures as the content of a GIF or MP4 file."""

from __future__ import annotations

import io
import shutil
import subprocess
import tempfile
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from lln.core.errors import InputError, check_int

COLOURS, FREQUENT = 192, 16  # of a GIF's palette; those among them that are taken as they are


def film_bytes(suffix: str, pictures: Iterator[Image.Image], fps: int = 25) -> bytes:
    """The pictures as the content of a .gif or .mp4 file."""
    fps = check_int("fps", fps, 1)
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
    reason = no_film(".mp4")
    if reason is not None:
        raise InputError(reason)
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
