"""Entry point of `python -m experiments.flatness`."""

import sys

from experiments.flatness.command import main

if __name__ == "__main__":
    sys.exit(main())
