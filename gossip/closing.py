"""What every loop does with a run at its checkpoints and at its end."""

from gossip.comm.stop import Answer, Wish
from gossip.evaluation import evaluate, mean_row, scores_of, statistics
from gossip.live import Live
from gossip.monitor import Moment
from gossip.study import Study


def heard(study: Study, live: Live, answer: Answer, *, last: bool) -> tuple[int, str] | None:
    """What ends the run by a failure, as all processes know it. Collective.

    They do not talk at every step, but before a run may end well they do.
    """
    if not (last and study.config.reliability.raises):
        return answer.failure
    wishes = [Wish(failure=failure) for failure in study.comm.share(live.failure)]
    return Answer(answer.stop, wishes).failure


def measured(study: Study, live: Live, moment: Moment) -> dict[str, float]:
    """What monitor and evaluation say of a moment, for a row of the trace. Collective."""
    with live.outcome.clock("monitor"):
        values = live.monitor(moment, study.comm)
    with live.outcome.clock("evaluation"):
        row = mean_row(moment.x, study.comm)
        scores = scores_of(study, row, statistics(study, row, live.buffers))
    return {**scores, **values}


def weights_are_finite(study: Study, live: Live) -> bool:
    """Whether a checkpoint is worth more than the one before. Collective."""
    finite = live.state.x.isfinite().all().double().reshape(1, 1)
    return study.comm.mean(finite).item() == 1


def finish(study: Study, live: Live) -> dict[str, float]:
    """Judge the final mean model; its row of the trace. Collective."""
    task, comm, outcome, t = study.task, study.comm, live.outcome, live.state.step
    with outcome.clock("evaluation"):
        row = mean_row(live.state.x, comm)
        own = statistics(study, row, live.buffers)
        train_loss, train_error = evaluate(task, comm, row, task.train, own)
        scores = scores_of(study, row, own)
    if outcome.failure:
        outcome.verdict.fail(*outcome.failure)
    elif not outcome.interrupted:
        outcome.verdict.end(t, train_loss)
    outcome.final = {"train_loss": train_loss, "train_error": train_error, **scores}
    return {
        "step": t,
        "epoch": study.sampler.epoch(t),
        "seconds": outcome.clock.training(),
        "loss_mean_model": train_loss,
        **scores,
    }
