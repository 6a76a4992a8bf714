"""Sizes of the study of convolutional nets and of an LSTM."""

from dataclasses import dataclass

from experiments.common.scale import Scale

IMAGES, SPEECH = "images", "speech"
"""Recipes: batches stay and the rate is halved; or batch and rate are halved together."""


@dataclass(frozen=True, kw_only=True)
class Task:
    """A net and what it learns."""

    name: str
    """Beginning of its runs' names, without a dash."""
    label: str
    model: str
    options: tuple[str, ...]
    recipe: str = IMAGES
    dataset: str = "experiments.nets.images:halved"
    inputs: str = "standardised"
    validation: int = 2_000
    """Training samples held out: the noise is tuned by them."""
    samples: int = 81_920
    """That a run sees, whatever its batch."""
    batch: int = 512
    """n B, the largest."""
    alpha: float = 1.6
    """The first peak rate that is tried there."""
    small_batch: int = 32
    """Of one learner, which all is compared with."""
    failed: float = 2.0
    """Test loss, nats, from which on a run has not survived; a constant prediction has 2.30 on
    images."""
    cells: int = 2
    """Rates, or batches with theirs, at which methods are judged."""

    def steps(self, batch: int) -> int:
        """Of a run with that batch."""
        return self.samples // batch

    def cell(self, edge: float, k: int) -> tuple[int, float]:
        """Batch and peak rate k halvings below those at which SSGD fails."""
        return (self.batch if self.recipe == IMAGES else self.batch // 2**k), edge / 2**k

    @property
    def measure(self) -> str:
        """The number that methods are compared by: points of test error, nats of test loss."""
        return "test error, %" if self.recipe == IMAGES else "held-out loss, nats"


@dataclass(frozen=True, kw_only=True)
class Size:
    """What is trained, how long and how often."""

    tasks: tuple[Task, ...] = (
        Task(name="alexnet", label="AlexNet", model="alexnet", options=("width=16",), alpha=0.4),
        Task(
            name="speech",
            label="LSTM on speech",
            model="bilstm",
            options=("width=32", "depth=2"),
            recipe=SPEECH,
            dataset="experiments.nets.speech:thinned",
            samples=102_400,
            alpha=8.0,
            failed=6.1,
            cells=3,
        ),
        Task(name="vggbn", label="VGG11-BN", model="vgg-bn", options=("width=8",)),
        Task(name="resnet", label="ResNet-18", model="resnet18", options=("width=4",)),
        Task(
            name="mobilenet",
            label="MobileNetV2",
            model="mobilenet",
            options=("width=4",),
            samples=40_960,
            batch=256,
            alpha=0.8,
        ),
        Task(
            name="efficientnet",
            label="EfficientNet-B0",
            model="efficientnet",
            options=("width=4",),
            samples=30_720,
            batch=256,
            alpha=0.8,
        ),
    )
    """In the order of their runs."""
    learners: int = 8
    further: int = 4
    """So many times a task's first rate is halved or doubled until SSGD's edge is found."""
    stds: tuple[float, ...] = (0.001, 0.003, 0.01, 0.03, 0.1)
    """sigma_0 of SSGD*, before the two geometric means beside the best of them."""
    tuning_seed: int = 600
    """Chooses rates and noise; no run of this seed is judged."""
    seeds: tuple[int, ...] = tuple(range(601, 607))
    """Fresh ones, in no other study."""


FULL = Size()
_SMALL = {
    "dataset": "digits",
    "validation": 100,
    "samples": 128,
    "batch": 32,
    "small_batch": 16,
    "failed": 10.0,
}
SMOKE = Size(
    tasks=(
        Task(name="vgg", label="VGG11", model="vgg", options=("width=2",), **_SMALL),
        Task(
            name="speech", label="LSTM", model="bilstm", options=("width=2",), recipe=SPEECH,
            cells=3, **_SMALL,
        ),
    ),
    learners=2,
    further=1,
    stds=(0.01, 0.1),
    seeds=(601, 602),
)  # fmt: skip


def study(scale: Scale) -> Size:
    """The size that belongs to a scale."""
    return SMOKE if scale.is_smoke else FULL
