"""The bars: what each measurement must reach, as data, in one place.

They were set for float32 with one thread on a processor with AVX-512, and for an H200; elsewhere they say nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

AVX512, H200 = "avx512", "H200"
MLP = ("mlp", "mlp compiled")
SIZES_B, SIZES_H = (64, 256, 1024), (64, 128, 512)


@dataclass(frozen=True)
class Bar:
    """One bar.

    Attributes:
        name: what it is called in tables and by `--check`, beside the sizes and who is compared.
        quantity: which rows it is about.
        contender: whose.
        bound: the ratio (or the value) to reach.
        against: the ratio's other side, the fastest of these; empty where the value itself is bounded.
        where: sizes of the rows it is about; a missing one may be anything.
        at_least: whether the bound is a least or a most value.
        level: the machine it was set for.
    """

    name: str
    quantity: str
    contender: str
    bound: float
    against: tuple[str, ...] = ()
    where: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    at_least: bool = True
    level: str = AVX512

    def about(self, quantity: str, contender: str, shape: Mapping[str, int]) -> bool:
        """Whether it is about a row of this quantity, contender and shape."""
        sizes = all(shape.get(key) in allowed for key, allowed in self.where.items())
        return sizes and (quantity, contender) == (self.quantity, self.contender)


def _most(name: str, quantity: str, contender: str, bound: float, **sizes: int) -> Bar:
    return Bar(name, quantity, contender, bound, where={k: (v,) for k, v in sizes.items()}, at_least=False)


NAIVE = ("naive",)
BARS = (
    Bar("rollout of a model", "model rollout", "fused", 20, ("loop",), {"B": (1,)}),
    Bar("rollout of a model", "model rollout", "fused", 0.5, ("c float",), {"B": (1,)}),
    Bar("stack forward", "stack forward", "cpu", 65, NAIVE, {"B": SIZES_B, "h": SIZES_H}),
    Bar("stack forward + gradients", "stack gradients", "cpu", 55, NAIVE, {"B": SIZES_B, "h": SIZES_H}),
    Bar("stack forward", "stack forward", "cpu", 20, NAIVE, {"B": (1,), "h": (128,)}),
    Bar("stack forward + gradients", "stack gradients", "cpu", 35, NAIVE, {"B": (1,), "h": (128,)}),
    Bar("AVX2 forward", "stack forward", "cpu avx2", 45, NAIVE, {"B": SIZES_B, "h": (128,)}),
    Bar("AVX2 forward + gradients", "stack gradients", "cpu avx2", 38, NAIVE, {"B": SIZES_B, "h": (128,)}),
    Bar("training step", "training step", "lens", 28, NAIVE, {"B": (64,)}),
    Bar("training step", "training step", "lens", 35, NAIVE, {"B": (256,)}),
    Bar("training step", "training step", "lens", 50, NAIVE, {"B": (1024,)}),
    Bar("training step", "training step", "lens", 2.4, MLP, {"B": SIZES_B}),
    Bar("rollout", "rollout", "lens", 450, NAIVE, {"h": (64,), "n": (3,)}),
    Bar("rollout", "rollout", "lens", 250, NAIVE, {"h": (128,), "n": (32,)}),
    Bar("rollout", "rollout", "lens", 70, NAIVE, {"h": (512,), "n": (32,)}),
    Bar("rollout", "rollout", "lens", 25, ("mlp onnx",), {"h": (128,)}),
    Bar("exported C", "exported rollout", "c float", 5, ("onnx step",)),
    Bar("exported C", "exported rollout", "c float", 20, ("eager",)),
    Bar("ten seeds at once", "ten seeds", "together", 1.8, ("in sequence",), {"B": (16,)}),
    Bar("ten seeds at once", "ten seeds", "together", 1.5, ("in sequence",), {"B": (64,)}),
    Bar("field training step", "field training step", "lens", 10, NAIVE),
    _most("relative error", "relative error", "cpu", 2e-6, K=12),
    _most("extra memory", "extra memory", "lens", 30, D=4000),
    _most("deep training, memory", "deep training", "lens", 60, D=10_000),
    _most("deep training, loss ratio", "deep training loss", "lens", 0.99, D=10_000),
    _most("first call, cold cache", "first call", "cold cache", 12),
    _most("first call, warm cache", "first call", "warm cache", 1),
    *(
        Bar("stack forward + gradients", "stack gradients", "triton", bound, (other,),
            {"B": (8192,), "h": (512,)}, level=H200)
        for other, bound in (("naive", 40), ("naive compiled", 5), ("mlp", 6))
    ),
    *(
        Bar(f"stack forward + gradients{how}, seconds", "stack gradients", f"triton{contender}", bound,
            where={"B": (rows,), "h": (width,)}, at_least=False, level=H200)
        for how, contender, rows, width, bound in (
            ("", "", 8192, 512, 1.3e-3), ("", "", 1024, 128, 3e-4), (" as a graph", " graph", 1024, 128, 3e-4))
    ),
)  # fmt: skip


def level_of(processor_level: str | None, gpu: str | None) -> str:
    """The machine's level as `Bar.level` names it; another processor or card has a level without bars."""
    if gpu is not None:
        return H200 if H200 in gpu else gpu
    return processor_level or "no kernels"
