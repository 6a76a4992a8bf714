"""The loop around learners that have no common step: what happens in the pauses."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from gossip.algorithms import AdPsgd, State
from gossip.asynchronous.learners import Learners
from gossip.asynchronous.observe import finished, observe
from gossip.asynchronous.simulation import Simulation
from gossip.checkpoint import Snapshot
from gossip.comm.shutdown.position import Position
from gossip.errors import UserError
from gossip.loop.end_of_step import Agreement, EndOfStep, Keep, Record, Unstopped
from gossip.loop.outcome import Outcome, TraceRows
from gossip.loop.run_state import begin, snapshot
from gossip.study import Study

if TYPE_CHECKING:  # needs MPI
    from gossip.asynchronous.processes import Processes

OBSERVED = "observed"
"""Name, among a snapshot's facts, of the first virtual step that no row of the trace has yet."""


def train(
    study: Study,
    algorithm: AdPsgd,
    *,
    record: Record = lambda rows: None,
    position: Position | None = None,
    agreement: Agreement | None = None,
    start: Snapshot | None = None,
    keep: Keep | None = None,
) -> Outcome:
    """Run until n gradients per step have been applied, whoever computed them; collective.

    A step is virtual: n gradients of the learners together. On one process time is simulated, and
    each step has an end as in `gossip.train`; on several the learners have a pause for it, in
    which no exchange is under way, whenever the trace gets a row or a checkpoint is due.

    Args:
        study: data, start, batches, topology and learning rate.
        algorithm: how a learner averages and moves.
        record: gets the trace's rows as they come, one for all steps since the last one.
        position: kept up to date for the message of a process that fails; its step is the number
            of the learner's gradient.
        agreement: decides in a pause whether it is the last; a process that has something
            `pending` gets a pause soon.
        start: where to take up a run that ended before its time; None: at the beginning.
        keep: gets a snapshot when one is due, and after the last step.

    Raises:
        UserError: the rule needs norms of all learners; `start` is of another run; or as
            `Processes`.
    """
    check_study(study)
    comm, last = study.comm, study.steps - 1
    position, agreement = position or Position(), agreement or Unstopped(comm)
    run = AsynchronousRun(study, algorithm, position, start)
    live, outcome = run.live, run.live.outcome
    end_of_step = EndOfStep(study, live, agreement, record, keep)

    def pause_wanted() -> bool:
        return agreement.pending or (keep is not None and keep.overdue())

    with run.engine(pause_wanted) as engine:
        while live.state.step <= last and not outcome.verdict.hopeless:
            t = live.state.step if comm.processes == 1 else _next(study, live.state.step, keep)
            total = engine.advance(comm.n * (t + 1))
            run.reached(min(t + 1, total // comm.n))
            on_time = run.done == t + 1
            if end_of_step(
                max(0, run.done - 1),
                done=run.done > last,
                row=on_time and _has_row(study, t),
                due=on_time and keep is not None and keep.due(t + 1),
                observe=partial(run.observe, engine),
                snapshot=partial(run.snapshot, engine),
            ):
                break
    record([finished(study, live, run.learners)])
    return outcome


class AsynchronousRun:
    """A run, its learners and how far its trace is."""

    def __init__(
        self, study: Study, algorithm: AdPsgd, position: Position, start: Snapshot | None
    ) -> None:
        self._study, self._algorithm, self._start = study, algorithm, start
        self.live = begin(study, algorithm, position, start)
        self.observed = 0
        """The first virtual step that no row of the trace has yet."""
        self.learners = Learners(study, algorithm, self.live, position)

    @property
    def done(self) -> int:
        """Virtual steps done."""
        return self.live.state.step

    def engine(self, pause_wanted: Callable[[], bool]) -> "Simulation | Processes":
        """What lets the learners go on; collective.

        Raises:
            UserError: the checkpoint is of another run; or as `Processes`.
        """
        study, start, learners = self._study, self._start, self.learners
        try:
            if start is not None:
                self.observed = int(start.facts[OBSERVED])
                learners.restore(start.rows)
            engine = _engine(study, learners, pause_wanted)
            if start is not None:
                engine.restore(start.rows)
        except (KeyError, RuntimeError) as error:
            raise UserError(f"the checkpoint is not one of ad-psgd ({error})") from error
        return engine

    def reached(self, step: int) -> None:
        """So many virtual steps are done."""
        outcome = self.live.outcome
        outcome.state = State(step, self.learners.x, self.live.state.optimizer)

    def observe(self, engine: "Simulation | Processes") -> TraceRows:
        """The row of the trace of the steps since the last one, if there are any. Collective."""
        if self.observed == self.done:
            return []
        rows = observe(self._study, self.live, self.learners, self.observed)
        rows[-1] |= engine.values()
        self.observed = self.done
        return rows

    def snapshot(self, engine: "Simulation | Processes") -> Snapshot:
        """The run as it is, in a pause."""
        common = snapshot(self.live, self._study, self._algorithm)
        rows = {**common.rows, **self.learners.rows(), **engine.rows()}
        return replace(common, rows=rows, facts={**common.facts, OBSERVED: self.observed})


def _engine(
    study: Study, learners: Learners, pause_wanted: Callable[[], bool]
) -> "Simulation | Processes":
    if study.comm.processes == 1:
        return Simulation(study, learners)
    from gossip.asynchronous.processes import Processes

    return Processes(study, learners, pause_wanted)


def _next(study: Study, t: int, keep: Keep | None) -> int:
    """The first step from t on after which there is a pause: the same on all processes."""
    while not (_has_row(study, t) or (keep is not None and keep.due(t + 1))):
        t += 1
    return t


def _has_row(study: Study, t: int) -> bool:
    return t % study.config.monitoring.monitor_every == 0 or t == study.steps - 1


def check_study(study: Study) -> None:
    """Refuse what asynchronous learners cannot have.

    Raises:
        UserError: a rate or a precision that looks at all learners, processes that host several of
            many, or a backend that only knows messages for which both sides have a time.
    """
    comm = study.comm
    if comm.processes > 1 and comm.backend != "mpi":
        raise UserError(
            f"ad-psgd on backend {comm.backend}: learners that do not wait for each other need "
            "MPI; start them by mpirun with --backend mpi, or all in one process"
        )
    if comm.processes not in (1, comm.n):
        raise UserError(
            f"ad-psgd with {comm.n} learners on {comm.processes} processes: it runs on one "
            f"process for each learner or on one for all; start {comm.n} or 1"
        )
    if study.damper is not None:
        raise UserError(
            f"ad-psgd with damping {study.config.damping.damping}: learners that wait for nobody "
            "have no update at which all batches grow; use --damping none, or dpsgd"
        )
    if study.config.monitoring.step_times:
        raise UserError(
            "ad-psgd with --step-times: learners that wait for nobody have no step in common, and "
            "no table of its times; record them with another algorithm"
        )
    if study.config.compute.scales_loss:
        raise UserError(
            "ad-psgd with amp fp16: learners that wait for nobody cannot leave out a step "
            "together; use --amp bf16"
        )
    if study.rule.needs_norms:
        rate = study.config.rate
        raise UserError(
            f"ad-psgd with scaling {rate.scaling} and warm-up {rate.warmup}: the rate depends on "
            "the gradients of all learners at one step, and there is none; use --scaling none, "
            "linear or sqrt and --warmup none, fixed or legw"
        )
