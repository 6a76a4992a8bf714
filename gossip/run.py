"""The command: `python -m gossip.run`, alone or under mpirun."""

import itertools
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, TypeVar

import tyro
from rich.console import Console

from gossip import folder as run_folder
from gossip import report
from gossip.comm.base import Communicator
from gossip.comm.failure import Position, ending_the_job
from gossip.comm.start import NoMPIError, choose, speaks
from gossip.comm.stop import Stop
from gossip.comm.together import agree, together
from gossip.config import Config, to_tables
from gossip.errors import UserError
from gossip.identity import differences, fingerprints
from gossip.keeping import Checkpoints, take_up
from gossip.lock import locked
from gossip.loops import check, columns, run_loop
from gossip.outcome import Outcome
from gossip.presets import PRESETS, starting_point
from gossip.record import Record
from gossip.study import Study, prepare
from gossip.sweep import FINAL

T = TypeVar("T")

STACKS = "stacks.txt"
"""In the run folder: what all processes were doing when a message was overdue."""


@dataclass(frozen=True, kw_only=True)
class Command:
    """Train one model on n learners that average with their neighbours.

    With no option: the default study on MNIST, DPSGD on a ring of 16 learners, then SSGD on the
    same batches. Under mpirun each process hosts its share of the learners; alone, all of them.
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
    records: list[Record] = []

    def last_words() -> None:
        for record in records[-1:]:
            record.last_words()

    def stacks() -> Path | None:
        return next((record.path / STACKS for record in records[-1:]), None)

    try:
        command = together(lambda: parse(sys.argv[1:] if argv is None else argv))
        gossip_options = command.options.gossip
        make = together(lambda: choose(gossip_options.backend, gossip_options.learners))
        comm, position = make(), Position()
        timeout = command.options.reliability.timeout
        guard = ending_the_job(
            comm, position, last_words=last_words, timeout=timeout, stacks=stacks
        )
        with guard as stop:
            run(command, comm, position, stop, records)
    except UserError as error:
        if speaks() or isinstance(error, NoMPIError):
            print(f"gossip.run: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:  # before the run listens to it, or the second Ctrl-C
        print("gossip.run: ended at once by Ctrl-C", file=sys.stderr)
        return 130
    return stop.exit_code


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


def run(
    command: Command, comm: Communicator, position: Position, stop: Stop, records: list[Record]
) -> None:
    """Train with each algorithm in turn; process 0 keeps the records and draws the picture.

    Raises:
        UserError: the data, the topology or the run folder does not fit; on all processes. Also
            where a gradient was not finite and that is to be an error: the run folder is closed.
    """
    config = command.options
    study = prepare(config, comm)
    agree(comm, fingerprints(study))
    for name in config.algorithm:
        check(study, name)
    out = Path(on_first(comm, lambda: str(command.resume or new_folder(command.out))))
    folders = {name: out if len(config.algorithm) == 1 else out / name for name in config.algorithm}
    with ExitStack() as held:
        on_first(comm, lambda: held.enter_context(locked(out, say)))
        if comm.process == 0:
            if len(folders) > 1:
                run_folder.write_config(out, to_tables(config))
            say(introduction(study, out))
            for warning in study.warnings:
                say(f"gossip.run: note: {warning}")
        outcome = None
        for name, folder in folders.items():
            again = command.resume is not None
            outcome = run_one(study, name, folder, position, stop, records, again=again)
            if outcome is not None and (outcome.interrupted or outcome.failure):
                break
        if comm.process == 0:
            show(folders)
            if outcome is not None and outcome.interrupted and config.reliability.checkpoint_keep:
                say(f"go on with: python -m gossip.run --resume {out}")
    if outcome is not None and outcome.failure:
        raise UserError(outcome.failure)


def run_one(
    study: Study,
    name: str,
    folder: Path,
    position: Position,
    stop: Stop,
    records: list[Record],
    *,
    again: bool,
) -> Outcome | None:
    """Train with one algorithm, `again` from the newest checkpoint in `folder` if there is one.

    Returns:
        None: the run is finished already.
    """
    comm = study.comm
    tell = say if comm.process == 0 else lambda text: None
    if again and on_first(comm, lambda: is_finished(folder, study.steps)):
        tell(f"{name}: finished already")
        return None
    start = take_up(folder, study, tell) if again else None
    if again:
        tell(f"{name}: goes on at step {start.step if start else 0} of {study.steps}")
    with Record(study, name, folder, start, again=again, columns=columns(name)) as record:
        records.append(record)
        keep = None
        if study.config.reliability.checkpoint_keep:
            keep = Checkpoints(study, record, folder, start, tell)
        outcome = run_loop(
            study,
            name,
            hurry=lambda: bool(stop.requested),
            record=record.rows,
            position=position,
            talk=stop.agreed,
            start=start,
            keep=keep,
        )
        record.close(outcome)
        if keep is not None:
            keep.close()
    return outcome


def say(text: str) -> None:
    """Print a line for the user."""
    print(text, file=sys.stderr, flush=True)


def introduction(study: Study, out: Path) -> str:
    """What is about to run, and where it will be found."""
    comm, config = study.comm, study.config
    return (
        f"{', then '.join(config.algorithm)}: {comm.n} learners on {comm.processes} "
        f"process{'es' if comm.processes > 1 else ''}, {config.gossip.topology}, "
        f"{study.dataset.name} ({study.dataset.source}), {study.steps} steps -> {out}"
    )


def new_folder(out: Path | None) -> Path:
    """`out`, or runs/TIME, made for this run.

    Raises:
        UserError: it exists already, or cannot be made or written to.
    """
    if out is None:
        out = Path("runs") / time.strftime("%Y%m%d-%H%M%S")
        same_second = (out.with_name(f"{out.name}-{k}") for k in itertools.count(2))
        while out.exists():
            out = next(same_second)
    return run_folder.create(out)


def is_finished(folder: Path, steps: int) -> bool:
    """Whether the run in `folder` has come to its end, and was to have so many steps at most."""
    summary = run_folder.read_summary(folder)
    return summary.get("verdict") in FINAL and summary.get("steps_planned") == steps


def on_first(comm: Communicator, function: Callable[[], T]) -> T:
    """The result of `function`, called on process 0 alone; its mistake is raised everywhere."""
    result = mistake = None
    if comm.process == 0:
        try:
            result = function()
        except UserError as error:
            mistake = str(error)
    result, mistake = comm.share((result, mistake))[0]
    if mistake is not None:
        raise UserError(mistake)
    return result


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


if __name__ == "__main__":
    sys.exit(main())
