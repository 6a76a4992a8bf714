"""The state of a run between two steps, as a snapshot and back."""

from dataclasses import asdict, dataclass, field

import numpy as np
import torch
from torch import Tensor

from gossip.algorithms import Startable, State
from gossip.algorithms.base import Rows
from gossip.algorithms.loss_scale import LossScale
from gossip.checkpoint import Snapshot
from gossip.comm.shutdown.failure import Position
from gossip.data import Sampler
from gossip.errors import UserError
from gossip.loop.clock import Clock
from gossip.loop.flat import flat_spread
from gossip.loop.growth import Growth
from gossip.loop.outcome import SAID, Outcome
from gossip.loop.verdict import Verdict
from gossip.loop.workers import Workers, workers
from gossip.monitor import Monitor
from gossip.rates import Controller
from gossip.study import Study
from gossip.task.loss import CROSS_ENTROPY, MEAN_SQUARE

OPTIMIZER = "optimizer/"
"""Before the names of an optimizer's state in a snapshot."""
METHOD = "method/"
"""Before those of what the method itself keeps of each learner."""
PENDING = ("losses", "skipped", "gradient_seconds")
"""What `Live` keeps of steps that no row of the trace has yet."""


@dataclass
class Live:
    """All that changes while a run goes on.

    Nothing else does: noise, topologies and probes are addressed by the step, batches by the
    samples before it.
    """

    outcome: Outcome
    rates: Controller
    monitor: Monitor
    sampler: Sampler
    """Of the last step; the study's, where batches do not grow."""
    buffers: Tensor | None
    """BatchNorm's running statistics, [local, b]."""
    growth: Growth | None = None
    """Where batches grow."""
    workers: Workers | None = None
    """Where not all processes compute."""
    loss_scale: LossScale | None = None
    """Where losses are scaled, in half precision."""
    flat_spread: float | None = None
    """See `gossip.loop.flat`; it does not change."""
    losses: list[Tensor] = field(default_factory=list)
    """Mini-batch losses of the steps that no row of the trace has yet, [local] each: also where
    one row stands for all, as another process may host them when the run goes on."""
    skipped: list[Tensor] = field(default_factory=list)
    """Which learners those steps left out, [local] each; empty where that cannot be."""
    gradient_seconds: list[Tensor] = field(default_factory=list)
    """What those steps' gradients took, [local] each; empty where that is not wanted."""
    failure: tuple[int, str] | None = None
    """The step at which something happened that ends the run, and a sentence."""

    @property
    def state(self) -> State:
        """Weights, optimizer and number of steps."""
        return self.outcome.state

    def indices(self, t: int) -> np.ndarray:
        """Samples of step t, [local, B]; or those that are this worker's share, [1, c]."""
        if self.workers is not None:
            return self.workers.indices(self.sampler, t)
        return self.sampler.indices(t)


def begin(study: Study, algorithm: Startable, position: Position, start: Snapshot | None) -> Live:
    """A run before its first step, or as it was when `start` was taken; its clock tells `position`.

    Where the run is to be longer than it was then, it goes on.

    Raises:
        UserError: `start` is of another run.
    """
    task, local = study.task, len(study.comm.hosted)
    state = algorithm.init(task.init(study.config.seed), local)
    loss = study.config.model.loss
    classes = study.dataset.num_classes if loss == CROSS_ENTROPY else None
    variance = float(task.variance(task.train).mean()) if loss == MEAN_SQUARE else None
    verdict = Verdict(classes, variance=variance, patient=study.config.skips)
    clock = Clock(lambda phase: setattr(position, "phase", SAID.get(phase, phase)))
    live = Live(
        Outcome(state, verdict, clock),
        Controller(study.rule, study.comm),
        study.make_monitor(),
        study.sampler,
        task.init_buffers(local) if task.has_buffers else None,
        first_growth(study),
        workers(study),
        LossScale() if study.config.compute.scales_loss else None,
        flat_spread(study, algorithm),
    )
    if live.workers is not None:
        study.comm.patient()
    if start is not None:
        _resume(live, start, study, shared=algorithm.shared)
    return live


def first_growth(study: Study) -> Growth | None:
    """The damper before the first step, if there is one."""
    damper = study.damper
    return None if damper is None else Growth(damper, damper.initial, damper.init())


