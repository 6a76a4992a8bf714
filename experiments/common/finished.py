"""The finished runs of a study's folder by name."""

from collections.abc import Iterable
from pathlib import Path

from gossip.report import Run, load_runs
from gossip.runs import sweep


def finished(folder: Path, wanted: Iterable[str] | None = None) -> dict[str, Run]:
    """Runs that came to their end, by the names of their folders.

    Args:
        folder: of the study, a folder in it for each run.
        wanted: names, in whose order they come; None: all that there are.
    """
    there = {path.name: path for path in sweep.finished(folder)}
    names = there if wanted is None else [name for name in wanted if name in there]
    return {name: run for name in names for run in load_runs([there[name]])}
