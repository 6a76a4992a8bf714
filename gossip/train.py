"""The only loop: the order of things in a step."""

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
from gossip.rates import Controller, Rule
from gossip.study import Study
from gossip.task import Samples, Task
from gossip.verdict import Verdict

COLUMNS = ("step", "epoch", "lr", "train_loss", "test_loss", "test_error", "loss_mean_model")
"""What the loop itself puts into the trace; the monitor adds its own columns."""

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
    rule: Rule,
    *,
    record: Record = lambda rows: None,
    position: Position | None = None,
    stop: Callable[[int], bool] = lambda step: False,
) -> Outcome:
    """Run `study.steps` steps; collective.

    Losses stay with their process and are averaged over the learners every `monitor_every`
    steps, when the monitor runs: between two of those DPSGD needs nothing but its neighbours.

    Args:
        study: data, start, batches and topology.
        algorithm: what a step does.
        rule: the learning rate.
        record: gets the trace's rows as they come.
        position: kept up to date for the message of a process that fails.
        stop: asked with the number of each step; must say the same on all processes. The step
            in which it says True is the last.
    """
    task, comm, every = study.task, study.comm, study.config.monitoring.monitor_every
    position = position or Position()
    position.step = 0
    rates = Controller(rule, comm, study.steps)
    state = algorithm.init(task.init(study.config.seed), len(comm.hosted))
    clock = Clock(lambda phase: setattr(position, "phase", SAID.get(phase, phase)))
    outcome = Outcome(state, Verdict(study.dataset.num_classes), clock)
    monitor = study.make_monitor()
    losses: list[Tensor] = []
    for t in range(study.steps):
        position.step = t
        with clock("data"):
            inputs, labels = task.train.batch(study.sampler.indices(t))
        gradient = clock.timed("gradient", partial(task.gradient, inputs=inputs, labels=labels))
        with outcome.counting(comm):
            state, step = algorithm.step(
                outcome.state, gradient, mixing_matrix(study, t), rates.at(t), comm
            )
        losses.append(step.losses)
        before, outcome.state = outcome.state, state
        outcome.interrupted = stop(t) and t < study.steps - 1
        if t % every == 0 or t == study.steps - 1 or outcome.interrupted:
            moment = _moment(algorithm, before, step, state, inputs, labels)
            record(_observe(study, monitor, outcome, moment, losses))
            losses.clear()
        if outcome.interrupted or outcome.verdict.hopeless:
            break
    record([_finish(study, outcome)])
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


def evaluate(task: Task, comm: Communicator, row: Tensor, samples: Samples) -> tuple[float, float]:
    """Mean loss and share of errors of the model `row` [d]; each learner takes its part."""
    part = share_of(np.arange(len(samples)), comm.hosted, comm.n)
    scores = task.evaluate(row, samples, part)
    loss, errors, count = comm.mean(torch.tensor([scores], dtype=torch.float64)).tolist()
    return loss / count, errors / count


@lru_cache(maxsize=4)
def _identity(n: int) -> csr_array:
    return csr_array(eye_array(n))


def _moment(
    algorithm: Algorithm, before: State, step: Step, after: State, inputs: Tensor, labels: Tensor
) -> Moment:
    return Moment(
        step=before.step,
        lr=float(torch.as_tensor(step.lr).double().mean()),
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
    study: Study, monitor: Monitor, outcome: Outcome, moment: Moment, losses: list[Tensor]
) -> Rows:
    """Rows of the steps since the last call; the last of them with all that is monitored."""
    comm, task = study.comm, study.task
    mean_losses = comm.mean(torch.stack(losses, dim=1).double()).tolist()
    steps = range(moment.step + 1 - len(losses), moment.step + 1)
    outcome.verdict.follow(steps, mean_losses)
    with outcome.clock("monitor"):
        values = monitor(moment, comm)
    with outcome.clock("evaluation"):
        row = mean_row(moment.x, comm)
        test_loss, test_error = evaluate(task, comm, row, task.test)
    rows: Rows = [
        {"step": t, "epoch": study.sampler.epoch(t), "train_loss": loss}
        for t, loss in zip(steps, mean_losses, strict=True)
    ]
    rows[-1] |= {"lr": moment.lr, "test_loss": test_loss, "test_error": test_error, **values}
    return rows


def _finish(study: Study, outcome: Outcome) -> dict[str, float]:
    """Judge the final mean model; its row of the trace."""
    task, comm, t = study.task, study.comm, outcome.state.step
    with outcome.clock("evaluation"):
        row = mean_row(outcome.state.x, comm)
        train_loss, train_error = evaluate(task, comm, row, task.train)
        test_loss, test_error = evaluate(task, comm, row, task.test)
    if not outcome.interrupted:
        outcome.verdict.end(t, train_loss)
    outcome.final = {
        "train_loss": train_loss,
        "train_error": train_error,
        "test_loss": test_loss,
        "test_error": test_error,
    }
    return {
        "step": t,
        "epoch": study.sampler.epoch(t),
        "loss_mean_model": train_loss,
        "test_loss": test_loss,
        "test_error": test_error,
    }


def _sent(comm: Communicator) -> tuple[float, float]:
    return comm.traffic.bytes_sent_per_learner, comm.traffic.messages_per_learner
