import json

import pytest
import torch

from lln.core.errors import InputError
from lln.models import FieldLensNetwork, build, field_cost, load_model, save_model
from lln.models.factory import name_of
from lln.ops import reference
from lln.paper.theory.geometry import geometry_at


def network(n_in=1, n_out=1, *, seed=0, **options):
    small = {"width": 6, "depth": 3, "basis": 5, "kernel": 3, "hidden": 4, **options}
    return FieldLensNetwork(n_in, n_out, generator=torch.Generator().manual_seed(seed), **small)


def field(*shape, seed=1):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("points", [(12,), (13,), (6, 7), (4, 5, 6)])
@pytest.mark.parametrize("boundary", ["periodic", "dirichlet", "neumann", "replicate"])
def test_any_dimension_size_boundary_and_channels(points, boundary):
    model = network(2, 3, dimensions=len(points), boundary=boundary)
    assert model(field(2, *points, 2)).shape == (2, *points, 3)


def test_the_known_sizes():
    big = FieldLensNetwork(1, 1, blocks=2, width=48, kernel=7, depth=8)
    small = FieldLensNetwork(1, 1, blocks=1, width=64, kernel=9, depth=10)
    assert sum(p.numel() for p in big.parameters()) == 42705
    assert sum(p.numel() for p in small.parameters()) == 9537


@pytest.mark.parametrize("points", [(16,), (15,), (6, 9)])
def test_a_shifted_field_gives_the_shifted_output(points):
    model, x = network(dimensions=len(points), blocks=3), field(1, *points, 1)
    axes = tuple(range(1, len(points) + 1))
    shifts = tuple(range(2, len(points) + 2))
    moved = model(x.roll(shifts, axes))
    # a dot product of at most 36 terms of order one, in another order: some units in the last place of float32
    assert torch.allclose(moved, model(x).roll(shifts, axes), rtol=0, atol=2e-6)


def test_mirror_boundaries_are_those_of_the_mirrored_periodic_field():
    # a field between two even mirrors is half of a periodic one of 2 (N - 1) points
    model, x = network(boundary="neumann", blocks=1), field(1, 9, 1)
    whole = torch.cat((x, x[:, 1:-1].flip(1)), dim=1)
    periodic = network(boundary="periodic", blocks=1)
    rays, round_ = model.states(x)[0], periodic.states(whole)[0]
    assert torch.allclose(rays[0].y, round_[0].y[:, :9], atol=1e-6)


def test_states_end_where_forward_reads():
    model, x = network(blocks=2), field(2, 10, 1)
    found = model.states(x)
    assert [len(rays) for rays in found] == [4, 4]
    assert found[0][0].y.shape == (2, 10, 6)
    inner = model.embed(0, x)
    assert torch.equal(inner.y, found[0][0].y)
    coefficients, centers, sigma, length, scale = model.blocks[1].optics()
    y, _ = reference.lens_transport(*found[1][0], coefficients, centers, sigma, length, scale)
    assert torch.allclose(y, found[1][-1].y, atol=1e-6)
    assert torch.allclose(model._read(1, y, x, None), model(x), atol=1e-5)


def test_each_block_is_invertible_and_its_geometry_is_the_theorys():
    model, x = network(blocks=2).double(), field(2, 10, 1).double()
    for index, rays in enumerate(model.states(x)):
        back = model.inverse(*rays[-1], block=index)
        assert torch.allclose(back.y, rays[0].y, atol=1e-12)
        assert torch.allclose(back.theta, rays[0].theta, atol=1e-12)
        geometry = geometry_at(model.blocks[index], rays[0].y[0, 4], rays[0].theta[0, 4])
        assert abs(geometry.log_abs_det) < 1e-12
        assert geometry.symplectic_defect < 1e-15
        assert geometry.pairing_defect < 3e-15


def test_residual_blocks_add_to_the_field():
    model, x = network(blocks=3), field(1, 8, 1)
    with torch.no_grad():
        for parameter in model.between[1].parameters():
            parameter.zero_()
    shallow = network(blocks=2)
    shallow.blocks[0].load_state_dict(model.blocks[0].state_dict())
    shallow.between[0].load_state_dict(model.between[0].state_dict())
    shallow.blocks[1].load_state_dict(model.blocks[2].state_dict())
    shallow.readout.load_state_dict(model.readout.state_dict())
    assert torch.allclose(model(x), shallow(x), atol=1e-6)


def test_static_fields_and_inputs_are_channels():
    model = network(1, 1, static=2, inputs=1, blocks=1)
    plain = network(4, 1, blocks=1)
    plain.load_state_dict(model.state_dict())
    x, static, inputs = field(3, 8, 1), field(8, 2, seed=2), field(3, 1, seed=3)
    joined = torch.cat((x, static.expand(3, 8, 2), inputs[:, None].expand(3, 8, 1)), dim=-1)
    assert torch.equal(model(x, static=static, inputs=inputs), plain(joined))
    with pytest.raises(InputError, match="the network has 2 static channels, but none was given"):
        model(x, inputs=inputs)
    with pytest.raises(InputError, match="the network has 0 static channels, but a tensor"):
        network()(x, static=static)
    with pytest.raises(InputError, match=r"static must have shape \(..., 8, 2\), got \(7, 2\)"):
        model(x, static=static[1:], inputs=inputs)


