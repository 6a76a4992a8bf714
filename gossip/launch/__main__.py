"""`python -m gossip.launch`."""

import sys

from gossip.launch.mpirun import main

sys.exit(main())
