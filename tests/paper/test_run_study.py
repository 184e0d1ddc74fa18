import math
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest
import torch

from lln.core.errors import InputError
from lln.core.workers import LocalPool, call
from lln.models import build
from lln.paper.expand import RunSpec, expand
from lln.paper.records import Record, RecordStore, read_blocks, read_records, read_times
from lln.paper.reproduce import confirmations, longest_first, lowest, mean_score, run_study
from lln.paper.run import execute, lens_network, linear_map, problem_of
from lln.paper.spec import Confirm, paper_studies
from lln.paper.training import loader_order

SMOKE = paper_studies("smoke")


class Inline:
    """Works in this process."""

    running = 0

    def close(self):
        pass

    def run(self, function, tasks):
        for task in tasks:
            yield call(function, task)


def pick(runs, **wanted):
    return next(r for r in runs if all(r.content.get(key) == value for key, value in wanted.items()))


def by_hand(model, x, y, recipe, source):
    """The paper's loop for one network, written out."""
    kind = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[recipe["optimizer"]]
    optimizer = kind(model.parameters(), lr=recipe["learning_rate"], weight_decay=recipe["weight_decay"])
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(
        optimizer, recipe["epochs"], eta_min=0.1 * recipe["learning_rate"]
    )
    for _ in range(recipe["epochs"]):
        losses = 0.0
        for batch in loader_order(len(x), source).split(recipe["batch_size"]):
            optimizer.zero_grad()
            loss = (model(x[batch]) - y[batch]).square().mean()
            loss.backward()
            if recipe["clip"]:
                torch.nn.utils.clip_grad_norm_(model.parameters(), recipe["clip"])
            optimizer.step()
            losses += loss.item() * len(batch)
        if recipe["schedule"] == "cosine-to-tenth":
            schedule.step()
    return losses / len(x)


@pytest.mark.parametrize(("system", "model"), [("lorenz-24", "mlp"), ("advecdiff-32", "mlp"), ("lorenz-24", "lens")])
def test_a_rollout_run_is_what_the_parts_give_one_by_one(system, model):
    run = pick(expand(SMOKE["SMOKE"]), system=system, model=model)
    spec = {**run.content, "dtype": "float64"}
    result = execute(spec)
    problem = problem_of(spec)
    x, y = torch.from_numpy(problem.inputs), torch.from_numpy(problem.targets)
    for index, seed in enumerate(spec["seeds"]):
        source = torch.Generator().manual_seed(seed)
        if model == "lens":
            network = lens_network(3, 3, spec["options"], source).double()
        else:
            network = build(model, x.shape[1], x.shape[1], generator=source, **spec["options"]).double()
        loss = by_hand(network, x, y, spec["recipe"], source)
        state, errors = torch.from_numpy(problem.starts[0]), []
        with torch.no_grad():
            for truth in problem.truths[0]:
                state = network(state)
                errors.append(np.mean((state.numpy() - truth) ** 2))
            ahead = network(torch.from_numpy(problem.test_inputs)).numpy()
        assert result["mse"][index] == pytest.approx(np.mean(errors), rel=1e-9)
        assert result["loss"][index] == pytest.approx(loss, rel=1e-9)
        assert result["one_step"][index] == pytest.approx(np.mean((ahead - problem.test_targets) ** 2), rel=1e-9)
    assert result["parameters"] == sum(p.numel() for p in network.parameters())
    assert result["diverged_at"] == [None, None]


def test_the_lens_network_of_the_paper_has_its_constants():
    options = {"depth": 2, "width": 4, "basis": 8, "range": 5.0, "sigma_factor": 4.0, "deviation": 0.05}
    network = lens_network(3, 3, options, torch.Generator().manual_seed(0))
    assert network.centers == pytest.approx(np.linspace(-5, 5, 8))
    assert network.sigma == pytest.approx(2.5)
    source = torch.Generator().manual_seed(0)
    for shape in ((4, 3), (4,), (4, 3), (4,)):
        torch.empty(shape).uniform_(generator=source)
    assert torch.allclose(network.coefficients, 0.05 * torch.randn(2, 4, 8, generator=source))


def test_test_pairs_follow_the_training_pairs():
    problem = problem_of(pick(expand(SMOKE["SMOKE"]), system="lorenz-24", model="mlp").content)
    assert problem.test_inputs.shape == (700, 3)
    assert np.array_equal(problem.test_inputs[0], problem.starts[0])
    assert np.array_equal(problem.test_inputs[1], problem.truths[0, 0])
    assert np.array_equal(problem.test_targets[:-1], problem.test_inputs[1:])


def test_the_training_mean_scores_the_spread_of_the_test_window():
    run = pick(expand(SMOKE["SMOKE"]), system="advecdiff-32", model="training-mean")
    problem = problem_of(run.content)
    assert execute(run.content)["mse"] == [pytest.approx(np.mean(problem.truths**2), rel=1e-12)]
    assert np.abs(problem.inputs.mean(axis=0)).max() < 1e-12
    assert problem.inputs.std(axis=0) == pytest.approx(np.ones(32))


def test_the_linear_map_recovers_an_affine_one():
    rng = np.random.default_rng(0)
    matrix, offset = 0.3 * rng.standard_normal((4, 4)), rng.standard_normal(4)
    x = rng.standard_normal((200, 4))
    found = linear_map(x, x + x @ matrix.T + offset)
    np.testing.assert_allclose(found[0], matrix, atol=1e-13)
    np.testing.assert_allclose(found[1], offset, atol=1e-13)


