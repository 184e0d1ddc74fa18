import os
import socket
import subprocess
import sys

import pytest

PROGRAM = """
import sys
import numpy as np
import torch
from lln.data.series import Dataset, Series
from lln.fit.fields.data import empty_frame, grid_of
from lln.fit.fields.training import FieldOptions, FieldTrainer, TrainingPlan
from lln.fit.options import Phase, Recipe
from lln.train.loop import Checkpoint
from lln.train.loop import processes, rank

torch.set_num_threads(1)
x = 2 * np.pi * np.arange(16) / 16
moves = lambda s, k: np.sin(x - 0.1 * k + s) + 0.3 * np.cos(2 * x - 0.3 * k)
series = [Series(np.stack([moves(s, k) for k in range(12)])) for s in range(4)]
data = Dataset(tuple(series), dt=1.0, space=(16,), coords={"x": x})
frame = empty_frame(data, grid_of(data, "periodic"), 1, "none")
frame.gain[:] = 0.1
recipe = Recipe(members=1, width=8, depth=2, basis=4, batch_size=8)
losses = []
trainer = FieldTrainer(
    data, recipe, FieldOptions(kernel=3, blocks=1), lambda e: losses.append(e.message), Checkpoint(None, "")
)
ensemble = trainer.ensemble(frame, 1)
trainer.train(ensemble, frame, TrainingPlan(Phase.TRAINING, "training", 1, 50, 1e-2))
total = sum(float(p.double().abs().sum()) for p in ensemble.parameters())
print("rank", rank(), "of", processes(), losses[-1].split()[-1], f"{total:.6f}", flush=True)
"""


def run(processes, tmp_path):
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}
    start = ["-m", "torch.distributed.run", f"--nproc-per-node={processes}", f"--master-port={port}"]
    words = [sys.executable, *start, "--master-addr=127.0.0.1", str(script)]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    rows = [line.split() for line in done.stdout.splitlines() if line.startswith("rank")]
    return {int(row[1]): (int(row[3]), float(row[4]), float(row[5])) for row in rows}


@pytest.mark.slow
def test_two_processes_train_a_field_to_the_same_loss(tmp_path):
    alone, pair = run(1, tmp_path), run(2, tmp_path)
    assert alone[0][0] == 1
    assert [pair[k][0] for k in (0, 1)] == [2, 2]
    # both processes hold the same network
    assert pair[0][1:] == pair[1][1:]
    # the batch is the same, split in two: only the rounding of sums differs over 50 updates
    assert pair[0][1] == pytest.approx(alone[0][1], rel=0.02)
    assert pair[0][2] == pytest.approx(alone[0][2], rel=1e-3)
