"""Commands that draw a model: draw, animate, page."""
