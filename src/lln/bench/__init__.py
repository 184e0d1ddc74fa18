"""Speed and memory, with the gate that the operator is right first. Imports with torch and NumPy alone."""
