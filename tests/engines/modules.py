"""Modules that worker processes import, so that they need import nothing else of the tests."""

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

import torch
from torch import nn

SECONDS = 0.3
"""A pass of a worker that is slow."""


class Mortal(nn.Module):
    """A small network, whose process is killed in the first pass after `mark` has been made."""

    def __init__(self, features: int, mark: str, dropout: float = 0.0) -> None:
        super().__init__()
        self.mark = mark
        self.layers = nn.Sequential(
            nn.Linear(features, 4), nn.BatchNorm1d(4), nn.Dropout(dropout), nn.Linear(4, 1)
        ).double()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        try:
            Path(self.mark).rename(f"{self.mark}.gone")
        except FileNotFoundError:
            return self.layers(x)
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError


class Tired(nn.Linear):
    """A linear map that takes its time in the process that calls it first."""

    def __init__(self, features: int, mark: str) -> None:
        super().__init__(features, 1)
        self.mark, self.mine = mark, False

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with suppress(FileNotFoundError):
            Path(self.mark).unlink()
            self.mine = True
        time.sleep(SECONDS if self.mine else 0.0)
        return super().forward(x)


class Broken(nn.Linear):
    """Raises in every pass."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        raise ZeroDivisionError("in the user's module")


class Slow:
    """A data set whose items do not come."""

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        raise TimeoutError("the server of the data does not answer")
