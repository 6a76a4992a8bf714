"""The section of the config that makes the learning rate and the optimizer."""

from dataclasses import dataclass
from typing import Annotated

from tyro.conf import arg

from gossip.config.fields import at_least, names, not_negative
from gossip.errors import UserError, one_of
from gossip.optim import OPTIMIZERS
from gossip.rates import DECAYS, LAYER_RATIOS, SCALINGS, WARMUPS, layer_ratio


@dataclass(frozen=True, kw_only=True)
class Rate:
    """How fast it learns: learning rate = lr x scaling x warm-up x decay x layer ratio."""

    lr: float = 1.5
    """Base learning rate alpha."""
    scaling: Annotated[str, names(SCALINGS)] = "none"
    """What the larger batch multiplies it by: linear, K; sqrt, its root; adascale, the gain of the
    whole gradient; lena, the variance of each layer's own."""
    scaling_options: tuple[str, ...] = ()
    """adascale: progress=tau average= first=; lena: clip= share= share_seed= granularity= epsilon=
    average= clipped_state=."""
    baseline_batch: Annotated[int | None, arg(metavar="INT")] = None
    """B_0, the total batch that --lr belongs to, so that K = n B / B_0 (default: one learner's)."""
    warmup: Annotated[str, names(WARMUPS)] = "none"
    """fixed: linear in time; state-aware: as fast as the gradient variances add up; legw: linear
    over K times the baseline's epochs."""
    warmup_steps: Annotated[int | None, arg(metavar="INT")] = None
    """Length of the warm-up in steps ..."""
    warmup_epochs: Annotated[float | None, arg(metavar="FLOAT")] = None
    """... or in epochs (legw: those of the baseline) ..."""
    warmup_share: Annotated[float | None, arg(metavar="FLOAT")] = None
    """... or as a share of the run (default: fixed 0.055; state-aware 0.05, its alpha)."""
    warmup_options: tuple[str, ...] = ()
    """fixed: start=0 (default: from the unscaled rate); state-aware: accumulate=after; legw:
    shape=quadratic."""
    decay: Annotated[str, names(DECAYS)] = "constant"
    """How the rate falls over the run's budget of steps."""
    decay_at: tuple[float, ...] = (0.5, 0.75)
    """step decay: milestones, each a share of the budget."""
    decay_factor: Annotated[float | None, arg(metavar="FLOAT")] = None
    """step: factor at each milestone (default 0.1); exponential, cosine and polynomial: factor at
    the end of the budget (default 0.01, 0 and 0)."""
    decay_options: tuple[str, ...] = ()
    """polynomial: power=2; roller-coaster: min_lr= reference=paper-example."""
    lr_trace: Annotated[str | None, arg(metavar="FOLDER")] = None
    """In the decay's place: the recorded effective rate alpha_e of the run in this folder."""
    lr_trace_window: int = 1
    """alpha_e over so many steps on either side, weighted by ||g||^2; 1: of each step alone."""
    layer_ratio: Annotated[str, names(LAYER_RATIOS)] = "off"
    """Multiply each layer's rate by ||w|| / ||g|| within limits: fixed, or quantiles of them."""
    layer_ratio_limits: Annotated[tuple[float, float] | None, arg(metavar="LOWER UPPER")] = None
    """Limits of the layer ratio (default: fixed 0.1 10; quantile 0.1 0.9)."""
    optimizer: Annotated[str, names(OPTIMIZERS)] = "sgd"
    """Optimizer of torch.optim, or lars, larc, lamb, muon; acts on each learner's own weights."""
    momentum: Annotated[float | None, arg(metavar="FLOAT")] = None
    """Momentum of sgd (default 0), nesterov, lars and larc (0.9), muon (0.95), rmsprop (0)."""
    weight_decay: Annotated[float | None, arg(metavar="FLOAT")] = None
    """Weight decay lambda, at the learner's own weights (default 0; lars 1e-4)."""
    optimizer_options: tuple[str, ...] = ()
    """Further arguments of the optimizer as key=value, for example eps=1e-6."""

    def __post_init__(self) -> None:
        """Refuse what cannot be run."""
        one_of(SCALINGS, self.scaling, "scaling")
        one_of(WARMUPS, self.warmup, "warm-up")
        one_of(DECAYS, self.decay, "decay")
        one_of(OPTIMIZERS, self.optimizer, "optimizer")
        layer_ratio(self.layer_ratio, self.layer_ratio_limits)
        not_negative(
            lr=self.lr,
            weight_decay=self.weight_decay or 0.0,
            momentum=self.momentum or 0.0,
            decay_factor=self.decay_factor or 0.0,
            warmup_epochs=self.warmup_epochs or 0.0,
        )
        for name in ("warmup_steps", "baseline_batch"):
            if (value := getattr(self, name)) is not None:
                at_least(1, **{name: value})
        at_least(1, lr_trace_window=self.lr_trace_window)
        if self.lr_trace is not None and self.decay != "constant":
            raise UserError(
                f"--lr-trace and --decay {self.decay} both say how the rate goes on: give one"
            )
        self._check_lengths()
        for share in self.decay_at:
            if not 0 <= share <= 1:
                raise UserError(f"decay_at={share}: a milestone is a share of the run, in [0, 1]")

    def _check_lengths(self) -> None:
        lengths = ("warmup_steps", "warmup_epochs", "warmup_share")
        given = [name for name in lengths if getattr(self, name) is not None]
        if len(given) > 1:
            raise UserError(f"{' and '.join(given)} say the same in two units: give one of them")
        if self.warmup_share is not None and not 0 < self.warmup_share <= 1:
            raise UserError(
                f"warmup_share={self.warmup_share}: it is a share of the run, in (0, 1]"
            )
