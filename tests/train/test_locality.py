import numpy as np
import torch

from lln.data.series import Dataset, Series
from lln.fit.prepare import prepare
from lln.fit.trials import shape_of
from lln.train.ensemble import gradient_mask, make_ensemble


def grid(n=16, rows=200):
    return Dataset((Series(np.random.default_rng(0).standard_normal((rows, n)).cumsum(axis=0)),), space=(n,))


def test_local_rays_stay_local_through_training():
    ready = prepare(grid(), 2)
    shape = shape_of("lens", {"depth": 2, "basis": 4}, 32, 16, ready.pairs, ready.near(1), 2)
    model = make_ensemble(shape, [0, 1], "cpu")
    zero = gradient_mask(model, shape.mask)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    x = torch.randn(2, 20, 32, generator=torch.Generator().manual_seed(0))
    for _ in range(3):
        optimizer.zero_grad()
        model(x).square().mean().backward()
        zero()
        optimizer.step()
    member = model.member(1)
    seen, used = torch.from_numpy(shape.mask.embedding), torch.from_numpy(shape.mask.readout)
    assert not member.embed_position.weight[~seen].any()
    assert not member.embed_angle.weight[~seen].any()
    assert not member.readout.weight[~used].any()
    far, here = torch.zeros(1, 32), torch.zeros(1, 32)
    far[0, 8] = 1.0
    changed = (member(far) - member(here))[0].nonzero()[:, 0].tolist()
    assert changed == [7, 8, 9]
    free = sum(p.numel() for p in member.parameters()) - int((~seen).sum()) * 2 - int((~used).sum())
    assert shape.parameters(member) == free
