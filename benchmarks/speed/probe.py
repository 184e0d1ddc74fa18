"""Measurements that need a process of their own: peak memory of training, and the first call.

`python -m benchmarks.speed.probe NAME JSON` prints one JSON object.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch

from benchmarks.speed.contenders import NaiveNetwork, Trainer, batch, lens
from lln.models import LensNetwork
from tests.contracts.operator_cases import make_case, run

STATE = 3
_STATUS = Path("/proc/self/status")


def ask(probe: str, environment: Mapping[str, str] | None = None, **options: Any) -> dict[str, Any]:
    """What a fresh process answers."""
    words = [sys.executable, "-m", "benchmarks.speed.probe", probe, json.dumps(options)]
    env = {**os.environ, **(environment or {})}
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=env)
    if done.returncode:
        raise RuntimeError(f"the probe {probe} {options} failed: {done.stderr.strip().splitlines()[-1:]}")
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def memory_is_readable(device: str) -> bool:
    """Whether peak memory can be measured: always on a GPU, on a CPU where Linux tells it."""
    return device == "cuda" or (_STATUS.is_file() and os.access("/proc/self/clear_refs", os.W_OK))


def first_call(device: str) -> dict[str, float]:
    """Seconds of the first forward and backward of a process that has imported torch."""
    case = make_case(64, 128, 40, 12, spread=1.0, strength=0.02, device=device)
    start = time.perf_counter()
    results = run(case)
    float(results[-1].sum())
    return {"seconds": time.perf_counter() - start}


def training_memory(
    depth: int, width: int, rows: int, naive: bool, steps: int, threads: int, device: str
) -> dict[str, Any]:
    """Peak memory of training steps beyond parameters, gradients and the optimiser's state, and the losses.

    What is only paid once (imports, compiled kernels) is paid before: by a stack as deep with a few rows, in a
    thread whose scratch memory dies with it. Then memory that is free is given back, and the system's mark of the
    highest memory in use is reset.
    """
    torch.set_num_threads(1)
    # The whole stack is as strong as at D = 40, whatever its depth.
    network = lens(STATE, width, depth, device=device, lens_scale=40 / depth)
    call = NaiveNetwork(network).to(device) if naive else network
    train = Trainer(network, call, batch(rows, STATE, device=device), rate=1e-3)
    with ThreadPoolExecutor(1) as aside:
        aside.submit(_warm, network, naive, rows, device).result()
    train.prepare()
    torch.set_num_threads(threads)
    base = _reset(device)
    losses = [float(train()) for _ in range(steps)]
    gradients = sum(p.numel() * p.element_size() for p in network.parameters())
    return {"mib": (_peak(device) - base - gradients) / 2**20, "losses": losses}


def fit(name: str, rows: int, size: int) -> dict[str, Any]:
    """Processor seconds of a fit with default options, and its peak memory beyond the data and the imports."""
    from benchmarks.speed.fits import fit_data
    from lln import LensForecaster

    states, dt = fit_data(name, rows, size)
    base = _reset("cpu") if memory_is_readable("cpu") else 0
    start = time.process_time()  # on one thread
    report = LensForecaster().fit(states, dt=dt).report_
    seconds = time.process_time() - start
    mib = (_peak("cpu") - base) / 2**20 if base else 0.0
    return {"seconds": seconds, "mib": mib, "error": report.held_out_nmse, "part": report.part}


def _warm(network: LensNetwork, naive: bool, rows: int, device: str) -> None:
    small = lens(STATE, network.width, 2, device=device)
    Trainer(small, NaiveNetwork(small).to(device) if naive else small, batch(rows, STATE, device=device))()
    if not naive:
        x = batch(4, STATE, device=device)
        torch.autograd.grad(network(x).sum(), network.coefficients)


def _reset(device: str) -> int:
    """Give free memory back and start to look for the highest use from here; bytes in use now."""
    gc.collect()
    if device == "cuda":
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        return torch.cuda.memory_allocated()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc's; others have none and keep less
    if trim is not None:
        trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    return _status("VmRSS")


def _peak(device: str) -> int:
    return torch.cuda.max_memory_allocated() if device == "cuda" else _status("VmHWM")


def _status(field: str) -> int:
    """A line of the process's status, in bytes."""
    line = next(line for line in _STATUS.read_text().splitlines() if line.startswith(field))
    return int(line.split()[1]) * 1024


if __name__ == "__main__":
    probes: dict[str, Callable[..., dict[str, Any]]] = {
        "first-call": first_call,
        "training-memory": training_memory,
        "fit": fit,
    }
    print(json.dumps(probes[sys.argv[1]](**json.loads(sys.argv[2]))))
