"""Polynomial vector fields, fitted so that their flow over one step of data gives the increments."""
