"""The monitor in a user's own script: a run folder from a loop that is not ours."""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from gossip.comm.startup.together import agree, on_all, on_first
from gossip.errors import UserError, one_of
from gossip.loop.outcome import COLUMNS
from gossip.loop.verdict import Verdict
from gossip.monitor import Values
from gossip.storage import folder as run_folder
from gossip.storage.lock import locked
from gossip.trace import Trace, column, load
from gossip.trackers import TRACKERS, Tracking, close_all, facts_of
from gossip.wrapper.as_config import as_config
from gossip.wrapper.measuring import ScriptMonitor
from gossip.wrapper.mesh import Meshed
from gossip.wrapper.module import Gossip
from gossip.wrapper.probing import Loss, within
from gossip.wrapper.same_tensors import agree_on_copies
from gossip.wrapper.stopwatch import Stopwatch
from gossip.wrapper.watching import Watch

T = TypeVar("T")

NOTED = ("train_loss", "test_loss", "test_error", "validation_loss", "validation_error")
"""What a script may tell of itself, see `Recording.note`."""


def record(
    model: nn.Module,
    out: str | Path,
    *,
    every: int = 50,
    probe: Iterable[Any] | None = None,
    loss: Loss | None = None,
    whole: bool = False,
    monitor: str | None = None,
    log: Sequence[str] = (),
) -> "Recording":
    """Record the run of a wrapped module while a block lasts; every process calls it.

    ::

        with gossip.record(model, "runs/mine", every=50, probe=loader, loss=loss) as recording:
            for x, y in recording.batches(train_loader): ...

    Training is not changed. The folder has trace.arrows, config.toml and summary.json, and
    `gossip.report`, `gossip.simulate` and `gossip.trace.load` read it as any other. What is
    recorded depends on what is given:

    - nothing: sigma_w^2 before and after mixing, consensus distance, gradients, smoothness, the
      noise scale, and alpha_e_own, which sees the optimizer alone (docs/script.md);
    - `probe` and `loss`: alpha_e and Delta, with g at the mean model;
    - the same and `whole=True`, all training samples: these exactly;
    - `batches()` around the training loader: the parts of Delta, too;
    - `monitor="full"`: what the Hessian makes of them, and L(x, g), for n + 2 products with it.

    Args:
        model: a `Gossip`.
        out: the run folder, made here. One that is there is gone on with by a model that has been
            loaded at a step t > 0; its rows from t on are replaced.
        every: steps t = 0, every, 2 every, ... are measured.
        probe: a loader, walked through once per measured step; its batches are what `loss` takes.
            Each learner's has samples of its own; where a learner has several processes, its
            batches are split among them, into equal parts.
        loss: (module, batch) -> the mean loss of the batch, of the module it is given.
        whole: the probes of all learners together are the whole training set.
        monitor: a level as in the harness: "cheap", without a probe; "standard", without parts of
            Delta; "full". None: what is given decides, and takes no second derivatives.
        log: experiment trackers that get the rows too, of `gossip.trackers.TRACKERS`.

    Raises:
        UserError: options that do not fit, or differ between processes; a folder in use; of
            "full", a loss without second derivatives.
    """
    wrapped = getattr(model, "_orig_mod", model)
    if not isinstance(wrapped, Gossip):
        raise UserError(f"record({type(wrapped).__name__}): give the model that Gossip(...) made")
    return Recording(wrapped, Path(out), every, probe, loss, whole, monitor, log)


