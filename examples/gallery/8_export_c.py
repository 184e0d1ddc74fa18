"""Export to C.

The step as one C file without dependencies or allocation, for a microcontroller or another program. The export compiles
and runs it where a compiler is found, and reports the difference from Python.
"""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import lln

angle = 0.2 * np.arange(500)
states = np.stack([np.cos(angle), np.sin(angle)], axis=1) * (1 + 0.1 * np.sin(0.05 * angle))[:, None]
model = lln.LensForecaster(members=1, epochs=5, width=8, depth=2).fit(states, dt=0.2, names=["x", "y"])
done = model.export("controller", format="c", precision="float", name="plant")
sizes = {path.name: path.stat().st_size / 1024 for path in map(Path, done.files)}
print(done.difference)

figure = Figure(figsize=(6.4, 2.4), layout="constrained")
axis = figure.subplots()
axis.barh(list(sizes), list(sizes.values()), color="#0072B2")
axis.set_xlabel("size of the source file (KiB)")
axis.set_title("the step as C")
