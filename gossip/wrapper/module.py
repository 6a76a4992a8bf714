"""Any torch module and any torch optimizer, trained by gossip instead of an all-reduce."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn

from gossip.comm.base import Communicator, Traffic
from gossip.comm.startup.together import on_all
from gossip.errors import UserError, one_of
from gossip.wrapper import statistics
from gossip.wrapper.distances import measured
from gossip.wrapper.exchange import Exchange
from gossip.wrapper.link import connected, device_of
from gossip.wrapper.options import agree_on_options, check_mix_every, check_timeout, topology_for
from gossip.wrapper.orders import ORDERS
from gossip.wrapper.rounds import Rounds
from gossip.wrapper.same_tensors import agree_on_tensors, broadcast, refuse_quantised
from gossip.wrapper.weights import Weights
from topologies import Topology


class Gossip(nn.Module):
    r"""A learner's module, averaged with its neighbours' at every optimizer step.

    .. math::
        w_j(t+1) = \sum_k W_{jk}(t)\, w_k(t) + \mathrm{OPT}_j(w_j(t), g_j) - w_j(t)

    One learner per process, as `DistributedDataParallel` has one replica::

        model = Gossip(module, topology="one-peer-exponential")
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for x, y in loader:
            optimizer.zero_grad()
            loss_fn(model(x), y).backward()  # the neighbours' weights arrive meanwhile
            optimizer.step()

    The first training forward pass of a step sends the weights, and `optimizer.step()` adds what
    has arrived: it has to be called on every process, or `skip_step()`. Several forward passes
    before it accumulate their gradients. A GradScaler's skipped step is noticed at the next
    forward pass, when the gradients are gone (`zero_grad()` with `set_to_none`, the default) or
    not finite; it is then averaged without an update. Alone, without mpirun, nothing is averaged.

    All processes begin with parameters and buffers of the first. Their optimizers stay local.

    Args:
        module: on its device and in its dtype already. Parameters that need no gradient are
            left out.
        topology: a name (`python -m topologies` lists them), a file, a module:function, or a
            `topologies.Topology` of as many learners as there are processes.
        order: "awc", averaging while computing, or "atc", adapt-then-combine: w <- W (w + u),
            with W = 11^T/n the same as `DistributedDataParallel` for SGD with momentum.
        mix_every: H; only every H-th step mixes, with the topology's next matrix.
        buffers: of the mean model, see `average`: "average", those of all learners averaged;
            "local", each learner's own; "recalibrate", BatchNorm's measured anew.
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
        module: nn.Module,
        topology: str | Topology = "one-peer-exponential",
        *,
        order: str = "awc",
        mix_every: int = 1,
        buffers: str = "average",
        topology_options: Mapping[str, Any] | None = None,
        weights: str | None = None,
        seed: int = 0,
        backend: str = "auto",
        timeout: float = 600.0,
    ) -> None:
        super().__init__()
        check_timeout(timeout)
        link = connected(backend, timeout, device_of(module.parameters()))
        comm = link.comm

        def prepared() -> tuple[Topology, Weights]:
            check_mix_every(mix_every)
            one_of(ORDERS, order, "order")
            one_of(statistics.POLICIES, buffers, "buffers policy")
            refuse_quantised(_tensors(module))
            chosen = topology_for(topology, comm.n, topology_options or {}, weights, seed)
            return chosen, Weights(dict(module.named_parameters()), type(module).__name__)

        chosen, flat = on_all(comm, prepared)
        agree_on_options(comm, chosen, order=order, mix_every=mix_every, buffers=buffers)
        agree_on_tensors(comm, _tensors(module))
        frozen = (p for p in module.parameters() if not p.requires_grad)
        broadcast(comm, chain(flat.rows, frozen, module.buffers()))
        self.module = module
        self.training = module.training
        self._buffers_policy = buffers
        self._exchange = Exchange(comm, flat, chosen, mix_every)
        mixing = ORDERS[order](self._exchange)
        self._rounds = Rounds(flat, mixing, module.named_parameters, link.position)
        self.register_state_dict_pre_hook(_before_saving)
        self.register_load_state_dict_pre_hook(_before_loading)

    def forward(self, *inputs: Any, **options: Any) -> Any:
        """The module's own; in training its weights are on their way to the neighbours meanwhile.

        Raises:
            UserError: a parameter has been moved, converted or added after wrapping.
        """
        if self.training and torch.is_grad_enabled():
            self._rounds.forward()
        return self.module(*inputs, **options)

    def no_sync(self) -> AbstractContextManager[None]:
        """In this block optimizer steps are the learner's own: not mixed, and not counted in t.

        A forward pass in it sends nothing. What one before it has sent, the first step still adds.
        """
        return self._rounds.keeping_quiet()

    def skip_step(self) -> None:
        """Take part in the averaging of a step that this learner leaves out. Collective.

        In place of `optimizer.step()`, for instance where a loss is not finite.
        """
        self._rounds.skip()

    @contextmanager
    def average(self, loader: Iterable[Any] | None = None) -> Iterator[nn.Module]:
        """In this block the module is the mean of all learners, then it is the learner's own again.

        Collective, and bit for bit, also after an exception. `state_dict()` in it is the mean's.

        Args:
            loader: batches to measure BatchNorm's statistics on, inputs first; with
                buffers="recalibrate" only.

        Yields:
            The module.

        Raises:
            UserError: `loader` does not fit the policy; `optimizer.step()` in the block.
        """
        statistics.check(self._buffers_policy, loader)
        self._rounds.settle()
        of_the_mean = statistics.of_the_mean_model(
            self.module, self._buffers_policy, loader, self.comm
        )
        with self._rounds.standing_still(), self._exchange.averaged(), of_the_mean:
            yield self.module

    def monitor(self) -> dict[str, float]:
        """How far the learners are apart, from weights and gradients. Collective, changes nothing.

        Returns:
            step, sigma_w2, sigma_w2_coord, consensus_distance; grad_a_norm, the norm of the mean
            gradient, and grad_norm_max, a single learner's largest; the same on all processes.
        """
        return {"step": self._rounds.t, **measured(self._exchange.weights, self.comm)}

    @property
    def comm(self) -> Communicator:
        """The way to the other learners; `comm.process` of `comm.n` is this one."""
        return self._exchange.comm

    @property
    def traffic(self) -> Traffic:
        """What this learner has sent to its neighbours so far, and how long it has waited."""
        return self._exchange.traffic

    def get_extra_state(self) -> dict[str, int | bool]:
        """What `state_dict()` has beside weights and buffers: the step t, so that W(t) goes on."""
        return self._rounds.state()

    def set_extra_state(self, state: dict[str, int | bool]) -> None:
        """See `get_extra_state`."""
        self._rounds.restore(state)


def _tensors(module: nn.Module) -> dict[str, Tensor]:
    """Parameters and buffers by name."""
    return {**dict(module.named_parameters()), **dict(module.named_buffers())}


def _before_saving(model: Gossip, prefix: str, keep_vars: bool) -> None:
    """What an optimizer has left to be added is added, before the weights are looked at."""
    model._rounds.state()


def _before_loading(
    model: Gossip, state: dict[str, Any], prefix: str, metadata: dict[str, Any], *_: Any
) -> None:
    if metadata.get("assign_to_params_buffers"):
        raise UserError(
            "load_state_dict(assign=True) would put other parameters in place of those that are "
            "averaged: use assign=False"
        )
    if model._rounds.frozen:
        raise UserError("load_state_dict() inside average(): leave the block first")
    model._rounds.drop()
