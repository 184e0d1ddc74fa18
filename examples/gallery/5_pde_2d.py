"""A field in the plane.

Two phases that separate (Allen-Cahn). All grid points share one convolution and one polynomial of their neighbours.
"""

import numpy as np

import lln
from lln.data.series import Dataset, Series
from lln.systems import AllenCahn, seeded_start

system = AllenCahn(points=(48, 48))
runs = [lln.simulate(system, 60, start=seeded_start(system, seed), dtype="float64").states for seed in range(4)]
axis = np.arange(48.0)
grid = {"space": (48, 48), "channels": ("u",), "coords": {"x": axis, "y": axis}}
train = Dataset(tuple(Series(run) for run in runs[:3]), system.dt, **grid)
model = lln.LensForecaster(parts=("linear", "polynomial"), history=2, field=True).fit(train)
future = model.rollout(runs[3][4:6], steps=50)
figure = future.plot(truth=runs[3][6:56], title="Allen-Cahn from an unseen start")
