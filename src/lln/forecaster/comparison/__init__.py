"""Several models on the same data: fit, score, table."""
