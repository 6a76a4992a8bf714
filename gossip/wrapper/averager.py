"""Only the averaging: one call behind the optimizer's step."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, NoReturn

from gossip.comm.base import Communicator, Traffic
from gossip.comm.startup.together import on_all
from gossip.errors import UserError
from gossip.wrapper.distances import measured
from gossip.wrapper.exchange import Exchange
from gossip.wrapper.link import connected, device_of
from gossip.wrapper.options import (
    agree_on_call,
    agree_on_options,
    by_name,
    check_link,
    check_mix_every,
    topology_for,
)
from gossip.wrapper.same_tensors import agree_on_tensors, broadcast
from gossip.wrapper.shards import refuse_shards
from gossip.wrapper.weights import Weights
from topologies import Topology


class Averager:
    r"""Averages parameters with the neighbours' at every `step()`, and does nothing else.

    .. math:: w_j \leftarrow \sum_k W_{jk}(t)\, w_k

    For a loop that is not to be wrapped, in place of torch's `PeriodicModelAverager`::

        averager = gossip.Averager(model.parameters(), topology="ring")
        ...
        optimizer.step()
        averager.step()

    This is adapt-then-combine; to average while the gradient is computed, use `Gossip`. All
    processes begin with the parameters of the first.

    Args:
        parameters: those to average, as an optimizer takes them: tensors, pairs with their names,
            or groups of them. They are on their device already; those that need no gradient are
            left out.
        topology: a name (`python -m topologies` lists them), a file, a module:function; or, of as
            many learners as there are processes, a `topologies.Topology`, a mixing matrix, a
            networkx graph, or a list of matrices or graphs.
        mix_every: H; `step` averages at every H-th call, with the topology's next matrix.
        topology_options: of the topology.
        weights: rule that makes W of a graph; None: the topology's own.
        seed: of random topologies.
        backend: "auto", or another of `gossip.comm.connect.BACKENDS`.
        timeout: seconds that a process may wait for others before the job ends; 0: for ever.
            That of a script's first wrapper holds for all.

    Raises:
        UserError: options or parameters that do not fit, or that differ between processes.
    """

    def __init__(
        self,
        parameters: Iterable[Any],
        topology: Any = "one-peer-exponential",
        *,
        mix_every: int = 1,
        topology_options: Mapping[str, Any] | None = None,
        weights: str | None = None,
        seed: int = 0,
        backend: str = "auto",
        timeout: float = 600.0,
    ) -> None:
        check_link(backend, timeout)
        named = by_name(parameters)
        comm, self._position = connected(backend, timeout, device_of(named.values()))
        self._position.phase = "training"

        def prepared() -> tuple[Topology, Weights]:
            check_mix_every(mix_every)
            refuse_shards(named, "Averager")
            chosen = topology_for(topology, comm.n, topology_options, weights, seed)
            return chosen, Weights(named, "what an Averager has")

        chosen, flat = on_all(comm, prepared)
        agree_on_options(comm, chosen, mix_every=mix_every)
        agree_on_tensors(comm, {s.name: s.parameter for s in flat.slots.values()}, flat.ties)
        rows = flat.rows()
        broadcast(comm, rows)
        flat.put(rows)
        self._exchange = Exchange(comm, flat, chosen, mix_every)
        self._t = 0
        flat.claim()

    def step(self) -> None:
        """Average with the neighbours of this step. Collective.

        Raises:
            UserError: a parameter has been moved or converted.
        """
        self._exchange.weights.check()
        self._position.come_back()
        with self._position.during("Averager.step()"):
            self._exchange.mix(self._t)
        self._t += 1
        self._position.step += 1

    @contextmanager
    def average(self) -> Iterator[None]:
        """In this block the parameters are the mean of all learners', then their own again.

        Collective, bit for bit, also after an exception.
        """
        with ExitStack() as block:
            with self._together("Averager.average()"):
                block.enter_context(self._exchange.averaged())
            yield

    def monitor(self) -> dict[str, float]:
        """How far the learners are apart; see `Gossip.monitor`. Collective, changes nothing."""
        with self._together("Averager.monitor()"):
            return {"step": self._t, **measured(self._exchange.weights, self.comm)}

    @contextmanager
    def _together(self, call: str) -> Iterator[None]:
        """Around what all learners do together at one step, and another waits for."""
        with self._position.during(call):
            agree_on_call(self.comm, f"{call} at step {self._t}")
            yield

    def state_dict(self) -> dict[str, int]:
        """The number of steps, on which W depends."""
        return {"step": self._t}

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        """Go on from `state_dict()`."""
        self._t = state["step"]

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        """Neither a copy nor a pickle has a link to the others.

        Raises:
            UserError: always.
        """
        raise UserError(
            "an Averager is a process's link to the others, and is not copied or pickled: save its "
            "state_dict(), and make another one of the copied parameters"
        )

    @property
    def comm(self) -> Communicator:
        """The way to the other learners: `n`, `process`."""
        return self._exchange.comm

    @property
    def traffic(self) -> Traffic:
        """What this learner has sent so far, and how long it has waited."""
        return self._exchange.traffic
