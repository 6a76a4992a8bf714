"""Rows that are mixed as an operator's payloads: what travels, what is kept, what is refused."""

import json
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array

from gossip import Gossip, asynchronous
from gossip.algorithms import Dpsgd
from gossip.comm.compressing import compressing
from gossip.comm.stacked import Stacked
from gossip.compress import OPERATORS, compressed, operator, wire
from gossip.config import Averaging, Config, Data, Rate
from gossip.errors import UserError
from gossip.run import main
from gossip.study import algorithm as made_for
from gossip.study import prepare
from tests.problems import complete, optimizer, ring
from tests.quadratics import problem

N, D = 6, 40
X = torch.randn(N, D, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
KEYS = torch.zeros(N, dtype=torch.int64)
PRECISE = ["identity", "int8", "int4", "fp4", "int8:7"]


@pytest.mark.parametrize("spec", PRECISE)
@pytest.mark.parametrize("graph", [ring, complete])
def test_it_is_x_and_what_w_moves_of_the_operators_rows(spec, graph):
    w, made = graph(N), wire(spec)
    comm = compressing(Stacked(N), made)
    before = X.clone()
    mixed = comm.start_mix(X, w)()
    dense = torch.from_numpy(w.toarray())
    expected = X + (dense - torch.eye(N)) @ compressed(made, X, KEYS)
    torch.testing.assert_close(mixed, expected, rtol=1e-12, atol=1e-13)
    torch.testing.assert_close(mixed.mean(0), X.mean(0), rtol=0, atol=1e-14)
    assert torch.equal(X, before)
    assert comm.traffic.bytes_sent_per_learner == (w.nnz / N - 1) * made.size(D, 8)
    lost = dense @ compressed(made, X, KEYS)
    assert spec == "identity" or (lost.mean(0) - X.mean(0)).abs().max() > 1e-4, "without one's own"


def test_payloads_and_learners_without_neighbours_are_left_as_they_are():
    comm, plain = compressing(Stacked(N), wire("int4")), Stacked(N)
    assert torch.equal(comm.start_mix(X, csr_array(np.eye(N)))(), X)
    top = operator("top-k:3")
    payload = top.encode(X, KEYS)
    found = [
        k.start_mix(payload, ring(N), lambda p: top.decode(p, D, X.dtype))() for k in (comm, plain)
    ]
    assert torch.equal(*found)
    assert torch.equal(comm.mean(X), plain.mean(X))
    assert comm.n == N


def spread_of(spec):
    """Largest distance to the mean after many mixings, and how far the mean has moved."""
    comm, x = compressing(Stacked(N), operator(spec)), X
    for _ in range(300):
        x = comm.start_mix(x.contiguous(), ring(N))()
    return float((x - x.mean(0)).abs().max()), float((x.mean(0) - X.mean(0)).abs().max())


def test_learners_come_as_near_as_the_operator_is_precise():
    spreads = {}
    for spec in ("int8", "int4", "top-k:4"):
        spreads[spec], moved = spread_of(spec)
        assert moved < 1e-13
    largest = float(X.abs().max())
    assert spreads["int8"] < 4 * largest / 254
    assert spreads["int4"] < 4 * largest / 14
    assert spreads["top-k:4"] > 0.5, "which is why it is refused"


def test_the_mean_moves_by_the_mean_gradient():
    p = problem(N, D)
    comm, algorithm = compressing(Stacked(N), wire("int4")), Dpsgd(optimizer())
    state = algorithm.init(p.start()[0], N)
    for _ in range(5):
        x = state.x
        state, _ = algorithm.step(state, p.gradient, ring(N), lambda *_: 0.01, comm)
        expected = x.mean(0) - 0.01 * p.at(x).mean(0)
        torch.testing.assert_close(state.x.mean(0), expected, rtol=0, atol=1e-13)


@pytest.mark.parametrize("name", sorted(set(OPERATORS) - {"identity", "int8", "int4", "fp4"}))
def test_what_leaves_out_too_much_is_refused_with_the_way_out(name):
    for make in (
        wire,
        lambda spec: Averaging(wire=spec),
        lambda spec: Gossip(torch.nn.Linear(1, 1), wire=spec),
    ):
        with pytest.raises(UserError) as caught:
            make(name)
        text = str(caught.value)
        assert "lose their mean or leave learners apart" in text
        assert "int8" in text
        assert f"compressor={name}" in text
        assert "\n" not in text


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Averaging(wire="int88"), "did you mean int8"),
        (lambda: Averaging(wire="int8:0"), "at least 1"),
        (lambda: Averaging(wire="int8:a"), "int8:COUNT"),
        (lambda: Gossip(torch.nn.Linear(1, 1), wire="int88"), "did you mean int8"),
        (lambda: Gossip(torch.nn.Linear(1, 1), wire=8), "give a name"),
        (lambda: Gossip(torch.nn.Linear(1, 1), algorithm="diloco", wire="int4"), "sparseloco"),
        (lambda: Gossip(torch.nn.Linear(1, 1), algorithm="gt-awc", wire="int4"), "sums of what"),
    ],
)
def test_a_wrong_wire_is_refused(make, said):
    with pytest.raises(UserError) as caught:
        make()
    assert said in str(caught.value)


