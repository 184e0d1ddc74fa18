"""`python -m lln` is the command `lln`."""

from lln.cli import main

if __name__ == "__main__":
    main()
