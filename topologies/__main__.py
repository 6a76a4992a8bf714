"""List topologies, measure them and draw them: python -m topologies [NAME ...]."""

import math
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from topologies.certificate import Certificate, certificate
from topologies.options import option_names
from topologies.static import DEFAULT_WEIGHTS
from topologies.table import TOPOLOGIES, build
from topologies.terminal import lossy_output
from topologies.topology import Topology, TopologyError, UnknownTopologyError
from topologies.weights import WEIGHTS


@dataclass(frozen=True)
class Arguments:
    """List topologies: who averages with whom, how fast, and what it costs."""

    names: tyro.conf.Positional[tuple[str, ...]] = ()
    """Names, files (.edgelist .txt .graphml .json .npy .npz .csv) or module:function; all names
    if none is given."""
    learners: Annotated[int, tyro.conf.arg(aliases=["-n"])] = 16
    """Number of learners n."""
    option: Annotated[tuple[str, ...], tyro.conf.arg(metavar="K=V ...")] = ()
    """Options of the builders, such as k=2 seed=1 rows=4; each goes to those that have it."""
    weights: str = DEFAULT_WEIGHTS
    """Weight rule of topologies on a graph: this, uniform, max-degree, best-constant, lazy or
    fdla."""
    message_bytes: float | None = None
    """Bytes of one message (4 x parameters in float32); adds bytes per step to the table."""
    plot: Path | None = None
    """Draw the topologies into this file (.png, .pdf, .svg)."""


@lossy_output()
def main(argv: list[str] | None = None) -> int:
    """Run the command; 2 after a user's mistake, told in one sentence."""
    arguments = tyro.cli(Arguments, prog="python -m topologies", args=argv)
    try:
        run(arguments)
    except TopologyError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


def run(arguments: Arguments) -> None:
    """Build what was asked for, print the table, draw.

    Raises:
        TopologyError: a name, file or option that does not exist, nothing that fits n, or bytes
            that are no number from 0 up.
    """
    size = arguments.message_bytes
    if size is not None and not 0 <= size < math.inf:
        raise TopologyError(f"message-bytes={size}: give a number from 0 up")
    options = parsed_options(arguments)
    names = arguments.names or tuple(TOPOLOGIES)
    built, refused = built_topologies(names, arguments.learners, options)
    if not built:
        raise refused[names[0]]
    for warning in sorted({w for _, messages in built for w in messages}):
        sys.stderr.write(f"note: {warning}\n")
    topologies = [topology for topology, _ in built]
    print_table([certificate(t, size) for t in topologies], refused)
    if arguments.plot is not None:
        from topologies.plot import plot

        plot(topologies, arguments.plot, lambda text: sys.stderr.write(f"{text}\n"))
        sys.stdout.write(f"drawn to {arguments.plot}\n")


def parsed_options(arguments: Arguments) -> dict[str, str]:
    """The options as text by name.

    Raises:
        TopologyError: one is not K=V, none of the topologies has it, or no such weight rule.
    """
    options = {}
    for text in arguments.option:
        key, equals, value = text.partition("=")
        if not (key and equals):
            raise TopologyError(f"--option {text!r} is not K=V: write for example k=2")
        options[key.replace("-", "_")] = value
    if arguments.weights not in WEIGHTS:
        raise TopologyError(
            f"unknown weights {arguments.weights!r}: use one of {', '.join(WEIGHTS)}"
        )
    if arguments.weights != DEFAULT_WEIGHTS:
        options["weights"] = arguments.weights
    return options


def built_topologies(
    names: tuple[str, ...], n: int, options: dict[str, str]
) -> tuple[list[tuple[Topology, list[str]]], dict[str, TopologyError]]:
    """What could be built, with its warnings; and what could not, with the reason.

    Raises:
        TopologyError: a name is unknown, or an option belongs to none of them.
    """
    # One alone gets all the options, and says best itself which it does not have.
    several = len(names) > 1
    accepted = {name: accepted_options(name, options) if several else options for name in names}
    for key in options:
        if not any(key in theirs for theirs in accepted.values()):
            why = "they have weights of their own" if key == "weights" else "none of them has it"
            raise TopologyError(f"the topologies listed: there is no option {key!r}: {why}")
    built, refused = [], {}
    for name in names:
        try:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                topology = build(name, n, **accepted[name])
            built.append((topology, [str(w.message) for w in caught]))
        except UnknownTopologyError:
            raise
        except TopologyError as error:
            refused[name] = error
    return built, refused


def accepted_options(name: str, options: dict[str, Any]) -> dict[str, Any]:
    """Those of the options that the topology called `name` has; files and functions get all."""
    if name not in TOPOLOGIES:
        return options
    known = option_names(TOPOLOGIES[name])
    passes_on = name == "periodic" and "base" in options
    return {k: v for k, v in options.items() if passes_on or k in known}


def print_table(certificates: list[Certificate], refused: dict[str, TopologyError]) -> None:
    """The table, and below it what does not fit n."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    if not console.is_terminal:
        console = Console(width=140)
    n = certificates[0].n
    table = Table(title=f"topologies of n = {n} learners", title_justify="left")
    table.add_column("topology", style="bold", no_wrap=True)
    columns = ["period", "neighbours", "messages/step", "bytes/step", "sigma2", "gap"]
    if certificates[0].bytes_per_step is None:
        columns.remove("bytes/step")
    for column in [*columns, "contraction"]:
        table.add_column(column, justify="right")
    table.add_column("of")
    for c in certificates:
        table.add_row(Text(c.name), *row(c))
    console.print(table)
    console.print(
        "per learner; contraction: what a step (period) leaves of the distance from the mean"
    )
    for name, error in refused.items():
        console.print(
            Text(f"not for n = {n}: {error}" if name in str(error) else f"{name}: {error}")
        )


def row(c: Certificate) -> list[str]:
    """The cells of one topology, but for its name."""
    low, high = c.degree_min, c.degree_max
    cells = [
        "random" if c.period is None else str(c.period),
        str(low) if low == high else f"{low}-{high}",
        f"{c.messages_per_step:.4g}",
    ]
    if c.bytes_per_step is not None:
        cells.append(f"{c.bytes_per_step:,.0f}")
    cells += [number(c.sigma2), "-" if c.gap is None else number(c.gap), number(c.contraction)]
    if c.period is None:
        cells.append(f"E||.||^2, 1 step ({c.contraction_method})")
    else:
        cells.append("||.||, 1 step" if c.period == 1 else f"||.||, {c.period} steps")
    return cells


def number(value: float) -> str:
    """Five digits; sums of rounding errors are 0, and what rounds to 1 shows how far it is."""
    if abs(value) < 1e-12:
        return "0"
    if 0 < 1 - value < 5e-5:
        return f"1 - {1 - value:.2g}"
    return f"{value:.5g}"


if __name__ == "__main__":
    sys.exit(main())
