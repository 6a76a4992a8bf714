"""An update of a growing batch on a Dask cluster is timed against the same in one process.

Time is what the caller waits for: weights out, gradients on the workers, their sum back. CPU time
is this process's only; the workers have their own.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from torch import nn

from experiments.bench.measure import Meeting, Work, interleaved
from experiments.bench.rows import Case, Label, Row, rows_of
from experiments.bench.size import Size
from experiments.bench.workload import CLASSES, SHAPE, few
from gossip.engines import Arrays, Engine, Here, Part, Problem, parts
from gossip.engines.extras import extra
from gossip.models import mlp

BASE = "this process"
BATCH, PART = 512, 128
"""Samples of an update, and of one pass: so there is work for four workers."""


def rows(size: Size, meeting: Meeting) -> Iterator[list[Row]]:
    """A case for each model; all sides take turns on the same cluster. None without Dask."""
    if find_spec("distributed") is None:
        meeting.say("engines: left out, Dask is not installed (the extra gossip-sgd[dask])")
        return
    for widths in size.engine_models:
        problem = _problem(widths)
        weights = {name: p.detach() for name, p in problem.module.named_parameters()}
        d = sum(value.numel() for value in weights.values())
        case = Case(
            table="engines",
            case=f"update of {BATCH} samples, model of {4e-6 * d:.3g} MB",
            d=d,
            batch=BATCH,
        )
        meeting.say(f"engines: {case.case}")
        batch = [Part(part) for part in parts(np.arange(BATCH), PART)]
        with _engines(size.engine_workers) as engines:
            for engine in engines.values():
                engine.hold(problem)
            works = {name: _work(engine, weights, batch) for name, engine in engines.items()}
            times = interleaved(works, size.rounds, meeting, size.block_ms())
            labels = {name: Label(name, bytes_per_learner=_sent(name, d)) for name in works}
            yield rows_of(case, times, BASE, labels)


def _work(engine: Engine, weights: dict[str, torch.Tensor], batch: list[Part]) -> Work:
    return Work(lambda: engine.gradient(weights, batch))


def _sent(name: str, d: int) -> float:
    """By a worker and update: the weights in, a gradient out."""
    return 0.0 if name == BASE else 8.0 * d


@contextmanager
def _engines(workers: tuple[int, ...]) -> Iterator[dict[str, Engine]]:
    """One process, and a cluster of which so many workers take part."""
    from gossip.engines.cluster import Cluster

    distributed: Any = extra("distributed", "dask")
    most = max(workers)
    with (
        distributed.LocalCluster(
            n_workers=most, threads_per_worker=1, processes=most > 1, dashboard_address=":0"
        ) as cluster,
        # Connected to its address a client starts and retires nothing: P is who takes part.
        distributed.Client(cluster.scheduler_address, set_as_default=False) as client,
    ):
        client.wait_for_workers(most)
        engines: dict[str, Engine] = {BASE: Here()}
        for number in workers:
            engines[f"Dask, P = {number}"] = engine = Cluster(client)
            engine.scale(number)
        yield engines
        for engine in engines.values():
            engine.close()


def _problem(widths: tuple[int, ...]) -> Problem:
    data = few()
    inputs = data.train_inputs.astype(np.float32) / 255
    module = mlp(SHAPE, CLASSES, widths=widths)
    return Problem(module, nn.CrossEntropyLoss(), Arrays(inputs, data.train_labels))