@pytest.mark.usefixtures("no_pictures")
def test_a_run_counts_the_bytes_of_its_payloads(tmp_path, capsys):
    options = "--dataset digits --model softmax --learners 4 --batch-size 10 --steps 3 --lr 0.1"
    words = [*options.split(), "--wire", "int4", "--out", str(tmp_path / "a")]
    assert main([*words, "--algorithm", "dpsgd"]) == 0
    summary = json.loads((tmp_path / "a" / "summary.json").read_text())
    assert summary["bytes_sent_per_learner"] == 3 * 2 * operator("int4").size(650, 4)
    assert summary["backend"] == "stacked"
    assert main([*words[:-1], str(tmp_path / "b"), "--algorithm", "gt-awc"]) == 2
    assert "which --wire int4 would round" in capsys.readouterr().err
    assert main([*words, "--algorithm", "mixed-state", "--optimizer", "adam"]) == 2
    assert "which --wire int4 might make negative" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "has_effect"),
    [("dpsgd", True), ("noloco", True), ("gasloc", True), ("ad-psgd", False), ("ssgd", False)],
)
def test_a_wire_without_effect_is_said(name, has_effect):
    config = Config(
        algorithm=(name,),
        gossip=Averaging(learners=4, wire="int4"),
        data=Data(dataset="digits", batch_size=4),
        rate=Rate(lr=0.1),
    )
    notes = prepare(config, Stacked(4)).warnings
    assert any("wire has no effect" in note for note in notes) != has_effect


AVERAGING = ("local-sgd", "diloco", "streaming-diloco", "diloco-eager", "sparta", "post-local-sgd")


@pytest.mark.parametrize("name", AVERAGING)
@pytest.mark.parametrize("spec", ["int4", "bf16"])
def test_an_exact_average_over_all_is_refused_with_the_way_out(name, spec):
    config = Config(
        algorithm=(name,),
        gossip=Averaging(learners=4, wire=spec),
        data=Data(dataset="digits", batch_size=4),
    )
    study = prepare(config, Stacked(4))
    way = "int4" if spec == "int4" else "int8"
    with pytest.raises(UserError, match=f"{name} .*--wire {spec}.*sparseloco.*compressor={way}"):
        made_for(name, study)


def test_asynchronous_learners_are_asked_for_the_backend_that_sends():
    for backend, fits in (("mpi", True), ("gloo", False)):
        comm, study = Stacked(2), Mock(damper=None, **{"rule.needs_norms": False})
        comm.backend, comm.processes = backend, 2
        study.comm, study.config.compute.scales_loss = compressing(comm, wire("int4")), False
        study.config.monitoring.step_times = False
        if fits:
            asynchronous.check_study(study)
        else:
            with pytest.raises(UserError, match="ad-psgd on backend gloo"):
                asynchronous.check_study(study)
