"""How far members agree.

Each member of an ensemble is rolled out alone. Where they part, the forecast is no longer certain.
"""

import lln

states = lln.simulated(lln.preset("lorenz-28"), 2600, dtype="float64").states[500:]
model = lln.LensForecaster(members=3, epochs=10, history=1, width=24, depth=3)
model.fit(states[:1600], dt=0.01, names=["x", "y", "z"])
figure = model.sample(states[1600], steps=400).plot(truth=states[1601:2001], title="three members, one start")
