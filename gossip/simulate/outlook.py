"""What each choice comes to: seconds a step, speed-up, idle time, bytes; and which is fastest."""

from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace

import numpy as np

from gossip.algorithms.pattern import AllGather, Partner, Pattern, averages, message, mixes
from gossip.config import Config
from gossip.errors import UserError
from gossip.simulate import scenario
from gossip.simulate.engine import simulate
from gossip.simulate.network import Network
from gossip.simulate.phase_diagram import AS_FAST, Seconds
from gossip.simulate.scenario import Machines
from gossip.simulate.setting import Setting
from gossip.study import parts

ALL_TO_ALL, PAIRS, ALONE = "messages of all to all", "random pairs", "nothing"
OTHERWISE = (ALL_TO_ALL, PAIRS, ALONE)
"""What learners send where it is neither a topology's nor an all-reduce's."""


@dataclass(frozen=True)
class Choice:
    """An algorithm with so many learners, and how its averages are made."""

    learners: int
    algorithm: str
    how: str
    """The topology, the all-reduce, or one of `OTHERWISE`."""
    exact: bool
    """Whether a step ends with all learners equal."""

    @property
    def name(self) -> str:
        """For a sentence."""
        if self.how in OTHERWISE:
            return f"{self.algorithm} by {self.how}"
        by = f"by {self.how} all-reduce" if self.exact else f"on {self.how}"
        return f"{self.algorithm} {by}"


@dataclass(frozen=True)
class Forecast(Choice):
    """What a choice comes to."""

    seconds: float
    """Per step."""
    speedup: float
    """Samples a second beside those of one learner."""
    efficiency: float
    """speedup / n."""
    idle: float
    """Share of the learners' time that they wait; failures and their repair are no waiting."""
    bytes: float
    """Sent per learner and step."""
    messages: float
    """Likewise."""


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

    def share(self, n: int) -> float:
        """Of the work of c that each of n learners has."""
        return 1 / n if self.strong else 1.0


def answers(question: Question) -> list[Forecast]:
    """A line for each number of learners and each choice.

    Raises:
        UserError: something is not there, or does not fit.
    """
    return [_line(question, each) for n in question.learners for each in choices(question, n)]


def choices(question: Question, n: int) -> list[Choice]:
    """What is compared with n learners: algorithms on topologies, or by all-reduces.

    Raises:
        UserError: there is no such algorithm, or n is below 1.
    """
    if n < 1:
        raise UserError(f"learners={n}: it must be at least 1")
    made = []
    for name in question.algorithms:
        exact, ways = _ways(question, parts.pattern(name, question.config))
        made += [Choice(n, name, how, exact) for how in ways]
    return made


def _ways(question: Question, pattern: Pattern) -> tuple[bool, Sequence[str]]:
    """Whether learners are equal after a step, and by what their messages may travel."""
    if mixes(pattern):
        return False, question.topologies
    if averages(pattern):
        return True, question.all_reduces
    kinds = {type(message(phase)) for phase in pattern}
    if AllGather in kinds:
        return True, [ALL_TO_ALL]
    return False, [PAIRS if Partner in kinds else ALONE]


def setting(question: Question, choice: Choice) -> Setting:
    """What is simulated of a choice.

    Raises:
        UserError: something is not there, or does not fit.
    """
    n, named = choice.learners, choice.how not in OTHERWISE
    topology = choice.how if named and not choice.exact else None
    return scenario.setting(
        choice.algorithm,
        scenario.with_learners(question.config, n, topology),
        question.machines,
        question.row_bytes,
        all_reduce=choice.how if named and choice.exact else "ring",
        share=question.share(n),
    )


def by_step(question: Question, n: int) -> Seconds:
    """Seconds a step of each choice on any network, those that average exactly first.

    Raises:
        UserError: something is not there, or does not fit.
    """
    ordered = sorted(choices(question, n), key=lambda choice: not choice.exact)
    settings = {choice.name: setting(question, choice) for choice in ordered}

    def seconds(network: Network) -> dict[str, float]:
        steps = question.steps
        return {
            name: simulate(replace(made, network=network), made.whole(steps)).seconds_per_step
            for name, made in settings.items()
        }

    return seconds


def _line(question: Question, choice: Choice) -> Forecast:
    n, made = choice.learners, setting(question, choice)
    steps = made.whole(question.steps)
    timeline = simulate(made, steps)
    alone = question.machines.compute(scenario.with_learners(question.config, n))
    one = float(np.mean([alone.at(t).mean() for t in range(steps)]))
    seconds, share = timeline.seconds_per_step, question.share(n)
    speedup = share * n * one / seconds if seconds else float(n)
    sent = timeline.sent_per_step
    return Forecast(
        *astuple(choice),
        seconds=seconds,
        speedup=speedup,
        efficiency=speedup / n,
        idle=float(timeline.idle.mean()),
        bytes=sent.bytes,
        messages=sent.messages,
    )


def sentence(lines: Sequence[Forecast], network: str) -> str:
    """Which of the choices at one number of learners is the fastest, and by how much.

    Of those that are as fast, one that averages exactly is named first.
    """
    least, exact = min(line.seconds for line in lines), [line for line in lines if line.exact]
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
    if best.learners > 1 and best.speedup <= 1 + AS_FAST:
        said += (
            f"; one learner alone does as many samples a second (speed-up {best.speedup:.3g}): "
            "send less, by --mix-every, fewer bytes or larger batches"
        )
    if best.exact:
        return said + (". Gossip would save nothing here." if len(lines) > len(exact) else ".")
    if best.seconds and best.idle < AS_FAST:
        said += "; its messages are hidden behind the gradient"
    return said + ". An average over a graph is not exact: a run tells how many steps it takes."
