"""`python -m benchmarks.tables`: fill the short tables of README.md and docs/accuracy.md from the stored rows.

A block begins with `<!-- table: NAME -->` and ends with `<!-- end of table -->`. A block whose results are not
stored is left as it is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import fmean, geometric_mean, median
from typing import Any

from lln.core.table import Table

ROOT = Path(__file__).resolve().parents[1]
RESULTS = Path(__file__).resolve().parent / "results"
PAGES = (ROOT / "README.md", ROOT / "docs" / "accuracy.md")
_BLOCK = re.compile(r"(<!-- table: ([a-z-]+) -->\n).*?(<!-- end of table -->)", re.DOTALL)
# The row of README's table of other packages that shows the score of `LensForecaster()`.
_PEERS = re.compile(r"(\| accuracy: APEBench `diff_burgers`, lower is better \| )[^|]*?( \|)")

Rows = Mapping[str, Any]


def filled(text: str, results: Path = RESULTS) -> str:
    """The text of a page with every block made from the rows stored in `results`."""

    def block(match: re.Match[str]) -> str:
        content = TABLES[match[2]](results)
        return match[0] if content is None else f"{match[1]}{content}\n{match[3]}"

    product = _product(results, "diff_burgers")
    score = "" if product is None else f"{product['median']:.2g}"
    return _PEERS.sub(rf"\g<1>{score}\g<2>", _BLOCK.sub(block, text)) if score else _BLOCK.sub(block, text)


def systems(results: Path) -> str | None:
    """Chaotic systems: mean valid time of `LensForecaster()` and of the baselines on the same fits."""
    rows = _rows(results, "accuracy-dysts-*.json")
    if not rows:
        return None
    names = {"lln": "`LensForecaster()`", **_BASELINES}
    compared = {key: row for key, row in rows.items() if any(name in row for name in ("analog", "NVAR", "kernel"))}
    shown = compared if len(compared) > len(rows) // 2 else rows
    cells = []
    for name, label in names.items():
        some = [row[name] for row in shown.values() if name in row]
        if len(some) == len(shown):
            cells.append(
                [label, f"{fmean(one['valid'] for one in some):.2f}", f"{fmean(one['smape'] for one in some):.1f}"]
            )
    table = Table(("model", "valid time, Lyapunov times", "sMAPE, first Lyapunov time"), cells).to_markdown()
    seconds = median(row["lln"]["cpu_seconds"] for row in rows.values())
    count = len({key.rsplit(" ", 1)[0] for key in shown})
    note = (
        f"Means over {len(shown)} fits to {count} chaotic systems of 512 rows; at most 10 Lyapunov times are counted.\n"
        f"The median fit takes {seconds:.1f} s of one core."
    )
    behind = [
        row for row in compared.values()
        if row["lln"]["valid"] < 0.5 * max(row[name]["valid"] for name in names if name in row)
    ]  # fmt: skip
    half = f" {len(behind)} fits are valid for less than half as long as the best of the others." if compared else ""
    made = _made(results, "accuracy-dysts-*.json")
    return f"{table}\n\n{note}{half}{made}"


def series(results: Path) -> str | None:
    """Measured series: error of `LensForecaster()` beside the best baseline."""
    rows = _rows(results, "accuracy-series.json")
    if not rows:
        return None
    cells = []
    for name, row in rows.items():
        simple = {key: row[key] for key in (*_BASELINES, "mean", "AR") if key in row}
        best = min(simple, key=simple.__getitem__)
        shown = (f"{row['lln']:.3g}", f"{simple[best]:.3g} ({_LABELS[best]})", f"{row['coverage_90']:.0%}")
        cells.append([name, row["steps"], *shown])
    columns = ("series", "steps ahead", "`LensForecaster()`", "best simple method", "90 % intervals cover")
    return Table(columns, cells).to_markdown() + _made(results, "accuracy-series.json")


def kinds(results: Path) -> str | None:
    """Many kinds of data: geometric means over draws of the errors of `LensForecaster()` and of the best baseline."""
    cells = []
    for kind, rows in _by_draw(results, "accuracy-kinds.json").items():
        mean = {name: geometric_mean([max(row[name], 1e-30) for row in rows]) for name in ("lln", *_LABELS)}
        best = min(_LABELS, key=mean.__getitem__)
        parts = " or ".join(sorted({row["part"] for row in rows}))
        ratio = mean["lln"] / mean[best]
        cells.append([kind, f"{mean['lln']:.2g} ({parts})", f"{mean[best]:.2g} ({_LABELS[best]})", f"{ratio:.2g}"])
    if not cells:
        return None
    covered = [row["coverage_90"] for row in _rows(results, "accuracy-kinds.json").values()]
    more, less = sum(one > 0.95 for one in covered), sum(one < 0.85 for one in covered)
    words = (
        f"The 90 % intervals cover {100 * fmean(covered):.0f} % of the states on average: 85 to 95 % in "
        f"{len(covered) - more - less} of {len(covered)} data sets, more in {more} and less in {less} "
        f"(at least {100 * min(covered):.0f} %)."
    )
    columns = ("data", "`LensForecaster()`", "best simple method", "ratio")
    return f"{Table(columns, cells).to_markdown()}\n\n{words}{_made(results, 'accuracy-kinds.json')}"


def _by_draw(results: Path, pattern: str) -> dict[str, list[Rows]]:
    """Stored rows of each name, whose keys also tell the draw."""
    groups: dict[str, list[Rows]] = {}
    for key, row in _rows(results, pattern).items():
        groups.setdefault(key.rsplit(", draw ", 1)[0], []).append(row)
    return groups


def problems(results: Path) -> str | None:
    """Chaotic problems by noise: the error of `LensForecaster()` divided by that of the best baseline.

    Errors are geometric means over seeds; the best baseline is the one with the least mean.
    """
    groups: dict[str, dict[str, list[Rows]]] = {}
    for key, row in _rows(results, "accuracy-problems.json").items():
        problem, noise, _ = key.rsplit(", ", 2)
        groups.setdefault(problem, {}).setdefault(noise, []).append(row)
    cells = []
    for problem, by_noise in groups.items():
        cells.append([problem, *(_against_best(rows) for rows in by_noise.values())])
    table = Table(("problem", "0 % noise", "1 %", "5 %"), cells).to_markdown()
    return table + _made(results, "accuracy-problems.json") if cells else None


def _against_best(rows: Sequence[Rows]) -> str:
    """The ratio of the errors, with the parts that were chosen and the best baseline."""
    names = [name for name in (*_BASELINES, "AR") if all(name in row for row in rows)]
    mean = {name: geometric_mean([row[name] for row in rows]) for name in ("lln", *names)}
    best = min(names, key=mean.__getitem__)
    parts = " or ".join(sorted({row["part"] for row in rows}))
    return f"{mean['lln'] / mean[best]:.2g} ({parts}, {_LABELS[best].removesuffix(', tuned')})"


def presets(results: Path) -> str | None:
    """The paper's systems: error of `LensForecaster()` and coverage of its intervals, over several draws."""
    cells = []
    for name, rows in _by_draw(results, "accuracy-presets.json").items():
        error, parts = geometric_mean([row["lln"] for row in rows]), " or ".join(sorted({row["part"] for row in rows}))
        covered = [row["coverage_90"] for row in rows]
        seconds = median(row["cpu_seconds"] for row in rows)
        each = f"{min(covered):.0%} to {max(covered):.0%}"
        cells.append([name, f"{error:.2g} ({parts})", f"{fmean(covered):.0%}", each, f"{seconds:.0f} s"])
    columns = ("system", "`LensForecaster()`", "90 % intervals cover", "in single draws", "processor time of the fit")
    return Table(columns, cells).to_markdown() + _made(results, "accuracy-presets.json") if cells else None


