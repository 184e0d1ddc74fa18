"""The Learnable Lens Network (Section 3, Algorithm 1)."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple, overload

import torch
from torch import Tensor, nn

from lln.core.errors import InputError, RenamedWarning, check_int, choice, finite, interval, positive
from lln.models.base import StateNetwork, seeded_linear
from lln.ops import Networks, Scaling, lens_transport, reference, rollout

INITIAL_ANGLES = ("learned", "zero")
COEFFICIENT_STD = 0.02
OPTICAL_LENGTH = 1.0


@overload
def renamed_length(optical_length: float, horizon: float | None) -> float: ...
@overload
def renamed_length(optical_length: float | None, horizon: float | None) -> float | None: ...
def renamed_length(optical_length: float | None, horizon: float | None) -> float | None:
    """The optical length, also where it is given under its old name `horizon`."""
    if horizon is None:
        return optical_length
    if optical_length not in (None, OPTICAL_LENGTH):
        raise InputError("horizon is the old name of optical_length; give one of the two")
    message = "horizon of a lens network is now called optical_length; the old name still works"
    warnings.warn(message, RenamedWarning, stacklevel=3)
    return horizon


class Rays(NamedTuple):
    """A point of phase space: where the rays are and where they point, each (..., h)."""

    y: Tensor
    theta: Tensor


class Lenses(nn.Module):
    """A stack of D lenses, and the map of phase space that it makes; invertible, volume-preserving and symplectic."""

    coefficients: nn.Parameter  #: (D, h, K).
    centers: tuple[float, ...]  #: the control points c_k, exact in float64 whatever the dtype of the parameters.
    sigma: float  #: width of the Gaussians.
    length: float  #: propagation distance L of one layer.
    lens_scale: float  #: scale s of every refraction.
    backend: str  #: which implementation of the transport serves (see `lln.lens_transport`).

    def optics(self) -> tuple[Tensor, tuple[float, ...], float, float, float]:
        """What the transport needs beside the rays."""
        return self.coefficients, self.centers, self.sigma, self.length, self.lens_scale

    def transport(self, y: Tensor, theta: Tensor) -> Rays:
        """The rays behind the last lens: the map T_D of phase space. Each row of each leading dimension is a ray."""
        return Rays(*lens_transport(y, theta, *self.optics(), backend=self.backend))

    def trace(self, rays: Rays) -> list[Rays]:
        """Every (y_l, theta_l), l = 0..D, of rays that enter as `rays`."""
        coefficients, centers, sigma, length, scale = self.optics()
        found = [rays]
        for layer in coefficients.unsqueeze(1).unbind(0):
            found.append(Rays(*reference.lens_transport(*found[-1], layer, centers, sigma, length, scale)))
        return found

    def inverse(self, y: Tensor, theta: Tensor) -> Rays:
        """The rays (y_0, theta_0) that arrive as (y_D, theta_D), each (..., h)."""
        return Rays(*reference.inverse_transport(y, theta, *self.optics()))


class LensNetwork(StateNetwork, Lenses):
    """Embed a state as rays, carry them through D lenses and read the next state off their positions.

    ``y_0 = W_y x + b_y`` and ``theta_0 = tanh(W_theta x + b_theta)``; then D times
    ``y <- y + L theta`` and ``theta <- theta + s phi_l(y)``; the output is ``W_o y_D + b_o``. The last lens bends
    theta_D, which the readout does not see; it is kept, as in the paper, so that all layers are alike.

    Args:
        n_in: size of the input's last dimension.
        n_out: size of the output's last dimension.
        width: number of rays h.
        depth: number of propagate-refract layers D.
        basis: number of Gaussian control points K per ray.
        optical_length: total propagation distance T; one layer propagates L = T / D.
        lens_scale: fixed scale s of every refraction; 0 switches the lenses off.
        control_range: the control points are spread evenly over this interval (one alone sits in its middle).
        sigma: width of the Gaussians; None takes the spacing of the control points.
        initial_angle: "learned", or "zero" for theta_0 = 0.
        propagation: distance L of one layer, in place of optical_length / depth; 0 switches propagation off.
        horizon: old name of `optical_length`; works with a warning.
        generator: source of the initial values, on the CPU; None takes torch's global one.

    Attributes:
        backend: which implementation of the transport serves; "auto" unless set (see `lln.lens_transport`).
    """

    def __init__(
        self,
        n_in: int,
        n_out: int,
        *,
        width: int = 128,
        depth: int = 40,
        basis: int = 12,
        optical_length: float = OPTICAL_LENGTH,
        lens_scale: float = 1.0,
        control_range: tuple[float, float] = (-3.0, 3.0),
        sigma: float | None = None,
        initial_angle: str = "learned",
        propagation: float | None = None,
        horizon: float | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.n_in, self.n_out = check_int("n_in", n_in, 1), check_int("n_out", n_out, 1)
        self.width, self.depth = check_int("width", width, 1), check_int("depth", depth, 1)
        self.basis = check_int("basis", basis, 1)
        self.optical_length = finite("optical_length", renamed_length(optical_length, horizon))
        self.lens_scale = finite("lens_scale", lens_scale)
        self.control_range = interval("control_range", control_range)
        self.centers = self._spread()
        self.sigma = self.spacing if sigma is None else positive("sigma", sigma)
        self.initial_angle = choice("initial_angle", initial_angle, INITIAL_ANGLES)
        self.backend = "auto"
        self.length = self.optical_length / self.depth if propagation is None else finite("propagation", propagation)

        self.embed_position, self.embed_angle, self.coefficients = self.draw(self.n_in, generator)
        self.readout = seeded_linear(self.width, self.n_out, generator)

    @property
    def spacing(self) -> float:
        """Distance between neighbouring control points (the whole range if there is one alone)."""
        low, high = self.control_range
        return (high - low) / max(self.basis - 1, 1)

    def draw(self, n_in: int, generator: torch.Generator | None) -> tuple[nn.Linear, nn.Linear | None, nn.Parameter]:
        """Initial embeddings of positions and angles, from `n_in` numbers, and lens coefficients (D, h, K)."""
        position = seeded_linear(n_in, self.width, generator)
        # Drawn even when it is not kept, so that both kinds of angle start from the same other values.
        angle = seeded_linear(n_in, self.width, generator)
        lenses = torch.empty(self.depth, self.width, self.basis).normal_(std=COEFFICIENT_STD, generator=generator)
        kept = angle if self.initial_angle == "learned" else None
        return position, kept, nn.Parameter(lenses.to(position.weight.device))

    def _spread(self) -> tuple[float, ...]:
        """The control points c_k, exact in float64 whatever the dtype of the parameters."""
        low, high = self.control_range
        if self.basis == 1:
            return ((low + high) / 2,)
        return (*(low + self.spacing * k for k in range(self.basis - 1)), high)

    def embed(self, x: Tensor) -> Rays:
        """The rays that leave the input: (..., n_in) -> y_0 and theta_0, each (..., h)."""
        self._check(x)
        y = self.embed_position(x)
        theta = torch.zeros_like(y) if self.embed_angle is None else torch.tanh(self.embed_angle(x))
        return Rays(y, theta)

    def forward(self, x: Tensor) -> Tensor:
        """(..., n_in) -> (..., n_out)."""
        y, _ = self.transport(*self.embed(x))
        out: Tensor = self.readout(y)
        return out

    def rollout(self, x0: Tensor, steps: int, *, increments: bool = False, scaling: Scaling | None = None) -> Tensor:
        """The states after x0 when every output becomes the next input, as one kernel and without gradients.

        Args:
            x0: one start (n,) or many (..., n); the network must map n coordinates to n.
            steps: how many.
            increments: whether the network's output is added to the state instead of replacing it.
            scaling: units around the network (see `lln.ops.Scaling`); None leaves them alone.

        Returns:
            (..., steps, n).
        """
        self._check(x0)
        starts = x0.reshape(1, -1, self.n_in)
        states = rollout(self.stacked(), starts, check_int("steps", steps, 0), increments=increments, scaling=scaling)
        return states[0].movedim(0, -2).reshape(*x0.shape[:-1], steps, self.n_in)

    def stacked(self) -> Networks:
        """The parameters as an ensemble of one."""
        angle = self.embed_angle
        return Networks(
            self.embed_position.weight.unsqueeze(0),
            self.embed_position.bias.unsqueeze(0),
            None if angle is None else angle.weight.unsqueeze(0),
            None if angle is None else angle.bias.unsqueeze(0),
            self.coefficients.unsqueeze(0),
            self.readout.weight.unsqueeze(0),
            self.readout.bias.unsqueeze(0),
            *self.optics()[1:],
            self.backend,
        )

    def states(self, x: Tensor) -> list[Rays]:
        """Every (y_l, theta_l), l = 0..D."""
        return self.trace(self.embed(x))

    def inverse(self, y: Tensor, theta: Tensor) -> Rays:
        """The rays (y_0, theta_0) that arrive as (y_D, theta_D)."""
        for name, value in (("y_D", y), ("theta_D", theta)):
            self._check_tensor(name, value)
            if value.ndim < 1 or value.shape[-1] != self.width:
                raise InputError(f"{name} must have shape (..., {self.width}), got {tuple(value.shape)}")
        return super().inverse(y, theta)

    def config(self) -> dict[str, Any]:
        """The arguments that rebuild this network."""
        sizes = ("n_in", "n_out", "width", "depth", "basis")
        optics = ("optical_length", "lens_scale", "control_range", "sigma", "initial_angle")
        return {name: getattr(self, name) for name in (*sizes, *optics)} | {"propagation": self.length}


def merge(lenses: list[LensNetwork]) -> LensNetwork:
    """Lens networks of one shape side by side, as the one network that computes their mean."""
    first, part = lenses[0], 1.0 / len(lenses)
    whole = LensNetwork(**{**first.config(), "width": first.width * len(lenses)}, generator=torch.Generator())
    whole.to(first.coefficients.device, first.coefficients.dtype).backend = first.backend
    with torch.no_grad():
        whole.embed_position.weight.copy_(torch.cat([lens.embed_position.weight for lens in lenses]))
        whole.embed_position.bias.copy_(torch.cat([lens.embed_position.bias for lens in lenses]))
        if whole.embed_angle is not None:
            angles = [lens.embed_angle for lens in lenses if lens.embed_angle is not None]
            whole.embed_angle.weight.copy_(torch.cat([angle.weight for angle in angles]))
            whole.embed_angle.bias.copy_(torch.cat([angle.bias for angle in angles]))
        whole.coefficients.copy_(torch.cat([lens.coefficients for lens in lenses], dim=1))
        whole.readout.weight.copy_(torch.cat([lens.readout.weight for lens in lenses], dim=1) * part)
        whole.readout.bias.copy_(torch.stack([lens.readout.bias for lens in lenses]).mean(dim=0))
    return whole.eval().requires_grad_(False)
