import json
import os
import subprocess
import sys

import h5py
import numpy as np
import pytest
import zarr

N = 16
CHUNK = 20_000

# A hard limit (RLIMIT_DATA: heap and anonymous mappings) on top of what the libraries take once for themselves.
CHILD = """
import resource, sys
import numpy as np
path, out, scale, room, door = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5]
import h5py, zarr, torch, rich.console, lln.cli.fit
from lln.data import as_dataset, series, stream
from lln.data.interpret import interpret
from lln.data.read import store as lazy
from lln.train import batches
from lln.forecaster.forecaster import LensForecaster
lazy.LAZY_BYTES //= scale
for module in (series, stream):
    module.BLOCK_BYTES //= scale
batches.BLOCK_ROWS //= scale
interpret.TIMES //= scale
options = dict(members=1, width=8, depth=2, history=1, epochs=1, batch_size=10_000, validation=0.01)
warm = np.random.default_rng(0).standard_normal((600, 16)).cumsum(axis=0)
LensForecaster(**options | {"batch_size": 50}).fit(warm).save(out)  # threads, compiled kernels, buffers
states = as_dataset(path).series[0]
assert states.lazy
states.rows(0, 10)
used = int(next(line for line in open("/proc/self/status") if line.startswith("VmData")).split()[1]) * 1024
resource.setrlimit(resource.RLIMIT_DATA, (used + room, used + room))
try:
    np.zeros(states.states.shape, dtype=np.float32)
    sys.exit("the data fits into the limit")
except MemoryError:
    pass
if door == "fit":
    words = [f"--{key.replace('_', '-')}={value}" for key, value in options.items()]
    sys.argv = ["lln", "fit", path, "-o", out, "--json", *words]
    from lln.cli.app import main
    main()
else:
    fitted = LensForecaster(**options).fit(path)
    fitted.save(out)
    found = fitted.evaluate(path, windows=4)
    print('{"scored": "%s", "nmse": %r}' % (found.scored, float(found.nmse)))
"""


def write_large(path, rows):
    """Rotations, slowly damped towards a circle, with a little noise: something that can be learned."""
    rng = np.random.default_rng(0)
    speed = np.linspace(0.05, 0.4, N // 2)
    options = {"dtype": "f4", "chunks": (CHUNK, N)}
    group = h5py.File(path, "w") if path.suffix == ".h5" else zarr.open_group(path, mode="w", zarr_format=2)
    make = group.create_dataset if path.suffix == ".h5" else group.create_array
    words = {} if path.suffix == ".h5" else {"compressors": None}
    states = make("states", shape=(rows, N), **options, **words)
    make("time", shape=(rows,), dtype="f8", **words)[...] = np.arange(rows) * 0.5
    for first in range(0, rows, CHUNK):
        angle = speed * np.arange(first, min(first + CHUNK, rows))[:, None]
        block = np.concatenate([np.cos(angle), np.sin(angle)], axis=1)
        states[first : first + len(block)] = block + 1e-3 * rng.standard_normal(block.shape)
    if path.suffix == ".h5":
        group.close()


def fitted(path, out, scale, room, door):
    # One heap for all of Zarr's threads: each would else keep what it was given once.
    environment = {**os.environ, "MALLOC_ARENA_MAX": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    words = [sys.executable, "-c", CHILD, str(path), str(out), str(scale), str(room), door]
    done = subprocess.run(words, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    ("suffix", "door"), [(".h5", "fit"), pytest.param(".zarr", "forecaster", marks=pytest.mark.slow)]
)
def test_a_fit_streams_under_a_hard_memory_limit(tmp_path, suffix, door):
    # What is read at a time is a sixteenth of what it usually is. The limit leaves room for the rollouts that judge,
    # which are as large for any amount of data: four times 14 MB.
    path, rows = tmp_path / f"large{suffix}", 1_600_000
    write_large(path, rows)  # 102 MB, and twice that in float64
    found = fitted(path, tmp_path / "m.lln", 16, 60_000_000, door)
    assert (tmp_path / "m.lln").exists()
    if door == "fit":
        assert found["report"]["pairs"] == rows - 1
    else:
        assert found["scored"] == "training data"
        assert found["nmse"] < 1


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".h5", ".zarr"])
def test_half_a_gigabyte_is_learned_from_in_two_fifths_of_it(tmp_path, suffix):
    path = tmp_path / f"large{suffix}"
    write_large(path, 8_000_000)
    fitted(path, tmp_path / "m.lln", 1, 200_000_000, "fit")
    assert (tmp_path / "m.lln").stat().st_size < 1_000_000
