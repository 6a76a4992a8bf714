"""A simulation that is taken up again goes on as if it had never ended."""

from dataclasses import replace

import pytest
import torch

from gossip.comm.shutdown.stop import Decision
from gossip.config import Model
from gossip.errors import UserError
from tests.asynchronous.studies import Drawer, Speeds, column, config, study, walk
from tests.problems import Agreed

SPEEDS = Speeds((1.0, 1.3, 0.7, 9.0))
"""The last learner has not one gradient when the first checkpoint is made."""


def of(rows, first):
    return [{k: v for k, v in r.items() if k != "seconds"} for r in rows if r["step"] >= first]


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("step", [3, 20])
def test_a_resumed_run_is_the_uninterrupted_one_bit_for_bit(step, momentum):
    made = study(config(4), straggler=SPEEDS)
    drawer = Drawer(step)
    whole, rows = walk(made, momentum=momentum, keep=drawer)
    again, others = walk(made, momentum=momentum, start=drawer.snapshots[step])
    assert torch.equal(again.state.x, whole.state.x)
    assert of(others, 0) == of(rows, step)
    assert again.final == whole.final
    assert again.messages_per_learner == whole.messages_per_learner


def test_a_run_that_is_stopped_leaves_a_checkpoint_to_go_on_from():
    made = study(config(4), straggler=SPEEDS)
    drawer = Drawer()
    whole, rows = walk(made)
    stopped = Agreed(lambda step, request: Decision(step == 16, [request]))
    part, some = walk(made, keep=drawer, agreement=stopped)
    assert part.interrupted
    assert part.state.step == 17
    assert column(some, "train_loss") != []
    assert some[-2]["step"] == 16  # the row of the step it stopped at
    again, others = walk(made, start=drawer.snapshots[17])
    assert torch.equal(again.state.x, whole.state.x)
    assert of(others, 0) == of(rows, 17)


def test_the_state_of_batch_norm_goes_on_too():
    build = Model(model="tests.problems:batch_norm_net", dtype="float64")
    made = study(config(3, model=build, steps=12, every=5), straggler=Speeds((1.0, 1.3, 2.0)))
    drawer = Drawer(6)
    whole, rows = walk(made, keep=drawer)
    again, others = walk(made, start=drawer.snapshots[6])
    assert torch.equal(again.state.x, whole.state.x)
    assert of(others, 0) == of(rows, 6)


def test_a_checkpoint_without_gradients_under_way_begins_them_anew():
    """One of several processes, where a pause has none."""
    made = study(config(4))
    drawer = Drawer(20)
    walk(made, keep=drawer)
    snapshot = drawer.snapshots[20]
    rows = {k: v for k, v in snapshot.rows.items() if not k.startswith("in_flight/")}
    outcome, _ = walk(made, start=replace(snapshot, rows=rows))
    assert outcome.state.step == 40
    assert outcome.final["train_loss"] < 2.2


def test_a_checkpoint_of_another_algorithm_is_refused():
    made = study(config(4))
    drawer = Drawer(20)
    walk(made, keep=drawer)
    snapshot = drawer.snapshots[20]
    rows = {k: v for k, v in snapshot.rows.items() if not k.startswith("tally/")}
    with pytest.raises(UserError, match="not one of ad-psgd"):
        walk(made, start=replace(snapshot, rows=rows))
