"""Entry point of `python -m experiments.nets`."""

import sys

from experiments.nets.command import main

if __name__ == "__main__":
    sys.exit(main())
