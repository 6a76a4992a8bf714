"""The monitor in a user's own script: the harness's formulas, on what the script gives."""

import warnings
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from gossip.comm.base import Communicator
from gossip.comm.startup.together import agree, on_all
from gossip.errors import UserError, one_of
from gossip.monitor import LEVELS, LIPSCHITZ, GradientWindow, Moment, Values, names_of
from gossip.monitor.decomposition import noise_split
from gossip.monitor.effective_rate import MeanModelGradient
from gossip.monitor.kept import ROUND_RATE, kept_values, round_rate
from gossip.monitor.monitor import larger, rate_values, smoothness_values, spread_values
from gossip.monitor.spread import MeanModel, mean_model, spread
from gossip.wrapper import curvature, own_gradients
from gossip.wrapper.mean_loss import warn_of_a_sum
from gossip.wrapper.mesh import Meshed
from gossip.wrapper.module import Gossip
from gossip.wrapper.probing import Loss, ProbeBatches, Replay
from gossip.wrapper.watching import StepCopy


class ScriptMonitor:
    """Measures a step that was seen, together with the other processes.

    Args:
        model: whose steps they are.
        level: one of `gossip.monitor.LEVELS`, or None: what is given decides, without Hessians.
        probe: each learner's own samples.
        loss: the mean loss of a batch.
        whole: whether all probes together are the training set.

    Raises:
        UserError: on all processes: these do not go together.
    """

    def __init__(
        self,
        model: Gossip,
        level: str | None,
        probe: Iterable[Any] | None,
        loss: Loss | None,
        *,
        whole: bool,
    ) -> None:
        self._comm, self._weights = model.comm, model._exchange.weights
        self._order = model._rounds.order
        on_all(self._comm, lambda: _check(level, probe, loss, whole))
        agree(self._comm, {"record": f"monitor={level} probe={probe is not None} whole={whole}"})
        self._given: tuple[Replay, ProbeBatches] | None = None
        if probe is not None and loss is not None:
            self._given = Replay(model.module, self._weights, loss), ProbeBatches(probe, whole)
            if not isinstance(self._comm, Meshed):
                warn_of_a_sum(*self._given, self._comm.process)
        self.level = level
        self.splits = probe is not None and level != "standard"
        """Whether a step's batches tell it something."""
        self._flat = _flat_spread(model)
        self._window = GradientWindow()
        self._missed = False
        if self._given is not None and level == "full":
            on_all(self._comm, partial(curvature.check, *self._given))

    @property
    def columns(self) -> tuple[str, ...]:
        """Of all levels, in order: those of another have no values. Then the method's."""
        of_method = names_of(
            self._order.kept(),
            with_gradient=self._given is not None,
            with_flat=self._flat is not None,
        )
        return (*LEVELS["full"], *LIPSCHITZ, *own_gradients.COLUMNS, *of_method)

    def __call__(self, seen: StepCopy) -> Values:
        """The values at a step, the same on all processes. Collective."""
        comm, moment = self._comm, self._moment(seen)
        mean = mean_model(moment, comm)
        distances = spread(moment, mean, comm)
        known = self._known(seen)
        g, g_s = self._at_the_mean(mean.weights, known)
        short, along, g_s = _of_the_whole(comm, mean, g, g_s)
        values = spread_values(moment, distances, short, comm.n, self._weights.d)
        values |= own_gradients.own_rate(seen.increments, seen.gradients, comm)
        values |= kept_values(moment, comm)
        largest = distances.largest_gradient
        if along is not None:
            values |= rate_values(seen.lr, short, along)
            largest = larger(largest, values["grad_norm"])
            if g_s is not None:
                values |= noise_split(seen.lr, short.gradient, g_s, along)
        if g is not None:
            values |= self._more(moment, mean.weights, g, known, apart=distances.points != 0)
        values = comm.share(values)[0]
        return values | smoothness_values(self._window, seen.t, largest, values)

    def _moment(self, seen: StepCopy) -> Moment:
        """What the harness's monitor would be shown of the step. Collective."""
        nothing = torch.empty(1, 0)
        plain = self._flat is not None and all(self._comm.share(seen.plain))
        return Moment(
            step=seen.t,
            lr=seen.lr,
            x=seen.x,
            points=seen.x,
            gradients=seen.gradients,
            mixed=seen.mixed,
            x_next=seen.x_next,
            inputs=nothing,
            labels=nothing,
            kept=seen.kept,
            flat_spread=self._flat if plain else None,
        )

    def _known(self, seen: StepCopy) -> Sequence[Any]:
        """The step's mini-batches, if all learners know theirs; else none. Collective."""
        if not self.splits or all(self._comm.share(bool(seen.batches))):
            return seen.batches
        if self.level == "full" and not self._missed:
            self._missed = True
            if self._comm.process == 0:
                warnings.warn(
                    f"record(monitor='full'): step {seen.t} has no parts of Delta, whose "
                    "mini-batches are not known on all learners: walk through "
                    "recording.batches(loader)",
                    stacklevel=2,
                )
        return []

    def _at_the_mean(
        self, w_a: Tensor, batches: Sequence[Any]
    ) -> tuple[MeanModelGradient | None, Tensor | None]:
        """With a probe g; with batches g_S, too. Collective."""
        if self._given is None:
            return None, None
        replay, probe = self._given
        g = replay.gradient(w_a, probe, self._comm)
        return g, replay.mean_gradient(w_a, batches, self._comm) if batches else None

    def _more(
        self,
        moment: Moment,
        w_a: Tensor,
        g: MeanModelGradient,
        batches: Sequence[Any],
        *,
        apart: bool,
    ) -> Values:
        """What else a probe tells: of rounds, and at the full level of curvature. Collective."""
        if self._given is None:
            return {}
        (replay, probe), comm, lr = self._given, self._comm, moment.lr
        values = {"g_is_probe": float(not probe.whole)}
        if "anchor" in moment.kept:
            at = partial(replay.gradient, probe=probe, comm=comm)
            values[ROUND_RATE] = round_rate(moment, w_a, g, at, comm)
        if self.level != "full":
            return values
        values["hessian_samples"] = float(g.samples)
        values |= curvature.lipschitz(replay, w_a, g, probe, comm)
        own, both = moment.x[0].double() - w_a, (replay, lr, w_a)
        # Of learners in one place it makes nothing of Delta: all processes know that they are.
        by_h = curvature.delta2_hessian(*both, own, probe, comm) if apart else 0.0
        values["delta2_hessian"] = by_h
        if batches:
            by_batch = curvature.delta2_hessian_minibatch(*both, own, batches, comm) if apart else 0
            values["delta2_hessian_minibatch"] = float(by_batch)
        return values


