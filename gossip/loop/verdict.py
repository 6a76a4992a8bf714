"""Converged or diverged: one rule for all algorithms; see docs/mathematics.md#verdict."""

import math
from collections.abc import Iterable, Mapping
from typing import Any

LOSS_FACTOR = 3.0
"""A run whose loss stays above this many times its first value has diverged, ..."""
PATIENCE_STEPS = 50
"""... if for this many steps in a row, or at the end."""
CONSTANT_PREDICTOR_BAND = 0.01
"""A final loss within this share of ln C is that of a model that has forgotten its input."""

_STATE = ("_first", "_high", "_lost", "hopeless", "reason", "step")


class Verdict:
    """Follows the mean mini-batch loss and says whether, when and why a run diverged.

    A run diverges when its loss is not finite, exceeds 3 times its first value for 50 steps in
    a row or at the end, or ends within 1 % of the constant predictor's: ln C of cross-entropy, the
    labels' variance of mean squares. Anything else is called converged, however poor the model:
    read the test error beside it. `hopeless` is True once a loss was not finite: no further step
    can mend that.

    Args:
        num_classes: C; None where the loss is no cross-entropy.
        variance: of the training labels; None where the loss is no mean square.
        patient: whether steps that are not finite are left out of the run: then only 50 in a row
            are hopeless.
    """

    def __init__(
        self, num_classes: int | None, *, variance: float | None = None, patient: bool = False
    ) -> None:
        self._constant_loss = math.log(num_classes) if num_classes else math.nan
        self._constant = "ln C"
        if variance is not None:
            self._constant_loss, self._constant = variance, "the labels' variance"
        self._patience = PATIENCE_STEPS if patient else 1
        self._first: float | None = None
        self._high = 0
        self._lost = 0
        self.hopeless = False
        self.reason: str | None = None
        self.step: int | None = None

    @property
    def diverged(self) -> bool:
        """Whether the run is known to have diverged."""
        return self.reason is not None

    def follow(self, steps: Iterable[int], losses: Iterable[float]) -> None:
        """Take in the losses of the next steps."""
        for step, loss in zip(steps, losses, strict=True):
            finite = math.isfinite(loss)
            self._lost = 0 if finite else self._lost + 1
            if self._lost >= self._patience:
                self.hopeless = True
                self._mark(step, "the training loss is not finite")
            if not finite:
                continue
            self._first = loss if self._first is None else self._first
            self._high = self._high + 1 if loss > LOSS_FACTOR * self._first else 0
            if self._high >= PATIENCE_STEPS:
                self._mark(
                    step,
                    f"the training loss was over {LOSS_FACTOR:g} times its first value for "
                    f"{PATIENCE_STEPS} steps",
                )

    def fail(self, step: int, reason: str) -> None:
        """Take note of what ended the run."""
        self._mark(step, reason)

    def end(self, step: int, loss: float) -> None:
        """Judge the loss of the final model on the training set."""
        if not math.isfinite(loss):
            self._mark(step, "the training loss is not finite")
        elif self._first is not None and loss > LOSS_FACTOR * self._first:
            self._mark(
                step, f"the final loss {loss:.4g} is over {LOSS_FACTOR:g} times the first value"
            )
        elif abs(loss - self._constant_loss) <= CONSTANT_PREDICTOR_BAND * self._constant_loss:
            self._mark(
                step,
                f"the final loss {loss:.4f} is within 1 % of {self._constant}, a constant "
                "predictor's",
            )

    def snapshot(self) -> dict[str, Any]:
        """The state that the judgement of further losses depends on."""
        return {name: getattr(self, name) for name in _STATE}

    def restore(self, facts: Mapping[str, Any]) -> None:
        """Go on from a `snapshot`.

        Raises:
            KeyError: something is missing.
        """
        for name in _STATE:
            setattr(self, name, facts[name])

    def as_dict(self) -> dict[str, object]:
        """The keys of summary.json."""
        return {
            "verdict": "diverged" if self.diverged else "converged",
            "verdict_reason": self.reason,
            "diverged_at_step": self.step,
        }

    def _mark(self, step: int, reason: str) -> None:
        if self.reason is None:
            self.reason, self.step = reason, step
