"""The paper's theorems and counts, checked numerically."""
