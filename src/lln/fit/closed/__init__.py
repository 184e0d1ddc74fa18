"""Closed-form candidates in float64: units, linear maps, ridge regression, polynomials, drawn and trained lenses."""
