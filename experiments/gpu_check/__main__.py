"""Entry point of `python -m experiments.gpu_check`."""

import sys

from experiments.gpu_check.command import main

if __name__ == "__main__":
    sys.exit(main())
