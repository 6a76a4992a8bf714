"""The methods that are compared, each with its factor on the rates that all are tried with."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from experiments.adadamp.size import Size
from gossip.damping import GeoDamp, planned

FACTOR, CAP = 5, 125
"""The paper's factor; the largest batch of any damper here, in first batches: GeoDamp's third."""
SHARE = 0.1
"""Of the training set that adadamp and adadamp-nn measure: the paper's approximation."""


@dataclass(frozen=True)
class Method:
    """A way to train."""

    label: str
    damping: str = "none"
    options: Callable[[Size], tuple[str, ...]] = lambda size: ()
    first: int = 1
    """The first batch and the rate, over B_0 and the base rate."""
    cap: int | None = None
    """The largest batch over B_0; None: the damper has none, or all samples."""
    algorithm: str = "ssgd"
    shares: bool = False
    """Whether several learners share the batch."""
    grid: float = 1.0
    """What the rates that are tried are multiplied by."""
    rate: Mapping[str, Any] = field(default_factory=dict, hash=False)


def geometric(size: Size) -> tuple[str, ...]:
    """The paper's steps."""
    return f"delay={size.delay:g}", f"factor={FACTOR}"


def updates(size: Size) -> int:
    """K, updates of GeoDamp up to CAP."""
    damper = GeoDamp(
        initial=size.batch, delay=size.delay, factor=FACTOR, max_batch=largest(size, 1, CAP)
    )
    return sum(1 for _ in planned(damper, size.epochs, size.samples))


def linear(size: Size) -> tuple[str, ...]:
    """PadaDamp's rate r: B_0 K + r K^2 / 2 = E N, so that it makes as many updates as GeoDamp."""
    return (f"rate={_slope(size):.3g}",)


def falling(size: Size) -> tuple[str, ...]:
    """CntsDampLR's rate: it ends with PadaDamp's noise level, after E N / B_0 updates."""
    steps = size.epochs * size.samples / size.batch
    return (f"rate={_slope(size) * updates(size) / steps:.3g}",)


def _slope(size: Size) -> float:
    k = updates(size)
    return max(0.0, 2 * (size.epochs * size.samples - size.batch * k) / k**2)


def largest(size: Size, learners: int, cap: int) -> int:
    """The largest batch of each learner, samples: `cap` times B_0, or all there are."""
    return min(cap * size.batch, size.samples) // learners


def _measured(size: Size) -> tuple[str, ...]:
    return (f"share={SHARE:g}",)


_DECAY = {"decay": "exponential"}

METHODS = {
    "constant": Method("constant batch and rate"),
    "decay": Method("constant batch, rate to 1 %", rate=_DECAY),
    "geodamp-lr": Method("GeoDampLR", "geodamp-lr", geometric),
    "geodamp": Method("GeoDamp", "geodamp", geometric, cap=CAP),
    "padadamp": Method("PadaDamp", "padadamp", linear, cap=CAP),
    "cntsdamp-lr": Method("CntsDampLR", "cntsdamp-lr", falling),
    "adadamp": Method("AdaDamp", "adadamp", _measured, cap=CAP),
    "adadamp-nn": Method("AdaDampNN", "adadamp-nn", _measured, cap=CAP),
    "radadamp": Method("RadaDamp", "radadamp", cap=CAP),
    "noise-scale": Method("noise scale", "noise-scale", cap=CAP, shares=True),
    "gradient-descent": Method("gradient descent", "gradient-descent", grid=8.0),
    "lena": Method(
        "LENA",
        shares=True,
        grid=0.5,
        rate={"scaling": "lena", "warmup": "state-aware"} | _DECAY,
    ),
    "dpsgd": Method("DPSGD, rate to 1 %", algorithm="dpsgd", shares=True, rate=_DECAY),
    "dpsgd-geodamp": Method(
        "DPSGD, GeoDamp", "geodamp", geometric, cap=CAP, algorithm="dpsgd", shares=True
    ),
}
"""By name; those that are compared with equally many trials."""

SCHEDULES = {
    "geodamp-lr": METHODS["geodamp-lr"],
    "geodamp-5": Method("GeoDamp to 5 B_0", "geodamp", geometric, cap=5),
    "geodamp-25": Method("GeoDamp to 25 B_0", "geodamp", geometric, cap=25),
    "geodamp": METHODS["geodamp"],
    "geodamp-double": Method(
        "GeoDamp from 2 to 40 B_0, twice the rate", "geodamp", geometric, first=2, cap=40
    ),
}
"""The five schedules of the paper's Fig. 2, by its largest batches 128, 640, 3200, 16000, 5120."""
BASELINE = "geodamp-lr"
"""The schedule that the others are to be as good as, and the only one of them that is tuned."""
PUBLISHED = dict(zip(SCHEDULES, ("128", "640", "3.2k", "16k", "5.1k (*2)"), strict=True))
"""The paper's names."""


def compared(size: Size) -> dict[str, Method]:
    """The methods that take part in a study."""
    return {name: METHODS[name] for name in size.methods or METHODS}


def method(name: str) -> Method:
    """A method or schedule by name."""
    return METHODS[name] if name in METHODS else SCHEDULES[name]
