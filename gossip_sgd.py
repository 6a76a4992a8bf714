"""The console scripts of the distribution gossip-sgd, in the one module that is surely its own.

On the package index `gossip` is another library (signals and hooks), and so is `topologies`. Where
one of them is installed as well, Python may find it in place of ours, or its `__init__.py` on top
of our files. A script rules that out and is then `python -m` of the module it is named after.
"""

import runpy
import sys
from functools import partial
from importlib.util import find_spec
from pathlib import Path

OURS = {"gossip": b"prepare_environment", "topologies": b"TOPOLOGIES"}
"""By import name, what stands in our package's `__init__.py` and in no other's."""


def stranger(package: str) -> str | None:
    """What is wrong and what to do if the `package` that Python finds is not ours, else None."""
    # Read, not imported: that could fail for want of what the other one needs.
    spec = find_spec(package)
    file = spec and spec.origin
    if file and OURS[package] in Path(file).read_bytes():
        return None
    where = file or "a folder without __init__.py"
    return f"import {package} finds another library ({where}), not gossip-sgd: {way_out(package)}"


def way_out(package: str) -> str:
    """What to do where another distribution of the name `package` is installed."""
    return f"pip uninstall {package}, then install gossip-sgd again, with --force-reinstall"


def start(module: str) -> None:
    """Be `python -m module`, or exit with code 2 if its package is another library's."""
    if reason := stranger(module.partition(".")[0]):
        print(f"{module}: {reason}", file=sys.stderr)
        sys.exit(2)
    runpy.run_module(module, run_name="__main__", alter_sys=True)


run = partial(start, "gossip.run")
launch = partial(start, "gossip.launch")
report = partial(start, "gossip.report")
compare = partial(start, "gossip.compare")
schedule = partial(start, "gossip.schedule")
simulate = partial(start, "gossip.simulate")
watch = partial(start, "gossip.watch")
landscape = partial(start, "gossip.landscape")
data = partial(start, "gossip.data")
topologies = partial(start, "topologies")
