"""The only loop: the order of things in a step."""

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache, partial

import numpy as np
import torch
from scipy.sparse import csr_array, eye_array
from torch import Tensor

from gossip.algorithms import Algorithm, State, Step
from gossip.clock import Clock
from gossip.comm.base import Communicator
from gossip.comm.failure import Position
from gossip.monitor import Moment, Monitor
from gossip.monitor.base import share_of
from gossip.rates import Controller
from gossip.study import Study
from gossip.task import Samples, Task
from gossip.verdict import Verdict

COLUMNS = (
    "step",
    "epoch",
    "seconds",
    "lr",
    "train_loss",
    "test_loss",
    "test_error",
    "validation_loss",
    "validation_error",
    "loss_mean_model",
)
"""What the loop itself puts into the trace; the monitor and the rate add their own columns."""

RECALIBRATION_SAMPLES = 2_048
"""Training samples that BatchNorm's statistics of a mean model are measured on (SPEC 0.4.4)."""

SAID = {"optimizer": "exchange or update", "other": "bookkeeping"}
"""How messages name a phase of the clock whose own name says too little."""

Rows = list[dict[str, float]]
Record = Callable[[Rows], None]
"""Takes the trace's rows since the last call; called on every process."""


@dataclass
class Outcome:
    """How far a run came and what it took."""

    state: State
    verdict: Verdict
    clock: Clock
    interrupted: bool = False
    bytes_sent_per_learner: float = 0.0
    messages_per_learner: float = 0.0
    final: dict[str, float] = field(default_factory=dict)
    """Loss and error of the final mean model w_a on the whole training and test sets."""

    @contextmanager
    def counting(self, comm: Communicator) -> Iterator[None]:
        """Count time and messages of one training step; the monitor's are not training."""
        before = (comm.traffic.seconds_waiting, *_sent(comm))
        with self.clock("optimizer"):
            yield
        waited, sent, messages = comm.traffic.seconds_waiting, *_sent(comm)
        self.clock.move(waited - before[0], "optimizer", "communication_wait")
        self.bytes_sent_per_learner += sent - before[1]
        self.messages_per_learner += messages - before[2]


def train(
    study: Study,
    algorithm: Algorithm,
    *,
    record: Record = lambda rows: None,
    position: Position | None = None,
    stop: Callable[[int], bool] = lambda step: False,
) -> Outcome:
    """Run until the budget of the rule is used up; collective.

    Losses stay with their process and are averaged over the learners every `monitor_every`
    steps, when the monitor runs: between two of those DPSGD needs nothing but its neighbours.

    Args:
        study: data, start, batches, topology and learning rate.
        algorithm: what a step does.
        record: gets the trace's rows as they come.
        position: kept up to date for the message of a process that fails.
        stop: asked with the number of each step; must say the same on all processes. The step
            in which it says True is the last.
    """
    task, comm, every = study.task, study.comm, study.config.monitoring.monitor_every
    position = position or Position()
    position.step = 0
    rates = Controller(study.rule, comm)
    state = algorithm.init(task.init(study.config.seed), len(comm.hosted))
    buffers = task.init_buffers(len(comm.hosted)) if task.has_buffers else None
    clock = Clock(lambda phase: setattr(position, "phase", SAID.get(phase, phase)))
    outcome = Outcome(state, Verdict(study.dataset.num_classes), clock)
    monitor = study.make_monitor()
    losses: list[Tensor] = []
    for t in itertools.count():
        position.step = t
        with clock("data"):
            inputs, labels = task.train.batch(study.sampler.indices(t))
        take = partial(
            task.gradient,
            inputs=inputs,
            labels=labels,
            squares=study.rule.needs_norms,
            buffers=buffers,
        )
        gradient = clock.timed("gradient", take)
        with outcome.counting(comm):
            state, step = algorithm.step(
                outcome.state, gradient, mixing_matrix(study, t), rates.at(t), comm
            )
        losses.append(step.losses)
        before, outcome.state = outcome.state, state
        done = rates.progress >= 1
        outcome.interrupted = stop(t) and not done
        if t % every == 0 or done or outcome.interrupted:
            moment = _moment(algorithm, before, step, state, inputs, labels, comm)
            rows = _observe(study, monitor, outcome, moment, losses, buffers)
            rows[-1] |= rates.values()
            record(rows)
            losses.clear()
        if done or outcome.interrupted or outcome.verdict.hopeless:
            break
    record([_finish(study, outcome, buffers)])
    return outcome


