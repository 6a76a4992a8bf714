"""One checkpoint on its way to the disk: each process's part, and what process 0 makes of them.

Processes do not talk here: they share a folder. A process that has done its part, or failed to,
leaves a report there; process 0 waits for all reports and gives the folder its final name, so a
checkpoint is complete or not there, whenever a process or the machine is lost.
"""

import errno
import json
import os
import shutil
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec
from torch import Tensor

from gossip.checkpoint import layout
from gossip.checkpoint.files import (
    Content,
    NotKeptError,
    remove,
    write,
    write_tensors,
)
from gossip.checkpoint.manifest import FORMAT, Block, Manifest, render
from gossip.checkpoint.reading import verify
from gossip.errors import UserError
from gossip.storage import names
from gossip.storage.folder import sync_folder

PATIENCE = 300.0
"""Seconds that process 0, done with its own part, waits for the others'."""
POLL_SECONDS = 0.02, 0.5
"""Between two looks for their reports: at first, and at most."""


class Report(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a process says of its part: what it has written, or why it could not."""

    first: int
    last: int
    content: Content | None
    failure: str | None = None


@dataclass(frozen=True, kw_only=True)
class CheckpointPart:
    """What one process writes of a checkpoint."""

    folder: Path
    """That of all checkpoints of the run."""
    step: int
    attempt: int
    n: int
    process: int
    processes: int
    hosted: range
    rows: dict[str, Tensor]
    shared: dict[str, Tensor]
    """Empty but on process 0, which writes it."""
    facts: str
    """JSON."""

    @property
    def partial(self) -> Path:
        """Where it is until it is complete."""
        return self.folder / layout.partial(self.step, self.attempt)


def write_part(part: CheckpointPart) -> Content | None:
    """Write this process's part; then report it, or the failure, to process 0.

    Returns:
        The shared file's content, on process 0.

    Raises:
        OSError, NotKeptError: it could not be written; as little as possible is left of it.
    """
    block = part.partial / layout.block(part.process)
    report = part.partial / layout.report_file(part.process)
    shared = part.partial / layout.SHARED
    ends = part.hosted.start, part.hosted.stop - 1
    try:
        _make(part)
        report.unlink(missing_ok=True)
        content = write_tensors(block, part.rows)
        written = write_tensors(shared, part.shared) if part.process == 0 else None
        write(report, [msgspec.json.encode(Report(*ends, content))])
    except (OSError, NotKeptError) as error:
        remove(block)
        if part.process == 0:
            remove(shared)
        _report_failure(report, Report(*ends, None, reason(error)))
        raise
    return written


def finish(part: CheckpointPart, shared: Content | None) -> None:
    """Wait for all parts and complete the checkpoint; on process 0, whatever became of its part.

    Args:
        part: of process 0.
        shared: content of its shared file; None if it could not be written.

    Raises:
        OSError, NotKeptError: a part is missing; nothing is left of the checkpoint if possible.
    """
    try:
        # Also if it is in vain: the folder must not be removed while the others write in it.
        reports = _wait(part, failed=shared is None)
        if shared is not None:
            _complete(part, reports, shared)
    finally:
        shutil.rmtree(part.partial, ignore_errors=True)


def reason(error: Exception) -> str:
    """Why something could not be written."""
    return (isinstance(error, OSError) and error.strerror) or str(error)


def _make(part: CheckpointPart) -> None:
    """Make the folders, those of the checkpoints and of the run too if somebody removed them."""
    if not part.folder.is_dir():
        part.folder.mkdir(parents=True, exist_ok=True)
        sync_folder(part.folder.parent)
    part.partial.mkdir(exist_ok=True)


def _report_failure(path: Path, report: Report) -> None:
    """Say why, or at least that, this process has failed, if possible."""
    try:
        write(path, [msgspec.json.encode(report)])
    except OSError:
        with suppress(OSError):
            path.touch()  # an empty file fits on a full disk


def _wait(part: CheckpointPart, *, failed: bool) -> list[Report]:
    """The reports of all processes, but for this one if it has failed.

    Raises:
        NotKeptError: one is missing, or says that the process failed.
    """
    missing, reports = set(range(part.processes)), {}
    if failed:
        missing.remove(part.process)
    deadline, (pause, longest) = time.monotonic() + PATIENCE, POLL_SECONDS
    while True:
        for process in sorted(missing):
            with suppress(FileNotFoundError):
                reports[process] = _report(part.partial / layout.report_file(process))
        missing -= reports.keys()
        if not missing:
            break
        if not part.partial.exists():
            raise NotKeptError("its folder was removed")
        if time.monotonic() > deadline:
            raise NotKeptError(f"process {min(missing)} has not written its part")
        time.sleep(pause)
        pause = min(2 * pause, longest)
    for process, report in sorted(reports.items()):
        if report.failure is not None:
            raise NotKeptError(f"process {process}: {report.failure}")
    return [reports[process] for process in sorted(reports)]


def _report(path: Path) -> Report:
    data = path.read_bytes()
    try:
        return msgspec.json.decode(data, type=Report)
    except msgspec.MsgspecError:
        full = f"it failed without room to say why: {os.strerror(errno.ENOSPC)}"
        why = "it is damaged" if data else full
        return Report(0, 0, None, f"{path.name}: {why}")


def _complete(part: CheckpointPart, reports: list[Report], shared: Content) -> None:
    """Give the folder its manifest and its final name."""
    blocks = []
    for process, report in enumerate(reports):
        name, content = layout.block(process), report.content
        if content is None or (part.partial / name).stat().st_size != content.bytes:
            raise NotKeptError(f"{name} was changed")
        blocks.append(Block(report.first, report.last, name, content.bytes, content.sha256))
    manifest = Manifest(FORMAT, part.step, part.n, blocks, shared, json.loads(part.facts))
    write(part.partial / names.MANIFEST, [render(manifest)])
    for process in range(part.processes):
        (part.partial / layout.report_file(process)).unlink()
    sync_folder(part.partial)
    final = part.folder / names.step_folder(part.step)
    if final.exists():
        try:
            verify(final)
        except UserError:
            layout.remove_complete(final, part.step)
        else:
            return
    part.partial.rename(final)
    sync_folder(part.folder)
