"""A quick look into a run folder, for launcher, sweep and resume."""

import itertools
import time
from pathlib import Path
from typing import Any

from gossip.storage import tables
from gossip.storage.names import (
    CHECKPOINTS,
    CONFIG,
    FINAL,
    MANIFEST,
    STEP,
    SUMMARY,
    step_folder,
)


def free_folder() -> Path:
    """runs/TIME, or runs/TIME-2 and so on: a folder that is not there."""
    out = Path("runs") / time.strftime("%Y%m%d-%H%M%S")
    same_second = (out.with_name(f"{out.name}-{k}") for k in itertools.count(2))
    while out.exists():
        out = next(same_second)
    return out


def read_config(out: Path) -> dict[str, Any]:
    """config.toml of a run folder.

    Raises:
        OSError: it is not there, or cannot be read.
        ValueError: it is not TOML, or too large to be one of ours.
    """
    return tables.read_toml(out / CONFIG)


def folders_of(out: Path) -> list[Path]:
    """The folders of the runs, in their order; none where there is no config."""
    try:
        names = read_config(out)["algorithm"]
    except (OSError, ValueError, KeyError):
        return []
    several = isinstance(names, list) and len(names) > 1
    return [out / str(name) for name in names] if several else [out]


def learners_left(out: Path) -> int | None:
    """Learners of the newest checkpoint: fewer than at the beginning if some were lost.

    Returns:
        None: there is none, or none that says so.
    """
    for folder in reversed(folders_of(out)):
        step = checkpoints(folder).get("")
        if step is None:
            continue
        n = _json(folder / CHECKPOINTS / step_folder(step) / MANIFEST).get("n")
        return n if isinstance(n, int) and n > 0 else None
    return None


def all_ended(out: Path) -> bool:
    """Whether every run in the folder has come to its end; True also where there is no run."""
    return all(verdict(folder) in FINAL for folder in folders_of(out))


def verdict(folder: Path) -> str | None:
    """What the summary of a run says came of it; None if it has none, or none of ours."""
    return _json(folder / SUMMARY).get("verdict")


def checkpoints(out: Path) -> dict[str, int]:
    """Step of the newest complete checkpoint of each run in the folder; '' is the folder's own."""
    newest: dict[str, int] = {}
    for runs in ("", "*/"):
        for manifest in out.glob(f"{runs}{CHECKPOINTS}/step-*/{MANIFEST}"):
            run = "/".join(manifest.relative_to(out).parts[:-3])
            if match := STEP.fullmatch(manifest.parent.name):
                newest[run] = max(newest.get(run, 0), int(match[1]))
    return newest


def _json(path: Path) -> dict[str, Any]:
    """A table that may be missing or damaged: then it is empty."""
    try:
        return tables.read_json(path)
    except (OSError, ValueError):
        return {}
