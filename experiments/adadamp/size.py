"""Sizes of the study of batches that grow, which is made of two: one for each data set."""

from dataclasses import dataclass, replace

from experiments.common.scale import Scale

PARTS = ("facts", "workers", "schedules", "dampers")
"""Parts of a study: what is computed without runs; what Dask's workers cost; the five schedules;
all dampers beside their rivals."""


@dataclass(frozen=True, kw_only=True)
class Size:
    """What is trained, how long and how often."""

    name: str = "adadamp"
    """Of the folder of its runs, and of its tables and pictures."""
    parts: tuple[str, ...] = PARTS
    dataset: str = "fashion-mnist"
    samples: int = 55_000
    """N, without those held out."""
    validation: int = 5_000
    model: str = "mlp"
    widths: tuple[int, ...] = (64,)
    """Of the mlp's hidden layers."""
    batch: int = 64
    """B_0, the total batch that all methods begin with."""
    epochs: float = 4.0
    """E; a step of the schedules comes every 0.3 E, as in the paper (60 of 200)."""
    rates: tuple[float, ...] = (0.01, 0.02, 0.04)
    """Rates that every method is tried with at first, times its own factor."""
    further: int = 4
    """Rates by which a grid may grow at either end while the best is at that end."""
    tuning_seed: int = 100
    """Of the trials: no run of this seed is judged."""
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    learners: int = 4
    """Of the methods that need several; they share B_0."""
    methods: tuple[str, ...] = ()
    """Names of `experiments.adadamp.methods.METHODS` that are compared; none: all."""
    evaluations: int = 40
    """Of a run with a constant batch."""
    growing_every: int = 10
    """Updates between two evaluations of a run whose batch grows."""
    probe: int = 1_000
    """Training samples on which gradient diversity is measured."""
    iterations: int = 500
    """Of L-BFGS on the probe."""
    samples_per_worker: tuple[int, ...] = (512, 256, 128, 64, 32)
    dask_updates: int = 30
    """Updates that are timed for each of those."""
    dask_processes: bool = True
    """Whether Dask's workers are processes of their own, as in earnest."""

    @property
    def delay(self) -> float:
        """Epochs between two steps of the schedules."""
        return 0.3 * self.epochs


FULL = Size()
IMAGES = Size(
    name="adadamp_cifar10",
    parts=("schedules",),
    dataset="cifar10",
    samples=45_000,
    model="cnn",
    epochs=3.0,
    evaluations=20,
    growing_every=20,
)
SMOKE = Size(
    dataset="digits",
    samples=1_337,
    validation=100,
    widths=(8,),
    batch=16,
    epochs=0.5,
    rates=(0.02, 0.04),
    further=0,
    seeds=(0, 1),
    learners=2,
    methods=("decay", "geodamp-lr", "geodamp"),
    evaluations=3,
    growing_every=4,
    probe=40,
    iterations=5,
    samples_per_worker=(512, 256),
    dask_updates=2,
    dask_processes=False,
)

SMOKE_IMAGES = replace(
    SMOKE, name="adadamp_cifar10", parts=("schedules",), model="cnn", rates=(0.15,)
)


def studies(scale: Scale) -> dict[str, Size]:
    """The sizes that belong to a scale, by what is learnt at full scale."""
    first, images = (SMOKE, SMOKE_IMAGES) if scale.is_smoke else (FULL, IMAGES)
    return {FULL.dataset: first, IMAGES.dataset: images}
