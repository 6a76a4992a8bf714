"""Tables, figures and the page, from the runs that are finished; it says what is missing."""

import sys
from collections.abc import Callable
from dataclasses import dataclass

import tyro

from experiments.common.command import Options, guarded
from experiments.common.scale import Scale
from experiments.date import __main__ as date
from experiments.dpsgd import fig2, page
from experiments.dpsgd import topologies as topology_comparison
from experiments.lena import __main__ as lena
from experiments.lena import page as lena_page
from experiments.rivals import __main__ as rivals
from experiments.rivals import page as rivals_page
from topologies.terminal import lossy_output

PAGES: dict[str, Callable[[Scale], None]] = {
    "lena.csv": lena_page.write,
    "rivals.csv": rivals_page.write,
    "date.csv": date.write_page,
}
"""By the table that each is written from."""


@dataclass(frozen=True, kw_only=True)
class Command(Options):
    """Make tables, figures and pages from the finished runs."""

    page: bool = False
    """The pages alone, from the tables that are there: needs no runs."""


@lossy_output()
def main(argv: list[str] | None = None) -> int:
    """Run the command line; gives the exit code."""
    options = tyro.cli(Command, args=argv, prog="python -m experiments.publish")

    def command() -> None:
        scale = options.scale()
        if not options.page:
            fig2.publish(scale)
            topology_comparison.publish(scale)
            lena.publish(scale)
            rivals.publish(scale)
            date.publish(scale)
        scale.page.write_text(page.text(scale), encoding="utf-8")
        for table, write in PAGES.items():
            if (scale.results / table).exists():
                write(scale)
        print(f"wrote the pages in {scale.page.parent}", file=sys.stderr)

    return guarded(command)


if __name__ == "__main__":
    sys.exit(main())
