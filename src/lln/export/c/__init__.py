"""A fitted step as C99."""
