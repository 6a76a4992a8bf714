"""The learners of a run's checkpoints, whatever backend wrote them, on this process."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path

from torch import Tensor

from gossip.checkpoint import learners, newest, read, step_of
from gossip.comm.stacked import Stacked
from gossip.config import Compute, load, refuse_script
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
    lr: float = 0.0
    """alpha that the run's config names, before warm-up and decay."""

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
    kept, source = _kept(folder), _source(folder, trusted)
    return source.replicas(kept[0])


def at_steps(
    folder: Path, steps: Collection[int], trusted: Collection[str] = ()
) -> dict[int, Replicas]:
    """The replicas after so many steps; a step without a checkpoint is left out.

    Args:
        folder: a run folder.
        steps: as the checkpoints of --checkpoint-every have them.
        trusted: as for `of_run`.

    Raises:
        UserError: as for `of_run`.
    """
    kept, source = _kept(folder), _source(folder, trusted)
    found = (source.replicas(path) for path in reversed(kept) if step_of(path) in steps)
    return {replicas.step: replicas for replicas in found}


def kept_steps(folder: Path) -> list[int]:
    """After how many steps there are checkpoints, ascending."""
    return sorted(map(step_of, _kept(folder)))


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
    kept, source = _kept(folder), _source(folder, trusted)
    surface = training_loss(source.task, samples)
    left, found = set(levels), dict[float, Replicas]()
    for path in reversed(kept):
        if not left:
            break
        replicas = source.replicas(path)
        loss = surface.loss(replicas.mean)
        found |= dict.fromkeys((level for level in left if loss <= level), replicas)
        left -= found.keys()
    return found


def _kept(folder: Path) -> list[Path]:
    """The checkpoints of a run, the newest first."""
    if not (folder / CONFIG).is_file():
        raise UserError(f"no run in {folder}: looked for {CONFIG} there")
    refuse_script(folder / CONFIG)
    kept = newest(folder / CHECKPOINTS)
    if not kept:
        raise UserError(
            f"{folder} has no checkpoint, so its weights are gone: make the run again, without "
            "--checkpoint-keep 0"
        )
    return kept


def _source(folder: Path, trusted: Collection[str]) -> "_Source":
    """What the run's config says, on the CPU."""
    advice = f"if you trust it, say so by --trust {' '.join((*trusted, '{key}'))}"
    config = replace(load(folder / CONFIG, trusted, advice), compute=Compute())
    task = prepare(config, Stacked(config.gossip.learners)).task
    return _Source(folder, task, config.rate.lr)


@dataclass(frozen=True)
class _Source:
    """A run whose checkpoints are read."""

    folder: Path
    task: Task
    lr: float

    def replicas(self, path: Path) -> Replicas:
        """The replicas in a checkpoint."""
        snapshot, task = read(path, range(learners(path))), self.task
        x = snapshot.rows.get("x", snapshot.shared.get("x"))
        if x is None or x.ndim != 2 or x.shape[1] != task.d or x.dtype != task.dtype:
            raise UserError(f"{path} keeps no models like that of {self.folder / CONFIG}")
        return Replicas(task, x, snapshot.step, self.lr)