def mixing_matrix(study: Study, t: int) -> csr_array:
    """W of step t: the topology's next matrix every `mix_every` steps, the identity between."""
    every = study.config.gossip.mix_every
    if (t + 1) % every:
        return _identity(study.comm.n)
    return study.topology.matrix(t // every)


def mean_row(x: Tensor, comm: Communicator) -> Tensor:
    """w_a of the weights x [rows, d], averaged in float64 and rounded once: [d]."""
    return comm.mean(x.double()).to(x.dtype)


def statistics(study: Study, row: Tensor, buffers: Tensor | None) -> Tensor | None:
    """BatchNorm's running statistics [b] to judge the mean model `row` [d] with; see SPEC 0.4.4.

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
    task: Task, comm: Communicator, row: Tensor, samples: Samples, buffers: Tensor | None = None
) -> tuple[float, float]:
    """Mean loss and share of errors of the model `row` [d]; each learner takes its part."""
    part = share_of(np.arange(len(samples)), comm.hosted, comm.n)
    scores = task.evaluate(row, samples, part, buffers)
    loss, errors, count = comm.mean(torch.tensor([scores], dtype=torch.float64)).tolist()
    return loss / count, errors / count


@lru_cache(maxsize=4)
def _identity(n: int) -> csr_array:
    return csr_array(eye_array(n))


def _moment(
    algorithm: Algorithm,
    before: State,
    step: Step,
    after: State,
    inputs: Tensor,
    labels: Tensor,
    comm: Communicator,
) -> Moment:
    lr = torch.as_tensor(step.lr).double()
    if lr.ndim and not algorithm.shared:  # each learner may have rates of its own
        lr = comm.mean(lr.reshape(-1, lr.shape[-1]))
    return Moment(
        step=before.step,
        lr=float(lr.mean()),
        x=before.x,
        points=step.points,
        gradients=step.gradients,
        mixed=step.mixed,
        x_next=after.x,
        inputs=inputs,
        labels=labels,
        shared=algorithm.shared,
    )


def _observe(
    study: Study,
    monitor: Monitor,
    outcome: Outcome,
    moment: Moment,
    losses: list[Tensor],
    buffers: Tensor | None,
) -> Rows:
    """Rows of the steps since the last call; the last of them with all that is monitored."""
    comm = study.comm
    mean_losses = comm.mean(torch.stack(losses, dim=1).double()).tolist()
    steps = range(moment.step + 1 - len(losses), moment.step + 1)
    outcome.verdict.follow(steps, mean_losses)
    with outcome.clock("monitor"):
        values = monitor(moment, comm)
    with outcome.clock("evaluation"):
        row = mean_row(moment.x, comm)
        scores = _scores(study, row, statistics(study, row, buffers))
    rows: Rows = [
        {"step": t, "epoch": study.sampler.epoch(t), "train_loss": loss}
        for t, loss in zip(steps, mean_losses, strict=True)
    ]
    rows[-1] |= {"lr": moment.lr, "seconds": outcome.clock.training(), **scores, **values}
    return rows


def _scores(study: Study, row: Tensor, buffers: Tensor | None) -> dict[str, float]:
    """Loss and error of the model `row` [d] on the test set and on what is held out."""
    task, scores = study.task, {}
    for name, samples in (("test", task.test), ("validation", task.validation)):
        if samples is not None:
            loss, error = evaluate(task, study.comm, row, samples, buffers)
            scores |= {f"{name}_loss": loss, f"{name}_error": error}
    return scores


def _finish(study: Study, outcome: Outcome, buffers: Tensor | None) -> dict[str, float]:
    """Judge the final mean model; its row of the trace."""
    task, comm, t = study.task, study.comm, outcome.state.step
    with outcome.clock("evaluation"):
        row = mean_row(outcome.state.x, comm)
        own = statistics(study, row, buffers)
        train_loss, train_error = evaluate(task, comm, row, task.train, own)
        scores = _scores(study, row, own)
    if not outcome.interrupted:
        outcome.verdict.end(t, train_loss)
    outcome.final = {"train_loss": train_loss, "train_error": train_error, **scores}
    return {
        "step": t,
        "epoch": study.sampler.epoch(t),
        "seconds": outcome.clock.training(),
        "loss_mean_model": train_loss,
        **scores,
    }


def _sent(comm: Communicator) -> tuple[float, float]:
    return comm.traffic.bytes_sent_per_learner, comm.traffic.messages_per_learner
