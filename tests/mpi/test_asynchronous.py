"""AD-PSGD with a learner in each process: nobody waits for the slow, and nothing is lost."""

import os
import random
import signal
import subprocess
import time

import numpy as np
import pytest
import torch
from mpi4py import MPI

from gossip.asynchronous.counter import PAUSE, Counter
from gossip.asynchronous.pairwise import PairwiseRow
from gossip.comm.shutdown.stop import Decision
from gossip.comm.transports.mpi import Mpi
from gossip.config import Averaging
from gossip.config.reliability import Reliability
from gossip.errors import UserError
from tests.asynchronous.studies import Drawer, Speeds, column, config, start_of, study, walk
from tests.problems import Agreed

pytestmark = [
    pytest.mark.mpi,
    pytest.mark.processes(2, 3, 4),
    pytest.mark.skipif(MPI.COMM_WORLD.size == 1, reason="needs several processes"),
]

RANK, SIZE = MPI.COMM_WORLD.rank, MPI.COMM_WORLD.size


def row(seed: int = 0, d: int = 50) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng([seed, RANK]).standard_normal((1, d)))


def everyone(x: torch.Tensor) -> torch.Tensor:
    return torch.cat(MPI.COMM_WORLD.allgather(x))


def averagings(x: torch.Tensor, partners: list[int | None]) -> PairwiseRow:
    """One request after the other, then a pause."""
    pairwise = PairwiseRow(x)
    pairwise.resume()
    for other in partners:
        pairwise.begin(other, patience=60.0)
        assert pairwise.settle()
    pairwise.pause()
    return pairwise


def test_the_counter_counts_everybody():
    counter = Counter()
    seen = [counter.add(1) for _ in range(100)]
    assert seen == sorted(seen)
    MPI.COMM_WORLD.Barrier()
    assert counter.add(0) == 100 * SIZE
    MPI.COMM_WORLD.Barrier()
    if RANK == SIZE - 1:
        counter.add(PAUSE)
    counter.set(7)
    assert counter.add(0) == 7
    counter.free()


def test_two_that_average_are_equal_and_the_others_untouched():
    x, before = row(), everyone(row())
    pairwise = averagings(x, [1] if RANK == 0 else [])
    rows = everyone(x)
    mean = before[:2].mean(0)
    torch.testing.assert_close(rows[:2], mean.expand(2, -1), rtol=1e-15, atol=1e-15)
    assert torch.equal(rows[2:], before[2:])
    assert (pairwise.changes, pairwise.sent) == ((1, 1) if RANK < 2 else (0, 0))
    pairwise.close()


def test_two_that_ask_each_other_at_once_do_not_swap():
    x = row()
    pairwise = PairwiseRow(x)
    for seed in range(20):
        x.copy_(row(seed))
        before = everyone(x)
        pairwise.resume()
        pairwise.begin(1 - RANK if RANK < 2 else None, patience=60.0)
        pairwise.pause()
        rows = everyone(x)
        torch.testing.assert_close(rows[:2], before[:2].mean(0).expand(2, -1))
    pairwise.close()


def test_a_circle_of_requests_ends_and_keeps_the_sum():
    x = row()
    total = everyone(x).sum(0)
    pairwise = averagings(x, [(RANK + 1) % SIZE] * 50)
    torch.testing.assert_close(everyone(x).sum(0), total, rtol=1e-12, atol=1e-12)
    pairwise.close()


def test_a_mistake_in_the_serving_thread_is_raised_in_the_main_thread(monkeypatch):
    monkeypatch.setattr(PairwiseRow, "_look", lambda self: 1 / 0)
    pairwise = PairwiseRow(row())
    pairwise.resume()
    while pairwise._thread.is_alive():
        time.sleep(0.01)
    with pytest.raises(ZeroDivisionError):
        pairwise.pause()
    pairwise.close()


def test_the_time_out_knows_who_waits_for_the_counter(monkeypatch):
    """From another host an addition is no sooner done than process 0 is awake."""
    comm, waits = Mpi(SIZE), set()

    def noted(name, function):
        def call(self, *args):
            waits.add((name, comm.waiting.now is not None))
            return function(self, *args)

        return call

    for name in ("add", "set", "free"):
        monkeypatch.setattr(Counter, name, noted(name, getattr(Counter, name)))
    walk(study(config(SIZE, steps=4, every=2), comm))
    assert waits == {("add", True), ("set", True), ("free", True)}


@pytest.mark.parametrize("topology", ["complete", "ring", "one-peer-exponential"])
def test_without_a_rate_the_mean_stays_and_all_learners_come_to_it(topology):
    gossip = Averaging(learners=SIZE, topology=topology)
    made = study(config(SIZE, lr=0.0, steps=80, gossip=gossip), Mpi(SIZE))
    x = row(d=made.task.d)
    mean = everyone(x).mean(0)
    outcome, _ = walk(made, start=start_of(made, x))
    rows = everyone(outcome.state.x)
    torch.testing.assert_close(rows.mean(0), mean, rtol=1e-12, atol=1e-12)
    assert (rows - mean).norm() < 0.1 * (everyone(x) - mean).norm()


