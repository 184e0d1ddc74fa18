"""A fit whose pieces run on a Dask cluster gives the same model file as a fit without."""

from dataclasses import replace

import numpy as np
import pytest
from forecasters import lorenz

from lln.core.errors import InputError
from lln.forecaster.forecaster import LensForecaster

distributed = pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("dask"))
    options = {"threads_per_worker": 1, "dashboard_address": None, "local_directory": folder}
    with distributed.LocalCluster(2, **options) as running:
        yield running


def wave(points=16, times=60):
    """A travelling wave on a ring: a field."""
    place, time = np.arange(points) * 2 * np.pi / points, 0.1 * np.arange(times)[:, None]
    return np.sin(place - time) + 0.3 * np.cos(2 * (place - time))


def saved(path, states, scheduler, grid=None, **options):
    """The bytes of the model file, without the seconds that the fit took."""
    forecaster = LensForecaster(**options).fit(states, dt=0.01, grid=grid, scheduler=scheduler)
    forecaster.report_ = replace(forecaster.report_, seconds=0.0)
    forecaster.save(path)
    return path.read_bytes()


def assert_same_file(cluster, folder, states, **options):
    here = saved(folder / "here.lln", states, None, **options)
    ran = len(tasks(cluster))
    there = saved(folder / "there.lln", states, cluster.scheduler_address, **options)
    assert len(tasks(cluster)) > ran, "nothing ran on the cluster"
    assert there == here


def tasks(cluster):
    """Everything that the workers have computed so far."""
    with distributed.Client(cluster, set_as_default=False) as client:
        return client.run_on_scheduler(_computed)


def _computed(dask_scheduler):
    return [entry for prefix in dask_scheduler.task_prefixes.values() for entry in range(prefix.state_counts["memory"])]


def test_no_scheduler_answers(monkeypatch):
    monkeypatch.setattr("lln.core.workers.dask._CONNECT_SECONDS", 0.3)
    with pytest.raises(InputError, match=r"no Dask scheduler answers at 'tcp://127\.0\.0\.1:9'"):
        LensForecaster().fit(lorenz(300), dt=0.01, scheduler="tcp://127.0.0.1:9")


@pytest.mark.slow
def test_closed_forms(cluster, tmp_path):
    assert_same_file(cluster, tmp_path, lorenz(400), parts=("linear", "lens"))


@pytest.mark.slow
def test_networks(cluster, tmp_path):
    assert_same_file(cluster, tmp_path, lorenz(400), parts=("linear", "network"), epochs=3, members=2, width=8, depth=2)


@pytest.mark.slow
def test_fields(cluster, tmp_path):
    assert_same_file(cluster, tmp_path, wave(), grid=[np.arange(16.0)], field=True, epochs=1, members=1)
