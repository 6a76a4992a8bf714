"""Interleaved timing: A B A B ..., every process at once, and the arithmetic of the results."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from torch import Tensor

from gossip.comm.base import Communicator
from gossip.comm.stacked import Stacked

WARM_UPS = 3
"""Untimed steps: DistributedDataParallel and decent-dp arrange their buckets in the second."""
MOST_STEPS = 20_000
"""Largest number of steps in one block."""


class StoppedError(Exception):
    """All processes have agreed to stop: what has been measured so far is kept."""


@dataclass(frozen=True)
class Work:
    """One side of a comparison."""

    step: Callable[[], object]
    """The function that is timed, again and again."""
    finish: Callable[[], object] = lambda: None
    """Waits for what the last step has left under way; timed once per block."""
    weights: Callable[[], Tensor] | None = None
    """This learner's weights [d], for tests."""


@dataclass(frozen=True)
class Meeting:
    """The functions by which the processes that measure together meet between blocks."""

    comm: Communicator = field(default_factory=lambda: Stacked(1))
    wait: Callable[[], None] = lambda: None
    """Comes back when all processes have called it."""
    rest: Callable[[], None] = lambda: None
    """The same, asleep until then: for processes that have nothing to do in a block."""
    stopped: Callable[[], bool] = lambda: False
    """Whether all have agreed to stop; collective."""
    say: Callable[[str], None] = lambda text: None
    """Tells the user what is being done, once for all processes."""


class Times(NamedTuple):
    """Milliseconds per step of one variant, a value per round."""

    wall: list[float]
    """The slowest process's."""
    cpu: list[float]
    """All threads of a process, the mean over the processes."""
    steps: int
    """Steps in a block, over which each value is an average."""


class Summary(NamedTuple):
    """The numbers of one variant in a row of a table."""

    wall: float
    first_quartile: float
    third_quartile: float
    cpu: float
    ratio: float
    """Median over the rounds of wall / the base's wall in the same round: drift cancels."""


def interleaved(
    works: Mapping[str, Work], rounds: int, meeting: Meeting, block_ms: float
) -> dict[str, Times]:
    """Time each of `works` in turn, round after round; collective.

    All sides of a comparison live in the same processes, and so in the same scheduling group.

    Args:
        works: by name; all processes have the same.
        rounds: timed blocks of each.
        meeting: how the processes meet before every block.
        block_ms: a block has as many steps as fit into this, at least one. Where processes share
            cores it must be long against the time that they take to meet.

    Raises:
        StoppedError: on all processes.
    """
    steps = {name: _steps_that_fit(work, meeting, block_ms) for name, work in works.items()}
    blocks: dict[str, list[tuple[float, float]]] = {name: [] for name in works}
    for _ in range(rounds):
        for name, work in works.items():
            blocks[name].append(_block(work, steps[name], meeting))
    everyone = meeting.comm.share(blocks)
    return {name: _over_processes([each[name] for each in everyone], steps[name]) for name in works}


def summary(times: Times, base: Times) -> Summary:
    """Medians and quartiles over the rounds, and the ratio to `base` round by round."""
    first, median, third = np.percentile(times.wall, [25, 50, 75])
    ratio = np.median(np.divide(times.wall, base.wall))
    return Summary(
        float(median), float(first), float(third), float(np.median(times.cpu)), float(ratio)
    )


def hidden_fraction(compute: float, exchange: float, step: float) -> float:
    """(t_compute + t_exchange - t_step) / t_exchange: 1 all hidden, 0 nothing, below 0 a loss."""
    return (compute + exchange - step) / exchange


def packed(needs: Mapping[str, float], base: str, room: float) -> list[list[str]]:
    """Groups that fit into `room` at once, each with `base` first; the order is kept.

    Args:
        needs: what each of them takes up.
        base: the one that is in every group.
        room: how much there is; what does not fit with the base alone is in no group.
    """
    groups: list[list[str]] = []
    left = 0.0
    for name, need in needs.items():
        if name == base or needs[base] + need > room:
            continue
        if not groups or need > left:
            groups.append([base])
            left = room - needs[base]
        groups[-1].append(name)
        left -= need
    return groups


def _steps_that_fit(work: Work, meeting: Meeting, block_ms: float) -> int:
    for _ in range(WARM_UPS):
        work.step()
    steps = 1
    # Twice: many processes on few cores take one short step as fast as if they were alone.
    for length_ms in (block_ms / 4, block_ms):
        wall_ms, _ = _block(work, steps, meeting)
        slowest_ms = max(meeting.comm.share(wall_ms))
        steps = min(MOST_STEPS, max(1, math.ceil(length_ms / slowest_ms)))
    return steps


def _block(work: Work, steps: int, meeting: Meeting) -> tuple[float, float]:
    """Milliseconds per step of this process: (wall, CPU)."""
    if meeting.stopped():
        raise StoppedError
    meeting.wait()
    cpu, wall = time.process_time(), time.perf_counter()
    for _ in range(steps):
        work.step()
    work.finish()
    wall_s, cpu_s = time.perf_counter() - wall, time.process_time() - cpu
    return 1e3 * wall_s / steps, 1e3 * cpu_s / steps


def _over_processes(blocks: Sequence[Sequence[tuple[float, float]]], steps: int) -> Times:
    """Times over all processes, from [processes][rounds] pairs (wall, CPU)."""
    wall, cpu = np.moveaxis(np.asarray(blocks), -1, 0)
    return Times(wall.max(axis=0).tolist(), cpu.mean(axis=0).tolist(), steps)
