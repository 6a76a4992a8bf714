"""Sizes of the DATE study: batches, epochs, grids and seeds of each part."""

from dataclasses import dataclass

from experiments.common.scale import Scale


@dataclass(frozen=True, kw_only=True)
class Tuned:
    """Trials of the manual schedule's rate, and of DATE's, at the baseline batch: equally many."""

    manual: tuple[float, ...]
    date: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class Lenet:
    """LeNet with a large batch, against a baseline with a smaller one."""

    baseline: int = 1024
    batch: int = 8192
    epochs: float = 6.0
    """The paper has 30; its milestones and its warm-up scale with it."""
    long_epochs: float = 30.0
    """Epochs of the part long."""
    warmup: float = 2 / 30
    """w_0 as a share of the baseline's run: 2 epochs of 30."""
    solvers: tuple[tuple[str, Tuned], ...] = (
        ("momentum", Tuned(manual=(0.02, 0.05, 0.1), date=(0.002, 0.005, 0.01))),
        ("rmsprop", Tuned(manual=(5e-4, 1.25e-3, 2.5e-3), date=(5e-5, 1.25e-4, 2.5e-4))),
    )
    """The printed rate 1.25e-3 is in the middle of rmsprop's; DATE's are a tenth of the others,
    because its layer ratios go up to 10."""
    seeds: int = 2
    """Seeds of baseline, manual schedule and DATE; the toggles between them have one."""
    evaluations: int = 6
    ratio_every: int = 2
    """Steps between two layer ratios in the trace, where Fig. 12 shows them."""


@dataclass(frozen=True, kw_only=True)
class Needle:
    """LARS over its rate: in steps of a factor, then around the best in steps of 0.6 %."""

    batch: int = 8192
    epochs: float = 4.0
    coarse: tuple[float, ...] = (2.5, 5.0, 10.0, 20.0, 40.0)
    fine: tuple[int, ...] = (-2, -1, 0, 1, 2)
    """Exponents of `step`: positions around the best rate."""
    step: float = 1.006
    """Factor between neighbouring rates: that of 10 and 9.94."""
    seeds: int = 2
    """Seeds of the fine grid; the coarse one has the first alone."""


@dataclass(frozen=True, kw_only=True)
class Lipschitz:
    """L(x, g) of LeNet early in training, momentum 0.9 at a constant rate, sqrt-scaled."""

    every: tuple[tuple[int, int], ...] = ((256, 12), (1024, 3), (4096, 1))
    """Batch size and steps between two measurements: about as many an epoch."""
    baseline: int = 1024
    lr: float = 0.05
    epochs: float = 3.0
    probe: int = 512
    seeds: int = 2


@dataclass(frozen=True, kw_only=True)
class Lstm:
    """MNIST by rows: DATE from a baseline against rivals tuned at every batch."""

    batches: tuple[int, ...] = (128, 8192, 1024)
    """The baseline's first; the last is the first to go if time runs out."""
    epochs: float = 3.0
    warmup: float = 0.2
    """Warm-up as a share of the run at the largest batch, which fixes w_0."""
    date: tuple[float, ...] = (0.003, 0.01, 0.03)
    """DATE's rates, tried at the baseline's batch and nowhere else."""
    rivals: tuple[tuple[str, str, tuple[float, ...]], ...] = (
        ("adam", "adam", (3e-4, 6e-4, 1e-3)),
        ("momentum", "momentum", (0.03, 0.1, 0.3)),
    )
    """Name, solver and rates tried at each batch, constant over the run. Adam's are three of the
    ten of the printed grid, from 1e-4 to 1e-3."""
    wide: tuple[float, ...] = (2e-3, 4e-3, 8e-3)
    """Adam beyond the printed grid, at the largest batch only."""
    seeds: int = 2
    """Seeds of the chosen methods at the largest batch, in the part lstm-seeds."""

    @property
    def baseline(self) -> int:
        """The baseline's batch B_0."""
        return self.batches[0]

    @property
    def largest(self) -> int:
        """The largest batch."""
        return max(self.batches)


@dataclass(frozen=True, kw_only=True)
class Study:
    """Sizes of the whole study."""

    dataset: str = "mnist"
    samples: int = 55_000
    """N, the number of training samples without those held out."""
    validation: int = 5_000
    lenet: Lenet = Lenet()
    needle: Needle = Needle()
    lipschitz: Lipschitz = Lipschitz()
    lstm: Lstm = Lstm()


FULL = Study()

SMOKE = Study(
    dataset="digits",
    samples=1_337,
    validation=100,
    lenet=Lenet(
        baseline=64,
        batch=256,
        epochs=1.0,
        solvers=(("rmsprop", Tuned(manual=(1e-3, 2e-3), date=(1e-4, 2e-4))),),
        seeds=1,
        evaluations=2,
        long_epochs=2.0,
    ),
    needle=Needle(batch=256, epochs=1.0, coarse=(5.0, 10.0), fine=(0, 1), seeds=1),
    lipschitz=Lipschitz(every=((64, 4), (256, 1)), baseline=64, epochs=1.0, probe=50, seeds=1),
    lstm=Lstm(
        batches=(64, 256),
        epochs=1.0,
        date=(0.003, 0.01),
        rivals=(("adam", "adam", (5e-4, 1e-3)),),
        wide=(2e-3, 4e-3),
    ),
)


def study(scale: Scale) -> Study:
    """The study's size at a scale."""
    return SMOKE if scale.is_smoke else FULL
