"""Entry point of `python -m gossip.landscape`."""

import sys

from gossip.landscape.command import main

if __name__ == "__main__":
    sys.exit(main())
