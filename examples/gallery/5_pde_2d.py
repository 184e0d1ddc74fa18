"""A field in the plane.

Two phases that separate (Allen-Cahn) on a small grid. All grid points share one convolution.
"""

import numpy as np

import lln
from lln.data.series import Dataset, Series
from lln.systems import AllenCahn, seeded_start

system = AllenCahn(points=(24, 24))
runs = [lln.simulate(system, 60, start=seeded_start(system, seed), dtype="float64").states for seed in range(4)]
axis = np.arange(24.0)
grid = {"space": (24, 24), "channels": ("u",), "coords": {"x": axis, "y": axis}}
train = Dataset(tuple(Series(run) for run in runs[:3]), system.dt, **grid)
model = lln.LensForecaster(members=1, epochs=2, history=1, field=True, time_limit=20).fit(train)
figure = model.rollout(runs[3][5], steps=50).plot(truth=runs[3][6:56], title="Allen-Cahn from an unseen start")
