"""Python forks what it would start, if its environment says so; see `tests.stand_in`."""

import os
import sys
from pathlib import Path

if "TESTS_FORKED" in os.environ:  # `tests.stand_in.FORKED`: others need not import that
    sys.path.append(str(Path(__file__).parents[2]))
    from tests.stand_in import instead

    instead()
    sys.path.pop()
