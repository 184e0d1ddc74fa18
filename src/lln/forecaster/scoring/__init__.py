"""Scores of a fitted forecaster on rows that it has not seen."""
