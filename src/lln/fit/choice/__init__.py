"""What decides between candidates: held-out rows, rollouts over them, scores, noise, histories."""
