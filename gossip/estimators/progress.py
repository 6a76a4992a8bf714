"""How far training is, in the terminal."""

from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from skorch.callbacks import Callback


class ProgressLine(Callback):
    """One line on the terminal: epochs done, batch size, workers, loss, time left.

    Nothing is drawn where standard error is no terminal.
    """

    def on_train_begin(self, net: Any, X: Any = None, y: Any = None, **kwargs: Any) -> None:
        """Draw the line."""
        self.progress_ = Progress(
            TextColumn("epoch {task.fields[epoch]:.1f}/{task.total:g}"),
            BarColumn(bar_width=20),
            TextColumn("batch {task.fields[batch]}  workers {task.fields[workers]}"),
            TextColumn("loss {task.fields[loss]:.4g}"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
            disable=not Console(stderr=True).is_terminal,
        )
        self.begun_ = net.meta_["epochs"]
        self.task_ = self.progress_.add_task(
            "", total=net.epochs_asked_, epoch=0.0, batch="-", workers="-", loss=float("nan")
        )
        self.progress_.start()

    def on_batch_end(self, net: Any, batch: Any = None, training: Any = None, **kw: Any) -> None:
        """Move on."""
        if training:
            done = net.meta_["epochs"] - self.begun_
            self.progress_.update(
                self.task_,
                completed=done,
                epoch=done,
                batch=net.meta_["batch_size_"],
                workers=net.meta_["n_workers"],
                loss=float(kw["loss"]),
            )

    def on_train_end(self, net: Any, X: Any = None, y: Any = None, **kwargs: Any) -> None:
        """Take the line away."""
        self.progress_.stop()
        del self.progress_  # holds locks, and callbacks are pickled with the estimator
