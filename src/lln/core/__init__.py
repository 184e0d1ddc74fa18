"""Shared by all other folders: errors, checks, files, seeds, provenance, registry, workers. No torch here."""
