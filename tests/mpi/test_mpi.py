"""The backends mpi and gloo against the stacked one, on however many processes mpirun has started.

Each as it is, with shared memory where there is some, and as if its processes were on two nodes, so
that both ways are used at once, or each on its own, so that all rows are messages.
"""

import contextlib
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from mpi4py import MPI
from scipy.sparse import csr_array

import topologies
from gossip.comm.base import Communicator
from gossip.comm.connect import BACKENDS
from gossip.comm.node.window import SLOTS
from gossip.comm.stacked import Stacked
from gossip.comm.startup.together import agree
from gossip.errors import UserError
from tests.mpi.stress import stress
from tests.problems import complete, ring
from tests.topologies.fixed import FIXED

pytestmark = [
    pytest.mark.mpi,
    pytest.mark.timeout(90),
    pytest.mark.processes(2, 3, 4),  # a process alone is its own reference
]

D = 37
NUM_STEPS = 200 if MPI.COMM_WORLD.size <= 4 else 50
STRESS_SECONDS = 1.0


PLACES = {"one_node": lambda process: 0, "two_nodes": lambda process: process % 2, "apart": int}
"""Process -> node that it is said to be on."""
LOCAL = {"one_each": 1, "two_each": 2, "three_each": 3}
KINDS = [
    ("mpi", "one_node", "one_each"),
    ("mpi", "one_node", "two_each"),
    ("mpi", "two_nodes", "three_each"),
    ("mpi", "apart", "two_each"),
    ("gloo", "one_node", "two_each"),
    ("gloo", "two_nodes", "one_each"),
    ("gloo", "two_nodes", "three_each"),
    ("gloo", "apart", "one_each"),
    ("gloo", "apart", "two_each"),
    ("groups", "apart", "two_each"),
]


AT_MANY = pytest.mark.processes(2, 3, 4, 16)
"""For what more processes than cores, and than neighbours, could change; what a process does with
its own rows is the same among many."""

MESSAGES_OF = {"groups": "nccl"}


def test_every_backend_is_among_the_kinds():
    assert {MESSAGES_OF.get(name, name) for name, *_ in KINDS} | {"auto", "stacked"} == {*BACKENDS}


@pytest.fixture(params=KINDS, ids="-".join)
def comm(request):
    """A communicator of either backend, with 1, 2 or 3 learners per process."""
    return connected(*request.param)


def connected(backend: str, place: str, learners: str):
    from gossip.comm.transports.gloo import Gloo
    from gossip.comm.transports.mpi import Mpi
    from gossip.comm.transports.nccl import Nccl

    class Groups(Nccl):
        """The messages of NCCL, in its groups, but over Gloo."""

        __init__, close = Gloo.__init__, Gloo.close
        _exchange = Nccl._as_group

    processes, node = MPI.COMM_WORLD.size, PLACES[place](MPI.COMM_WORLD.rank)
    local = LOCAL[learners]
    if processes == 1:
        return Stacked(local)  # plain pytest --with-mpi: the same tests, trivially
    return {"mpi": Mpi, "gloo": Gloo, "groups": Groups}[backend](local * processes, place=node)


