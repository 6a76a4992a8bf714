"""The runs of the study: each algorithm on each seed, at a small and a large rate."""

from dataclasses import dataclass

from experiments.flatness.size import Cell, Size
from gossip.config import Averaging, Config, Data, Monitoring, Rate, Reliability

STUDY = "flatness"
SSGD = "ssgd"


@dataclass(frozen=True)
class Arm:
    """A way to train."""

    label: str
    algorithm: str = "dpsgd"
    topology: str = "complete"


ARMS = {
    SSGD: Arm("SSGD", "ssgd"),
    "complete": Arm("DPSGD, W = 11ᵀ/n"),
    "ring": Arm("DPSGD, ring", topology="ring"),
}
"""By name; SSGD is what the others are compared with."""
SHOWN = (SSGD, "complete")
"""Arms whose contours are shown."""


def key(cell: Cell, arm: str, seed: int) -> str:
    """The name of a run."""
    return f"{cell.name}-{arm}-seed{seed}"


def runs(size: Size) -> dict[str, Config]:
    """All runs, a seed of all cells and arms after the other."""
    return {
        key(cell, arm, seed): config(cell, arm, seed, size)
        for seed in size.seeds
        for cell in size.cells
        for arm in ARMS
    }


def shown(size: Size) -> dict[str, Config]:
    """Runs of the first seed made again, for their contours: a picture of what is judged."""
    return {
        shown_key(cell, arm): config(cell, arm, size.seeds[0], size)
        for cell in size.cells
        for arm in SHOWN
    }


def shown_key(cell: Cell, arm: str) -> str:
    """The name of such a run."""
    return f"contours-{cell.name}-{arm}"


def config(cell: Cell, arm: str, seed: int, size: Size) -> Config:
    """The config of a run, which keeps all its checkpoints."""
    return Config(
        algorithm=(ARMS[arm].algorithm,),
        steps=cell.steps,
        seed=seed,
        gossip=Averaging(learners=size.learners, topology=ARMS[arm].topology, backend="stacked"),
        data=Data(
            dataset=size.dataset,
            inputs="unit",
            batch_size=size.total_batch // size.learners,
            validation=size.held_out,
        ),
        rate=Rate(lr=cell.alpha),
        monitoring=Monitoring(monitor="cheap", monitor_every=cell.steps),
        reliability=Reliability(
            checkpoint_every=cell.every,
            checkpoint_minutes=0.0,
            checkpoint_keep=cell.steps // cell.every + 1,
        ),
    )
