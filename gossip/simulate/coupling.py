"""Recorded runs on a network that they did not have: loss and error over simulated seconds."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from gossip.algorithms.pattern import averages, mixes, sends_rows
from gossip.compress import wire
from gossip.config import WIRES, Config, load
from gossip.config.reliability import Reliability
from gossip.errors import UserError
from gossip.report.runs import Run, test_error
from gossip.simulate import scenario
from gossip.simulate.engine import simulate
from gossip.simulate.network import Network
from gossip.simulate.phase_diagram import Seconds
from gossip.simulate.scenario import Machines
from gossip.simulate.setting import Setting
from gossip.storage.names import CONFIG
from gossip.study import parts

BYTES = {"float64": 8, "float32": 4, "bf16": 2, "fp16": 2}


@dataclass(frozen=True)
class Coupled:
    """A run with the time that its steps would have taken."""

    name: str
    """The run's label, and the all-reduce where there is one."""
    run: Run
    steps: int
    """Steps done."""
    seconds: NDArray[np.float64]
    """When all learners had ended the step of each row of the trace, [rows]."""
    bytes: NDArray[np.float64]
    """What a learner had sent by then, [rows]."""
    gradient: float
    """c, that was used; of times that are replayed, their mean over steps and learners."""

    def to(self, target: float) -> tuple[float, float]:
        """Seconds and bytes until the test error is at most `target`; NaN: it never was."""
        reached = np.flatnonzero(self.run.column("test_error") <= target)
        if not len(reached):
            return math.nan, math.nan
        return float(self.seconds[reached[0]]), float(self.bytes[reached[0]])


def couple(
    run: Run,
    machines: Machines,
    disturbance: Reliability,
    *,
    seconds: float | None = None,
    all_reduces: Sequence[str] = ("ring",),
) -> list[Coupled]:
    """Attach simulated seconds to a run's trace, once for each way to average over all learners.

    Args:
        run: as `gossip.report` loads it.
        machines: what it is thought to have run on.
        disturbance: the stragglers.
        seconds: of a gradient, in the place of the machines'; None: what the run has measured.
        all_reduces: how averages over all learners are made; one result where there are none.

    Raises:
        UserError: the run has no trace, no timing or no size, or cannot be simulated.
    """
    done = _steps(run)
    made = settings(run, machines, disturbance, seconds=seconds, all_reduces=all_reduces)
    replayed = machines.step_times is not None
    coupled = []
    for name, each in made.items():
        timeline = simulate(each, int(done[-1]))
        sent = timeline.sent_per_step.bytes * done.astype(np.float64)
        gradient = float(timeline.busy.mean()) / done[-1] if replayed else each.compute.seconds
        coupled.append(Coupled(name, run, int(done[-1]), timeline.last[done - 1], sent, gradient))
    return coupled


def settings(
    run: Run,
    machines: Machines,
    disturbance: Reliability,
    *,
    seconds: float | None = None,
    all_reduces: Sequence[str] = ("ring",),
) -> dict[str, Setting]:
    """What is simulated of a run, by name; arguments as of `couple`.

    Raises:
        UserError: the run has no timing or no size, or cannot be simulated.
    """
    config = replace(config_of(run), reliability=disturbance)
    if seconds is None and machines.step_times is None:
        seconds = _measured(run)
    used = machines if seconds is None else replace(machines, seconds=seconds)
    algorithm, m = str(run.setting("algorithm")), row_bytes(run, config)
    made: dict[str, Setting] = {}
    for how in all_reduces:
        each = scenario.setting(algorithm, config, used, m, all_reduce=how)
        if mixes(each.pattern) or not averages(each.pattern):
            return {run.label: each}
        made[f"{run.label} by {how} all-reduce"] = each
    return made


