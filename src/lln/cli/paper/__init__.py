"""Commands for the paper: audit, report, reproduce."""
