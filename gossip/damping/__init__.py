"""Batches that grow: what decides the batch size of an update, every damper by name."""

from collections.abc import Callable

from gossip.damping.base import Damper, Damping, Noise, Seen, State
from gossip.damping.measured import AdaDamp, AdaDampNN
from gossip.damping.planning import Planned, count, planned
from gossip.damping.running import NoiseScale, RadaDamp
from gossip.damping.timed import (
    CntsDampLR,
    ConstantBatch,
    GeoDamp,
    GeoDampLR,
    GradientDescent,
    PadaDamp,
)

DAMPERS: dict[str, Callable[..., Damper]] = {
    "none": ConstantBatch,
    "geodamp": GeoDamp,
    "geodamp-lr": GeoDampLR,
    "padadamp": PadaDamp,
    "cntsdamp-lr": CntsDampLR,
    "adadamp": AdaDamp,
    "adadamp-nn": AdaDampNN,
    "radadamp": RadaDamp,
    "gradient-descent": GradientDescent,
    "noise-scale": NoiseScale,
}
"""What `--damping` offers. A new damper is a dataclass with a formula and a line here."""

__all__ = [
    "DAMPERS",
    "AdaDamp",
    "AdaDampNN",
    "CntsDampLR",
    "ConstantBatch",
    "Damper",
    "Damping",
    "GeoDamp",
    "GeoDampLR",
    "GradientDescent",
    "Noise",
    "NoiseScale",
    "PadaDamp",
    "Planned",
    "RadaDamp",
    "Seen",
    "State",
    "count",
    "planned",
]