def rows(n: int, seed: int = 0, dtype=torch.float64) -> torch.Tensor:
    """All learners' rows [n, D], the same in every process."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n, D, generator=generator, dtype=torch.float64).to(dtype)


def here(comm: Communicator, x: torch.Tensor) -> torch.Tensor:
    """The hosted part of the rows of all."""
    return x[comm.hosted.start : comm.hosted.stop].clone()


def identity(n: int) -> np.ndarray:
    return np.eye(n)


def one_peer(n: int, hop: int = 1) -> np.ndarray:
    eye = np.eye(n)
    return (eye + np.roll(eye, hop, 1)) / 2


def directed_exponential(n: int) -> np.ndarray:
    hops = [2**i for i in range(n.bit_length()) if 2**i < n]
    eye = np.eye(n)
    return sum((np.roll(eye, hop, 1) for hop in hops), eye) / (1 + len(hops))


def matching(n: int, seed: int = 5) -> np.ndarray:
    w = np.eye(n)
    order = np.random.default_rng(seed).permutation(n)
    for a, b in zip(order[::2], order[1::2], strict=False):
        w[[a, a, b, b], [a, b, a, b]] = 0.5
    return w


def star(n: int) -> np.ndarray:
    w = np.eye(n) * (1 - 1 / n)
    w[0], w[:, 0] = 1 / n, 1 / n
    return w


def unsymmetric(n: int) -> np.ndarray:
    """Random weights with holes, rows that do not need their own learner, an empty column."""
    generator = np.random.default_rng(n)
    w = generator.random((n, n)) * (generator.random((n, n)) < 0.4)
    w[:, n // 2] = 0
    return w


MATRICES = [
    ring,
    complete,
    identity,
    one_peer,
    directed_exponential,
    matching,
    star,
    unsymmetric,
]


@AT_MANY
@pytest.mark.parametrize("matrix", MATRICES)
def test_mixing_equals_the_stacked_product(comm, matrix):
    w, x = csr_array(matrix(comm.n)), rows(comm.n)
    mixed = comm.start_mix(here(comm, x), w)()
    expected = Stacked(comm.n).start_mix(x, w)()
    torch.testing.assert_close(mixed, here(comm, expected), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("matrix", [ring, complete])
@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float32, 1e-6), (torch.bfloat16, 0.05), (torch.float16, 5e-3)]
)
def test_mixing_keeps_the_dtype(comm, matrix, dtype, tolerance):
    w, x = csr_array(matrix(comm.n)), rows(comm.n, dtype=dtype)
    mixed = comm.start_mix(here(comm, x), w)()
    assert mixed.dtype == dtype
    exact = torch.from_numpy(w @ x.double().numpy())
    torch.testing.assert_close(mixed.double(), here(comm, exact), rtol=tolerance, atol=tolerance)


def test_explicit_zeros_are_no_messages(comm):
    w = ring(comm.n)
    w.data[-1] = 0.0
    x = rows(comm.n)
    expected = torch.from_numpy(w @ x.numpy())
    torch.testing.assert_close(comm.start_mix(here(comm, x), w)(), here(comm, expected))


def test_rows_may_have_any_shape(comm):
    x = rows(comm.n)[:, :36].reshape(comm.n, 3, 12).contiguous()
    w = ring(comm.n)
    if comm.processes == 1:
        pytest.skip("scipy's product is for matrices")
    mixed = comm.start_mix(here(comm, x).reshape(len(comm.hosted), -1), w)()
    expected = torch.from_numpy(w @ x.reshape(comm.n, -1).numpy())
    torch.testing.assert_close(mixed, here(comm, expected))


def test_the_rows_are_not_written_to(comm):
    x = here(comm, rows(comm.n))
    before = x.clone()
    comm.start_mix(x, complete(comm.n))()
    assert torch.equal(x, before)


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0)])
def test_mixes_in_flight_are_not_mixed_up(comm, order):
    ws = [csr_array(matrix(comm.n)) for matrix in (ring, star, ring)]
    xs = [rows(comm.n, seed) for seed in range(3)]
    pending = [comm.start_mix(here(comm, x), w) for x, w in zip(xs, ws, strict=True)]
    mixed = {i: pending[i]() for i in order}
    for i, (x, w) in enumerate(zip(xs, ws, strict=True)):
        torch.testing.assert_close(mixed[i], here(comm, torch.from_numpy(w @ x.numpy())))


def test_results_outlive_the_next_mix(comm):
    w, x = complete(comm.n), here(comm, rows(comm.n))
    first = comm.start_mix(x, w)()
    kept = first.clone()
    comm.start_mix(2 * x, w)()
    assert torch.equal(first, kept)


@AT_MANY
def test_a_matrix_that_changes_at_every_step(comm):
    x = rows(comm.n)
    mine = here(comm, x)
    for t in range(NUM_STEPS):
        w = csr_array(matching(comm.n, seed=t) if t % 2 else one_peer(comm.n, 1 + t % 3))
        mine = comm.start_mix(mine, w)()
        x = torch.from_numpy(w @ x.numpy())
    torch.testing.assert_close(mine, here(comm, x), rtol=1e-12, atol=1e-12)


BOTH_WAYS = [("mpi", "two_nodes", "two_each"), ("gloo", "two_nodes", "one_each")]
MESSAGES = [("mpi", "apart", "one_each"), ("gloo", "apart", "two_each")]
SOME = pytest.mark.parametrize("comm", BOTH_WAYS + MESSAGES, indirect=True, ids="-".join)
"""Kinds for what takes long."""


def moving(n: int) -> list[topologies.Topology]:
    """All topologies for n learners that are not the same at every step."""
    built = []
    for name in sorted(set(topologies.TOPOLOGIES) - set(FIXED)):
        with contextlib.suppress(topologies.TopologyError):  # not for this n
            built.append(topologies.build(name, n))
    return [topology for topology in built if topology.period != 1]


@AT_MANY
@SOME
def test_every_moving_topology_is_walked(comm):
    assert len(moving(comm.n)) > 5 or comm.n < 3
    for topology in moving(comm.n):
        x = rows(comm.n)
        mine = here(comm, x)
        for t in range(2 * (topology.period or 6)):
            mine = comm.start_mix(mine, topology.matrix(t))()
            x = torch.from_numpy(topology.matrix(t) @ x.numpy())
        torch.testing.assert_close(mine, here(comm, x), rtol=1e-12, atol=1e-12)


@AT_MANY
@SOME
def test_stragglers_get_the_rows_they_should(comm, monkeypatch):
    """Each process is late at random; its rows change as soon as they may."""
    poison(comm, monkeypatch)
    late = np.random.default_rng(comm.process)
    topology = topologies.build("matching", comm.n) if comm.n > 1 else None
    x, eye = rows(comm.n), csr_array(np.eye(comm.n))
    mine = here(comm, x)
    for t in range(NUM_STEPS):
        w = eye if topology is None else topology.matrix(t)
        pending = comm.start_mix(mine, w)
        if late.random() < 0.2:
            time.sleep(late.random() * 4e-3)
        mixed = pending()
        if comm.processes > 1:
            mine.fill_(torch.nan)
        x = torch.from_numpy(w @ x.numpy())
        torch.testing.assert_close(mixed, here(comm, x), rtol=1e-12, atol=1e-12)
        mine = mixed


@AT_MANY
@SOME
def test_more_mixes_in_flight_than_there_is_memory_for(comm, monkeypatch):
    poison(comm, monkeypatch)
    w, n = csr_array(directed_exponential(comm.n)), 3 * SLOTS
    xs = [rows(comm.n, seed) for seed in range(n)]
    for _ in range(3):
        pending = [comm.start_mix(here(comm, x), w) for x in xs]
        for x, mix in zip(xs, pending, strict=True):
            expected = here(comm, torch.from_numpy(w @ x.numpy()))
            torch.testing.assert_close(mix(), expected, rtol=1e-12, atol=1e-12)


@SOME
def test_rows_in_shared_memory_stay_while_a_tensor_views_them(comm):
    w, kept = ring(comm.n), []
    x = rows(comm.n)
    comm.start_mix(here(comm, x), w)()  # from here on there is a window
    for step in range(2 * SLOTS):
        new = comm.new_rows(here(comm, x))
        new.copy_(here(comm, x) + step)
        mixed = comm.start_mix(new, w)()
        expected = torch.from_numpy(w @ (x + step).numpy())
        torch.testing.assert_close(mixed, here(comm, expected), rtol=1e-12, atol=1e-12)
        kept = [*kept[-2:], (step, new)]
        for earlier, view in kept:
            assert torch.equal(view, here(comm, x) + earlier)


@AT_MANY
@SOME
def test_random_schedules(comm):
    """A minute of it: `tests.mpi.stress`, by hand."""
    assert stress(comm, STRESS_SECONDS, seed=comm.n) > 0


def poison(comm: Communicator, monkeypatch) -> None:
    """Make the use of a buffer by two at once seen.

    Memory for arriving rows is NaN whenever nothing is under way to it, so to read it too early or
    too late gives NaN; rows are checked to be the same until they have all been sent.
    """
    if comm.processes == 1:
        return
    new, keep, exchange = comm._arrivals, comm._keep, comm._exchange

    def checked(plan, rows, arrivals):
        before, finish = rows.clone(), exchange(plan, rows, arrivals)

        def done():
            finish()
            assert torch.equal(rows, before)
            assert not arrivals.isnan().any()

        return done

    monkeypatch.setattr(comm, "_arrivals", lambda plan, rows: new(plan, rows).fill_(torch.nan))
    monkeypatch.setattr(comm, "_keep", lambda arrivals: keep(arrivals.fill_(torch.nan)))
    monkeypatch.setattr(comm, "_exchange", checked)


@SOME
def test_poison_kills(comm, monkeypatch):
    """Without messages, arrivals are NaN; rows that change under way are noticed."""
    if comm.processes == 1:
        pytest.skip("nothing travels")
    x, w = here(comm, rows(comm.n)), complete(comm.n)
    comm.start_mix(x, w)()  # from here on the rows in shared memory are near
    if not comm._planned(w).far:
        return
    for finish in (lambda rows: None, lambda rows: rows.add_(1)):
        with monkeypatch.context() as patch:
            patch.setattr(comm, "_exchange", lambda plan, rows, _, end=finish: lambda: end(rows))
            poison(comm, patch)
            with pytest.raises(AssertionError):
                comm.start_mix(x, w)()


@AT_MANY
@pytest.mark.mpi(min_size=2)
@pytest.mark.parametrize("comm", [KINDS[0], KINDS[4]], indirect=True, ids="-".join)
def test_rows_that_differ_between_processes_are_an_error_on_all(comm):
    odd = comm.process == 1
    with pytest.raises(UserError, match=r"process 0 has float64 \(\d, 5\) and process 1 has"):
        comm.start_mix(torch.ones(len(comm.hosted), 6 if odd else 5).double(), ring(comm.n))
    with pytest.raises(UserError, match=r"float32.*process 1 has float64"):
        comm.mean(torch.ones(1, 7, dtype=torch.float64 if odd else torch.float32))
    assert comm.share(comm.process) == list(range(comm.processes))


@pytest.mark.mpi(min_size=2)
@pytest.mark.parametrize("comm", [KINDS[0], KINDS[4]], indirect=True, ids="-".join)
def test_a_dtype_without_sums_is_an_error_on_all(comm):
    with pytest.raises(UserError, match=r"rows of int64 cannot be mixed.*float16, bfloat16"):
        comm.start_mix(torch.ones(len(comm.hosted), 5).long(), ring(comm.n))


@AT_MANY
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_the_mean_has_the_same_bits_everywhere(comm, dtype):
    x = rows(comm.n, dtype=dtype)
    mean = comm.mean(here(comm, x))
    assert mean.dtype == dtype
    exact = x.double().mean(0)
    tolerance = torch.finfo(dtype).eps * 8
    torch.testing.assert_close(mean.double(), exact, rtol=tolerance, atol=tolerance)
    assert len(set(comm.share(mean.double().numpy().tobytes()))) == 1


@AT_MANY
def test_a_large_mean_has_the_same_bits_everywhere(comm):
    """Libraries change the algorithm with the length."""
    x = torch.randn(
        len(comm.hosted), 300_001, generator=torch.Generator().manual_seed(comm.process)
    )
    assert len(set(comm.share(comm.mean(x).numpy().tobytes()))) == 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_started_means_are_the_means_whatever_is_sent_meanwhile(comm, dtype):
    x, other = rows(comm.n, dtype=dtype), rows(comm.n, seed=1, dtype=dtype)
    first, second = (comm.start_mean(here(comm, each)) for each in (x, other))
    assert comm.traffic.bytes_sent_per_learner == 0
    mixed = comm.start_mix(here(comm, other), ring(comm.n))
    between = comm.mean(here(comm, other))
    comm.share(None)
    means = first(), second()
    mixed()
    for mean, each in zip(means, (x, other), strict=True):
        tolerance = torch.finfo(dtype).eps * 8
        exact = each.double().mean(0)
        torch.testing.assert_close(mean.double(), exact, rtol=tolerance, atol=tolerance)
        assert mean.dtype == dtype
        assert len(set(comm.share(mean.double().numpy().tobytes()))) == 1
    torch.testing.assert_close(means[1], between)
    stacked = Stacked(comm.n)
    for each in (x, other, other):
        stacked.mean(each)
    stacked.start_mix(other, ring(comm.n))
    counted = comm.traffic.bytes_sent_per_learner
    assert counted == pytest.approx(stacked.traffic.bytes_sent_per_learner, rel=1e-12)


FREE_SECONDS = 60.0
"""Until a process that is to be left alone gives up: nobody waits so long who is not stuck."""


@pytest.mark.parametrize("comm", [KINDS[1], KINDS[8]], indirect=True, ids="-".join)
@pytest.mark.parametrize("d", [D, 300_001])
def test_a_started_mean_comes_to_its_end_while_other_processes_compute(comm, d, tmp_path):
    """They make no call until process 0 has the average: nothing travels by their waiting."""
    word = Path(comm.share(str(tmp_path / "has come"))[0])
    x = torch.ones(len(comm.hosted), d) * (comm.process + 1)
    comm.mean(x[:, :1])
    pending = comm.start_mean(x)
    if comm.process == 0:
        mean = pending()
        word.touch()
    else:
        deadline = time.monotonic() + FREE_SECONDS
        while not word.exists():
            assert time.monotonic() < deadline, "process 0 waits for a call of this one"
            time.sleep(0.01)
        mean = pending()
    torch.testing.assert_close(mean, torch.full((d,), (comm.processes + 1) / 2))


def test_a_started_mean_that_nobody_waits_for_disturbs_nothing(comm):
    x = rows(comm.n)
    comm.start_mean(here(comm, x))
    assert torch.equal(comm.gather(here(comm, x)), x)
    torch.testing.assert_close(comm.start_mean(here(comm, x))(), x.mean(0))


def test_the_mean_of_one_row_that_stands_for_all(comm):
    x = torch.full((1, D), float(comm.process))
    torch.testing.assert_close(comm.mean(x), torch.full((D,), (comm.processes - 1) / 2))


def test_the_mean_of_numbers_is_a_number(comm):
    mean = comm.mean(torch.arange(comm.hosted.start, comm.hosted.stop, dtype=torch.float64))
    assert mean.shape == ()
    assert mean.item() == pytest.approx((comm.n - 1) / 2)


@AT_MANY
def test_gather_gives_all_rows_in_order(comm):
    x = rows(comm.n)
    assert torch.equal(comm.gather(here(comm, x)), x)
    assert torch.equal(comm.gather(here(comm, x).T.contiguous().T), x)
    numbers = torch.arange(comm.n)
    assert torch.equal(comm.gather(here(comm, numbers)), numbers)


@AT_MANY
def test_share_gives_everybodys_value_in_order(comm):
    values = comm.share({"process": comm.process, "learners": list(comm.hosted)})
    assert [value["process"] for value in values] == list(range(comm.processes))
    assert [j for value in values for j in value["learners"]] == list(range(comm.n))


@AT_MANY
def test_traffic_is_what_the_stacked_backend_counts(comm):
    stacked, x = Stacked(comm.n), rows(comm.n)
    before = (comm.traffic.bytes_sent_per_learner, comm.traffic.messages_per_learner)
    assert before == (0.0, 0.0)
    for matrix in MATRICES:
        w = csr_array(matrix(comm.n))
        comm.start_mix(here(comm, x), w)()
        stacked.start_mix(x, w)()
    comm.mean(here(comm, x))
    stacked.mean(x)
    assert comm.traffic.bytes_sent_per_learner == stacked.traffic.bytes_sent_per_learner
    assert comm.traffic.messages_per_learner == stacked.traffic.messages_per_learner
    assert comm.processes == 1 or comm.traffic.seconds_waiting > 0


@AT_MANY
def test_a_row_travels_once_to_a_process_and_only_where_needed(comm):
    if comm.processes == 1:
        pytest.skip("nothing travels")
    w = csr_array(unsymmetric(comm.n))
    plans = comm.share((comm._planned(w).sends, comm._planned(w).far))
    local = len(comm.hosted)
    sent = sorted((k, source, to) for source, plan in enumerate(plans) for k, to in plan[0])
    received = sorted((k, source, to) for to, plan in enumerate(plans) for k, source in plan[1])
    j, k = w.nonzero()
    needed = {(b, b // local, a // local) for a, b in zip(j.tolist(), k.tolist(), strict=True)}
    assert sent == received == sorted(e for e in needed if e[1] != e[2])


def test_processes_that_agree_go_on(comm):
    agree(comm, {"config": "abc", "dataset": "def"})


@AT_MANY
@pytest.mark.mpi(min_size=2)
def test_processes_that_disagree_all_raise_the_same_text(comm):
    facts = {"config": "abc", "dataset": f"sha-{comm.process == 1}"}
    with pytest.raises(UserError) as error:
        agree(comm, facts)
    texts = comm.share(str(error.value))
    assert len(set(texts)) == 1
    assert "dataset" in texts[0]
    assert "config" not in texts[0]
    assert "process 1 (" in texts[0]


@AT_MANY
def test_everyone_arrives_only_if_everyone_comes(comm):
    if comm.processes == 1:
        pytest.skip("needs others")
    assert comm.everyone_arrives(5.0)
    if comm.process != 0:
        assert not comm.everyone_arrives(0.05)
    comm.share(None)
    if comm.process == 0:
        assert comm.everyone_arrives(5.0)
    comm.share(None)  # MPI works on while the others are in MPI
