"""Entry point of `python -m gossip.watch`."""

import sys

from gossip.watch.command import main

if __name__ == "__main__":
    sys.exit(main())
