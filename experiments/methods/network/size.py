"""Tasks and sizes of the part that is measured between hosts."""

from dataclasses import dataclass, field, replace
from typing import NamedTuple

from experiments.common.scale import Scale
from experiments.methods import size


class Network(NamedTuple):
    """What every host's interface is bounded to."""

    mbits: float
    delay_ms: float
    """One way."""

    def __str__(self) -> str:
        """As the page calls it."""
        return f"{self.mbits:g} Mbit/s, {self.delay_ms:g} ms"


NETWORKS = tuple(
    Network(*each)
    for each in ((10, 0), (10, 20), (100, 0), (100, 20), (100, 50), (1000, 0), (1000, 20))
)
"""Of 10, 100, 1000 Mbit/s x 0, 20, 50 ms; at 10 and at 1000 Mbit/s 50 ms is left out for time."""


@dataclass(frozen=True, kw_only=True)
class Size:
    """What is trained, and on what networks."""

    name: str
    """Of the task, in tables and claims."""
    task: size.Size = field(
        default_factory=lambda: replace(
            size.FULL, learners=4, batch=16, monitor_every=5, seeds=(0, 1, 2)
        )
    )
    tuning_seeds: tuple[int, ...] = (size.FULL.tuning_seed,)
    """Of the trials, none of which is judged; a rate counts by the worst of its losses."""
    networks: tuple[Network, ...] = NETWORKS
    ways: tuple[str, ...] = ()
    """Names of `experiments.methods.network.ways.WAYS`; none: all."""
    turns: int = 2
    """How often the steps of each way are timed on a network, of which the fastest counts."""
    timed: float = 0.8
    """Seconds that are timed in a turn, in whole rounds: at least ..."""
    least_rounds: int = 2
    most_rounds: int = 20
    slow: float = 2.5
    """Where a turn takes longer there is no second."""
    on_hosts: bool = True
    """Whether learners are on hosts of their own; else on this one, whose network is not shaped."""


MNIST = Size(name="mnist")
TEXT = Size(
    name="text",
    task=replace(
        MNIST.task,
        dataset="brown-bytes",
        model="transformer",
        model_options=("width=64", "depth=1"),
        batch=4,
        steps=150,
        monitor_every=10,
        rates=(0.25, 0.5, 1.0),
        slack=1.03,
    ),
    tuning_seeds=(100, 101),
    networks=tuple(Network(*each) for each in ((10, 20), (100, 0), (100, 20), (1000, 0))),
    ways=(
        "dpsgd", "one-peer", "int8", "ssgd", "post-local", "streaming", "ddp", "ddp-bf16",
        "ddp-powersgd", "torch-post-local", "decent-one-peer",
    ),
)  # fmt: skip
"""A loss of language is far from zero: 3 % of it are less than a tenth of a nat. The rates end
where all seeds survive: at 2, the best for SSGD and DDP on seeds 100 and 101, others are lost."""
FULL = {size.name: size for size in (MNIST, TEXT)}

_SMOKE = Size(
    name="mnist",
    task=replace(size.SMOKE, learners=2, seeds=(0, 1), rates=(0.1,), steps=12, methods=()),
    networks=(Network(1000, 0),),
    turns=1,
    timed=0.0,
    least_rounds=1,
    on_hosts=False,
)
SMOKE = {
    "mnist": _SMOKE,
    "text": replace(
        _SMOKE,
        name="text",
        task=replace(
            _SMOKE.task,
            dataset="experiments.methods.network.pixels:pixels",
            model="transformer",
            model_options=("width=8", "depth=1", "heads=2"),
            rates=(0.5,),
        ),
        ways=("ssgd", "post-local", "ddp", "ddp-bf16", "torch-post-local"),
    ),
}


def network_study(scale: Scale) -> dict[str, Size]:
    """The sizes that belong to a scale, by task."""
    return SMOKE if scale.is_smoke else FULL
