"""The methods that are compared, and what each is tried with: equally many trials for all."""

from dataclasses import dataclass
from typing import NamedTuple

from experiments.methods.size import Size

ALL_REDUCE, STEPS, COMPRESSED, ROUNDS = "all-reduce", "every step", "compressed", "rounds"
"""Families, by what leaves a learner: gradients to all; weights, whole or compressed, to some at
every step; weights now and then."""


class Trial(NamedTuple):
    """What a method is tried with."""

    lr: float
    options: tuple[str, ...]


@dataclass(frozen=True)
class Method:
    """A way to train; what is not said here is the same for all, or the default of the harness."""

    label: str
    family: str
    algorithm: str
    options: tuple[str, ...] = ()
    topology: str = "ring"
    topology_options: tuple[str, ...] = ()
    momentum: float | None = None
    """Of each learner's optimizer."""
    mixes_in_rounds: bool = False
    """Whether W is multiplied by every H-th step only."""
    wire: str = "full"
    grid: float = 1.0
    """What the rates that are tried are multiplied by: the steady step of momentum mu is
    alpha/(1 - mu), so it is tried at smaller rates."""
    gammas: tuple[float, ...] = ()
    """Consensus steps that are tried, with as many fewer rates; none: there is none."""

    def trials(self, size: Size) -> list[Trial]:
        """Equally many for all methods."""
        fixed = (*self.options, f"every={size.every}") if self.has_rounds else self.options
        if not self.gammas:
            return [Trial(self.grid * lr, fixed) for lr in size.rates]
        count = len(size.rates) // len(self.gammas)
        first = (len(size.rates) - count) // 2
        return [
            Trial(self.grid * lr, (*fixed, f"gamma={gamma:g}"))
            for lr in size.rates[first : first + count]
            for gamma in self.gammas
        ]

    @property
    def has_rounds(self) -> bool:
        """Whether the algorithm has an option for the steps of a round."""
        return self.family == ROUNDS and not self.mixes_in_rounds


BETA, SLOW = 0.9, 0.125
"""Momentum at every step, and the rates it is tried at."""
GAMMAS = (0.1, 0.4)

METHODS = {
    "ssgd": Method("SSGD", ALL_REDUCE, "ssgd"),
    "ssgd-momentum": Method("SSGD, momentum", ALL_REDUCE, "ssgd", momentum=BETA, grid=SLOW),
    "dpsgd": Method("DPSGD, ring", STEPS, "dpsgd"),
    "one-peer": Method("DPSGD, one peer", STEPS, "dpsgd", topology="one-peer-exponential"),
    "matcha": Method(
        "DPSGD, MATCHA", STEPS, "dpsgd", topology="matcha",
        topology_options=("base=ring", "budget=0.5"),
    ),
    "bf16": Method("DPSGD, bf16", STEPS, "dpsgd", wire="bf16"),
    "dpsgd-momentum": Method("DPSGD, momentum", STEPS, "dpsgd", momentum=BETA, grid=SLOW),
    "qg": Method("QG-DSGDm", STEPS, "qg-dsgdm", grid=SLOW),
    "decentlam": Method("DecentLaM", STEPS, "decentlam", grid=SLOW),
    "momentum-tracking": Method("momentum tracking", STEPS, "momentum-tracking", grid=SLOW),
    "d2": Method("D²", STEPS, "d2"),
    "gt": Method("gradient tracking", STEPS, "gt-semi-atc"),
    "relay": Method("RelaySGD, binary tree", STEPS, "relaysgd", topology="binary-tree"),
    "sgp": Method("SGP, random directed", STEPS, "sgp", topology="random-directed"),
    "ad-psgd": Method("AD-PSGD, ring", STEPS, "ad-psgd"),
    "choco": Method(
        "CHOCO, top 10 %", COMPRESSED, "choco-atc", ("compressor=top-k:0.1",), gammas=GAMMAS
    ),
    "beer": Method(
        "BEER, top 10 %", COMPRESSED, "beer", ("compressor=top-k:0.1",), gammas=GAMMAS
    ),
    "deepsqueeze": Method(
        "DeepSqueeze, int4", COMPRESSED, "deepsqueeze", ("compressor=int4",), gammas=GAMMAS
    ),
    "dcd": Method("DCD, int8", COMPRESSED, "dcd", ("compressor=int8",)),
    "sparta": Method("SPARTA, 0.5 %", COMPRESSED, "sparta", ("share=0.005",)),
    "rare": Method("DPSGD, rarely", ROUNDS, "dpsgd", mixes_in_rounds=True),
    "local": Method("local SGD", ROUNDS, "local-sgd"),
    "slowmo": Method("SlowMo", ROUNDS, "slowmo", grid=0.5),
    "diloco": Method("DiLoCo", ROUNDS, "diloco", grid=0.25),
    "streaming": Method(
        "Streaming DiLoCo", ROUNDS, "streaming-diloco", ("fragments=2", "delay=1"), grid=0.25
    ),
    "noloco": Method("NoLoCo", ROUNDS, "noloco", grid=0.5),
    "gasloc": Method("GASLoC, ring", ROUNDS, "gasloc", grid=0.25),
    "sparseloco": Method("SparseLoCo", ROUNDS, "sparseloco"),
}  # fmt: skip
"""By name. What each sends, and its options, are in docs/methods.md."""
BASELINE = "ssgd"
OURS = ("dpsgd", "one-peer")
"""The two that the harness was made for."""


def compared(size: Size) -> dict[str, Method]:
    """The methods that take part in a study."""
    return {name: METHODS[name] for name in size.methods or METHODS}
