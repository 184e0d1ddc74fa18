import math

import pytest
import torch
from torch import nn

from lln.core.errors import InputError
from lln.models import build
from lln.train import TrainConfig, fit
from lln.train.batches import subseed


def pairs(count=50, dtype=torch.float64):
    x = torch.randn(count, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    return x.to(dtype), torch.sin(2 * x).to(dtype)


def network(kind="lens"):
    options = {"width": 6, "depth": 3, "generator": torch.Generator().manual_seed(0)}
    return build(kind, 3, 3, **options).double()


@pytest.mark.parametrize("kind", ["lens", "mlp", "residual-batchnorm"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"optimizer": "adamw", "weight_decay": 0.1, "clip": 0.05, "schedule": "cosine"},
        {"weight_decay": 0.1, "clip": 0.05},
    ],
)
def test_it_equals_a_loop_written_by_hand(kind, options):
    x, y = pairs()
    config = TrainConfig(epochs=3, batch_size=16, learning_rate=0.01, seed=5, **options)
    model, mine = network(kind), network(kind)
    history = fit(model, x, y, config)

    make = torch.optim.AdamW if config.optimizer == "adamw" else torch.optim.Adam
    optimizer = make(mine.parameters(), lr=0.01, weight_decay=config.weight_decay, foreach=False, fused=False)
    order = torch.Generator().manual_seed(subseed(5, "batches"))
    losses, count = [], 0
    for _ in range(3):
        total = 0.0
        for batch in torch.randperm(50, generator=order).split(16):
            if config.schedule == "cosine":
                optimizer.param_groups[0]["lr"] = 0.01 * (1 + math.cos(math.pi * count / 12)) / 2
            optimizer.zero_grad()
            loss = ((mine(x[batch]) - y[batch]) ** 2).mean()
            loss.backward()
            if config.clip:
                nn.utils.clip_grad_norm_(mine.parameters(), config.clip)
            optimizer.step()
            total, count = total + loss.item() * len(batch), count + 1
        losses.append(total / 50)

    # Float64: a dozen updates that differ in rounding only.
    assert history.losses == pytest.approx(losses, rel=1e-10)
    assert history.updates == count == 12
    theirs = mine.state_dict()
    for name, value in model.state_dict().items():
        # A bias before BatchNorm has no gradient but rounding, which Adam blows up to the size of its epsilon.
        loose = kind == "residual-batchnorm" and ("hidden" in name or "running_mean" in name)
        torch.testing.assert_close(value, theirs[name], rtol=1e-9, atol=1e-6 if loose else 1e-10)


def test_the_same_seed_gives_the_same_network_and_another_seed_another():
    x, y = pairs(dtype=torch.float32)
    weights = []
    for seed in (1, 1, 2):
        model = network().float()
        fit(model, x, y, TrainConfig(epochs=2, seed=seed, batch_size=8))
        weights.append(model.readout.weight.detach().clone())
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


def test_training_learns():
    x, y = pairs(400)
    history = fit(network(), x, y, TrainConfig(epochs=60, learning_rate=0.01, schedule="cosine"))
    assert history.losses[-1] < 0.1 * history.losses[0]


def test_progress_hears_every_epoch_and_can_stop():
    x, y = pairs()
    heard = []

    def stop_after_two(epoch):
        heard.append(epoch)
        return epoch.number < 2

    history = fit(network(), x, y, TrainConfig(epochs=5), progress=stop_after_two)
    assert [(epoch.number, epoch.total) for epoch in heard] == [(1, 5), (2, 5)]
    assert history.stopped
    assert history.losses == tuple(epoch.loss for epoch in heard)
    assert 0 < heard[0].seconds <= history.seconds


def test_an_interrupt_passes_through_and_leaves_a_usable_network():
    x, y = pairs()
    model = network("residual-batchnorm").eval()
    before = model.readout.weight.detach().clone()

    def interrupt(_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit(model, x, y, TrainConfig(epochs=5), progress=interrupt)
    assert not model.training
    assert not torch.equal(model.readout.weight, before)
    assert torch.isfinite(model(x)).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda x, y: (x.numpy(), y), "inputs must be a torch tensor, got ndarray; use torch.from_numpy"),
        (lambda x, y: (x, y.long()), "targets must be floating point, got torch.int64; convert with .float"),
        (lambda x, y: (x[0], y), r"inputs must have shape \(pairs, n\) with at least one pair, got \(3,\)"),
        (lambda x, y: (x[:0], y[:0]), r"inputs must have shape \(pairs, n\) with at least one pair, got \(0, 3\)"),
        (lambda x, y: (x.index_fill(0, torch.tensor(7), torch.nan), y), "inputs must be finite, but pair 7 holds NaN"),
        (lambda x, y: (x, y[:-1]), "inputs and targets must pair up, got 50 inputs and 49 targets"),
        (lambda x, y: (x, y[:, :2]), "the model returns 3 numbers per pair but targets have 2"),
        (lambda x, y: (x[:, :2], y), r"the input's last dimension must be n_in = 3, got shape \(1, 2\)"),
    ],
)
def test_bad_pairs_get_a_sentence(change, message):
    inputs, targets = change(*pairs())
    with pytest.raises(InputError, match=message):
        fit(network(), inputs, targets, TrainConfig())
