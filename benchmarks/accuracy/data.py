"""Trajectories of the chaotic systems of the package dysts, for `benchmarks.accuracy.systems`.

Runs where dysts is installed (`make bench-accuracy` makes an environment of its own):

    python benchmarks/accuracy/data.py --first I --last Z --starts 5

Every trajectory has 512 points that train and 300 that test, 30 of them in one Lyapunov time.
"""

from __future__ import annotations

import argparse
import inspect
import signal
import warnings
from pathlib import Path
from types import FrameType

import numpy as np
from scipy.integrate import solve_ivp

TRAIN, TEST, PER_LYAPUNOV_TIME = 512, 300, 30
BETWEEN, BEFORE, SECONDS = 200, 300, 120
FOLDER = Path(__file__).parent / "data"


def too_long(_signum: int, _frame: FrameType | None) -> None:
    """End an integration that takes too long."""
    raise TimeoutError


def trajectories(name: str, starts: int) -> np.ndarray:
    """(starts, 812, n) of one system, from its attractor."""
    import dysts.flows as flows

    system = getattr(flows, name)()
    dt = 1.0 / (PER_LYAPUNOV_TIME * float(system.maximum_lyapunov_estimated))
    first = np.atleast_2d(np.asarray(system.ic, dtype=float))[0]
    each = TRAIN + TEST + BETWEEN
    times = (BEFORE + np.arange(each * starts)) * dt
    found = solve_ivp(
        lambda t, x: np.asarray(system.rhs(x, t), dtype=float),
        (0.0, times[-1] + dt), first, t_eval=times, method="DOP853", rtol=1e-10, atol=1e-10 * np.abs(first).max(),
    )  # fmt: skip
    if found.y.shape[1] < each * starts or not np.isfinite(found.y).all():
        raise RuntimeError("the integration broke off")
    return found.y.T.reshape(starts, each, -1)[:, : TRAIN + TEST]


def main() -> None:
    """Simulate every system whose name begins with one of the letters."""
    import dysts.flows as flows
    from dysts.base import DynSys

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", default="I")
    parser.add_argument("--last", default="Z")
    parser.add_argument("--starts", type=int, default=5)
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    signal.signal(signal.SIGALRM, too_long)
    classes = {name: one for name, one in vars(flows).items() if inspect.isclass(one) and issubclass(one, DynSys)}
    names = sorted(name for name, one in classes.items() if one.__module__ == "dysts.flows")
    found = {}
    for name in names:
        if not options.first <= name[0].upper() <= options.last:
            continue
        signal.alarm(SECONDS)
        try:
            found[name] = trajectories(name, options.starts)
            print(name, found[name].shape, flush=True)
        except Exception as error:  # a delay equation, a map, a stiff system: said, and left out
            print(name, "left out:", type(error).__name__, str(error)[:80], flush=True)
        signal.alarm(0)
    FOLDER.mkdir(exist_ok=True)
    np.savez_compressed(FOLDER / f"dysts-{options.first}-{options.last}.npz", **found)


if __name__ == "__main__":
    main()
