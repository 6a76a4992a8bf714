"""Options of methods, key=value: each takes those it has, and one that none has is refused."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from gossip.algorithms.base import Algorithm
from gossip.errors import UserError, suggestion
from gossip.keyvalue import parse_options, typed_options
from gossip.optim import FlatOptimizer
from topologies.options import option_names

MakeOptimizer = Callable[[], FlatOptimizer]
SEED = "seed"
"""The field of a method that draws random numbers: not an option, but the run's seed."""


class AlgorithmSettings(NamedTuple):
    """What a run says to its algorithms; each takes what it knows."""

    order: str
    noise_std: float
    noise_mode: str
    seed: int
    options: Mapping[str, str] = {}
    """`--algorithm-options`."""


class WithOptions:
    """A line of the table for a class whose fields are its options, beside the optimizer.

    Args:
        name: on the command line.
        kind: a frozen dataclass, its first field the optimizer.
    """

    def __init__(self, name: str, kind: Callable[..., Any]) -> None:
        self._name, self._kind = name, kind

    @property
    def options(self) -> list[str]:
        """Names of its options."""
        return [k for k in option_names(self._kind) if k != SEED]

    def __call__(self, optimizer: MakeOptimizer, settings: AlgorithmSettings) -> Algorithm:
        """The method with the options that are its own."""
        own = {key: text for key, text in settings.options.items() if key in self.options}
        values = typed_options(f"algorithm {self._name}", self._kind, own)
        if SEED in option_names(self._kind):
            values[SEED] = settings.seed
        return self._kind(optimizer, **values)


def refuse_unknown(table: Mapping[str, object], names: Iterable[str], given: Iterable[str]) -> None:
    """Refuse an option that none of the algorithms has.

    Raises:
        UserError: there is such.
    """
    chosen = [table.get(name) for name in names]
    known = sorted(
        {key for line in chosen if isinstance(line, WithOptions) for key in line.options}
    )
    for key in parse_options(given, "algorithm"):
        if key not in known:
            there = f"there are {', '.join(known)}" if known else "they have none"
            raise UserError(
                f"algorithm {' '.join(names)} has no option {key!r}{suggestion(key, known)}; "
                f"{there}"
            )
