"""When the checkpoints of a run are written, and which one the run goes on from."""

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from gossip.checkpoint import Snapshot, Writer, facts, newest, read, verify
from gossip.comm.startup.together import on_all, on_first
from gossip.errors import UserError
from gossip.runs import identity
from gossip.runs.recorder import Recorder
from gossip.storage.names import CHECKPOINTS
from gossip.study import Study

Say = Callable[[str], None]


class Checkpoints:
    """Saves a run every so many steps or minutes, with what its continuation has to know.

    Args:
        study: what it is a run of.
        recorder: its trace, which a checkpoint is cut from.
        path: the run's folder.
        start: what the run itself goes on from.
        say: takes a sentence for the user.
    """

    def __init__(
        self, study: Study, recorder: Recorder, path: Path, start: Snapshot | None, say: Say
    ) -> None:
        chosen = study.config.reliability
        self._every, self._seconds = chosen.checkpoint_every, 60 * chosen.checkpoint_minutes
        self._recorder = recorder
        self._facts = {
            "origin": identity.origin(study),
            "code": identity.code(),
            "attempt": 0 if start is None else int(start.facts["attempt"]) + 1,
        }
        self._writer = Writer(path / CHECKPOINTS, study.comm, keep=chosen.checkpoint_keep, say=say)
        self._last = time.monotonic()

    def overdue(self) -> bool:
        """Whether the time since the last checkpoint asks for one."""
        return 0 < self._seconds <= time.monotonic() - self._last

    def due(self, step: int) -> bool:
        """Whether the number of steps does."""
        return self._every > 0 and step % self._every == 0

    def save(self, snapshot: Snapshot) -> None:
        """Copy the run; a thread writes the copy."""
        more = {**self._facts, "trace_rows": self._recorder.sync()}
        self._writer.save(replace(snapshot, facts={**snapshot.facts, **more}))
        self._last = time.monotonic()

    def close(self) -> None:
        """Wait until the last one is on disk."""
        self._writer.close()


def take_up(path: Path, study: Study, say: Say) -> Snapshot | None:
    """The newest good checkpoint of the run in `path`; None if it has none. Collective.

    Raises:
        UserError: on all processes: there are some, but none is good or of this run.
    """
    comm = study.comm
    chosen = on_first(comm, lambda: _chosen(path, study, say))
    if chosen is None:
        return None
    start = on_all(comm, lambda: read(Path(chosen), comm.hosted))
    resumed_at = [*start.facts.get("resumed_at", []), start.step]
    return replace(start, facts={**start.facts, "resumed_at": resumed_at})


def _chosen(path: Path, study: Study, say: Say) -> str | None:
    """The checkpoint to go on from; None: there is none."""
    reasons = []
    for checkpoint in newest(path / CHECKPOINTS):
        try:
            verify(checkpoint)
            known = facts(checkpoint)
        except UserError as error:
            reasons.append(str(error))
            say(f"{error}; trying the one before")
            continue
        if mistake := _foreign(known, study):
            raise UserError(f"{checkpoint}: {mistake}")
        if known.get("code") != identity.code():
            say(
                "the code has changed since this run was begun (see [record] in its config.toml): "
                "it goes on, but perhaps not as it would have"
            )
        return str(checkpoint)
    if reasons:
        raise UserError(f"no checkpoint of {path} can be read: {'; '.join(reasons)}")
    return None


def _foreign(known: Mapping[str, Any], study: Study) -> str | None:
    """Why a checkpoint is not one of this study."""
    then, now = known.get("origin"), identity.origin(study)
    if not isinstance(then, dict):
        return "it does not say what it is a checkpoint of"
    differing = [name for name, value in now.items() if then.get(name) != value]
    names = {"start": "the model or its initial weights", "topology": "the mixing matrices"}
    if differing:
        texts = " and ".join(names.get(name, f"the {name}") for name in differing)
        return f"{texts} differ from those that the run was begun with"
    return None
