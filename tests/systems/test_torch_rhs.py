import subprocess
import sys

import numpy as np
import pytest
import torch

from lln.systems import UserSystem, simulate


def oscillator(stack):
    return UserSystem(lambda x: stack([x[..., 1], -x[..., 0]], -1), [1.0, 0.0], dt=0.1, name="oscillator")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_right_hand_side_in_torch_equals_the_one_in_numpy(dtype):
    starts = np.random.default_rng(0).standard_normal((4, 2))
    theirs = simulate(oscillator(torch.stack), 100, starts=starts, dtype=dtype)
    ours = simulate(oscillator(np.stack), 100, starts=starts, dtype=dtype)
    assert theirs.dtype == np.dtype(dtype)
    # The same products and sums in the same order: only differences of signs of zero could remain.
    np.testing.assert_array_equal(theirs, ours)


def test_a_network_of_float32_is_a_right_hand_side():
    network = torch.nn.Linear(2, 2)
    system = UserSystem(network, [1.0, 0.0], dt=0.01)
    assert simulate(system, 5).dtype == np.float32
    assert simulate(system, 5, dtype="float64").dtype == np.float64
    assert all(parameter.grad is None for parameter in network.parameters())


def test_a_fault_in_the_user_s_function_is_theirs_to_see():
    with pytest.raises(AttributeError, match="no attribute 'sinus'"):
        UserSystem(lambda x: x.sinus(), [1.0], dt=0.1)


def test_numpy_alone_does_not_load_torch():
    code = (
        "import sys, numpy as np\nfrom lln.systems import UserSystem, simulate\n"
        "simulate(UserSystem(lambda x: -x, [1.0], 0.1), 3)\nassert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
