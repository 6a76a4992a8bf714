"""Sizes of the check: on one large GPU, and in the smoke test of its code."""

from collections.abc import Mapping
from dataclasses import dataclass, field

Widths = tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Size:
    """The models, sizes and numbers of learners that the parts range over."""

    topologies: tuple[str, ...] = ()
    """Topologies of the equality battery; none: all that it is for."""
    mixes: int = 200
    steps: int = 12
    """Steps of a trajectory."""
    d: int = 10_007
    """Numbers in a row that is mixed."""
    rounds: int = 9
    block_ms: float = 100.0
    overlap_models: tuple[tuple[Widths, int], ...] = (((512, 512), 128), ((4096, 4096, 1024), 1024))
    """Hidden layers and the batch of a learner."""
    stacks: tuple[int, ...] = (5, 16, 64, 256)
    """Numbers of learners with an MLP each."""
    mlp_batch: int = 32
    resnet_learners: int = 16
    resnet_batch: int = 32
    resnet_options: Mapping[str, int] = field(default_factory=dict)
    switched_learners: int = 2
    """Learners whose ResNets are computed in several ways."""
    switched_batch: int = 128


FULL = Size()
SMOKE = Size(
    topologies=("ring", "one-peer-exponential"),
    mixes=12,
    steps=8,
    d=37,
    rounds=2,
    block_ms=1.0,
    overlap_models=(((4,), 2),),
    stacks=(2,),
    mlp_batch=2,
    resnet_learners=2,
    resnet_batch=2,
    resnet_options={"width": 2},
    switched_batch=2,
)
