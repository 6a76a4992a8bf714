"""The command: `python -m gossip.compare`."""

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import msgspec
import tyro
from tyro.conf import Fixed, Suppress, arg

from gossip import algorithms, data
from gossip.compare import methods, result
from gossip.compare.comparison import Comparison
from gossip.compare.options import PLACES, SHARED
from gossip.config import (
    Averaging,
    Config,
    Monitoring,
    from_tables,
    load,
    presets,
    refuse_script,
    to_tables,
)
from gossip.config.places import absolute
from gossip.config.presets import PRESETS
from gossip.config.reliability import Reliability
from gossip.errors import UserError
from gossip.runs import sweep
from gossip.storage.tables import read_toml
from topologies.terminal import lossy_output

NAMES = "|".join((methods.SINGLE, *algorithms.NAMES, *PRESETS))

_OWN_OPTIONS = "they are a method's own; write it as diloco:algorithm_options=every=10"


@dataclass(frozen=True, kw_only=True)
class CommonGossip(Averaging):
    """Who averages with whom."""

    algorithm_options: Suppress[Fixed[tuple[str, ...]]] = ()
    learners: Suppress[Fixed[int]] = 1
    backend: Suppress[Fixed[str]] = "stacked"


@dataclass(frozen=True, kw_only=True)
class CommonReliability(Reliability):
    """What happens when something goes wrong; a run that does not come to its end is made again."""

    checkpoint_every: Suppress[Fixed[int]] = 0
    checkpoint_minutes: Suppress[Fixed[float]] = 10.0
    checkpoint_keep: Suppress[Fixed[int]] = 2
    on_failure: Suppress[Fixed[str]] = "stop"
    timeout: Suppress[Fixed[float]] = 600.0


@dataclass(frozen=True, kw_only=True)
class Common(Config):
    """What all methods share; those that a comparison sets itself are not offered."""

    algorithm: Suppress[Fixed[tuple[str, ...]]] = ("ssgd",)
    steps: Suppress[Fixed[int]] = 1500
    seed: Suppress[Fixed[int]] = 0
    epochs: Annotated[float | None, arg(metavar="FLOAT")] = 10.0
    """Passes over the training set, of every run."""
    gossip: CommonGossip = field(default_factory=CommonGossip)
    monitoring: Monitoring = field(default_factory=lambda: Monitoring(monitor="cheap"))
    reliability: CommonReliability = field(default_factory=CommonReliability)


@dataclass(frozen=True, kw_only=True)
class Command:
    """Compare methods on equal terms: the same samples, batches, seeds and number of tuning trials.

    A method is NAME or NAME:key=value,key=value, an option and a value of its own (a list has
    blanks between its parts). NAME is a preset; an algorithm, which takes learning rate, scaling,
    warm-up and decay as given below; or single: one learner, no scaling, no warm-up, which sets
    the target if --target does not.

    All options below hold for every method. A preset keeps what defines it (scaling, warm-up, its
    decay if it has one); its learning rate, momentum, weight decay and optimizer count only where
    the command line or the config file does not say them.

    The batch of a learner is fixed, so the total batch grows with n and the steps shrink: every
    run sees --epochs times the training set. The model is judged once per epoch, on the validation
    set where --validation holds one out. A stopped comparison goes on with the same command.
    """

    methods: Annotated[tuple[str, ...], arg(metavar=f"{NAMES}[:KEY=VALUE,...]")] = ()
    """What is compared, in the order of the table."""
    learners: tuple[int, ...] = (8, 16, 32)
    """Numbers of learners n; one learner for single."""
    seeds: tuple[int, ...] = (0, 1, 2)
    """Seeds of weights, batches and noise, the same for all methods."""
    tune: Annotated[tyro.conf.UseAppendAction[tuple[str, ...]], arg(metavar="KEY=V1,V2,...")] = ()
    """Try these values of an option for every method and every n, and keep the one with the lowest
    final validation error; a diverged trial loses. May be repeated: all combinations."""
    tune_seeds: tuple[int, ...] = ()
    """Seeds of the trials (default: the first of --seeds)."""
    target: Annotated[float | None, arg(metavar="ERROR")] = None
    """Error to reach, as 0.08; of labels that are numbers 1 - R^2 (default: the single worker's
    best, mean over the seeds)."""
    slack: float = 0.0
    """Percentage points that the target accuracy (R^2) is below the single worker's."""
    at_epoch: Annotated[float | None, arg(metavar="EPOCH")] = None
    """Where accuracies (R^2) are compared (default: at the end)."""
    out: Annotated[Path, arg(metavar="FOLDER")]
    """Where the runs, the tables and the pictures go."""
    jobs: int = os.cpu_count() or 1
    """Runs at a time, each with one thread."""
    report: bool = False
    """Train nothing; show what is finished of the comparison in --out."""
    config: Annotated[Path | None, arg(metavar="FILE")] = None
    """TOML file with any of the options below; flags on the command line win."""
    options: Annotated[Common, arg(name="")] = field(default_factory=Common)


