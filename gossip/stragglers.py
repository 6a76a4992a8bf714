"""Straggler models: the factor by which a learner is slow at a step."""

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from gossip.errors import UserError, lookup
from gossip.keyvalue import parse_options, typed_options
from gossip.streams import STRAGGLER, generator
from topologies.arrays import map_npy
from topologies.texts import decoded, table_lines

MAX_TRACE_BYTES = 2**26
"""A trace file larger than this is not read."""
MAX_FACTOR = 1e6
"""Larger factors are refused, and drawn ones cut off: a sleep of centuries is none."""


class Straggler(Protocol):
    """How much longer a gradient takes than an undisturbed one."""

    def row(self, t: int) -> np.ndarray:
        """sigma(t) of all learners, [n]."""
        ...

    def factor(self, learner: int, t: int) -> float:
        """sigma_j(t) >= 0: C_j(t) = c sigma_j(t)."""
        ...


@dataclass(frozen=True)
class Drawn:
    """Factors that are drawn at (seed, STRAGGLER, t), learner by learner.

    They are the same for whoever asks, and those of the first learners the same for any n.
    """

    run: "Disturbed"
    draw: Callable[[np.random.Generator, int], np.ndarray]
    """(random, n) -> n factors, drawn one after the other."""

    def row(self, t: int) -> np.ndarray:
        """sigma(t), [n]."""
        random = generator(self.run.seed, STRAGGLER, t)
        return np.minimum(self.draw(random, self.run.n), MAX_FACTOR)

    def factor(self, learner: int, t: int) -> float:
        """sigma_j(t)."""
        return float(self.row(t)[learner])


@dataclass(frozen=True)
class Table:
    """Factors [steps, n] that begin again when the steps run out."""

    factors: np.ndarray

    def row(self, t: int) -> np.ndarray:
        """sigma(t), [n]."""
        return self.factors[t % len(self.factors)]

    def factor(self, learner: int, t: int) -> float:
        """sigma_j(t)."""
        return float(self.factors[t % len(self.factors), learner])


@dataclass(frozen=True)
class Disturbed:
    """Whom the disturbances are for."""

    n: int
    seed: int


def make(name: str, options: Sequence[str], *, n: int, seed: int) -> Straggler:
    """The straggler model `name`.

    Args:
        name: one of `STRAGGLERS`.
        options: its options as key=value.
        n: number of learners.
        seed: of the run.

    Raises:
        UserError: an option that the model does not have, or a value that it cannot have.
    """
    build = lookup(STRAGGLERS, name, "straggler model")
    given = parse_options(options, "straggler")
    return build(Disturbed(n, seed), **typed_options(f"straggler {name}", build, given))


def delay(straggler: Straggler, hosted: range, t: int, seconds: float) -> float:
    """Seconds that a process waits at step t: as long as the slowest learner it hosts.

    Args:
        straggler: the model.
        hosted: the learners of this process.
        t: the step.
        seconds: c, what an undisturbed gradient takes.
    """
    return seconds * max(0.0, max(straggler.factor(j, t) for j in hosted) - 1)


def _none(run: Disturbed) -> Straggler:
    return Table(np.ones((1, run.n)))


def _constant(run: Disturbed, *, s: float = 3.0, learners: str = "0") -> Straggler:
    _within(0, MAX_FACTOR, s=s)
    try:
        slow = [int(learner) for learner in learners.split(",")]
    except ValueError:
        raise UserError(
            f"straggler learners={learners}: give learner numbers, for example learners=0,5"
        ) from None
    if outside := [j for j in slow if not 0 <= j < run.n]:
        raise UserError(
            f"straggler learners={learners}: learner {outside[0]} is not one of 0..{run.n - 1}"
        )
    factors = np.ones((1, run.n))
    factors[0, slow] = s
    return Table(factors)


def _bernoulli(run: Disturbed, *, p: float = 0.1, s: float = 3.0) -> Straggler:
    """Factor s with probability p, else 1: E max_j = 1 + (s - 1)(1 - (1 - p)^n) for s >= 1."""
    _within(0, 1, p=p)
    _within(0, MAX_FACTOR, s=s)
    return Drawn(run, lambda random, n: np.where(random.random(n) < p, s, 1.0))


