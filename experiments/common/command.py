"""Options, exit codes and signals are the same for the commands of all studies."""

import os
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from experiments.common.scale import FULL, Scale, smoke
from gossip.config import Config
from gossip.errors import UserError
from gossip.runs import sweep


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options that the commands of all studies have."""

    smoke: bool = False
    """Run the code in seconds on 8x8 digits, into a temporary folder; its numbers mean nothing."""
    folder: Path | None = None
    """Output folder of --smoke, in place of a new temporary one."""
    jobs: int = os.cpu_count() or 1
    """Number of runs at a time, each with one thread."""

    def scale(self) -> Scale:
        """The scale that these options choose.

        Raises:
            UserError: a folder for the real study, which has its place.
        """
        if not self.smoke:
            if self.folder is not None:
                raise UserError("--folder is for --smoke: results of the study have their place")
            return FULL
        made = smoke(self.folder)
        print(f"smoke test in {made.page.parent}: not results", file=sys.stderr)
        return made


def each_part(options: Options, parts: Iterable[str], run: Callable[[Scale, str], None]) -> int:
    """Run the parts of a study at the scale that the options choose; the exit code of `guarded`."""

    def command() -> None:
        scale = options.scale()
        for part in parts:
            run(scale, part)

    return guarded(command)


def grow(plan: Callable[[], dict[str, Config]], make: Callable[[dict[str, Config]], None]) -> None:
    """Make the runs of a plan that names more of them once some are there, as trials choose."""
    made = None
    while (wanted := plan()) != made:
        make(wanted)
        made = wanted


def guarded(command: Callable[[], None]) -> int:
    """Run a command; the exit code is 2 after one sentence on stderr, 130 after Ctrl-C."""
    sweep.stop_on_sigterm()
    try:
        command()
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("stopped; the same command goes on from here", file=sys.stderr)
        return 130
    return 0
