"""The run folder while a run goes on: process 0 writes its trace, config and summary."""

import resource
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gossip.algorithms.loss_scale import COLUMN as LOSS_SCALE
from gossip.checkpoint import Snapshot
from gossip.config import to_tables
from gossip.config.places import keep_copy
from gossip.loop import growth, step_times, workers
from gossip.loop.evaluation import LEARNERS
from gossip.loop.outcome import COLUMNS, OF_NUMBERS, Outcome, TraceRows
from gossip.monitor import LEVELS, LIPSCHITZ
from gossip.runs.progress_line import RunProgress
from gossip.storage import folder as run_folder
from gossip.study import Study
from gossip.trace import Trace, load
from gossip.trackers import Tracking, close_all, facts_of
from topologies import certificate

WARM = "warmup_end/"
"""Columns of the trace that say when a layer's warm-up ended, in steps."""


class Recorder:
    """Writes the folder of one run on process 0; on all others it does nothing.

    Whatever happens, the folder can be read: config.toml is there before the first step, the
    trace to its last whole batch, and without summary.json a run counts as interrupted.
    """

    def __init__(
        self,
        study: Study,
        algorithm: str,
        path: Path,
        start: Snapshot | None = None,
        *,
        again: bool = False,
        columns: Sequence[str] = (),
    ) -> None:
        """The record of a new run, or of one that goes on.

        Args:
            study: what it is a run of.
            algorithm: its name.
            path: its folder, which a new run must not find in use.
            start: where it goes on, in a folder that is there.
            again: whether the folder may hold what was left of the run before its first
                checkpoint, which is replaced.
            columns: of the trace, beyond those that every run may have.
        """
        self._start, self._again, self._columns = start, again, columns
        self._rows = 0
        self._study, self._algorithm, self.path = study, algorithm, path
        self._writes = study.comm.process == 0
        self._best: dict[str, tuple[float, int]] = {}
        self._initial_loss: float | None = None
        self._newest: dict[str, float] = {}
        self._facts = run_folder.provenance() if self._writes else {}
        self._trackers: list[Tracking] = []
        self._certificate = certificate(study.topology).as_dict() if self._writes else {}
        self._facts["created"] = time.strftime("%Y-%m-%dT%H:%M:%S%z")
        self._closed = False

    def __enter__(self) -> "Recorder":
        if self._writes:
            columns = (*COLUMNS, *LEVELS["full"], *LIPSCHITZ, *self._study.rule.columns)
            if self._study.config.compute.scales_loss:
                columns = (*columns, LOSS_SCALE)
            if self._study.damper is not None:
                columns = (*columns, *growth.COLUMNS)
            if self._study.config.monitoring.single_learners:
                columns = (*columns, *LEARNERS)
            if self._study.config.monitoring.step_times:
                # Of all that began: of those that are lost the trace has what they took before.
                columns = (*columns, *step_times.columns(self._study.config.gossip.learners))
            if self._study.config.damping.samples_per_worker:
                columns = (*columns, workers.COLUMN)
            self._open((*columns, *self._columns))
            about = facts_of(self.path, self._tables())
            self._trackers = [Tracking(n, about) for n in self._study.config.monitoring.log]
            error = OF_NUMBERS if self._study.dataset.are_numbers else "error"
            self._progress = RunProgress(self._algorithm, self._study.steps, error=error)
            self._progress.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        if self._writes:
            self._progress.__exit__(*exception)
            self._trace.close()
            self.last_words()
            close_all(self._trackers)

    def rows(self, rows: TraceRows) -> None:
        """Take in the newest rows of the trace."""
        if self._writes:
            self._trace.append(rows)
            for tracker in self._trackers:
                tracker.rows(rows)
            self._rows += len(rows)
            self._follow(rows)
            self._progress.show(rows)

    def fill(self, step: int) -> None:
        """Give the steps before `step` that have no row yet one that tells nothing of them."""
        first = int(self._newest.get("step", -1)) + 1
        if self._writes and first < step:
            self.rows([{"step": t} for t in range(first, step)])

    def sync(self) -> int:
        """Have the rows so far survive the machine; how many there are."""
        if self._writes:
            self._trace.sync()
        return self._rows

    def last_words(self) -> None:
        """Write a summary of a run that is being ended before its time; quick, at any moment."""
        if self._writes and not self._closed:
            summary = self._common() | self._known() | {"verdict": "interrupted"}
            run_folder.write_summary(self.path, summary)

    def close(self, outcome: Outcome) -> None:
        """Write the summary of a run that has come to its end."""
        if self._writes:
            run_folder.write_summary(self.path, self._common() | self._known() | _end(outcome))
            self._closed = True

    def _open(self, columns: Sequence[str]) -> None:
        if self._start is None:
            # Killed at its very beginning, a run has left anything or nothing here.
            (run_folder.make if self._again else run_folder.create)(self.path)
            (self.path / run_folder.SUMMARY).unlink(missing_ok=True)
            run_folder.write_config(self.path, self._tables())
            keep_copy(self._study.config, self.path)
            self._trace = Trace(self.path, columns)
            return
        self._rows = int(self._start.facts["trace_rows"])
        self._trace = Trace(self.path, columns, keep=self._rows)
        (self.path / run_folder.SUMMARY).unlink(missing_ok=True)
        run_folder.write_config(self.path, self._tables_of_continuation(self._start.step))
        for row in load(self.path).to_pylist():
            self._follow([{name: value for name, value in row.items() if value is not None}])

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
        if dataset.are_numbers:
            record["error"] = OF_NUMBERS
        return {**tables, "algorithm": self._algorithm, "record": record}

    def _tables_of_continuation(self, step: int) -> dict[str, Any]:
        """config.toml with the options of now, and what was recorded at the beginning."""
        then = run_folder.read_config(self.path).get("record", {})
        resumed = [*then.get("resumed", []), {"step": step, **self._facts}]
        return {**self._tables(), "record": {**then, "resumed": resumed}}

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
            "backend": study.comm.backend,
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
        newest = list(self._newest.items())  # a thread's last words come while rows are added
        ends = {k.partition("/")[2]: v for k, v in newest if k.startswith(WARM)}
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
        **_faults(outcome),
        "steps": outcome.state.step,
        "wall_seconds": outcome.clock.report(),
        "bytes_sent_per_learner": outcome.bytes_sent_per_learner,
        "messages_per_learner": outcome.messages_per_learner,
        "peak_memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6,
    }


def _faults(outcome: Outcome) -> dict[str, Any]:
    """What happened to the run on its way; nothing where nothing did."""
    found: dict[str, Any] = {}
    if outcome.first_skip is not None:
        found["skipped_steps_per_learner"] = outcome.skips
        found["first_skipped_step"] = outcome.first_skip
    if outcome.failure:
        found["failure"] = outcome.failure[1]
    if outcome.resumed_at:
        found["resumed_at"] = outcome.resumed_at
    if outcome.lost_at:
        found["lost_at"] = outcome.lost_at
    return found
