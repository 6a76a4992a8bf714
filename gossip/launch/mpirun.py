"""python -m gossip.launch -n 16 [gossip.run options]: mpirun with what this MPI needs.

Starts the mpirun of this Python environment (activated or not) with the flags for root, for more
processes than cores and for waiting politely, and turns Ctrl-C into a request to stop that
leaves the processes the time to close the run folder, whichever MPI it is. With --on-failure
continue a job that has lost a process is started again on fewer, from its last checkpoint.
"""

import argparse
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread
from typing import IO

from gossip.comm.startup.asked import LAUNCHER, REQUEST
from gossip.comm.startup.environment import MPI_EXTRA, check_ours
from gossip.comm.startup.inherited import heard, say
from gossip.comm.startup.launchers import TORCHRUN, child_of, launched
from gossip.errors import UserError
from gossip.launch.restart import Try, first_try, next_try

NUM_PROCESSES = 16
INTERRUPTS = (signal.SIGINT, signal.SIGUSR1)
"""Ctrl-C, and what Slurm is asked to send some time before a job's end."""
TERM_SECONDS = 6.0
"""After SIGTERM to the launcher: from the request to stop to the order to end."""
KILL_SECONDS = 2.0
"""From the order to end to the kill."""
POLL_SECONDS = 0.05
PRINT_SECONDS = 5.0
"""How long what mpirun has printed may take to come after its end."""
BLOCK_BYTES = 1 << 16

ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
ENVIRONMENTS: dict[str, dict[str, str]] = {
    "mpich": {},
    "openmpi": ROOT | {"PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe"},
    "openmpi 4": ROOT | {"OMPI_MCA_rmaps_base_oversubscribe": "1"},
    "other": {},
}
"""What each launcher reads before our processes exist. MPICH's needs nothing; what its library
needs, `gossip.comm.startup.environment.prepare_environment` sets in the processes."""

WORDS = ("PMI", "MPI_LOCAL", "OMPI_COMM_WORLD", "TORCHELASTIC", *TORCHRUN)
"""How the names of what launchers tell their processes begin."""

FAULT_TOLERANT = ["--with-ft", "ulfm"]
"""What lets a job of Open MPI 5 do without a lost process."""


def main(argv: list[str] | None = None) -> int:
    """Run the command line; gives the exit code."""
    options, rest = parsed(sys.argv[1:] if argv is None else argv)
    try:
        check_ours()
        check_positive(options.n)
        mpirun = find_mpirun()
        kind = kind_of(mpirun)
        environment = environment_for(kind, os.environ) | {LAUNCHER: kind}
    except UserError as error:
        say(f"gossip.launch: {error}")
        return 2
    attempt: Try | None = first_try(options.n, options.module, rest)
    code = 0
    with signals() as asked:
        while attempt and not asked:
            alone = FAULT_TOLERANT if attempt.goes_on and kind == "openmpi" else []
            start = [mpirun, *alone, "-n", str(attempt.processes)]
            start += [sys.executable, "-m", options.module]
            code = run([*start, *attempt.words], environment, asked)
            attempt, text = next_try(attempt, code)
            if text and not asked:
                say(f"gossip.launch: {text}")
    if asked:
        return 128 + asked[0]
    return code if code >= 0 else 128 - code


def parsed(argv: list[str]) -> tuple[argparse.Namespace, list[str]]:
    """Our options, and those that go to the module."""
    parser = argparse.ArgumentParser(
        prog="python -m gossip.launch",
        description="Run gossip.run in several processes, with the mpirun of this environment.",
        epilog="All other options go to gossip.run; see python -m gossip.run --help.",
        allow_abbrev=False,
    )
    parser.add_argument("-n", type=int, default=NUM_PROCESSES, help="processes (default: 16)")
    parser.add_argument("--module", default="gossip.run", help="what to run (default: gossip.run)")
    options, rest = parser.parse_known_args(argv)
    return options, rest[1:] if rest[:1] == ["--"] else rest


def check_positive(n: int) -> None:
    """Raises UserError for a number of processes below one."""
    if n < 1:
        raise UserError(f"-n {n}: a run needs at least one process")


