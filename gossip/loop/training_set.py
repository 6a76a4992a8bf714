"""What a damper may know of the whole training set: loss and gradient of the mean model."""

import math

import numpy as np

from gossip.loop.evaluation import evaluate, mean_row, statistics
from gossip.loop.run_state import Live
from gossip.monitor.sources import DAMPER, Probe, of_samples
from gossip.study import Study


def looked(study: Study, live: Live, fields: frozenset[str]) -> dict[str, float]:
    """`fields` of `gossip.damping.Seen` at the present weights. Collective.

    A pass over the training set, forward for the loss and backward too for the gradient, shared
    by the learners. It counts as training: no run without an onlooker could do without it.
    """
    task, comm = study.task, study.comm
    assert live.growth is not None
    values: dict[str, float] = {}
    with live.outcome.clock("gradient"):
        row = mean_row(live.state.x, comm)
        indices = _samples(study, live.state.step, live.growth.damper.share)
        if "training_loss" in fields:
            own = statistics(study, row, live.buffers)
            values["training_loss"] = evaluate(task, comm, row, task.train, own, indices)[0]
        if "training_gradient_square" in fields:
            g = of_samples(task, row.double(), indices, comm)
            # The last bit of a dot product depends on where the vectors lie in memory.
            values["training_gradient_square"] = comm.share(g.square)[0]
    return values


def _samples(study: Study, t: int, share: float) -> np.ndarray:
    """All samples, or a share of them drawn anew for step t, in their order."""
    total = len(study.task.train)
    if share == 1:
        return np.arange(total)
    return np.sort(Probe(math.ceil(share * total), study.config.seed, t, DAMPER).indices(total))