def apebench(results: Path) -> str | None:
    """APEBench: the scores of `LensForecaster()` beside the networks that the benchmark trains."""
    cells = []
    for scenario in ("diff_burgers", "diff_adv", "diff_burgers_sc_2d"):
        product, stored = _product(results, scenario), _read(_apebench_path(results, scenario))
        if product is None:
            continue
        others = [row for row in stored["rows"] if row["median"] is not None and row["recipe"] != "defaults"]
        best = min(others, key=lambda row: row["median"], default=None)
        own = [row for row in others if row["recipe"] == "apebench"]
        theirs = min(own, key=lambda row: row["median"], default=None)
        shown = ["-" if row is None else f"{row['median']:.2g} ({row['contender']})" for row in (theirs, best)]
        part = f"{product['median']:.2g} ({product['part']})"
        cells.append([f"`{scenario}`", part, *shown, f"{product['diverged']} of {product['starts']}"])
    if not cells:
        return None
    columns = ("scenario", "`LensForecaster()`", "trained as APEBench does", "best network or convolution", "diverge")
    return Table(columns, cells).to_markdown()


def fields(results: Path) -> str | None:
    """Fields four times as long as the trajectories of training: how many starts diverge, and the errors."""
    rows = _rows(results, "accuracy-fields.json")
    if not rows:
        return None
    cells = []
    for name, row in rows.items():
        errors = [f"{row['errors'][step]:.2g}" for step in ("1", "50", "100")]
        cells.append(
            [name, f"{row['diverged']} of {row['starts']}", *errors, row["part"], f"{row['cpu_seconds']:.0f} s"]
        )
    columns = ("field", "diverge", "error at step 1", "50", "100", "part", "processor time of the fit")
    return Table(columns, cells).to_markdown() + _made(results, "accuracy-fields.json")


