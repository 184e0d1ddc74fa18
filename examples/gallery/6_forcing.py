"""Known inputs.

A pump fills a tank. The setting of the pump is known in advance, so the forecast takes it as an input.
"""

import numpy as np

import lln

rng = np.random.default_rng(0)
pump = np.repeat(rng.uniform(0, 1, 40), 15)[:, None]
level = np.zeros((600, 1))
for k in range(599):
    level[k + 1] = 0.95 * level[k] + 0.2 * pump[k] - 0.01 * level[k] ** 2
model = lln.LensForecaster().fit(level[:450], dt=1.0, inputs=pump[:450], names=["level"])
future = model.rollout(level[451 - model.history_ : 451], steps=149, inputs=pump[450:599])
figure = future.plot(truth=level[451:600], title="a tank with a known pump setting")
