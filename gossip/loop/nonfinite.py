"""Gradients that are not finite: which steps are left out, and the message about them."""

import torch
from torch import Tensor

from gossip.algorithms import Step
from gossip.loop.run_state import Live
from gossip.study import Study


def note(study: Study, live: Live, step: Step) -> None:
    """Keep which rows this step left as they were, and what ends the run, if that does.

    SSGD leaves a step out for all learners, since their average is not finite; DPSGD only for the
    learner itself, which goes on averaging its last weights with its neighbours.
    """
    skipped = live.state.optimizer.skipped
    if skipped is None:
        return
    live.skipped.append(skipped.expand(len(study.comm.hosted)))
    if live.failure or not study.config.reliability.raises or not skipped.any():
        return
    t = live.state.step - 1
    live.failure = t, _sentence(study, t, step)


def counted(study: Study, live: Live, t: int) -> dict[str, float]:
    """The trace's column `skipped`, steps left out per learner since the last row. Collective.

    Args:
        study: whose learners.
        live: what has been noted; the counts of the run are brought up to date.
        t: the last step.
    """
    if not live.skipped:
        return {}
    shares = study.comm.mean(torch.stack(live.skipped, dim=1).double())
    outcome, first = live.outcome, t + 1 - len(shares)
    live.skipped.clear()
    outcome.skips += float(shares.sum())
    if outcome.first_skip is None and bool(shares.any()):
        outcome.first_skip = first + int(shares.nonzero()[0])
    return {"skipped": float(shares.sum())}


def _sentence(study: Study, t: int, step: Step) -> str:
    rows = (~step.gradients.isfinite()).any(dim=1).nonzero().flatten().tolist()
    if not rows:
        return f"step {t}: the average of the learners' gradients is not finite"
    whole = len(step.gradients) < len(study.comm.hosted)
    hosted = study.comm.hosted
    learners = f"learners {hosted[0]}-{hosted[-1]}" if whole else f"learner {hosted[rows[0]]}"
    return (
        f"step {t}: the gradient of {learners} is not finite in "
        f"{_layer(study, step.gradients[rows[0]])} (loss {float(step.losses[rows[0]]):g}); a "
        "smaller --lr or a warm-up may help, --on-nonfinite skip leaves such steps out"
    )


def _layer(study: Study, gradient: Tensor) -> str:
    """The first layer in which a gradient [d] is not finite."""
    layers = study.task.layers
    return next(k.name for k in layers if not gradient[k.start : k.stop].isfinite().all())


def weights_are_finite(study: Study, live: Live) -> bool:
    """Whether a checkpoint is worth more than the one before. Collective."""
    finite = live.state.x.isfinite().all().double().reshape(1, 1)
    return study.comm.mean(finite).item() == 1