def _apebench_path(results: Path, scenario: str) -> Path:
    return results / f"apebench-{scenario.replace('_', '-')}.json"


def _product(results: Path, scenario: str) -> Any:
    """The stored row of `LensForecaster()` on a scenario, or None."""
    stored = _read(_apebench_path(results, scenario))
    rows = [] if stored is None else [row for row in stored["rows"] if row["contender"] == "LensForecaster"]
    return rows[0] if rows and rows[0]["median"] is not None else None


def speed(results: Path) -> str | None:
    """The ratios that a reader asks for first, from the speed benchmark."""
    cells = []
    for what, group, quantity, shape, fast, slow, against in _SPEED:
        content = _read(results / f"{group}.json")
        if content is None:
            continue
        found = {
            row["contender"]: row["minimum"]
            for row in content["rows"]
            if row["quantity"] == quantity and shape.items() <= row["shape"].items()
        }
        others = [name for name in slow if name in found]
        if fast in found and others:
            ratio = " / ".join(_ratio(found[name] / found[fast]) for name in others)
            cells.append([what, _sizes(shape), against, f"{ratio}x", *_where(content["made"])])
    columns = ("computation", "sizes", "compared with", "times as fast", "machine", "date")
    return Table(columns, cells).to_markdown() if cells else None


def memory(results: Path) -> str | None:
    """Memory of a training step of a deep network, beside plain torch, in one sentence."""
    content = _read(results / "cpu-memory.json")
    if content is None:
        return None
    rows = [row for row in content["rows"] if row["quantity"] == "extra memory"]
    deepest = max((row["shape"] for row in rows if row["contender"] == "naive"), key=lambda shape: int(shape["D"]))
    lens, naive = (
        next(row["minimum"] for row in rows if row["shape"] == deepest and row["contender"] == name)
        for name in ("lens", "naive")
    )
    sizes = _sizes({key: deepest[key] for key in ("B", "h", "K")})
    return (
        f"A training step at depth {deepest['D']:,} ({sizes}) needs {lens:.3g} MiB beyond parameters, gradients and\n"
        f"optimiser state; plain torch needs {naive:,.0f} MiB ({', '.join(_where(content['made']))})."
    )


