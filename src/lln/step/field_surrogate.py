"""The former name of `lln.step.field.FieldStep`."""

from lln.step.field import FieldStep as FieldSurrogate

__all__ = ["FieldSurrogate"]
