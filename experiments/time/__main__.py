"""Entry point of `python -m experiments.time`."""

import sys

from experiments.time.command import main

if __name__ == "__main__":
    sys.exit(main())
