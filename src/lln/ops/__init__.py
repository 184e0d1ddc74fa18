"""The transport operator: one function, several backends, one readable reference."""

from lln.ops import reference
from lln.ops.transport import lens_transport

__all__ = ["lens_transport", "reference"]
