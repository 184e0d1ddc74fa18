from .base import BaseDifferentiation
from .finite_difference import FiniteDifference
from .sindy_derivative import SINDyDerivative
from .smoothed_finite_difference import SmoothedFiniteDifference
from .spectral_derivative import SpectralDerivative


__all__ = [
    "BaseDifferentiation",
    "FiniteDifference",
    "SINDyDerivative",
    "SmoothedFiniteDifference",
    "SpectralDerivative",
]
