r"""How smooth averaging over the learners' deviations makes the loss (Theorem 1).

.. math:: l_s \le \frac{2 G}{\sigma_w}

The loss averaged over N(0, sigma_w^2 I) has a gradient with Lipschitz constant l_s, if the loss
itself has the Lipschitz constant G. G is unknown; the largest gradient norm seen lately stands in
for it, a lower estimate, and so is `ls_est`.

Reference: arXiv 2112.01433, Theorem 1 and the remark after it.
"""

from math import inf, isfinite, sqrt


class GradientWindow:
    """The largest gradient norm of the last steps, G^: a lower estimate of the Lipschitz constant.

    Only steps that were monitored count, and steps that were not finite are not remembered.

    Args:
        length: steps that count, including the present one.
    """

    def __init__(self, length: int = 100) -> None:
        self.length = length
        self.seen: list[tuple[int, float]] = []
        """(step, largest norm) of the monitored steps in the window: all its state."""

    def update(self, step: int, norm: float) -> float:
        """The bound as of this step, with its largest norm; NaN or infinity as long as that is."""
        if not isfinite(norm):
            return norm
        self.seen = [(t, v) for t, v in self.seen if step - self.length < t < step]
        self.seen.append((step, norm))
        return max(v for _, v in self.seen)


def ls_est(gradient_bound: float, sigma_w2_coord: float) -> float:
    """2 G^ / sigma_w, sigma_w per coordinate; infinity where sigma_w = 0: nothing is smoothed."""
    return 2 * gradient_bound / sqrt(sigma_w2_coord) if sigma_w2_coord != 0 else inf


def lr_max(gradient_bound: float, sigma_w2_coord: float) -> float:
    """1 / `ls_est`; 0 where sigma_w = 0, which says "no smoothing" and is no order to stop."""
    if sigma_w2_coord == 0:
        return 0.0
    return sqrt(sigma_w2_coord) / (2 * gradient_bound) if gradient_bound != 0 else inf
