"""The transport operator: one function, several backends, one readable reference; and whole rollouts."""

from lln.ops import backends, reference
from lln.ops.cpu.backend import checked_threads
from lln.ops.rollout import (
    Flow,
    LensBlock,
    Networks,
    Polynomial,
    Scaling,
    StepProgram,
    Track,
    marked,
    roll,
    rollout,
    track,
)
from lln.ops.transport import drift, explain, lens_transport

dispatch = backends  # its old name: `lln.ops.dispatch.registry` still works

__all__ = [
    "Flow",
    "LensBlock",
    "Networks",
    "Polynomial",
    "Scaling",
    "StepProgram",
    "Track",
    "checked_threads",
    "drift",
    "explain",
    "lens_transport",
    "marked",
    "reference",
    "roll",
    "rollout",
    "track",
]
