"""Where and with what a number was made: machine, versions, commit, date."""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import platform
import subprocess
from functools import lru_cache
from pathlib import Path

from lln import __version__


def version_of(package: str) -> str | None:
    """Installed version of `package`, or None."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


@lru_cache(maxsize=1)
def processor() -> str:
    """The name of the processor, where the system gives one."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def commit() -> str | None:
    """The commit of the checkout this package runs from, with `+` if it was changed since; None outside one."""
    here = Path(__file__).resolve().parent
    try:
        head = _git("rev-parse", "--short=12", "HEAD", at=here)
        dirty = _git("status", "--porcelain", "--untracked-files=no", "--", "src", at=here.parents[2])
    except (OSError, subprocess.SubprocessError):
        return None
    return head + ("+" if dirty else "")


def _git(*words: str, at: Path) -> str:
    done = subprocess.run(["git", *words], cwd=at, capture_output=True, text=True, check=True, timeout=10)
    return done.stdout.strip()


def provenance(*packages: str) -> dict[str, str | int | None]:
    """Machine, versions of lln and `packages`, commit and date, as flat values for a record."""
    return {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "processor": processor(),
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "commit": commit(),
        "lln": __version__,
        **{name: version_of(name) for name in packages},
    }
