"""Training steps of field networks, where every point of a field is a row of one batch, and updates of a fit."""

from __future__ import annotations

import math
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.speed.contenders import Trainer, batch
from benchmarks.speed.rows import Row, timed
from benchmarks.speed.setting import Setting
from benchmarks.speed.timing import Contender, race
from lln.models import FieldLensNetwork
from lln.models.field import FieldBlock
from lln.ops import reference

QUANTITY = "field training step"
# A line of 160 points in batches of 20, by one block and by two; a square of 32 x 32 points, two channels.
CASES: tuple[tuple[tuple[int, ...], int, dict[str, Any]], ...] = (
    ((20, 160), 1, {"blocks": 1, "width": 64, "kernel": 9, "depth": 10}),
    ((20, 160), 1, {"blocks": 2, "width": 48, "kernel": 7, "depth": 8}),
    ((8, 32, 32), 2, {"blocks": 1, "width": 32, "kernel": 5, "depth": 8}),
)


class NaiveField(nn.Module):
    """A field network written down layer by layer, with its control points as a tensor; convolutions are the same."""

    centers: Tensor

    def __init__(self, network: FieldLensNetwork) -> None:
        super().__init__()
        self.network = network
        first = network.blocks[0]
        assert isinstance(first, FieldBlock)
        self.register_buffer("centers", torch.tensor(first.centers))

    def forward(self, x: Tensor) -> Tensor:
        """(..., *points, n_in) -> (..., *points, n_out)."""
        field = x
        for index, block in enumerate(self.network.blocks):
            assert isinstance(block, FieldBlock)
            rays = self.network.embed(index, field)
            y, _ = reference.lens_transport(
                rays.y, rays.theta, block.coefficients, self.centers, block.sigma, block.length, block.lens_scale
            )
            field = self.network._read(index, y, field, None)
        return field


def field(setting: Setting) -> list[Row]:
    """Forward, mean square error, backward and an Adam step, by the fused transport and by the naive one."""
    rows: list[Row] = []
    for shape, channels, options in CASES[: 1 if setting.quick else None]:
        setting.say(f"field training, {' x '.join(map(str, shape))} points")
        x = batch(*shape, channels, device=setting.device)
        networks = [_network(len(shape) - 1, channels, options).to(setting.device) for _ in range(2)]
        contenders: dict[str, Contender] = {
            "naive": Trainer(networks[0], NaiveField(networks[0]).to(setting.device), x),
            "lens": Trainer(networks[1], networks[1], x),
        }
        times = race(contenders, seconds=setting.seconds, device=setting.device, least=setting.least)
        sizes = {"B": shape[0], "points": math.prod(shape[1:]), "n": channels, "h": options["width"]}
        more = {"D": options["depth"], "K": networks[0].basis, "blocks": options["blocks"], "kernel": options["kernel"]}
        rows += timed(QUANTITY, {**sizes, **more}, times)
    return rows if setting.quick else rows + _fit(setting)


def _fit(setting: Setting) -> list[Row]:
    """Updates of two members with default sizes, as `LensForecaster` trains them: on a GPU one CUDA graph."""
    if find_spec("pydantic") is None:
        setting.skip("updates of a field fit", "pydantic is not installed")
        return []
    from benchmarks.speed.product import POINTS, field_frame
    from lln.data.series import Dataset, Series
    from lln.fit.fields.training import FieldOptions, FieldTrainer
    from lln.fit.options import Recipe
    from lln.train.loop import Checkpoint

    setting.say(f"updates of a field fit, {POINTS} points")
    frame, recipe = field_frame(), Recipe(device=setting.device)
    fields = np.random.default_rng(0).standard_normal((4, 200, POINTS)).cumsum(axis=1) / 10
    data = Dataset(tuple(map(Series, fields)))
    trainer = FieldTrainer(data, recipe, FieldOptions(), lambda _: None, Checkpoint(None, ""))
    plan = replace(trainer.main_plan("", None, noise=0.0), updates=10**6)
    updates = trainer.trainer(trainer.ensemble(frame, trainer.members), frame, plan)
    updates.advance(20)  # captures the graph
    contenders: dict[str, Contender] = {"fit": lambda: updates.advance(1)}
    times = race(contenders, seconds=setting.seconds, device=setting.device, least=setting.least)
    return timed("update of a field fit", {"points": POINTS, "n": 1, "members": trainer.members}, times)


def _network(dimensions: int, channels: int, options: dict[str, Any]) -> FieldLensNetwork:
    generator = torch.Generator().manual_seed(0)
    return FieldLensNetwork(channels, channels, dimensions=dimensions, generator=generator, **options)
