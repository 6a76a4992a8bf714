"""The learners of a run's checkpoints, whatever backend wrote them, on this process."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path

from torch import Tensor

from gossip.checkpoint import learners, newest, read
from gossip.comm.stacked import Stacked
from gossip.config import Compute, load
from gossip.errors import UserError
from gossip.landscape.surface import training_loss
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
    kept, task = _kept(folder), _task(folder, trusted)
    return _replicas(kept[0], task, folder)


def at_losses(
    folder: Path, levels: Collection[float], samples: int, trusted: Collection[str] = ()
) -> dict[float, Replicas]:
    """The replicas where the training loss of the mean model is for the first time at most a level.

    That is of the checkpoints which are still there: how exactly a level is met depends on how
    many steps lie between two of them. A level that no checkpoint has come to is left out.

    Args:
        folder: a run folder.
        levels: of the loss.
        samples: how many training samples stand for the loss.
        trusted: as for `of_run`.

    Raises:
        UserError: as for `of_run`.
    """
    kept, task = _kept(folder), _task(folder, trusted)
    surface = training_loss(task, samples)
    left, found = set(levels), dict[float, Replicas]()
    for path in reversed(kept):
        if not left:
            break
        replicas = _replicas(path, task, folder)
        loss = surface.loss(replicas.mean)
        found |= dict.fromkeys((level for level in left if loss <= level), replicas)
        left -= found.keys()
    return found


def _kept(folder: Path) -> list[Path]:
    """The checkpoints of a run, the newest first."""
    if not (folder / CONFIG).is_file():
        raise UserError(f"no run in {folder}: looked for {CONFIG} there")
    kept = newest(folder / CHECKPOINTS)
    if not kept:
        raise UserError(
            f"{folder} has no checkpoint, so its weights are gone: make the run again, without "
            "--checkpoint-keep 0"
        )
    return kept


def _task(folder: Path, trusted: Collection[str]) -> Task:
    """The task that the run's config names, on the CPU."""
    config = replace(load(folder / CONFIG, trusted), compute=Compute())
    return prepare(config, Stacked(config.gossip.learners)).task


def _replicas(path: Path, task: Task, folder: Path) -> Replicas:
    """The replicas in a checkpoint."""
    snapshot = read(path, range(learners(path)))
    x = snapshot.rows.get("x", snapshot.shared.get("x"))
    if x is None or x.ndim != 2 or x.shape[1] != task.d or x.dtype != task.dtype:
        raise UserError(f"{path} keeps no models like that of {folder / CONFIG}")
    return Replicas(task, x, snapshot.step)
