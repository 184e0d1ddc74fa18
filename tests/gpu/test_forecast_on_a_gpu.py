"""The forecaster's training on an NVIDIA GPU. Needs what the Triton tests need, and pydantic and safetensors."""

import numpy as np
import pytest
import torch

pytest.importorskip("pydantic")
pytest.importorskip("safetensors")

from lln.data.series import Dataset, Series
from lln.fit.fitter import Recipe, fit_surrogate
from lln.fit.trials import shape_of
from lln.ops.triton import backend as triton_backend
from lln.train.ensemble import make_ensemble
from lln.train.loop import CapturedUpdate, Update, UpdateOptions

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(triton_backend.unavailable() is not None, reason=str(triton_backend.unavailable())),
    pytest.mark.filterwarnings("default"),
]


@pytest.mark.parametrize("model", ["lens", "mlp"])
@pytest.mark.parametrize("scale", [1.0, 1e3])  # far from the clipping of gradients, and deep in it
def test_captured_steps_do_what_steps_do(model, scale):
    shape = shape_of(model, {"width": 16, "depth": 2}, 5, 3, 1000, None, 1)
    rng = np.random.default_rng(0)
    batches = torch.from_numpy(rng.standard_normal((8, 2, 64, 8))).float().cuda()
    trained = []
    for kind in (Update, CapturedUpdate):
        network = make_ensemble(shape, [1, 2], "cuda")
        loss_of = lambda x, y, m=network: (m(x) - y).square().mean(dim=(1, 2))  # noqa: E731
        step = kind(network, loss_of, UpdateOptions(clip=1.0, members=True))
        for k, batch in enumerate(batches):
            loss = step((batch[..., :5], scale * batch[..., 5:]), 1e-2 / (1 + k))
        trained.append((loss, network.state_dict()))
    (loss, plain), (captured_loss, captured) = trained
    torch.testing.assert_close(captured_loss, loss, rtol=1e-3, atol=1e-6)
    for name, tensor in plain.items():
        torch.testing.assert_close(captured[name].float(), tensor.float(), rtol=1e-3, atol=1e-4)


def test_a_fit_on_the_gpu_does_as_well_as_one_here():
    states = [np.array([1.5, 0.7])]
    for _ in range(699):
        angle, speed = states[-1]
        states.append(np.array([angle + 0.1 * speed, speed - 0.1 * (np.sin(angle) + 0.1 * speed)]))
    data = Dataset((Series(np.array(states)),), dt=0.1)
    fits = {
        device: fit_surrogate(data, Recipe(members=2, epochs=40, width=24, depth=2, history=1, device=device))
        for device in ("cpu", "cuda")
    }
    errors = {device: fit.report.held_out_nmse for device, fit in fits.items()}
    assert fits["cuda"].report.correction_weight > 0
    assert errors["cuda"] < 0.2 * fits["cuda"].report.linear_nmse
    assert errors["cuda"] < 10 * errors["cpu"]
