"""One part in processes of its own: it ends, or it is ended."""

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

PATIENCE_SECONDS = 12.0
"""From the order to end to the kill: `gossip.launch` takes up to 8 s to end its processes."""
LEFT_OUT, CANNOT = "left out: ", "cannot: "
"""How a line of a log begins that says what is not done, and why a part cannot be run here.

The exit code does not tell the latter: torchrun's is 1, whatever its processes end with.
"""


@dataclass(frozen=True)
class Ended:
    """How a part ended."""

    code: int | None
    """None: its time was up."""
    seconds: float
    log: str

    @property
    def cannot(self) -> str | None:
        """Why it cannot be run here, if it says so."""
        return next(iter(self._after(CANNOT)), None)

    @property
    def left_out(self) -> list[str]:
        """What it says that it does not do."""
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
