"""Entry point of `python -m experiments.smoothness`."""

import sys

from experiments.smoothness.command import main

if __name__ == "__main__":
    sys.exit(main())
