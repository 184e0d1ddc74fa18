import time

import pytest
import torch

from benchmarks.speed.sweeps import slope
from benchmarks.speed.timing import Times, race, threads


def work(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


def test_contenders_take_turns():
    order = []
    contenders = {"slow": lambda: (order.append("slow"), work(0.005)), "also": lambda: order.append("also")}
    times = race(contenders, seconds=0.05, least=4)
    rounds = len(times["slow"].seconds)
    assert rounds >= 4
    assert times["slow"].minimum >= 0.005
    assert times["also"].minimum < 0.001
    turns = [name for name, before in zip(order[1:], order, strict=False) if name != before]
    assert turns == ["also", "slow"] * rounds + ["also"]


def test_what_other_programs_take_does_not_count():
    times = race({"waits": lambda: (work(0.002), time.sleep(0.02))}, seconds=0.001, least=3)
    assert times["waits"].minimum < 0.01


def test_a_long_race_ends_after_three_rounds():
    times = race({"slow": lambda: work(0.01)}, seconds=0.001, least=5)
    assert len(times["slow"].seconds) == 3


def test_quantiles():
    times = Times(tuple(float(k) for k in range(11)))
    assert (times.quantile(0.2), times.quantile(0.5), times.quantile(0.8), times.minimum) == (2.0, 5.0, 8.0, 0.0)


def test_threads_come_back_after_an_error():
    before = torch.get_num_threads()

    def interrupted():
        with threads(1):
            assert torch.get_num_threads() == 1
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert torch.get_num_threads() == before


def test_slope_of_a_power_law():
    assert slope({n: 3.0 * n**1.5 for n in (1, 10, 70)}) == pytest.approx(1.5)
