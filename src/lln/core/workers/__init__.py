"""Many calls of one function, whatever it computes, on processes of this machine or on a Dask cluster."""

from lln.core.workers.base import Crew, Finished, Function, Task
from lln.core.workers.dask import DaskCrew
from lln.core.workers.local import LocalCrew

__all__ = ["Crew", "DaskCrew", "Finished", "Function", "LocalCrew", "Task"]
