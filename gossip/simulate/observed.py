"""Step times of recorded runs, as observations that a network is fitted to."""

import math
from collections.abc import Sequence

from gossip.errors import UserError
from gossip.report.runs import Run
from gossip.simulate import scenario
from gossip.simulate.coupling import config_of, row_bytes
from gossip.simulate.engine import simulate
from gossip.simulate.fit import Timing
from gossip.simulate.network import Network
from gossip.simulate.scenario import Machines

STEPS = 16
"""Least number of steps that are simulated of a run; they are whole cycles of its messages."""


def observations(runs: Sequence[Run], *, all_reduce: str = "ring") -> list[Timing]:
    """An observation for each run.

    Raises:
        UserError: a run without timing, or whose messages cannot be seen.
    """
    return [observation(run, all_reduce=all_reduce) for run in runs]


def observation(run: Run, *, all_reduce: str = "ring") -> Timing:
    """Seconds of a step of a run, its four phases of training, and what the simulator says.

    The gradient's seconds are the run's own; so are those of data and optimizer, which stand
    beside what is simulated.

    Raises:
        UserError: it has no timing, was no job of one learner in each process, or was slowed.
    """
    phase = _phases(run)
    learners, processes = run.number("learners"), run.number("processes")
    if processes < 2 or learners != processes:
        raise UserError(
            f"run {run.folder}: {learners:.0f} learners in {processes:.0f} process(es); latency "
            "and bandwidth show where each learner is a process: give runs of gossip.launch -n "
            "with as many --learners, or measure a ping-pong"
        )
    config = config_of(run)
    if config.reliability.straggler != "none":
        raise UserError(
            f"run {run.folder}: its learners were slowed on purpose (--straggler), which hides "
            "what messages take: give a run without"
        )
    name, m = str(run.setting("algorithm")), row_bytes(run, config)

    def predict(network: Network) -> float:
        machines = Machines(network=network, seconds=phase["gradient"])
        made = scenario.setting(name, config, machines, m, all_reduce=all_reduce)
        return (
            simulate(made, made.whole(STEPS)).seconds_per_step + phase["data"] + phase["optimizer"]
        )

    return Timing(run.label, sum(phase.values()), predict)


def gradient_seconds(runs: Sequence[Run]) -> dict[str, float]:
    """For each run by its label, what a gradient took: the `--compute` of further questions."""
    return {run.label: _phases(run)["gradient"] for run in runs}


def _phases(run: Run) -> dict[str, float]:
    """Seconds per step of each phase of training."""
    names = ("data", "gradient", "communication_wait", "optimizer")
    found = {name: run.number("wall_seconds", name) / run.number("steps") for name in names}
    if not all(map(math.isfinite, found.values())):
        raise UserError(
            f"run {run.folder}: it has no timing (was it killed?): give one that has ended"
        )
    return found
