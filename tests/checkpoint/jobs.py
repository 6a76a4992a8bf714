"""Jobs of several processes, played by several writers in this one; and what they save."""

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gossip.checkpoint import Snapshot, Writer, newest, read

N = 4


@dataclass
class Position:
    """A process's place among the others: all that a writer knows of a communicator."""

    n: int
    process: int
    processes: int

    @property
    def hosted(self) -> range:
        local = self.n // self.processes
        return range(self.process * local, (self.process + 1) * local)


class Job:
    """A writer for each process. What they say is in `said`, as (process, sentence)."""

    def __init__(self, folder: Path, processes: int = 1, *, n: int = N, keep: int = 2) -> None:
        self.said: list[tuple[int, str]] = []
        self.comms: list[Any] = [Position(n, process, processes) for process in range(processes)]
        self.writers = [
            Writer(folder, comm, keep=keep, say=self._sayer(comm.process)) for comm in self.comms
        ]

    def _sayer(self, process: int):
        return lambda text: self.said.append((process, text))

    def save(self, whole: Snapshot) -> None:
        """Save on all processes what each of them has of `whole`, and wait for it."""
        for comm, writer in zip(self.comms, self.writers, strict=True):
            writer.save(part(whole, comm.hosted))
        self.close()

    def close(self) -> None:
        for writer in self.writers:
            writer.close()

    @property
    def failures(self) -> list[int]:
        return [writer.failures for writer in self.writers]


def snapshot(step: int, n: int = N, seed: int = 0) -> Snapshot:
    """All that can be in one: dtypes, tensors without axes or without elements, odd numbers."""
    gen = torch.Generator().manual_seed(1000 * step + seed)
    x = torch.randn(n, 5, generator=gen)
    rows = {
        "x": x,
        "optimizer/momentum": x.double() * 3,
        "half": x.half(),
        "brain": x.bfloat16(),
        "skipped": x > 0,
        "count": (10 * x).long(),
        "flag": x[:, 0] > 0,
        "none": torch.empty(n, 0, 3),
    }
    shared = {
        "average": x[0].double().sum(),
        "nothing": torch.empty(0, dtype=torch.int32),
        "nan": torch.tensor([float("nan"), -0.0, float("inf")]),
        "true": torch.tensor(True),
    }
    facts = {
        "attempt": 0,
        "nan": float("nan"),
        "worst": -float("inf"),
        "tiny": 5e-324,
        "large": 2**80,
        "text": "σ_w² \ud800 \0",
        "none": None,
        "list": [[1, 2.5], {"b": 1, "a": []}],
    }
    return Snapshot(step=step, rows=rows, shared=shared, facts=facts)


def part(whole: Snapshot, hosted: range) -> Snapshot:
    """What a process has of it."""
    rows = {name: value[hosted.start : hosted.stop] for name, value in whole.rows.items()}
    return Snapshot(step=whole.step, rows=rows, shared=whole.shared, facts=whole.facts)


def bits(found: Snapshot) -> tuple[Any, ...]:
    """Equal where two snapshots are the same to the bit, their NaN included."""
    tensors = [
        (kind, name, t.dtype, tuple(t.shape), _bytes(t))
        for kind, table in (("rows", found.rows), ("shared", found.shared))
        for name, t in sorted(table.items())
    ]
    return found.step, tensors, repr(found.facts)


def _bytes(tensor: Tensor) -> bytes:
    flat = torch.empty(tensor.numel(), dtype=tensor.dtype).copy_(tensor.reshape(-1))
    return flat.view(torch.uint8).numpy().tobytes()


def saved(folder: Path, *steps: int, processes: int = 2) -> list[Path]:
    """Checkpoints of these steps, the newest first."""
    job = Job(folder, processes, keep=len(steps))
    for step in steps:
        job.save(snapshot(step))
    assert job.said == []
    return newest(folder)


def copy(source: Path, target: Path) -> Path:
    """`source` again, at a clean `target`."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target, symlinks=True)
    return target


def whole(path: Path, n: int = N) -> Snapshot:
    """All of a checkpoint."""
    return read(path, range(n))
