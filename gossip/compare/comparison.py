"""The description of a comparison: its sides, batch sizes, seeds and tuned options."""

import itertools
from dataclasses import dataclass, field

from gossip.compare import methods
from gossip.compare.methods import SINGLE, Side
from gossip.compare.options import free
from gossip.config import Config
from gossip.errors import UserError

TunedValues = tuple[tuple[str, str], ...]
"""Tuned options and their values, as text."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """What is compared, complete: comparison.toml."""

    methods: tuple[str, ...]
    """Sides of the comparison, as `methods.parse` reads them."""
    learners: tuple[int, ...]
    """n; the total batch is n B."""
    seeds: tuple[int, ...] = (0,)
    tune: tuple[str, ...] = ()
    """KEY=V1,V2,...: every method and every n tries the product of these values."""
    tune_seeds: tuple[int, ...] = ()
    """Seeds of the trials; none: the first of `seeds`."""
    target: float | None = None
    """Error to reach; None: the single worker's."""
    slack: float = 0.0
    """Percentage points that the target accuracy, or R^2, is below the single worker's."""
    at_epoch: float | None = None
    """Where accuracies, or R^2, are compared; None: at the end."""
    samples: int
    """N, training samples without those held out."""
    given: tuple[str, ...] = ()
    """Options of the base that the user said."""
    base: Config = field(default_factory=lambda: Config(epochs=10.0))
    """What all methods share."""

    def __post_init__(self) -> None:
        """Refuse what cannot be compared."""
        for name in ("methods", "learners", "seeds"):
            values = getattr(self, name)
            if not values:
                raise UserError(f"no {name} given: write --{name} and at least one")
            for value in values:
                if values.count(value) > 1:
                    raise UserError(f"{name}: {value} is given twice")
        epochs = self.base.epochs
        if epochs is None:
            raise UserError("no epochs given: every run sees equally many samples; give --epochs")
        if self.at_epoch is not None and not 0 < self.at_epoch <= epochs:
            raise UserError(f"at_epoch={self.at_epoch}: it must be in (0, {epochs:g}], the epochs")
        if self.target is not None and not 0 < self.target < 1:
            raise UserError(f"target={self.target}: it is an error (1 - R^2), in (0, 1)")
        if not 0 <= self.slack < 100:
            raise UserError(f"slack={self.slack}: it is a number of percentage points, from 0 up")
        methods.distinct(self.sides())
        self._check_batches()
        self._check_tuning()

    def sides(self) -> tuple[Side, ...]:
        """The methods, the single worker with them where it sets the target."""
        sides = tuple(methods.parse(text) for text in self.methods)
        wanted = self.target is None and SINGLE not in {side.name for side in sides}
        return (Side(SINGLE, SINGLE), *sides) if wanted else sides

    def grid(self) -> list[TunedValues]:
        """The combinations of values that are tried; without tuning, one that changes nothing."""
        axes = [tried(text) for text in self.tune]
        return list(
            itertools.product(*([(key, value) for value in values] for key, values in axes))
        )

    def _check_batches(self) -> None:
        batch = self.base.data.batch_size
        for n in self.learners:
            if n < 1:
                raise UserError(f"learners={n}: it must be at least 1")
            if n * batch > self.samples:
                raise UserError(
                    f"learners={n}: their total batch n B = {n * batch} exceeds the "
                    f"{self.samples} training samples"
                )

    def _check_tuning(self) -> None:
        keys = [tried(text)[0] for text in self.tune]
        for key in keys:
            if keys.count(key) > 1:
                raise UserError(f"--tune {key} is given twice: list all values in one")
            for side in self.sides():
                if key in side.options:
                    raise UserError(f"method {side.text} sets {key}, which --tune tries")
        if keys and self.base.data.validation == 0:
            raise UserError(
                "--tune needs --validation > 0: the test set may not choose what it judges"
            )
        for side, values in itertools.product(self.sides(), self.grid() if keys else ()):
            methods.config(
                side, self.base, self.learners[0], self.seeds[0], dict(values), given=self.given
            )


def tried(text: str) -> tuple[str, tuple[str, ...]]:
    """KEY=V1,V2,... as the option and its values.

    Raises:
        UserError: it is none of that, the option is unknown or shared, or a value comes twice.
    """
    key, equals, rest = text.partition("=")
    values = tuple(value.strip() for value in rest.split(","))
    if not equals or not all(values):
        raise UserError(f"--tune {text}: write it as KEY=V1,V2,...")
    key = free(key.replace("-", "_"), "--tune option")
    if len(set(values)) < len(values):
        raise UserError(f"--tune {text}: a value is given twice")
    return key, values
