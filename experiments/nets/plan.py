"""The plan names every run: SSGD's edge on a seed that is not judged, then the judged seeds.

For each net the peak rate is doubled until SSGD fails, or halved until it does not. The least rate
at which it failed is its edge; there, and at half of it, SSGD and DPSGD are judged.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from experiments.nets.size import IMAGES, Size, Task
from gossip.config import Averaging, Config, Data, Model, Monitoring, Rate

STUDY = "nets"
PAIR, NOISE, SMALL = "pair", "noise", "small"
PARTS = (PAIR, NOISE, SMALL)
"""SSGD and DPSGD; SSGD*; one learner with a small batch."""
SSGD, DPSGD, STAR, ONE = "ssgd", "dpsgd", "star", "one"
ARMS = {
    SSGD: "SSGD",
    DPSGD: "DPSGD, random neighbour",
    STAR: "SSGD\\*",
    ONE: "one learner, small batch",
}


class Outcome(Protocol):
    """What the plan has to know of a run."""

    @property
    def survived(self) -> bool:
        """Whether it did."""
        ...

    @property
    def validation_loss(self) -> float:
        """At the end; NaN if there is no number."""
        ...


Known = Callable[[str], Outcome | None]
"""What came of the run of a name; None: not run."""


@dataclass(frozen=True)
class Cell:
    """What the runs of all seeds have in common."""

    task: Task
    arm: str
    batch: int
    alpha: float
    """Peak rate."""
    std: float = 0.0
    """sigma_0."""

    def key(self, seed: int) -> str:
        """The name of a run."""
        noise = f"-std{self.std:.3g}" if self.arm == STAR else ""
        return (
            f"{self.task.name}-{self.arm}-batch{self.batch}-alpha{self.alpha:g}{noise}-seed{seed}"
        )


def runs(task: Task, part: str, size: Size, known: Known) -> dict[str, Config]:
    """The runs of a part that can be named by now: all of them once all trials are done."""
    tried = [Cell(task, SSGD, task.batch, alpha) for alpha in ladder(task, size, known)]
    found = edge(task, size, known)
    if part == NOISE and found is not None:
        tried += [_noisy(task, found, std) for std in stds(task, size, known)]
    judged = {PAIR: pair, NOISE: star, SMALL: small}[part](task, size, known)
    places = [(cell, size.tuning_seed) for cell in tried]
    places += [(cell, seed) for cell in judged for seed in size.seeds]
    return {cell.key(seed): config(cell, seed, size) for cell, seed in places}


def pair(task: Task, size: Size, known: Known) -> list[Cell]:
    """SSGD and DPSGD at SSGD's edge and below; none before it is found."""
    found = edge(task, size, known)
    if found is None:
        return []
    return [
        Cell(task, arm, *task.cell(found, k)) for k in range(task.cells) for arm in (SSGD, DPSGD)
    ]


def star(task: Task, size: Size, known: Known) -> list[Cell]:
    """SSGD* at the edge with the noise that its trials choose; none before they are done."""
    found, std = edge(task, size, known), chosen_std(task, size, known)
    return [] if found is None or std is None else [_noisy(task, found, std)]


def small(task: Task, size: Size, known: Known) -> list[Cell]:
    """One learner with the small batch, and half of the edge's rate in proportion to it."""
    found = edge(task, size, known)
    if found is None:
        return []
    batch, alpha = task.cell(found, 1)
    return [Cell(task, ONE, task.small_batch, alpha * task.small_batch / batch)]


def ladder(task: Task, size: Size, known: Known) -> list[float]:
    """Rates that SSGD is tried with, as far as they can be named by now.

    From the task's own, twice the one before as long as SSGD survives, or else half of it as long
    as it fails, `size.further` times at most.
    """
    first = _survives(task, task.alpha, size, known)
    rates = [task.alpha]
    while len(rates) <= size.further and first is not None:
        if _survives(task, rates[-1], size, known) is not first:
            break
        rates.append(rates[-1] * (2 if first else 0.5))
    return rates


