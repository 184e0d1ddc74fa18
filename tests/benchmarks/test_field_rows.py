import torch

from benchmarks.speed.field import CASES, NaiveField, _network, field
from benchmarks.speed.setting import Setting
from benchmarks.speed.timing import threads


def test_the_naive_field_computes_the_same():
    for shape, channels, options in CASES:
        network = _network(len(shape) - 1, channels, {**options, "width": 5})
        x = torch.randn(2, *[6] * (len(shape) - 1), channels)
        if len(shape) == 2:
            x = torch.randn(2, 12, channels)
        assert torch.allclose(network(x), NaiveField(network)(x), atol=1e-5)


def test_fused_field_training_is_ten_times_as_fast_as_naive():
    with threads(1):
        rows = field(Setting(quick=True))
    assert [row.contender for row in rows] == ["naive", "lens"]
    assert rows[0].minimum > 10 * rows[1].minimum
