"""Entry point of `python -m experiments.lena`."""

import sys

from experiments.lena.command import main

if __name__ == "__main__":
    sys.exit(main())