def edge(task: Task, size: Size, known: Known) -> float | None:
    """The least rate of the ladder at which SSGD failed; None while a trial is missing.

    The largest, if it failed at none.
    """
    rates = ladder(task, size, known)
    ends = {rate: _survives(task, rate, size, known) for rate in rates}
    if None in ends.values():
        return None
    failed = [rate for rate, survived in ends.items() if not survived]
    return min(failed, default=max(rates))


def stds(task: Task, size: Size, known: Known) -> list[float]:
    """sigma_0 that are tried: the grid, then the geometric means beside the best of it."""
    best = _best(task, size.stds, size, known)
    if best is None:  # a trial is missing, or none has a loss
        return list(size.stds)
    place = size.stds.index(best)
    beside = [size.stds[k] for k in (place - 1, place + 1) if 0 <= k < len(size.stds)]
    return [*size.stds, *(math.sqrt(best * other) for other in beside)]


def chosen_std(task: Task, size: Size, known: Known) -> float | None:
    """sigma_0 with the least validation loss; None while a trial is missing, or if all are lost."""
    return _best(task, stds(task, size, known), size, known)


def noise_is_lost(task: Task, size: Size, known: Known) -> bool:
    """Whether no trial of SSGD* ended with a finite loss: then none of its runs is to come."""
    found = edge(task, size, known)
    if found is None or chosen_std(task, size, known) is not None:
        return False
    trials = (_noisy(task, found, std).key(size.tuning_seed) for std in size.stds)
    return all(known(trial) is not None for trial in trials)


def _best(task: Task, tried: Iterable[float], size: Size, known: Known) -> float | None:
    """The first of those with the least validation loss; None while a trial is missing.

    Also None where none of them has a finite loss: then there is no noise to be judged with.
    """
    found_edge = edge(task, size, known)
    if found_edge is None:
        return None
    losses = {}
    for std in tried:
        found = known(_noisy(task, found_edge, std).key(size.tuning_seed))
        if found is None:
            return None
        is_number = math.isfinite(found.validation_loss)
        losses[std] = found.validation_loss if is_number else math.inf
    best = min(losses, key=losses.__getitem__)
    return best if math.isfinite(losses[best]) else None


def _noisy(task: Task, alpha: float, std: float) -> Cell:
    return Cell(task, STAR, task.batch, alpha, float(f"{std:.3g}"))


def _survives(task: Task, alpha: float, size: Size, known: Known) -> bool | None:
    found = known(Cell(task, SSGD, task.batch, alpha).key(size.tuning_seed))
    return None if found is None else found.survived


def config(cell: Cell, seed: int, size: Size) -> Config:
    """The config of a run."""
    task, steps = cell.task, cell.task.steps(cell.batch)
    learners = 1 if cell.arm == ONE else size.learners
    algorithm = {STAR: "ssgd-star", ONE: SSGD}.get(cell.arm, cell.arm)
    return Config(
        algorithm=(algorithm,),
        steps=steps,
        seed=seed,
        gossip=Averaging(
            learners=learners,
            topology="matching" if cell.arm == DPSGD else "complete",
            backend="stacked",
            noise_std=cell.std,
        ),
        data=Data(
            dataset=task.dataset,
            inputs=task.inputs,
            batch_size=cell.batch // learners,
            validation=task.validation,
        ),
        model=Model(model=task.model, model_options=task.options),
        rate=images_rate(cell.alpha) if task.recipe == IMAGES else speech_rate(cell.alpha),
        monitoring=Monitoring(monitor="cheap", monitor_every=steps),
    )


def images_rate(peak: float) -> Rate:
    """Goyal et al.'s, compressed: a warm-up over the first twentieth, three steps to a tenth."""
    return Rate(
        lr=peak,
        momentum=0.9,
        weight_decay=1e-4,
        warmup="fixed",
        warmup_share=0.05,
        warmup_options=("start=0",),
        decay="step",
        decay_at=(0.3, 0.6, 0.9),
        decay_factor=0.1,
    )


def speech_rate(peak: float) -> Rate:
    """The paper's for speech: a warm-up over the first half, then ten steps by 1 / sqrt 2."""
    return Rate(
        lr=peak,
        warmup="fixed",
        warmup_share=0.5,
        warmup_options=("start=0",),
        decay="step",
        decay_at=tuple(epoch / 20 for epoch in range(10, 20)),
        decay_factor=0.5**0.5,
    )
