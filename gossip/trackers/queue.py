"""A bounded queue between a run and its tracker, which may be slow, offline or not there."""

import math
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from queue import Empty, Full, Queue
from time import monotonic
from typing import Any

from gossip.comm.startup.inherited import say
from gossip.errors import lookup, said
from gossip.storage.tables import flat
from gossip.trackers.adapters import TRACKERS, About

WAITING = 1_000
"""Rows that wait for a tracker at most; of more, the newest are left out."""
PATIENCE_SECONDS = 10.0
"""What the end of a run waits for its tracker at most."""


class Tracking:
    """Rows on their way to one tracker, through a thread of their own.

    Whatever the tracker does (it is not installed, raises, hangs), the run is neither stopped nor
    slowed: rows are dropped, and that is said once.

    Args:
        name: one of `TRACKERS`.
        about: the run.
        patient: whether rows wait for room instead, as those of a run that is over.

    Raises:
        UserError: there is no such tracker.
    """

    def __init__(self, name: str, about: About, *, patient: bool = False) -> None:
        self._name, self._about, self._patient = name, about, patient
        self._open = lookup(TRACKERS, name, "tracker")
        self._rows: Queue[Mapping[str, float] | None] = Queue(WAITING)
        self._warned, self._lock = False, threading.Lock()
        self.failed = False
        """Whether the tracker has raised: nothing more goes to it."""
        self.done = False
        """Whether it has taken all rows that were not left out, and has ended well."""
        self._thread = threading.Thread(target=self._work, name=f"--log {name}", daemon=True)
        self._thread.start()

    def rows(self, rows: Sequence[Mapping[str, float]]) -> None:
        """Take in rows of the trace; returns at once, unless patient."""
        for row in rows:
            if self.failed or len(row) < 2:
                continue
            while not self._put(row) and self._patient and not self.failed:
                pass

    def close(self, seconds: float) -> None:
        """There are no more rows: wait for those that are on their way, for so long at most."""
        end = monotonic() + seconds
        with suppress(Full):
            self._rows.put(None, timeout=seconds)
        self._thread.join(max(0.0, end - monotonic()))
        if self._thread.is_alive():
            self._warn(f"has not taken the last rows within {seconds:g} s, and they are left out")

    def _put(self, row: Mapping[str, float]) -> bool:
        try:
            self._rows.put(dict(row), block=self._patient, timeout=1.0)
        except Full:
            if not self._patient:
                self._warn(f"is too slow for {WAITING} rows, and some are left out")
            return False
        return True

    def _work(self) -> None:
        try:
            tracker = self._open(self._about)
            while (row := self._rows.get()) is not None:
                values = {name: float(v) for name, v in row.items() if math.isfinite(v)}
                step = int(values.pop("step"))
                if values:
                    tracker.log(step, values)
            tracker.close()
            self.done = True
        # A tracker is other people's code, and may be on the other side of a network. It may even
        # try to end the process (wandb's "no API key" is an exit in some versions).
        except (Exception, SystemExit) as error:
            self.failed = True
            missing = isinstance(error, ModuleNotFoundError)
            hint = f": pip install 'gossip-sgd[{self._name}]'" if missing else ""
            self._warn(f"does not work, and gets nothing more ({said(error)}){hint}")
            with suppress(Empty):  # room for the last word of `close`, which would wait for it
                while True:
                    self._rows.get_nowait()

    def _warn(self, text: str) -> None:
        with self._lock:
            first, self._warned = not self._warned, True
        if first:
            say(f"note: --log {self._name} {text}; the run and its trace go on without it")


def close_all(trackers: Sequence[Tracking]) -> None:
    """Wait for all of them together, for `PATIENCE_SECONDS` at most."""
    end = monotonic() + PATIENCE_SECONDS
    for tracker in trackers:
        tracker.close(max(0.0, end - monotonic()))


def facts_of(folder: Path, config: Mapping[str, Any]) -> About:
    """What a tracker is told of the run in a folder: its last two names, and its settings."""
    path = folder.absolute()
    known = {name: value for name, value in flat(dict(config)).items() if value is not None}
    settings = {k: v for k, v in known.items() if not k.startswith("record.")}
    return About("/".join(path.parts[-2:]), path, settings)
