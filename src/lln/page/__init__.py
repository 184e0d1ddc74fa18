"""The optical bench in the browser: one self-contained page that runs a model."""
