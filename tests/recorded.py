"""A wrapped module walked as the harness walks its rows, recorded, and compared with it."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import nn
from torch.nn.functional import cross_entropy

import gossip
from gossip import trace
from gossip.comm.base import Communicator
from gossip.config import Averaging, Config, Data, Model, Monitoring, Rate
from gossip.monitor import LEVELS, LIPSCHITZ
from gossip.runs.dispatch import columns
from gossip.study import Study, algorithm, prepare
from gossip.train import train

STEPS, EVERY = 12, 4


class Case(NamedTuple):
    """What is walked."""

    algorithm: str = "dpsgd"
    topology: str = "one-peer-exponential"
    order: str = "awc"
    momentum: float | None = 0.9
    options: tuple[str, ...] = ()


CASES = {
    "awc": Case(),
    "atc": Case(order="atc"),
    "plain": Case(topology="ring", momentum=None),
    "d2": Case("d2", "ring", momentum=None),
    "gt-awc": Case("gt-awc", "ring", momentum=None),
    "sgp": Case("sgp", "exponential"),
    "choco-atc": Case("choco-atc", "ring", options=("compressor=top-k:0.1", "gamma=0.3")),
    "deepsqueeze": Case("deepsqueeze", "ring", options=("compressor=top-k:0.5", "gamma=0.3")),
    "diloco": Case("diloco", options=("every=3",)),
    "noloco": Case("noloco", options=("every=3",)),
}
"""Rounds of 3 steps, so that of the measured steps 0, 4 and 8 the last ends one."""

ZERO = ("tracker_bias", "correction_bias", "mass_error", "anchor_spread")
"""Columns that are, or are for some methods."""


def study(comm: Communicator, case: Case) -> Study:
    config = Config(
        algorithm=(case.algorithm,),
        steps=STEPS,
        gossip=Averaging(
            learners=comm.n,
            topology=case.topology,
            order=case.order,
            algorithm_options=case.options,
        ),
        data=Data(dataset="digits", batch_size=10),
        model=Model(widths=(12,), dtype="float64"),
        rate=Rate(lr=0.125, momentum=case.momentum),  # a number that float32 has
        monitoring=Monitoring(monitor="full", monitor_every=EVERY, lipschitz_samples=10_000),
    )
    return prepare(config, comm)


def loss(module: nn.Module, batch: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    return cross_entropy(module(batch[0]), batch[1])


def shares(chosen: Study) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """The learner's part of the training set, in batches of unequal sizes."""
    own = np.array_split(np.arange(len(chosen.task.train)), chosen.comm.n)[chosen.comm.process]
    return [chosen.task.train.batch(part) for part in np.array_split(own, 3)]


def wrapped(chosen: Study) -> gossip.Gossip:
    """A learner of the harness's task, start and method."""
    module = chosen.task.build().double()
    nn.utils.vector_to_parameters(chosen.task.init(chosen.config.seed), module.parameters())
    (name,), averaging = chosen.config.algorithm, chosen.config.gossip
    options = dict(each.split("=") for each in averaging.algorithm_options)
    return gossip.Gossip(
        module, averaging.topology, algorithm=name, order=averaging.order, **options
    )


def walk(chosen: Study, out: Path) -> None:
    """Record the wrapper on the harness's task, start and batches."""
    model, rate = wrapped(chosen), chosen.config.rate
    optimizer = torch.optim.SGD(model.parameters(), lr=rate.lr, momentum=rate.momentum or 0)
    batches = (chosen.task.train.batch(chosen.sampler.indices(t)) for t in range(STEPS))
    own = ((inputs[0], labels[0]) for inputs, labels in batches)
    given = {"probe": shares(chosen), "loss": loss, "whole": True, "monitor": "full"}
    with gossip.record(model, out, every=EVERY, **given) as recording:
        for batch in recording.batches(own):
            optimizer.zero_grad()
            value = loss(model, batch)
            recording.note(train_loss=value)
            value.backward()
            optimizer.step()


def assert_same(chosen: Study, out: Path) -> None:
    """The harness has measured what the wrapper has, of all that has a column there.

    To 1e-10, and what is 0 but for rounding to 1e-12 beside weights of about 1.
    """
    rows: list[dict[str, float]] = []
    (method,) = chosen.config.algorithm
    train(chosen, algorithm(method, chosen), record=rows.extend)
    steps = range(0, STEPS, EVERY)
    table = trace.load(out)
    sent = ("bytes_sent", "rows_sent")
    for name in (*LEVELS["full"], *LIPSCHITZ, *columns(chosen, method), *sent):
        expected = [row[name] for row in rows if row["step"] in steps and name in row]
        found = trace.column(table, name)[: len(steps)]
        atol = 1e-12 if name in ZERO else 1e-18
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=atol, err_msg=name)