def snapshot(live: Live, study: Study, algorithm: Startable) -> Snapshot:
    """The run as it is, without a copy: tensors are those that it goes on with.

    Args:
        live: between two steps.
        study: what it is a run of.
        algorithm: whose state is one row for all learners, or one each.
    """
    outcome = live.outcome
    numbers, shared = live.rates.snapshot()
    own = {OPTIMIZER + name: rows for name, rows in live.state.optimizer.state_rows().items()}
    own["x"] = live.state.x
    rows = {METHOD + name: each for name, each in live.state.rows.items()}
    rows |= {} if algorithm.shared else own
    shared = shared | (own if algorithm.shared else {})
    if live.buffers is not None:
        rows["buffers"] = live.buffers
    for name in PENDING:
        if pending := getattr(live, name):
            rows[name] = torch.stack(pending, dim=1)
    facts = {
        **numbers,
        "most_steps": study.rule.most_steps,
        "window": live.monitor.window.seen,
        "verdict": outcome.verdict.snapshot(),
        "seconds": outcome.clock.report(),
        "bytes_sent_per_learner": outcome.bytes_sent_per_learner,
        "messages_per_learner": outcome.messages_per_learner,
        "skips": outcome.skips,
        "first_skip": outcome.first_skip,
        "resumed_at": outcome.resumed_at,
        "lost_at": outcome.lost_at,
        "since": study.sampler.since,
        "drawn": study.sampler.drawn,
    }
    if live.growth is not None:
        facts["growth"] = live.growth.facts(live.sampler)
    if live.loss_scale is not None:
        facts["loss_scale"] = asdict(live.loss_scale)
    return Snapshot(step=live.state.step, rows=rows, shared=shared, facts=facts)


def _resume(live: Live, start: Snapshot, study: Study, *, shared: bool) -> None:
    try:
        _restore(live, start, shared=shared)
        if live.growth is not None:
            live.sampler = live.growth.restore(start.facts["growth"], study.sampler)
        live.rates.progress *= float(start.facts["most_steps"]) / study.rule.most_steps
    except (KeyError, TypeError, ValueError, AttributeError, RuntimeError) as error:
        raise UserError(
            f"the checkpoint of step {start.step} is of another run "
            f"({type(error).__name__}: {error})"
        ) from error


def _restore(live: Live, start: Snapshot, *, shared: bool) -> None:
    outcome, facts = live.outcome, start.facts
    own = start.shared if shared else start.rows
    _, x, optimizer, fresh, _ = live.state
    names = [name for name in own if name.startswith(OPTIMIZER)]
    optimizer.restore({name.removeprefix(OPTIMIZER): own[name] for name in names})
    rows = _kept(start, fresh, x.device)
    outcome.state = State(start.step, _like(own["x"], x, "x"), optimizer, rows)
    live.rates.restore(facts, start.shared)
    if live.buffers is not None:
        live.buffers = _like(start.rows["buffers"], live.buffers, "buffers")
    if live.loss_scale is not None:
        live.loss_scale = LossScale(**facts["loss_scale"])
    for name in PENDING:
        setattr(live, name, _columns(start, name, x.device))
    live.monitor.window.seen = [(int(t), float(v)) for t, v in facts["window"]]
    outcome.verdict.restore(facts["verdict"])
    outcome.clock.restore(facts["seconds"])
    outcome.bytes_sent_per_learner = float(facts["bytes_sent_per_learner"])
    outcome.messages_per_learner = float(facts["messages_per_learner"])
    outcome.skips, outcome.first_skip = float(facts["skips"]), facts["first_skip"]
    outcome.resumed_at = [*map(int, facts["resumed_at"])]
    outcome.lost_at = [(int(step), int(n)) for step, n in facts["lost_at"]]


def _kept(start: Snapshot, fresh: Rows, device: torch.device) -> dict[str, Tensor]:
    """Copies of all rows of a method, also of those that it has not from its beginning."""
    rows = {}
    for key, row in start.rows.items():
        if key.startswith(METHOD):
            name = key.removeprefix(METHOD)
            begun = name in fresh
            rows[name] = _like(row, fresh[name], name) if begun else row.to(device, copy=True)
    if missing := sorted(fresh.keys() - rows.keys()):
        raise KeyError(METHOD + missing[0])
    return rows


def _like(tensor: Tensor, other: Tensor, name: str) -> Tensor:
    if tensor.shape != other.shape or tensor.dtype != other.dtype:
        raise ValueError(
            f"{name} is {tensor.dtype} {list(tensor.shape)} there and "
            f"{other.dtype} {list(other.shape)} here"
        )
    return tensor.to(other.device, copy=True)


def _columns(start: Snapshot, name: str, device: torch.device) -> list[Tensor]:
    """[local] of each of the steps that no row of the trace has yet."""
    return list(start.rows[name].T.to(device).contiguous()) if name in start.rows else []
