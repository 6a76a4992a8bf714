"""AD-PSGD in simulated time: who averages when, how late gradients are, and what that preserves."""

import numpy as np
import pytest
import torch

import topologies
from gossip import stragglers
from gossip.algorithms import AdPsgd
from gossip.asynchronous.partners import partner
from gossip.config import Averaging, Data, Rate
from gossip.errors import UserError
from gossip.simulate.compute import ComputeTimes
from gossip.simulate.engine import simulate
from gossip.simulate.presets import network
from gossip.simulate.setting import Setting
from gossip.stragglers import Table
from tests.asynchronous.studies import (
    Drawer,
    Speeds,
    column,
    config,
    start_of,
    study,
    walk,
)
from tests.problems import optimizer


def rows_of(n: int, d: int, seed: int = 0) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).standard_normal((n, d)))


@pytest.mark.parametrize("topology", ["complete", "ring", "one-peer-exponential", "pull"])
def test_without_a_rate_the_mean_stays_and_all_learners_come_to_it(topology):
    gossip = Averaging(learners=8, topology=topology)
    made = study(config(8, lr=0.0, steps=120, gossip=gossip))
    x = rows_of(8, made.task.d)
    outcome, _ = walk(made, start=start_of(made, x))
    torch.testing.assert_close(outcome.state.x.sum(0), x.sum(0), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(outcome.state.x, x.mean(0).expand(8, -1), rtol=0, atol=1e-6)


def test_the_mean_moves_by_the_increments_alone():
    made = study(config(4, steps=1, every=1))
    drawer = Drawer(1)
    outcome, _ = walk(made, keep=drawer)
    start = made.task.init(made.config.seed)
    moved = outcome.state.x.mean(0) - start
    increments = drawer.snapshots[1].rows["last/increments"]
    torch.testing.assert_close(moved, increments.mean(0), rtol=1e-10, atol=1e-14)


def test_equal_speeds_give_equal_counts():
    _, rows = walk(study(config(5, every=7)))
    counts = zip(column(rows, "gradients_min"), column(rows, "gradients_max"), strict=True)
    assert all(most - least <= 1 for least, most in counts)


def test_one_learner_alone_is_plain_sgd_bit_for_bit():
    made = study(config(1))
    outcome, rows = walk(made, momentum=0.9)
    x = made.task.init(made.config.seed).unsqueeze(0)
    alone = optimizer("sgd", made.task.layers, momentum=0.9)()
    for t in range(made.steps):
        inputs, labels = made.task.train.batch(made.sampler.indices(t))
        x = alone.step(x, made.task.gradient(x, inputs, labels).values, 0.3)
    assert torch.equal(outcome.state.x, x)
    assert column(rows, "staleness_max") == [0.0] * 5
    assert outcome.messages_per_learner == 0


def test_staleness_of_two_learners_at_equal_speed():
    # Round by round, 0 before 1. Learner 0: its own averaging, then that of 1 after its snapshot.
    # tau_0 = 1, 2, 2, ...: own, and 1's since the last snapshot; tau_1 likewise = 2, 2, ...
    _, rows = walk(study(config(2, steps=3, every=1)))
    assert column(rows, "staleness_mean") == [1.5, 2.0, 2.0]
    assert column(rows, "staleness_max") == [2.0, 2.0, 2.0]


def test_staleness_behind_a_learner_twice_as_fast():
    # Seconds: 1 takes 1, 0 takes 2 (and is first at 2, 4). Events: 1@1, 0@2 | 1@2, 1@3 | 0@4, 1@4.
    # 1@1: own = 1. 0@2: 1's and own = 2. 1@2: 0's and own = 2. 1@3: own = 1.
    # 0@4: 1's at 2 and at 3, own = 3. 1@4: 0's and own = 2.
    _, rows = walk(study(config(2, steps=3, every=1), straggler=Speeds((2.0, 1.0))))
    assert column(rows, "staleness_mean") == [1.5, 1.5, 2.5]
    assert column(rows, "staleness_max") == [2.0, 2.0, 3.0]
    assert column(rows, "simulated_seconds") == [2.0, 3.0, 4.0]


def test_staleness_of_three_learners_on_a_chain():
    # On the chain 0 - 1 - 2 the ends can only average with 1, once each a round; 1 with either.
    chain = Averaging(learners=3, topology="chain")
    made = study(config(3, steps=2, every=1, gossip=chain))
    first, second = partner(made, 1, 0), partner(made, 1, 1)
    taus = [1, 2, 2 if first == 2 else 1]  # round 0: 1 has 0's and its own
    taus0 = 1 + (first == 0)  # since 0's snapshot: 1's, if it chose 0; and its own
    taus1 = 1 + 1 + 1  # since 1's snapshot: 2's of round 0, 0's of round 1, its own
    taus2 = 1 + (second == 2)
    _, rows = walk(made)
    assert column(rows, "staleness_mean") == pytest.approx(
        [sum(taus) / 3, (taus0 + taus1 + taus2) / 3]
    )
    assert column(rows, "staleness_max")[1] == 3.0


@pytest.mark.parametrize("n", [4, 8])
def test_one_event_contracts_the_variance_by_one_in_n_minus_one(n):
    """E[||x - mean||^2] after an averaging of a uniform random pair: times 1 - 1/(n - 1)."""
    made = study(config(n))
    rng, factors = np.random.default_rng(1), []
    for k in range(2000):
        x = torch.from_numpy(rng.standard_normal((n, 20)))
        before = (x - x.mean(0)).square().sum()
        i = k % n
        j = partner(made, i, k)
        x[i] = x[j] = AdPsgd.averaged(x[i], x[j])
        factors.append(float((x - x.mean(0)).square().sum() / before))
    error = np.std(factors) / np.sqrt(len(factors))
    assert abs(np.mean(factors) - (1 - 1 / (n - 1))) < 4 * error


def test_partners_are_neighbours_drawn_by_their_weights():
    made = study(config(4, gossip=Averaging(learners=4, topology="ring")))
    drawn = [partner(made, 0, k) for k in range(400)]
    assert set(drawn) == {1, 3}
    assert abs(drawn.count(1) - 200) < 60
    assert [partner(made, 0, k) for k in range(400)] == drawn


def test_nobody_is_asked_between_two_mixings_or_without_neighbours():
    often = study(config(4, gossip=Averaging(learners=4, topology="complete", mix_every=3)))
    asked = [partner(often, 2, k) is not None for k in range(9)]
    assert asked == [False, False, True] * 3


def test_a_permanent_straggler_takes_no_speed_from_the_others():
    n, steps = 8, 60
    _, rows = walk(study(config(n, steps=steps), straggler=Speeds((3.0,) + (1.0,) * (n - 1))))
    rate = 1 / 3 + (n - 1)
    seconds = column(rows, "simulated_seconds")[-1]
    assert seconds == pytest.approx(n * steps / rate, abs=2)
    assert column(rows, "gradients_max")[-1] == pytest.approx(seconds, abs=1)
    assert column(rows, "gradients_min")[-1] == pytest.approx(seconds / 3, abs=1)


def test_the_same_seeds_give_the_same_run():
    made = study(config(4), straggler=Speeds((1.0, 1.3, 0.7, 2.1)))
    (first, rows), (second, again) = walk(made), walk(made)
    assert torch.equal(first.state.x, second.state.x)
    for row, other in zip(rows, again, strict=True):
        assert {k: v for k, v in row.items() if k != "seconds"} == {
            k: v for k, v in other.items() if k != "seconds"
        }


def test_it_learns_the_digits():
    outcome, rows = walk(study(config(4, steps=150, every=25)))
    assert outcome.final["train_loss"] < 0.5
    assert column(rows, "train_loss")[0] == pytest.approx(np.log(10), abs=0.3)
    assert not outcome.verdict.diverged


def test_rows_bytes_and_the_end():
    outcome, rows = walk(study(config(4, steps=26, every=10)))
    assert column(rows, "step") == [0, 10, 20, 25, 26]
    assert outcome.state.step == 26
    assert outcome.messages_per_learner == 2 * 26
    assert outcome.bytes_sent_per_learner == 2 * 26 * 8 * outcome.state.x.shape[1]


def test_a_run_that_is_lost_ends():
    outcome, rows = walk(study(config(4, lr=1e200)))
    assert outcome.verdict.hopeless
    assert outcome.state.step < 40
    assert rows[-1]["step"] == outcome.state.step


@pytest.mark.parametrize(
    "rate",
    [
        Rate(scaling="lena"),
        Rate(scaling="adascale"),
        Rate(scaling="linear", warmup="state-aware"),
    ],
    ids=lambda rate: rate.scaling,
)
def test_rates_that_need_all_learners_are_refused(rate):
    with pytest.raises(UserError, match=r"ad-psgd with scaling .* use --scaling none"):
        walk(study(config(4, rate=rate)))


def test_decays_and_layer_ratios_go_by_the_learners_own_count():
    rate = Rate(lr=0.1, decay="exponential", layer_ratio="fixed", warmup="fixed", scaling="sqrt")
    outcome, rows = walk(study(config(4, rate=rate), straggler=Speeds((4.0, 1.0, 1.0, 1.0))))
    assert np.isfinite(outcome.final["train_loss"])
    assert column(rows, "lr")[-1] > 0


def test_skewed_shards_and_draws_with_replacement_work_too():
    for data in (
        Data(dataset="digits", batch_size=10, partition="dirichlet", concentration=1.0),
        Data(dataset="digits", batch_size=10, replacement=True),
    ):
        made = study(config(4, data=data), straggler=Speeds((1.0, 1.0, 1.0, 5.0)))
        outcome, _ = walk(made)
        assert outcome.final["train_loss"] < 2.2


@pytest.mark.parametrize(
    ("model", "topology"), [("lognormal", "ring"), ("constant", "complete"), ("table", "complete")]
)
def test_the_simulator_of_time_has_the_same_moments_and_messages(model, topology):
    n, steps = 6, 12
    table = Table(np.random.default_rng(3).uniform(0.5, 3.0, (7, n)))
    draws = table if model == "table" else stragglers.make(model, [], n=n, seed=4)
    chosen = config(n, steps=steps, every=1, gossip=Averaging(learners=n, topology=topology))
    outcome, rows = walk(study(chosen, straggler=draws))
    made = Setting(
        pattern=AdPsgd.pattern,
        mixing=topologies.build(topology, n).matrix,
        network=network("ideal"),
        compute=ComputeTimes(n, 1.0, draws),
        row_bytes=8 * outcome.state.x.shape[1],
    )
    timeline = simulate(made, steps)
    np.testing.assert_allclose(column(rows, "simulated_seconds"), timeline.mean, rtol=1e-12)
    assert timeline.sent == (outcome.messages_per_learner, outcome.bytes_sent_per_learner)
