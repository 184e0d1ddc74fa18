"""What an expert would try first, each tuned on the same held-out windows: analog, NVAR, kernel ridge, AR."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import combinations_with_replacement

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree
from sklearn.kernel_ridge import KernelRidge

Array = NDArray[np.float64]
Advance = Callable[[Array], Array]
HELD_OUT, WINDOWS, KERNEL_ROWS = 0.2, 8, 1500


def delays(states: Array, history: int) -> Array:
    """Windows of `history` states, oldest first, flat: (rows, history n)."""
    rows = len(states) - history + 1
    return np.concatenate([states[k : k + rows] for k in range(history)], axis=1)


def roll(advance: Advance, past: Array, steps: int) -> Array:
    """Roll out from the last states `past` (..., history, n) to (..., steps, n)."""
    lead, n = past.shape[:-2], past.shape[-1]
    window, out = past.reshape(-1, *past.shape[-2:]), []
    for _ in range(steps):
        after = advance(window.reshape(len(window), -1))
        after = np.where(np.isfinite(after), np.clip(after, -1e6, 1e6), 0.0)
        window = np.concatenate([window[:, 1:], after[:, None]], axis=1)
        out.append(after)
    return np.stack(out, axis=1).reshape(*lead, steps, n)


def analog(states: Array, history: int) -> Advance:
    """The successor of the nearest past window, with the present moved along."""
    past, after = delays(states[:-1], history), states[history:]
    tree, n = cKDTree(past), states.shape[1]

    def advance(rows: Array) -> Array:
        _, index = tree.query(rows)
        return rows[:, -n:] + after[index] - past[index][:, -n:]

    return advance


def nvar(states: Array, history: int, degree: int, ridge: float) -> Advance:
    """Ridge regression of increments on monomials of the window (NG-RC)."""
    past, after = delays(states[:-1], history), states[history:]
    n, columns = states.shape[1], past.shape[1]
    terms = [t for order in range(1, degree + 1) for t in combinations_with_replacement(range(columns), order)]

    def features(rows: Array) -> Array:
        parts = [np.ones((len(rows), 1))] + [np.prod(rows[:, list(t)], axis=1)[:, None] for t in terms]
        return np.concatenate(parts, axis=1)

    x, y = features(past), after - past[:, -n:]
    weights = np.linalg.solve(x.T @ x + ridge * len(x) * np.eye(x.shape[1]), x.T @ y)
    return lambda rows: rows[:, -n:] + features(rows) @ weights


def kernel(states: Array, history: int, gamma: float, ridge: float) -> Advance:
    """Kernel ridge regression of increments, on evenly spread rows where there are many."""
    past, after = delays(states[:-1], history), states[history:]
    if len(past) > KERNEL_ROWS:
        kept = np.linspace(0, len(past) - 1, KERNEL_ROWS).round().astype(int)
        past, after = past[kept], after[kept]
    n = states.shape[1]
    model = KernelRidge(kernel="rbf", gamma=gamma / past.shape[1], alpha=ridge).fit(past, after - past[:, -n:])
    return lambda rows: rows[:, -n:] + model.predict(rows)


def autoregression(states: Array, history: int, ridge: float) -> Advance:
    """Ridge regression of increments on the window."""
    return nvar(states, history, 1, ridge)


def candidates(n: int, rows: int) -> dict[str, list[tuple[int, Callable[[Array], Advance]]]]:
    """The settings of every baseline."""
    grid: dict[str, list[tuple[int, Callable[[Array], Advance]]]] = {"analog": [], "NVAR": [], "kernel": [], "AR": []}
    lags = [h for h in (1, 2, 3, 6, 12, 18) if n * h <= 24]
    grid["analog"] = [(h, lambda s, h=h: analog(s, h)) for h in lags]
    for h in lags[:3]:
        for degree in (2, 3, 4):
            count = sum(1 for order in range(1, degree + 1) for _ in combinations_with_replacement(range(n * h), order))
            if count < min(rows // 2, 600):
                grid["NVAR"] += [
                    (h, lambda s, h=h, d=degree, r=r: nvar(s, h, d, r)) for r in (1e-14, 1e-10, 1e-6, 1e-3)
                ]
    for h in lags:
        grid["kernel"] += [
            (h, lambda s, h=h, g=g, r=r: kernel(s, h, g, r)) for g in (0.1, 0.5, 2.0) for r in (1e-10, 1e-6, 1e-2)
        ]
    longer = [h for h in (1, 2, 3, 5, 9, 13, 14, 24, 25, 36, 48, 53, 60) if n * h <= rows // 3]
    grid["AR"] = [(h, lambda s, h=h, r=r: autoregression(s, h, r)) for h in longer for r in (1e-10, 1e-6, 1e-4, 1e-2)]
    return grid


def tuned(states: Array, steps: int, names: Iterable[str], *, noisy: bool = False) -> dict[str, tuple[int, Advance]]:
    """Each baseline with the setting that rolls out best over the last fifth, fitted to everything.

    Args:
        states: standardised, (rows, n), without gaps.
        steps: length of the rollouts that choose.
        names: of the baselines.
        noisy: whether errors are averaged over windows arithmetically, not geometrically.
    """
    cut = round((1 - HELD_OUT) * len(states))
    steps = min(steps, len(states) - cut - 1)
    starts = np.unique(np.linspace(cut, len(states) - steps, WINDOWS).astype(int))
    found = {}
    for name in names:
        best: tuple[float, int, Callable[[Array], Advance]] | None = None
        for history, make in candidates(states.shape[1], cut)[name]:
            if history >= cut // 2:
                continue
            advance = make(states[:cut])
            pasts = np.stack([states[s - history : s] for s in starts])
            truth = np.stack([states[s : s + steps] for s in starts])
            errors = np.clip(np.mean((roll(advance, pasts, steps) - truth) ** 2, axis=(1, 2)), 1e-24, 1e3)
            error = float(np.log(np.mean(errors)) if noisy else np.mean(np.log(errors)))
            if best is None or error < best[0]:
                best = (error, history, make)
        if best is not None:
            found[name] = (best[1], best[2](states))
    return found
