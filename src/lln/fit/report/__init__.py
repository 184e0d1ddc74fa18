"""What a fit reports about itself: choices, coverage, skill on held-out rows, prediction intervals."""
