"""One learned step: units, features, closed-form parts and networks; rollout, Jacobian, inverse."""
