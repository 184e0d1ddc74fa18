"""A chaotic system.

The Lorenz attractor from a few thousand states. Errors grow whatever the model is; the figure marks where the forecast
stops being valid.
"""

import lln

run = lln.simulated(lln.preset("lorenz-28"), 3000, dtype="float64")
states = run.states[500:]
model = lln.LensForecaster(members=1, epochs=25, history=1, width=48, depth=4)
model.fit(states[:2000], dt=0.01, names=["x", "y", "z"])
figure = model.rollout(states[2000], steps=490).plot(truth=states[2001:2491], title="Lorenz: an unseen stretch")
