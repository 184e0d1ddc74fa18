from ._axes import AxesArray
from ._axes import comprehend_axes
from ._axes import concat_sample_axis
from ._axes import SampleConcatter
from ._axes import wrap_axes
from .base import capped_simplex_projection
from .base import drop_nan_samples
from .base import flatten_2d_tall
from .base import get_prox
from .base import get_regularization
from .base import reorder_constraints
from .base import supports_multiple_targets
from .base import validate_control_variables
from .base import validate_input
from .base import validate_no_reshape
from .odes import bacterial
from .odes import burgers_galerkin
from .odes import cubic_damped_SHO
from .odes import cubic_oscillator
from .odes import double_pendulum
from .odes import duffing
from .odes import enzyme
from .odes import hopf
from .odes import kinematic_commonroad
from .odes import linear_3D
from .odes import linear_damped_SHO
from .odes import logistic_map
from .odes import logistic_map_control
from .odes import logistic_map_multicontrol
from .odes import lorenz
from .odes import lorenz_control
from .odes import lorenz_u
from .odes import lotka
from .odes import meanfield
from .odes import mhd
from .odes import oscillator
from .odes import pendulum_on_cart
from .odes import rossler
from .odes import van_der_pol
from .odes import yeast

# from .base import convert_u_dot_integral
# from .base import integrate
# from .base import integrate2
# from .base import phi
# from .base import linear_weights

__all__ = [
    "AxesArray",
    "SampleConcatter",
    "concat_sample_axis",
    "wrap_axes",
    "comprehend_axes",
    "capped_simplex_projection",
    "drop_nan_samples",
    "get_prox",
    "get_regularization",
    "reorder_constraints",
    "supports_multiple_targets",
    "validate_control_variables",
    "validate_input",
    "validate_no_reshape",
    "flatten_2d_tall",
    "linear_damped_SHO",
    "cubic_damped_SHO",
    "linear_3D",
    "lotka",
    "van_der_pol",
    "duffing",
    "rossler",
    "cubic_oscillator",
    "hopf",
    "lorenz",
    "lorenz_control",
    "lorenz_u",
    "meanfield",
    "oscillator",
    "burgers_galerkin",
    "mhd",
    "enzyme",
    "yeast",
    "bacterial",
    "pendulum_on_cart",
    "kinematic_commonroad",
    "double_pendulum",
]
