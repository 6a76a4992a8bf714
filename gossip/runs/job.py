"""The runs of one command: each algorithm in turn, in a folder of its own, from where it was."""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console

from gossip import report, trace
from gossip.checkpoint import Snapshot
from gossip.comm.base import Communicator
from gossip.comm.shutdown.failure import Position
from gossip.comm.shutdown.stop import Stop
from gossip.comm.startup.together import on_first
from gossip.config import to_tables
from gossip.errors import UserError
from gossip.loop.outcome import Outcome
from gossip.loop.survivors import LostProcessError, as_then, from_the_start, remaining
from gossip.runs.checkpoints import Checkpoints, take_up
from gossip.runs.dispatch import columns, run_loop
from gossip.runs.recorder import Record
from gossip.storage import folder as run_folder
from gossip.storage.glance import FINAL, free_folder
from gossip.storage.lock import locked
from gossip.study import Study


@dataclass(frozen=True, kw_only=True)
class Job:
    """What one process has to do with the runs of a command."""

    study: Study
    out: Path
    """Folder of the one run, or of one folder for each."""
    names: tuple[str, ...]
    """The algorithms, in their order."""
    again: bool
    """Whether runs go on that are in the folder already."""
    position: Position
    stop: Stop
    records: list[Record]
    """Gets the record of each run when it begins."""

    @property
    def folders(self) -> dict[str, Path]:
        """Of each algorithm's run."""
        single = len(self.names) == 1
        return {name: self.out if single else self.out / name for name in self.names}

    def run(self, left: LostProcessError | None = None) -> Outcome | None:
        """Train with each algorithm in turn; process 0 keeps the records and draws the picture.

        Args:
            left: what the learners go on with that are left of a run, if some have been lost.

        Returns:
            The last run's outcome; None if it was finished before.

        Raises:
            UserError: a folder is in use, or a checkpoint not of this run.
            LostProcessError: a process was lost; it says how the others can go on.
        """
        first = self.study.comm.process == 0
        outcome = None
        names = self.names if left is None else self.names[self.names.index(left.name) :]
        with self._held(self.out):
            on_first(self.study.comm, self._introduce)
            for name in names:
                start = left.start if left is not None and name == left.name else None
                outcome = self._train(name, start)
                if outcome is not None and (outcome.interrupted or outcome.failure):
                    break
            if first:
                show(self.folders)
                keep = self.study.config.reliability.checkpoint_keep
                if outcome is not None and outcome.interrupted and keep:
                    say(f"go on with: python -m gossip.run --resume {self.out}")
        return outcome

    @contextmanager
    def _held(self, folder: Path) -> Iterator[None]:
        """In this block process 0 holds the lock on a folder, which may have to be made."""
        with ExitStack() as held:

            def take() -> None:
                folder.mkdir(parents=True, exist_ok=True)
                held.enter_context(locked(folder, say))

            on_first(self.study.comm, take)
            yield

    def _introduce(self) -> None:
        """Say what is about to run; on process 0."""
        if len(self.names) > 1:
            run_folder.write_config(self.out, to_tables(self.study.config))
        say(introduction(self.study, self.names, self.out))

    def _train(self, name: str, left: Snapshot | None) -> Outcome | None:
        """One run: new, from its newest checkpoint, or what is `left` of it in memory."""
        study, comm, folder = self.study, self.study.comm, self.folders[name]
        tell = say if comm.process == 0 else lambda text: None
        with nullcontext() if folder == self.out else self._held(folder):
            start = left
            if left is not None:
                start = with_record(left, folder, comm)
            elif self.again:
                if on_first(comm, lambda: is_finished(folder, study.steps)):
                    tell(f"{name}: finished already")
                    return None
                start = take_up(folder, study, tell)
                on_first(comm, lambda: check_going_on(folder, start, study.steps))
            if start is None:
                study = from_the_start(study)
            elif left is None:
                study = as_then(study, start)
            if self.again or left is not None:
                tell(f"{name}: goes on at step {start.step if start else 0} of {study.steps}")
            return self._recorded(study, name, start, tell, gap=left is not None)

    def _recorded(
        self,
        study: Study,
        name: str,
        start: Snapshot | None,
        tell: Callable[[str], None],
        *,
        gap: bool,
    ) -> Outcome:
        """Train with a record, whose trace may have a `gap` of steps that nobody can tell of."""
        path, more = self.folders[name], columns(name)
        with Record(study, name, path, start, again=self.again, columns=more) as record:
            self.records.append(record)
            if gap and start is not None:
                record.fill(start.step)
            try:
                return self._loop(study, name, record, start, tell)
            except LostProcessError as lost:
                raise self._survived(study, name, lost) from lost

    def _loop(
        self,
        study: Study,
        name: str,
        record: Record,
        start: Snapshot | None,
        tell: Callable[[str], None],
    ) -> Outcome:
        keep = None
        if study.config.reliability.checkpoint_keep:
            keep = Checkpoints(study, record, self.folders[name], start, tell)
        outcome = run_loop(
            study,
            name,
            hurry=lambda: bool(self.stop.requested),
            record=record.rows,
            position=self.position,
            talk=self.stop.agreed,
            start=start,
            keep=keep,
        )
        record.close(outcome)
        if keep is not None:
            keep.close()
        return outcome

    def _survived(self, study: Study, name: str, lost: LostProcessError) -> BaseException:
        """`lost` with how the others go on, or else the error that it began with."""
        comm = study.comm.survivors()
        cause = lost.__cause__ or lost
        if comm is None:
            return cause
        try:
            lost.study, lost.start = remaining(study, lost.snapshot, comm)
        except UserError as error:
            cause.add_note(f"the learners that are left cannot go on by themselves: {error}")
            return cause
        lost.name, lost.requested = name, self.stop.requested
        lost.out, lost.records = self.out, self.records
        return lost


