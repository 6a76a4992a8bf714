"""Rows of the trace for learners without a common step, taken in a pause of all."""

from math import nan

import torch
from torch import Tensor

from gossip.asynchronous.learners import Learners
from gossip.loop.evaluation import finish, measured
from gossip.loop.outcome import TraceRows
from gossip.loop.run_state import Live
from gossip.monitor import Moment
from gossip.study import Study


def observe(study: Study, live: Live, learners: Learners, first: int) -> TraceRows:
    """The row of the trace of the virtual steps since `first`. Collective.

    The monitor sees the step that the last gradient of each learner makes together: w_a moves by
    the mean of their increments, as in a synchronous step, and the averagings between do not
    move it. `train_loss` is the mean of all losses since the last row.
    """
    outcome, t = live.outcome, live.state.step - 1
    tally = gathered(study, live, learners)
    loss = _ratio(tally["loss_sum"], tally["losses"])
    outcome.verdict.follow(range(first, t + 1), [loss] * (t + 1 - first))
    skips = _skips(study, live, tally, t)
    moment = _moment(live, learners, float(torch.nanmean(tally["lr"])))
    values = measured(study, live, moment)
    learners.forget()
    return [
        {
            "step": t,
            "epoch": study.sampler.epoch(t),
            "train_loss": loss,
            "lr": moment.lr,
            "seconds": outcome.clock.training(),
            **_pace(tally),
            **skips,
            **values,
            **live.rates.values(),
        }
    ]


def finished(study: Study, live: Live, learners: Learners) -> dict[str, float]:
    """Judge the final mean model; its row of the trace. Collective."""
    gathered(study, live, learners)
    return finish(study, live)


def gathered(study: Study, live: Live, learners: Learners) -> dict[str, Tensor]:
    """The tally of all learners, name -> [n]; brings the run's messages up to date. Collective."""
    own = torch.stack(list(learners.tally.values()), dim=1)
    tally = dict(zip(learners.tally, study.comm.gather(own).T, strict=True))
    outcome = live.outcome
    outcome.messages_per_learner = float(tally["messages"].mean())
    outcome.bytes_sent_per_learner = outcome.messages_per_learner * live.state.x[0].nbytes
    return tally


def _moment(live: Live, learners: Learners, lr: float) -> Moment:
    before = learners.x - learners.last["increments"]
    inputs, labels = learners.last_batches()
    return Moment(
        step=live.state.step - 1,
        lr=lr,
        x=before,
        points=learners.last["points"],
        gradients=learners.last["gradients"],
        mixed=before,
        x_next=learners.x,
        inputs=inputs,
        labels=labels,
        seeds=learners.last_seeds(),
    )


def _pace(tally: dict[str, Tensor]) -> dict[str, float]:
    """How late the gradients since the last row came, and how many each learner has applied."""
    return {
        "staleness_mean": _ratio(tally["staleness_sum"], tally["applied"]),
        "staleness_max": float(tally["staleness_max"].max()),
        "gradients_min": float(tally["gradients"].min()),
        "gradients_max": float(tally["gradients"].max()),
    }


def _skips(study: Study, live: Live, tally: dict[str, Tensor], t: int) -> dict[str, float]:
    """The column `skipped`, gradients left out per learner since the last row."""
    if not study.config.skips:
        return {}
    skipped, outcome = float(tally["skipped"].mean()), live.outcome
    outcome.skips += skipped
    if skipped and outcome.first_skip is None:
        outcome.first_skip = t
    return {"skipped": skipped}


def _ratio(total: Tensor, count: Tensor) -> float:
    number = float(count.sum())
    return float(total.sum()) / number if number else nan
