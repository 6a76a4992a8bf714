"""What each choice comes to: seconds a step, speed-up, idle time, bytes; and which is fastest."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gossip.algorithms.pattern import mixes
from gossip.config import Config
from gossip.errors import UserError
from gossip.simulate import scenario
from gossip.simulate.engine import simulate
from gossip.simulate.scenario import Machines
from gossip.study import parts

AS_FAST = 0.01
"""Relative difference of seconds that does not count."""


@dataclass(frozen=True)
class Line:
    """One choice at one number of learners."""

    learners: int
    algorithm: str
    how: str
    """The topology, or the all-reduce."""
    exact: bool
    """Whether a step ends with all learners equal."""
    seconds: float
    """Per step."""
    speedup: float
    """Samples a second beside those of one learner."""
    efficiency: float
    """speedup / n."""
    idle: float
    """Share of the learners' time that is not computing."""
    bytes: float
    """Sent per learner and step."""
    messages: float
    """Likewise."""

    @property
    def name(self) -> str:
        """For a sentence."""
        return (
            f"{self.algorithm} by {self.how} all-reduce"
            if self.exact
            else (f"{self.algorithm} on {self.how}")
        )


@dataclass(frozen=True, kw_only=True)
class Question:
    """What is compared."""

    learners: Sequence[int]
    algorithms: Sequence[str]
    topologies: Sequence[str]
    all_reduces: Sequence[str]
    config: Config
    """Of all: order, options of topologies, stragglers, seed."""
    machines: Machines
    row_bytes: float
    """M."""
    steps: int
    """Least number of steps that are simulated; they are whole cycles of a choice's messages."""
    strong: bool = False
    """Whether the total batch stays the same, so that a learner has 1/n of the work of c."""


def answers(question: Question) -> list[Line]:
    """A line for each number of learners and each choice.

    Raises:
        UserError: something is not there, or does not fit.
    """
    return [line for n in question.learners for line in _with(question, n)]


def _with(question: Question, n: int) -> list[Line]:
    if n < 1:
        raise UserError(f"learners={n}: it must be at least 1")
    made = []
    for name in question.algorithms:
        pattern = parts.pattern(name, question.config)
        if mixes(pattern):
            made += [_line(question, n, name, topology, "ring") for topology in question.topologies]
        else:
            made += [_line(question, n, name, None, how) for how in question.all_reduces]
    return made


def _line(question: Question, n: int, name: str, topology: str | None, how: str) -> Line:
    config = scenario.with_learners(question.config, n, topology)
    share = 1 / n if question.strong else 1.0
    setting = scenario.setting(
        name, config, question.machines, question.row_bytes, all_reduce=how, share=share
    )
    steps = setting.whole(question.steps)
    timeline = simulate(setting, steps)
    alone = question.machines.compute(config)
    one = float(np.mean([alone.at(t).mean() for t in range(steps)]))
    seconds = timeline.seconds_per_step
    speedup = share * n * one / seconds if seconds else float(n)
    sent = timeline.sent_per_step
    return Line(
        n,
        name,
        topology or how,
        topology is None,
        seconds,
        speedup,
        speedup / n,
        float(timeline.idle.mean()),
        sent.bytes,
        sent.messages,
    )


def sentence(lines: Sequence[Line], network: str) -> str:
    """Which of the choices at one number of learners is the fastest, and by how much.

    Of those that are as fast, one that averages exactly is named first.
    """
    least = min(line.seconds for line in lines)
    fastest = [line for line in lines if line.seconds <= least * (1 + AS_FAST)]
    best = next((line for line in fastest if line.exact), fastest[0])
    said = f"{best.learners} learners on {network}: {best.name} is fastest, "
    said += f"{best.seconds:.4g} s a step"
    if equals := [line.name for line in fastest if line is not best]:
        said += f" (as fast: {', '.join(equals)})"
    other = [line for line in lines if line.exact != best.exact and line not in fastest]
    if other:
        rival = min(other, key=lambda line: line.seconds)
        ratio = rival.seconds / best.seconds
        said += f"; {rival.name} takes {rival.seconds:.4g} s, {ratio:.3g} times as long"
    if best.exact:
        return said + ". Gossip would save nothing here."
    if best.seconds and best.idle < AS_FAST:
        said += "; its messages are hidden behind the gradient"
    return said + ". An average over a graph is not exact: a run tells how many steps it takes."
