"""The benchmark runs; what it measures is nobody's assertion."""

import torch

from experiments.bench import Bench, loop_over_models, medians, mixing, study_of, table
from gossip.comm.stacked import Stacked


def test_rounds_are_interleaved_and_the_first_is_not_timed():
    calls = []
    times = medians({"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}, rounds=3)
    assert calls == ["a", "b"] * 4
    assert set(times) == {"a", "b"}
    assert table("t", "a", {"case": {"a": 1.0, "b": 2.5}}).row_count == 1


def test_mixing_is_measured_for_each_topology():
    assert mixing(1, n=4, d=10).row_count == 4


def test_the_loop_over_models_takes_the_steps_of_stacked_dpsgd():
    """The two sides of the comparison do the same work: shared start, own batches, a ring."""
    bench = Bench(study_of(3, 4, dataset="digits"), Stacked(3))
    before = bench.state.x.clone()
    bench.step()
    assert torch.isfinite(bench.state.x).all()
    assert not torch.equal(bench.state.x, before)
    loop_over_models(3, 4)()
