"""A network, a metric and a system for lln, registered by entry points in pyproject.toml."""
