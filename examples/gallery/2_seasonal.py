"""A seasonal series.

Monthly sales with a trend, a season and noise. The fit finds the season by itself; months are steps of the calendar.
"""

import numpy as np
import pandas as pd

import lln

months = np.arange(160)
values = 100 + 0.5 * months + 20 * np.sin(2 * np.pi * months / 12) + 8 * np.cos(4 * np.pi * months / 12)
values += 4 * np.random.default_rng(0).normal(size=160)
sales = pd.DataFrame({"sales": values}, index=pd.date_range("2012-01-01", periods=160, freq="MS"))
model = lln.LensForecaster().fit(sales[:130])
future = model.rollout(steps=30, level=0.9)
figure = future.plot(truth=sales, title="monthly sales: forecast of 30 unseen months")
