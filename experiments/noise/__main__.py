"""Entry point of `python -m experiments.noise`."""

import sys

from experiments.noise.command import main

if __name__ == "__main__":
    sys.exit(main())
