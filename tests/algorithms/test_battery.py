"""What every line of the table must do, on topologies that fit it: no test names a method."""

from dataclasses import fields, is_dataclass

import pytest
import torch

import topologies
from gossip.algorithms import ALGORITHMS
from gossip.comm.stacked import Stacked
from gossip.config import Averaging, Config, Data, Model, Monitoring, Rate
from gossip.task import Gradients
from tests.fits import PLAIN, SHORT, fitted, properties, topologies_of
from tests.problems import optimizer
from tests.quadratics import begin, problem
from tests.resume.walks import same_bits, start_of, timeless, walk

N = 5
P = problem(N)
LR = 0.02
ROWS = [name for name in ALGORITHMS if not ALGORITHMS[name](optimizer(), PLAIN).shared]
PLACES = [(name, topology) for name in ROWS for topology in topologies_of(name)]
KEEPING = [name for name in ALGORITHMS if hasattr(ALGORITHMS[name](optimizer(), PLAIN), "start")]
"""Those that may keep something of each learner, be it beside a model that all have in common."""
places = pytest.mark.parametrize(("name", "topology"), PLACES)


def made(name, compressor="top-k:3"):
    return ALGORITHMS[name](
        optimizer(), PLAIN._replace(options={"compressor": compressor, **SHORT})
    )


def apart(algorithm):
    """Learners at different weights, where the method lets them begin so."""
    if not algorithm.properties.survives:
        return begin(algorithm, P.start()[:1].expand(N, -1))
    return begin(algorithm, P.start())


def without_data(x):
    return Gradients(torch.zeros_like(x), x.sum(1))


@places
def test_without_gradients_all_learners_come_to_the_mean_of_their_start(name, topology):
    """On trees to one point: who begin apart stand in for learners not heard of yet."""
    algorithm, comm = made(name, "identity"), Stacked(N)
    w, state = topologies.build(topology, N).matrix, apart(algorithm)
    start = state.x
    for t in range(400):
        state, _ = algorithm.step(state, without_data, w(t), lambda *_: LR, comm)
        centre = state.x.mean(0) if properties(name).tree else start.mean(0)
        if t % 40 == 39 and (state.x - centre).abs().max() < 1e-7:
            break  # a thousandth of what is asked for, so what is left does not matter
    torch.testing.assert_close(state.x, centre.expand(N, -1), rtol=0, atol=1e-4)


@places
def test_a_step_leaves_all_of_the_state_before_it_as_it_was(name, topology):
    algorithm, comm = made(name), Stacked(N)
    w, state = topologies.build(topology, N).matrix, begin(algorithm, P.start())
    for t in range(3):
        kept = {"x": state.x.clone()} | {k: rows.clone() for k, rows in state.rows.items()}
        after, _ = algorithm.step(state, P.gradient, w(t), lambda *_: LR, comm)
        assert torch.equal(state.x, kept["x"])
        assert all(torch.equal(rows, kept[k]) for k, rows in state.rows.items())
        assert after.step == t + 1
        state = after


@places
def test_nothing_but_the_state_lives_on(name, topology):
    """A new instance with copies of all that is kept goes on bit for bit."""
    w, comm = topologies.build(topology, N).matrix, Stacked(N)
    algorithm = made(name)
    state = begin(algorithm, P.start())
    for t in range(9):
        fresh = made(name)
        other = fresh.init(P.start()[0], N)
        other.optimizer.restore(state.optimizer.state_rows())
        rows = {k: kept.clone() for k, kept in state.rows.items()}
        copied = other._replace(step=state.step, x=state.x.clone(), rows=rows)
        again, _ = fresh.step(copied, P.gradient, w(t), lambda *_: LR, Stacked(N))
        state, _ = algorithm.step(state, P.gradient, w(t), lambda *_: LR, comm)
        assert torch.equal(state.x, again.x)
        assert state.rows.keys() == again.rows.keys()
        assert all(torch.equal(state.rows[k], again.rows[k]) for k in state.rows)
        assert all(len(kept) == N for kept in state.rows.values()), "one row for each learner"


@pytest.mark.parametrize("name", ROWS)
def test_one_learner_sends_nothing(name):
    algorithm, comm, one = made(name), Stacked(1), problem(1)
    w, state = topologies.build("complete", 1).matrix, begin(algorithm, one.start())
    for t in range(3):
        state, _ = algorithm.step(state, one.gradient, w(t), lambda *_: LR, comm)
    assert comm.traffic.bytes_sent_per_learner == 0
    assert state.x.isfinite().all()


@pytest.mark.parametrize("name", ROWS)
def test_learners_that_are_left_go_on_from_their_weights(name):
    """What is kept begins anew at any weights, for any number of learners."""
    if not properties(name).survives:
        pytest.skip("it goes on from a checkpoint")
    algorithm, left = made(name), problem(3)
    w = topologies.build(topologies_of(name)[0], 3).matrix
    state, comm = begin(algorithm, left.start()), Stacked(3)
    for t in range(150):
        state, _ = algorithm.step(state, left.gradient, w(t), lambda *_: LR, comm)
    assert (state.x.mean(0) - left.best).abs().max() < 0.7  # 2.2 at the start


def config(name: str) -> Config:
    base = Config(
        steps=9,
        gossip=Averaging(learners=4),
        data=Data(dataset="digits", batch_size=10),
        model=Model(widths=(4,)),
        rate=Rate(lr=0.05),
        monitoring=Monitoring(monitor="cheap", monitor_every=3),
    )
    return fitted(name, base)


@pytest.mark.parametrize("name", sorted({*ROWS, *KEEPING}))
def test_a_run_goes_on_from_a_checkpoint_bit_for_bit(name, tmp_path):
    """At two points, and at every step of a round of those that have rounds."""
    points = range(4, 9) if hasattr(made(name), "every") else (2, 4)
    whole, rows = walk(config(name), Stacked(4), tmp_path, at=points)
    for point in points:
        outcome, tail = walk(config(name), Stacked(4), start=start_of(tmp_path, point, range(4)))
        assert same_bits(outcome.state.x, whole.state.x)
        assert all(same_bits(outcome.state.rows[k], kept) for k, kept in whole.state.rows.items())
        assert str(timeless(tail)) == str(timeless(rows)[len(rows) - len(tail) :])


@pytest.mark.parametrize("name", ALGORITHMS)
def test_its_docstring_has_what_a_user_asks(name):
    algorithm = made(name)
    assert is_dataclass(algorithm)
    text = type(algorithm).__doc__ or ""
    assert "math::" in text
    assert "Reference" in text
    documented = {f.name for f in fields(algorithm)} - {"optimizer"}
    assert not [k for k in documented if k.startswith("_")]
