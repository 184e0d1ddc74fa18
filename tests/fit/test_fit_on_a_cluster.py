"""A fit whose pieces run on a Dask cluster gives the same model file as a fit without."""

import os
import pickle
import signal
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from forecasters import lorenz

from lln.core.errors import InputError
from lln.data.series import Dataset, Series
from lln.fit.fitter import fit_surrogate
from lln.fit.options import Recipe
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


def fitted(states, scheduler, grid=None, checkpoint=None, **options):
    return LensForecaster(**options).fit(states, dt=0.01, grid=grid, scheduler=scheduler, checkpoint=checkpoint)


def saved(path, states, scheduler, **options):
    """The bytes of the model file, without the seconds that the fit took."""
    forecaster = fitted(states, scheduler, **options)
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
    monkeypatch.setattr("lln.core.workers._CONNECT_SECONDS", 0.3)
    with pytest.raises(InputError, match=r"no Dask scheduler answers at 'tcp://127\.0\.0\.1:9'"):
        LensForecaster().fit(lorenz(300), dt=0.01, scheduler="tcp://127.0.0.1:9")


def test_workers_that_were_sent_the_data_once_find_the_same():
    """A worker keeps what it was sent first, whatever becomes of it here."""
    sent = {}

    def once(function, shared, items):
        there = sent.setdefault(id(shared), (shared, pickle.loads(pickle.dumps(shared))))[1]
        return (function(there, item) for item in list(items))

    data, recipe = Dataset((Series(lorenz(400)),), dt=0.01), Recipe(parts=("linear", "lens"))
    here, there = fit_surrogate(data, recipe), fit_surrogate(data, recipe, mapper=once)
    assert there.report.held_out_nmse == here.report.held_out_nmse
    assert there.report.candidates == here.report.candidates


@pytest.mark.slow
def test_closed_forms(cluster, tmp_path):
    assert_same_file(cluster, tmp_path, lorenz(400), parts=("linear", "lens"))


@pytest.mark.slow
def test_networks(cluster, tmp_path):
    assert_same_file(cluster, tmp_path, lorenz(400), parts=("linear", "network"), epochs=3, members=2, width=8, depth=2)


@pytest.mark.slow
def test_fields(cluster, tmp_path):
    assert_same_file(cluster, tmp_path, wave(), grid=[np.arange(16.0)], field=True, epochs=1, members=1)


KILLED = """
import os, signal, sys
from forecasters import lorenz
from lln import LensForecaster

partial, scheduler = sys.argv[1:]

def progress(event):
    if os.path.exists(partial):
        os.kill(os.getpid(), signal.SIGKILL)

LensForecaster(**OPTIONS).fit(lorenz(400), dt=0.01, progress=progress, checkpoint=partial, scheduler=scheduler)
"""


@pytest.mark.slow
def test_killed_on_a_cluster_and_resumed_gives_the_same_model(cluster, tmp_path):
    options = {"parts": ("linear", "network"), "epochs": 6, "members": 2, "width": 8, "depth": 2}
    whole = fitted(lorenz(400), None, **options)
    script = KILLED.replace("OPTIONS", repr(options))
    partial = tmp_path / "job.partial"
    command = [sys.executable, "-c", script, str(partial), cluster.scheduler_address]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    killed = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert partial.exists()
    ran = len(tasks(cluster))
    resumed = fitted(lorenz(400), cluster.scheduler_address, checkpoint=partial, **options)
    assert len(tasks(cluster)) > ran, "nothing was left to compute"
    assert not partial.exists()
    here, there = whole.surrogate_.arrays(), resumed.surrogate_.arrays()
    assert here.keys() == there.keys()
    for name, values in here.items():
        np.testing.assert_array_equal(there[name], values, err_msg=name)
    assert resumed.report_.candidates == whole.report_.candidates