def test_windows_of_several_trajectories_come_trajectory_by_trajectory():
    runs = expand(SMOKE["SMOKE-MT"])
    run = pick(runs, model="training-mean")
    problem = problem_of(run.content)
    assert problem.inputs.shape == (2 * 64, 3)
    assert problem.truths.shape == (3 * 2, 10, 3)
    # The second window of a trajectory starts where its first one ends: ten steps later.
    assert np.array_equal(problem.truths[0, -1], problem.starts[1])
    assert np.array_equal(problem.truths[4, -1], problem.starts[5])
    assert not np.array_equal(problem.truths[1, -1], problem.starts[2])
    assert execute(run.content)["mse"] == [pytest.approx(list(np.mean(problem.truths**2, axis=(1, 2))))]
    trained = execute(pick(runs, model="lens").content)
    assert np.shape(trained["mse"]) == (2, 6)
    assert np.shape(trained["diverged_at"]) == (2, 6)


def test_divergence_is_a_result():
    run = pick(expand(SMOKE["SMOKE"]), system="lorenz-24", model="mlp")
    content = {**run.content, "model": "residual", "recipe": {**run.content["recipe"], "learning_rate": 1e4}}
    content["data"] = {**content["data"], "steps": 200}
    result = execute(content)
    assert result["mse"] == [math.inf, math.inf]
    assert all(1 <= step <= 200 for step in result["diverged_at"])
    assert '"mse":["inf","inf"]' in Record(content, result).line()


def test_a_curve_averages_to_the_score():
    run = pick(expand(SMOKE["SMOKE"]), system="advecdiff-32", model="lens")
    result = execute({**run.content, "curve": True})
    assert np.shape(result["curve"]) == (2, 20)
    assert np.mean(result["curve"], axis=1) == pytest.approx(result["mse"], rel=1e-8)
    assert "curve" not in execute(run.content)


def test_an_unknown_kind_of_run_is_refused():
    with pytest.raises(InputError, match="kind of run"):
        execute({"kind": "rolout"})


def scored(run, *mse):
    return Record(run.content, {"mse": list(mse)})


def test_the_lowest_mean_is_chosen_and_divergence_never_is():
    first, second, third = expand(SMOKE["SMOKE"])[:3]
    records = {
        run.digest: scored(run, *mse)
        for run, mse in ((first, (0.0, math.inf)), (second, (3.0, 2.0)), (third, (2.0, 2.0)))
    }
    assert mean_score(records[first.digest]) == math.inf
    assert lowest([first, second, third], records) is third
    assert lowest([first], {}) is first
    (again,) = confirmations([first, second, third], records, Confirm(seeds=(5, 6)))
    assert again.content == {**third.content, "seeds": [5, 6], "curve": True}
    assert again.role == "confirmation"


def test_a_study_runs_to_its_end_and_nothing_twice(tmp_path):
    study = SMOKE["SMOKE"]
    shown = []
    with RecordStore(tmp_path) as store:
        progress = run_study(study, store, Inline(), lambda p: shown.append(replace(p)))
        lines = (tmp_path / "records.jsonl").read_bytes()
        again = run_study(study, store, Inline())
        assert (tmp_path / "records.jsonl").read_bytes() == lines
    entries = read_blocks(tmp_path)["SMOKE"]
    records = read_records(tmp_path)
    assert {entry.digest for entry in entries} == set(records) == set(read_times(tmp_path))
    assert [entry.role for entry in entries].count("confirmation") == 4
    assert (progress.done, progress.failed, progress.total) == (len(records), 0, len(records))
    assert again.done == again.total == progress.total
    assert shown[-1].seconds_left == 0.0
    assert all(record.done for record in records.values())


def test_two_runs_on_workers_give_the_same_bytes_as_one_process(tmp_path):
    study = SMOKE["SMOKE"]
    for folder, pool in (("inline", Inline()), ("two", LocalPool(2))):
        with RecordStore(tmp_path / folder) as store, closing(pool):
            run_study(study, store, pool)
            store.settle()
    for name in ("records.jsonl", "blocks.json"):
        assert (tmp_path / "inline" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


class OneCrash(Inline):
    def run(self, function, tasks):
        for index, finished in enumerate(super().run(function, tasks)):
            yield replace(finished, value=None, error="MemoryError: too large") if index == 1 else finished


def test_a_crash_is_recorded_with_its_specification_and_the_study_goes_on(tmp_path):
    study = SMOKE["SMOKE-MT"]
    with RecordStore(tmp_path) as store:
        progress = run_study(study, store, OneCrash())
        assert (progress.done, progress.failed) == (2, 1)
        assert "MemoryError" in progress.errors[0]
        assert "lorenz-24" in progress.errors[0]
        (failed,) = [record for record in read_records(tmp_path).values() if not record.done]
        assert failed.error == "MemoryError: too large"
        assert failed.spec["system"] == "lorenz-24"
        assert run_study(study, store, Inline()).failed == 0
        store.settle()
    assert all(record.done for record in read_records(tmp_path).values())


def test_long_runs_go_first():
    runs = [RunSpec({**run.content}, run.role) for run in expand(SMOKE["SMOKE"])]
    costs = [run.cost for run in longest_first(runs)]
    assert costs == sorted(costs, reverse=True)
