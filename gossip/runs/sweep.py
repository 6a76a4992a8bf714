"""Many runs on the stacked backend, a few at a time, that can be stopped and taken up again.

A sweep is a dictionary, name of the run -> its `Config`. Each run is a process of its own with
one torch thread, and its folder is what `python -m gossip.run --out` would have left, with
checkpoints only if `checkpoint_every` asks for some.
"""

import multiprocessing
import os
import shutil
import signal
import sys
import time
from collections.abc import Mapping
from multiprocessing import connection
from multiprocessing.process import BaseProcess
from pathlib import Path

import torch

from gossip import data
from gossip.comm.connect import connect
from gossip.comm.startup.inherited import heard
from gossip.config import Config, from_tables
from gossip.errors import UserError
from gossip.runs.recorded import train_recorded
from gossip.storage import folder as run_folder
from gossip.storage.names import FINAL
from gossip.study import prepare
from topologies.terminal import lossy_output

PRELOADED = ["gossip.run", "gossip.runs.frozen"]
"""Imported once and not by each run."""


def run_all(runs: Mapping[str, Config], folder: Path, *, jobs: int) -> None:
    """Train all `runs` that are not finished, each in a folder of its name in `folder`.

    A finished run of the same config is kept; what is left of a half one, or of one of another
    config, is replaced. Stopped at any moment, this leaves every finished run.

    Raises:
        UserError: a run failed; the others were made all the same.
    """
    waiting = {k: config for k, config in runs.items() if not is_finished(folder / k, config)}
    for dataset, folder_of_data in {(c.data.dataset, c.data.data_dir) for c in waiting.values()}:
        # Verified once here, so not in every run.
        data.load(dataset, Path(folder_of_data) if folder_of_data else None)
    progress = _Progress(waiting)
    active: dict[int, tuple[str, BaseProcess]] = {}
    failed = []
    try:
        while waiting or active:
            while waiting and len(active) < jobs:
                key = next(iter(waiting))
                shutil.rmtree(folder / key, ignore_errors=True)
                process = started(waiting.pop(key), folder / key)
                active[process.sentinel] = key, process
            for sentinel in connection.wait(list(active)):
                key, process = active.pop(int(sentinel))  # type: ignore[arg-type]
                process.join()
                failed += [key] * (process.exitcode != 0)
                progress.show(key, folder / key)
    finally:
        for _, process in active.values():
            process.terminate()
            process.join()
    if failed:
        raise UserError(f"failed: {', '.join(failed)}; see {log_of(folder / failed[0])}")


def started(config: Config, folder: Path) -> BaseProcess:
    """A process that trains one run."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    process = context.Process(target=run_one, args=(config, folder))
    process.start()
    return process


def run_one(config: Config, folder: Path) -> None:
    """Train one run in this process, all it prints going to a log beside the folder."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that started us
    torch.set_num_threads(1)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with log_of(folder).open("w", encoding="utf-8") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    with lossy_output():
        train_one(config, folder)


def train_one(config: Config, folder: Path) -> None:
    """Train one run in this process as it is.

    One that ``on_nonfinite=raise`` has ended is a finished run that diverged: the others count.
    """
    (name,) = config.algorithm
    comm = connect("stacked", config.gossip.learners)
    study = prepare(config, comm)
    # A run that is stopped is made anew, so what it keeps is for those who read it afterwards.
    asked = config.reliability.checkpoint_every > 0
    train_recorded(study, name, folder, checkpoints=asked)


def log_of(folder: Path) -> Path:
    """Where the run in `folder` says what it says."""
    return folder.with_name(f"{folder.name}.log")


def is_finished(folder: Path, config: Config) -> bool:
    """Whether `folder` holds a run of `config` that came to its end."""
    if run_folder.read_summary(folder).get("verdict") not in FINAL:
        return False
    try:
        return from_tables(run_folder.read_config(folder)) == config
    except UserError:
        return False


def finished(folder: Path) -> list[Path]:
    """The run folders in `folder` that came to their end, by name."""
    found = sorted(path.parent for path in folder.glob(f"*/{run_folder.SUMMARY}"))
    return [path for path in found if run_folder.read_summary(path).get("verdict") in FINAL]


def stop_on_sigterm() -> None:
    """Let SIGTERM end the sweep as Ctrl-C does: with its processes, keeping what is finished."""
    for signum in heard(signal.SIGTERM):
        signal.signal(signum, lambda *_: sys.exit(128 + signal.SIGTERM))


class _Progress:
    """One line for each run that has ended, with the time that is left by the steps to do."""

    def __init__(self, runs: Mapping[str, Config]) -> None:
        self._steps = {key: config.steps for key, config in runs.items()}
        self._total = sum(self._steps.values())
        self._count = len(runs)
        self._start = time.monotonic()

    def show(self, key: str, folder: Path) -> None:
        """Say what came of the run `key`."""
        del self._steps[key]
        left = sum(self._steps.values())
        seconds = (time.monotonic() - self._start) * left / (self._total - left)
        summary = run_folder.read_summary(folder)
        number = summary.get("test_error")
        error = "" if number is None else f" {number:7.2%}"
        place = f"{self._count - len(self._steps)}/{self._count}"
        print(
            f"{place:>7}  {key:<44} {summary.get('verdict', 'failed'):<10}{error}"
            f"   {seconds / 60:.1f} min left",
            file=sys.stderr,
            flush=True,
        )
