"""Hyper-parameter search by Optuna."""
