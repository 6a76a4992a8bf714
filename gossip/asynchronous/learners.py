"""Progress of the hosted learners, each at its own pace: weights, last gradients, counts."""

import time
from collections.abc import Mapping

import torch
from torch import Tensor

from gossip.algorithms import AdPsgd
from gossip.comm.shutdown.failure import Position
from gossip.loop.run_state import Live
from gossip.study import Study

COLUMNS = (
    "staleness_mean",
    "staleness_max",
    "gradients_min",
    "gradients_max",
    "simulated_seconds",
)
"""What AD-PSGD adds to the trace: staleness of the gradients since the last row, gradients per
learner since the start, and where time is simulated, the time of the last gradient."""

SINCE_START = ("gradients", "messages", "lr")
"""Of each learner: gradients applied, rows sent, last learning rate."""
SINCE_ROW = ("losses", "loss_sum", "staleness_sum", "staleness_max", "applied", "skipped")
"""Of each learner since the trace's last row: counted losses and their sum, and so on."""
LAST = ("points", "gradients", "increments")
"""Of each learner's last gradient, [local, d]."""
TALLY, PAST = "tally/", "last/"
"""Before their names in a snapshot."""


class Learners:
    """The hosted learners: weights, last gradients and counts, a row for each.

    A learning-rate rule that needs no norms of all learners has no memory, so one controller
    serves them all.
    """

    def __init__(self, study: Study, algorithm: AdPsgd, live: Live, position: Position) -> None:
        self._study, self._live, self._position = study, live, position
        self.algorithm, self.clock = algorithm, live.outcome.clock
        self.hosted = study.comm.hosted
        self.x = x = live.state.x
        """w_i, [local, d]; written in place."""
        self.last = {"points": x.clone()} | {name: torch.zeros_like(x) for name in LAST[1:]}
        """Where each learner's last gradient was taken, the raw gradient, its increment u_i."""
        self.tally = {
            name: torch.zeros(len(x), dtype=torch.float64) for name in (*SINCE_START, *SINCE_ROW)
        }
        """Name -> [local]."""
        self.tally["lr"].fill_(torch.nan)

    @property
    def failed(self) -> bool:
        """Whether a gradient was not finite and that ends the run."""
        return self._live.failure is not None

    def done(self, i: int) -> int:
        """Gradients that the hosted learner in row i has applied."""
        return int(self.tally["gradients"][i])

    def step(self, i: int, snapshot: Tensor, delay: float = 0.0) -> Tensor:
        """The optimizer's step of row i at `snapshot` [1, d]: the stepped snapshot, [1, d].

        Args:
            i: row of the learner.
            snapshot: its weights when the gradient was begun.
            delay: seconds that the gradient takes longer.
        """
        study, live, k = self._study, self._live, self.done(i)
        self._position.step = k
        inputs, labels = self.batch(i, k)
        buffers = None if live.buffers is None else live.buffers[i : i + 1]
        with self.clock("gradient"):
            if delay > 0:  # to sleep for no time gives the core away, for a millisecond and more
                time.sleep(delay)
            gradients = study.task.gradient(
                snapshot, inputs, labels, buffers=buffers, seeds=self.seeds(i, k)
            )
        with self.clock("optimizer"):
            lr = live.rates.at(min(k, study.steps - 1))(snapshot, gradients)
            optimizer = live.state.optimizer.each[i]
            stepped = optimizer.step(snapshot, gradients.values, lr)
        self.last["points"][i], self.last["gradients"][i] = snapshot[0], gradients.values[0]
        self.last["increments"][i] = stepped[0] - snapshot[0]
        self.tally["lr"][i] = float(torch.as_tensor(lr, dtype=torch.float64).mean())
        self._note(i, float(gradients.losses), optimizer.skipped)
        return stepped

    def applied(self, i: int, staleness: int) -> None:
        """Count a gradient that has been added to row i, so many changes of the row later."""
        tally = self.tally
        tally["gradients"][i] += 1
        tally["applied"][i] += 1
        tally["staleness_sum"][i] += staleness
        tally["staleness_max"][i] = max(staleness, float(tally["staleness_max"][i]))

    def batch(self, i: int, k: int) -> tuple[Tensor, Tensor]:
        """Mini-batch of the k-th gradient of row i: [1, batch, *input_shape], [1, batch]."""
        with self.clock("data"):
            # Learners in different epochs cost shuffles, not correctness.
            indices = self._study.sampler.indices(k)[i : i + 1]
            return self._study.task.train.batch(indices)

    def seeds(self, i: int, k: int) -> tuple[int, ...] | None:
        """Of what the model draws in the k-th gradient of row i, [1]; None: it draws nothing."""
        all_rows = self._study.seeds(k)
        return None if all_rows is None else all_rows[i : i + 1]

    def last_seeds(self) -> tuple[int, ...] | None:
        """Of what the models drew in the last gradients, [local]; None: they drew nothing."""
        own = [self.seeds(i, max(0, self.done(i) - 1)) for i in range(len(self.x))]
        return tuple(seed for seeds in own if seeds is not None for seed in seeds) or None

    def last_batches(self) -> tuple[Tensor, Tensor]:
        """Mini-batches of the last gradients, [local, batch, *input_shape], [local, batch]."""
        batches = [self.batch(i, max(0, self.done(i) - 1)) for i in range(len(self.x))]
        inputs, labels = zip(*batches, strict=True)
        return torch.cat(inputs), torch.cat(labels)

    def forget(self) -> None:
        """Begin to count anew what is counted from row to row of the trace."""
        for name in SINCE_ROW:
            self.tally[name].zero_()

    def rows(self) -> dict[str, Tensor]:
        """What a snapshot holds of this, beyond weights and optimizers."""
        last = {PAST + name: rows for name, rows in self.last.items()}
        return last | {TALLY + name: rows for name, rows in self.tally.items()}

    def restore(self, rows: Mapping[str, Tensor]) -> None:
        """Go on from `rows()` of a run of the same study; `Live` has been restored.

        Raises:
            KeyError, RuntimeError: something is missing or of another shape.
        """
        self.x = self._live.state.x
        for own, prefix in ((self.last, PAST), (self.tally, TALLY)):
            for name, tensor in own.items():
                tensor.copy_(rows[prefix + name])

    def _note(self, i: int, loss: float, skipped: Tensor | None) -> None:
        lost = skipped is not None and bool(skipped.any())
        self.tally["skipped"][i] += lost
        if not lost:
            self.tally["losses"][i] += 1
            self.tally["loss_sum"][i] += loss
        elif self._study.config.reliability.raises and self._live.failure is None:
            self._live.failure = (
                self.done(i),
                (
                    f"gradient {self.done(i)} of learner {self.hosted[i]} is not finite (loss "
                    f"{loss:g}); a smaller --lr or a warm-up may help, --on-nonfinite skip leaves "
                    "such gradients out"
                ),
            )
