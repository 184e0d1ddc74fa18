"""A page that runs the model.

One HTML file: the model runs in the browser, the start can be dragged, and the rays inside are drawn. A notebook shows
the page too.
"""

import lln
from lln.view.drawing import architecture_figure
from lln.view.rays import bench_of

states = lln.simulate(lln.preset("lorenz-28"), 3000, dtype="float64").states[500:]
model = lln.LensForecaster(members=1, epochs=60, history=1, width=32, depth=8)
model.fit(states[:2000], dt=0.01, names=["x", "y", "z"])
model.page(states, steps=300).save("lorenz.html")
figure = architecture_figure(bench_of(model.surrogate_, model.last_window_), rays=8, title="the rays of one step")
