"""The PYTHONPATH of scripts that tests start, and with it how Python starts in them."""

import os
from collections.abc import Mapping
from pathlib import Path

HERE = Path(__file__).parent
PYTHONPATH = os.pathsep.join(map(str, (HERE.parents[1], HERE)))
"""Of gossip and its tests, and of `sitecustomize.py` beside this file."""
WHOLE = os.pathsep.join(map(str, (HERE / "whole", HERE)))
"""Of every other program: it looks for no garbage of imports, and has all of torch."""
CHECKOUT = os.pathsep.join((str(HERE.parents[1]), WHOLE))
"""With gossip and its tests, for programs in another folder."""


def with_start(environment: Mapping[str, str]) -> dict[str, str]:
    """PYTHONPATH with WHOLE before it."""
    paths = environment.get("PYTHONPATH", "")
    more = () if WHOLE in paths else (WHOLE,)
    return {"PYTHONPATH": os.pathsep.join(filter(None, (*more, paths)))}
