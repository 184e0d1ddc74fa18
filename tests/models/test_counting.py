import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from lln import InputError
from lln.models import COMPARATORS, Cost, build, comparator_cost, lens_cost

SIZES = [(3, 3, 128, 40, 12), (5, 2, 7, 3, 4), (1, 1, 1, 1, 1), (96, 96, 64, 5, 8), (2, 9, 13, 2, 1)]
aten = torch.ops.aten
ONE_EACH = {aten.add.Tensor, aten.sub.Tensor, aten.mul.Tensor, aten.div.Tensor, aten.neg.default, aten.relu.default}
FREE = {
    aten.empty.memory_format,
    aten.lift_fresh.default,
    aten.select.int,
    aten.t.default,
    aten.unbind.int,
    aten.unsqueeze.default,
    aten.view.default,
    aten.zeros_like.default,
}


class OperationCounter(TorchDispatchMode):
    """Watches the tensor operations of a real forward pass and counts scalar ones by the paper's convention.

    It knows operations, not networks: an affine map is a multiply-add (two) per weight and an addition per bias,
    anything elementwise one per result, a sum over n terms n - 1 additions. Moving data is free, all else an error.
    """

    def __init__(self):
        super().__init__()
        self.operations = self.exponentials = self.tangents = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        del types
        out = func(*args, **(kwargs or {}))
        if func in ONE_EACH or (func is aten.pow.Tensor_Scalar and args[1] == 2):
            self.operations += out.numel()
        elif func is aten.exp.default:
            self.exponentials += out.numel()
        elif func is aten.tanh.default:
            self.tangents += out.numel()
        elif func is aten.addmm.default:
            self.operations += (2 * args[1].shape[1] + 1) * out.numel()
        elif func is aten.sum.dim_IntList:
            self.operations += args[0].numel() - out.numel()
        elif func is aten.native_batch_norm.default:
            self.operations += 4 * out[0].numel()  # centre, scale by 1/std, scale, shift
        elif func not in FREE:
            raise NotImplementedError(f"do not know how to count {func}")
        return out


def walked(network, n_in):
    """What a forward pass through every state takes, and what the built module holds."""
    network.eval()
    counter, x = OperationCounter(), torch.zeros(1, n_in)
    with torch.no_grad(), counter:
        last = network.states(x)[-1]
        network.readout(last if isinstance(last, torch.Tensor) else last.y)
    parameters = sum(value.numel() for value in network.parameters())
    return Cost(parameters, counter.operations, counter.exponentials, counter.tangents)


@pytest.mark.parametrize(("n", "m", "h", "d", "k"), SIZES)
@pytest.mark.parametrize("angle", ["learned", "zero"])
def test_lens_cost_is_what_the_built_network_takes(n, m, h, d, k, angle):
    network = build("lens", n, m, width=h, depth=d, basis=k, initial_angle=angle)
    assert lens_cost(n, m, width=h, depth=d, basis=k, initial_angle=angle) == walked(network, n)


@pytest.mark.parametrize(("n", "m", "h", "d", "k"), SIZES)
@pytest.mark.parametrize("name", COMPARATORS)
def test_comparator_cost_is_what_the_built_network_takes(name, n, m, h, d, k):
    del k
    network = build(name, n, m, width=h, depth=d)
    assert comparator_cost(name, n, m, width=h, depth=d) == walked(network, n)


small = st.integers(1, 9)


@settings(max_examples=25, deadline=None)
@given(small, small, small, small, small, st.sampled_from(["lens", *COMPARATORS]))
def test_costs_at_random_sizes(n, m, h, d, k, name):
    if name == "lens":
        assert lens_cost(n, m, width=h, depth=d, basis=k) == walked(build(name, n, m, width=h, depth=d, basis=k), n)
    else:
        assert comparator_cost(name, n, m, width=h, depth=d) == walked(build(name, n, m, width=h, depth=d), n)


def test_the_paper_s_limits():
    # Depth-dominant ratios at h = 128, K = 12: parameters K / (h + 1), operations (6K + 3) / (2h + 2).
    lens, mlp = lens_cost(3, 3, width=128, depth=10**7, basis=12), comparator_cost("mlp", 3, 3, width=128, depth=10**7)
    assert lens.parameters / mlp.parameters == pytest.approx(12 / 129, rel=1e-6)
    assert lens.operations / mlp.operations == pytest.approx(75 / 258, rel=1e-6)
    # "1536 D exponential evaluations and 128 hyperbolic tangents"
    assert (lens.exponentials, lens.tangents) == (1536 * 10**7, 128)


def test_counting_refuses_what_it_does_not_know():
    with pytest.raises(InputError, match="unknown comparator 'residuel'; did you mean 'residual'"):
        comparator_cost("residuel", 3, 3, width=8, depth=2)
    with pytest.raises(InputError, match="basis must be an integer of at least 1, got 0"):
        lens_cost(3, 3, width=8, depth=2, basis=0)
    with pytest.raises(InputError, match="unknown initial_angle 'none'"):
        lens_cost(3, 3, width=8, depth=2, basis=2, initial_angle="none")
