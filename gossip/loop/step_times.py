"""What each learner's gradient took at each step: columns of the trace that can be replayed."""

import torch

from gossip.loop.run_state import Live
from gossip.study import Study

PREFIX = "gradient_seconds/"
"""Before a learner's number, in the name of its column."""


def columns(n: int) -> tuple[str, ...]:
    """One for each learner."""
    return tuple(f"{PREFIX}{j}" for j in range(n))


def note(study: Study, live: Live, before: float) -> None:
    """Keep what the step just done took, if that is wanted.

    A process computes the gradients of its learners together: each of them has an equal share.

    Args:
        study: whether it is wanted, and whose learners.
        live: whose clock has the step's gradient.
        before: the clock's seconds of gradients before the step.
    """
    if study.config.monitoring.step_times:
        local = len(study.comm.hosted)
        seconds = (live.outcome.clock.seconds["gradient"] - before) / local
        row = torch.full((local,), seconds, dtype=torch.float64, device=live.state.x.device)
        live.gradient_seconds.append(row)


def rows(study: Study, live: Live, steps: int) -> list[dict[str, float]]:
    """The columns of the last `steps` steps, which are noted no longer. Collective."""
    if not study.config.monitoring.step_times:
        return [{}] * steps
    seconds = study.comm.gather(torch.stack(live.gradient_seconds, dim=1))  # [n, steps]
    live.gradient_seconds.clear()
    return [dict(zip(columns(study.comm.n), row, strict=True)) for row in seconds.T.tolist()]
