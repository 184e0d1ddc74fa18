"""Make the small Lorenz model and its data that the documentation's live page shows.

    python docs/live/make.py

The page itself is built from them whenever the documentation is built, so that it always has the present script.
"""

from pathlib import Path

import numpy as np

import lln

HERE = Path(__file__).parent


def main() -> None:
    """Simulate, fit with the last 600 states unseen, and write both files."""
    run = lln.simulate(lln.preset("lorenz-28"), 3500)
    states = np.asarray(run.states, dtype=np.float32)[500:]
    np.savez_compressed(HERE / "lorenz.npz", states=states)
    model = lln.LensForecaster(members=1, width=48, depth=8, epochs=60, history=1)
    model.fit(states[:-600].astype(np.float64), dt=0.01, names=["x", "y", "z"])
    model.save(HERE / "lorenz.lln")
    print(model.evaluate(states[-600:].astype(np.float64), dt=0.01))


if __name__ == "__main__":
    main()