def with_record(left: Snapshot, folder: Path, comm: Communicator) -> Snapshot:
    """What is left of a run, told how many rows of its trace there are."""
    rows = on_first(comm, lambda: trace.load(folder).num_rows)
    # What is in memory knows of no attempt to write it; one more than a job's that was not resumed.
    return replace(left, facts={**left.facts, "trace_rows": rows, "attempt": 1})


def say(text: str) -> None:
    """Print a line for the user."""
    print(text, file=sys.stderr, flush=True)


def introduction(study: Study, names: tuple[str, ...], out: Path) -> str:
    """What is about to run, and where it will be found."""
    comm, config = study.comm, study.config
    return (
        f"{', then '.join(names)}: {comm.n} learners on {comm.processes} "
        f"process{'es' if comm.processes > 1 else ''}, {config.gossip.topology}, "
        f"{study.dataset.name} ({study.dataset.source}), {study.steps} steps -> {out}"
    )


def new_folder(out: Path | None) -> Path:
    """`out`, or runs/TIME, made for this run.

    Raises:
        UserError: it exists already, or cannot be made or written to.
    """
    return run_folder.create(out or free_folder())


def is_finished(folder: Path, steps: int) -> bool:
    """Whether the run in `folder` has come to its end, and was to have so many steps at most."""
    summary = run_folder.read_summary(folder)
    ended = summary.get("verdict") in FINAL and "failure" not in summary
    return ended and summary.get("steps_planned") == steps


def check_going_on(folder: Path, start: Snapshot | None, steps: int) -> None:
    """Refuse to go on where that would lose something.

    Raises:
        UserError: the run is finished but has no checkpoint, or is further than it is to go.
    """
    if start is not None and start.step > steps:
        raise UserError(f"{folder} is at step {start.step} already, beyond --steps {steps}")
    if start is None and run_folder.read_summary(folder).get("verdict") in FINAL:
        raise UserError(
            f"{folder} is finished and has no checkpoint to go on from: begin a new run"
        )


def show(folders: Mapping[str, Path]) -> None:
    """The closing table on the terminal, a picture of all runs and one in each run's folder."""
    done = [folder for folder in folders.values() if (folder / run_folder.TRACE).exists()]
    if not done:
        where = " and ".join(map(str, folders.values()))
        raise UserError(f"{where} was removed while the run went on: what it recorded is lost")
    report.report(done)
    if len(done) > 1:
        for folder in done:
            report.report([folder], console=Console(quiet=True))
    if skipped := [name for name, folder in folders.items() if folder not in done]:
        print(f"not run: {', '.join(skipped)}")
