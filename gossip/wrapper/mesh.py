"""Learners of several processes, as a communicator between them."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from scipy.sparse import csr_array
from torch import Tensor

from gossip.comm.base import Communicator, Decode, Pending
from gossip.comm.by_identity import ByIdentity
from gossip.comm.startup.together import on_all
from gossip.errors import UserError

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh


class Meshed:
    r"""n learners of s processes each: processes of the same place talk to each other.

    Process r is place p(r) of learner j(r). A mixing matrix W [n, n] between learners is, between
    processes,

    .. math:: W'_{rq} = W_{j(r) j(q)} \text{ where } p(r) = p(q), \text{ else } 0.

    What belongs to a learner, such as a squared norm, is the sum over its processes. Collective
    over all processes, as every communicator.

    Args:
        world: of all processes, each hosting one row.
        mesh: of one dimension, the processes that have this process's place, by learner.

    Raises:
        UserError: the mesh is not one of such places; on all processes.
    """

    def __init__(self, world: Communicator, mesh: "DeviceMesh") -> None:
        self.world = world
        """Of all processes."""
        own = on_all(world, lambda: _ranks(mesh, world.process))
        places: list[list[int]] = world.share(own)
        on_all(world, lambda: _check_places(places))
        self._places = places
        self.backend = world.backend
        self.n = len(own)
        self.process = own.index(world.process)
        self.hosted = range(self.process, self.process + 1)
        self.processes = world.processes
        self.each = world.processes // self.n
        """s."""
        self.traffic = world.traffic
        learner_of = [ranks.index(rank) for rank, ranks in enumerate(places)]
        self.own = [rank for rank, j in enumerate(learner_of) if j == self.process]
        """The processes of the learner here."""
        self._learner_of = torch.tensor(learner_of)
        self._lifted = ByIdentity(self._lift)
        self._all = csr_array(np.full((self.n, self.n), 1 / self.n))
        self._first = csr_array(np.eye(1, self.n).repeat(self.n, axis=0))

    def _lift(self, w: csr_array) -> csr_array:
        """W' of W."""
        rows, columns = w.nonzero()
        values = np.asarray(w[rows, columns])
        lifted = [
            (r, ranks[k], value)
            for r, ranks in enumerate(self._places)
            for j, k, value in zip(rows, columns, values, strict=True)
            if ranks[j] == r
        ]
        at, of, numbers = zip(*lifted, strict=True)
        size = len(self._places)
        return csr_array((numbers, (at, of)), shape=(size, size))

    def agree(self, facts: Mapping[str, object]) -> None:
        """Refuse facts that the processes of one place do not have in common. Collective.

        Raises:
            UserError: of the first; on all processes.
        """
        everyone = self.share(dict(facts))
        for ranks in self._places:
            for name, value in everyone[ranks[0]].items():
                others = [everyone[rank].get(name) for rank in ranks]
                if any(other != value for other in others):
                    raise UserError(
                        f"processes {ranks} have the same part of each learner, and disagree "
                        f"about {name}: {', '.join(map(str, others))}; shard all learners alike"
                    )

    def start_mix(self, x: Tensor, w: csr_array, decode: Decode | None = None) -> Pending:
        """W X, of the part that is here."""
        return self.world.start_mix(x, self._lifted(w), decode)

    def new_rows(self, like: Tensor) -> Tensor:
        """As between all processes."""
        return self.world.new_rows(like)

    def mean(self, x: Tensor) -> Tensor:
        """Over the learners, of the part that is here; the same bits on all of them."""
        return self.start_mean(x)()

    def start_mean(self, x: Tensor) -> Pending:
        """As `mean`; the first of its two mixings travels meanwhile."""
        row, shape = x.reshape(1, -1).contiguous(), x.shape[1:]
        if self.n == 1:
            return lambda: row.reshape(shape)
        own = self.start_mix(row, self._all)
        return lambda: self.start_mix(own().contiguous(), self._first)().reshape(shape)

    def patient(self) -> None:
        """As between all processes."""
        self.world.patient()

    def gather(self, x: Tensor) -> Tensor:
        """[n, ...]: of each learner the sum over its processes."""
        each = self.world.gather(x)
        total = each.new_zeros(self.n, *each.shape[1:])
        return total.index_add_(0, self._learner_of.to(each.device), each)

    def within(self, x: Tensor) -> Tensor:
        """[k]: the sum over this learner's processes. Collective."""
        return self.gather(x.unsqueeze(0))[self.process]

    def coordinates(self, vectors: Tensor) -> Tensor:
        r"""Vectors, a part of each being here, as k short ones with the whole ones' inner products.

        Let the columns of V_p [d_p, k] be the parts at place p, and V_p = Q_p R_p. Then

        .. math:: V^T V = \sum_p V_p^T V_p = \sum_p R_p^T R_p,

        so that the columns of the s factors below each other are the vectors in other coordinates:
        to rounding lengths, angles and what is left of differences are the same. (Of products alone
        half of the digits of a small difference would be lost.) Collective.

        Args:
            vectors: the parts that are here, [k, d_p]; the same for all learners.

        Returns:
            [k, s k], the same in all processes.
        """
        k = len(vectors)
        factor = torch.linalg.qr(vectors.T, mode="r").R
        padded = factor.new_zeros(k, k)
        padded[: len(factor)] = factor
        each = self.world.gather(padded.reshape(1, -1))
        return self.of_learner(0, each).reshape(-1, k).T

    def of_learner(self, j: int, everyone: Tensor) -> Tensor:
        """Of rows of all processes those of learner j's, [s, ...]."""
        return everyone[self._learner_of.to(everyone.device) == j]

    def share(self, value: Any) -> list[Any]:
        """Every process's, not every learner's."""
        return self.world.share(value)

    def lost(self, error: BaseException) -> bool:
        """As between all processes."""
        return self.world.lost(error)

    def survivors(self) -> None:
        """A learner that has lost a part of itself does not go on."""


def longest(comm: Communicator, sizes: Iterable[int]) -> list[int]:
    """Of each size the largest of all processes; only shards have different ones. Collective."""
    if not isinstance(comm, Meshed):
        return list(sizes)
    return [max(each) for each in zip(*comm.share(list(sizes)), strict=True)]


def _ranks(mesh: "DeviceMesh", process: int) -> list[int]:
    """The processes of this one's place, by learner."""
    if not hasattr(mesh, "mesh") or mesh.mesh.ndim != 1:
        raise UserError(
            f"mesh={mesh!r}: give one dimension of a torch DeviceMesh, the processes that have the "
            'same part of each learner, such as mesh["learner"] of init_device_mesh("cpu", (2, 2), '
            'mesh_dim_names=("learner", "shard"))'
        )
    ranks = [int(rank) for rank in mesh.mesh.tolist()]
    if process not in ranks:
        raise UserError(f"mesh={mesh!r} leaves out process {process}: each has to be in a learner")
    return ranks


def _check_places(places: list[list[int]]) -> None:
    """Each process is in one place, with the same others there, and learners are equally large."""
    agreed = all(places[q] == ranks for ranks in places for q in ranks)
    if not agreed or len({len(ranks) for ranks in places}) > 1:
        raise UserError(
            f"the mesh says {places} of the processes that share a place: each has to be in one "
            "place, all of which have a process of every learner"
        )
