"""The architecture, drawn from a real model: rays leave the embedding, fly, are bent by lenses, and are read out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import ConnectionPatch, Ellipse, FancyArrowPatch, FancyBboxPatch
from numpy.typing import NDArray

from lln.core.errors import InputError
from lln.plots.style import BLACK, BLUE, GREY, SKY, VERMILION, WIDTH, colour, figure_style

Array = NDArray[np.float64]
HIGHLIGHTS = 3
PALE = "#F4F6F8"  # inside of boxes


@dataclass(frozen=True, eq=False)
class Bench:
    """One input on its way through a lens network."""

    positions: Array  # y of every ray behind every layer, the embedding first, (D + 1, h)
    angles: Array  # theta, the same shape
    strength: Array  # root mean square of the turn that each lens can give over its control points, (D,)
    profile_at: Array  # positions at which a lens is sampled, (P,)
    profiles: Array  # s phi of each layer and ray at those positions, (D, h, P)
    length: float  # flight between two lenses
    basis: int  # control points K of a lens
    n_in: int  # size of the input
    n_out: int  # size of the output

    @property
    def depth(self) -> int:
        """Number of layers D."""
        return int(self.positions.shape[0]) - 1

    @property
    def width(self) -> int:
        """Number of rays h."""
        return int(self.positions.shape[1])


def architecture_figure(bench: Bench, *, rays: int = 12, title: str = "") -> Figure:
    """A residual block, one lens layer, and the whole stack with `rays` rays, those with the largest turns first."""
    if bench.depth < 1 or bench.positions.shape != bench.angles.shape:
        raise InputError(
            f"a drawing needs positions and angles of one shape (D + 1, h) with D >= 1, got {bench.positions.shape} "
            f"and {bench.angles.shape}"
        )
    turns = np.abs(np.diff(bench.angles, axis=0))
    with figure_style():
        figure = Figure(figsize=(1.45 * WIDTH, 6.6), layout="constrained")
        axes = figure.subplot_mosaic([["a", "b"], ["c", "c"]], height_ratios=(1.0, 1.35), width_ratios=(1.0, 1.5))
        _residual(axes["a"])
        layer = _layer(axes["b"], bench, turns)
        _stack(axes["c"], bench, turns, _chosen(turns, rays))
        for corner, place in ((0.0, layer), (1.0, layer + 1)):  # the layer of (b), where it stands in (c)
            figure.add_artist(ConnectionPatch(
                (corner, 0.0), (place, 1.0), axes["b"].transAxes, axes["c"].get_xaxis_transform(),
                color=GREY, linewidth=0.9, linestyle=(0, (4, 3)), zorder=-1,  # beneath the words on its way
            ))  # fmt: skip
        handles, labels = axes["c"].get_legend_handles_labels()
        figure.legend(
            handles[::-1], labels[::-1], loc="outside lower right", ncols=HIGHLIGHTS + 1,
            title="largest turns, marked where they happen", title_fontsize=8,
        )  # fmt: skip
        figure.suptitle(title, parse_math=False)  # a file's name is not to be read as formulas
    return figure


def _chosen(turns: Array, rays: int) -> list[int]:
    """Rays to draw: those that turn most, then others spread evenly over the rest."""
    order = list(map(int, np.argsort(-turns.max(axis=0), kind="stable")))
    first = order[: min(HIGHLIGHTS, rays)]
    rest = order[len(first) :]
    spread = np.linspace(0, max(len(rest) - 1, 0), min(rays - len(first), len(rest))).astype(int)
    return first + [rest[i] for i in spread]


def _residual(axis: Axes) -> None:
    """Panel (a): what is compared with; a nonlinear branch added in one and the same space."""
    axis.set_title("(a) residual block: one space")
    axis.set(xlim=(-0.15, 1.15), ylim=(0, 1.05), xticks=[], yticks=[])
    axis.grid(False)
    axis.spines[:].set_visible(False)
    for y, words in ((0.36, "W z + b"), (0.62, "nonlinearity")):
        axis.add_patch(FancyBboxPatch((0.33, y - 0.07), 0.34, 0.14, boxstyle="round,pad=0.01", fc=PALE, ec=BLACK))
        axis.text(0.5, y, words, ha="center", va="center", fontsize=9)
    axis.text(0.5, 0.06, "z", ha="center", va="center", fontsize=12, style="italic")
    axis.text(
        0.5, 0.86, "+", ha="center", va="center", fontsize=13, bbox={"boxstyle": "circle", "fc": "w", "ec": BLACK}
    )
    for start, end in (((0.5, 0.11), (0.5, 0.28)), ((0.5, 0.44), (0.5, 0.54)), ((0.5, 0.70), (0.5, 0.80))):
        _arrow(axis, start, end)
    _arrow(axis, (0.47, 0.08), (0.45, 0.86), bend=-1.0, ink=BLUE)
    axis.text(-0.03, 0.5, "identity\npath", ha="center", va="center", color=BLUE, fontsize=8.5)
    axis.text(0.5, 0.99, "z + f(z)", ha="center", va="center", fontsize=10, style="italic")


def _layer(axis: Axes, bench: Bench, turns: Array) -> int:
    """Panel (b): flight, lens profile and refraction of the ray and layer with the largest turn; returns the layer."""
    last = max(bench.depth - 1, 1)
    layer, ray = map(int, np.unravel_index(int(turns[:last].argmax()), turns[:last].shape))
    theta, bent = float(bench.angles[layer, ray]), float(bench.angles[layer + 1, ray])
    meet = bench.positions[layer + 1, ray]
    flight = bench.length or 1.0
    reach = 1.6 * max(flight * abs(theta), flight * abs(bent), 0.25 * float(np.ptp(bench.profile_at)) / 6)
    # A turn of a few degrees over a short flight would be a straight line on paper.
    steeper = max(1.0, float(f"{0.55 * reach / (flight * max(abs(theta), abs(bent), 1e-12)):.1g}"))
    rise, fall = steeper * bench.length * theta, steeper * bench.length * bent
    profile = bench.profiles[layer, ray]
    size = float(np.abs(profile).max()) or 1.0
    axis.plot([0, flight], [meet - rise, meet], color=BLACK, linewidth=2)
    axis.plot([flight, 2 * flight], [meet, meet + rise], color=GREY, linestyle=(0, (3, 2)), linewidth=1.2)
    axis.plot([flight, 2 * flight], [meet, meet + fall], color=VERMILION, linewidth=2)
    near = np.abs(bench.profile_at - meet) <= reach
    axis.plot(flight + 0.35 * flight * profile[near] / size, bench.profile_at[near], color=BLUE, linewidth=1.6)
    axis.axvline(flight, color=SKY, linewidth=1.0)
    axis.plot([0, flight], [meet - rise, meet], "o", color=BLACK, markersize=4)
    axis.set_title(f"(b) one lens layer: ray {ray + 1}, layer {layer + 1} of this model")
    axis.set_ylim(meet - reach, meet + reach)
    axis.set_xlim(-0.08 * flight, 2.15 * flight)
    axis.set_xticks([0, flight], ["previous lens", "lens"])
    for label in axis.get_xticklabels():
        label.set_bbox({"fc": "w", "ec": "none", "pad": 1.5})
    axis.set_ylabel("position y")
    drawn = f"\n(angles {steeper:g} times as steep)" if steeper > 1 else ""
    turn = f"{bent - theta:+.3f}".replace("-", "−")
    # The profile bows to one side of the lens; its name stands on the other.
    end = profile[near][-1 if rise + fall < 0 else 0] if near.any() else 1.0
    beside = (0.475, "right") if end >= 0 else (0.495, "left")
    notes = (  # where the rays are not: they come from below if they rise, and leave upwards
        (0.03, rise >= 0, BLACK, "free flight\ny ← y + L θ", "left"),
        (0.985, rise + fall < 0, VERMILION, f"refraction\nθ ← θ + s φ(y)\nturn {turn}{drawn}", "right"),
        (beside[0], rise + fall < 0, BLUE, "lens profile s φ", beside[1]),
    )
    for x, above, ink, words, side in notes:
        at, edge = (0.95, "top") if above else (0.05, "bottom")
        box = {"fc": "w", "ec": "none", "pad": 1.5, "alpha": 0.85}
        axis.text(x, at, words, transform=axis.transAxes, color=ink, ha=side, va=edge, fontsize=8.5, bbox=box)
    return layer


def _stack(axis: Axes, bench: Bench, turns: Array, rays: list[int]) -> None:
    """Panel (c): the whole way, lenses as wide as they are strong."""
    depth, shown = bench.depth, bench.positions[:, rays]
    low, high = float(shown.min()), float(shown.max())
    margin = 0.12 * (high - low) or 1.0
    strongest, gap = float(bench.strength.max()) or 1.0, max(0.09 * depth, 0.6)
    for layer in range(depth):
        wide = min(0.75, 0.7 * gap) * float(bench.strength[layer]) / strongest  # the last one ends before the readout
        lens = Ellipse((layer + 1, (low + high) / 2), max(wide, 0.04), high - low + margin, fc=SKY, ec=BLUE, alpha=0.35)
        axis.add_patch(lens)
    for place, ray in reversed(list(enumerate(rays))):
        bold = place < HIGHLIGHTS
        look: dict[str, Any] = {"color": colour(place) if bold else GREY, "linewidth": 1.8 if bold else 0.8}
        label = f"ray {ray + 1}" if bold else None
        axis.plot(range(depth + 1), bench.positions[:, ray], alpha=1.0 if bold else 0.7, label=label, **look)
        if bold:
            layer = int(turns[: max(depth - 1, 1), ray].argmax())
            axis.plot(layer + 1, bench.positions[layer + 1, ray], "o", color=look["color"], markersize=6)
    axis.set_xlim(-2.1 * gap, depth + 2.1 * gap)
    axis.set_ylim(low - margin, high + margin)
    middle, height = (low + high) / 2, 0.62 * (high - low)
    angle = "$θ_0 = \\tanh$\n$(W_θ x + b_θ)$" if bench.angles[0].any() else "$θ_0 = 0$"
    for x, words in (
        (-1.15 * gap, f"embedding\n\nx ∈ R$^{{{bench.n_in}}}$\n↓\n$y_0 = W_y x + b_y$\n{angle}"),
        (depth + 1.15 * gap, f"readout\n\n$W_o y_D + b_o$\n↓\nR$^{{{bench.n_out}}}$"),
    ):
        axis.add_patch(FancyBboxPatch(
            (x - 0.78 * gap, middle - height / 2), 1.56 * gap, height, boxstyle="round,pad=0,rounding_size=0.02",
            fc=PALE, ec=BLACK, linewidth=0.8, mutation_aspect=(high - low) / (depth or 1),
        ))  # fmt: skip
        axis.text(x, middle, words, ha="center", va="center", fontsize=8)
    axis.set_title("(c) the stack")
    axis.set_xlabel(
        f"layer; {len(rays)} of {bench.width} rays through {depth} lenses of {bench.basis} control points, as wide as "
        "they are strong; every layer keeps volume, det J = 1"
    )
    axis.set_ylabel("position y")
    axis.set_xticks(np.unique(np.linspace(0, depth, min(depth, 10) + 1).round()))
    axis.grid(axis="x", visible=False)


def _arrow(
    axis: Axes, start: tuple[float, float], end: tuple[float, float], bend: float = 0.0, ink: str = BLACK
) -> None:
    axis.add_patch(FancyArrowPatch(
        start, end, arrowstyle="-|>", mutation_scale=11, color=ink, connectionstyle=f"arc3,rad={bend}"
    ))  # fmt: skip
