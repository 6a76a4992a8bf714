"""Entry point of `python -m experiments.date`."""

import sys

from experiments.date.command import main

if __name__ == "__main__":
    sys.exit(main())
