"""The command `python -m gossip.simulate`."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from itertools import groupby
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

from gossip import algorithms
from gossip.algorithms import ORDERS
from gossip.comm.startup.environment import speaks
from gossip.config import Averaging, Config
from gossip.config.fields import at_least, names
from gossip.config.reliability import Reliability
from gossip.errors import UserError, one_of
from gossip.report.runs import load_runs, test_error
from gossip.simulate import phase_picture, presets, show
from gossip.simulate.collectives import ALL_REDUCES
from gossip.simulate.coupling import by_target, couple, reachable
from gossip.simulate.coupling import sentence as sentence_of_runs
from gossip.simulate.idle import idle
from gossip.simulate.outlook import Question, answers, by_step, choices, sentence
from gossip.simulate.overlap import Overlap
from gossip.simulate.phase_diagram import Grid, diagram
from gossip.simulate.phase_diagram import sentence as who_wins
from gossip.simulate.scenario import Machines
from gossip.stragglers import STRAGGLERS
from topologies.terminal import lossy_output

_WIDTH_OF_A_FILE = 140
_File = Annotated[Path | None, tyro.conf.arg(metavar="FILE")]
SCALINGS = ("weak", "strong")
BESIDE_FIT = ("fit", "runs", "all_reduce")
"""Options that have a meaning together with `--fit`."""
DEFAULT_COMPUTE = 0.1
"""Seconds of a gradient."""


@dataclass(frozen=True, kw_only=True)
class Command:
    """How long a step takes on a network that one may not have: all-reduce or gossip, which graph?

    Nothing is trained. What a step sends is what the algorithm says of itself, stragglers are the
    draws of gossip.run, and the network is a model: latency, bandwidth, who shares an interface.
    """

    runs: Annotated[
        tuple[Path, ...],
        tyro.conf.Positional,
        tyro.conf.arg(metavar="RUN...", help_behavior_hint=""),
    ] = ()
    """Recorded runs: their loss and error over simulated seconds, with their own learners,
    algorithms, graphs and gradient times. Without any, choices are compared by seconds a step."""
    target: Annotated[float | None, tyro.conf.arg(metavar="ERROR")] = None
    """Of runs: the test error to come to (default: the lowest that all of them came to)."""
    learners: tuple[int, ...] = (8,)
    """Numbers of learners n."""
    algorithm: Annotated[tuple[str, ...], names(algorithms.NAMES)] = ("ssgd", "dpsgd")
    """Those with an all-reduce are shown with each --all-reduce, the others on each --topology."""
    topology: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME|FILE")] = (
        "ring",
        "one-peer-exponential",
        "exponential",
    )
    """Graphs; `python -m topologies` lists what there is."""
    topology_options: tuple[str, ...] = ()
    """Options of the topology as key=value."""
    order: Annotated[str, names(ORDERS)] = "awc"
    """Of dpsgd: awc sends while it computes, atc afterwards."""
    algorithm_options: tuple[str, ...] = ()
    """Options of the algorithms as key=value."""
    mix_every: int = 1
    """Average with the neighbours every H-th step only."""
    all_reduce: Annotated[tuple[str, ...], names(ALL_REDUCES)] = ("ring", "halving-doubling")
    """How an average over all learners is made."""
    network: Annotated[str, names(presets.PRESETS, own="FILE.toml")] = "10GbE"
    """A preset or a file."""
    serial: bool = False
    """Messages to several neighbours leave one after the other, not together."""
    between_hosts: bool = False
    """The learners of a host average and gossip with other hosts as one: --topology joins hosts."""
    overlap: float = 0.0
    """The share of the backward pass behind which an all-reduce of gradients can hide, 0 to 1."""
    overlap_norm: float = 1.0
    """Instead: gradient and all-reduce take (C^g + T^g)^(1/g) seconds with this g, 1 to 10."""
    parameters: float = 25.6e6
    """Of the model; 25.6 million: ResNet-50."""
    bytes_per_parameter: float = 4.0
    """2 for bf16 and fp16."""
    compute: Annotated[float | None, tyro.conf.arg(metavar="SECONDS")] = None
    """Seconds of one gradient without disturbance (default: 0.1; of runs: as measured)."""
    scaling: Annotated[str, names(SCALINGS)] = "weak"
    """weak: a learner's batch stays as it is; strong: the total, and a gradient takes compute/n."""
    straggler: Annotated[str, names(STRAGGLERS)] = "none"
    """How learners are slow, the same draws as in gossip.run."""
    straggler_options: tuple[str, ...] = ()
    """Its options as key=value."""
    slowness: tuple[float, ...] = ()
    """How much longer a gradient takes on each learner's machine."""
    step_times: Annotated[Path | None, tyro.conf.arg(metavar="RUN|FILE")] = None
    """Measured seconds instead of --compute and --straggler, from the beginning again when they
    run out: of a run that gossip.run --step-times made, or a table [steps, n] (.csv or .npy)."""
    fail_every: float = 0.0
    """Mean seconds between two failures of a learner (0: none fails)."""
    repair: float = 60.0
    """Seconds until a learner that failed is back."""
    phase_diagram: bool = False
    """Who is fastest over bandwidth and latency, in the place of those between --network's hosts:
    by seconds a step, or of runs by seconds to the target."""
    bandwidths: tuple[float, float] = (1e7, 1e13)
    """Of a phase diagram: least and largest, bits per second."""
    latencies: tuple[float, float] = (1e-6, 1e-1)
    """Of a phase diagram: least and largest, seconds."""
    points: int = 13
    """Of a phase diagram: bandwidths, and as many latencies, in equal ratios."""
    steps: int = 200
    """Steps that are simulated, or a few more: whole rounds and periods."""
    seed: int = 0
    """Of stragglers, jitter, failures and random graphs."""
    fit: _File = None
    """Fit latency and bandwidth to what was measured here, print how far the predictions are off,
    and write a network FILE.toml for --network: to the steps of the runs that are given, or,
    without any, to exchanges between the processes of
    `python -m gossip.launch -n 2 --module gossip.simulate --fit FILE.toml`."""
    csv: _File = None
    """Write the table into this file."""
    figure: _File = None
    """Draw seconds and efficiency, or the phase diagram, into this file (.png, .svg or .pdf)."""


