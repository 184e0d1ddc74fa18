"""`python -m lln.bench`: the benchmark where only torch and NumPy are installed; `lln bench` takes the same words."""

from __future__ import annotations

import sys

from lln.bench.command import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
