import dataclasses

import numpy as np
import pytest

from lln.data.read.formats import as_dataset
from lln.fit.choice.holdout import folds
from lln.fit.fields.data import empty_frame, grid_of
from lln.fit.fields.judge import BEYOND, FieldJudge
from lln.step.field import FieldStep


def waves(count=10, points=16, steps=20):
    x = 2 * np.pi * np.arange(points) / points
    return [np.stack([np.sin(x - 0.05 * k + start) for k in range(steps)]) for start in range(count)]


def judged(growth):
    """A step that multiplies the field by 1 + growth, judged on still waves."""
    data = as_dataset(waves(), grid=(16,), dt=1.0)
    fold = folds(data, 0.2)[-1]
    frame = empty_frame(data.select(fold.train), grid_of(data, "periodic"), 1, "none")
    step = FieldStep(dataclasses.replace(frame, matrix=np.array([[growth]])))
    return FieldJudge(data, fold).stay(step), fold


@pytest.mark.parametrize(("growth", "stays"), [(0.0, True), (-0.1, True), (0.005, True), (0.02, False), (1e3, False)])
def test_long_rollouts_find_growth_that_short_ones_do_not_show(growth, stays):
    found, fold = judged(growth)
    assert found.steps == BEYOND * 20 > fold.steps
    assert found.starts == 12
    # twice the largest value of the data: 1.005^80 = 1.5 stays, 1.02^80 = 4.9 does not
    assert found.left == (0 if stays else found.starts)
    assert found.bounded is stays


def test_inputs_have_no_known_future():
    data = as_dataset(waves(), grid=(16,), dt=1.0, inputs=[np.zeros((20, 1)) for _ in range(10)])
    fold = folds(data, 0.2)[-1]
    frame = empty_frame(data, grid_of(data, "periodic"), 1, "none")
    growing = dataclasses.replace(frame, kernel=(1,), matrix=np.array([[1e3, 0.0]]))
    assert FieldJudge(data, fold).stay(FieldStep(growing)).bounded


def test_few_rollouts_of_large_fields_give_a_first_look():
    rng, x = np.random.default_rng(0), 2 * np.pi * np.arange(64) / 64
    runs = [
        np.stack([np.sin(x - 0.05 * k + phase)[:, None] * np.cos(x + phase) for k in range(20)]).reshape(20, -1)
        for phase in rng.uniform(0, 6, size=10)
    ]
    for data, large in ((as_dataset(runs, grid=(64, 64), dt=1.0), True), (as_dataset(waves(), grid=(16,)), False)):
        fold = folds(data, 0.2)[-1]
        judge, frame = FieldJudge(data, fold), empty_frame(data, grid_of(data, "periodic"), 1, "none")
        step = FieldStep(frame)
        rough, error = judge.rough(step), judge.error(step)
        assert (rough != error) is large
        assert rough == pytest.approx(error, abs=0.1)
        assert judge.error(step, rough) == error  # computed again where the first look did not see all
        assert judge.stay(step).starts == (4 if large else 12)
