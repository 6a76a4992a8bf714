"""Entry point of `python -m experiments.bench`."""

import sys

from experiments.bench.command import main

if __name__ == "__main__":
    sys.exit(main())
