"""Many calls of one function, whatever it computes, on processes of this machine or on a Dask cluster."""

from lln.workers.base import Crew, Finished, Function, Task
from lln.workers.dask import DaskCrew
from lln.workers.local import LocalCrew

__all__ = ["Crew", "DaskCrew", "Finished", "Function", "LocalCrew", "Task"]
