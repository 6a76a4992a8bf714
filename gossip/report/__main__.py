"""Entry point of `python -m gossip.report`."""

import sys

from gossip.report.command import main

sys.exit(main())
