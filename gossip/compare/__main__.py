"""Entry point of `python -m gossip.compare`."""

import sys

from gossip.compare.command import main

if __name__ == "__main__":  # the processes that train import this module too
    sys.exit(main())
