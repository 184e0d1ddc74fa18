import pytest
import torch
from torch import nn

from lln.core.errors import InputError
from lln.models import FieldLensNetwork, LensNetwork
from lln.train import TrainConfig
from lln.train.unroll import Training, Unroll, fit_unrolled, rolled_out, unrolled_loss


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def lens(seed=0):
    return LensNetwork(3, 3, width=8, depth=2, basis=4, generator=torch.Generator().manual_seed(seed))


def increments(model):
    return lambda window, _: window[:, -1] + 0.1 * model(window[:, -1])


def by_hand(model, examples, steps):
    state, total = examples[:, 0], 0.0
    for k in range(steps):
        state = state + 0.1 * model(state)
        total = total + (state - examples[:, k + 1]).square().mean()
    return total / steps


def test_loss_and_gradient_are_those_of_a_loop_by_hand():
    model, examples = lens(), draw(5, 4, 3)
    loss = unrolled_loss(increments(model), examples, 1, Unroll(3))(torch.arange(5), 0)
    mine = torch.autograd.grad(loss, list(model.parameters()))
    truth = by_hand(model, examples, 3)
    theirs = torch.autograd.grad(truth, list(model.parameters()))
    assert torch.allclose(loss, truth, rtol=1e-6)
    for a, b in zip(mine, theirs, strict=True):
        assert torch.allclose(a, b, rtol=1e-4, atol=1e-7)


def test_cut_gradients_differ_and_the_loss_does_not():
    model, examples = lens(), draw(5, 4, 3)
    whole, cut = (unrolled_loss(increments(model), examples, 1, Unroll(3, cut=c))(torch.arange(5), 0) for c in (0, 1))
    assert torch.equal(whole, cut)
    slopes = [torch.autograd.grad(one, model.readout.weight)[0] for one in (whole, cut)]
    assert not torch.allclose(*slopes, rtol=1e-2)


def test_history_and_inputs_reach_the_step():
    seen = []

    def step(window, inputs):
        seen.append((window.shape, inputs))
        return window[:, -1] + window[:, 0] + inputs

    inputs = draw(2, 3, 1)
    states = rolled_out(step, torch.ones(2, 2, 1), 3, inputs)
    assert [tuple(shape) for shape, _ in seen] == [(2, 2, 1)] * 3
    assert torch.allclose(states[:, 0], 2 + inputs[:, 0])
    assert torch.allclose(states[:, 1], states[:, 0] + 1 + inputs[:, 1])
    assert torch.allclose(states[:, 2], states[:, 1] + states[:, 0] + inputs[:, 2])


def test_noise_falls_on_the_start_and_is_the_same_for_the_same_update():
    starts = []

    def step(window, inputs):
        del inputs
        starts.append(window.clone())
        return window[:, -1]

    loss = unrolled_loss(step, torch.zeros(4000, 2, 1), 1, Unroll(1, noise=0.1), seed=3)
    chosen = torch.arange(4000)
    values = [loss(chosen, update).item() for update in (0, 0, 1)]
    assert values[0] == values[1] != values[2]
    # clean targets: the loss is the noise's variance, known to 1 / sqrt(2000) of itself
    assert values[0] == pytest.approx(0.01, rel=0.1)
    assert starts[0].std().item() == pytest.approx(0.1, rel=0.05)


def test_weights_count():
    model, examples = lens(), draw(4, 2, 3)
    only = unrolled_loss(increments(model), examples, 1, Unroll(1), weights=torch.tensor([0.0, 1.0, 0.0, 0.0]))
    plain = unrolled_loss(increments(model), examples, 1, Unroll(1))
    assert torch.allclose(only(torch.arange(4), 0), plain(torch.tensor([1]), 0))


def test_unrolled_training_learns_a_rotation_that_lasts():
    angle = torch.tensor(0.3)
    turn = torch.stack([torch.stack([angle.cos(), -angle.sin()]), torch.stack([angle.sin(), angle.cos()])])
    starts = draw(64, 2)
    states = [starts]
    for _ in range(4):
        states.append(states[-1] @ turn.T)
    model = nn.Linear(2, 2, bias=False)
    config = TrainConfig(epochs=60, batch_size=16, learning_rate=3e-2, schedule="cosine")
    history = fit_unrolled(model, lambda w, _: model(w[:, -1]), torch.stack(states, 1), config, Unroll(4))
    assert history.updates == 240
    assert history.losses[-1] < 1e-6 < history.losses[0]
    assert torch.allclose(model.weight, turn, atol=1e-3)


def test_a_field_network_is_trained_too():
    model = FieldLensNetwork(1, 1, width=4, depth=2, basis=4, kernel=3, blocks=1)
    examples = draw(6, 3, 8, 1)
    config = TrainConfig(epochs=3, batch_size=3, learning_rate=1e-2)
    history = fit_unrolled(model, lambda w, _: w[:, -1] + model(w[:, -1]), examples, config, Unroll(2))
    assert history.losses[-1] < history.losses[0]


def test_training_goes_on_to_the_same_result():
    config = TrainConfig(epochs=4, batch_size=2, learning_rate=1e-2, schedule="cosine", clip=1.0, seed=5)
    examples = draw(5, 3, 3)

    def training(model):
        return Training(model, unrolled_loss(increments(model), examples, 1, Unroll(2, noise=0.1)), 5, config)

    straight, broken = training(lens()), training(lens())
    assert straight.updates == 4 * 3
    losses = [straight.run(4) for _ in range(3)]
    assert [broken.run(4)] == losses[:1]
    again = training(lens(seed=9))
    again.restore(*broken.state())
    assert [again.run(4), again.run(4)] == losses[1:]
    assert again.finished
    assert again.run(1) == 0.0
    for a, b in zip(straight.model.parameters(), again.model.parameters(), strict=True):
        assert torch.equal(a, b)


def test_a_callback_ends_it():
    model = lens()
    config = TrainConfig(epochs=5, batch_size=5)
    history = fit_unrolled(model, increments(model), draw(5, 2, 3), config, Unroll(1), progress=lambda e: e.number < 2)
    assert history.stopped
    assert len(history.losses) == 2


def test_bad_examples_are_named():
    model = lens()
    with pytest.raises(InputError, match="1 \\+ 3 states each"):
        unrolled_loss(increments(model), draw(5, 3, 3), 1, Unroll(3))
    broken = draw(5, 2, 3)
    broken[3, 1] = float("nan")
    with pytest.raises(InputError, match="example 3 holds NaN"):
        fit_unrolled(model, increments(model), broken, TrainConfig(), Unroll(1))
    with pytest.raises(InputError, match="noise must not be negative"):
        Unroll(1, noise=-0.1)
