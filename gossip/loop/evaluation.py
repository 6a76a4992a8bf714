"""Loss and errors of the learners' mean model on whole data sets."""

import numpy as np
import torch
from torch import Tensor

from gossip.comm.base import Communicator
from gossip.loop.run_state import Live
from gossip.monitor import Moment
from gossip.monitor.base import shares_of
from gossip.study import Study
from gossip.task import Task
from gossip.task.samples import Samples

LEARNERS = ("learner_error_min", "learner_error_mean", "learner_error_max")
"""Columns of the learners' own models; the mean model's error is test_error."""
RECALIBRATION_SAMPLES = 2_048
"""Training samples that BatchNorm's statistics of a mean model are measured on."""


def mean_row(x: Tensor, comm: Communicator) -> Tensor:
    """w_a of the weights x [rows, d], averaged in float64 and rounded once: [d]."""
    return comm.mean(x.double()).to(x.dtype)


def statistics(study: Study, row: Tensor, buffers: Tensor | None) -> Tensor | None:
    """BatchNorm's running statistics [b] to judge the mean model `row` [d] with.

    See docs/mathematics.md#batchnorm-of-a-mean-model.

    Args:
        study: whose config says by which policy.
        row: w_a.
        buffers: the learners' own, [local, b]; None: the model has none.
    """
    policy, comm, task = study.config.model.batch_norm, study.comm, study.task
    if buffers is None:
        return None
    if policy == "first":
        return comm.gather(buffers)[0]
    if policy == "average":
        return task.average_buffers(buffers, comm)
    # The same samples on every process: cheaper than a message for each of many small parts.
    count = min(RECALIBRATION_SAMPLES, len(task.train))
    spread = np.linspace(0, len(task.train) - 1, count).astype(np.int64)
    return task.recalibrated(row, task.train, spread)


def evaluate(
    task: Task,
    comm: Communicator,
    row: Tensor,
    samples: Samples,
    buffers: Tensor | None = None,
    indices: np.ndarray | None = None,
) -> tuple[float, float]:
    """Mean loss and share of errors of the model `row` [d]; each learner takes its part.

    Of the samples `indices`, or all.
    """
    indices = np.arange(len(samples)) if indices is None else indices
    parts = shares_of(indices, comm, by_learner=task.judged_by_batch)
    scores = [task.evaluate(row, samples, part, buffers) for part in parts]
    total = torch.tensor(scores, dtype=torch.float64).reshape(-1, 3).sum(dim=0)
    loss, errors, count = comm.mean(total.unsqueeze(0)).tolist()
    return loss / count, errors / count


def scores_of(study: Study, row: Tensor, buffers: Tensor | None) -> dict[str, float]:
    """Loss and error of the model `row` [d] on the test set and on what is held out."""
    task, scores = study.task, {}
    for name, samples in (("test", task.test), ("validation", task.validation)):
        if samples is not None:
            loss, error = evaluate(task, study.comm, row, samples, buffers)
            scores |= {f"{name}_loss": loss, f"{name}_error": error}
    return scores


def scores_of_learners(study: Study, x: Tensor, buffers: Tensor | None) -> dict[str, float]:
    """Errors of the learners' own models x [local, d] on the test set, if that is wanted.

    With their own BatchNorm statistics, also where they have one model in common; one without
    such statistics stands for each of them. Collective.
    """
    task, comm = study.task, study.comm
    if not study.config.monitoring.single_learners:
        return {}
    everything, errors = np.arange(len(task.test)), []
    for i in range(len(x if buffers is None else buffers)):
        row, own = x[min(i, len(x) - 1)], None if buffers is None else buffers[i]
        _, wrong, count = task.evaluate(row, task.test, everything, own)
        errors.append(wrong / count)
    mine = torch.tensor(errors, dtype=torch.float64).expand(len(comm.hosted))
    found = comm.gather(mine.unsqueeze(1).contiguous())
    least, mean, largest = found.min(), found.mean(), found.max()
    return dict(zip(LEARNERS, map(float, (least, mean, largest)), strict=True))


def measured(study: Study, live: Live, moment: Moment) -> dict[str, float]:
    """What monitor and evaluation say of a moment, for a row of the trace. Collective."""
    with live.outcome.clock("monitor"):
        values = live.monitor(moment, study.comm)
    with live.outcome.clock("evaluation"):
        row = mean_row(moment.x, study.comm)
        scores = scores_of(study, row, statistics(study, row, live.buffers))
        scores |= scores_of_learners(study, moment.x, live.buffers)
    sent = live.outcome.bytes_sent_per_learner
    rows = sent / ((moment.step + 1) * row.nbytes)
    return {**scores, **values, "bytes_sent": sent, "rows_sent": rows}


def finish(study: Study, live: Live) -> dict[str, float]:
    """Judge the final mean model; its row of the trace. Collective."""
    task, comm, outcome, t = study.task, study.comm, live.outcome, live.state.step
    with outcome.clock("evaluation"):
        row = mean_row(live.state.x, comm)
        own = statistics(study, row, live.buffers)
        train_loss, train_error = evaluate(task, comm, row, task.train, own)
        scores = scores_of(study, row, own)
        alone = scores_of_learners(study, live.state.x, live.buffers)
    if outcome.failure:
        outcome.verdict.fail(*outcome.failure)
    elif not outcome.interrupted:
        outcome.verdict.end(t, train_loss)
    outcome.final = {"train_loss": train_loss, "train_error": train_error, **scores}
    return {
        "step": t,
        "epoch": live.sampler.epoch(t),
        "seconds": outcome.clock.training(),
        "loss_mean_model": train_loss,
        **scores,
        **alone,
    }
