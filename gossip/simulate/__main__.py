"""Entry point of `python -m gossip.simulate`."""

import sys

from gossip.simulate.command import main

if __name__ == "__main__":
    sys.exit(main())
