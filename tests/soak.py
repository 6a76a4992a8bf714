"""One long run that is stopped, killed and taken up again, over and over: python -m tests.soak.

While it lasts, its processes' memory, threads and open files, and the files that it leaves, must
stay bounded; in the end it must have come to what an undisturbed run comes to. Not part of
`make test`.
"""

import argparse
import os
import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
import torch

from gossip import trace
from gossip.checkpoint import newest, read
from tests.faults.jobs import remove_unused, shared_memory

LEARNERS = 4
OPTIONS = shlex.split(
    f"--dataset digits --batch-size 10 --learners {LEARNERS} --widths 32 --lr 0.02 --dtype float64"
    " --algorithm dpsgd --monitor cheap --monitor-every 20 --checkpoint-minutes 0.03"
)
PACE = shlex.split(
    "--straggler constant --straggler-options s=2 learners=0 --straggler-seconds 0.01"
)
"""At least 10 ms a step, so that the undisturbed run takes less time."""
ENDLESS = 10**8
START_SECONDS, END_SECONDS, SAMPLE_SECONDS = 180.0, 30.0, 0.5
SHARE_OF_THE_QUIET_TRY = 0.3
"""Of the time, for one try that nothing happens to: what leaks, leaks there."""

MOST_MB_MORE, MOST_FILES_MORE, MOST_THREADS_MORE = 40.0, 3, 2
"""What a process may gain after its first seconds of training."""
MOST_FILES = 6 + 3 * (LEARNERS + 3)
"""In the run folder: with three checkpoints, one of them being written."""


@dataclass
class Footprint:
    """What a process uses, at first and at most."""

    first: tuple[float, int, int] | None = None
    most: tuple[float, int, int] = (0.0, 0, 0)

    def look(self, pid: int) -> None:
        """Megabytes resident, open files, threads."""
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
        kilobytes, threads = (
            int(re.search(rf"^{name}:\s*(\d+)", status, re.MULTILINE)[1])
            for name in ("VmRSS", "Threads")
        )
        now = (kilobytes / 1e3, len(list(Path(f"/proc/{pid}/fd").iterdir())), threads)
        self.first = self.first or now
        self.most = tuple(map(max, self.most, now))

    def check(self) -> None:
        """It has not grown."""
        bounds = MOST_MB_MORE, MOST_FILES_MORE, MOST_THREADS_MORE
        for most, first, bound in zip(self.most, self.first or self.most, bounds, strict=True):
            assert most <= first + bound, f"from {self.first} to {self.most} (MB, files, threads)"


@dataclass
class Soak:
    """The run, and what was seen of it."""

    folder: Path
    chance: random.Random
    others: int
    """Folders in memory that belong to other runs."""
    tries: int = 0
    deeds: dict[str, int] = field(default_factory=dict)
    most: tuple[float, int, int] = (0.0, 0, 0)
    most_files: int = 0

    @property
    def out(self) -> Path:
        """The run folder."""
        return self.folder / "run"

    def start(self, processes: int, *more: str) -> subprocess.Popen:
        """The next try."""
        begun = (self.out / "config.toml").exists()
        new = [*OPTIONS, *PACE, "--steps", str(ENDLESS), "--out", str(self.out)]
        options = ["--resume", str(self.out)] if begun else new
        command = [sys.executable, "-m", "gossip.run"]
        if processes > 1:
            command = [sys.executable, "-m", "gossip.launch", "-n", str(processes)]
        self.tries += 1
        with (self.folder / "output").open("w") as output:
            environment = os.environ | {"SOAK": str(self.folder), "OMP_NUM_THREADS": "1"}
            return subprocess.Popen(
                [*command, *options, *more], env=environment, stdout=output, stderr=output
            )

    def learners(self) -> list[int]:
        """Pids of its processes that train."""
        return [pid for pid in ours(self.folder) if words(pid)[1:3] == [b"-m", b"gossip.run"]]

    def watch(self, job: subprocess.Popen, seconds: float) -> None:
        """Look at its processes for so long, from its first new checkpoint on."""
        before = self.step()
        wait_for(job, lambda: self.step() > before)
        footprints: dict[int, Footprint] = {}
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            assert job.poll() is None, self.said()
            for pid in self.learners():
                footprints.setdefault(pid, Footprint()).look(pid)
            self.most_files = max(self.most_files, len(files(self.out)))
            time.sleep(SAMPLE_SECONDS)
        for footprint in footprints.values():
            footprint.check()
            self.most = tuple(map(max, self.most, footprint.most))

    def quiet(self, seconds: float) -> None:
        """A long try that nothing happens to before Ctrl-C."""
        job = self.start(2)
        self.watch(job, seconds)
        job.send_signal(signal.SIGINT)
        assert job.wait(END_SECONDS) == 130, self.said()
        self.left_nothing()

    def bother(self) -> None:
        """One try on some processes, and how it ends."""
        processes = self.chance.choice((1, 1, 2, 4))
        deed = self.chance.choice(("kill", "kill", "TERM", "INT", "restart"))
        if processes == 1 and deed == "restart":
            deed = "kill"
        policy = "continue" if deed == "restart" else "stop"  # or the folder's, of an earlier try
        job = self.start(processes, "--on-failure", policy)
        self.watch(job, self.chance.uniform(1.0, 8.0))
        if deed == "restart":
            os.kill(self.chance.choice(self.learners()), signal.SIGKILL)
            wait_for(job, lambda: " goes on from step " in self.said())
            self.watch(job, self.chance.uniform(1.0, 4.0))
            job.send_signal(signal.SIGTERM)
        elif deed == "kill":
            os.kill(self.chance.choice(self.learners()), signal.SIGKILL)
        else:
            job.send_signal(signal.Signals[f"SIG{deed}"])
        assert job.wait(END_SECONDS) not in (0, 1, 2), self.said()
        self.left_nothing()
        self.deeds[deed] = self.deeds.get(deed, 0) + 1

    def last(self) -> int:
        """Finish a little further on than it is; the number of steps."""
        steps = self.step() + 50
        job = self.start(1, "--steps", str(steps))
        assert job.wait(START_SECONDS) == 0, self.said()
        self.left_nothing()
        return steps

    def step(self) -> int:
        """Of the newest checkpoint."""
        paths = newest(self.out / "checkpoint")
        return int(paths[0].name.rpartition("-")[2]) if paths else 0

    def said(self) -> str:
        """What this try has printed."""
        return (self.folder / "output").read_text()

    def line(self) -> str:
        """What has been seen so far."""
        deeds = ", ".join(f"{count} x {deed}" for deed, count in sorted(self.deeds.items()))
        megabytes, open_files, threads = self.most
        return (
            f"step {self.step()}, {self.tries} tries ({deeds}); at most {megabytes:.0f} MB, "
            f"{open_files} open files and {threads} threads a process, {self.most_files} files"
        )

    def left_nothing(self) -> None:
        """No process, no folder in memory, and few files."""
        wait_for(None, lambda: not ours(self.folder))
        wait_for(None, lambda: len(in_memory()) <= self.others)
        assert self.most_files <= MOST_FILES, sorted(self.out.rglob("*"))


