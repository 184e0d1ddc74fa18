import pytest
import torch

from lln.core.errors import InputError
from lln.models import MODELS, build
from lln.models.factory import stack
from lln.train import TrainConfig, fit
from lln.train.batches import subseed
from lln.train.ensemble import fit_ensemble
from lln.train.loop import clip_by_member

SEEDS = (3, 0, 7)
# The bias in front of a batch normalisation has no gradient but rounding noise, 1e-16, which Adam divides by 1e-8: it
# wanders by 1e-8 of the learning rate in an update, so that the comparison needs one of 1e-3 or less.
RECIPES = {
    "adam": {"learning_rate": 1e-3},
    "adam, decay, clipped": {"learning_rate": 1e-3, "weight_decay": 1e-3, "clip": 0.1},
    "adamw, cosine": {"learning_rate": 1e-3, "optimizer": "adamw", "weight_decay": 1e-2, "schedule": "cosine"},
}


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)  # tiny products: two threads would only wait for each other
    yield
    torch.set_num_threads(before)


def members(name, seeds=SEEDS, dtype=torch.float64, n=3):
    options = {"basis": 5} if name == "lens" else {}
    return [
        build(
            name, n, n, width=7, depth=4, generator=torch.Generator().manual_seed(subseed(seed, "init")), **options
        ).to(dtype)
        for seed in seeds
    ]


def pairs(count=37, n=3, dtype=torch.float64):
    generator = torch.Generator().manual_seed(5)
    x = torch.randn(count, n, generator=generator, dtype=dtype)
    return x, x.roll(1, dims=1) * 0.5 + 0.1


@pytest.mark.parametrize("recipe", RECIPES, ids=str)
@pytest.mark.parametrize("name", MODELS)
def test_same_as_one_by_one_after_ten_updates(name, recipe):
    x, y = pairs()
    config = {"epochs": 2, "batch_size": 8, **RECIPES[recipe]}  # five batches an epoch, the last of another size
    ensemble = stack(members(name))
    history = fit_ensemble(ensemble, x, y, TrainConfig(**config), SEEDS)
    assert history.updates == 10
    for index, (seed, alone) in enumerate(zip(SEEDS, members(name), strict=True)):
        one = fit(alone, x, y, TrainConfig(seed=seed, **config))
        together = ensemble.member(index)
        for key, value in alone.state_dict().items():
            if key.endswith("num_batches_tracked"):
                continue
            torch.testing.assert_close(together.state_dict()[key], value, rtol=0, atol=1e-9, msg=f"{name} {key}")
        assert history.losses[:, index] == pytest.approx(one.losses, abs=1e-9)


@pytest.mark.parametrize("name", MODELS)
def test_a_stack_computes_what_its_members_compute_and_gives_them_back(name):
    alone = members(name)
    ensemble = stack(alone).eval()
    x = torch.randn(3, 2, 5, 3, dtype=torch.float64)
    with torch.no_grad():
        together = ensemble(x)
        assert together.shape == (3, 2, 5, 3)
        for index, member in enumerate(alone):
            torch.testing.assert_close(together[index], member.eval()(x[index]), rtol=0, atol=1e-12)
            assert torch.equal(ensemble.member(index).eval()(x[index]), member(x[index]))


def test_a_member_that_turns_into_nan_leaves_the_others_alone():
    x, y = pairs()
    config = TrainConfig(epochs=1, batch_size=8, clip=0.1)
    poisoned = members("residual")
    with torch.no_grad():
        poisoned[1].readout.weight.fill_(float("nan"))
    ensemble, healthy = stack(poisoned), stack(members("residual"))
    fit_ensemble(ensemble, x, y, config, SEEDS)
    fit_ensemble(healthy, x, y, config, SEEDS)
    assert torch.isnan(ensemble.member(1)(x)).all()
    for index in (0, 2):
        assert torch.equal(ensemble.member(index)(x), healthy.member(index)(x))


def test_clipping_counts_each_member_by_itself():
    gradients = [torch.tensor([[3.0, 0.0], [0.3, 0.0]]), torch.tensor([[4.0], [0.4]])]
    clip_by_member(gradients, 1.0)
    # 5 / (5 + 1e-6) of the unit vector (0.6, 0.8); the second member's norm is 0.5 and stays.
    assert gradients[0][0, 0].item() == pytest.approx(0.6, rel=1e-6)
    assert gradients[1][0, 0].item() == pytest.approx(0.8, rel=1e-6)
    assert gradients[0][1, 0].item() == pytest.approx(0.3, rel=1e-7)
    assert gradients[1][1, 0].item() == pytest.approx(0.4, rel=1e-7)


def test_bad_input_is_refused():
    x, y = pairs()
    ensemble = stack(members("mlp"))
    with pytest.raises(InputError, match="finite"):
        fit_ensemble(ensemble, x / 0, y, TrainConfig(), SEEDS)
    with pytest.raises(InputError, match="member 1"):
        stack([*members("mlp", (0,)), *members("residual", (0,))])
    with pytest.raises(InputError, match="at least one"):
        stack([])
