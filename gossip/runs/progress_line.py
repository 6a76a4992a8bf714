"""Progress of a run: a live line on a terminal, plain lines elsewhere."""

import sys
import time
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from gossip.loop.outcome import TraceRows

SECONDS_BETWEEN_LINES = 2.0
"""Plain lines come no faster than this, but the first and the last always do."""


class RunProgress:
    """Shows the latest monitored values of one run; use as a context manager."""

    def __init__(
        self, name: str, steps: int, stream: TextIO | None = None, *, error: str = "error"
    ) -> None:
        self._name, self._steps, self._error = name, steps, error
        self._stream = stream = stream or sys.stderr
        self._last_line = 0.0
        self._bar: Progress | None = None
        if stream.isatty():
            self._bar = Progress(
                TextColumn("[bold]{task.description}"),
                BarColumn(bar_width=20),
                TextColumn("{task.completed:>5.0f}/{task.total:.0f}  {task.fields[values]}"),
                TimeRemainingColumn(),
                console=Console(file=stream),
            )
            self._task = self._bar.add_task(name, total=steps, values="")

    def __enter__(self) -> "RunProgress":
        if self._bar:
            self._bar.start()
        return self

    def __exit__(self, *exception: object) -> None:
        if self._bar:
            self._bar.stop()

    def show(self, rows: TraceRows) -> None:
        """Take in the newest rows of the trace."""
        newest = rows[-1]
        step = int(newest["step"])
        if self._bar:
            self._bar.update(self._task, completed=step, values=values_line(newest, self._error))
            return
        now = time.monotonic()
        # The row of the end has no mini-batch; a run may end before its last step, or by tau.
        is_end = "train_loss" not in newest
        if step == 0 or is_end or now - self._last_line >= SECONDS_BETWEEN_LINES:
            self._last_line = now
            line = f"{self._name:>9} {step:>6}/{self._steps}  {values_line(newest, self._error)}"
            print(line, file=self._stream, flush=True)


def values_line(row: dict[str, float], error: str = "error") -> str:
    """The monitored values worth a glance; `error` is what the test set's is called."""
    shown = (
        ("train_loss", "loss {:.4f}"),
        ("test_error", f"test {error} {{:6.2%}}"),
        ("alpha_e_ratio", "alpha_e/alpha {:6.3f}"),
        ("sigma_w2", "sigma_w² {:.2e}"),
        ("delta", "Delta {:.2e}"),
    )
    return "  ".join(text.format(row[name]) for name, text in shown if name in row)
