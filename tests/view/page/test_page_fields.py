import copy

import numpy as np
import pytest
import torch
from browser import drive, needs_browser

from lln.data.series import Series
from lln.forecaster.layout import Layout
from lln.models.convolution import kernel_shape, sides
from lln.models.field import FieldLensNetwork
from lln.step.field import FieldStep
from lln.step.field_frame import FieldFrame
from lln.view.page import build_page

pytestmark = needs_browser
STEPS = 60


def made(
    space, channels=1, *, boundary="periodic", history=1, inputs=0, conserve="none", static=0, members=1, **options
):
    """A field model with drawn numbers: small changes a step, so that it stays where it started."""
    source = np.random.default_rng(1)
    kernel = kernel_shape(options.pop("linear", 3), len(space))
    features = channels * history + inputs
    frame = FieldFrame(
        space, sides(boundary, len(space)), kernel, history, source.normal(size=channels),
        source.uniform(0.5, 2.0, channels), source.uniform(0.5, 1.0, (history - 1, channels)),
        source.normal(size=inputs), source.uniform(0.5, 2.0, inputs),
        0.02 * source.normal(size=(channels, int(np.prod(kernel)) * features)), 0.01 * source.normal(size=channels),
        np.full(channels, 0.05), conserve, source.normal(size=(*space, static)) if static else None,
    )  # fmt: skip
    sizes = {"width": 5, "depth": 3, "basis": 6, "kernel": 3, "blocks": 2, "hidden": 4, **options}
    nets = []
    for seed in range(members):
        net = FieldLensNetwork(
            features, frame.outputs, dimensions=len(space), boundary=boundary, static=static,
            generator=torch.Generator().manual_seed(seed), **sizes,
        )  # fmt: skip
        with torch.no_grad():
            for block in net.blocks:
                block.coefficients.mul_(10.0)
        nets.append(net)
    return FieldStep(frame, tuple(nets))


CASES = {
    "a ring": made((12,)),
    "a rod between walls": made((11,), 2, boundary=[("dirichlet", "neumann")], history=2),
    "copies beyond the edge": made((9,), boundary="replicate", linear=4, kernel=5, blocks=3),
    "forced": made((10,), inputs=2, members=2),
    "a fixed field": made((10,), static=2, blocks=1, initial_angle="zero"),
    "a mean that is kept": made((12,), 2, conserve="mean"),
    "fluxes round a ring": made((12,), 2, conserve="flux"),
    "fluxes between walls": made((12,), conserve="flux", boundary="neumann"),
    "a torus": made((5, 6), kernel=(3, 5)),
    "a plate": made((6, 5), 2, boundary=["periodic", ("dirichlet", "neumann")], conserve="flux"),
}


def doubled(surrogate):
    return FieldStep(surrogate.frame, tuple(copy.deepcopy(net).double() for net in surrogate.members))


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    folder, pages = tmp_path_factory.mktemp("fields"), []
    for name, surrogate in CASES.items():
        frame = surrogate.frame
        window, inputs = start(frame)
        layout = Layout(
            tuple(f"x{i}" for i in range(frame.size)), 0.1, frame.space, tuple("uv"[: frame.channels]),
            {f"axis{k}": np.arange(float(size)) for k, size in enumerate(frame.space)},
            tuple(f"input{k}" for k in range(frame.inputs)),
        )  # fmt: skip
        run = Series(
            np.concatenate([window, window]), np.zeros((2 * len(window), frame.inputs)) if frame.inputs else None
        )
        file = folder / f"{name.replace(' ', '-')}.html"
        file.write_text(build_page(surrogate, layout, [run], title=name, steps=20))
        known = None if inputs is None else inputs.tolist()
        pages.append(
            {"file": str(file), "rolls": [{"window": window.tolist(), "steps": STEPS, "inputs": known, "switches": {}}]}
        )
    return dict(zip(CASES, drive(folder, "rollouts", {"pages": pages}), strict=True))


def start(frame):
    source = np.random.default_rng(2)
    window = frame.mean + frame.scale * source.normal(size=(frame.history, frame.size))
    return window, source.normal(size=(STEPS, frame.inputs)) if frame.inputs else None


@pytest.mark.parametrize("name", CASES)
def test_a_field_rolls_out_as_in_python(told, name):
    surrogate = CASES[name]
    window, inputs = start(surrogate.frame)
    assert told[name]["errors"] == []
    right = doubled(surrogate).rollout(window, STEPS, inputs)
    usual = surrogate.rollout(window, STEPS, inputs)
    allowed = 2.0 * np.abs((usual - right) / surrogate.frame.scale).max()
    found = np.abs((np.array(told[name]["states"][0]) - right) / surrogate.frame.scale).max()
    assert 0 < allowed < 1e-3  # float32 is at work, and nothing has blown up
    assert found <= allowed
