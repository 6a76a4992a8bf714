"""A part runs in processes of its own until it ends, or until its time is up and it is killed."""

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

PATIENCE_SECONDS = 12.0
"""Seconds from SIGTERM to SIGKILL: `gossip.launch` takes up to 8 s to end its processes."""
LEFT_OUT, CANNOT = "left out: ", "cannot: "
"""Prefixes of the lines of a log that say what is left out, and why a part cannot be run here.

The exit code does not tell the latter: torchrun's is 1, whatever its processes end with.
"""


@dataclass(frozen=True)
class Ended:
    """The end of a part: its exit code and its log."""

    code: int | None
    """Exit code; None: its time was up."""
    seconds: float
    log: str

    @property
    def cannot(self) -> str | None:
        """The reason that its log gives for not running here, if there is one."""
        return next(iter(self._after(CANNOT)), None)

    @property
    def left_out(self) -> list[str]:
        """The cases that its log says are left out."""
        return self._after(LEFT_OUT)

    @property
    def reason(self) -> str:
        """Why it has not ended well: the last line that names an error, else the last."""
        lines = [line.strip() for line in self.log.splitlines() if line.strip()]
        last = next((line for line in reversed(lines) if "Error: " in line), (lines or ["-"])[-1])
        if self.code is None:
            return f"not done after {self.seconds:.0f} s; the log says last: {last}"
        return self.cannot or f"exit code {self.code}: {last}"

    def _after(self, beginning: str) -> list[str]:
        lines = (line.strip() for line in self.log.splitlines())
        return [line.removeprefix(beginning) for line in lines if line.startswith(beginning)]


def run(command: Sequence[str], seconds: float, log: Path, environment: Mapping[str, str]) -> Ended:
    """Run a part to its end or for so long; what it says goes into a file."""
    start = time.monotonic()
    with log.open("wb") as file:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            env=dict(environment),
            start_new_session=True,
        )
        try:
            code: int | None = process.wait(seconds)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            _end(process)
    took = time.monotonic() - start
    return Ended(code, took, log.read_text(encoding="utf-8", errors="replace"))


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process and its group, by force if need be."""
    if process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(PATIENCE_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
