"""Tables, figures and the page, from the runs that are finished; it says what is missing."""

import sys
from collections.abc import Callable
from dataclasses import dataclass

import tyro

from experiments import (
    date,
    fig2,
    lena,
    lena_page,
    page,
    rivals,
    rivals_page,
    topology_comparison,
)
from experiments.command import Options, guarded
from experiments.scale import Scale

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
