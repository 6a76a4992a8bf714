"""Entry point of `python -m experiments.fight`."""

import sys

from experiments.fight.command import main

if __name__ == "__main__":
    sys.exit(main())
