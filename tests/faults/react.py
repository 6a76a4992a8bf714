"""How long a run takes to react: python -m tests.faults.react prints the times of the page.

docs/reliability.md has them, from the machine that it names.
"""

import os
import shlex
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from gossip.checkpoint import Snapshot, Writer, newest, read
from gossip.comm.stacked import Stacked
from gossip.storage import glance
from tests.faults.jobs import ROOT, Job, left_behind, pid_of, remove_unused, shared_memory, wait_for

OPTIONS = shlex.split(
    "--dataset digits --batch-size 10 --learners 4 --widths 8 --lr 0.1 --algorithm dpsgd"
    " --monitor cheap --monitor-every 10 --checkpoint-every 50 --steps 100000"
)
TIMEOUT = 5.0
CHECKPOINT_LEARNERS, CHECKPOINT_WEIGHTS = 16, 1_000_000
PATIENCE_SECONDS = 120.0


def start(folder: Path, processes: int, *more: str) -> tuple[Job, Path]:
    """A job that trains, and its run folder."""
    out = folder / "run"
    module = ["gossip.run"] if processes == 1 else ["gossip.launch", "-n", str(processes)]
    options = ["--resume", str(out)] if out.exists() else [*OPTIONS, "--out", str(out)]
    command = [sys.executable, "-m", *module, *options, *more]
    return Job(folder, command, PYTHONPATH=str(ROOT)), out


def until(job: Job, condition: Callable[[], object]) -> float:
    """Seconds until it holds."""
    begun = time.monotonic()
    while not condition():
        if time.monotonic() > begun + PATIENCE_SECONDS:
            sys.exit(f"it did not come: {(job.folder / 'output').read_text()}")
        time.sleep(0.002)
    return time.monotonic() - begun


def gone(job: Job) -> bool:
    return job.process.poll() is not None and not left_behind(job.folder)


def killed(folder: Path) -> str:
    job, out = start(folder, 4)
    wait_for(job, lambda: glance.checkpoints(out))
    os.kill(pid_of(job, 1), signal.SIGKILL)
    return (
        f"{until(job, lambda: gone(job)):.2f} s from kill -9 of one of 4 processes to the job's end"
    )


def stopped(folder: Path) -> str:
    job, out = start(folder, 4, "--timeout", str(TIMEOUT))
    wait_for(job, lambda: glance.checkpoints(out))
    os.kill(pid_of(job, 1), signal.SIGSTOP)
    told = until(job, lambda: " has waited " in (folder / "output").read_text())
    end = told + until(job, lambda: gone(job))
    return f"{told:.2f} s from SIGSTOP to the message, {end:.2f} s to the end; time-out {TIMEOUT} s"


def restarted(folder: Path) -> str:
    job, out = start(folder, 4, "--on-failure", "continue")
    wait_for(job, lambda: glance.checkpoints(out))
    os.kill(pid_of(job, 1), signal.SIGKILL)
    told = until(job, lambda: "goes on from step" in (folder / "output").read_text())
    step = glance.checkpoints(out)[""]
    on = told + until(job, lambda: glance.checkpoints(out)[""] > step)
    job.process.send_signal(signal.SIGINT)
    until(job, lambda: gone(job))
    return f"{told:.2f} s from kill -9 to the new start, {on:.2f} s to its first checkpoint"


def asked(name: str, processes: int) -> Callable[[Path], str]:
    def measure(folder: Path) -> str:
        job, out = start(folder, processes)
        wait_for(job, lambda: glance.checkpoints(out))
        job.process.send_signal(signal.Signals[name])
        seconds = until(job, lambda: gone(job))
        return f"{seconds:.2f} s from {name} to the end, {processes} processes"

    return measure


def resumed(folder: Path) -> str:
    job, out = start(folder, 1)
    wait_for(job, lambda: glance.checkpoints(out))
    job.process.kill()
    until(job, lambda: gone(job))
    again, _ = start(folder, 1)
    text = folder / "output"
    seconds = until(again, lambda: "goes on at step" in text.read_text())
    again.process.kill()
    until(again, lambda: gone(again))
    return f"{seconds:.2f} s from the command line to 'goes on at step', imports included"


def kept(folder: Path) -> str:
    rows = torch.randn(CHECKPOINT_LEARNERS, CHECKPOINT_WEIGHTS)
    writer = Writer(folder, Stacked(CHECKPOINT_LEARNERS), keep=2, say=print)
    copies, writes = [], []
    for step in range(1, 6):
        begun = time.monotonic()
        writer.save(Snapshot(step=step, rows={"x": rows}, shared={}, facts={}))
        copies.append(time.monotonic() - begun)
        writer.close()
        writes.append(time.monotonic() - begun)
    begun = time.monotonic()
    read(newest(folder)[0], range(CHECKPOINT_LEARNERS))
    reading = time.monotonic() - begun
    return (
        f"{rows.nbytes / 1e6:.0f} MB: the step waits {1e3 * sorted(copies)[2]:.0f} ms for the "
        f"copy, the disk takes {sorted(writes)[2]:.2f} s in the background, reading {reading:.2f} s"
    )


def main() -> None:
    measures = [killed, stopped, restarted, asked("SIGINT", 1), asked("SIGTERM", 1)]
    measures += [asked("SIGINT", 4), resumed, kept]
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    before = shared_memory()
    for measure in measures:
        with TemporaryDirectory(prefix="gossip-react-") as folder:
            print(measure(Path(folder)), flush=True)
    remove_unused(shared_memory() - before)  # MPI leaves it when a process is killed


if __name__ == "__main__":
    main()
