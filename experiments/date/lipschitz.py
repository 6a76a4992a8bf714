"""The runs that measure the local Lipschitz constant early in training, batch by batch."""

from experiments.date.methods import SOLVERS
from experiments.date.plan import LIPSCHITZ, base, name
from experiments.date.size import Study
from gossip.config import Config, Monitoring, Rate


def key(batch: int, seed: int, size: Study) -> str:
    """The name of a run."""
    return name(LIPSCHITZ, "momentum", batch, size.lipschitz.lr, seed)


def runs(size: Study) -> dict[str, Config]:
    """All runs, a seed of all batches after the other."""
    of = size.lipschitz
    return {
        key(batch, seed, size): base(
            size.lenet,
            batch,
            Rate(lr=of.lr, **SOLVERS["momentum"], scaling="sqrt", baseline_batch=of.baseline),
            seed=seed,
            epochs=epochs,
            validation=0,
            monitoring=Monitoring(monitor="cheap", monitor_every=every, lipschitz_samples=of.probe),
        )
        for seed in of.seeds
        for batch, epochs, every in of.cells
    }
