"""The learners of a run's newest checkpoint, whatever backend wrote it, on this process."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path

from torch import Tensor

from gossip.checkpoint import learners, newest, read
from gossip.comm.stacked import Stacked
from gossip.config import Compute, load
from gossip.errors import UserError
from gossip.storage.names import CHECKPOINTS, CONFIG
from gossip.study import prepare
from gossip.task import Task


@dataclass(frozen=True)
class Replicas:
    """The models of a run after `step` steps."""

    task: Task
    x: Tensor
    """[n, d]; [1, d] of an algorithm whose learners share one model."""
    step: int

    @property
    def mean(self) -> Tensor:
        """w_a, [d] float64."""
        return self.x.double().mean(dim=0)


def of_run(folder: Path, trusted: Collection[str] = ()) -> Replicas:
    """The replicas in the newest checkpoint of the run in `folder`, on the CPU.

    Args:
        folder: a run folder.
        trusted: options, such as model, that its config may name as `module:function`.

    Raises:
        UserError: it has no checkpoint, or one that is damaged or not of its config.
    """
    if not (folder / CONFIG).is_file():
        raise UserError(f"no run in {folder}: looked for {CONFIG} there")
    kept = newest(folder / CHECKPOINTS)
    if not kept:
        raise UserError(
            f"{folder} has no checkpoint, so its weights are gone: make the run again, without "
            "--checkpoint-keep 0"
        )
    snapshot = read(kept[0], range(learners(kept[0])))
    config = replace(load(folder / CONFIG, trusted), compute=Compute())
    task = prepare(config, Stacked(config.gossip.learners)).task
    x = snapshot.rows.get("x", snapshot.shared.get("x"))
    if x is None or x.ndim != 2 or x.shape[1] != task.d or x.dtype != task.dtype:
        raise UserError(f"{kept[0]} keeps no models like that of {folder / CONFIG}")
    return Replicas(task, x, snapshot.step)
