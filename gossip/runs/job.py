"""The runs of one command: each algorithm in turn, in a folder of its own, from where it was."""

import math
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path

from rich.console import Console

from gossip import report, trace
from gossip.checkpoint import Snapshot
from gossip.comm.base import Communicator
from gossip.comm.shutdown.position import Position
from gossip.comm.shutdown.stop import Stop
from gossip.comm.startup.inherited import say
from gossip.comm.startup.together import on_first
from gossip.config import to_tables
from gossip.config.places import keep_copy
from gossip.errors import UserError
from gossip.loop.outcome import Outcome
from gossip.loop.survivors import LostProcessError, Remaining, as_then, from_the_start, remaining
from gossip.runs.checkpoints import take_up
from gossip.runs.recorded import train_recorded
from gossip.runs.recorder import Recorder
from gossip.storage import folder as run_folder
from gossip.storage.glance import free_folder
from gossip.storage.lock import locked
from gossip.storage.names import FINAL
from gossip.study import Study


@dataclass(frozen=True, kw_only=True)
class Job:
    """The runs of one command, as every process knows them."""

    study: Study
    out: Path
    """Folder of the one run, or of one folder for each."""
    names: tuple[str, ...]
    """The algorithms, in their order."""
    again: bool
    """Whether runs go on that are in the folder already."""
    recorders: list[Recorder] = field(default_factory=list)
    """Gets the recorder of each run when it begins."""

    @property
    def folders(self) -> dict[str, Path]:
        """Algorithm -> folder of its run."""
        single = len(self.names) == 1
        return {name: self.out if single else self.out / name for name in self.names}

    def train(
        self, stop: Stop, position: Position, left: Remaining | None = None
    ) -> Outcome | None:
        """Train with each algorithm in turn; process 0 writes the records and draws the picture.

        Args:
            stop: the requests to stop.
            position: kept up to date for the message of a process that fails.
            left: how the learners that are left take up a run, if some have been lost in it.

        Returns:
            The last run's outcome; None if it was finished before.

        Raises:
            UserError: a folder is in use, or a checkpoint not of this run.
            Remaining: a process was lost; how the others go on.
        """
        outcome = None
        with self._locked(self.out):
            on_first(self.study.comm, self._introduce)
            for name in self.names if left is None else self.names[self.names.index(left.name) :]:
                folder, taken = self.folders[name], left if left and name == left.name else None
                with nullcontext() if folder == self.out else self._locked(folder):
                    begun = self._begun(name, taken)
                    if begun is None:
                        outcome = None
                        continue
                    study, start = begun
                    try:
                        outcome = train_recorded(
                            study,
                            name,
                            folder,
                            start=start,
                            again=self.again,
                            gap=taken is not None,
                            position=position,
                            agreement=stop,
                            recorders=self.recorders.append,
                            say=self._say,
                        )
                    except LostProcessError as lost:
                        raise remaining(name, lost, stop.requested) from lost
                if outcome.interrupted or outcome.failure:
                    break
            if self.study.comm.process == 0:
                show(self.folders)
                self._tell_how_to_go_on(outcome)
        return outcome

    def _begun(self, name: str, left: Remaining | None) -> tuple[Study, Snapshot | None] | None:
        """Study and start of a run: new, from its newest checkpoint, or of the learners `left`.

        Returns:
            None: the run is finished already.
        """
        study, comm, folder = self.study, self.study.comm, self.folders[name]
        start = None
        if left is not None:
            start = with_record(left.start, folder, comm)
        elif self.again:
            if on_first(comm, lambda: has_ended(folder, study.steps)):
                self._say(f"{name}: finished already")
                return None
            start = take_up(folder, study, self._say)
            # How many steps a damper that looks at losses will make, nobody knows.
            steps = math.inf if study.damper and study.damper.observes else study.steps
            on_first(comm, lambda: check_going_on(folder, start, steps))
        if start is None:
            study = from_the_start(study)
        elif left is None:
            study = as_then(study, start)
        if self.again or left is not None:
            self._say(f"{name}: goes on at step {start.step if start else 0} of {study.steps}")
        return study, start

    @contextmanager
    def _locked(self, folder: Path) -> Iterator[None]:
        """In this block process 0 holds the lock on a folder, which may have to be made."""
        with ExitStack() as held:

            def take() -> None:
                run_folder.make(folder)
                held.enter_context(locked(folder, say))

            on_first(self.study.comm, take)
            yield

    def _introduce(self) -> None:
        """Say what is about to run; on process 0."""
        if len(self.names) > 1:
            run_folder.write_config(self.out, to_tables(self.study.config))
            keep_copy(self.study.config, self.out)
        say(introduction(self.study, self.names, self.out))

    def _tell_how_to_go_on(self, outcome: Outcome | None) -> None:
        if outcome and outcome.interrupted and self.study.config.reliability.checkpoint_keep:
            say(f"go on with: python -m gossip.run --resume {self.out}")

    def _say(self, text: str) -> None:
        """Print a line for the user, once."""
        if self.study.comm.process == 0:
            say(text)


def with_record(left: Snapshot, folder: Path, comm: Communicator) -> Snapshot:
    """What is left of a run, told how many rows of its trace there are."""
    rows = on_first(comm, lambda: trace.load(folder).num_rows)
    # What is in memory knows of no attempt to write it; one more than a job's that was not resumed.
    return replace(left, facts={**left.facts, "trace_rows": rows, "attempt": 1})


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


def has_ended(folder: Path, steps: int) -> bool:
    """Whether the run in `folder` has come to its end, and was to have so many steps at most."""
    summary = run_folder.read_summary(folder)
    ended = summary.get("verdict") in FINAL and "failure" not in summary
    return ended and summary.get("steps_planned") == steps


def check_going_on(folder: Path, start: Snapshot | None, steps: float) -> None:
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
    """The closing table on the terminal, a picture of all runs and one in each run's folder.

    Raises:
        UserError: all folders were removed meanwhile.
    """
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
