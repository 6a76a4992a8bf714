"""Any torch module and any torch optimizer, trained by gossip instead of an all-reduce."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from itertools import chain
from typing import TYPE_CHECKING, Any, NoReturn

import torch
from torch import Tensor, nn

from gossip.algorithms import Algorithm
from gossip.comm.base import Communicator, Traffic
from gossip.comm.compressing import compressing
from gossip.comm.startup.together import on_all
from gossip.compress import Operator
from gossip.errors import UserError, one_of
from gossip.wrapper import saving, statistics
from gossip.wrapper.distances import measured
from gossip.wrapper.exchange import Exchange
from gossip.wrapper.link import connected, device_of
from gossip.wrapper.mesh import Meshed, longest
from gossip.wrapper.methods import MethodOrder, check_method, method
from gossip.wrapper.options import (
    agree_on_call,
    agree_on_options,
    check_alone,
    check_link,
    check_mix_every,
    packing_of,
    topology_for,
    unknown_option,
)
from gossip.wrapper.orders import ORDERS
from gossip.wrapper.rounds import Rounds
from gossip.wrapper.same_tensors import (
    agree_on_copies,
    agree_on_tensors,
    broadcast,
    refuse_quantised,
)
from gossip.wrapper.shards import (
    check_shards,
    copied_first,
    is_distributed,
    refuse_shards,
    shard,
    sizes,
)
from gossip.wrapper.weights import Weights
from topologies import Topology

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh


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
    has arrived: it has to be called on every process, or `skip_step()`. There may be any number of
    forward and backward passes before it, as for accumulated gradients, sharpness-aware training
    or a probe: there are as many steps as `optimizer.step()` is called. One that torch's
    GradScaler leaves out is averaged without an update; one that your own code leaves out needs
    `skip_step()`. Alone, without mpirun, nothing is averaged.

    All processes begin with parameters and buffers of the first. Their optimizers stay local. The
    parameters stay where they are, so the module can be saved, copied and shared as it is without
    the wrapper; the wrapper itself is not copied: `copy.deepcopy(model.module)`.

    Args:
        module: on its device and in its dtype already. Parameters that need no gradient are
            left out.
        topology: a name (`python -m topologies` lists them), a file, a module:function; or, of as
            many learners as there are processes, a `topologies.Topology`, a mixing matrix, a
            networkx graph, or a list of matrices or graphs.
        algorithm: "dpsgd", or another of `gossip.algorithms.ALGORITHMS` whose step takes one
            gradient of each learner at its own weights ("diloco", "qg-dsgdm", "sgp", ...): the
            harness's step, behind the optimizer's. Those with a momentum or a tracker of their own
            need SGD without momentum.
        order: of dpsgd: "awc", averaging while computing, or "atc", adapt-then-combine: w <- W
            (w + u), with W = 11^T/n the same as `DistributedDataParallel` for SGD with momentum.
        mix_every: H; only every H-th step mixes, with the topology's next matrix.
        buffers: of the mean model, see `average`: "average", those of all learners averaged;
            "local", each learner's own; "recalibrate", BatchNorm's measured anew.
        topology_options: of the topology.
        weights: rule that makes W of a graph; None: the topology's own.
        seed: of random topologies.
        backend: "auto", or another of `gossip.comm.connect.BACKENDS`.
        timeout: seconds that a process may wait for others before the job ends; 0: for ever.
            That of a script's first wrapper holds for all.
        wire: "full", or how rows that are mixed travel in fewer bits, "int8", "int4" or "fp4": the
            learners' mean stays what W makes it, see `gossip.comm.compressing`. Methods that
            average over all, or keep sums of what is sent, refuse it.
        mesh: where a learner has several processes and its module is split among them
            (`fully_shard`, `parallelize_module`): the dimension of the DeviceMesh along which
            learners differ, so the processes that have the same part of each. Sums that belong to a
            learner are taken over its processes. For dpsgd.
        options: of the algorithm, such as every=100.

    Raises:
        UserError: options or parameters that do not fit, or that differ between processes.
    """

    def __init__(
        self,
        module: nn.Module,
        topology: Any = "one-peer-exponential",
        *,
        algorithm: str = "dpsgd",
        order: str = "awc",
        mix_every: int = 1,
        buffers: str = "average",
        topology_options: Mapping[str, Any] | None = None,
        weights: str | None = None,
        seed: int = 0,
        backend: str = "auto",
        timeout: float = 600.0,
        wire: str = "full",
        mesh: "DeviceMesh | None" = None,
        **options: Any,
    ) -> None:
        super().__init__()
        if not isinstance(module, nn.Module):
            raise UserError(f"Gossip({type(module).__name__}): give the torch.nn.Module to train")
        check_link(backend, timeout)
        link = connected(backend, timeout, device_of(module.parameters()))
        comm = link.comm if mesh is None else Meshed(link.comm, mesh)
        whole = f"Gossip({type(module).__name__})"

        def prepared() -> tuple[Algorithm | None, Topology, Weights, Operator | None]:
            check_mix_every(mix_every)
            one_of(ORDERS, order, "order")
            packing = packing_of(wire)
            one_of(statistics.POLICIES, buffers, "buffers policy")
            refuse_quantised(_tensors(module))
            if isinstance(comm, Meshed):
                check_shards(module, whole, comm.own)
            else:
                refuse_shards(dict(module.named_parameters()), whole)
            if mesh is not None and algorithm != "dpsgd":
                raise UserError(f"{whole} with mesh=: only dpsgd, and not yet {algorithm!r}")
            if mesh is not None and packing is not None:
                raise UserError(f"{whole} with mesh=: only wire='full', and not yet {wire!r}")
            made = None
            if algorithm != "dpsgd":
                check_alone(algorithm, order=order, mix_every=mix_every)
                made = method(algorithm, options, seed)
            elif options:
                raise UserError(unknown_option(options, Gossip))
            chosen = topology_for(
                topology, comm.n, topology_options, weights, seed, directed=made is not None
            )
            named = dict(module.named_parameters())
            if isinstance(comm, Meshed):
                named = copied_first(named, comm.each)
            flat = Weights(named, type(module).__name__)
            if made is not None:
                check_method(algorithm, made, chosen, flat, wire)
            return made, chosen, flat, packing

        made, chosen, flat, packing = on_all(comm, prepared)
        agree_on_options(
            comm,
            chosen,
            algorithm=algorithm,
            **options,
            order=order,
            mix_every=mix_every,
            buffers=buffers,
            wire=wire,
        )
        agree_on_tensors(comm, _tensors(module), flat.ties)
        if isinstance(comm, Meshed):
            comm.agree({f"shard of {k}": size for k, size in sizes(_tensors(module)).items()})
            flat.widen(longest(comm, flat.widths))
            flat.count_once(comm.each)
            broadcast(comm.world, (t for t in _tensors(module).values() if not is_distributed(t)))
        rows = flat.rows()
        frozen = (p for p in module.parameters() if not p.requires_grad)
        broadcast(comm, map(shard, chain(rows, frozen, module.buffers())))
        flat.put(rows)
        self.module = module
        self.training = module.training
        self._algorithm, self._options = algorithm, options
        self._buffers_policy = buffers
        way = comm if packing is None else compressing(comm, packing)
        self._exchange = Exchange(way, flat, chosen, mix_every, packing)
        mixing = (
            MethodOrder(algorithm, made, self._exchange) if made else ORDERS[order](self._exchange)
        )
        self._rounds = Rounds(
            flat,
            mixing,
            # In a pass of its own a sharded module has other parameters, the gathered ones.
            module.named_parameters if mesh is None else tuple,
            link.position,
            alone=comm.n == 1,
        )
        saving.register(self)
        flat.claim()

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
        """Take part in the averaging of a step without `optimizer.step()`. Collective.

        In its place: where this learner leaves the step out, for instance as a loss is not finite,
        or has changed the weights by hand since the forward pass, which is its update then.
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
        with self._together("average()"):
            self._rounds.settle()
        with ExitStack() as block:
            with self._rounds.calling("average()"):
                block.enter_context(self._rounds.standing_still())
                block.enter_context(self._exchange.averaged())
                block.enter_context(
                    statistics.of_the_mean_model(
                        self.module, self._buffers_policy, loader, self.comm
                    )
                )
            yield self.module

    def monitor(self) -> dict[str, float]:
        """How far the learners are apart, from weights and gradients. Collective, changes nothing.

        Returns:
            step, sigma_w2, sigma_w2_coord, consensus_distance; grad_a_norm, the norm of the mean
            gradient, and grad_norm_max, a single learner's largest; the same on all processes.
        """
        with self._together("monitor()"):
            return {"step": self._rounds.t, **measured(self._exchange.weights, self.comm)}

    @contextmanager
    def _together(self, call: str) -> Iterator[None]:
        """Around what all learners do together at one step, and another waits for."""
        with self._rounds.calling(call):
            agree_on_call(self.comm, f"{call} at step {self._rounds.due}")
            if isinstance(self.comm, Meshed):
                agree_on_copies(self.comm, self._exchange.weights)
            yield

    @property
    def comm(self) -> Communicator:
        """The way to the other learners; `comm.process` of `comm.n` is this one."""
        return self._exchange.comm

    @property
    def traffic(self) -> Traffic:
        """What this learner has sent to its neighbours so far, and how long it has waited."""
        return self._exchange.traffic

    def get_extra_state(self) -> dict[str, Any]:
        """What exact resumption needs beside weights and buffers: the step t, so that W(t) goes on.

        And what a method keeps, as DiLoCo's theta and v.

        `state_dict()` has it among its metadata, which `torch.save` keeps; the keys are those of
        the weights alone. Where a state dict is made anew (key by key, or by safetensors), save
        this beside it, and give it back to `set_extra_state` behind `load_state_dict`.
        """
        return self._rounds.state()

    def set_extra_state(self, state: dict[str, Any]) -> None:
        """See `get_extra_state`."""
        self._rounds.restore(state)

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        """Neither a copy nor a pickle has a link to the others.

        Raises:
            UserError: always.
        """
        raise UserError(
            "a Gossip is a process's link to the others, and is not copied or pickled; its module "
            "is, as it was before wrapping: copy.deepcopy(model.module), torch.save(model.module), "
            "AveragedModel(model.module)"
        )


def _tensors(module: nn.Module) -> dict[str, Tensor]:
    """Parameters and buffers by name."""
    return {**dict(module.named_parameters()), **dict(module.named_buffers())}
