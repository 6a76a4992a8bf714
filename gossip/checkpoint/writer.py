"""Checkpoints written in the background, while the run goes on."""

import json
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from torch import Tensor

from gossip.checkpoint import layout
from gossip.checkpoint.files import NotKeptError
from gossip.checkpoint.saving import CheckpointPart, finish, reason, write_part
from gossip.checkpoint.snapshot import Snapshot
from gossip.comm.base import Communicator


class Writer:
    """Keeps the last checkpoints of a run; never ends it.

    All processes save the same steps, and each process writes its own learners' rows, to a file
    system that they share. Nothing here is collective. The disk must have room for one more
    checkpoint than are kept, the memory for one copy of the tensors.

    Attributes:
        failures: how many checkpoints could not be kept, as far as this process knows; process 0
            knows of all.
    """

    def __init__(
        self, folder: Path, comm: Communicator, *, keep: int, say: Callable[[str], None]
    ) -> None:
        """A writer, on process 0 to be made before any process saves: it removes leftovers.

        Args:
            folder: where the checkpoints are kept, made when the first is; one job alone writes
                there at a time.
            comm: says who hosts which learners.
            keep: how many checkpoints stay, at least 1.
            say: takes a sentence for the user; called from another thread.
        """
        assert keep >= 1, "a run that keeps no checkpoint needs no writer"
        self._folder, self._comm, self._keep, self._say = Path(folder), comm, keep, say
        self._thread: threading.Thread | None = None
        self.failures = 0
        if comm.process == 0:
            layout.remove_partial(self._folder)

    def save(self, snapshot: Snapshot) -> None:
        """Wait until this process is done with the previous checkpoint; copy this one.

        A thread writes the copy: the tensors and facts may be changed at once.

        Args:
            snapshot: `facts["attempt"]`, the same on all processes, tells this job from earlier
                ones which may have left a part of a checkpoint of the same step.
        """
        self.close()
        comm, first = self._comm, self._comm.process == 0
        assert all(len(rows) == len(comm.hosted) for rows in snapshot.rows.values())
        part = CheckpointPart(
            folder=self._folder,
            step=snapshot.step,
            attempt=int(snapshot.facts.get("attempt", 0)),
            n=comm.n,
            process=comm.process,
            processes=comm.processes,
            hosted=comm.hosted,
            rows=_copies(snapshot.rows),
            shared=_copies(snapshot.shared) if first else {},
            facts=json.dumps(snapshot.facts) if first else "",
        )
        # A daemon: a job that ends by an error does not wait for parts that may never come.
        self._thread = threading.Thread(
            target=self._write, args=(part,), name="checkpoint", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Wait until this process is done with the last checkpoint.

        A process is done when its part is on disk; process 0 when the checkpoint is complete or
        given up.
        """
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _write(self, part: CheckpointPart) -> None:
        failure: Exception | None = None
        shared = None
        try:
            shared = write_part(part)
        except (OSError, NotKeptError) as error:
            failure = error
        if part.process == 0:
            try:
                finish(part, shared)
            except (OSError, NotKeptError) as error:
                failure = failure or error
        if failure is not None:
            self._fail(part.step, reason(failure))
        elif part.process == 0:
            layout.prune(self._folder, part.step, self._keep)

    def _fail(self, step: int, why: str) -> None:
        self.failures += 1
        others = layout.newest(self._folder)
        rest = (
            f"the one of step {layout.step_of(others[0])} stays" if others else "there is no other"
        )
        self._say(f"cannot keep the checkpoint of step {step}: {why}; {rest}")


def _copies(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Contiguous copies on the CPU, each made at once."""
    return {
        name: torch.empty(tensor.shape, dtype=tensor.dtype).copy_(tensor.detach())
        for name, tensor in tensors.items()
    }