@lossy_output()
def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; the exit code.

    0 done, 2 after one sentence on stderr if the user is wrong, 130 after Ctrl-C.
    """
    sweep.stop_on_sigterm()
    try:
        compare(sys.argv[1:] if argv is None else argv)
    except UserError as error:
        print(f"gossip.compare: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("gossip.compare: stopped; the same command goes on from here", file=sys.stderr)
        return 130
    return 0


def compare(argv: Sequence[str]) -> None:
    """Train what is missing of the comparison that `argv` describes, and report.

    Raises:
        UserError: something in it cannot be run, or a run failed.
        SystemExit: --help, or an option that does not exist.
    """
    command, given = parse(argv)
    if command.report:
        result.report(result.read(command.out), command.out)
        return
    comparison = comparison_of(command, given)
    for side in comparison.sides():
        for note in methods.notes(side, given):
            print(f"gossip.compare: note: {note}", file=sys.stderr)
    result.train(comparison, command.out, jobs=command.jobs)
    result.report(comparison, command.out)


def parse(argv: Sequence[str]) -> tuple[Command, frozenset[str]]:
    """The command line over the config file over the defaults, and the options that were said.

    Raises:
        UserError: something in it cannot be run.
        SystemExit: --help, or an option that does not exist.
    """
    first = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    first.add_argument("--config", type=Path)
    path = first.parse_known_args(argv)[0].config
    flags = presets.flags(argv)
    if "steps" in flags:
        raise UserError("--steps: every run sees equally many samples; give --epochs instead")
    if "algorithm_options" in flags:
        raise UserError(f"--algorithm-options: {_OWN_OPTIONS}")
    options, given = _from_file(path, flags) if path else (Common(), set())
    command = tyro.cli(
        Command,
        args=argv,
        default=Command(out=tyro.MISSING, config=path, options=options),
        prog="python -m gossip.compare",
        config=(tyro.conf.OmitArgPrefixes,),
    )
    if command.jobs < 1:
        raise UserError(f"jobs={command.jobs}: it must be at least 1")
    return command, frozenset((flags | given) & PLACES.keys() - {*SHARED})


def comparison_of(command: Command, given: frozenset[str]) -> Comparison:
    """The comparison that a command line means; reads the data set for its size.

    Raises:
        UserError: something in it cannot be compared, or the data set is not there.
    """
    base = absolute(from_tables(to_tables(command.options)))
    folder = Path(base.data.data_dir) if base.data.data_dir else None
    dataset = data.load(base.data.dataset, folder)
    samples = len(data.splits(dataset, base.data.inputs, validation=base.data.validation).train)
    return Comparison(
        methods=command.methods,
        learners=command.learners,
        seeds=command.seeds,
        tune=command.tune,
        tune_seeds=command.tune_seeds,
        target=command.target,
        slack=command.slack,
        at_epoch=command.at_epoch,
        samples=samples,
        given=tuple(sorted(given)),
        base=base,
    )


def _from_file(path: Path, flags: set[str]) -> tuple[Common, set[str]]:
    """A config file over the defaults of a comparison, and the options that it says."""
    refuse_script(path)
    config = load(path, flags)  # refuses what is wrong in it, and code that it names
    tables = read_toml(path)
    said = {key for key, value in tables.items() if not isinstance(value, dict)}
    said |= {key for value in tables.values() if isinstance(value, dict) for key in value}
    if "steps" in said and not {"epochs"} & (said | flags):
        raise UserError(f"{path} gives steps: every run sees equally many samples; add --epochs")
    if config.gossip.algorithm_options:
        raise UserError(f"{path} gives algorithm_options: {_OWN_OPTIONS}")
    # Every run is judged once an epoch, whatever suited the one that left this file.
    said -= {"monitor_every"}
    laid = to_tables(config)
    laid["gossip"] |= {"learners": 1, "backend": "stacked"}
    if "monitor" not in said:
        laid["monitoring"]["monitor"] = Common().monitoring.monitor
    return msgspec.convert(laid, Common), said
