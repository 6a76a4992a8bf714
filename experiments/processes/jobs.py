"""Jobs of 16 real processes are launched and watched, for times and deaths that are real."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from gossip import trace
from gossip.errors import UserError

N = 16
WATCH_SECONDS = 0.1
LIMIT_SECONDS = 1800.0

Watch = Callable[[int], None]
"""Called while a job runs, with the newest step in its trace."""


def launched(arguments: Sequence[str], out: Path, watch: Watch = lambda step: None) -> str:
    """Run gossip.launch with 16 processes and wait for it; gives what it has printed.

    Raises:
        UserError: it failed; what it printed is in the file beside the folder.
    """
    command = [sys.executable, "-m", "gossip.launch", "-n", str(N), *arguments, "--out", str(out)]
    out.parent.mkdir(parents=True, exist_ok=True)
    log = out.with_name(f"{out.name}.log")
    deadline = time.monotonic() + LIMIT_SECONDS
    with log.open("w", encoding="utf-8") as file:
        job = subprocess.Popen(command, stdout=file, stderr=file)
        try:
            while job.poll() is None and time.monotonic() < deadline:
                time.sleep(WATCH_SECONDS)
                watch(newest_step(out))
        finally:
            job.terminate()
            job.wait()
    if job.returncode:
        raise UserError(f"{' '.join(arguments)} ended with {job.returncode}; see {log}")
    return log.read_text(encoding="utf-8")


def newest_step(out: Path) -> int:
    """The last step that the trace of a run tells of; -1 before the first."""
    try:
        steps = trace.column(trace.load(out), "step")
    except UserError:
        return -1
    return int(steps[-1]) if len(steps) else -1


def processes_of(out: Path) -> list[int]:
    """Processes that train into the folder, by their command lines; not their launchers."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if words[0].endswith(b"python") and b"gossip.run" in words and os.fsencode(out) in words:
            found.append(int(entry.name))
    return sorted(found)


def mean_and_spread(values: Sequence[float]) -> str:
    """'4.2 ± 0.5', the sample's standard deviation; '4.2' of one value."""
    if len(values) == 1:
        return f"{values[0]:.2f}"
    return f"{np.mean(values):.2f} ± {np.std(values, ddof=1):.2f}"
