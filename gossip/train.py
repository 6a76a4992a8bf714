"""The loop of all algorithms whose learners have a step in common: the order of things in a step.

AD-PSGD's learners have none: `gossip.asynchronous.train` lets each go at its own pace, and shares
with this loop how a run begins (`begin`), ends a step (`EndOfStep`) and is judged (`finish`).
"""

import time
from functools import lru_cache, partial

import torch
from scipy.sparse import csr_array, eye_array
from torch import Tensor

from gossip.algorithms import Algorithm, Gradient, LearningRate, State, Step
from gossip.algorithms.loss_scale import COLUMN as LOSS_SCALE
from gossip.checkpoint import Snapshot
from gossip.comm.shutdown.position import Position
from gossip.loop import step_times
from gossip.loop.end_of_step import Agreement, EndOfStep, Keep, Record, Unstopped
from gossip.loop.evaluation import finish, measured
from gossip.loop.nonfinite import counted, note
from gossip.loop.outcome import Outcome, TraceRows
from gossip.loop.run_state import Live, begin, snapshot
from gossip.loop.survivors import LostProcessError, begun_anew, can_lose
from gossip.loop.training_set import looked
from gossip.loop.workers import COLUMN as WORKERS
from gossip.monitor import Moment
from gossip.study import Study
from gossip.task import Gradients


def train(
    study: Study,
    algorithm: Algorithm,
    *,
    record: Record = lambda rows: None,
    position: Position | None = None,
    agreement: Agreement | None = None,
    start: Snapshot | None = None,
    keep: Keep | None = None,
) -> Outcome:
    """Run until the budget of the rule is used up; collective.

    Losses stay with their process and are averaged over the learners every `monitor_every`
    steps, when the monitor runs: between two of those DPSGD needs nothing but its neighbours.

    Args:
        study: data, start, batches, topology and learning rate.
        algorithm: what a step does.
        record: gets the trace's rows as they come.
        position: kept up to date for the message of a process that fails.
        agreement: decides for all processes whether the step just done is the last.
        start: where to take up a run that ended before its time; None: at the beginning.
        keep: gets a snapshot when one is due, and after the last step.

    Raises:
        UserError: `start` is of another run.
        LostProcessError: a process is gone, and the others may go on without its learners.
    """
    comm, every = study.comm, study.config.monitoring.monitor_every
    position, agreement = position or Position(), agreement or Unstopped(comm)
    live = begin(study, algorithm, position, start)
    outcome, clock = live.outcome, live.outcome.clock
    end_of_step = EndOfStep(study, live, agreement, record, keep)
    try:
        while live.rates.progress < 1 and not outcome.verdict.hopeless:
            t = position.step = live.state.step
            rate = step_rate(study, live, t)
            before_gradient = clock.seconds["gradient"]
            with clock("data"):
                inputs, labels = study.task.train.batch(live.indices(t))
            gradient = clock.timed("gradient", step_gradient(study, live, t, inputs, labels))
            if live.loss_scale is not None:
                gradient = live.loss_scale.judged(gradient, comm)
            with outcome.counting(comm):
                state, step = algorithm.step(
                    live.state, gradient, mixing_matrix(study, t), rate, comm
                )
            before, outcome.state = live.state, state
            live.losses.append(step.losses.expand(len(comm.hosted)))
            note(study, live, step)
            step_times.note(study, live, before_gradient)
            done = live.rates.progress >= 1
            moment = partial(
                _moment, algorithm, before, step, state, inputs, labels, study, live.flat_spread
            )
            if end_of_step(
                t,
                done=done,
                row=t % every == 0 or done,
                due=keep is not None and keep.due(t + 1),
                observe=lambda moment=moment: _observe(study, live, moment()),
                snapshot=lambda: snapshot(live, study, algorithm),
            ):
                break
        record([finish(study, live)])
        outcome.state = outcome.state.arrived()  # others use the communicator after this
    except Exception as error:
        if comm.lost(error) and can_lose(study, algorithm):
            outcome.state = begun_anew(live.state, algorithm)
            raise LostProcessError(study, snapshot(live, study, algorithm)) from error
        raise
    return outcome


def step_rate(study: Study, live: Live, t: int) -> LearningRate:
    """The rate of step t; where batches grow, its samples are decided first. Collective."""
    if live.growth is None:
        return live.rates.at(t)
    live.sampler, span = live.growth.next(t, live.sampler, partial(looked, study, live))
    return live.growth.watching(t, live.rates.at(t, span), study.comm)


def step_gradient(study: Study, live: Live, t: int, inputs: Tensor, labels: Tensor) -> Gradient:
    """The gradient of step t as a function of the weights, [rows, d]."""
    take = partial(
        study.gradient,
        inputs=inputs,
        labels=labels,
        squares=study.needs_squares,
        buffers=live.buffers,
        seeds=study.seeds(t),
    )
    if live.loss_scale is not None:
        take = partial(take, scale=live.loss_scale.scale)
    late = _delayed(take, study.delay(t))
    return late if live.workers is None else live.workers.weighted(late, labels, live.sampler)


def mixing_matrix(study: Study, t: int) -> csr_array:
    """W of step t, the identity where nothing is mixed."""
    w = study.mixing_matrix(t)
    return _identity(study.comm.n) if w is None else w


@lru_cache(maxsize=4)
def _identity(n: int) -> csr_array:
    return csr_array(eye_array(n))


def _delayed(gradient: Gradient, seconds: float) -> Gradient:
    """`gradient`, taking so much longer."""
    if not seconds:
        return gradient

    def late(x: Tensor) -> Gradients:
        time.sleep(seconds)
        return gradient(x)

    return late


def _moment(
    algorithm: Algorithm,
    before: State,
    step: Step,
    after: State,
    inputs: Tensor,
    labels: Tensor,
    study: Study,
    flat_spread: float | None,
) -> Moment:
    comm = study.comm
    lr = torch.as_tensor(step.lr, dtype=torch.float64)
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
        known_centre=step.known_centre,
        seeds=study.seeds(before.step),
        kept=after.rows,
        flat_spread=flat_spread,
    )


def _observe(study: Study, live: Live, moment: Moment) -> TraceRows:
    """Rows of the steps since the last call; the last of them with all that is monitored."""
    comm, outcome, losses = study.comm, live.outcome, live.losses
    mean_losses = comm.mean(torch.stack(losses, dim=1).double()).tolist()
    steps = range(moment.step + 1 - len(losses), moment.step + 1)
    losses.clear()
    outcome.verdict.follow(steps, mean_losses)
    skips = counted(study, live, moment.step)
    values = measured(study, live, moment)
    rows: TraceRows = [
        {"step": t, "epoch": study.sampler.epoch(t), "train_loss": loss} | times
        for t, loss, times in zip(
            steps, mean_losses, step_times.rows(study, live, len(steps)), strict=True
        )
    ]
    if live.growth is not None:
        more = live.growth.rows(study.sampler.num_samples)
        rows = [row | own for row, own in zip(rows, more, strict=True)]
        rows[-1]["lr_over_batch"] = moment.lr / rows[-1]["batch_size"]
    if live.workers is not None:
        rows[-1][WORKERS] = live.workers.count(live.sampler)
    seconds = outcome.clock.training()
    rows[-1] |= {"lr": moment.lr, "seconds": seconds, **skips, **values}
    rows[-1] |= {"learners": comm.n, **live.rates.values()}
    if live.loss_scale is not None:
        rows[-1][LOSS_SCALE] = live.loss_scale.scale
    return rows
