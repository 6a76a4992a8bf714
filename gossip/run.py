"""The command: `python -m gossip.run`, alone or under mpirun, torchrun or srun."""

import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro

from gossip.comm.base import Communicator
from gossip.comm.connect import Make, choose
from gossip.comm.shutdown.failure import Position, ending_the_job
from gossip.comm.shutdown.stop import Stop
from gossip.comm.startup.environment import CutOffError, leave, speaks
from gossip.comm.startup.together import agree, on_first, together
from gossip.config import WIRES, Config
from gossip.config.presets import PRESETS, starting_point
from gossip.errors import UserError
from gossip.loop.survivors import LostProcessError
from gossip.malloc import keep_memory
from gossip.runs.dispatch import check
from gossip.runs.identity import differences, fingerprints
from gossip.runs.job import Job, new_folder, say
from gossip.runs.recorder import Record
from gossip.storage.glance import learners_left
from gossip.study import Study, prepare
from gossip.task.device import place

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


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; gives the exit code.

    0 done (also where a run diverged), 2 a user's mistake, 130 after Ctrl-C, 143 after SIGTERM.
    """

    def start() -> int:
        command = together(lambda: parse(sys.argv[1:] if argv is None else argv))
        make = together(lambda: chosen(command))
        return run(command, make())

    return told(start)


def chosen(command: Command) -> Make:
    """What makes the communicator that the options ask for."""
    gossip, device = command.options.gossip, place(command.options.compute.device)
    return choose(gossip.backend, learners(command), str(device), WIRES[gossip.wire])


def learners(command: Command) -> int:
    """How many there are: those of the run that is resumed, if it has lost some."""
    left = None if command.resume is None else learners_left(command.resume)
    return left or command.options.gossip.learners


def told(command: Callable[[], int], *, first: bool | None = None) -> int:
    """The exit code of `command`; the `first` process says a mistake or Ctrl-C in one line."""
    try:
        return command()
    except UserError as error:
        if (speaks() if first is None else first) or isinstance(error, CutOffError):
            print(f"gossip.run: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:  # before the run listens to it, or the second Ctrl-C
        print("gossip.run: ended at once by Ctrl-C", file=sys.stderr)
        return 130


def run(command: Command, comm: Communicator, left: LostProcessError | None = None) -> int:
    """Train, and again with the learners that are left each time some are lost; the exit code.

    Raises:
        UserError: the data, the topology or the run folder does not fit; on all processes. Also
            where a gradient was not finite and that is to be an error: the run folder is closed.
    """
    records: list[Record] = [] if left is None else left.records

    def last_words() -> None:
        for record in records[-1:]:
            record.last_words()

    def stacks() -> Path | None:
        return next((record.path / STACKS for record in records[-1:]), None)

    position, timeout = Position(), command.options.reliability.timeout
    guard = ending_the_job(comm, position, last_words=last_words, timeout=timeout, stacks=stacks)
    try:
        with guard as stop:
            if left is not None:
                stop.requested = stop.requested or left.requested
            job = begun(command, comm, position, stop, records, left)
            outcome = job.run(left)
            if outcome is not None and outcome.failure:
                raise UserError(outcome.failure[1])
    except LostProcessError as lost:
        leave(gone_on(command, lost))
    return stop.exit_code


def gone_on(command: Command, left: LostProcessError) -> int:
    """The exit code of a job that goes on with the learners that are left, whatever comes."""
    comm = left.study.comm
    try:
        return told(lambda: run(command, comm, left), first=comm.process == 0)
    except Exception:
        traceback.print_exc()
        return 1


def parse(argv: Sequence[str]) -> Command:
    """The command line over the preset over the config file, if they are named, over the defaults.

    Raises:
        UserError: something in it cannot be run.
        SystemExit: --help, or an option that does not exist.
    """
    path, preset, options = starting_point(argv)
    default = Command(config=path, preset=preset, options=options)
    command = tyro.cli(
        Command,
        args=argv,
        default=default,
        prog="python -m gossip.run",
        config=(tyro.conf.OmitArgPrefixes,),
    )
    if command.resume is not None:
        check_resumable(command, options)
    return command


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


def begun(
    command: Command,
    comm: Communicator,
    position: Position,
    stop: Stop,
    records: list[Record],
    left: LostProcessError | None,
) -> Job:
    """The job of all processes, or of those that are left; collective.

    Raises:
        UserError: the data, the topology or the run folder does not fit; on all processes.
    """
    if left is not None:
        study, out = left.study, left.out
    else:
        study = prepared(command, comm)
        out = Path(on_first(comm, lambda: str(command.resume or new_folder(command.out))))
    return Job(
        study=study,
        out=out,
        names=command.options.algorithm,
        again=left is not None or command.resume is not None,
        position=position,
        stop=stop,
        records=records,
    )


def prepared(command: Command, comm: Communicator) -> Study:
    """What the runs share, checked and the same on all processes; collective."""
    study = prepare(command.options, comm)
    agree(comm, fingerprints(study))
    for name in command.options.algorithm:
        check(study, name)
    if comm.process == 0:
        for warning in study.warnings:
            say(f"gossip.run: note: {warning}")
    return study


if __name__ == "__main__":
    keep_memory()  # of this program: others who call `main` decide for themselves
    sys.exit(main())
