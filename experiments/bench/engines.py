"""An update of a growing batch by Dask or over MPI is timed against the same in one process.

Time is what the caller waits for: weights out, gradients by the workers, their sum back. All
workers have equally many samples, and the sum is the same for all sides.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from experiments.bench.measure import Meeting, Work, interleaved
from experiments.bench.rows import Case, Label, Row, rows_of
from experiments.bench.size import Size
from experiments.bench.variants import sent_by_mean
from experiments.bench.workload import CLASSES, SHAPE, few
from gossip.comm.base import Communicator
from gossip.engines import ArraySamples, Engine, Here, MicroBatch, Problem, parts
from gossip.engines.extras import extra
from gossip.models import mlp

BASE, DASK, MPI = "this process", "Dask", "MPI"
BATCH, PART = 512, 128
"""Samples of an update, and of one pass: so there is work for four workers."""


def rows(size: Size, meeting: Meeting) -> Iterator[list[Row]]:
    """A case for each model; a Dask cluster has as many workers as there are processes.

    With one process MPI has nothing to do. Without Dask there are the other sides alone. Where
    one process computes, the others are asleep.
    """
    comm = meeting.comm
    has_dask = find_spec("distributed") is not None
    if not has_dask:
        meeting.say("engines: no Dask, it is not installed (the extra gossip-sgd[dask])")
    with _connected(size, comm, dask=has_dask) as connect:
        for widths in size.engine_models:
            yield _case(size, meeting, widths, connect)


def _case(
    size: Size, meeting: Meeting, widths: tuple[int, ...], connect: Callable[[], Engine] | None
) -> list[Row]:
    comm, problem = meeting.comm, problem_of(widths)
    weights = {name: p.detach() for name, p in problem.module.named_parameters()}
    d = sum(value.numel() for value in weights.values())
    case = Case(
        table="engines",
        case=f"update of {BATCH} samples, model of {megabytes(d):.3g} MB, P = {comm.processes}",
        processes=comm.processes,
        d=d,
        batch=BATCH,
    )
    meeting.say(f"engines: {case.case}")
    batch = [MicroBatch(part) for part in parts(np.arange(BATCH), PART)]
    own = Here()
    own.hold(problem)
    engines: dict[str, Engine] = {BASE: own}
    if connect is not None:
        engines[DASK] = connect()
    works = {name: Work(lambda: None, meeting.rest) for name in engines}
    if comm.process == 0:
        for name, engine in engines.items():
            engine.hold(problem)
            engine.scale(comm.processes)
            works[name] = Work(partial(engine.gradient, weights, batch), meeting.rest)
    if comm.processes > 1:
        works[MPI] = Work(partial(summed, comm, own, weights, batch))
    times = interleaved(works, size.rounds, meeting, size.block_ms(comm.processes))
    for engine in engines.values():
        engine.close()
    labels = {name: Label(name, bytes_per_learner=_sent(name, comm, d)) for name in works}
    return rows_of(case, times, BASE, labels)


def megabytes(d: int) -> float:
    """Of d float32 numbers."""
    return 4e-6 * d


def summed(
    comm: Communicator, engine: Engine, weights: Mapping[str, Tensor], batch: list[MicroBatch]
) -> Tensor:
    """The mean gradient of a batch that all processes share, [d]; collective."""
    own = np.array_split(np.arange(len(batch)), comm.processes)[comm.process]
    sums = engine.gradient(weights, [batch[k] for k in own])
    row = torch.cat([value.flatten() for value in sums.gradient.values()])
    count = sum(len(part.indices) for part in batch)
    return comm.mean(row.unsqueeze(0)) * (comm.processes / count)


def _sent(name: str, comm: Communicator, d: int) -> float:
    """By a worker and update: to Dask a gradient and from it the weights, over MPI a mean."""
    if name == MPI:
        return 4.0 * d * sent_by_mean(comm.processes)
    return 8.0 * d if name == DASK else 0.0


@contextmanager
def _connected(
    size: Size, comm: Communicator, *, dask: bool
) -> Iterator[Callable[[], Engine] | None]:
    """Makes engines of one Dask cluster with a worker for each process; None without Dask.

    Process 0 alone has the cluster and asks it.
    """
    if comm.process or not dask:
        yield Here if dask else None
        return
    from gossip.engines.cluster import Cluster

    distributed: Any = extra("distributed", "dask")
    with (
        environment_kept(),
        distributed.LocalCluster(
            n_workers=comm.processes,
            threads_per_worker=1,
            processes=size.engine_processes,
            dashboard_address=":0",
        ) as cluster,
        # Connected to its address a client starts and retires nothing.
        distributed.Client(cluster.scheduler_address, set_as_default=False) as client,
    ):
        client.wait_for_workers(comm.processes)
        yield lambda: Cluster(client)


@contextmanager
def environment_kept() -> Iterator[None]:
    """Gives this process the environment back that it had.

    Dask sets what its workers are to have (MALLOC_TRIM_THRESHOLD_ among it) in the process that
    starts them, and leaves it there: jobs started later would give freed memory back at every step.
    """
    before = dict(os.environ)
    try:
        yield
    finally:
        for name in [name for name in os.environ if name not in before]:
            del os.environ[name]
        os.environ.update(before)


def problem_of(widths: tuple[int, ...]) -> Problem:
    """An MLP on pictures, with the same weights in every process."""
    torch.manual_seed(0)
    data = few()
    inputs = data.train_inputs.astype(np.float32) / 255
    module = mlp(SHAPE, CLASSES, widths=widths)
    return Problem(module, nn.CrossEntropyLoss(), ArraySamples(inputs, data.train_labels))