def test_a_finer_grid_keeps_the_kernels_extent():
    model, x = network(blocks=2), field(1, 24, 1)
    assert torch.allclose(model(x, ratio=(2,))[:, ::2], model(x[:, ::2]), atol=1e-6)
    assert not torch.allclose(model(x)[:, ::2], model(x[:, ::2]), atol=1e-3)
    assert model.extent((0.5,)) == (1.0,)
    assert model.radius == (4,)
    with pytest.raises(InputError, match="spacing must have 1 values"):
        model.extent((0.5, 0.5))


def test_reach_bounds_what_can_matter():
    model, x = network(blocks=2, kernel=5), field(1, 40, 1).requires_grad_()
    model(x)[0, 20].sum().backward()
    touched = torch.nonzero(x.grad[0, :, 0])[:, 0]
    assert touched.min() >= 20 - model.radius[0]
    assert touched.max() <= 20 + model.radius[0]
    assert touched.max() - touched.min() == 2 * model.radius[0]


def test_gradients_are_those_of_finite_differences():
    model, x = network(1, 1, boundary=[("dirichlet", "replicate")], blocks=3).double(), field(1, 7, 1).double()
    torch.autograd.gradcheck(model, (x.requires_grad_(),))
    weight = model.between[0].weight
    loss = lambda: model(x).square().sum()  # noqa: E731
    loss().backward()
    slope, step = weight.grad[0, 3].item(), 1e-6
    with torch.no_grad():
        weight[0, 3] += step
        up = loss().item()
        weight[0, 3] -= 2 * step
        down = loss().item()
    assert slope == pytest.approx((up - down) / (2 * step), rel=1e-6)


@pytest.mark.parametrize("options", [{}, {"blocks": 1, "dimensions": 2, "kernel": (3, 5)}, {"initial_angle": "zero"}])
def test_the_count_is_that_of_the_network(options):
    model = network(2, 3, **options)
    kernel = model.kernel
    cost = field_cost(
        2,
        3,
        width=6,
        depth=3,
        basis=5,
        kernel=kernel,
        blocks=len(model.blocks),
        hidden=4,
        initial_angle=options.get("initial_angle", "learned"),
    )
    assert cost.parameters == sum(p.numel() for p in model.parameters())


def test_operations_by_hand():
    # one block, kernel 3, one channel: patches of 3; per point 2 embeddings, 1 readout of patches of 3 h
    cost = field_cost(1, 1, width=2, depth=3, basis=4, kernel=(3,), blocks=1, points=10)
    lenses = 3 * 2 * (6 * 4 + 3)
    assert cost.operations == 10 * (2 * 2 * 3 * 2 + 2 * 2 + 2 * 6 + 1 + lenses)
    assert cost.exponentials == 10 * 3 * 2 * 4
    assert cost.tangents == 10 * 2


def test_a_network_comes_back_from_its_file(tmp_path):
    model = network(2, 2, dimensions=2, boundary=["periodic", ("dirichlet", "neumann")], kernel=(3, 5))
    save_model(model, tmp_path / "field.safetensors")
    again = load_model(tmp_path / "field.safetensors")
    x = field(1, 6, 7, 2)
    assert torch.equal(model(x), again(x))
    assert json.dumps(again.config()) == json.dumps(model.config())
    assert name_of(again) == "field"


def test_one_generator_one_network():
    first, second = network(seed=3), network(seed=3)
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))
    assert not torch.equal(first.readout.weight, network(seed=4).readout.weight)


def test_the_backend_is_set_for_all_blocks():
    model, x = network(blocks=2), field(1, 8, 1)
    fused = model(x)
    model.backend = "reference"
    assert [block.backend for block in model.blocks] == ["reference", "reference"]
    assert torch.allclose(model(x), fused, atol=1e-5)


def test_many_networks_in_one_pass():
    members = [network(seed=seed) for seed in range(3)]
    weights, _ = torch.func.stack_module_state(members)
    x = field(3, 2, 9, 1)
    call = lambda w, rows: torch.func.functional_call(members[0], w, (rows,))  # noqa: E731
    together = torch.vmap(call)(weights, x)
    for member, rows, out in zip(members, x, together, strict=True):
        assert torch.allclose(member(rows), out, atol=1e-5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dimensions": 4}, "dimensions must be 1, 2 or 3, got 4"),
        ({"blocks": 0}, "blocks must be an integer of at least 1"),
        ({"kernel": (3, 3)}, "one size for each of 1 axes"),
        ({"boundary": "dirichle"}, "did you mean 'dirichlet'"),
        ({"control_range": (1.0, 1.0)}, "low < high"),
    ],
)
def test_bad_options_are_named(options, message):
    with pytest.raises(InputError, match=message):
        network(**options)


def test_bad_fields_are_named():
    with pytest.raises(InputError, match="last dimension must be n_in = 1"):
        network()(field(8, 2))
    with pytest.raises(InputError, match=r"shape \(..., N1, N2, 1\), got \(8, 1\)"):
        network(dimensions=2)(field(8, 1))
    with pytest.raises(InputError, match=r"y must have shape \(..., 6\)"):
        network().inverse(field(5), field(6))
    with pytest.raises(InputError, match="no option 'kernl'; did you mean 'kernel'"):
        build("field", 1, 1, kernl=3)
