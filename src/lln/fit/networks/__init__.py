"""Network candidates: sizes, training of one candidate, fine-tuning over several steps."""