def test_it_learns_the_digits():
    made = study(config(SIZE, steps=150, every=25), Mpi(SIZE))
    outcome, rows = walk(made, momentum=0.5)
    assert outcome.final["train_loss"] < 0.6
    assert not outcome.verdict.diverged
    assert column(rows, "step") == [0, 25, 50, 75, 100, 125, 149, 150]
    row_bytes = outcome.state.x.nbytes
    assert outcome.bytes_sent_per_learner == outcome.messages_per_learner * row_bytes > 0
    finals = MPI.COMM_WORLD.allgather((outcome.final, column(rows, "train_loss")))
    assert all(final == finals[0] for final in finals)


def slowed(made, seconds):
    """Let each gradient take so long."""
    plain = made.task.gradient

    def gradient(*args, **options):
        time.sleep(seconds() if callable(seconds) else seconds)
        return plain(*args, **options)

    made.task.gradient = gradient
    return made


def test_a_straggler_takes_no_gradients_from_the_others():
    chosen = config(SIZE, steps=14, every=14, reliability=Reliability(straggler_seconds=0.1))
    made = study(chosen, Mpi(SIZE), straggler=Speeds((3.0,) + (1.0,) * (SIZE - 1)))
    drawer = Drawer(14)
    walk(slowed(made, 0.1), keep=drawer)
    counts = everyone(drawer.snapshots[14].rows["tally/gradients"]).tolist()
    assert min(counts[1:]) >= 2 * counts[0]
    assert 14 * SIZE <= sum(counts) < 15 * SIZE


def test_random_sleeps_everywhere_lead_to_no_deadlock_and_lose_nothing(monkeypatch):
    rng = random.Random(RANK)

    def nap() -> float:
        return rng.choice((0.0, 0.0, 0.001, 0.01))

    for name in ("begin", "settle", "change", "resume", "pause", "_look", "_send"):
        method = getattr(PairwiseRow, name)

        def sleepy(*args, _method=method, **options):
            time.sleep(nap())
            return _method(*args, **options)

        monkeypatch.setattr(PairwiseRow, name, sleepy)
    monkeypatch.setattr("gossip.asynchronous.processes.PATIENCE_SECONDS", 0.005)
    monkeypatch.setattr("gossip.asynchronous.processes.PATIENCE_GRADIENTS", 0)
    made = study(config(SIZE, lr=0.0, steps=60, every=3), Mpi(SIZE))
    x = row(d=made.task.d)
    total = everyone(x).sum(0)
    outcome, rows = walk(slowed(made, nap), start=start_of(made, x))
    torch.testing.assert_close(everyone(outcome.state.x).sum(0), total, rtol=1e-12, atol=1e-12)
    assert column(rows, "gradients_max")[-1] > 0


def test_a_process_that_is_stopped_for_a_while_holds_nobody_up():
    made = study(config(SIZE, steps=60, every=60), Mpi(SIZE))
    plain, taken = made.task.gradient, []

    def gradient(*args, **options):
        taken.append(time.monotonic())
        if RANK == 1 and len(taken) == 5:
            pid = os.getpid()
            with subprocess.Popen(["sh", "-c", f"sleep 2; kill -CONT {pid}"]):
                os.kill(pid, signal.SIGSTOP)
        time.sleep(0.01)
        return plain(*args, **options)

    made.task.gradient = gradient
    outcome, _ = walk(made)
    assert outcome.state.step == 60
    counts = MPI.COMM_WORLD.allgather(len(taken))
    # In two seconds the others take some hundred gradients; who waited would take none.
    assert sum(counts) - counts[1] > 40 * (SIZE - 1)
    assert np.isfinite(outcome.final["train_loss"])


def test_who_wants_a_pause_stops_all():
    made = slowed(study(config(SIZE, steps=100_000, every=50_000), Mpi(SIZE)), 0.001)
    comm, began = made.comm, time.monotonic()

    def asked() -> bool:
        return RANK == SIZE - 1 and time.monotonic() > began + 1.0

    def decide(step, request):
        return Decision(any(comm.share(asked())), [request])

    drawer = Drawer()
    outcome, rows = walk(made, agreement=Agreed(decide, asked), keep=drawer)
    assert outcome.interrupted
    assert 0 < outcome.state.step < 100_000
    assert list(drawer.snapshots) == [outcome.state.step]
    assert column(rows, "step")[-2:] == [outcome.state.step - 1, outcome.state.step]
    assert len(set(comm.share(outcome.state.step))) == 1


def test_a_run_goes_on_from_a_checkpoint():
    """Without a rate what goes on is the averaging: all that was under way is taken up again."""
    drawer = Drawer(33)
    walk(study(config(SIZE, steps=60, every=10), Mpi(SIZE)), momentum=0.5, keep=drawer)
    snapshot, end = drawer.snapshots[33], Drawer(60)
    still = study(config(SIZE, lr=0.0, steps=60, every=10), Mpi(SIZE))
    again, rows = walk(still, momentum=0.5, start=snapshot, keep=end)
    assert column(rows, "step") == [40, 50, 59, 60]
    before, after = everyone(snapshot.rows["x"]), everyone(again.state.x)
    torch.testing.assert_close(after.sum(0), before.sum(0), rtol=1e-12, atol=1e-12)
    assert (after - after.mean(0)).norm() < 0.5 * (before - before.mean(0)).norm()
    counts = everyone(end.snapshots[60].rows["tally/gradients"])
    assert 60 * SIZE <= counts.sum() < 61 * SIZE


def test_several_learners_in_a_process_are_refused():
    with pytest.raises(UserError, match=f"start {2 * SIZE} or 1"):
        walk(study(config(2 * SIZE), Mpi(2 * SIZE)))