@lossy_output()
def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; gives the exit code, 2 for a user's mistake."""
    try:
        run(parse(sys.argv[1:] if argv is None else argv))
    except UserError as error:
        if speaks():
            print(f"gossip.simulate: {error}", file=sys.stderr)
        return 2
    return 0


def parse(argv: Sequence[str]) -> Command:
    """The command line.

    Raises:
        SystemExit: --help, or an option that does not exist.
    """
    return tyro.cli(Command, args=argv, prog="python -m gossip.simulate")


def run(command: Command) -> None:
    """Print, draw and write.

    Raises:
        UserError: something in it cannot be simulated, or a file that cannot be written.
    """
    if not command.all_reduce:
        raise UserError(f"--all-reduce names none: give one or more of {', '.join(ALL_REDUCES)}")
    if command.fit is not None:
        from gossip.simulate.fitting import fit_to  # torch and MPI: for this alone

        _refuse_beside_fit(command)
        fit_to(command.runs, command.fit, all_reduce=command.all_reduce[0])
        return
    for note in idle(_given(command), command.algorithm):
        print(f"gossip.simulate: note: {note}", file=sys.stderr)
    if command.phase_diagram:
        _phases(command)
        return
    if command.runs:
        _couple(command)
        return
    asked = question(command)
    lines = answers(asked)
    console = _console()
    heading = _heading(command, asked)
    console.print(heading, markup=False, highlight=False, soft_wrap=True)
    console.print(show.table(lines))
    for _, group in groupby(lines, key=lambda line: line.learners):
        said = sentence(list(group), asked.machines.network.name)
        console.print(said, markup=False, highlight=False, soft_wrap=True)
    if command.csv is not None:
        show.write_csv(lines, command.csv)
        _wrote(console, command.csv)
    if command.figure is not None:
        show.draw(lines, f"{asked.machines.network.name}: {heading}", command.figure)
        _wrote(console, command.figure)


def _refuse_beside_fit(command: Command) -> None:
    given = [f"--{k.replace('_', '-')}" for k in _given(command) if k not in BESIDE_FIT]
    if given:
        raise UserError(
            f"--fit writes a network and simulates nothing else: leave {', '.join(given)} away, or "
            "give them to a second command with --network FILE.toml"
        )


def _given(command: Command) -> list[str]:
    """Names of the options that are not as by default."""
    return [f.name for f in fields(Command) if getattr(command, f.name) != f.default]


def _console() -> Console:
    return Console(width=None if sys.stdout.isatty() else _WIDTH_OF_A_FILE)


