import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from forecasters import lorenz

from lln import load

SUPPORT = str(Path(__file__).parents[1] / "support")

SCRIPT = """
import os, signal, sys
sys.path.insert(0, sys.argv[3])
from forecasters import LONG, lorenz
from lln import LensForecaster

left = int(sys.argv[2])

def progress(event):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)

folder = sys.argv[1]
forecaster = LensForecaster(**LONG).fit(lorenz(500), dt=0.01, progress=progress, checkpoint=folder + "/job.partial")
forecaster.save(folder + "/model.lln")
"""


def run(folder, events):
    folder.mkdir(exist_ok=True)
    command = [sys.executable, "-c", SCRIPT, str(folder), str(events), SUPPORT]
    # One thread: fits on a busy machine spend their time waiting for each other's threads.
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})


@pytest.mark.slow
def test_killed_and_resumed_predicts_the_same_bits(tmp_path):
    done = run(tmp_path / "whole", -1)
    assert done.returncode == 0, done.stderr
    whole, start = load(tmp_path / "whole" / "model.lln"), lorenz(500)[:1]
    assert whole.report_.correction_weight > 0
    for events in (3, 12):
        folder = tmp_path / str(events)
        killed = run(folder, events)
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        assert [entry.name for entry in folder.iterdir()] == ["job.partial"]
        again = run(folder, -1)
        assert again.returncode == 0, again.stderr
        assert [entry.name for entry in folder.iterdir()] == ["model.lln"]
        resumed = load(folder / "model.lln")
        np.testing.assert_array_equal(resumed.rollout(start, 200).states, whole.rollout(start, 200).states)
        np.testing.assert_array_equal(resumed.surrogate_.frame.gain, whole.surrogate_.frame.gain)
