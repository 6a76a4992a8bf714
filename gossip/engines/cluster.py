"""The engine that is a Dask cluster: gradients by its workers, added up on the way back."""

import pickle
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Any
from uuid import uuid4
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor

from gossip.engines import sums
from gossip.engines.base import MicroBatch
from gossip.engines.extras import extra
from gossip.engines.problem import Problem
from gossip.engines.sums import Sums
from gossip.errors import UserError, said

PATIENCE = 60.0
"""Seconds without a single worker after which an update is given up."""
POLL = 1.0
"""Seconds between two looks at the cluster while an update is under way."""
ATTEMPTS = 10
"""Times that one update is computed anew after workers have been lost."""
_BEFORE: WeakKeyDictionary[Any, int] = WeakKeyDictionary()
"""Cluster -> workers that it had before we asked for others, as long as they are not given back."""


class Cluster:
    """The workers of a `distributed.Client`; see `Engine`.

    Module, loss and data go out once, to all workers that there are, and by the workers to those
    that come later. An update is a task *gradient* for each worker that takes part, which gets the
    weights and consecutive parts of the batch, and tasks *sum* that add two results at a time, on
    workers: what comes back to this process is one gradient. The tasks are pinned to workers, but
    not for better or worse: those of a worker that is lost are computed by another.

    What is lost with a worker and was nowhere else, weights or data, is sent again, and the update
    computed again at the same weights: so a killed worker costs time and nothing else.

    Where the client has made its cluster (or has been given a cluster object), workers are asked
    for by `cluster.scale` and at the end as many are left as there were; a client that is
    connected to an address is taken with the workers that it has. Nobody waits for a worker that
    has been asked for: an update takes those that are there.

    Args:
        client: of a running scheduler.
        patience: seconds without a single worker after which an update fails.

    Raises:
        UserError: the client is closed or asynchronous.
    """

    def __init__(self, client: Any, *, patience: float = PATIENCE) -> None:
        self._dask = extra("distributed", "dask")
        if client.asynchronous:
            raise UserError(
                "the Dask Client is asynchronous: fit is not, make one by Client(..., "
                "asynchronous=False)"
            )
        self._client, self._patience = client, patience
        self._check_alive()
        self._name = uuid4().hex[:8]
        self._calls = count()
        self._scales = getattr(client.cluster, "scale", None)
        self._asked: int | None = None
        self._held: Any = None
        self.workers = 0

    def hold(self, problem: Problem) -> None:
        """Send module, loss and data to all workers.

        Raises:
            UserError: they cannot be pickled, or there is no worker.
        """
        _check_pickles(problem)
        self._problem = problem
        if self._asked is None:
            self.scale(max(1, len(self._workers())))
        self._await_workers()
        self._send_problem()

    def scale(self, workers: int) -> None:
        """Have `cluster.scale` start or retire workers, in the background."""
        if self._scales is not None and workers != self._asked:
            _BEFORE.setdefault(self._client.cluster, len(self._workers()))
            self._scales(workers)
        self._asked = workers

    def gradient(self, weights: Mapping[str, Tensor], batch: Sequence[MicroBatch]) -> Sums:
        """Sums over a batch of the gradient and the loss."""
        return self._again_if_lost(gradient, weights, batch)

    def loss(self, weights: Mapping[str, Tensor], batch: Sequence[MicroBatch]) -> Sums:
        """Sums over samples of the loss."""
        return self._again_if_lost(loss, weights, batch)

    def close(self, *, keep_workers: bool = False) -> None:
        """Let go of the data, and of the workers that were asked for, unless more is to come."""
        self._held = None
        if keep_workers or self._scales is None:
            return
        before = _BEFORE.pop(self._client.cluster, None)
        if self._client.status == "running" and before is not None:
            self._scales(max(1, before))

    def _again_if_lost(self, task: Callable[..., Any], weights: Any, batch: Any) -> Sums:
        numbers = {name: value.detach().cpu().numpy() for name, value in weights.items()}
        reason = ""
        for _ in range(ATTEMPTS):
            try:
                if reason:
                    self._await_workers()
                if reason or _trained(self._problem) != self._sent:  # who may be lost meanwhile
                    self._send_problem()
                return self._computed(task, numbers, batch)
            except self._lost as error:
                self._check_alive()
                reason = said(error)
        raise UserError(
            f"an update was begun {ATTEMPTS} times and lost its workers each time ({reason}): look "
            "at their logs, they may be short of memory"
        )

    def _computed(
        self, task: Callable[..., Any], numbers: Any, batch: Sequence[MicroBatch]
    ) -> Sums:
        """One update: weights out, a task for each worker, a tree of sums back."""
        addresses = self._workers()
        taking_part = addresses[: min(len(addresses), self._asked or 1, len(batch))]
        if not taking_part:
            raise self._dask.exceptions.WorkerStartTimeoutError(0, 1, 0)
        number = f"{self._name}-{next(self._calls)}"
        key = f"weights-{number}"
        sent = self._client.scatter({key: numbers}, hash=False)[key]
        shares = [part.tolist() for part in np.array_split(np.arange(len(batch)), len(taking_part))]
        submit = self._client.submit
        level = [
            submit(
                task,
                self._held,
                sent,
                [batch[k] for k in share],
                key=f"{task.__name__}-{number}-{worker}",
                workers=[address],
                allow_other_workers=True,
                pure=False,
            )
            for worker, (share, address) in enumerate(zip(shares, taking_part, strict=True))
        ]
        names = count()
        while len(level) > 1:
            pairs = zip(level[::2], level[1::2], strict=False)
            rest = level[len(level) // 2 * 2 :]
            level = [submit(added, a, b, key=f"sum-{number}-{next(names)}") for a, b in pairs]
            level += rest
        self.workers = len(taking_part)
        return _as_tensors(self._awaited(level[0]))

    def _awaited(self, future: Any) -> Sums:
        """The result, as long as there is anybody who may still compute it.

        Once it is computed it has to come here, however long that takes: a time-out would begin
        its way again.
        """
        alone_since: float | None = None
        arrival = max(POLL, self._patience)
        while True:
            is_computed = future.status == "finished"
            try:
                return future.result(timeout=arrival if is_computed else POLL)
            except self._timeouts:
                self._refuse_slow(future)
                if future.status in ("error", "cancelled"):
                    raise
                arrival *= 2 if is_computed else 1
            self._check_alive()
            if self._workers():
                alone_since = None
                continue
            alone_since = alone_since or time.monotonic()
            if time.monotonic() - alone_since > self._patience:
                raise self._nobody()

    def _refuse_slow(self, future: Any) -> None:
        """Tell a time-out of what is the user's, in the task itself, from a worker that is lost."""
        raised = future.exception(timeout=POLL) if future.status == "error" else None
        if isinstance(raised, self._timeouts):
            raise UserError(
                f"the module, the loss or the data have timed out on a worker ({said(raised)}): "
                "look at what they wait for there"
            ) from raised

    def _send_problem(self) -> None:
        self._sent = _trained(self._problem)
        key = f"problem-{self._name}-{next(self._calls)}"
        self._held = self._client.scatter({key: self._problem}, broadcast=True, hash=False)[key]

    def _await_workers(self) -> None:
        try:
            self._client.wait_for_workers(1, timeout=self._patience)
        except self._timeouts as error:
            raise self._nobody() from error

    def _workers(self) -> list[str]:
        return list(self._client.nthreads())

    def _check_alive(self) -> None:
        if self._client.status != "running":
            raise UserError(
                f"the Dask Client is {self._client.status}, its scheduler cannot be reached: make "
                "a new Client, or leave it away (engine='dask' starts a cluster here)"
            )

    def _nobody(self) -> UserError:
        return UserError(
            f"the Dask cluster has had no worker for {self._patience:g} s: start one, or give a "
            "Client whose cluster has some"
        )

    @property
    def _timeouts(self) -> tuple[type[BaseException], ...]:
        return (TimeoutError, self._dask.TimeoutError)

    @property
    def _lost(self) -> tuple[type[BaseException], ...]:
        """What says that workers went, and not that the computation is wrong."""
        dask = self._dask
        return (
            dask.CancelledError,
            dask.scheduler.KilledWorker,
            dask.scheduler.NoValidWorkerError,
            dask.comm.core.CommClosedError,
            *self._timeouts,
        )


def gradient(
    problem: Problem, weights: Mapping[str, np.ndarray], batch: Sequence[MicroBatch]
) -> Any:
    """A worker's share of an update; its name is the task's on the dashboard."""
    return _as_arrays(sums.gradient_sums(problem, _tensors(weights, problem.device), batch))


def loss(problem: Problem, weights: Mapping[str, np.ndarray], batch: Sequence[MicroBatch]) -> Any:
    """A worker's share of a loss."""
    return _as_arrays(sums.loss_sums(problem, _tensors(weights, problem.device), batch))


def added(a: Any, b: Any) -> Any:
    """Two results as one, on a worker."""
    return _as_arrays(sums.added(_as_tensors(a), _as_tensors(b)))


def _trained(problem: Problem) -> list[bool]:
    """Which parameters are, of which the workers' copies know only when they are sent."""
    return [p.requires_grad for p in problem.module.parameters()]


def _tensors(arrays: Mapping[str, np.ndarray], device: str = "cpu") -> dict[str, Tensor]:
    # Copied: what has come by a message may be read only, and tensors cannot.
    return {name: torch.tensor(value, device=device) for name, value in arrays.items()}


def _as_arrays(total: Any) -> Any:
    """For a message: arrays are sent as they lie in memory."""
    gradient, buffers = ({k: v.cpu().numpy() for k, v in part.items()} for part in total[:2])
    return total._replace(gradient=gradient, buffers=buffers)


def _as_tensors(total: Any) -> Sums:
    return total._replace(gradient=_tensors(total.gradient), buffers=_tensors(total.buffers))


def _check_pickles(problem: Problem) -> None:
    cloudpickle = extra("cloudpickle", "dask")
    for name in ("module", "loss", "samples"):
        thing = getattr(problem, name)
        try:
            cloudpickle.dumps(thing)
        except (pickle.PicklingError, TypeError, AttributeError, RuntimeError) as error:
            raise UserError(
                f"the {name} {type(thing).__name__} cannot be pickled and so cannot be sent to "
                f"Dask's workers ({said(error)}): keep locks, files and generators out of it, or "
                "train in this process (engine='here')"
            ) from error
