"""Entry point of `python -m experiments.account`."""

import sys

from experiments.account.command import main

if __name__ == "__main__":
    sys.exit(main())
