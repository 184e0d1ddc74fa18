"""Export to C.

The step as one C file without dependencies or allocation, for a microcontroller or another program. If a compiler is
found, the export is compiled and run, and its difference from Python is reported.
"""

from pathlib import Path

import numpy as np

import lln
from lln.plots.style import figure_style, new_figure

angle = 0.2 * np.arange(500)
states = np.stack([np.cos(angle), np.sin(angle)], axis=1) * (1 + 0.1 * np.sin(0.05 * angle))[:, None]
model = lln.LensForecaster(members=1, epochs=5, width=8, depth=2).fit(states, dt=0.2, names=["x", "y"])
done = model.export("controller", format="c", precision="float", name="plant")
sizes = {path.name: path.stat().st_size / 1024 for path in map(Path, done.files)}
print(done.difference)

with figure_style():
    figure = new_figure(height=2.6)
    axis = figure.subplots()
    axis.barh(list(sizes), list(sizes.values()))
    axis.set_xlabel("size of the source file (KiB)")
    figure.suptitle("the step as C")
