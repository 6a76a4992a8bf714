r"""What a method keeps beside the weights, watched: compression, invariants, rounds.

A method has the columns of those rows that it keeps, by their names; `METHOD` says what each column
is. All are taken after the step. An invariant that a method states has a column that is 0 but for
rounding as long as it holds.
"""

from collections.abc import Callable, Iterable
from math import nan, sqrt
from typing import NamedTuple

import torch
from torch import Tensor

from gossip.comm.base import Communicator
from gossip.monitor.base import Moment, Values
from gossip.monitor.columns import METHOD
from gossip.monitor.effective_rate import MeanModelGradient
from gossip.monitor.spread import squared_norms


class Gauge(NamedTuple):
    """A column, and the rows without which it is not there."""

    needs: tuple[str, ...]
    measure: Callable[[Moment, Communicator], float]


def names_of(
    kept: Iterable[str], *, with_gradient: bool, with_flat: bool = False
) -> tuple[str, ...]:
    """Columns of a method that keeps rows of these names, in order.

    Args:
        kept: names of `gossip.algorithms.State.rows`.
        with_gradient: whether g is measured.
        with_flat: whether there is a formula for the stationary variance.
    """
    there = set(kept)
    needs = {name: set(gauge.needs) for name, gauge in GAUGES.items()}
    needs |= {ROUND_RATE: {"anchor"}} if with_gradient else {}
    needs |= {FLAT: set()} if with_flat else {}
    return tuple(name for name in METHOD if name in needs and needs[name] <= there)


def kept_values(moment: Moment, comm: Communicator) -> Values:
    """The values of all gauges whose rows are kept. Collective."""
    values = {
        name: GAUGES[name].measure(moment, comm)
        for name in names_of(moment.kept, with_gradient=False)
    }
    if moment.flat_spread is not None:
        values[FLAT] = sigma_w2_flat(moment, moment.flat_spread, comm)
    return values


def sigma_w2_flat(moment: Moment, flat_spread: float, comm: Communicator) -> float:
    r"""The sigma_w^2 that this alpha and scatter of gradients would lead to without curvature.

    .. math::
        \frac{\alpha^2}{n^2} \sum_{\lambda \ne 1} f(\lambda)\;
        \frac{1}{n - 1} \sum_j \|g_j - g_a\|^2

    f the method's, as 1/(1 - lambda^2) of DPSGD. Where it lies above the measured one, curvature
    draws the learners together; below, their gradients differ by more than noise.
    """
    scatter = _squares(moment.gradients, comm, _mean(moment.gradients, comm)).sum()
    square = moment.lr * moment.lr  # infinite where ** would be an OverflowError
    return square * flat_spread / comm.n * float(scatter) / max(comm.n - 1, 1)


def of_round(moment: Moment, comm: Communicator) -> tuple[Tensor, Tensor]:
    """Mean theta and mean pseudo-gradient of the round so far, both [d] float64. Collective."""
    theta = moment.kept["anchor"].double()
    return _mean(theta, comm), _mean(theta - moment.x_next.double(), comm)


def round_rate(
    moment: Moment,
    w_a: Tensor,
    g: MeanModelGradient,
    gradient_at: Callable[[Tensor], MeanModelGradient],
    comm: Communicator,
) -> float:
    """alpha_e of the pseudo-gradient, with the gradient at theta. Collective.

    Args:
        moment: of a method in rounds.
        w_a: mean model, [d].
        g: the gradient there, which is that at theta if theta is w_a.
        gradient_at: gives it elsewhere.
        comm: collective.
    """
    theta, pseudo_gradient = of_round(moment, comm)
    if not pseudo_gradient.any():
        return nan
    if not torch.equal(theta, w_a):
        g = gradient_at(theta)
    return g.component_of(pseudo_gradient)


def _mean(rows: Tensor, comm: Communicator) -> Tensor:
    """Over all learners, [d] float64."""
    return comm.mean(rows.double())


def _squares(rows: Tensor, comm: Communicator, centre: "Tensor | float" = 0.0) -> Tensor:
    """||row - centre||^2 of all learners, [n]."""
    return comm.gather(squared_norms(rows, centre).unsqueeze(1).contiguous())[:, 0]


def _rms(name: str) -> Callable[[Moment, Communicator], float]:
    """Root mean square length of a row."""
    return lambda moment, comm: sqrt(_squares(moment.kept[name], comm).mean())


def _consensus(name: str) -> Callable[[Moment, Communicator], float]:
    """Root mean square distance of a row from the mean of all."""

    def measure(moment: Moment, comm: Communicator) -> float:
        rows = moment.kept[name]
        return sqrt(_squares(rows, comm, _mean(rows, comm)).mean())

    return measure


def _estimate_error(moment: Moment, comm: Communicator) -> float:
    off = moment.x_next.double() - moment.kept["estimate"].double()
    return sqrt(_squares(off, comm).mean())


def _tracker_bias(moment: Moment, comm: Communicator) -> float:
    kept = moment.kept
    return float(_mean(kept["tracker"].double() - kept["gradient"].double(), comm).norm())


def _correction_bias(moment: Moment, comm: Communicator) -> float:
    return float(_mean(moment.kept["correction"], comm).norm())


def _mass_error(moment: Moment, comm: Communicator) -> float:
    return float(abs(_mean(moment.kept["mass"], comm) - 1))


def _anchor_spread(moment: Moment, comm: Communicator) -> float:
    rows = moment.kept["anchor"]
    return sqrt(_squares(rows, comm, _mean(rows, comm)).max())


def _pseudo_norm(moment: Moment, comm: Communicator) -> float:
    return float(of_round(moment, comm)[1].norm())


def _pseudo_agreement(moment: Moment, comm: Communicator) -> float:
    delta = moment.kept["anchor"].double() - moment.x_next.double()
    whole = float(_squares(delta, comm).mean())
    return float(_mean(delta, comm).square().sum()) / whole if whole else nan


def _pseudo_cosine(moment: Moment, comm: Communicator) -> float:
    delta = moment.kept["anchor"].double() - moment.x_next.double()
    mean = _mean(delta, comm)
    cosines = torch.stack([row @ mean / (row.norm() * mean.norm()) for row in delta])
    return float(comm.gather(cosines.unsqueeze(1).contiguous()).mean())


GAUGES: dict[str, Gauge] = {
    "error_norm": Gauge(("error",), _rms("error")),
    "estimate_error": Gauge(("estimate",), _estimate_error),
    "estimate_consensus": Gauge(("estimate",), _consensus("estimate")),
    "tracker_consensus": Gauge(("tracker",), _consensus("tracker")),
    "tracker_bias": Gauge(("tracker", "gradient"), _tracker_bias),
    "correction_bias": Gauge(("correction",), _correction_bias),
    "mass_error": Gauge(("mass",), _mass_error),
    "anchor_spread": Gauge(("anchor",), _anchor_spread),
    "pseudo_norm": Gauge(("anchor",), _pseudo_norm),
    "pseudo_agreement": Gauge(("anchor",), _pseudo_agreement),
    "pseudo_cosine": Gauge(("anchor",), _pseudo_cosine),
}
FLAT = "sigma_w2_flat"
"""The column that needs a formula of the method."""
ROUND_RATE = "alpha_e_round"
"""The column that needs a gradient at theta, besides."""
