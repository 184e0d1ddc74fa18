"""What a network costs, in closed form: parameters, arithmetic operations, exponentials, hyperbolic tangents.

The paper's convention (Appendix A, "Parameter and operation scaling"), for one sample and one forward pass: a
multiply-add is two operations; a bias is one addition; a ReLU is one operation; exponentials and hyperbolic tangents
are counted apart. No network is built and torch is not needed: n inputs, m outputs, width h, depth D and basis K
settle everything. The terminal lens counts, although the readout does not see it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from types import MappingProxyType

from lln.core.errors import check_int, choice


@dataclass(frozen=True)
class Cost:
    """Parameters of one network, and operations of one forward pass of one sample."""

    parameters: int
    operations: int
    exponentials: int = 0
    tangents: int = 0


# What one hidden layer adds to the plain network's, per coordinate: (parameters, operations).
_LAYER_EXTRAS = MappingProxyType(
    {
        "mlp": (0, 0),
        "residual": (0, 1),  # the addition
        "scaled-residual": (0, 2),  # scale, add
        "residual-batchnorm": (2, 5),  # subtract the mean, scale by 1/std, then scale, shift; add
        "layerscale": (1, 2),  # scale, add
    }
)


def lens_cost(n_in: int, n_out: int, *, width: int, depth: int, basis: int, initial_angle: str = "learned") -> Cost:
    """The lens network's cost (Proposition 2 and the operation count below it).

    Per layer and coordinate: 4K for the basis coordinates (subtract, divide, square, negate), 2K - 1 for the weighted
    sum, 4 for the two updates with their factors L and s.

    >>> lens_cost(3, 3, width=128, depth=40, basis=12)
    Cost(parameters=62851, operations=386563, exponentials=61440, tangents=128)
    """
    n, m, h = check_int("n_in", n_in, 1), check_int("n_out", n_out, 1), check_int("width", width, 1)
    d, k = check_int("depth", depth, 1), check_int("basis", basis, 1)
    embeddings = 2 if choice("initial_angle", initial_angle, ("learned", "zero")) == "learned" else 1
    return Cost(
        parameters=embeddings * h * (n + 1) + d * h * k + m * (h + 1),
        operations=2 * (embeddings * n * h + h * m) + (embeddings * h + m) + d * h * (6 * k + 3),
        exponentials=d * h * k,
        tangents=h if initial_angle == "learned" else 0,
    )


def comparator_cost(name: str, n_in: int, n_out: int, *, width: int, depth: int) -> Cost:
    """The cost of the comparator that `build` knows as `name`.

    >>> comparator_cost("mlp", 3, 3, width=128, depth=40)
    Cost(parameters=661379, operations=1322755, exponentials=0, tangents=0)
    """
    more_parameters, more_operations = _LAYER_EXTRAS[choice("comparator", name, _LAYER_EXTRAS)]
    n, m = check_int("n_in", n_in, 1), check_int("n_out", n_out, 1)
    h, d = check_int("width", width, 1), check_int("depth", depth, 1)
    return Cost(
        parameters=h * (n + 1) + d * h * (h + 1) + m * (h + 1) + d * h * more_parameters,
        operations=2 * (n * h + d * h * h + h * m) + 2 * (d + 1) * h + m + d * h * more_operations,
    )


def field_cost(
    n_in: int,
    n_out: int,
    *,
    width: int,
    depth: int,
    basis: int,
    kernel: Sequence[int],
    points: int = 1,
    blocks: int = 2,
    hidden: int = 32,
    initial_angle: str = "learned",
) -> Cost:
    """The field network's cost for one field of `points` grid points; `n_in` counts static and input channels too.

    A convolution is a linear map of patches of prod(kernel) points. What is added between blocks is one addition a
    channel.

    >>> field_cost(1, 1, width=48, depth=8, basis=12, kernel=(7,)).parameters
    42705
    """
    n, m, h = check_int("n_in", n_in, 1), check_int("n_out", n_out, 1), check_int("width", width, 1)
    d, k, c = check_int("depth", depth, 1), check_int("basis", basis, 1), check_int("hidden", hidden, 1)
    patch = math.prod(check_int("kernel", size, 1) for size in kernel)
    count, grid = check_int("blocks", blocks, 1), check_int("points", points, 1)
    embeddings = 2 if choice("initial_angle", initial_angle, ("learned", "zero")) == "learned" else 1
    parameters = operations = 0
    for index in range(count):
        seen, read = (n if index == 0 else c), (m if index == count - 1 else c)
        parameters += embeddings * h * (patch * seen + 1) + d * h * k + read * (patch * h + 1)
        operations += 2 * patch * h * (embeddings * seen + read) + embeddings * h + read + d * h * (6 * k + 3)
        operations += c if 0 < index < count - 1 else 0
    tangents = count * h if initial_angle == "learned" else 0
    return Cost(parameters, grid * operations, grid * count * d * h * k, grid * tangents)
