"""The estimator, its results, its model file and the comparison of models."""
