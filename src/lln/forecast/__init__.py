"""From trajectories to a surrogate: the estimator, its recipe, files and exports."""
