"""Assignment of the training samples to learners, for the whole run."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gossip.errors import UserError
from gossip.streams import PARTITION, generator


@dataclass(frozen=True, kw_only=True, eq=False)
class Population:
    """What a partition divides."""

    num_samples: int
    n: int
    seed: int
    labels: np.ndarray | None = None
    """[num_samples] class of each sample, or [num_samples, T]; only label skew looks at it."""
    concentration: float = 0.5
    """Dirichlet concentration: large is even, small gives each class to few learners."""


def shared(population: Population) -> list[np.ndarray]:
    """One pool for all learners: each epoch's order is dealt to them batch by batch."""
    return [np.arange(population.num_samples)]


def iid(population: Population) -> list[np.ndarray]:
    """Random shards of equal size, drawn at (seed, PARTITION).

    If n does not divide the number of samples, the first learners get one sample more.
    """
    order = generator(population.seed, PARTITION).permutation(population.num_samples)
    return [np.sort(shard) for shard in np.array_split(order, population.n)]


def dirichlet(population: Population) -> list[np.ndarray]:
    r"""Shards with label skew, of unequal size, drawn at (seed, PARTITION).

    .. math:: (p_{c,0}, \dots, p_{c,n-1}) \sim \mathrm{Dirichlet}(\beta, \dots, \beta)

    for each class c; learner j gets the share p_{c,j} of the samples of c, rounded so that every
    sample goes to exactly one learner. beta is `concentration`.

    Raises:
        UserError: no labels, or several for each sample, or a concentration that is not positive.

    References:
        Hsu, Qi, Brown, "Measuring the effects of non-identical data distribution for federated
        visual classification", 2019; there the classes of each learner are drawn, here, as is
        common since, the learners of each class.
    """
    if population.labels is None or len(population.labels) != population.num_samples:
        raise UserError("partition dirichlet needs the label of every training sample")
    if population.labels.dtype.kind == "f":
        raise UserError(
            "partition dirichlet skews classes, and these labels are numbers: use partition shared "
            "or iid"
        )
    if population.labels.ndim != 1:
        raise UserError(
            "partition dirichlet needs one label for each sample, and these have "
            f"{population.labels.shape[1]}: use partition shared or iid"
        )
    if not population.concentration > 0:
        raise UserError(
            f"concentration={population.concentration:g}: must be positive, for example 0.5"
        )
    random = generator(population.seed, PARTITION)
    beta = np.full(population.n, population.concentration)
    owner = np.empty(population.num_samples, np.int64)
    for label in np.unique(population.labels):
        members = random.permutation(np.flatnonzero(population.labels == label))
        ends = np.rint(np.cumsum(random.dirichlet(beta)) * len(members)).astype(np.int64)
        ends[-1] = len(members)  # the proportions add up to 1 only to rounding
        owner[members] = np.searchsorted(ends, np.arange(len(members)), side="right")
    order = np.argsort(owner, kind="stable")
    return np.split(order, np.cumsum(np.bincount(owner, minlength=population.n))[:-1])


PARTITIONS: dict[str, Callable[[Population], list[np.ndarray]]] = {
    "shared": shared,
    "iid": iid,
    "dirichlet": dirichlet,
}
"""What `--partition` offers: population -> one shard for each learner, or one pool for all."""
