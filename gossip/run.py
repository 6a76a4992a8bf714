"""The command: `python -m gossip.run`, alone or under mpirun."""

import hashlib
import itertools
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, TypeVar

import tyro
from rich.console import Console

import gossip
import topologies
from gossip import folder as run_folder
from gossip import report
from gossip.comm.base import Communicator
from gossip.comm.failure import Position, ending_the_job
from gossip.comm.start import NoMPIError, choose, speaks
from gossip.comm.stop import Stop
from gossip.comm.together import agree, together
from gossip.config import Config, to_tables
from gossip.errors import UserError
from gossip.presets import PRESETS, starting_point
from gossip.record import Record
from gossip.study import Study, algorithm, prepare
from gossip.train import train

T = TypeVar("T")


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
    options: Annotated[Config, tyro.conf.arg(name="")] = field(default_factory=Config)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; gives the exit code.

    0 done (also where a run diverged), 2 a user's mistake, 130 after Ctrl-C, 143 after SIGTERM.
    """
    records: list[Record] = []

    def last_words() -> None:
        for record in records[-1:]:
            record.last_words()

    try:
        command = together(lambda: parse(sys.argv[1:] if argv is None else argv))
        gossip_options = command.options.gossip
        make = together(lambda: choose(gossip_options.backend, gossip_options.learners))
        comm, position = make(), Position()
        with ending_the_job(comm, position, last_words=last_words) as stop:
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
    return tyro.cli(
        Command,
        args=argv,
        default=default,
        prog="python -m gossip.run",
        config=(tyro.conf.OmitArgPrefixes,),
    )


def run(
    command: Command, comm: Communicator, position: Position, stop: Stop, records: list[Record]
) -> None:
    """Train with each algorithm in turn; process 0 keeps the records and draws the picture.

    Raises:
        UserError: the data, the topology or the run folder does not fit; on all processes.
    """
    config = command.options
    study = prepare(config, comm)
    agree(comm, fingerprints(study))
    algorithms = {name: algorithm(name, study) for name in config.algorithm}
    out = Path(on_first(comm, lambda: str(new_folder(command.out))))
    folders = {name: out if len(algorithms) == 1 else out / name for name in algorithms}
    if comm.process == 0:
        print(introduction(study, out), file=sys.stderr, flush=True)
        for warning in study.warnings:
            print(f"gossip.run: note: {warning}", file=sys.stderr, flush=True)
    for name, folder in folders.items():
        with Record(study, name, folder) as record:
            records.append(record)
            outcome = train(
                study,
                algorithms[name],
                record=record.rows,
                position=position,
                stop=stop.agreed,
            )
            record.close(outcome)
        if outcome.interrupted:
            break
    if comm.process == 0:
        show(folders)


def fingerprints(study: Study) -> dict[str, str]:
    """What must be the same on all processes, as short texts to compare."""
    w = [study.topology.matrix(t) for t in range(min(study.topology.period or 3, 16))]
    package = Path(gossip.__file__).parent
    sources = sorted([*package.rglob("*.py"), *Path(topologies.__file__).parent.rglob("*.py")])
    return {
        "config": _digest(json.dumps(to_tables(study.config), sort_keys=True).encode()),
        "topology": _digest(*(m.indices.tobytes() + m.data.tobytes() for m in w)),
        "dataset": study.dataset.sha256,
        "start": _digest(study.task.init(study.config.seed).numpy().tobytes()),
        "code": _digest(*(source.read_bytes() for source in sources)),
    }


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
    report.report(done)
    if len(done) > 1:
        for folder in done:
            report.report([folder], console=Console(quiet=True))
    if skipped := [name for name, folder in folders.items() if folder not in done]:
        print(f"not run: {', '.join(skipped)}")


def _digest(*parts: bytes) -> str:
    return hashlib.sha256(b"".join(parts)).hexdigest()[:16]


if __name__ == "__main__":
    sys.exit(main())
