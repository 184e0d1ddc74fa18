"""The transport operator: one function, several backends, one readable reference; and whole rollouts."""

from lln.ops import reference
from lln.ops.explain import drift, explain
from lln.ops.rollout import Networks, Scaling, rollout
from lln.ops.transport import lens_transport

__all__ = ["Networks", "Scaling", "drift", "explain", "lens_transport", "reference", "rollout"]
