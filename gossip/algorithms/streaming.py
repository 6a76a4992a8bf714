r"""Rounds whose messages are not all of the model at once, or not all of this round.

Streaming DiLoCo averages a fragment of the model at a time, and lets the average arrive some steps
later; eager updates use at once what a learner knows, and of the others what they did a round ago.
"""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from gossip.algorithms import pattern as phases
from gossip.algorithms.base import Rows
from gossip.algorithms.bounds import share_at_most_one
from gossip.algorithms.outer import DiLoCo, Met, Now
from gossip.errors import UserError


@dataclass(frozen=True)
class Streaming(DiLoCo):
    r"""Streaming DiLoCo: `DiLoCo` by fragments of the model, each at its time and some steps late.

    Fragment p of P ends its rounds after steps t = H + pH/P, 2H + pH/P, ...; tau steps later

    .. math::
        \bar\Delta_p = \theta_p - \frac1n \sum_j x_{j,p}(t), \qquad
        v_p \leftarrow \mu v_p + \bar\Delta_p, \qquad
        \theta_p \leftarrow \theta_p - \eta (\bar\Delta_p + \mu v_p), \qquad
        x_{j,p} \leftarrow (1 - a) \theta_p + a\, x_{j,p}(t + \tau)

    Fragments are equal stretches of the row of weights, so that no message is above 1/P of it. With
    P = 1, tau = 0, a = 0 it is DiLoCo; with a = 1 learners do not hear of each other.

    - sent: an average of 1/P row over all learners every H/P steps. It leaves when the fragment's
      round ends, travels during the tau steps, and is waited for behind them
    - state: theta and v, the same rows for all, and the weights that are under way
    - invariant: theta the same for all at all times
    - W plays no part
    - defaults: a = 0.5 (the authors'), tau = 1 (of their 1 to 5), P = 4 (ours), the rest DiLoCo's

    Reference: Douillard et al., "Streaming DiLoCo with overlapping communication: towards a
    distributed free lunch", 2025, arXiv 2501.18512.
    """

    fragments: int = 4
    """P; it divides H."""
    delay: int = 1
    """tau, below H/P: steps from the end of a fragment's round to its outer step."""
    merge: float = 0.5
    """a, in [0, 1]: what a learner keeps of its own weights."""
    moments: str = field(default="local", init=False)

    def __post_init__(self) -> None:
        """Refuse what cannot be run."""
        super().__post_init__()
        if self.fragments < 1 or self.every % self.fragments:
            raise UserError(
                f"fragments={self.fragments}: they do not divide a round of every={self.every} "
                "steps; give 1 or another divisor of it"
            )
        if not 0 <= self.delay < self._apart:
            raise UserError(
                f"delay={self.delay}: one fragment is under way at a time, so it is from 0 to "
                f"{self._apart - 1}, below every/fragments"
            )
        share_at_most_one("merge", self.merge)

    @property
    def _apart(self) -> int:
        """Steps from one fragment's end of a round to the next one's."""
        return self.every // self.fragments

    @property
    # pyrefly: ignore[bad-override]
    def pattern(self) -> phases.Pattern:
        """A gradient, and sometimes an average of a fragment that began some steps before."""
        fragment = phases.Late(self.delay, phases.Mean(1 / self.fragments))
        before = self.every - self._apart + self.delay
        return (phases.LocalGradient(), phases.Every(self._apart, fragment, after=before))

    def check(self, d: int) -> None:
        """Refuse more fragments than numbers.

        Raises:
            UserError: there are.
        """
        if self.fragments > d:
            raise UserError(f"fragments={self.fragments} of a model of {d} numbers: give fewer")

    def start(self, x: Tensor) -> Rows:
        """Nothing is under way."""
        return {**super().start(x), "under_way": torch.zeros_like(x)}

    def meet(self, now: Now) -> Met:
        """Put a fragment under way, and take the outer step of one whose time has come."""
        x, rows, pending = now.x, now.rows, now.pending
        if (part := self._fragment(now.t, x)) is not None:
            own = x[:, part].contiguous()
            rows = {**rows, "under_way": _with(rows["under_way"], part, own)}
            pending = now.comm.start_mean(own)
        if (part := self._fragment(now.t - self.delay, x)) is None:
            return Met(x, rows, pending)
        if pending is None:
            pending = now.comm.start_mean(rows["under_way"][:, part].contiguous())
        agreed = pending()
        theta, v = rows["anchor"], rows["momentum"]
        after, moved = self.outer(agreed, theta[:, part], v[:, part], now.lr)
        kept = {"anchor": _with(theta, part, after), "momentum": _with(v, part, moved)}
        nothing = torch.zeros_like(after)
        kept["under_way"] = _with(rows["under_way"], part, nothing)
        return Met(_with(x, part, torch.lerp(after, x[:, part], self.merge)), kept)

    def _fragment(self, t: int, x: Tensor) -> slice | None:
        """The columns whose round ends after t steps."""
        turn, rest = divmod(t, self._apart)
        if rest or turn < self.fragments:
            return None
        p, d = turn % self.fragments, x.shape[1]
        return slice(p * d // self.fragments, (p + 1) * d // self.fragments)


def _with(rows: Tensor, part: slice, values: Tensor) -> Tensor:
    """Rows with other values in some columns."""
    changed = rows.clone()
    changed[:, part] = values
    return changed


@dataclass(frozen=True)
class Eager(DiLoCo):
    r"""DiLoCo with eager updates: a learner's own part of this round, the others' of the last.

    .. math::
        \tilde\Delta_j = \tfrac1n \Delta_j(r) + \tfrac1n \sum_{k \ne j} \Delta_k(r - 1), \qquad
        v_j \leftarrow \mu v_j + \tilde\Delta_j, \qquad
        \theta_j \leftarrow \theta_j - \eta (\tilde\Delta_j + \mu v_j)

    What the others did has a whole round to arrive; in the first round there is the own part alone.
    Learners' theta differ, unlike with a delay for all parts. Alone it is DiLoCo.

    - sent: an average of one row over all learners every H steps, which travels during the next
      round and is waited for behind it
    - state: theta, v, and the own part of the last round, which is under way
    - W plays no part
    - defaults: DiLoCo's

    Reference: Kale, Douillard, Donchev, "Eager updates for overlapped communication and computation
    in DiLoCo", 2025, arXiv 2502.12996.
    """

    moments: str = field(default="local", init=False)

    @property
    # pyrefly: ignore[bad-override]
    def pattern(self) -> phases.Pattern:
        """A gradient, and sometimes an average that began a round before."""
        others = phases.Late(self.every, phases.Mean())
        return (phases.LocalGradient(), phases.Every(self.every, others, after=self.every))

    def start(self, x: Tensor) -> Rows:
        """Nothing is known of the others."""
        return {**super().start(x), "under_way": torch.zeros_like(x)}

    def meet(self, now: Now) -> Met:
        """At the end of a round hear of the others' last one, and send this one."""
        if now.t % self.every:
            return Met(now.x, now.rows, now.pending)
        theta, v = now.rows["anchor"], now.rows["momentum"]
        delta = theta - now.x
        agreed = theta - (delta / now.comm.n + self._others(now))
        after, v = self.outer(agreed, theta, v, now.lr)
        kept = {"anchor": after, "momentum": v, "under_way": delta}
        return Met(after, kept, now.comm.start_mean(delta))

    def _others(self, now: Now) -> Tensor:
        """What the others did in the last round, 1/n of their sum, [local, d]."""
        own = now.rows["under_way"]
        if now.t == self.every:
            return own  # nothing: there was none
        pending = now.pending or now.comm.start_mean(own)
        return pending() - own / now.comm.n
