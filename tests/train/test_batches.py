from functools import partial

import numpy as np
import torch

from lln.data.series import Dataset, Series
from lln.data.stream import pairs
from lln.fit.closed.linear import units_of_pairs
from lln.fit.prepare import residuals
from lln.train.batches import InMemoryBatches, StreamedBatches


def waves(rows):
    t = 0.05 * np.arange(rows)
    return np.stack([np.sin(t), np.cos(1.3 * t), np.sin(0.7 * t + 1)], axis=1)


def test_batches_depend_on_the_update_alone_and_cover_an_epoch():
    rows = InMemoryBatches(np.arange(10.0)[:, None], np.zeros((10, 1)), None, "cpu")
    first = [rows.batch(update, 3, [5, 6])[0] for update in range(4)]
    again = InMemoryBatches(np.arange(10.0)[:, None], np.zeros((10, 1)), None, "cpu")
    assert torch.equal(again.batch(3, 3, [5, 6])[0], first[3])
    epoch = torch.cat(first[:3], dim=1)
    assert epoch.shape == (2, 9, 1)
    assert all(len(set(member.flatten().tolist())) == 9 for member in epoch)
    assert not torch.equal(epoch[0], epoch[1])


def test_a_stream_gives_the_same_batches_wherever_it_is_taken_up(monkeypatch):
    monkeypatch.setattr("lln.train.batches.BLOCK_ROWS", 1024)
    data = Dataset((Series(waves(3000)),))
    frame = units_of_pairs(pairs(data, 1)).frame(gain=np.ones(3))
    stream = StreamedBatches(data, 1, frame.features, partial(residuals, frame), "cpu", 0)
    whole = [stream.batch(update, 256, [1])[0] for update in range(14)]
    other = StreamedBatches(data, 1, frame.features, partial(residuals, frame), "cpu", 0)
    for update in (13, 2, 9):
        assert torch.equal(other.batch(update, 256, [1])[0], whole[update])
    features, targets = residuals(frame, pairs(data, 1))
    known = {tuple(row) for row in np.round(features.astype(np.float32), 5).tolist()}
    assert {tuple(row) for row in np.round(whole[5][0].numpy(), 5).tolist()} <= known
    assert np.isfinite(targets).all()
