"""Which part of what was read is time, state, input or weight."""