class Recording:
    """A run that is being recorded; made by `gossip.record`."""

    def __init__(
        self,
        model: Gossip,
        out: Path,
        every: int,
        probe: Iterable[Any] | None,
        loss: Loss | None,
        whole: bool,
        monitor: str | None,
        log: Sequence[str],
    ) -> None:
        self._model, self.path, self._every = model, out, every
        self._comm, self._rounds = model.comm, model._rounds
        self._weights = model._exchange.weights
        on_all(self._comm, lambda: _check(every, log, self._rounds.watch))
        self._monitor = ScriptMonitor(model, monitor, probe, loss, whole=whole)
        agree(self._comm, {"record": f"every={every}"})
        self._clock = Stopwatch(model.traffic)
        self._watch = Watch(self._weights, every, self._clock)
        self._verdict = Verdict(None)
        self._noted: dict[str, list[float]] = {}
        self._newest: Values = {}
        self._best: tuple[float, int] | None = None
        self._trace: Trace | None = None
        self._log, self._trackers = tuple(log), list[Tracking]()
        self._open = ExitStack()
        self._facts: dict[str, Any] = {}

    def __enter__(self) -> "Recording":
        comm = self._comm
        on_first(comm.world if isinstance(comm, Meshed) else comm, self._start)
        self._rounds.watch, self._rounds.measure = self._watch, self._measure
        self._clock.lap("monitor")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the run: with an exception as interrupted, alone; else together with the others."""
        ended = False
        try:
            if error is None:
                with self._model._together("the end of record()"):
                    self._rounds.settle()
                    self._measure()
                    self._write({"step": self._rounds.t, **self._told()})
                ended = True
        finally:
            self._rounds.watch, self._rounds.measure = None, lambda: None
            with self._open:
                if self._trace is not None:
                    self._trace.close()
                    run_folder.write_summary(self.path, self._summary(ended=ended))

    def batches(self, loader: Iterable[T]) -> Iterator[T]:
        """The batches of a training loader, remembered until their step has been measured.

        With them and `loss`, g_S is known: the gradient of the same mini-batches at the mean model,
        and with it Delta_S, Delta^(2) and their cross term. Needs `probe`, too, and no level or
        "full".
        """
        for batch in loader:
            if self._monitor.splits and self._watch.is_due(t := self._rounds.due):
                self._watch.batches.setdefault(t, []).append(batch)
            yield batch

    def note(self, **values: float | Tensor) -> None:
        """Tell of this learner: train_loss at each step, test_error and such when they are known.

        Local; the next row of the trace has the means over those learners that told. Of train_loss
        it has the mean over the steps since the last row; of others the newest.

        Raises:
            UserError: there is no such value to note, or it is not one number.
        """
        for name, value in values.items():
            one_of(NOTED, name, "value to note")
            kept = self._noted.setdefault(name, []) if name == "train_loss" else []
            self._noted[name] = [*kept, _number(name, value)]

    def _start(self) -> None:
        """On process 0: the folder, its lock, config and trace."""
        t = self._rounds.t
        columns = (*COLUMNS, *self._monitor.columns)
        goes_on = t > 0 and (self.path / run_folder.TRACE).is_file()
        if not goes_on:
            held = self.path.iterdir() if self.path.is_dir() else ()
            if any(entry.name != run_folder.LOCK for entry in held):
                raise UserError(
                    f"run folder {self.path} exists already: give record() another, remove it, or "
                    "load the model as it was, to go on with it"
                )
            run_folder.create(self.path)
        with ExitStack() as opened:
            opened.enter_context(locked(self.path))
            self._begin(t if goes_on else 0, columns)
            opened.callback(close_all, self._trackers)
            self._open = opened.pop_all()

    def _begin(self, t: int, columns: Sequence[str]) -> None:
        """Config, trace and trackers in the locked folder, with rows of the steps before t."""
        self._facts = {**run_folder.provenance(), "created": time.strftime("%Y-%m-%dT%H:%M:%S%z")}
        keep = int((column(load(self.path), "step") < t).sum()) if t else 0
        if not t:
            config = as_config(self._model, self._monitor.level, self._every, self._facts)
            run_folder.write_config(self.path, config)
        (self.path / run_folder.SUMMARY).unlink(missing_ok=True)
        self._trace = Trace(self.path, columns, keep=keep)
        about = facts_of(self.path, run_folder.read_config(self.path))
        self._trackers = [Tracking(name, about) for name in self._log]

    def _measure(self) -> None:
        """Measure the step that was copied, if one was. Collective."""
        if self._watch.seen is None:
            return
        self._clock.lap("data")
        seen, self._watch.seen = self._watch.seen, None
        with self._rounds.standing_still():
            if isinstance(self._comm, Meshed):
                agree_on_copies(self._comm, self._weights)
            values = self._monitor(seen)
        seconds = self._clock.training
        row = {"step": seen.t, "seconds": seconds, "lr": seen.lr, "learners": self._comm.n}
        self._write({**row, **self._told(), **self._sent(seen.t), **values})
        self._clock.lap("monitor")

    def _sent(self, t: int) -> Values:
        """What a learner has sent in steps 0 to t, where all of them were made here. Collective."""
        if not self._rounds.from_start:
            return {}
        own = sum(like.shape[1] * like.element_size() for like in self._weights.like)
        here = [self._model.traffic.bytes_sent_per_learner, float(own)]
        sent, row = within(self._comm, torch.tensor(here, dtype=torch.float64)).tolist()
        return {"bytes_sent": sent, "rows_sent": sent / ((t + 1) * row)}

    def _told(self) -> Values:
        """The means over processes of what they have noted since the last row. Collective."""
        own = [float(np.mean(self._noted.get(name, [np.nan]))) for name in NOTED]
        everyone = torch.tensor(self._comm.share(own), dtype=torch.float64)
        told = {name: everyone[:, k] for k, name in enumerate(NOTED)}
        given = self._comm.share(sorted(self._noted))
        self._noted.clear()
        names = {name for names in given for name in names}
        return {name: float(told[name].nanmean()) for name in NOTED if name in names}

    def _write(self, row: Mapping[str, float]) -> None:
        if len(row) == 1:
            return
        if "train_loss" in row:
            self._verdict.follow([int(row["step"])], [row["train_loss"]])
        error = row.get("test_error")
        if error is not None and (self._best is None or error < self._best[0]):
            self._best = (error, int(row["step"]))
        self._newest |= row
        if self._trace is not None:
            self._trace.append([row])
        for tracker in self._trackers:
            tracker.rows([row])

    def _summary(self, *, ended: bool) -> dict[str, Any]:
        verdict = self._verdict.as_dict()
        if not ended and not self._verdict.diverged:
            verdict["verdict"] = "interrupted"
        best_error, best_step = self._best or (None, None)
        exchange = self._model._exchange
        return {
            "algorithm": self._model._algorithm,
            "topology": exchange.topology.name,
            "model": type(self._model.module).__name__,
            "parameters": self._weights.d,
            "learners": self._comm.n,
            "processes": self._comm.processes,
            "backend": self._comm.backend,
            **self._facts,
            **verdict,
            "steps": self._rounds.t,
            **{name: self._newest.get(name) for name in NOTED},
            "best_test_error": best_error,
            "best_step": best_step,
            "wall_seconds": {**self._clock.seconds, "total": sum(self._clock.seconds.values())},
            "bytes_sent_per_learner": self._model.traffic.bytes_sent_per_learner,
            "messages_per_learner": self._model.traffic.messages_per_learner,
        }


def _check(every: int, log: Sequence[str], watch: Watch | None) -> None:
    """Raises UserError for what cannot be."""
    if not isinstance(every, int) or isinstance(every, bool) or every < 1:
        raise UserError(f"every={every!r}: give 1 to measure each step, 50 for every 50th, ...")
    if isinstance(log, str):
        raise UserError(f"log={log!r}: give a list of names, such as [{log!r}]")
    for name in log:
        one_of(TRACKERS, name, "tracker")
    if watch is not None:
        raise UserError("the model is being recorded already: leave that block first")


def _number(name: str, value: Any) -> float:
    try:
        return float(value.detach().double().reshape(()) if isinstance(value, Tensor) else value)
    except (TypeError, ValueError, RuntimeError) as error:
        kind = list(value.shape) if isinstance(value, Tensor) else repr(value)
        raise UserError(f"note({name}=...) of {kind}: give one number") from error
