"""`python -m benchmarks.speed`: speed and memory, also where only torch and NumPy are installed."""

from __future__ import annotations

import sys

from benchmarks.speed.command import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
