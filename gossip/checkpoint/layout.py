"""What a folder of checkpoints looks like: the only names that are ever written or opened.

RUN/checkpoint/
    step-000000500/             complete: it got this name when all in it was on disk
        manifest.json           what it is, and size and hash of the other files
        shared.safetensors      what all processes have in common
        block-00003.safetensors the rows of the learners of process 3
    .step-000000600.0.partial/  being written, by attempt 0 of the run; or left by a killed one
        block-00003.json        process 3 has done its part, or has failed to
"""

import os
import re
import shutil
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from gossip.storage.names import MANIFEST, STEP, step_folder

SHARED = "shared.safetensors"

_PARTIAL = re.compile(r"\.step-([0-9]{9,18})\.\w+\.partial")


def block(process: int) -> str:
    """The file of a process's rows."""
    return f"block-{process:05d}.safetensors"


def report_file(process: int) -> str:
    """The file by which a process says that it has done its part."""
    return f"block-{process:05d}.json"


def partial(step: int, attempt: int | str) -> str:
    """The folder of a checkpoint that is being written, or removed."""
    return f".{step_folder(step)}.{attempt}.partial"


def newest(folder: Path) -> list[Path]:
    """The complete checkpoints in `folder`, that with the most steps first.

    Clocks go backwards, so no file's time is asked. That a checkpoint is complete does not say
    that it is undamaged: `check` does.
    """
    found = [(step, path) for step, path in _folders(folder, STEP) if _has_manifest(path)]
    return [path for step, path in sorted(found, reverse=True) if path.name == step_folder(step)]


def remove_partial(folder: Path, before: int | None = None) -> None:
    """Remove what killed attempts have left of steps < `before` (None: of all), if possible."""
    for step, path in list(_folders(folder, _PARTIAL)):
        if before is None or step < before:
            shutil.rmtree(path, ignore_errors=True)


def remove_complete(path: Path, step: int) -> None:
    """Remove the checkpoint in `path`; a kill meanwhile leaves none that looks complete.

    Raises:
        OSError: it cannot be removed.
    """
    aside = path.with_name(partial(step, "old"))
    shutil.rmtree(aside, ignore_errors=True)
    path.rename(aside)
    shutil.rmtree(aside, ignore_errors=True)


def prune(folder: Path, step: int, keep: int) -> None:
    """Remove, if possible, all but the last `keep` checkpoints of up to `step` steps.

    Those of more steps are from before the run was taken up again: it may need them no more,
    but it would be a pity if they were good and the one just written were removed for them.
    """
    past = [path for path in newest(folder) if step_of(path) <= step]
    for path in past[keep:]:
        with suppress(OSError):
            remove_complete(path, step_of(path))
    remove_partial(folder, before=step)


def step_of(path: Path) -> int:
    """Number of steps in the name of a complete checkpoint; -1 if it is not such a name."""
    match = STEP.fullmatch(path.name)
    return int(match[1]) if match else -1


def _folders(folder: Path, pattern: re.Pattern[str]) -> Iterator[tuple[int, Path]]:
    """Steps and paths of the real folders in `folder` whose names match."""
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                match = pattern.fullmatch(entry.name)
                if match and entry.is_dir(follow_symlinks=False):
                    yield int(match[1]), folder / entry.name
    except OSError:
        return


def _has_manifest(path: Path) -> bool:
    try:
        return stat.S_ISREG((path / MANIFEST).lstat().st_mode)
    except OSError:
        return False
