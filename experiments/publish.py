"""Tables, figures and the page, from the runs that are finished; it says what is missing."""

import sys
from dataclasses import dataclass

import tyro

from experiments import fig2, page, topology_comparison
from experiments.command import Options, guarded


@dataclass(frozen=True, kw_only=True)
class Command(Options):
    """Make tables, figures and README.md from the finished runs."""

    page: bool = False
    """README.md alone, from the tables that are there: needs no runs."""


def main(argv: list[str] | None = None) -> int:
    """Run the command line; gives the exit code."""
    options = tyro.cli(Command, args=argv, prog="python -m experiments.publish")

    def command() -> None:
        scale = options.scale()
        if not options.page:
            fig2.publish(scale)
            topology_comparison.publish(scale)
        scale.page.write_text(page.text(scale), encoding="utf-8")
        print(f"wrote {scale.page}", file=sys.stderr)

    return guarded(command)


if __name__ == "__main__":
    sys.exit(main())