def ours(folder: Path) -> list[int]:
    """Pids of the living processes of the run in `folder`."""
    needle = f"SOAK={folder}\0".encode()
    found = []
    for proc in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if needle in (proc / "environ").read_bytes():
                found.append(int(proc.name))
    return found


def files(folder: Path) -> list[str]:
    """Files below a folder that others write in."""
    return [name for _, _, names in os.walk(folder) for name in names]


def words(pid: int) -> list[bytes]:
    """The command line of a process; empty if it has ended."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    return []


def in_memory() -> list[Path]:
    """What runs have in common while they last."""
    return list(Path("/dev/shm").glob("gossip-*"))


def wait_for(job: subprocess.Popen | None, condition: Callable[[], object]) -> None:
    """Wait until something holds that the job brings about."""
    deadline = time.monotonic() + START_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it did not come"
        assert job is None or job.poll() is None, f"it ended with {job.returncode}"
        time.sleep(0.05)


def assert_same(out: Path, undisturbed: Path, steps: int) -> None:
    """Both came to the same, to rounding."""
    rows, expected = trace.load(out), trace.load(undisturbed)
    assert rows["step"].to_pylist() == list(range(steps + 1))
    losses = (trace.column(table, "train_loss") for table in (rows, expected))
    np.testing.assert_allclose(*losses, rtol=1e-9)
    x, y = (
        read(newest(p / "checkpoint")[0], range(LEARNERS)).rows["x"] for p in (out, undisturbed)
    )
    print(f"soak: weights differ by {float((x - y).abs().max()):.1e} at most")
    assert torch.allclose(x, y, rtol=1e-9, atol=1e-9)


def main() -> None:
    """Soak for so many minutes, then compare."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    folder = Path(mkdtemp(prefix="gossip-soak-"))
    print(f"soak: {options.minutes:g} minutes, seed {options.seed}, in {folder}", flush=True)
    before = shared_memory()
    try:
        told = go_through(folder, 60 * options.minutes, random.Random(options.seed))
    finally:
        for pid in ours(folder):
            os.kill(pid, signal.SIGKILL)
        remove_unused(shared_memory() - before)  # MPI leaves it when a process is killed
    print(f"soak: passed: {told}")
    shutil.rmtree(folder)


def go_through(folder: Path, seconds: float, chance: random.Random) -> str:
    """Soak for so long, then compare; what was seen."""
    soak = Soak(folder, chance, others=len(in_memory()))
    start, minutes = time.monotonic(), 0
    soak.quiet(SHARE_OF_THE_QUIET_TRY * seconds)
    while (now := time.monotonic() - start) < seconds:
        if now // 60 > minutes:
            minutes = int(now // 60)
            print(f"soak: minute {minutes}: {soak.line()}", flush=True)
        soak.bother()
    steps = soak.last()
    whole = folder / "undisturbed"
    command = [sys.executable, "-m", "gossip.run", *OPTIONS, "--out", str(whole)]
    subprocess.run([*command, "--steps", str(steps)], check=True, capture_output=True)
    assert_same(soak.out, whole, steps)
    return soak.line()


if __name__ == "__main__":
    main()
