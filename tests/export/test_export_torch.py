import gc
import subprocess
import sys

import numpy as np
import pytest
import torch
from exported import OPTIONS, bar, probe_of, surrogate_of
from exported_fields import FIELDS, field_bar, field_of

from lln.export.torch import export_torch
from lln.step.step import DenseStep


@pytest.mark.parametrize("option", ["inputs and history", "no network", "zero angle", "paper", "residual-batchnorm"])
def test_the_step_survives(option, tmp_path):
    surrogate = surrogate_of(**OPTIONS[option])
    told = export_torch(surrogate, tmp_path / "step.pt2")
    assert told.export <= bar(told, surrogate)


def test_a_model_switched_off_needs_no_network(tmp_path):
    plain, network = surrogate_of(network=False, linear=False), surrogate_of()
    plain.frame.gain[:] = 0.0
    told = export_torch(DenseStep(plain.frame, network.members), tmp_path / "step.pt2")
    assert told.export == 0.0


@pytest.mark.filterwarnings("ignore")
def test_any_batch_and_no_lln_to_run_it(tmp_path):
    surrogate = surrogate_of()
    export_torch(surrogate, tmp_path / "step.pt2")
    window = torch.from_numpy(probe_of("burgers-32", surrogate, 1).window)
    step = torch.export.load(tmp_path / "step.pt2").module()
    truth = surrogate.rollout(window.numpy(), 1)[:, 0]
    for batch in (1, 3, 4):
        np.testing.assert_allclose(step(window=window[:batch]).numpy(), truth[:batch], rtol=0, atol=1e-9)
    script = "import sys, torch; torch.export.load(sys.argv[1]).module(); assert 'lln' not in sys.modules"
    words = [sys.executable, "-W", "ignore", "-c", script, str(tmp_path / "step.pt2")]
    subprocess.run(words, check=True, cwd=tmp_path)


@pytest.mark.parametrize("name", ["two channels and history", "plane, flux", "walls", "inputs", "fixed field"])
def test_fields(name, tmp_path):
    surrogate = field_of(**FIELDS[name])
    told = export_torch(surrogate, tmp_path / "step.pt2")
    assert told.export <= field_bar(told, surrogate)


def test_exports_leave_no_traced_shapes_behind(tmp_path):
    # torch's caches would keep the shapes of every program ever traced, about a thousand objects each.
    step = surrogate_of()

    def objects() -> int:
        export_torch(step, tmp_path / "step.pt2")
        gc.collect()
        return len(gc.get_objects())

    objects()
    before = objects()
    objects()
    after = objects()
    assert after - before < 2 * 500
