"""The fitter's strategy for fields on a grid."""
