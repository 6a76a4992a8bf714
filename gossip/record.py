"""What process 0 writes while a run goes on and when it ends."""

import resource
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gossip import folder as run_folder
from gossip.config import to_tables
from gossip.monitor import LEVELS, LIPSCHITZ
from gossip.progress import ProgressLine
from gossip.study import Study
from gossip.trace import Trace
from gossip.train import COLUMNS, Outcome, Rows
from topologies import certificate

WARM = "warmup_end/"
"""Columns of the trace that say when a layer's warm-up ended, in steps."""


class Record:
    """The folder of one run on process 0; on all others it does nothing.

    Whatever happens, the folder can be read: config.toml is there before the first step, the
    trace to its last whole batch, and without summary.json a run counts as interrupted.
    """

    def __init__(self, study: Study, algorithm: str, path: Path) -> None:
        self._study, self._algorithm, self._path = study, algorithm, path
        self._writes = study.comm.process == 0
        self._best: dict[str, tuple[float, int]] = {}
        self._initial_loss: float | None = None
        self._newest: dict[str, float] = {}
        self._facts = run_folder.facts() if self._writes else {}
        self._certificate = certificate(study.topology).as_dict() if self._writes else {}
        self._facts["created"] = time.strftime("%Y-%m-%dT%H:%M:%S%z")
        self._closed = False

    def __enter__(self) -> "Record":
        if self._writes:
            run_folder.create(self._path)
            run_folder.write_config(self._path, self._tables())
            columns = (*COLUMNS, *LEVELS["full"], *LIPSCHITZ, *self._study.rule.columns)
            self._trace = Trace(self._path, columns)
            self._progress = ProgressLine(self._algorithm, self._study.steps)
            self._progress.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        if self._writes:
            self._progress.__exit__(*exception)
            self._trace.close()
            self.last_words()

    def rows(self, rows: Rows) -> None:
        """Take in the newest rows of the trace."""
        if self._writes:
            self._trace.append(rows)
            self._follow(rows)
            self._progress.show(rows)

    def last_words(self) -> None:
        """Write a summary of a run that is being ended before its time; quick, at any moment."""
        if self._writes and not self._closed:
            summary = self._common() | self._known() | {"verdict": "interrupted"}
            run_folder.write_summary(self._path, summary)

    def close(self, outcome: Outcome) -> None:
        """Write the summary of a run that has come to its end."""
        if self._writes:
            run_folder.write_summary(self._path, self._common() | self._known() | _end(outcome))
            self._closed = True

    def _follow(self, rows: Sequence[dict[str, float]]) -> None:
        for row in rows:
            self._newest |= row
            if "train_loss" in row and self._initial_loss is None:
                self._initial_loss = row["train_loss"]
            for name in ("test_error", "validation_error"):
                error = row.get(name)
                if error is not None and (name not in self._best or error < self._best[name][0]):
                    self._best[name] = (error, int(row["step"]))

    def _tables(self) -> dict[str, Any]:
        """config.toml: the config of this run alone, and a [record] that a rerun skips."""
        tables = to_tables(self._study.config)
        dataset = self._study.dataset
        record = {**self._facts, "dataset_source": dataset.source, "dataset_sha256": dataset.sha256}
        return {**tables, "algorithm": self._algorithm, "record": record}

    def _common(self) -> dict[str, Any]:
        study, config = self._study, self._study.config
        return {
            "algorithm": self._algorithm,
            "topology": config.gossip.topology,
            "topology_certificate": self._certificate,
            "model": config.model.model,
            "parameters": study.task.d,
            "learners": study.comm.n,
            "processes": study.comm.processes,
            "backend": type(study.comm).__name__.lower(),
            "seed": config.seed,
            "steps_planned": study.steps,
            "dataset": {
                "name": study.dataset.name,
                "source": study.dataset.source,
                "sha256": study.dataset.sha256,
            },
            **self._facts,
        }

    def _known(self) -> dict[str, Any]:
        """What the trace's newest rows say."""
        best_error, best_step = self._best.get("test_error", (None, None))
        known: dict[str, Any] = {
            "steps": int(self._newest.get("step", -1)) + 1,
            "train_loss": self._newest.get("loss_mean_model", self._newest.get("train_loss")),
            "initial_train_loss": self._initial_loss,
            "test_error": self._newest.get("test_error"),
            "best_test_error": best_error,
            "best_step": best_step,
        }
        if "validation_error" in self._best:
            known["validation_error"] = self._newest["validation_error"]
            best_error, best_step = self._best["validation_error"]
            known |= {"best_validation_error": best_error, "best_validation_step": best_step}
        ends = {k.partition("/")[2]: v for k, v in self._newest.items() if k.startswith(WARM)}
        if ends:
            # A warm-up that has not ended is null.
            known["warmup_end_epochs"] = {
                layer: self._study.sampler.epoch(1) * step for layer, step in ends.items()
            }
        return known


def _end(outcome: Outcome) -> dict[str, Any]:
    verdict = outcome.verdict.as_dict()
    if outcome.interrupted and not outcome.verdict.diverged:
        verdict["verdict"] = "interrupted"
    # ru_maxrss is in KiB on Linux and in bytes on macOS.
    unit = 1 if sys.platform == "darwin" else 1024
    return {
        **verdict,
        **outcome.final,
        "steps": outcome.state.step,
        "wall_seconds": outcome.clock.report(),
        "bytes_sent_per_learner": outcome.bytes_sent_per_learner,
        "messages_per_learner": outcome.messages_per_learner,
        "peak_memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6,
    }
