"""A wrapped module walked as the harness walks its rows, and recorded; what both have measured."""

from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn.functional import cross_entropy

import gossip
from gossip import trace
from gossip.comm.base import Communicator
from gossip.config import Averaging, Config, Data, Model, Monitoring, Rate
from gossip.study import Study, algorithm, prepare
from gossip.train import train

STEPS, EVERY = 12, 4
PARTS = ("alpha_e_s", "delta_s", "delta2", "delta2_perp", "delta_cross", "delta2_diff")


def study(comm: Communicator, order: str = "awc", momentum: float = 0.9) -> Study:
    config = Config(
        algorithm=("dpsgd",),
        steps=STEPS,
        gossip=Averaging(learners=comm.n, topology="one-peer-exponential", order=order),
        data=Data(dataset="digits", batch_size=10),
        model=Model(widths=(12,), dtype="float64"),
        rate=Rate(lr=0.125, momentum=momentum),  # a number that float32 has
        monitoring=Monitoring(monitor="full", monitor_every=EVERY),
    )
    return prepare(config, comm)


def loss(module: nn.Module, batch: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    return cross_entropy(module(batch[0]), batch[1])


def shares(chosen: Study) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """The learner's part of the training set, in batches of unequal sizes."""
    own = np.array_split(np.arange(len(chosen.task.train)), chosen.comm.n)[chosen.comm.process]
    return [chosen.task.train.batch(part) for part in np.array_split(own, 3)]


def walk(chosen: Study, out: Path) -> None:
    """Record the wrapper on the harness's task, start and batches."""
    module = chosen.task._build().double()
    nn.utils.vector_to_parameters(chosen.task.init(chosen.config.seed), module.parameters())
    rate = chosen.config.rate
    model = gossip.Gossip(module, order=chosen.config.gossip.order)
    optimizer = torch.optim.SGD(model.parameters(), lr=rate.lr, momentum=rate.momentum or 0)
    batches = (chosen.task.train.batch(chosen.sampler.indices(t)) for t in range(STEPS))
    own = ((inputs[0], labels[0]) for inputs, labels in batches)
    probe = shares(chosen)
    with gossip.record(model, out, every=EVERY, probe=probe, loss=loss, whole=True) as recording:
        for batch in recording.batches(own):
            optimizer.zero_grad()
            value = loss(model, batch)
            recording.note(train_loss=value)
            value.backward()
            optimizer.step()


def both(chosen: Study, out: Path) -> list[tuple[str, np.ndarray, np.ndarray]]:
    """Name, the harness's values and the wrapper's, of each column that both have measured."""
    rows = []
    train(chosen, algorithm("dpsgd", chosen), record=rows.extend)
    steps = range(0, STEPS, EVERY)
    table = trace.load(out)
    names = ("sigma_w2", "sigma_w2_mixed", "sigma_w2_coord", "consensus_distance", "alpha_e")
    names += (
        "alpha_e_ratio",
        "alpha_e_sgd",
        "delta",
        "delta_sgd",
        "grad_norm",
        "displacement_norm",
    )
    names += ("loss_mean_model", "gradient_bound", "lr_max", "g_samples", *PARTS)
    return [
        (
            name,
            np.array([row[name] for row in rows if row["step"] in steps and name in row]),
            trace.column(table, name)[: len(steps)],
        )
        for name in names
    ]
