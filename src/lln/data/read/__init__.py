"""One file per format, and the sandbox in which C libraries read files."""
