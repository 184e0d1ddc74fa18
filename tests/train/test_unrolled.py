import pytest
import torch
from torch import nn

from lln.core.errors import InputError
from lln.fit.fields.training import FieldOptions
from lln.models import FieldLensNetwork, LensNetwork
from lln.train.batches import UnrolledBatches, unrolled_loss
from lln.train.loop import Schedule, Trainer, UpdateOptions


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def lens(seed=0):
    return LensNetwork(3, 3, width=8, depth=2, basis=4, generator=torch.Generator().manual_seed(seed))


def increments(model):
    return lambda past, _: past[-1] + 0.1 * model(past[-1])


def of_one(step):
    """A step of one model as that of an ensemble of one."""
    return lambda past, known: step([state[0] for state in past], known)[None]


def trained(model, step, examples, steps, *, epochs, size, rate, noise=0.0, **options):
    batches = UnrolledBatches(examples, 1, size, [5], noise=noise)
    loss = unrolled_loss(of_one(step), 1, steps)
    schedule = Schedule(epochs * batches.each, rate)
    return Trainer(model, batches, lambda *batch: loss(*batch)[0], schedule, UpdateOptions(**options))


def alone(step, steps, rows, weights=None, **options):
    """The loss of one model."""
    return unrolled_loss(of_one(step), 1, steps, **options)(rows[None], None, weights)[0]


def by_hand(model, examples, steps):
    state, total = examples[:, 0], 0.0
    for k in range(steps):
        state = state + 0.1 * model(state)
        total = total + (state - examples[:, k + 1]).square().mean()
    return total / steps


def test_loss_and_gradient_are_those_of_a_loop_by_hand():
    model, examples = lens(), draw(5, 4, 3)
    loss = alone(increments(model), 3, examples)
    mine = torch.autograd.grad(loss, list(model.parameters()))
    truth = by_hand(model, examples, 3)
    theirs = torch.autograd.grad(truth, list(model.parameters()))
    assert torch.allclose(loss, truth, rtol=1e-6)
    for a, b in zip(mine, theirs, strict=True):
        assert torch.allclose(a, b, rtol=1e-4, atol=1e-7)


def test_history_and_inputs_reach_the_step():
    seen = []

    def step(past, inputs):
        seen.append([float(state) for state in past])
        return past[-1] + past[0] + inputs

    rows, inputs = torch.tensor([1.0, 1.0, 0.0, 0.0, 0.0]).view(1, 1, 5, 1), torch.tensor([0.5, 0.25, 4.0])
    loss = unrolled_loss(step, 2, 3)(rows, inputs.view(1, 1, 3, 1), None)
    assert seen == [[1.0, 1.0], [1.0, 2.5], [2.5, 3.75]]
    assert loss.item() == pytest.approx((2.5**2 + 3.75**2 + 10.25**2) / 3)


def test_noise_falls_on_the_start_alone_and_is_the_same_for_the_same_update():
    batches = UnrolledBatches(torch.zeros(4000, 2, 1), 1, 4000, [3], noise=0.1)
    rows = [batches(update)[0][0] for update in (0, 0, 1)]
    assert torch.equal(rows[0], rows[1])
    assert not torch.equal(rows[0], rows[2])
    assert not rows[0][:, 1].any()
    # known to 1 / sqrt(8000) of itself
    assert rows[0][:, 0].std().item() == pytest.approx(0.1, rel=0.05)


def test_weights_count():
    model, examples = lens(), draw(4, 2, 3)
    weighted = alone(increments(model), 1, examples, torch.tensor([[0.0, 1.0, 0.0, 0.0]]))
    assert torch.allclose(weighted, alone(increments(model), 1, examples[1:2]))


def test_the_loss_of_an_ensemble_is_that_of_each_member():
    first, second = draw(5, 4, 3), draw(5, 4, 3, seed=1)
    step = lambda past, _: 0.9 * past[-1]  # noqa: E731
    both = unrolled_loss(step, 1, 3, growing=True)(torch.stack((first, second)), None, None)
    each = [alone(step, 3, rows, growing=True) for rows in (first, second)]
    assert torch.allclose(both, torch.stack(each))
    assert not torch.allclose(each[0], alone(step, 3, first))


def test_unrolled_training_learns_a_rotation_that_lasts():
    angle = torch.tensor(0.3)
    turn = torch.stack([torch.stack([angle.cos(), -angle.sin()]), torch.stack([angle.sin(), angle.cos()])])
    states = [draw(64, 2)]
    for _ in range(4):
        states.append(states[-1] @ turn.T)
    model = nn.Linear(2, 2, bias=False)
    step = lambda past, _: model(past[-1])  # noqa: E731
    trainer = trained(model, step, torch.stack(states, 1), 4, epochs=60, size=16, rate=3e-2)
    losses = [trainer.advance(4).item() for _ in range(60)]
    assert trainer.done == 240
    assert losses[-1] < 1e-6 < losses[0]
    assert torch.allclose(model.weight, turn, atol=1e-3)


def test_a_field_network_is_trained_too():
    model = FieldLensNetwork(1, 1, width=4, depth=2, basis=4, kernel=3, blocks=1)
    step = lambda past, _: past[-1] + model(past[-1])  # noqa: E731
    trainer = trained(model, step, draw(6, 3, 8, 1), 2, epochs=3, size=3, rate=1e-2)
    losses = [trainer.advance(2).item() for _ in range(3)]
    assert losses[-1] < losses[0]


def test_training_continues_to_the_same_result():
    examples = draw(5, 3, 3)

    def training(model):
        return trained(model, increments(model), examples, 2, epochs=4, size=2, rate=1e-2, noise=0.1, clip=1.0)

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


def test_noise_is_not_negative():
    with pytest.raises(InputError, match="noise must not be negative"):
        FieldOptions(noise=-0.1)
