import pytest
import torch

from lln.fit.trials import shape_of
from lln.train.ensemble import ReadoutFit, make_ensemble


@pytest.mark.parametrize("model", ["lens", "mlp", "scaled-residual", "residual-batchnorm", "layerscale"])
def test_the_solved_readout_is_the_best_one(model):
    shape = shape_of(model, {"width": 8, "depth": 2}, 3, 2, 100, None, 1)
    ensemble = make_ensemble(shape, [0, 1], "cpu").eval()
    x = torch.randn(100, 3, generator=torch.Generator().manual_seed(1))
    y = torch.stack([x[:, 0] * x[:, 1], torch.sin(x[:, 2])], dim=1)
    weights = torch.linspace(0.5, 1.5, 100)
    ReadoutFit(ensemble, x, y, weights, None).apply(1e-12)
    with torch.no_grad():
        states = ensemble.last_states(x.expand(len(ensemble), -1, -1))
        for member in range(2):
            tall = torch.cat([states[member], torch.ones(100, 1)], dim=1).double() * weights.double().sqrt()[:, None]
            best = torch.linalg.lstsq(tall, y.double() * weights.double().sqrt()[:, None], driver="gelsd").solution
            least = (tall @ best - y.double() * weights.double().sqrt()[:, None]).square().mean()
            found = ((ensemble.member(member).eval()(x) - y) * weights.sqrt()[:, None]).square().mean()
            # The readout is stored in float32, and dead units leave directions that only the ridge decides.
            assert float(found) <= float(least) * 1.001 + 1e-6
