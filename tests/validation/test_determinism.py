import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_limits

import lln
from lln.train.ensemble import Shape, make_ensemble
from lln.train.loop import Update, UpdateOptions

SMALL = {"width": 8, "depth": 2, "basis": 6, "members": 2, "epochs": 2, "unroll": 0, "history": 1}


@pytest.fixture
def threads():
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


def swing(seed=0, rows=160):
    t = 0.1 * np.arange(rows) + seed
    return np.stack([np.cos(t), np.sin(t) + 0.2 * np.cos(2 * t) ** 2], axis=1)


def bits(seed=0, **options):
    """Everything that a small fit learned, and where it leads."""
    made = lln.LensForecaster(**{**SMALL, **options}, random_state=seed).fit(swing(seed), dt=0.1)
    learned = [
        tensor.numpy().tobytes() for member in made.surrogate_.members for tensor in member.state_dict().values()
    ]
    return b"".join(learned) + made.rollout(steps=40).array.tobytes()


@pytest.mark.parametrize("backend", ["cpu", "eager", "reference"])
def test_rollouts_of_every_backend_for_any_number_of_threads(backend, threads):
    net = lln.LensNetwork(3, 3, width=200, depth=4, basis=8, generator=torch.Generator().manual_seed(0))
    net.backend = backend
    x, found = torch.randn(64, 3, generator=torch.Generator().manual_seed(1)), set()
    for count in (1, 2, 4, 1):
        threads(count)
        found.add(net.rollout(x, 30, increments=True).numpy().tobytes())
    assert len(found) == 1


# With more rays the eigenvectors behind the readout of a trained network, which are torch's, round by this number.
@pytest.mark.parametrize("width", [8, 64])
def test_a_dense_fit_for_any_number_of_threads(width, threads):
    found = set()
    for count in (1, 2, 4, 1):
        threads(count)
        found.add(bits(width=width))
    assert len(found) == 1


def test_a_fit_in_closed_form_for_any_number_of_threads(threads):
    found, states = set(), lln.simulate(lln.preset("lorenz-28"), 500, dtype="float64").states
    for count in (1, 2, 4):
        threads(count)
        with threadpool_limits(count, user_api="blas"):
            made = lln.LensForecaster(parts=("linear", "lens")).fit(states, dt=0.01)
        assert made.surrogate_.members[0].width > 256
        found.add(made.rollout(steps=40).array.tobytes())
    assert len(found) == 1


@pytest.mark.parametrize("model", ["lens", "mlp"])
def test_a_wide_update_repeats_for_the_same_number_of_threads(model, threads):
    sizes = {"width": 256, "depth": 3, **({"basis": 6} if model == "lens" else {})}
    x, y = torch.randn(2, 256, 12), torch.randn(2, 256, 12)
    for count in (1, 2):
        threads(count)
        found = set()
        for _ in range(3):
            ensemble = make_ensemble(Shape(model, sizes, 12, 12), [0, 1], "cpu")
            step = Update(
                ensemble, lambda a, b, m=ensemble: (m(a) - b).square().mean(dim=(1, 2)), UpdateOptions(members=True)
            )
            for _ in range(3):
                step((x, y), 1e-3)
            found.add(b"".join(tensor.numpy().tobytes() for tensor in ensemble.state_dict().values()))
        assert len(found) == 1


def test_two_fits_in_two_threads_are_what_each_is_alone():
    alone, found = [bits(0), bits(1)], {}
    at_once = [threading.Thread(target=lambda s=seed: found.__setitem__(s, bits(s))) for seed in (0, 1)]
    for thread in at_once:
        thread.start()
    for thread in at_once:
        thread.join()
    assert [found[0], found[1]] == alone


PROCESSES = """
import hashlib, multiprocessing, sys
import torch
import lln
from test_determinism import bits

def short(seed):
    return hashlib.sha256(bits(seed)).hexdigest()

if __name__ == "__main__":
    torch.set_num_threads(2)
    # Threads of OpenMP and of the kernels are there before the workers are made.
    wide = lln.LensNetwork(8, 8, width=256, depth=10, basis=8)
    wide(torch.randn(512, 8)).sum().backward()
    (torch.randn(600, 600) @ torch.randn(600, 600)).sum()
    alone = [short(0), short(1)]
    with multiprocessing.get_context(sys.argv[1]).Pool(2) as pool:
        assert pool.map_async(short, [0, 1]).get(400) == alone
    print("same")
"""


@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
def test_two_fits_in_two_processes_are_what_each_is_alone(method, tmp_path):
    script = tmp_path / "processes.py"
    script.write_text(PROCESSES)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}
    words = [sys.executable, "-W", "ignore", str(script), method]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert (done.returncode, done.stdout) == (0, "same\n"), done.stderr
