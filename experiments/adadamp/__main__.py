"""Entry point of `python -m experiments.adadamp`."""

import sys

from experiments.adadamp.command import main

if __name__ == "__main__":
    sys.exit(main())
