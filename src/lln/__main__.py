"""`python -m lln` is the command `lln`."""

from lln.cli import command

if __name__ == "__main__":
    command()
