"""A step through `torch.export`: a .pt2 file of plain torch operations that loads without lln."""

from __future__ import annotations

import io
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from lln.core.safe_files import output_folder, whole_file
from lln.export.parts import Difference, Probe, check_exportable
from lln.step.frame import Array
from lln.step.step import AnyStep


def export_torch(step: AnyStep, path: str | os.PathLike[str], *, window: Array | None = None) -> Difference:
    """Write the step as an `ExportedProgram` with a dynamic batch, read it back, and compare rollouts.

    The program takes `window` (B, H, n) and, where the model has inputs, `inputs` (B, m), and gives the next states
    (B, n), all float64.

    Args:
        step: what to write.
        path: the file, usually .pt2.
        window: a start to compare from, (H, n); near the training mean if left out.
    """
    check_exportable(step)
    probe, target = Probe.of(step, window), Path(path)
    example = {"window": torch.from_numpy(probe.window)}
    if probe.inputs is not None:
        example["inputs"] = torch.from_numpy(probe.inputs[:, 0].copy())
    batch = {0: torch.export.Dim("batch", min=1)}
    with torch.no_grad(), warnings.catch_warnings(), _no_shapes_kept():
        warnings.simplefilter("ignore")  # torch's own, about its own archives
        program = torch.export.export(_plain(step), (), example, dynamic_shapes=dict.fromkeys(example, batch))
        output_folder(target.parent)
        content = io.BytesIO()
        torch.export.save(program, content)
        with whole_file(target) as partial:
            partial.write_bytes(content.getvalue())
        loaded: Any = torch.export.load(target).module()
        states = probe.rolled(lambda feed: loaded(**{key: torch.tensor(rows) for key, rows in feed.items()}).numpy())
    return probe.compare(target.name, step, states)


@contextmanager
def _no_shapes_kept() -> Iterator[None]:
    """Without torch's caches of traced shapes: no later export uses them, and they would grow with every one."""
    from torch._dynamo import config
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    try:
        with config.patch(fake_tensor_cache_enabled=False):
            yield
    finally:
        for method in vars(ShapeEnv).values():
            getattr(method, "cache_clear", lambda: None)()


def _plain(step: AnyStep) -> AnyStep:
    """A copy on the CPU whose networks run in operations of torch alone: the file must load without lln."""
    copied = step.to_dtype(step.dtype).merged_step()
    if not copied.corrected:
        copied = copied.replace(members=())
    for network in copied.members:
        if hasattr(network, "backend"):
            network.backend = "reference"
    return copied.requires_grad_(False)
