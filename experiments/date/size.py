"""Sizes of the DATE study: tasks and their lengths, batches, seeds."""

from dataclasses import dataclass

from experiments.common.scale import Scale


@dataclass(frozen=True, kw_only=True)
class Task:
    """A data set, a model and its run."""

    dataset: str
    model: str
    samples: int
    """N, the number of training samples without those held out."""
    epochs: float
    """As many as the paper trains, where it has the task."""
    baseline: int
    """B_0, the baseline's batch."""
    largest: int
    """The batch that a claim is about."""
    warmup: float
    """w_0, the baseline's warm-up, in epochs."""
    evaluations: int
    """Approximate number of a run's."""
    options: tuple[str, ...] = ()
    """Of the model."""


@dataclass(frozen=True, kw_only=True)
class Lipschitz:
    """L(x, g) of LeNet early in training, momentum 0.9 at a constant rate, sqrt-scaled."""

    cells: tuple[tuple[int, float, int], ...] = (
        (256, 4.0, 24),
        (1024, 5.0, 5),
        (4096, 8.0, 2),
        (8192, 10.0, 2),
    )
    """Batch, epochs and steps between two measurements."""
    baseline: int = 1024
    lr: float = 0.0125
    """At the baseline's batch. At twice as much a pilot at B = 8192 died after its peak, at four
    times as much one run of two at B = 4096 did."""
    probe: int = 512
    """Training samples that L is measured on."""
    samples: int = 60_000
    """Trained on: nothing is held out, as nothing is tuned."""
    seeds: tuple[int, ...] = tuple(range(620, 628))


@dataclass(frozen=True, kw_only=True)
class Study:
    """Sizes of the whole study."""

    validation: int = 5_000
    """Held out; the trials are judged by them."""
    lenet: Task = Task(
        dataset="mnist", model="lenet", samples=55_000, epochs=30.0, baseline=1024, largest=8192,
        warmup=2.0, evaluations=10,
    )  # fmt: skip
    lstm: Task = Task(
        dataset="mnist", model="lstm", samples=55_000, epochs=25.0, baseline=128, largest=8192,
        warmup=0.08, evaluations=5,
    )  # fmt: skip
    """MNIST by rows. w_0 is such that the warm-up is a fifth of the run at the largest batch."""
    backwards: Task = Task(
        dataset="brown-backwards", model="seq2seq", samples=29_653, epochs=12.0, baseline=128,
        largest=4096, warmup=0.075, evaluations=5,
    )  # fmt: skip
    """A toy in place of GNMT. w_0 as above."""
    words: Task = Task(
        dataset="brown-2k", model="word-lstm", options=("width=64",), samples=47_029, epochs=4.0,
        baseline=20, largest=640, warmup=0.025, evaluations=4,
    )  # fmt: skip
    """In place of PTB, at its batches. w_0 as above."""
    lipschitz: Lipschitz = Lipschitz()
    further: int = 4
    """Rates by which a grid may grow at either end."""
    tuning_seed: int = 630
    """Of the trials: no run of this seed is judged."""
    seeds: tuple[int, ...] = tuple(range(620, 625))
    """Of the runs at the rates that the trials choose."""
    needle_seeds: tuple[int, ...] = tuple(range(620, 628))
    """Of those about LARS's sensitivity."""

    def task(self, name: str) -> Task:
        """A task by its name in `experiments.date.methods`."""
        return {
            "lenet": self.lenet,
            "lstm": self.lstm,
            "backwards": self.backwards,
            "words": self.words,
        }[name]


FULL = Study()

_TOKENS = Task(
    dataset="digits", model="lstm", samples=1_337, epochs=0.5, baseline=64, largest=256, warmup=0.1,
    evaluations=2,
)  # fmt: skip
"""What stands for tokens, which are to be fetched, where the code is tried."""

SMOKE = Study(
    validation=100,
    lenet=Task(
        dataset="digits", model="lenet", samples=1_337, epochs=1.0, baseline=64, largest=256,
        warmup=0.1, evaluations=2,
    ),
    lstm=Task(
        dataset="digits", model="lstm", samples=1_337, epochs=1.0, baseline=64, largest=256,
        warmup=0.1, evaluations=2,
    ),
    backwards=_TOKENS,
    words=_TOKENS,
    lipschitz=Lipschitz(
        cells=((64, 1.0, 4), (256, 1.0, 1)), baseline=64, probe=50, samples=1_437, seeds=(620, 621)
    ),
    further=1,
    seeds=(620, 621),
    needle_seeds=(620, 621),
)  # fmt: skip


def study(scale: Scale) -> Study:
    """The study's size at a scale."""
    return SMOKE if scale.is_smoke else FULL
