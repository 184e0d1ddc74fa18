import pytest
import torch

from lln.core.errors import InputError
from lln.models import FieldLensNetwork
from lln.models.field import FieldEnsemble


def members(count=2, **options):
    small = {"width": 4, "depth": 2, "basis": 4, "kernel": 3, "hidden": 3, "blocks": 3, **options}
    return [
        FieldLensNetwork(2, 1, generator=torch.Generator().manual_seed(seed), **small).double() for seed in range(count)
    ]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"blocks": 1, "initial_angle": "zero"},
        {"dimensions": 2, "boundary": ["periodic", ("dirichlet", "neumann")]},
        {"static": 1},
    ],
    ids=str,
)
@pytest.mark.parametrize("shared", [False, True])
def test_an_ensemble_computes_what_its_members_compute(options, shared):
    alone = members(**options)
    points = (6, 5) if options.get("dimensions") == 2 else (7,)
    x = torch.randn(1 if shared else 2, 3, *points, 2, dtype=torch.float64)
    static = torch.randn(*points, 1, dtype=torch.float64) if "static" in options else None
    ensemble = FieldEnsemble(alone)
    together = ensemble(x, static=static)
    for index, member in enumerate(alone):
        mine = x[0 if shared else index]
        torch.testing.assert_close(together[index], member(mine, static=static), rtol=0, atol=1e-12)
        torch.testing.assert_close(ensemble.member(index)(mine, static=static), member(mine, static=static))


def test_another_spacing_serves_all_members():
    alone = members(blocks=2)
    x = torch.randn(2, 1, 12, 2, dtype=torch.float64)
    for ratio in ((2.0,), (1.5,)):
        together = FieldEnsemble(alone)(x, ratio=ratio)
        for index, member in enumerate(alone):
            torch.testing.assert_close(together[index], member(x[index], ratio=ratio), rtol=0, atol=1e-12)


def test_each_member_has_its_own_gradient():
    alone = members(blocks=2)
    ensemble = FieldEnsemble(alone)
    x = torch.randn(2, 3, 7, 2, dtype=torch.float64)
    ensemble(x)[0].square().sum().backward()
    for name, parameter in ensemble.named_parameters():
        assert parameter.grad[0].any(), name
        assert not parameter.grad[1].any(), name


def test_what_does_not_fit_is_named():
    with pytest.raises(InputError, match="at least one member"):
        FieldEnsemble([])
    with pytest.raises(InputError, match="member 1 is not like member 0"):
        FieldEnsemble([*members(1), *members(1, width=5)])
    with pytest.raises(InputError, match="no global inputs"):
        FieldEnsemble(members(1, inputs=2))
    with pytest.raises(InputError, match="must have 2 channels, got 3"):
        FieldEnsemble(members())(torch.zeros(2, 1, 7, 3, dtype=torch.float64))


@pytest.mark.parametrize("index", [-1, 2])
def test_a_member_that_is_not_there_is_refused(index):
    with pytest.raises(InputError, match=f"member must be from 0 to 1, got {index}"):
        FieldEnsemble(members()).member(index)
