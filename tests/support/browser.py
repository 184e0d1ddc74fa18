"""Chromium, driven by playwright-core through Node: what the tests of the page have in common."""

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import lln.view.page

HERE = Path(__file__).parents[1] / "view" / "page"
WEB = Path(lln.view.page.__file__).parent / "web"

NODE = shutil.which("node")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)

needs_node = pytest.mark.skipif(
    NODE is None or not (WEB / "node_modules").is_dir(),
    reason="needs Node and, once, `npm ci` in src/lln/view/page/web",
)
needs_browser = pytest.mark.skipif(
    NODE is None or CHROMIUM is None or not (WEB / "node_modules").is_dir(),
    reason="needs Node, Chromium and, once, `npm ci` in src/lln/view/page/web",
)


def drive(folder, script, request):
    """Run a script of this folder in Node; both sides speak JSON through files."""
    asked, answered = Path(folder) / f"{script}.asked.json", Path(folder) / f"{script}.answered.json"
    asked.write_text(json.dumps({"web": str(WEB), "chromium": CHROMIUM, **request}))
    done = subprocess.run(
        [NODE, HERE / f"{script}.mjs", asked, answered], capture_output=True, text=True, timeout=1200, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(answered.read_text(), parse_constant=lambda _: np.nan)