def _wrote(console: Console, path: Path) -> None:
    console.print(f"wrote {path}", markup=False, highlight=False, soft_wrap=True)


def _heading(command: Command, asked: Question) -> str:
    return (
        f"{asked.row_bytes / 1e6:.4g} MB a row, {asked.machines.seconds:g} s a gradient, "
        f"{command.scaling} scaling, straggler {command.straggler}, "
        f"{command.steps} steps or more, to whole cycles of messages"
    )


def _phases(command: Command) -> None:
    asked = question(command)
    grid = Grid(bandwidths=command.bandwidths, latencies=command.latencies, points=command.points)
    network = asked.machines.network
    if command.runs:
        runs, disturbance = load_runs(command.runs), asked.config.reliability
        target = reachable(runs) if command.target is None else command.target
        heading = f"to a {test_error(runs)} of {target:.2%}, straggler {command.straggler}"
        seconds = by_target(
            runs,
            target,
            asked.machines,
            disturbance,
            seconds=command.compute,
            all_reduces=command.all_reduce,
        )
        diagrams = {f"{len(runs)} runs": diagram(grid, network, seconds)}
    else:
        heading = _heading(command, asked)
        diagrams = {
            f"{n} learners": diagram(grid, network, by_step(asked, n)) for n in asked.learners
        }
    console = _console()
    console.print(heading, markup=False, highlight=False, soft_wrap=True)
    console.print(phase_picture.table(diagrams))
    for title, cells in diagrams.items():
        console.print(who_wins(cells, title), markup=False, highlight=False, soft_wrap=True)
    if command.csv is not None:
        phase_picture.write_csv(diagrams, command.csv)
        _wrote(console, command.csv)
    if command.figure is not None:
        phase_picture.draw(diagrams, heading, command.figure)
        _wrote(console, command.figure)


def _couple(command: Command) -> None:
    asked = question(command)
    disturbance, seconds, ways = asked.config.reliability, command.compute, command.all_reduce
    runs = load_runs(command.runs)
    coupled = [
        each
        for run in runs
        for each in couple(run, asked.machines, disturbance, seconds=seconds, all_reduces=ways)
    ]
    target = reachable(runs) if command.target is None else command.target
    console = _console()
    console.print(show.coupled_table(coupled, target))
    said = sentence_of_runs(coupled, target, asked.machines.network.name)
    console.print(said, markup=False, highlight=False, soft_wrap=True)
    if command.csv is not None:
        show.write_coupled(coupled, command.csv)
        _wrote(console, command.csv)
    if command.figure is not None:
        show.draw_coupled(coupled, asked.machines.network.name, command.figure)
        _wrote(console, command.figure)


def question(command: Command) -> Question:
    """What the command line asks.

    Raises:
        UserError: an option that cannot be.
    """
    at_least(1, steps=command.steps)
    one_of(SCALINGS, command.scaling, "scaling")
    for name in ("parameters", "bytes_per_parameter"):
        if not 0 < getattr(command, name) < float("inf"):
            raise UserError(f"{name}={getattr(command, name)}: give a number above 0")
    network = presets.network(command.network)
    machines = Machines(
        network=replace(network, serial=True) if command.serial else network,
        seconds=DEFAULT_COMPUTE if command.compute is None else command.compute,
        slowness=command.slowness,
        step_times=command.step_times,
        overlap=Overlap(command.overlap, command.overlap_norm),
        between_hosts=command.between_hosts,
        fail_every=command.fail_every,
        repair=command.repair,
    )
    config = Config(
        algorithm=command.algorithm,
        seed=command.seed,
        gossip=Averaging(
            topology_options=command.topology_options,
            order=command.order,
            algorithm_options=command.algorithm_options,
            mix_every=command.mix_every,
        ),
        reliability=Reliability(
            straggler=command.straggler, straggler_options=command.straggler_options
        ),
    )
    asked = Question(
        learners=command.learners,
        algorithms=command.algorithm,
        topologies=command.topology,
        all_reduces=command.all_reduce,
        config=config,
        machines=machines,
        row_bytes=command.parameters * command.bytes_per_parameter,
        steps=command.steps,
        strong=command.scaling == "strong",
    )
    if not any(choices(asked, n) for n in asked.learners):
        raise UserError("nothing to simulate: give --algorithm, --learners and --topology a value")
    return asked
