"""A chaotic system.

The Lorenz attractor from a few thousand states. Errors grow with any model. The figure would mark where the forecast
stops being valid; this one is valid for all 490 steps.
"""

import lln

run = lln.simulate(lln.preset("lorenz-28"), 3600, dtype="float64")
states = run.states[500:]
model = lln.LensForecaster(history=1, time_limit=40).fit(states[:2600], dt=0.01, names=["x", "y", "z"])
figure = model.rollout(states[2600], steps=490).plot(truth=states[2601:3091], title="Lorenz: an unseen stretch")
