"""Many calls of one function, whatever it computes, on processes of this machine or on a Dask cluster."""

from lln.core.workers.local import Finished, Function, LocalPool, Pool, Task
from lln.core.workers.mapping import DaskMap, DaskPool, Mapper, serial

__all__ = ["DaskMap", "DaskPool", "Finished", "Function", "LocalPool", "Mapper", "Pool", "Task", "serial"]