def _shifted_exponential(run: Disturbed, *, c: float = 1.0, rate: float = 2.0) -> Straggler:
    """Factor c + Exp(rate): E max_j = c + H_n / rate, H_n = 1 + 1/2 + ... + 1/n."""
    _within(0, MAX_FACTOR, c=c)
    _within(1 / MAX_FACTOR, MAX_FACTOR, rate=rate)
    return Drawn(run, lambda random, n: c + random.exponential(1 / rate, n))


def _lognormal(run: Disturbed, *, sigma: float = 0.5) -> Straggler:
    """exp(N(0, sigma^2))."""
    _within(0, math.log(MAX_FACTOR), sigma=sigma)
    return Drawn(run, lambda random, n: random.lognormal(0.0, sigma, n))


def _pareto(run: Disturbed, *, a: float = 3.0) -> Straggler:
    """P(factor > x) = x^-a from 1 up; the mean a / (a - 1) asks for a > 1."""
    if not 1 < a <= MAX_FACTOR:
        raise UserError(
            f"straggler a={a}: the mean of a Pareto distribution is finite only for a above 1; "
            f"give a up to {MAX_FACTOR:g}"
        )
    return Drawn(run, lambda random, n: 1.0 + random.pareto(a, n))


def _trace(run: Disturbed, *, file: str = "") -> Straggler:
    if not file:
        raise UserError("straggler trace needs a file: give file=FILE.csv or file=FILE.npy")
    return Table(_factors(Path(file), run.n))


STRAGGLERS: dict[str, Callable[..., Any]] = {
    "none": _none,
    "constant": _constant,
    "bernoulli": _bernoulli,
    "shifted-exponential": _shifted_exponential,
    "lognormal": _lognormal,
    "pareto": _pareto,
    "trace": _trace,
}
"""What `--straggler` offers: functions (run, **options) -> Straggler."""


def _within(low: float, high: float, **values: float) -> None:
    for name, value in values.items():
        if not low <= value <= high:
            raise UserError(f"straggler {name}={value}: it must be a number from {low} to {high:g}")


def _factors(path: Path, n: int) -> np.ndarray:
    """The factors [steps, n] in a file that is not trusted."""
    readers = {".csv": _csv, ".npy": _npy}
    read = readers.get(path.suffix.lower())
    if read is None:
        raise UserError(f"straggler file={path}: give a file {' or '.join(readers)}")
    # A device has no size, and no end.
    if not path.is_file():
        raise UserError(f"straggler file={path}: there is no such file")
    if (size := path.stat().st_size) > MAX_TRACE_BYTES:
        raise UserError(
            f"straggler file={path}: it has {size} bytes, at most {MAX_TRACE_BYTES} are read"
        )
    try:
        factors = read(path)
    except (OSError, ValueError, TypeError, Warning) as error:
        raise UserError(
            f"straggler file={path}: it is not a table of numbers ({error}): write it anew"
        ) from error
    if factors.ndim != 2 or factors.shape[1] != n or not len(factors):
        raise UserError(
            f"straggler file={path}: it has shape {factors.shape}; give factors [steps, n] with "
            f"n = {n} columns, one for each learner"
        )
    if not ((factors >= 0) & (factors <= MAX_FACTOR)).all():
        raise UserError(
            f"straggler file={path}: a factor is a number from 0 to {MAX_FACTOR:g}, and one is not"
        )
    return factors


def _csv(path: Path) -> np.ndarray:
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # of a file without numbers
        lines = table_lines(decoded(path.read_bytes()))
        return np.loadtxt(lines, delimiter=",", ndmin=2, comments=None, dtype=np.float64)


def _npy(path: Path) -> np.ndarray:
    mapped = map_npy(path)
    if mapped.dtype.kind not in "fiu":
        raise TypeError(f"it holds {mapped.dtype.name}")
    return np.array(mapped, dtype=np.float64)
