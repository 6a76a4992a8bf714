"""Learners that go on without a lost one, in a run that records what gradients took."""

from dataclasses import replace

import numpy as np

from gossip import trace
from gossip.comm.stacked import Stacked
from gossip.config import Averaging, Config, Data, Model, Monitoring
from gossip.loop.survivors import without_the_lost
from gossip.runs.job import with_record
from gossip.runs.recorded import train_recorded
from gossip.simulate.replay import recorded
from gossip.study import algorithm, prepare
from gossip.train import train

STEPS, LOST, EVERY = 12, 7, 4
CONFIG = Config(
    algorithm=("dpsgd",),
    steps=STEPS,
    gossip=Averaging(learners=3),
    data=Data(dataset="digits", batch_size=8),
    model=Model(widths=(4,)),
    monitoring=Monitoring(monitor="cheap", monitor_every=EVERY, step_times=True),
)


class KeepAt:
    """Keeps the run after so many steps."""

    def __init__(self, step):
        self.step, self.kept = step, None

    def overdue(self):
        return False

    def due(self, step):
        return step == self.step

    def save(self, snapshot):
        if snapshot.step == self.step:
            self.kept = snapshot


def test_the_others_go_on_and_the_times_of_the_lost_stay_in_the_trace(tmp_path):
    """The last row before the loss is of step 4: of steps 5 and 6 nobody tells any more."""
    study, keep = prepare(CONFIG, Stacked(3)), KeepAt(LOST)
    train(study, algorithm("dpsgd", study), keep=keep)
    short = prepare(replace(CONFIG, steps=EVERY + 1), Stacked(3))
    train_recorded(short, "dpsgd", tmp_path / "run", checkpoints=False)
    of_two = replace(keep.kept, rows={name: row[:2] for name, row in keep.kept.rows.items()})
    smaller, start = without_the_lost(study, of_two, Stacked(2))
    start = with_record(start, tmp_path / "run", smaller.comm)
    start = replace(start, facts={**start.facts, "trace_rows": EVERY + 1})
    train_recorded(
        smaller, "dpsgd", tmp_path / "run", checkpoints=False, start=start, again=True, gap=True
    )
    rows = trace.load(tmp_path / "run")
    assert trace.column(rows, "step").tolist() == list(range(STEPS + 1))
    times = np.stack([trace.column(rows, f"gradient_seconds/{j}") for j in range(3)], axis=1)
    told = np.isfinite(times).sum(axis=1).tolist()
    assert told == [3] * (EVERY + 1) + [0] * (LOST - EVERY - 1) + [2] * (STEPS - LOST) + [0]
    assert recorded(tmp_path / "run", 3).shape == (EVERY + 1, 3)
