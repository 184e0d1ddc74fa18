"""A network, a closed-form part, a metric and a system for lln, registered by entry points in pyproject.toml."""
