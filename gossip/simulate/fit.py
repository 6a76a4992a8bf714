r"""Latency and bandwidth that explain measured seconds, and how well they do.

Minimises :math:`\sum_i (\ln p_i(\alpha, \beta) - \ln s_i)^2` over alpha, beta > 0, with s_i what
was measured and p_i what the simulator itself says of it: a difference of 10 % counts alike
whether it is of microseconds or of minutes.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from gossip.errors import UserError
from gossip.simulate.network import Network
from gossip.simulate.presets import uniform

LATENCIES = (1e-6, 1e-4, 1e-2)
BANDWIDTHS = (1e6, 1e8, 1e10)
"""Where the search begins, seconds and bytes per second: the sum of squares has flat regions."""
LEAST, MOST = math.log(1e-9), math.log(1e3)
"""Bounds of ln alpha, seconds; those of ln 1/beta are their mirror."""
UNFELT = 0.01
"""A number whose doubling and halving change no prediction by more than this is not determined."""


@dataclass(frozen=True)
class Timing:
    """Something that was timed, and what a network would make of it."""

    label: str
    seconds: float
    predict: Callable[[Network], float]


@dataclass(frozen=True)
class Fitted:
    """A network of equal links, and what it says of that which was measured."""

    latency: float
    """alpha, seconds."""
    bandwidth: float
    """1 / beta, bytes per second."""
    observations: tuple[Timing, ...]
    predicted: tuple[float, ...]
    undetermined: tuple[str, ...]
    """`latency`, `bandwidth`, both or none: what the measurements do not feel."""

    @property
    def errors(self) -> NDArray[np.float64]:
        """Predicted over measured, minus 1."""
        seconds = np.array([each.seconds for each in self.observations])
        return np.array(self.predicted) / seconds - 1

    def network(self, name: str = "fitted") -> Network:
        """What can be simulated with."""
        return uniform(name, self.latency, self.bandwidth)


def fit(observations: Sequence[Timing]) -> Fitted:
    """The latency and bandwidth of equal links, each learner on a host of its own.

    Args:
        observations: at least two, of different size or number of messages.

    Raises:
        UserError: fewer than two, or one that took no time.
    """
    if len(observations) < 2:
        raise UserError(
            f"{len(observations)} measurement to fit latency and bandwidth to: give at least two, "
            "with rows of different sizes or other graphs, or measure a ping-pong"
        )
    for each in observations:
        if not 0 < each.seconds < math.inf:
            raise UserError(f"{each.label}: measured {each.seconds} seconds; it must be above 0")
    logs = np.log([each.seconds for each in observations])

    def predictions(point: NDArray[np.float64]) -> NDArray[np.float64]:
        network = uniform("fitted", math.exp(point[0]), math.exp(point[1]))
        return np.array([each.predict(network) for each in observations])

    def residuals(point: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.log(predictions(point)) - logs

    bounds = ([LEAST, -MOST], [MOST, -LEAST + math.log(1e3)])
    tried = [least_squares(residuals, start, bounds=bounds) for start in _starts()]
    best = min(tried, key=lambda result: result.cost).x
    unfelt = [
        name
        for axis, name in enumerate(("latency", "bandwidth"))
        if _feels(predictions, best, axis) < UNFELT
    ]
    latency, bandwidth = np.exp(best)
    found = tuple(float(p) for p in predictions(best))
    return Fitted(float(latency), float(bandwidth), tuple(observations), found, tuple(unfelt))


def _starts() -> Iterator[NDArray[np.float64]]:
    for latency in LATENCIES:
        for bandwidth in BANDWIDTHS:
            yield np.log([latency, bandwidth])


def _feels(
    predictions: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    point: NDArray[np.float64],
    axis: int,
) -> float:
    """Largest relative change of a prediction as one of the two is doubled or halved."""
    moved = np.zeros(2)
    moved[axis] = math.log(2)
    here = predictions(point)
    return max(
        float(np.abs(predictions(point + sign * moved) / here - 1).max()) for sign in (1, -1)
    )


def sentence(fitted: Fitted) -> str:
    """What was found, and how far the predictions are off."""
    errors = np.abs(fitted.errors)
    worst = int(errors.argmax())
    said = (
        f"latency {fitted.latency:.3g} s, bandwidth {8 * fitted.bandwidth / 1e9:.3g} Gbit/s: "
        f"predictions are off by {np.median(errors):.1%} in the median of {len(errors)}, and by "
        f"{errors[worst]:.1%} at worst ({fitted.observations[worst].label})."
    )
    for name in fitted.undetermined:
        said += f" The {name} is not determined: no measurement depends on it."
    return said


def toml(fitted: Fitted, source: str) -> str:
    """A network file for `--network`, with the residuals as comments.

    Args:
        fitted: what was found.
        source: what it was fitted to, for the first line.
    """
    lines = [f"# Fitted by gossip.simulate to {source}.", f"# {sentence(fitted)}", "#"]
    lines.append("# measured s, predicted s, error")
    lines += [
        f"# {each.seconds:.4g}, {predicted:.4g}, {error:+.1%}: {each.label}"
        for each, predicted, error in zip(
            fitted.observations, fitted.predicted, fitted.errors, strict=True
        )
    ]
    lines += ["[links.rack]", f"latency = {fitted.latency:.6g}"]
    return "\n".join([*lines, f"bandwidth = {8 * fitted.bandwidth:.6g}", ""])