_BASELINES = {
    "persistence": "persistence",
    "analog": "nearest analog",
    "NVAR": "NVAR, tuned",
    "kernel": "kernel ridge, tuned",
}
_LABELS = {**_BASELINES, "mean": "mean", "AR": "AR, tuned"}
_DEFAULT, _PACKAGE = "`LensForecaster()` of Lorenz-28, rollout", "rollout of a package"
_OTHERS = ("PySINDy", "ReservoirPy", "kernel ridge")
_ONE, _MANY, _ALL = {"B": 1, "steps": 500}, {"B": 256, "steps": 20}, {"B": 256, "steps": 500}
_MODEL, _NETWORK, _STACK = (
    "rollout of a fitted model, 500 steps",
    "rollout of a network, 500 steps",
    "stack with gradients",
)
# What, file, quantity, sizes, ours, others, words for the others.
_SPEED: tuple[tuple[str, str, str, dict[str, int], str, tuple[str, ...], str], ...] = (
    (_DEFAULT, "cpu-product", "Lorenz-28, default model", _ONE, "forecaster", ("loop",), "the step called in a loop"),
    (_DEFAULT, "cpu-product", "Lorenz-28, default model", _ONE, "forecaster", ("c double",), "its C export"),
    (_DEFAULT, "cpu-product", "Lorenz-28, default model", _MANY, "forecaster", ("loop",), "the step called in a loop"),
    (_DEFAULT, "cpu-peers", _PACKAGE, _ONE, "lln", _OTHERS, "PySINDy / ReservoirPy / kernel ridge"),
    (_DEFAULT, "cpu-peers", _PACKAGE, _ALL, "lln", _OTHERS, "PySINDy / ReservoirPy / kernel ridge"),
    (
        _MODEL,
        "cpu-product",
        "model rollout",
        {"B": 1, "h": 192, "D": 10},
        "fused",
        ("loop",),
        "the step called in a loop",
    ),
    (_NETWORK, "cpu-rollout", "rollout", {"h": 128, "n": 32}, "lens", ("naive",), "plain torch"),
    (_NETWORK, "cpu-rollout", "rollout", {"h": 128, "n": 32}, "lens", ("mlp onnx",), "MLP in ONNX Runtime"),
    (_STACK, "cpu-stack", "stack gradients", {"B": 1024, "h": 128}, "cpu", ("naive",), "plain torch"),
    (
        "training step",
        "cpu-training",
        "training step",
        {"B": 256, "h": 128},
        "lens",
        ("mlp compiled",),
        "compiled MLP",
    ),
    (
        _STACK,
        "cuda-stack",
        "stack gradients",
        {"B": 8192, "h": 512},
        "triton",
        ("naive", "naive compiled"),
        "plain / compiled torch",
    ),
)

TABLES: dict[str, Callable[[Path], str | None]] = {
    "systems": systems,
    "series": series,
    "kinds": kinds,
    "problems": problems,
    "presets": presets,
    "speed": speed,
    "memory": memory,
    "apebench": apebench,
    "fields": fields,
}


def _ratio(value: float) -> str:
    """Three digits, without a power of ten."""
    return f"{float(f'{value:.3g}'):,.10g}"


def _where(made: Rows) -> tuple[str, str]:
    """The machine of stored rows, without trade marks, and the day on which they were measured."""
    name = re.sub(r"\(R\)|Processor ", "", made["gpu"] or made["processor"])
    return name, made["date"][:10]


def _made(results: Path, pattern: str) -> str:
    """A line below a table: where and when its rows were measured; empty for rows that do not say."""
    made = [json.loads(path.read_text()).get("made") for path in sorted(results.glob(pattern))]
    return "".join(f"\n\nMeasured: {one['processor']}, {one['date'][:10]}." for one in made if one)


def _sizes(shape: Mapping[str, int]) -> str:
    return " ".join(f"{key}={size}" for key, size in shape.items())


def _rows(results: Path, pattern: str) -> Rows:
    found: dict[str, Any] = {}
    for path in sorted(results.glob(pattern)):
        found |= json.loads(path.read_text())["rows"]
    return found


def _read(path: Path) -> Any:
    return json.loads(path.read_text()) if path.exists() else None


def main() -> None:
    """Fill the pages."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        new = filled(text)
        if new != text:
            page.write_text(new, encoding="utf-8")
        print(f"{page.relative_to(ROOT)}: {'filled' if new != text else 'as stored'}")


if __name__ == "__main__":
    main()
