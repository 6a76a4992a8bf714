"""A run that goes on in the same job without the learners of a lost process.

Gossip has no global state: what a learner knows is its own row, so the others lose nothing but
that learner's last contribution. Their topology is built again by the same rule for fewer, and they
deal all training samples among themselves.
"""

from dataclasses import replace

import topologies
from gossip.algorithms import Algorithm, State
from gossip.checkpoint import Snapshot
from gossip.comm.base import Communicator
from gossip.comm.shutdown.stop import GoingOn
from gossip.errors import UserError
from gossip.loop.run_state import PENDING
from gossip.study import Study
from gossip.study.parts import topology


class LostProcessError(Exception):
    """A process of the job cannot be reached any more, and the others may go on without it.

    Args:
        study: of all learners.
        snapshot: the run as it was on this process, between two steps.
    """

    def __init__(self, study: Study, snapshot: Snapshot) -> None:
        super().__init__("a process of the job is lost")
        self.study, self.snapshot = study, snapshot


class Remaining(GoingOn):
    """The job goes on with the learners of the processes that are left.

    Args:
        name: the algorithm in whose run some were lost.
        study: of the learners that are left.
        start: where they take up that run.
        requested: the signal by which the run had been asked to stop; 0: none.
    """

    def __init__(self, name: str, study: Study, start: Snapshot, requested: int) -> None:
        super().__init__(f"{study.comm.n} learners are left")
        self.name, self.study, self.start, self.requested = name, study, start, requested


def remaining(name: str, lost: LostProcessError, requested: int) -> Remaining:
    """How the learners that are left go on with the run of algorithm `name`. Collective.

    Raises:
        Exception: the one that `lost` began with: this communicator has no survivors, or their
            topology cannot be built.
    """
    comm = lost.study.comm.survivors()
    cause = lost.__cause__ or lost
    if comm is None:
        raise cause
    try:
        study, start = without_the_lost(lost.study, lost.snapshot, comm)
    except UserError as error:
        cause.add_note(f"the learners that are left cannot go on by themselves: {error}")
        raise cause from None
    return Remaining(name, study, start, requested)


def begun_anew(state: State, algorithm: Algorithm) -> State:
    """The same weights, with what a method keeps beside them as at the beginning.

    Sums over all learners, such as that of trackers, do not hold any more for those that are left.
    """
    start = getattr(algorithm, "start", None)
    return state if start is None else state._replace(rows=start(state.x), pending=None)


def can_lose(study: Study, algorithm: Algorithm) -> bool:
    """Whether a run is to go on without a lost process, and has no state that it would miss.

    SSGD's one model may be a step further on some processes than on others, rules that look at
    all learners' gradients count them, and a damper counts their samples: such runs go on from a
    checkpoint. So do methods whose learners build on each other's states.

    Args:
        study: with its policy.
        algorithm: with its properties.
    """
    asked = study.config.reliability.on_failure == "continue"
    if not asked or algorithm.shared or not algorithm.properties.survives:
        return False
    return not study.rule.needs_norms and study.damper is None


def without_the_lost(study: Study, lost: Snapshot, comm: Communicator) -> tuple[Study, Snapshot]:
    """Study and state of the learners that are left. Collective among them.

    The slowest learner skips the steps that the fastest is ahead: the run goes on at the latter's.
    The learning rate stays that of the beginning, also where it was scaled by n, and so do the
    length of the run and the stragglers: the config still names all learners.

    Args:
        study: of all learners.
        lost: each process's own state.
        comm: of the survivors, who are numbered anew.

    Raises:
        UserError: their topology cannot be built, or does not average: on all of them.
    """
    known = comm.share({"step": lost.step, "facts": dict(lost.facts)})
    step = max(each["step"] for each in known)
    facts = max(known, key=lambda each: each["step"])["facts"]
    name, rebuilt = study.config.gossip.topology, topology(study.config, comm.n)
    before, after = topologies.certificate(study.topology), topologies.certificate(rebuilt)
    if not after.connected or before.column_stochastic > after.column_stochastic:
        raise UserError(f"topology {name} does not average {comm.n} learners")
    smaller = replace(
        study,
        comm=comm,
        sampler=study.sampler.without(comm.hosted, comm.n, step),
        topology=rebuilt,
    )
    # Of steps without a row of the trace nothing is told: learners may be at different ones.
    rows = {name: row for name, row in lost.rows.items() if name not in PENDING}
    progress = step / study.rule.most_steps
    facts = {**facts, "progress": progress, "lost_at": [*facts.get("lost_at", []), [step, comm.n]]}
    return smaller, replace(lost, step=step, rows=rows, facts=facts)


def from_the_start(study: Study) -> Study:
    """The study of the next run, of the learners that are left."""
    return replace(study, sampler=replace(study.sampler, since=0, drawn=0))


def as_then(study: Study, start: Snapshot) -> Study:
    """The study of a run that goes on from a checkpoint: learners may have been lost before it.

    Raises:
        UserError: the checkpoint does not say since when it has which learners.
    """
    try:
        since, drawn = int(start.facts["since"]), int(start.facts["drawn"])
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"the checkpoint of step {start.step} is of another run") from error
    return replace(study, sampler=replace(study.sampler, since=since, drawn=drawn))
