"""`--fit`: from what was measured here to a network file."""

import sys
from collections.abc import Sequence
from pathlib import Path

from gossip.comm.connect import connect
from gossip.comm.shutdown.failure import ending_the_job
from gossip.comm.shutdown.position import Position
from gossip.comm.startup.launchers import launched
from gossip.comm.startup.together import on_first
from gossip.errors import UserError
from gossip.report.runs import load_runs
from gossip.simulate import fit, observed, pingpong


def fit_to(runs: Sequence[Path], file: Path, *, all_reduce: str = "ring") -> None:
    """Fit to the steps of runs, or, without any, to exchanges between this job's processes.

    Prints what was found on the first process, and writes it as a network file.

    Raises:
        UserError: there is nothing that it could be fitted to, or the file cannot be written.
    """
    if file.suffix.lower() != ".toml":
        raise UserError(f"--fit {file}: a network is a .toml file")
    how = launched()
    comm = connect("auto", how.size if how else 1)
    with ending_the_job(comm, Position()):
        if runs:
            on_first(comm, lambda: _fit_to_runs(runs, file, all_reduce))
            return
        fitted = fit.fit(pingpong.measure(comm))
        if comm.process == 0:
            _write(fitted, f"exchanges between {comm.processes} processes", file)


def _fit_to_runs(runs: Sequence[Path], file: Path, all_reduce: str) -> None:
    loaded = load_runs(runs)
    fitted = fit.fit(observed.observations(loaded, all_reduce=all_reduce))
    _write(fitted, f"{len(loaded)} runs", file)
    for label, seconds in observed.gradient_seconds(loaded).items():
        print(f"a gradient takes {seconds:.4g} s (--compute): {label}")


def _write(fitted: fit.Fitted, source: str, file: Path) -> None:
    try:
        file.write_text(fit.toml(fitted, source), encoding="utf-8")
    except OSError as error:
        raise UserError(f"cannot write {file}: {error.strerror}") from error
    print(fit.sentence(fitted))
    print(f"wrote {file}: python -m gossip.simulate --network {file}", file=sys.stderr)
