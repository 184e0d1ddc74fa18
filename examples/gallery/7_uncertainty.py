"""Uncertainty from an ensemble.

Each member of an ensemble is rolled out alone. Where they differ, the forecast is uncertain.
"""

import lln

states = lln.simulate(lln.preset("lorenz-28"), 4000, dtype="float64").states[500:]
model = lln.LensForecaster(members=3, history=1, time_limit=40).fit(states[:2600], dt=0.01, names=["x", "y", "z"])
figure = model.sample(states[2600], steps=890).plot(truth=states[2601:3491], title="three members, one start")
