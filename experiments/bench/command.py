"""The command measures table by table, keeps every row at once, and prints the results."""

import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import torch
import tyro
from rich.console import Console

from experiments.bench import cost_curve, facts, rows, show
from experiments.bench.catalogue import TABLES
from experiments.bench.measure import Meeting
from experiments.bench.rows import Row
from experiments.bench.size import FULL, QUICK, SMOKE, Size
from gossip.errors import UserError, one_of
from gossip.malloc import keep_memory
from gossip.runs.sweep import stop_on_sigterm
from topologies.terminal import lossy_output


@dataclass(frozen=True, kw_only=True)
class Options:
    """Measure what a step costs, as ratios of interleaved timings, into CSV files."""

    full: bool = False
    """Models up to 24 million parameters, rows up to 40 MB, 4096 learners, more rounds."""
    smoke: bool = False
    """Try the code in seconds; its numbers mean nothing."""
    only: Annotated[tuple[str, ...], tyro.conf.arg(metavar="|".join(TABLES))] = ()
    """Tables to measure; the files of others stay as they are (default: all)."""
    out: Path = Path("bench")
    """Folder for a CSV per table, the machine's facts and the picture."""

    @property
    def size(self) -> Size:
        """The size that these options choose."""
        return SMOKE if self.smoke else FULL if self.full else QUICK


@lossy_output()
def main(argv: list[str] | None = None) -> int:
    """Run the command line; gives the exit code."""
    options = tyro.cli(Options, args=argv, prog="python -m experiments.bench")
    torch.set_num_threads(1)
    keep_memory()  # as gossip.run does; all sides have it
    stop_on_sigterm()
    try:
        return run(options)
    except UserError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2


def run(options: Options) -> int:
    """Measure, and show what there is, however it ends; the exit code."""
    if options.full and options.smoke:
        raise UserError("--full and --smoke: choose one")
    names = [one_of(TABLES, name, "table") for name in options.only] or list(TABLES)
    options.out.mkdir(parents=True, exist_ok=True)
    for name in names:
        _file(options, name).unlink(missing_ok=True)
    known = facts.machine() | {"size": options.size.name, "tables": names}
    start, code = time.monotonic(), 0
    try:
        _measure(options, names)
    except KeyboardInterrupt:
        print(f"bench: stopped; {options.out} keeps what was measured", file=sys.stderr)
        code = 130
    finally:
        known |= {"load_average_at_end": facts.load(), "seconds": round(time.monotonic() - start)}
        facts.write(known, options.out / "machine.json")
        _report(options, names)
        if busy := facts.warning(known):
            print(f"bench: {busy}", file=sys.stderr)
    return code


def _measure(options: Options, names: list[str]) -> None:
    meeting = Meeting(say=lambda text: print(f"bench: {text}", file=sys.stderr, flush=True))
    for name in names:
        here = TABLES[name].here
        if here is not None:
            for found in here(options.size, meeting):
                rows.append(found, _file(options, name))
    for processes in options.size.processes:
        across = [n for n in names if processes in TABLES[n].processes(options.size)]
        if across:
            _run_job(processes, across, options)


def _run_job(processes: int, names: list[str], options: Options) -> None:
    """Run the tables that are measured in that number of processes.

    Raises:
        UserError: the job has failed; it has said why.
    """
    command = [sys.executable, "-m", "gossip.launch", "-n", str(processes)]
    command += ["--module", "experiments.bench.job", "--", "--tables", *names]
    command += ["--size", options.size.name, "--out", str(options.out)]
    # A process group of its own: Ctrl-C is passed on once, not heard twice.
    job = subprocess.Popen(command, stdin=subprocess.DEVNULL, process_group=0)
    try:
        code = job.wait()
    except (KeyboardInterrupt, SystemExit):
        job.send_signal(signal.SIGINT)
        job.wait()
        raise
    finally:
        if job.poll() is None:
            job.terminate()
            job.wait()
    if code:
        raise UserError(f"the job of {processes} processes ended with code {code}")


def _report(options: Options, names: list[str]) -> None:
    """Show the tables that have rows, and what they say."""
    console = Console(width=140)
    found: list[Row] = []
    for name in names:
        part = rows.read(_file(options, name))
        found += part
        if part:
            console.print(show.table(TABLES[name].title, part))
    curve = [row for row in found if row.table == "cost_curve"]
    if curve:
        cost_curve.draw(curve, options.out / "cost_curve.png")
    peers = show.against_peers(row for row in found if row.table == "training")
    if peers:
        console.print(peers)
    for sentence in show.sentences(found):
        console.print(sentence, highlight=False)
    console.print(f"{options.out}: {len(found)} rows", highlight=False)


def _file(options: Options, name: str) -> Path:
    return options.out / f"{name}.csv"
