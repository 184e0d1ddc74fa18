"""What every other folder may use: errors, checks, files, seeds, provenance, registry, workers. No torch here."""
