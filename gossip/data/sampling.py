"""The samples of each learner at each step: a pure function of seed and step."""

from copy import copy
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property

import numpy as np

from gossip.data.partition import PARTITIONS, Population
from gossip.errors import UserError, lookup
from gossip.streams import BATCHES, SHUFFLE, generator


@dataclass(frozen=True, eq=False)
class Sampler:
    """Training samples of each hosted learner at each step.

    Without replacement, a shard is an endless stream: its samples in one random order, then in
    another, and so on, the order of epoch e drawn at (seed, SHUFFLE, learner, e). A learner's
    batches are that stream cut into pieces of B, so a batch may end one epoch and begin the
    next, nothing is dropped or padded, and each epoch covers each sample exactly once. Learners
    with unequal shards are in different epochs at the same step.

    With partition `shared` there is one stream, of all N samples, at (seed, SHUFFLE, e). Step t
    takes the next n B of it and deals them in equal contiguous parts: learner j gets positions
    (t n + j) B to (t n + j + 1) B. Any split of the same n B trains on the same samples.

    With replacement, the B samples at step t are drawn evenly from the shard, at (seed, BATCHES,
    learner, t).

    Where batches grow, streams are cut into pieces of other sizes from some step on (`grown`): what
    a step gets depends on how many samples came before it, and on nothing else.

    Nothing depends on how learners are spread over processes or on which steps were asked for
    before; what is kept between calls only saves work.
    """

    num_samples: int
    """N."""
    n: int
    """Number of learners."""
    hosted: range
    """The learners whose rows are wanted."""
    batch_size: int
    """B, of each learner."""
    seed: int
    _: KW_ONLY
    partition: str = "shared"
    """One of `PARTITIONS`."""
    replacement: bool = False
    labels: np.ndarray | None = None
    """[N] or [N, T]; partition `dirichlet` needs [N]."""
    concentration: float = 0.5
    """Concentration of the Dirichlet distribution, for partition `dirichlet`."""
    since: int = 0
    """First step of these n learners with this B; before, there were more of them, or B another."""
    drawn: int = 0
    """Samples that all learners together had drawn until then."""
    ahead: int = 0
    """Samples that a learner is further in a shard of its own than t B."""

    def __post_init__(self) -> None:
        """Refuse what cannot be sampled, before anything runs."""
        lookup(PARTITIONS, self.partition, "partition")
        for name in ("num_samples", "n", "batch_size"):
            if getattr(self, name) < 1:
                raise UserError(f"{name}={getattr(self, name)}: must be at least 1")
        assert self.hosted.step == 1
        assert 0 <= self.hosted.start < self.hosted.stop <= self.n
        self._check_sizes()

    @cached_property
    def shards(self) -> list[np.ndarray]:
        """Samples of every learner of the run, or one pool if they share it."""
        population = Population(
            num_samples=self.num_samples,
            n=self.n,
            seed=self.seed,
            labels=self.labels,
            concentration=self.concentration,
        )
        return PARTITIONS[self.partition](population)

    @property
    def steps_per_epoch(self) -> float:
        """Steps in which all learners together draw N samples."""
        return self.num_samples / (self.n * self.batch_size)

    @property
    def largest_batch(self) -> int:
        """The largest B with which no learner meets a sample twice in a step."""
        if self._is_shared:
            return self.num_samples // self.n
        return min(len(shard) for shard in self.shards)

    def epoch(self, t: int) -> float:
        """Samples drawn by all learners before step t, divided by N."""
        return self.drawn_before(t) / self.num_samples

    def grown(self, batch_size: int, t: int) -> "Sampler":
        """From step t on with batches of another size."""
        if batch_size == self.batch_size:
            return self
        ahead = self._walked_before(t) - t * batch_size
        return self.since_then(batch_size, since=t, drawn=self.drawn_before(t), ahead=ahead)

    def since_then(self, batch_size: int, *, since: int, drawn: int, ahead: int) -> "Sampler":
        """With batches of another size from some step on; a copy that keeps the orders made."""
        later = copy(self)
        parts = {"batch_size": batch_size, "since": since, "drawn": drawn, "ahead": ahead}
        for name, value in parts.items():
            object.__setattr__(later, name, value)
        return later

    def without(self, left: range, n: int, t: int) -> "Sampler":
        """From step t on, for n learners of which `left` are here: some have been lost.

        They deal all samples among themselves anew, those of the lost included.
        """
        return replace(self, n=n, hosted=left, since=t, drawn=self.drawn_before(t))

    def indices(self, t: int) -> np.ndarray:
        """Samples of the hosted learners at step t, [local, B] int64."""
        if self.replacement:
            return np.stack([self._drawn(learner, t) for learner in self.hosted])
        if self._is_shared:
            part = range(self.hosted.start * self.batch_size, self.hosted.stop * self.batch_size)
            return self.stretch(t, part).reshape(len(self.hosted), self.batch_size)
        return self._orders.take(self._walked_before(t) + np.arange(self.batch_size)[None])

    def stretch(self, t: int, part: range) -> np.ndarray:
        """Part of the n B samples that all learners together have at step t, [1, len(part)]."""
        assert self._is_shared
        assert not self.replacement
        positions = self.drawn_before(t) + np.arange(part.start, part.stop)
        return self._orders.take(positions[None]) if part else positions[None]

    def drawn_before(self, t: int) -> int:
        """Samples that all learners together draw before step t."""
        return self.drawn + (t - self.since) * self.n * self.batch_size

    def _walked_before(self, t: int) -> int:
        """Samples that a learner draws from a shard of its own before step t."""
        return t * self.batch_size + self.ahead

    @property
    def _is_shared(self) -> bool:
        return self.partition == "shared"

    def _shard(self, learner: int) -> np.ndarray:
        return self.shards[0 if self._is_shared else learner]

    def _drawn(self, learner: int, t: int) -> np.ndarray:
        shard = self._shard(learner)
        return shard[
            generator(self.seed, BATCHES, learner, t).integers(len(shard), size=self.batch_size)
        ]

    @cached_property
    def _orders(self) -> "Orders":
        if self._is_shared:
            return Orders(self.shards, [()], self.seed)
        hosted = [self.shards[learner] for learner in self.hosted]
        return Orders(hosted, [(learner,) for learner in self.hosted], self.seed)

    def _check_sizes(self) -> None:
        """Refuse shards that are empty or, without replacement, smaller than a batch."""
        sizes = [len(shard) for shard in self.shards]
        if self._is_shared:
            sizes = [self.num_samples // self.n] if not self.replacement else sizes
        least = 1 if self.replacement else self.batch_size
        learner = int(np.argmin(sizes))
        if sizes[learner] >= least:
            return
        remedy = "use fewer learners" if self.replacement else "use a smaller batch, fewer learners"
        if self.partition == "dirichlet":
            remedy += f", a concentration above {self.concentration:g} or another seed"
        raise UserError(
            f"batch_size={self.batch_size}, learners={self.n}, partition={self.partition}: the "
            f"shard of learner {learner} has {sizes[learner]} of {self.num_samples} samples, "
            f"fewer than {least}: {remedy}"
        )


class Orders:
    """Endless shuffled streams over some shards, the two epochs in use kept in memory."""

    def __init__(self, shards: list[np.ndarray], addresses: list[tuple[int, ...]], seed: int):
        """Streams over `shards`; the order of epoch e is drawn at (seed, SHUFFLE, *address, e)."""
        self._shards = shards
        self._addresses = addresses
        self._seed = seed
        self._sizes = np.array([len(shard) for shard in shards])[:, None]
        self._starts = (np.cumsum(self._sizes) - self._sizes[:, 0])[:, None]
        # Orders of even epochs in row 0, of odd ones in row 1, shard after shard: looking up a
        # batch is one gather, however many learners there are. -1: nothing there yet.
        self._table = np.empty((2, int(self._sizes.sum())), np.int64)
        self._held = np.full((2, len(shards)), -1)

    def take(self, positions: np.ndarray) -> np.ndarray:
        """Samples at positions [local or 1, k] of each stream, k that follow each other.

        Returns:
            [local, k].
        """
        most = int(self._sizes.min())  # of the epochs of a stream, two are held at a time
        if positions.shape[1] > most:
            pieces = range(0, positions.shape[1], most)
            return np.hstack([self.take(positions[:, k : k + most]) for k in pieces])
        epochs, offsets = np.divmod(positions, self._sizes)
        for column in (0, -1):
            self._hold(epochs[:, column])
        return self._table[epochs % 2, self._starts + offsets]

    def _hold(self, epochs: np.ndarray) -> None:
        rows = epochs % 2
        for k in np.flatnonzero(self._held[rows, np.arange(len(epochs))] != epochs):
            epoch, row, shard = int(epochs[k]), int(rows[k]), self._shards[k]
            random = generator(self._seed, SHUFFLE, *self._addresses[k], epoch)
            start = int(self._starts[k, 0])
            self._table[row, start : start + len(shard)] = shard[random.permutation(len(shard))]
            self._held[row, k] = epoch
