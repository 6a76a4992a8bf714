"""A learner whose gradient is not finite leaves it out, or ends the run."""

from dataclasses import replace

import torch

from gossip import asynchronous
from gossip.algorithms import AdPsgd
from gossip.config.reliability import Reliability
from gossip.optim import FlatOptimizer
from tests.asynchronous.studies import column, config, study


def test_gradients_that_are_not_finite_are_skipped_or_end_the_run():
    skipping = Reliability(on_nonfinite="skip")
    made = study(config(2, reliability=skipping))
    task = made.task
    lost = iter([False] * 5 + [True] * 2)
    plain = task.gradient

    def gradient(*args, **options):
        found = plain(*args, **options)
        nan = float("nan") if next(lost, False) else 0.0
        return found._replace(values=found.values + nan, losses=found.losses + nan)

    task.gradient = gradient
    algorithm = AdPsgd(
        lambda: FlatOptimizer(lambda p: torch.optim.SGD(p, lr=1.0), task.layers, skips=True)
    )
    rows = []
    outcome = asynchronous.train(made, algorithm, record=rows.extend)
    assert outcome.skips == 1.0  # two of two learners' gradients
    assert outcome.first_skip is not None
    assert sum(column(rows, "skipped")) == 1.0
    assert torch.isfinite(outcome.state.x).all()
    assert not outcome.verdict.diverged

    lost = iter([False] * 5 + [True])
    made = replace(made, config=replace(made.config, reliability=Reliability(on_nonfinite="raise")))
    outcome = asynchronous.train(made, algorithm)
    assert "gradient 2 of learner 1 is not finite" in outcome.failure[1]
    assert outcome.state.step == 3
    assert outcome.verdict.diverged
