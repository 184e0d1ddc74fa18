"""The fitter: data, split, candidates, scores, choice, refit, report."""
