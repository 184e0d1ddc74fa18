"""A field in one dimension.

The Burgers equation on a ring of 48 points. The figure shows truth, forecast and error over time and space.
"""

import lln
from lln.data.series import Dataset, Series

system = lln.preset("burgers-48")
states = lln.simulate(system, 1600, dtype="float64").states
grid = {"space": (48,), "channels": ("u",), "coords": {"x": system.grid}}
train = Dataset((Series(states[:1100]),), system.dt, **grid)
model = lln.LensForecaster(parts=["linear", "polynomial"]).fit(train)
start = states[1101 - model.history_ : 1101]
figure = model.rollout(start, steps=400).plot(truth=states[1101:1501], title="Burgers: 400 unseen steps")
