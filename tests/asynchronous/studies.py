"""Small asynchronous studies on the digits, in float64."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from gossip import asynchronous
from gossip.algorithms import AdPsgd
from gossip.checkpoint import Snapshot
from gossip.comm.base import Communicator
from gossip.comm.stacked import Stacked
from gossip.config import Averaging, Config, Data, Model, Monitoring, Rate
from gossip.config.reliability import Reliability
from gossip.loop.outcome import Outcome, TraceRows
from gossip.study import Study, prepare
from tests.problems import optimizer


def config(n: int, *, lr: float = 0.3, steps: int = 40, every: int = 10, **parts: object) -> Config:
    chosen = Config(
        algorithm=("dpsgd",),
        steps=steps,
        gossip=Averaging(learners=n, topology="complete"),
        data=Data(dataset="digits", batch_size=10),
        model=Model(widths=(12,), dtype="float64"),
        rate=Rate(lr=lr),
        monitoring=Monitoring(monitor="cheap", monitor_every=every),
        reliability=Reliability(straggler_seconds=1.0),
    )
    return replace(chosen, **parts)


def study(chosen: Config, comm: Communicator | None = None, straggler: object = None) -> Study:
    made = prepare(chosen, comm or Stacked(chosen.gossip.learners))
    return replace(made, straggler=straggler) if straggler else made


def walk(made: Study, *, momentum: float = 0.0, **options: object) -> tuple[Outcome, TraceRows]:
    rows: TraceRows = []
    algorithm = AdPsgd(optimizer("sgd", made.task.layers, momentum=momentum))
    outcome = asynchronous.train(made, algorithm, record=rows.extend, **options)
    return outcome, rows


def column(rows: TraceRows, name: str) -> list[float]:
    return [row[name] for row in rows if name in row]


@dataclass(frozen=True)
class Speeds:
    """A straggler model: a constant factor for each learner."""

    factors: tuple[float, ...]

    def factor(self, learner: int, t: int) -> float:
        return self.factors[learner]


class Drawer:
    """Keeps the snapshots after some steps, as copies."""

    def __init__(self, *steps: int) -> None:
        self.steps, self.snapshots = steps, {}

    def overdue(self) -> bool:
        return False

    def due(self, step: int) -> bool:
        return step in self.steps

    def save(self, snapshot: Snapshot) -> None:
        def copies(tensors: object) -> dict[str, Tensor]:
            return {name: tensor.clone() for name, tensor in tensors.items()}

        self.snapshots[snapshot.step] = replace(
            snapshot, rows=copies(snapshot.rows), shared=copies(snapshot.shared)
        )


def start_of(made: Study, x: Tensor, *, seconds: float = 0.0) -> Snapshot:
    """A checkpoint of step 0 in which the learners have the weights x [local, d]."""
    drawer = Drawer(1)
    walk(replace(made, steps=1), keep=drawer)
    snapshot = drawer.snapshots[1]
    zeros = {
        name: torch.zeros_like(rows)
        for name, rows in snapshot.rows.items()
        if name.startswith(("tally/", "last/", "in_flight/"))
    }
    now = {"in_flight/x": x, "last/points": x} if "in_flight/x" in zeros else {"last/points": x}
    finish = {"in_flight/finish": torch.full((len(x),), seconds)} if len(now) > 1 else {}
    rows = {**snapshot.rows, **zeros, **now, **finish, "x": x}
    return replace(snapshot, step=0, rows=rows, facts={**snapshot.facts, "observed": 0})
