"""How well `LensForecaster()` forecasts with its defaults, beside what an expert would try first."""
