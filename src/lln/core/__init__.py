"""What every room of the house may lean on: errors, seeds, shapes, provenance. No torch here."""
