"""The paper's split of a trajectory in time: steps that are skipped, pairs that train, steps of a test rollout."""

BURN_IN = 500
PAIRS = 3000
HORIZON = 500
