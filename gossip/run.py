"""The command: `python -m gossip.run`, alone or under mpirun, torchrun or srun."""

import sys
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated

import tyro

from gossip.comm.base import Communicator
from gossip.comm.compressing import compressing
from gossip.comm.connect import MakeCommunicator, choose_backend
from gossip.comm.shutdown.failure import ending_the_job
from gossip.comm.shutdown.position import Position
from gossip.comm.startup.environment import CutOffError, check_ours, exit_at_once, speaks
from gossip.comm.startup.inherited import say
from gossip.comm.startup.together import agree, on_first, together
from gossip.compress import wire
from gossip.config import WIRES, Config
from gossip.config.places import absolute
from gossip.config.presets import PRESETS, starting_point
from gossip.errors import UserError
from gossip.loop.survivors import Remaining
from gossip.malloc import keep_memory
from gossip.runs.dispatch import check_parts
from gossip.runs.identity import differences, fingerprints
from gossip.runs.job import Job, new_folder
from gossip.runs.recorder import Recorder
from gossip.storage.glance import learners_left
from gossip.study import Study, prepare
from gossip.task.device import place
from topologies.terminal import lossy_output

STACKS = "stacks.txt"
"""In the run folder: what all processes were doing when a message was overdue."""


@dataclass(frozen=True, kw_only=True)
class Command:
    """Train one model on n learners that average with their neighbours.

    With no option: the default study on MNIST, DPSGD on a ring of 16 learners, then SSGD on the
    same batches. Under mpirun or torchrun each process hosts its share of the learners; alone, all.
    """

    config: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """TOML file with any of the options below; flags on the command line win."""
    preset: Annotated[str | None, tyro.conf.arg(metavar="|".join(PRESETS))] = None
    """A paper's method or recipe, laid over the config file and under the flags."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="FOLDER")] = None
    """Run folder; with several algorithms, one folder in it for each (default: runs/TIME)."""
    resume: Annotated[Path | None, tyro.conf.arg(metavar="FOLDER")] = None
    """Go on with the run in this folder from its newest checkpoint, on as many processes as there
    are now; it keeps its options, of which only --steps and the like can be changed."""
    options: Annotated[Config, tyro.conf.arg(name="")] = field(default_factory=Config)


@lossy_output()
def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; gives the exit code.

    0 done (also where a run diverged), 2 a user's mistake, 130 after Ctrl-C, 143 after SIGTERM.
    """
    with Ending() as ending:
        check_ours()
        command = together(lambda: parse(sys.argv[1:] if argv is None else argv))
        make = together(lambda: chosen(command))
        ending.code = run(command, make(), ending)
    return ending.code


def run(command: Command, comm: Communicator, ending: "Ending") -> int:
    """Train, and go on with the learners that are left each time some are lost; the exit code.

    Raises:
        UserError: the data, the topology or the run folder does not fit; on all processes. Also
            where a gradient was not finite and that is to be an error: the run folder is closed.
    """
    recorders: list[Recorder] = []
    job: Job | None = None
    left: Remaining | None = None

    def last_words() -> None:
        for recorder in recorders[-1:]:
            recorder.last_words()

    def stacks() -> Path | None:
        return next((recorder.path / STACKS for recorder in recorders[-1:]), None)

    while True:
        position, timeout = Position(), command.options.reliability.timeout
        guard = ending_the_job(
            comm, position, last_words=last_words, timeout=timeout, stacks=stacks
        )
        try:
            with guard as stop:
                if left is not None:
                    stop.requested = stop.requested or left.requested
                job = begun(command, comm, recorders) if job is None else job
                outcome = job.train(stop, position, left)
                if outcome is not None and outcome.failure:
                    raise UserError(outcome.failure[1])
        except Remaining as remaining:
            left, comm = remaining, remaining.study.comm
            job = replace(job, study=left.study, again=True) if job else None
            ending.survivors(speaks=comm.process == 0)
        else:
            return stop.exit_code


class Ending:
    """How this process ends: a mistake or Ctrl-C is one line, said once, and an exit code.

    A process that has survived others leaves at once, whatever comes: the end of MPI would wait
    for those that are lost.
    """

    code = 0
    _speaks: bool | None = None

    def survivors(self, *, speaks: bool) -> None:
        """Processes have been lost; of those that are left this one `speaks`, or another."""
        self._speaks = speaks

    def __enter__(self) -> "Ending":
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        known = self._say(error)
        if self._speaks is not None:
            if error is not None and not known:
                traceback.print_exception(error)
                self.code = 1
            exit_at_once(self.code)
        return known

    def _say(self, error: BaseException | None) -> bool:
        """Whether `error` is one for which a line is enough."""
        if isinstance(error, UserError):
            self.code = 2
            first = speaks() if self._speaks is None else self._speaks
            if first or isinstance(error, CutOffError):
                print(f"gossip.run: {error}", file=sys.stderr)
        elif isinstance(error, KeyboardInterrupt):  # before the run listens, or the second Ctrl-C
            self.code = 130
            print("gossip.run: ended at once by Ctrl-C", file=sys.stderr)
        else:
            return False
        return True


def chosen(command: Command) -> MakeCommunicator:
    """What makes the communicator that the options ask for."""
    gossip, device = command.options.gossip, place(command.options.compute.device)
    make = choose_backend(gossip.backend, learners(command), str(device), WIRES.get(gossip.wire))
    return make if gossip.wire in WIRES else lambda: compressing(make(), wire(gossip.wire))


def learners(command: Command) -> int:
    """How many there are: those of the run that is resumed, if it has lost some."""
    left = None if command.resume is None else learners_left(command.resume)
    return left or command.options.gossip.learners


def parse(argv: Sequence[str]) -> Command:
    """The command line over the preset over the config file, if they are named, over the defaults.

    Raises:
        UserError: something in it cannot be run.
        SystemExit: --help, or an option that does not exist.
    """
    path, preset, then = starting_point(argv)
    command = tyro.cli(
        Command,
        args=argv,
        default=Command(config=path, preset=preset, options=then),
        prog="python -m gossip.run",
        config=(tyro.conf.OmitArgPrefixes,),
    )
    if command.resume is not None:
        check_resumable(command, then)
    return replace(command, options=absolute(command.options))


def check_resumable(command: Command, then: Config) -> None:
    """Refuse to go on with a run as another one.

    Raises:
        UserError: options that would make it one; the message names them.
    """
    if command.out or command.config or command.preset:
        raise UserError("--resume goes on with a run as it is: no --out, --config or --preset")
    if changed := differences(then, command.options):
        raise UserError(
            f"--resume {command.resume}: the run was begun with other options, "
            f"{'; '.join(changed)}; begin a new run for that"
        )


def begun(command: Command, comm: Communicator, recorders: list[Recorder]) -> Job:
    """The job of all processes; collective.

    Raises:
        UserError: the data, the topology or the run folder does not fit; on all processes.
    """
    study = prepared(command, comm)
    out = Path(on_first(comm, lambda: str(command.resume or new_folder(command.out))))
    return Job(
        study=study,
        out=out,
        names=command.options.algorithm,
        again=command.resume is not None,
        recorders=recorders,
    )


def prepared(command: Command, comm: Communicator) -> Study:
    """What the runs share, checked and the same on all processes; collective."""
    study = prepare(command.options, comm)
    agree(comm, fingerprints(study))
    for name in command.options.algorithm:
        check_parts(study, name)
    if comm.process == 0:
        for warning in study.warnings:
            say(f"gossip.run: note: {warning}")
    return study


if __name__ == "__main__":
    keep_memory()  # of this program: others who call `main` decide for themselves
    sys.exit(main())
