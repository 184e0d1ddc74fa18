"""The report of a fit: choices, coverage, skill on held-out rows, prediction intervals."""
