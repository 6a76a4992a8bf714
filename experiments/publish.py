"""Tables, figures and pages are made from the finished runs; a page says which runs are missing."""

import sys
from collections.abc import Callable
from dataclasses import dataclass

import tyro

from experiments import overview, overview_claims
from experiments.account import command as account
from experiments.account import page as account_page
from experiments.adadamp import command as adadamp
from experiments.adadamp import page as adadamp_page
from experiments.common.command import Options, guarded
from experiments.common.scale import Scale
from experiments.date import command as date
from experiments.date import page as date_page
from experiments.dpsgd import fig2, topologies
from experiments.dpsgd import page as dpsgd_page
from experiments.fight import command as fight
from experiments.fight import page as fight_page
from experiments.flatness import command as flatness
from experiments.flatness import page as flatness_page
from experiments.language import command as language
from experiments.language import page as language_page
from experiments.lena import command as lena
from experiments.lena import page as lena_page
from experiments.methods import command as methods
from experiments.methods import page as methods_page
from experiments.nets import command as nets
from experiments.nets import page as nets_page
from experiments.noise import command as noise
from experiments.noise import page as noise_page
from experiments.rivals import command as rivals
from experiments.rivals import page as rivals_page
from experiments.smoothness import command as smoothness
from experiments.smoothness import page as smoothness_page
from experiments.time import command as time
from experiments.time import page as time_page
from topologies.terminal import lossy_output

PAGES: dict[str, Callable[[Scale], None]] = {
    "lena.csv": lena_page.write,
    "rivals.csv": rivals_page.write,
    "date.csv": date_page.write,
    "time.csv": time_page.write,
    "adadamp_schedules.csv": adadamp_page.write,
    "noise.csv": noise_page.write,
    "account.csv": account_page.write,
    "flatness.csv": flatness_page.write,
    "smoothness.csv": smoothness_page.write,
    "language.csv": language_page.write,
    "methods.csv": methods_page.write,
    "fight.csv": fight_page.write,
    "nets.csv": nets_page.write,
}
"""How each page is written, by the table that it is written from."""


@dataclass(frozen=True, kw_only=True)
class Command(Options):
    """Make tables, figures and pages from the finished runs."""

    page: bool = False
    """Write the pages alone, from the tables that are there: needs no runs."""


@lossy_output()
def main(argv: list[str] | None = None) -> int:
    """Run the command line; gives the exit code."""
    options = tyro.cli(Command, args=argv, prog="python -m experiments.publish")

    def command() -> None:
        scale = options.scale()
        if not options.page:
            studies = (fig2, topologies, lena, rivals, date, time, adadamp, noise, account)
            for study in (*studies, flatness, smoothness, language, methods, fight, nets):
                study.publish(scale)
            overview.publish(scale)
        dpsgd_page.write(scale)
        for table, write in PAGES.items():
            if not scale.is_smoke or (scale.results / table).exists():
                write(scale)
        overview.write(scale)
        overview_claims.write(scale)
        print(f"wrote the pages in {scale.page.parent}", file=sys.stderr)

    return guarded(command)


if __name__ == "__main__":
    sys.exit(main())
