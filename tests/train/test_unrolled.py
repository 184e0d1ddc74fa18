import pytest
import torch
from torch import nn

from lln.core.errors import InputError
from lln.models import FieldLensNetwork, LensNetwork
from lln.train.loop import Schedule, Trainer, UpdateOptions
from lln.train.unrolled import Unroll, UnrolledBatches, rolled_out, unrolled_loss


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def lens(seed=0):
    return LensNetwork(3, 3, width=8, depth=2, basis=4, generator=torch.Generator().manual_seed(seed))


def increments(model):
    return lambda past, _: past[-1] + 0.1 * model(past[-1])


def trained(model, step, examples, unroll, *, epochs, size, rate, **options):
    batches = UnrolledBatches(examples, 1, unroll, size, [5])
    loss = unrolled_loss(step, 1, unroll)
    schedule = Schedule(epochs * batches.each, rate)
    return Trainer(model, batches, loss, schedule, UpdateOptions(**options))


def by_hand(model, examples, steps):
    state, total = examples[:, 0], 0.0
    for k in range(steps):
        state = state + 0.1 * model(state)
        total = total + (state - examples[:, k + 1]).square().mean()
    return total / steps


def test_loss_and_gradient_are_those_of_a_loop_by_hand():
    model, examples = lens(), draw(5, 4, 3)
    loss = unrolled_loss(increments(model), 1, Unroll(3))(examples, None, None)
    mine = torch.autograd.grad(loss, list(model.parameters()))
    truth = by_hand(model, examples, 3)
    theirs = torch.autograd.grad(truth, list(model.parameters()))
    assert torch.allclose(loss, truth, rtol=1e-6)
    for a, b in zip(mine, theirs, strict=True):
        assert torch.allclose(a, b, rtol=1e-4, atol=1e-7)


def test_cut_gradients_differ_and_the_loss_does_not():
    model, examples = lens(), draw(5, 4, 3)
    whole, cut = (unrolled_loss(increments(model), 1, Unroll(3, cut=c))(examples, None, None) for c in (0, 1))
    assert torch.equal(whole, cut)
    slopes = [torch.autograd.grad(one, model.readout.weight)[0] for one in (whole, cut)]
    assert not torch.allclose(*slopes, rtol=1e-2)


def test_history_and_inputs_reach_the_step():
    seen = []

    def step(past, inputs):
        seen.append(len(past))
        return past[-1] + past[0] + inputs

    inputs = draw(3, 2, 1)
    states = rolled_out(step, [torch.ones(2, 1), torch.ones(2, 1)], 3, list(inputs))
    assert seen == [2, 2, 2]
    assert torch.allclose(states[0], 2 + inputs[0])
    assert torch.allclose(states[1], states[0] + 1 + inputs[1])
    assert torch.allclose(states[2], states[1] + states[0] + inputs[2])


def test_noise_falls_on_the_start_alone_and_is_the_same_for_the_same_update():
    batches = UnrolledBatches(torch.zeros(4000, 2, 1), 1, Unroll(1, noise=0.1), 4000, [3])
    rows = [batches(update)[0] for update in (0, 0, 1)]
    assert torch.equal(rows[0], rows[1])
    assert not torch.equal(rows[0], rows[2])
    assert not rows[0][:, 1].any()
    # known to 1 / sqrt(8000) of itself
    assert rows[0][:, 0].std().item() == pytest.approx(0.1, rel=0.05)


def test_weights_count():
    model, examples = lens(), draw(4, 2, 3)
    loss = unrolled_loss(increments(model), 1, Unroll(1))
    weighted = loss(examples, None, torch.tensor([0.0, 1.0, 0.0, 0.0]))
    assert torch.allclose(weighted, loss(examples[1:2], None, None))


def test_the_loss_of_an_ensemble_is_that_of_each_member():
    first, second = draw(5, 4, 3), draw(5, 4, 3, seed=1)
    step = lambda past, _: 0.9 * past[-1]  # noqa: E731
    both = unrolled_loss(step, 1, Unroll(3), members=True, growing=True)(torch.stack((first, second)), None, None)
    alone = [unrolled_loss(step, 1, Unroll(3), growing=True)(rows, None, None) for rows in (first, second)]
    assert torch.allclose(both, torch.stack(alone))
    assert not torch.allclose(alone[0], unrolled_loss(step, 1, Unroll(3))(first, None, None))


def test_unrolled_training_learns_a_rotation_that_lasts():
    angle = torch.tensor(0.3)
    turn = torch.stack([torch.stack([angle.cos(), -angle.sin()]), torch.stack([angle.sin(), angle.cos()])])
    states = [draw(64, 2)]
    for _ in range(4):
        states.append(states[-1] @ turn.T)
    model = nn.Linear(2, 2, bias=False)
    step = lambda past, _: model(past[-1])  # noqa: E731
    trainer = trained(model, step, torch.stack(states, 1), Unroll(4), epochs=60, size=16, rate=3e-2)
    losses = [trainer.advance(4).item() for _ in range(60)]
    assert trainer.done == 240
    assert losses[-1] < 1e-6 < losses[0]
    assert torch.allclose(model.weight, turn, atol=1e-3)


def test_a_field_network_is_trained_too():
    model = FieldLensNetwork(1, 1, width=4, depth=2, basis=4, kernel=3, blocks=1)
    step = lambda past, _: past[-1] + model(past[-1])  # noqa: E731
    trainer = trained(model, step, draw(6, 3, 8, 1), Unroll(2), epochs=3, size=3, rate=1e-2)
    losses = [trainer.advance(2).item() for _ in range(3)]
    assert losses[-1] < losses[0]


def test_training_continues_to_the_same_result():
    examples = draw(5, 3, 3)

    def training(model):
        unroll = Unroll(2, noise=0.1)
        return trained(model, increments(model), examples, unroll, epochs=4, size=2, rate=1e-2, clip=1.0)

    straight, broken = training(lens()), training(lens())
    assert straight.updates == 4 * 3
    losses = [straight.advance(4).item() for _ in range(3)]
    assert [broken.advance(4).item()] == losses[:1]
    again = training(lens(seed=9))
    again.restore(*broken.state())
    assert [again.advance(4).item(), again.advance(4).item()] == losses[1:]
    assert again.finished
    assert again.advance(1).item() == 0.0
    for a, b in zip(straight.model.parameters(), again.model.parameters(), strict=True):
        assert torch.equal(a, b)


def test_bad_examples_are_named():
    with pytest.raises(InputError, match="1 \\+ 3 states each"):
        UnrolledBatches(draw(5, 3, 3), 1, Unroll(3), 2, [0])
    with pytest.raises(InputError, match="noise must not be negative"):
        Unroll(1, noise=-0.1)
