from . import base
from .base import ConcatLibrary
from .base import TensoredLibrary
from .custom_library import CustomLibrary
from .fourier_library import FourierLibrary
from .generalized_library import GeneralizedLibrary
from .parameterized_library import ParameterizedLibrary
from .pde_library import PDELibrary
from .polynomial_library import IdentityLibrary
from .polynomial_library import PolynomialLibrary
from .sindy_pi_library import SINDyPILibrary
from .weak_pde_library import WeakPDELibrary

__all__ = [
    "ConcatLibrary",
    "TensoredLibrary",
    "GeneralizedLibrary",
    "CustomLibrary",
    "FourierLibrary",
    "IdentityLibrary",
    "PolynomialLibrary",
    "PDELibrary",
    "WeakPDELibrary",
    "SINDyPILibrary",
    "ParameterizedLibrary",
    "base",
]
