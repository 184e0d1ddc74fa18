"""A model made visible: the drawing of its architecture and its web page."""