def _check(level: str | None, probe: Iterable[Any] | None, loss: Loss | None, whole: bool) -> None:
    """Raises UserError for what does not go together."""
    if loss is not None and not callable(loss):
        raise UserError("loss= is no function: give one of (module, batch), the mean loss")
    if (probe is None) != (loss is None):
        there, missing = ("probe", "loss") if loss is None else ("loss", "probe")
        raise UserError(
            f"record({there}=...) without {missing}=: alpha_e needs both, a loader of batches and "
            "a function (module, batch) -> mean loss"
        )
    if probe is not None and (not isinstance(probe, Iterable) or isinstance(probe, Iterator)):
        raise UserError(
            f"probe= is a {type(probe).__name__}, which can be walked through once at most: give a "
            "loader or a list of batches"
        )
    if whole and probe is None:
        raise UserError("whole=True says what the probe is: give probe= and loss=, too")
    if level is None:
        return
    one_of(LEVELS, level, "monitor level")
    if level == "cheap" and probe is not None:
        raise UserError(
            "monitor='cheap' takes no gradients but the learners' own: leave probe= and loss= "
            "away, or use monitor='standard'"
        )
    if level != "cheap" and probe is None:
        raise UserError(
            f"monitor={level!r} measures gradients at the mean model: give probe= and loss=, too"
        )


def _of_the_whole(
    comm: Communicator, mean: MeanModel, g: MeanModelGradient | None, g_s: Tensor | None
) -> tuple[MeanModel, MeanModelGradient | None, Tensor | None]:
    """The same with vectors that have the inner products of whole ones. Collective.

    Where a learner has several processes, each has a part of all vectors.
    """
    if not isinstance(comm, Meshed):
        return mean, g, g_s
    parts = [mean.displacement, mean.gradient, None if g is None else g.vector, g_s]
    short = iter(comm.coordinates(torch.stack([part for part in parts if part is not None])))
    mean = mean._replace(displacement=next(short), gradient=next(short))
    if g is not None:
        g = g._replace(vector=next(short))
    return mean, g, None if g_s is None else next(short)


def _flat_spread(model: Gossip) -> float | None:
    """As `gossip.loop.flat`: of plain SGD, which each step tells, and the same W at every step."""
    formula, exchange = model._rounds.order.flat_spread, model._exchange
    if formula is None or (exchange.topology.period, exchange.mix_every) != (1, 1):
        return None
    return formula(exchange.topology.matrix(0))
