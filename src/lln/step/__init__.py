"""What one step is: units, features, closed-form parts and networks; rollout, Jacobian, inverse."""
