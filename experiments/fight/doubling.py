"""The DPSGD paper's Tables 1 and 3: batch and rate doubled together, and the rate halved again.

The recipe of its ImageNet runs, compressed: momentum 0.9, weight decay 1e-4, linear warm-up over
the first twentieth, a tenth of the rate after 30, 60 and 90 % of the run.
"""

from experiments.fight.methods import METHODS
from experiments.fight.size import Size
from gossip.config import Averaging, Config, Data, Monitoring, Rate

TABLES = "tables"


def doubled(size: Size) -> list[tuple[int, float]]:
    """Batches nB and their rates, in proportion."""
    return [(k * size.least_batch, k * size.least_rate) for k in size.factors]


def halved(size: Size) -> list[tuple[int, float]]:
    """The largest batch with its rate, half of it and so on."""
    batch, rate = doubled(size)[-1]
    return [(batch, rate / 2**k) for k in range(size.halvings + 1)]


def key(method: str, batch: int, alpha: float, seed: int) -> str:
    """The name of a run."""
    return f"{TABLES}-batch{batch}-{method}-alpha{alpha:g}-seed{seed}"


def runs(size: Size) -> dict[str, Config]:
    """All runs, the largest batch first: it has the fewest steps and is judged."""
    cells = [*halved(size), *reversed(doubled(size)[:-1])]
    return {
        key(method, batch, alpha, seed): config(method, batch, alpha, seed, size)
        for batch, alpha in cells
        for method in size.doubling
        for seed in size.doubling_seeds
    }


def config(method: str, batch: int, alpha: float, seed: int, size: Size) -> Config:
    """The config of a run."""
    made, steps = METHODS[method], size.doubling_samples // batch
    return Config(
        algorithm=(made.algorithm,),
        steps=steps,
        seed=seed,
        gossip=Averaging(learners=size.learners, topology=made.topology, backend="stacked"),
        data=Data(dataset=size.dataset, inputs="unit", batch_size=batch // size.learners),
        rate=Rate(
            lr=alpha,
            momentum=0.9,
            weight_decay=1e-4,
            warmup="fixed",
            warmup_share=0.05,
            warmup_options=("start=0",),
            decay="step",
            decay_at=(0.3, 0.6, 0.9),
            decay_factor=0.1,
        ),
        monitoring=Monitoring(monitor="cheap", monitor_every=max(1, steps // size.evaluations)),
    )