def by_target(
    runs: Sequence[Run],
    target: float,
    machines: Machines,
    disturbance: Reliability,
    *,
    seconds: float | None = None,
    all_reduces: Sequence[str] = ("ring",),
) -> Seconds:
    """Seconds to a test error of each run that comes to it, on any network.

    Other arguments as of `couple`.

    Raises:
        UserError: as `couple`, or no run comes to the target.
    """
    timed: dict[str, tuple[Setting, int]] = {}
    for run in runs:
        reached = np.flatnonzero(run.column("test_error") <= target)
        if not len(reached):
            continue
        steps = int(_steps(run)[reached[0]])
        made = settings(run, machines, disturbance, seconds=seconds, all_reduces=all_reduces)
        timed |= {name: (each, steps) for name, each in made.items()}
    if not timed:
        raise UserError(
            f"none of the runs comes to a {test_error(runs)} of {target:g}: give a --target"
        )

    def to_target(network: Network) -> dict[str, float]:
        return {
            name: float(simulate(replace(made, network=network), steps).last[-1])
            for name, (made, steps) in timed.items()
        }

    return to_target


def _steps(run: Run) -> NDArray[np.intp]:
    """Steps done at each row of the trace, [rows]; the row that judges the end is no step more.

    Raises:
        UserError: it has no rows.
    """
    steps = run.column("step")
    if not len(steps):
        raise UserError(f"run {run.folder}: its trace has no rows, so there is nothing to time")
    done = int(min(run.number("steps"), steps[-1] + 1))
    return np.minimum(steps.astype(np.intp) + 1, done)


def reachable(runs: Sequence[Run]) -> float:
    """The lowest test error that every run that did not diverge has come to.

    Raises:
        UserError: there is none.
    """
    best = [
        float(np.nanmin(errors))
        for run in runs
        if run.verdict != "diverged" and np.isfinite(errors := run.column("test_error")).any()
    ]
    if not best:
        raise UserError(
            "no run has a test error to take a target from: a script tells it by "
            "recording.note(test_error=...); with --target ERROR seconds a step are told without"
        )
    return max(best)


def sentence(coupled: Sequence[Coupled], target: float, network: str) -> str:
    """Which run comes to the target first, and by how much."""
    goal = f"{test_error([each.run for each in coupled])} of {target:.2%}"
    times = {each.name: each.to(target)[0] for each in coupled}
    reached = sorted(
        (name for name, seconds in times.items() if math.isfinite(seconds)), key=times.__getitem__
    )
    if not reached:
        return f"On {network} none of the runs comes to a {goal}."
    first, *others = reached
    said = f"On {network} {first} comes first to a {goal}, in {times[first]:.4g} s"
    for name in others[:1]:
        longer = f"{times[name] / times[first]:.3g}"
        how = "as soon" if longer == "1" else f"in {times[name]:.4g} s, {longer} times as long"
        said += f"; {name} {how}"
    missing = [name for name, seconds in times.items() if not math.isfinite(seconds)]
    return said + (f"; {', '.join(missing)} never" if missing else "") + "."


def _measured(run: Run) -> float:
    """Seconds of one learner's gradient: a process computes those of its learners in turn."""
    gradient, steps = run.number("wall_seconds", "gradient"), run.number("steps")
    local = run.number("learners") / run.number("processes")
    seconds = gradient / steps / local
    if not math.isfinite(seconds):
        raise UserError(
            f"run {run.folder}: it has no timing (was it killed?): say what a gradient takes with "
            "--compute"
        )
    return seconds


def config_of(run: Run) -> Config:
    """The config of a run: of what it may name as code the topology alone is needed here.

    Raises:
        UserError: there is none, or it names code for the topology.
    """
    advice = (
        "a simulation runs no code of a run; simulate the graph by --topology FILE, not the run"
    )
    return load(run.folder / CONFIG, ("model", "dataset", "loss"), advice)


def row_bytes(run: Run, config: Config) -> float:
    """M, what a message of one row has.

    Raises:
        UserError: the run does not say how many parameters it has.
    """
    parameters = run.number("parameters")
    if not math.isfinite(parameters):
        raise UserError(f"run {run.folder}: its summary does not say how many parameters it has")
    chosen, own = config.gossip.wire, BYTES[config.model.dtype]
    if chosen == "full" or not sends_rows(parts.pattern(str(run.setting("algorithm")), config)):
        return parameters * own
    if chosen in WIRES:
        return parameters * BYTES[chosen]
    return wire(chosen).size(int(parameters), own)
