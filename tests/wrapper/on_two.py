"""Scripts after each other in one job, as each would run: on_two.py SCRIPT [ARG ...] [// ...].

What takes most of such a script's time is the import of its libraries, which they share. Process 0
prints a line `== SCRIPT` before what a script prints.
"""

import runpy
import sys
from itertools import groupby
from pathlib import Path

from gossip.comm.startup.environment import speaks

BREAK = "//"
HEAD = "== "


def main(words: list[str]) -> None:
    """Run them."""
    for between, group in groupby(words, BREAK.__eq__):
        if between:
            continue
        sys.argv = list(group)
        if speaks():
            print(f"{HEAD}{Path(sys.argv[0]).name}", flush=True)
        runpy.run_path(sys.argv[0], run_name="__main__")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
