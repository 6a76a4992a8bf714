"""Entry point of `python -m experiments.language`."""

import sys

from experiments.language.command import main

if __name__ == "__main__":
    sys.exit(main())