def find_mpirun() -> str:
    """The mpirun beside this Python, else the first on PATH.

    Raises:
        UserError: there is none.
    """
    beside = Path(sys.prefix, "bin", "mpirun")
    found = str(beside) if os.access(beside, os.X_OK) else shutil.which("mpirun")
    if found is None:
        raise UserError(f"no mpirun: {MPI_EXTRA}, or use python -m gossip.run alone")
    return found


def kind_of(mpirun: str) -> str:
    """Which entry of ENVIRONMENTS fits, by `mpirun --version`."""
    text = subprocess.run(
        [mpirun, "--version"], capture_output=True, text=True, check=False, env=os.environ | ROOT
    ).stdout
    if "HYDRA" in text or "MPICH" in text:
        return "mpich"
    version = re.search(r"Open MPI\D*(\d+)\.", text)
    if version:
        return "openmpi" if int(version[1]) >= 5 else "openmpi 4"
    return "other"


def environment_for(kind: str, environment: Mapping[str, str]) -> dict[str, str]:
    """`environment` with what this kind of mpirun needs; what the user has set stays.

    A process of a job starts a job of its own: nothing of its launcher's words goes on.
    """
    if child_of() or launched():
        environment = {k: v for k, v in environment.items() if not k.startswith(WORDS)}
    path = os.pathsep.join([str(Path(sys.prefix, "bin")), environment.get("PATH", os.defpath)])
    return ENVIRONMENTS[kind] | dict(environment) | {"PATH": path}


@contextmanager
def signals() -> Iterator[list[int]]:
    """In this block signals that end a job are put into the list instead.

    One that was ignored when we started stays so.
    """
    asked: list[int] = []
    kinds = heard(signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)
    before = {s: signal.signal(s, lambda signum, _: asked.append(signum)) for s in kinds}
    if REQUEST not in before:  # the processes of the job must hear it from us all the same
        before[REQUEST] = signal.signal(REQUEST, lambda *_: None)
    try:
        yield asked
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)


def run(command: list[str], environment: Mapping[str, str], asked: list[int]) -> int:
    """Run mpirun to its end, with our signals in `asked` turned into what it can pass on.

    What it prints goes through this process: an mpirun ends the job where nobody takes that.

    Ctrl-C reaches only this process (mpirun has a process group of its own), which asks the
    learners' processes to stop by SIGUSR1: every mpirun passes that on and does not kill on it,
    while Open MPI's kills half a second after SIGINT. A second Ctrl-C ends the job.

    Returns:
        Its exit code; below 0 if a signal ended mpirun itself.
    """
    # No stdin: a background process group that reads from the terminal is stopped by it.
    null, pipe = subprocess.DEVNULL, subprocess.PIPE
    process = subprocess.Popen(
        command, env=dict(environment), stdin=null, stdout=pipe, stderr=pipe, process_group=0
    )
    lines = [
        Thread(target=pass_on, args=(stream, number), daemon=True)
        for stream, number in ((process.stdout, 1), (process.stderr, 2))
    ]
    for each in lines:
        each.start()
    try:
        return wait(process, asked)
    finally:
        for each in lines:
            each.join(PRINT_SECONDS)


def pass_on(source: IO[bytes] | None, target: int) -> None:
    """Copy what comes from a pipe to an open file, and what that does not take to nowhere."""
    assert source is not None, "a pipe, as we have asked for"
    with source:
        while data := os.read(source.fileno(), BLOCK_BYTES):
            with suppress(OSError):
                while data:
                    with suppress(BlockingIOError):
                        data = data[os.write(target, data) :]
                    select.select([], [target], [])


def wait(process: subprocess.Popen, asked: list[int]) -> int:
    """Wait for mpirun; every signal in `asked`, and every deadline missed, is one order more."""
    orders = iter((REQUEST, signal.SIGTERM, signal.SIGKILL))
    heard, deadline = 0, float("inf")
    while True:
        try:
            return process.wait(POLL_SECONDS)
        except subprocess.TimeoutExpired:
            if len(asked) == heard and time.monotonic() < deadline:
                continue
        heard = len(asked)
        order = next(orders, signal.SIGKILL)
        process.send_signal(order)
        if order != REQUEST:
            deadline = time.monotonic() + KILL_SECONDS
        elif asked[-1] not in INTERRUPTS:  # these may take as long as closing takes
            deadline = time.monotonic() + TERM_SECONDS
