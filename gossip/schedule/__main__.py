"""The command `python -m gossip.schedule`."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

from gossip.config import Config
from gossip.config.presets import PRESETS, starting_point
from gossip.data import DATASETS
from gossip.errors import UserError
from gossip.rates import Product, Span
from gossip.schedule import show
from gossip.schedule.course import ONE_LAYER, courses
from gossip.study import damper as dampers
from gossip.study.rate_rule import budget, idle, rule, warnings
from topologies.terminal import lossy_output

_WIDTH_OF_A_FILE = 120
_File = Annotated[Path | None, tyro.conf.arg(metavar="FILE")]


@dataclass(frozen=True, kw_only=True)
class Command:
    """Print the exact learning rate and batch of every iteration of a run, without training.

    Takes the options of gossip.run. Where gradients decide the rate (adascale, lena, state-aware
    warm-ups), it prints what bounds it: all gradients equal, and all orthogonal.
    """

    config: _File = None
    """TOML file with any of the options below; flags on the command line win."""
    preset: Annotated[str | None, tyro.conf.arg(metavar="|".join(PRESETS))] = None
    """A paper's method or recipe, laid over the config file and under the flags."""
    samples: Annotated[int | None, tyro.conf.arg(metavar="INT")] = None
    """Number of training samples N (default: those published of --dataset, less --validation)."""
    every: Annotated[int | None, tyro.conf.arg(metavar="INT")] = None
    """Print every so many iterations (default: about 20 rows)."""
    plot: _File = None
    """Draw the learning rate into this file (.png, .svg or .pdf)."""
    csv: _File = None
    """Write all iterations into this file."""
    options: Annotated[Config, tyro.conf.arg(name="")] = field(default_factory=Config)


@lossy_output()
def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; gives the exit code, 2 for a user's mistake."""
    try:
        run(parse(sys.argv[1:] if argv is None else argv))
    except UserError as error:
        print(f"gossip.schedule: {error}", file=sys.stderr)
        return 2
    return 0


def parse(argv: Sequence[str]) -> Command:
    """The command line over the preset over the config file, if they are named, over the defaults.

    Raises:
        UserError: something in it cannot be run.
        SystemExit: --help, or an option that does not exist.
    """
    path, preset, options = starting_point(argv)
    return tyro.cli(
        Command,
        args=argv,
        default=Command(config=path, preset=preset, options=options),
        prog="python -m gossip.schedule",
        config=(tyro.conf.OmitArgPrefixes,),
    )


def run(command: Command) -> None:
    """Print, draw and write.

    Raises:
        UserError: an option that cannot be run, or a file that cannot be written.
    """
    config = command.options
    for name in ("samples", "every"):
        value = getattr(command, name)
        if value is not None and value < 1:
            raise UserError(f"{name}={value}: it must be at least 1")
    rates = rule(config.rate, budget(config, samples(command)), ONE_LAYER)
    runs = courses(rates, steps(config, rates, samples(command)))
    console = Console(width=None if sys.stdout.isatty() else _WIDTH_OF_A_FILE)
    for text in (
        show.heading(config, rates, runs),
        *(f"note: {n}" for n in show.notes(rates, runs)),
    ):
        console.print(text, markup=False, highlight=False, soft_wrap=True)
    notes = (*idle(config.rate), *dampers.idle(config), *dampers.unknown(config), *warnings(rates))
    for warning in notes:
        print(f"gossip.schedule: note: {warning}", file=sys.stderr)
    console.print(show.table(runs, command.every))
    if command.csv is not None:
        show.write_csv(runs, command.csv)
    if command.plot is not None:
        show.draw(
            runs, command.preset or f"{config.rate.scaling}, {config.rate.decay}", command.plot
        )


def steps(config: Config, rates: Product, samples: int) -> list[Span] | None:
    """All steps, where batches grow; None: each has the first batch.

    Raises:
        UserError: nobody knows them before the run.
    """
    if config.damping.damping == "none":
        return None
    damper = dampers.named(config, samples, samples // config.gossip.learners)
    return dampers.spans(damper, rates.most_steps, config, samples)


def samples(command: Command) -> int:
    """N: as given, or what is known of the dataset without loading it.

    Raises:
        UserError: nothing is known of it, or nothing is left of it.
    """
    data = command.options.data
    if command.samples is not None:
        return command.samples
    if data.dataset not in DATASETS:
        raise UserError(f"dataset {data.dataset!r} is not loaded here: say its size with --samples")
    left = DATASETS[data.dataset].num_train - data.validation
    if left < 1:
        raise UserError(
            f"validation={data.validation}: nothing is left of {data.dataset}'s "
            f"{DATASETS[data.dataset].num_train} training samples"
        )
    return left


if __name__ == "__main__":
    sys.exit(main())
