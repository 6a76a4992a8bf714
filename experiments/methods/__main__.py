"""Entry point of `python -m experiments.methods`."""

import sys

from experiments.methods.command import main

if __name__ == "__main__":
    sys.exit(main())
