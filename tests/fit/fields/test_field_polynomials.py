"""Polynomials of every point of a grid, beside the convolution."""

import numpy as np
import pytest
import torch

from lln.data.read.formats import as_dataset
from lln.fit.fields.closed import PatchRegression
from lln.fit.fields.recipe import FieldOptions, fit_field_surrogate
from lln.fit.options import Recipe
from lln.models.convolution import patches, sides
from lln.step.frame import Polynomial, monomial_table

RNG = np.random.default_rng(8)


def fitzhugh_nagumo(count, points, steps, dt=0.25, substeps=10):
    """Two channels on a torus, (count, steps, 2, points, points)."""
    rng = np.random.default_rng(8)  # of its own: the data must not depend on which tests ran before
    waves = np.stack([np.sin(np.arange(points) * 2 * np.pi * k / points + k) for k in (1, 2, 3)])
    states = 0.6 * np.einsum("ncij,ia,jb->ncab", rng.normal(size=(count, 2, 3, 3)), waves, waves)
    found, h = [], dt / substeps
    for _ in range(steps):
        found.append(states)
        for _ in range(substeps):
            spread = sum(np.roll(states, shift, axis) for shift in (1, -1) for axis in (-1, -2)) - 4 * states
            u, v = states[:, 0], states[:, 1]
            rate = np.stack([u - u**3 / 3 - v, 0.3 * (u + 0.2 - 0.8 * v)], axis=1)
            states = states + h * (rate + spread * np.array([0.4, 0.1])[:, None, None])
    return np.stack(found, axis=1)


def nmse(step, fields, steps):
    flat = fields.reshape(*fields.shape[:2], -1)
    history = step.frame.history
    predicted = step.rollout(flat[:, :history], steps)
    truth = flat[:, history : history + steps]
    return float(np.mean((predicted - truth) ** 2) / truth.var())


@pytest.mark.parametrize("conserved", [False, True])
def test_a_convolution_and_a_polynomial_are_recovered_together(conserved):
    fields = torch.from_numpy(RNG.normal(size=(40, 12, 2)))
    boundary, table = sides("periodic", 1), monomial_table(range(2), 3)
    kernel = RNG.normal(size=(2, 3, 2))
    kernel -= kernel.mean(axis=1, keepdims=True)  # sums of zero are what a conserved mean allows
    weights = np.where(np.arange(len(table)) < 2, 0.0, RNG.normal(size=(2, len(table))))
    change = patches(fields, (3,), boundary) @ torch.from_numpy(kernel.reshape(2, -1)).T
    change = change + torch.from_numpy(Polynomial(table, weights)(fields.numpy()))
    change = change - change.mean(dim=1, keepdim=True) if conserved else change + 0.5
    zero_sum = np.ones(2, dtype=bool) if conserved else None
    whole = np.ones(12, dtype=bool)
    regression = PatchRegression.of([(fields, change, None)], (3,), boundary, whole, table=table, zero_sum=zero_sum)
    matrix, offset, polynomial = regression.solve(0.0)
    np.testing.assert_allclose(polynomial.weights, weights, atol=1e-10)
    np.testing.assert_allclose(matrix.reshape(kernel.shape), kernel, atol=1e-10)
    np.testing.assert_allclose(offset, 0.0 if conserved else 0.5, atol=1e-10)
    assert regression.left_over(matrix, offset, polynomial).max() < 1e-10
    assert regression.left_over(matrix, offset).min() > 0.1


def test_reaction_and_diffusion_are_forecast_by_a_stencil_and_a_polynomial():
    fields = fitzhugh_nagumo(14, 16, 31)
    data = as_dataset(list(fields[:10].reshape(10, 31, -1)), dt=0.25, grid=(16, 16))
    fits = {
        parts: fit_field_surrogate(data, Recipe(parts=parts), options=FieldOptions(boundary="periodic"))
        for parts in (("linear",), ("linear", "polynomial"))
    }
    linear, polynomial = (nmse(one.surrogate, fields[10:], 28) for one in fits.values())
    report = fits["linear", "polynomial"].report
    assert report.part == "polynomial"
    assert report.degree in (3, 5)  # the law is cubic
    assert polynomial < 1e-3
    assert polynomial < 0.05 * linear
    assert fits[("linear",)].report.degree is None
