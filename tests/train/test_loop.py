import time

import pytest
import torch
from torch import nn

from lln.train.loop import REPORT_EVERY, Checkpoint, Schedule, Trainer


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def trainer(schedule, *, seconds_each=0.0, seed=0):
    model = nn.Linear(3, 1)
    with torch.no_grad():
        model.weight.copy_(draw(1, 3, seed=seed))
        model.bias.zero_()

    def batch(update):
        if seconds_each:
            time.sleep(seconds_each)
        x = draw(8, 3, seed=update + 1)
        return x, x.sum(dim=1, keepdim=True)

    return Trainer(model, batch, lambda x, y: (model(x) - y).square().mean(), schedule)


def test_snapshots_are_taken_at_their_fraction_of_the_schedule():
    made = trainer(Schedule(100, 0.05, stops=(0.4, 1.0)))
    made.advance(40)
    assert len(made.snapshots) == 1
    assert torch.equal(made.snapshots[0]["weight"], made.model.weight)
    made.advance(60)
    assert len(made.snapshots) == 2
    assert not torch.equal(made.snapshots[0]["weight"], made.snapshots[1]["weight"])
    assert torch.equal(made.snapshots[1]["weight"], made.model.weight)


def test_a_time_limit_is_kept_and_the_schedule_still_runs_down():
    made = trainer(Schedule(10_000, 0.05, stops=(0.5, 1.0), seconds=0.5), seconds_each=2e-3)
    began = time.monotonic()
    made.run()
    assert time.monotonic() - began < 0.5 * 1.1 + REPORT_EVERY * 2.5e-3
    assert 10 <= made.done == made.updates < 300
    assert len(made.snapshots) == 2
    assert made.update.optimizer.param_groups[0]["lr"] < 0.02  # far down the cosine


def test_without_a_limit_every_update_is_made():
    made = trainer(Schedule(60, 0.05))
    heard = []
    made.run(progress=lambda done, total, loss: heard.append((done, total, loss)))
    assert [(done, total) for done, total, _ in heard] == [(25, 60), (50, 60), (60, 60)]
    assert heard[-1][2] < heard[0][2]


@pytest.mark.parametrize("stop", [30, 60])
def test_a_checkpoint_leads_to_the_same_end(tmp_path, stop):
    whole = trainer(Schedule(80, 0.05, stops=(0.5, 1.0)))
    whole.run()
    first = trainer(Schedule(80, 0.05, stops=(0.5, 1.0)))
    first.advance(stop)
    store = Checkpoint(tmp_path / "c", "job")
    store.put("phase", *first.state())
    again = trainer(Schedule(80, 0.05, stops=(0.5, 1.0)), seed=7)
    again.run(Checkpoint(tmp_path / "c", "job"), "phase")
    assert again.done == 80
    assert torch.equal(again.model.weight, whole.model.weight)
    assert [torch.equal(a["weight"], b["weight"]) for a, b in zip(again.snapshots, whole.snapshots, strict=True)] == [
        True,
        True,
    ]
    assert torch.equal(again.last, whole.last)


def test_a_finished_checkpoint_needs_no_update():
    store = Checkpoint(None, "job")
    made = trainer(Schedule(30, 0.05))
    made.run(store, "phase")
    heard = []
    again = trainer(Schedule(30, 0.05), seed=3)
    again.run(store, "phase", lambda *event: heard.append(event))
    assert heard == []
    assert torch.equal(again.model.weight, made.model.weight)


def test_a_loss_that_needs_no_gradient_anywhere_leaves_the_mode_of_the_model():
    made = trainer(Schedule(5, 0.05))
    made.model.eval()
    made.advance(5)
    assert not made.model.training
