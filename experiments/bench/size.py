"""Sizes of the benchmark: quick, full, and the smoke test of its code."""

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from gossip.algorithms import ALGORITHMS
from gossip.comm.startup.environment import num_cores

MLP_42K, MLP_670K = (50, 50), (512, 512)
MLP_6M, MLP_24M = (2048, 2048), (4096, 4096, 1024)
"""Hidden layers between 784 inputs and 10 classes; d = 42,310, 669,706, 5,824,522, 24,202,250."""


@dataclass(frozen=True, kw_only=True)
class Size:
    """The models, sizes and numbers of learners that the tables range over."""

    name: str
    rounds: int = 9
    least_block_ms: float = 80.0
    """About how long each timed block is."""
    models: Mapping[int, tuple[tuple[int, ...], ...]] = field(
        default_factory=lambda: {2: (MLP_42K, MLP_670K), 4: (MLP_670K,), 16: (MLP_670K,)}
    )
    """Hidden layers of the models that are trained, by number of processes."""
    message_bytes: tuple[int, ...] = (4_000, 400_000, 4_000_000)
    """Sizes of one row in bytes."""
    study: tuple[int, int] = (16, 125)
    """(n, B) in one process: the default study's."""
    small_study: tuple[int, int] = (16, 32)
    """(n, B) with little work per step."""
    stacked_models: tuple[tuple[str, int, int], ...] = (
        ("mlp", 5, 400),
        ("mlp", 16, 125),
        ("mlp", 64, 31),
        ("mlp", 16, 32),
        ("cnn", 16, 32),
        ("transformer", 16, 32),
    )
    """(model, n, B) in one process: of the DPSGD paper, of the default study, many small batches,
    little work per step; and models that have more than linear maps."""
    rate_studies: tuple[tuple[str, int, int], ...] = (
        ("mlp", 16, 125),
        ("mlp", 1, 128),
        ("resnet18", 1, 16),
    )
    """(model, n, B); alone a learner has nothing to measure but pays for measuring."""
    curve: tuple[int, ...] = (16, 64, 256, 1024)
    """Learners in one process."""
    curve_models: tuple[str, ...] = ("softmax", "mlp 784-16-10")
    simulated_learners: tuple[int, ...] = (16, 256, 4096)
    """Learners that the simulator of time has."""
    simulated_steps: int = 10_000
    engine_models: tuple[tuple[int, ...], ...] = (MLP_42K, MLP_670K, MLP_6M)
    """Hidden layers of the models whose batches grow."""
    engine_processes: bool = True
    """Whether Dask's workers are processes of their own, as in earnest."""
    methods: tuple[str, ...] = tuple(ALGORITHMS)
    """Algorithms that are compared, DPSGD among them."""
    dataset: str = "mnist_like"
    """Data of the learners in one process, the name of a function in `workload`."""
    share_of_memory: float = 0.5
    """Share of this host's memory that all variants of a case together may take up."""

    @property
    def processes(self) -> tuple[int, ...]:
        """Sizes of the jobs, in order."""
        return tuple(self.models)

    def block_ms(self, processes: int = 1) -> float:
        """Longer where processes share cores, and meeting before each block takes longer."""
        return self.least_block_ms * math.sqrt(max(1.0, processes / num_cores()))


QUICK = Size(name="quick")
FULL = Size(
    name="full",
    rounds=15,
    least_block_ms=200.0,
    models={
        2: (MLP_42K, MLP_670K, MLP_6M, MLP_24M),
        4: (MLP_42K, MLP_670K, MLP_6M, MLP_24M),
        16: (MLP_42K, MLP_670K, MLP_6M, MLP_24M),
    },
    message_bytes=(4_000, 40_000, 400_000, 4_000_000, 40_000_000),
    rate_studies=(("mlp", 16, 125), ("mlp", 1, 128), ("resnet18", 2, 8), ("resnet18", 1, 16)),
    curve=(16, 64, 256, 1024, 4096),
    share_of_memory=0.7,
)
SMOKE = Size(
    name="smoke",
    rounds=2,
    least_block_ms=1.0,
    models={2: ((4,),)},
    message_bytes=(4_000,),
    study=(2, 4),
    small_study=(2, 4),
    stacked_models=(("mlp", 2, 4), ("transformer", 2, 4)),
    rate_studies=(("mlp", 2, 4),),
    curve=(2,),
    curve_models=("softmax",),
    simulated_learners=(4,),
    simulated_steps=3,
    engine_models=((4,),),
    engine_processes=False,
    methods=("dpsgd", "relaysgd", "streaming-diloco"),
    dataset="few",
)
SIZES = {size.name: size for size in (QUICK, FULL, SMOKE)}


def memory_bytes() -> int:
    """Memory of this host in bytes."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def spare_cores(processes: int) -> int:
    """Cores that no process computes on."""
    return max(0, num_cores() - processes)
