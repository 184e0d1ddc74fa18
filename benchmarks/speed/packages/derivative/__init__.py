from .differentiation import dxdt, smooth_x, methods
from .dglobal import Spectral, Spline, TrendFiltered, Kalman, Kernel
from .dlocal import FiniteDifference, SavitzkyGolay

from .__version__ import __version__
