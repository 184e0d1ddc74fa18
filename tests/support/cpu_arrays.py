"""The CPU kernels on NumPy arrays, with outputs as return values."""

import numpy as np

from lln.ops.cpu.networks import transport


def forward(y, theta, coefficients, grid, length, scale, threads=1, out=None):
    """Positions and angles behind the stack."""
    out = out or (np.empty_like(y), np.empty_like(theta))
    transport("forward", (y, theta, coefficients), out, grid, length, scale, threads)
    return out


def backward(y, theta, grad_y, grad_theta, coefficients, grid, length, scale, threads=1, out=None, kind="backward"):
    """Gradients of positions, angles and coefficients; kind "inverse" takes the rays behind the stack."""
    out = out or (np.empty_like(y), np.empty_like(theta), np.empty_like(coefficients))
    transport(kind, (y, theta, grad_y, grad_theta, coefficients), out, grid, length, scale, threads)
    return out
