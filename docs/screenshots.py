"""Make the pictures of the page, of the drawing and of the film that the documentation shows.

    python docs/screenshots.py [page-lorenz page-field page-phone drawing film] [--work FOLDER]

Every picture comes from `lln` commands, which are printed; files that are in the folder already are not made again.
Needs what the tests of the page need: Node, Chromium and, once, `npm ci` in src/lln/view/page/web.
"""

import argparse
import json
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

HERE = Path(__file__).parent
WEB = HERE.parent / "src" / "lln" / "view" / "page" / "web"
IMAGES = HERE / "images"
WIDTH = 960  # pixels of a picture

LORENZ = [
    "simulate lorenz-28 --steps 5400 -o lorenz.nc",  # the unseen rows visit both wings
    "fit lorenz.nc -o lorenz.lln --members 1 --history 1 --width 64 --depth 20 --epochs 40 --test 0.15",
    'page lorenz.lln --data lorenz.nc --title "Lorenz attractor, forecast by a lens network" -o lorenz.html',
]
KS = [
    "simulate ks-64 --steps 3000 --random-state 0 --random-state 1 -o ks.nc",
    "fit ks.nc -o ks.lln --field --members 1 --epochs 12 --test 0.1",
    'page ks.lln --data ks.nc --steps 240 --title "Kuramoto-Sivashinsky, forecast by a lens network" -o ks.html',
]
PHASES = [
    "simulate allen-cahn-64x64 --steps 60 --random-state 0 --random-state 1 --random-state 2 -o phases.nc",
    "simulate allen-cahn-64x64 --steps 100 --random-state 100 --random-state 101 -o unseen.nc",
    "fit phases.nc -o phases.lln --parts linear,polynomial",
]
# Commands to run, and the picture: page, last element shown, colour scheme and width.
SHOTS = {
    "page-lorenz": (LORENZ, {"page": "lorenz.html", "until": "#bench-body", "colorScheme": "dark"}),
    "page-field": (KS, {"page": "ks.html", "until": "#error-panel", "colorScheme": "light"}),
    "page-phone": (LORENZ, {"page": "lorenz.html", "until": "#phase-panel", "colorScheme": "light", "width": 390}),
}
MADE = {
    "drawing": ([*LORENZ[:2], "draw lorenz.lln -o drawing.png --rays 8"], "drawing.png", "drawing.png"),
    "film": (
        [*PHASES, "animate phases.lln --data unseen.nc --steps 98 --frames 28 --fps 8 -o phases.gif"],
        "phases.gif",
        "allen-cahn.gif",
    ),
}


def run(commands: list[str], work: Path) -> None:
    """Run `lln` commands whose files are not there yet."""
    for command in commands:
        words = shlex.split(command)
        if (work / words[words.index("-o") + 1]).exists():
            continue
        print(f"lln {command}", flush=True)
        subprocess.run([sys.executable, "-c", "from lln.cli.app import main; main()", *words], cwd=work, check=True)


def photograph(name: str, shot: dict[str, object], work: Path) -> Path:
    """One picture of a page in headless Chromium."""
    asked, raw = work / f"{name}.asked.json", work / f"{name}.png"
    request = {**shot, "page": str(work / str(shot["page"])), "out": str(raw), "web": str(WEB)}
    asked.write_text(json.dumps({**request, "chromium": shutil.which("chromium") or shutil.which("google-chrome")}))
    subprocess.run(["node", HERE / "screenshots.mjs", asked, work / f"{name}.answered.json"], check=True)
    picture = Image.open(raw).convert("RGB")
    if picture.width > WIDTH:
        picture = picture.resize((WIDTH, round(picture.height * WIDTH / picture.width)), Image.Resampling.LANCZOS)
    target = IMAGES / f"{name}.png"
    picture.save(target, optimize=True)
    return target


def main() -> None:
    """Read the command line and make the pictures."""
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("names", nargs="*", metavar="NAME", help="which pictures; all by default")
    words.add_argument("--work", type=Path, help="folder in which data, models and pages are kept")
    given = words.parse_args()
    unknown = set(given.names) - {*SHOTS, *MADE}
    if unknown:
        words.error(f"no picture is called {', '.join(sorted(unknown))}; there are {', '.join([*SHOTS, *MADE])}")
    with tempfile.TemporaryDirectory() as place:
        work = (given.work or Path(place)).resolve()
        work.mkdir(parents=True, exist_ok=True)
        for name in given.names or [*SHOTS, *MADE]:
            if name in SHOTS:
                commands, shot = SHOTS[name]
                run(commands, work)
                target = photograph(name, shot, work)
            else:
                commands, file, image = MADE[name]
                run(commands, work)
                target = IMAGES / image
                shutil.copyfile(work / file, target)
            print(f"wrote {target.relative_to(HERE.parent)}: {target.stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
