"""The runs of the study: each algorithm, warm-up and peak rate on each seed."""

from dataclasses import dataclass
from itertools import product

from experiments.language.size import Size
from gossip.config import Averaging, Config, Data, Model, Monitoring, Rate

STUDY = "language"
SSGD, DPSGD = "ssgd", "dpsgd"


@dataclass(frozen=True)
class Cell:
    """What the runs of all seeds have in common."""

    arm: str
    warmup: int
    peak: float

    def key(self, seed: int) -> str:
        """The name of a run."""
        return f"{self.arm}-warmup{self.warmup}-peak{self.peak:g}-seed{seed}"


ARMS = {SSGD: "SSGD", DPSGD: "DPSGD, ring"}


def cells(size: Size) -> list[Cell]:
    """All cells, the shortest warm-up first: it is the most telling."""
    return [
        Cell(arm, warmup, peak)
        for warmup, peak, arm in product(reversed(size.warmups), size.peaks, ARMS)
    ]


def runs(size: Size) -> dict[str, Config]:
    """All runs, cell by cell."""
    return {cell.key(seed): config(cell, seed, size) for cell in cells(size) for seed in size.seeds}


def config(cell: Cell, seed: int, size: Size) -> Config:
    """The config of a run: Adam, a linear warm-up from 0, and a cosine to 0."""
    return Config(
        algorithm=(cell.arm,),
        steps=size.steps,
        seed=seed,
        gossip=Averaging(learners=size.learners, topology="ring", backend="stacked"),
        data=Data(dataset=size.dataset, batch_size=size.total_batch // size.learners),
        model=Model(model="transformer", model_options=(f"width={size.width}",)),
        rate=Rate(
            lr=cell.peak,
            optimizer="adam",
            warmup="fixed",
            warmup_steps=cell.warmup,
            warmup_options=("start=0",),
            decay="cosine",
        ),
        monitoring=Monitoring(monitor="cheap", monitor_every=size.steps),
    )
