"""Entry point of `python -m experiments.rivals`."""

import sys

from experiments.rivals.command import main

if __name__ == "__main__":
    sys.exit(main())
