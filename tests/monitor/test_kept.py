"""What methods keep, watched: closed forms, invariants of every method, and whose columns."""

from dataclasses import replace
from math import isnan, sqrt

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array

from gossip.algorithms import ALGORITHMS
from gossip.comm.stacked import Stacked
from gossip.config import Averaging, Config, Data, Model, Monitoring, Rate
from gossip.loop.evaluation import LEARNERS, scores_of_learners
from gossip.monitor import METHOD, Moment, Monitor, names_of
from gossip.monitor.kept import GAUGES, kept_values
from gossip.runs.dispatch import columns, loop
from gossip.study import prepare
from gossip.task import Gradients
from tests import problems
from tests.fits import PLAIN, SHORT, fitted, topologies_of
from tests.monitor.monitor_cases import F64, Quadratic, on_processes
from topologies import build

N, D = 6, 8
INVARIANTS = {"tracker_bias", "correction_bias", "mass_error"}
OWN_THETA = {"noloco", "gasloc", "diloco-eager"}
"""Methods in rounds whose learners do not build on one theta."""


def moment(x_next, kept, x=None):
    x = x_next if x is None else x
    nothing = torch.zeros(len(x), 1, 1, dtype=F64)
    return Moment(0, 0.1, x, x, x, x, x_next, nothing, nothing, kept=kept)


def rows(seed, d=D):
    return torch.from_numpy(np.random.default_rng(seed).standard_normal((N, d)))


def test_every_column_has_a_meaning_and_every_meaning_a_column():
    everything = {name for gauge in GAUGES.values() for name in gauge.needs}
    assert set(names_of(everything, with_gradient=True, with_flat=True)) == set(METHOD)
    assert set(METHOD) - set(names_of(everything, with_gradient=False)) == {
        "alpha_e_round",
        "sigma_w2_flat",
    }
    assert names_of({"momentum"}, with_gradient=True) == ()
    of_weights = {"estimate_error", "estimate_consensus"}
    line = ALGORITHMS["ef21"](problems.optimizer(), PLAIN)
    kept = line.init(torch.zeros(D), 1).rows
    assert of_weights.isdisjoint(names_of(kept, with_gradient=True)), "it estimates gradients"


@pytest.mark.parametrize("name", ALGORITHMS)
def test_invariants_hold_at_every_step_of_every_method(name):
    line, (_, _, gradient) = ALGORITHMS[name], problems.quadratic(D, N)
    options = {**SHORT, "compressor": "top-k:3"}
    algorithm = line(problems.optimizer(), PLAIN._replace(options=options))
    w, comm = build(topologies_of(name)[0], N).matrix, Stacked(N)
    state, spread = algorithm.init(rows(3)[0], N), 0.0
    for t in range(10):
        state, _ = algorithm.step(state, gradient, w(t), lambda *_: 0.05, comm)
        values = kept_values(moment(state.x, state.rows), comm)
        assert set(values) == set(names_of(state.rows, with_gradient=False))
        assert all(values[each] < 1e-12 for each in INVARIANTS & values.keys())
        spread = max(spread, values.get("anchor_spread", 0.0))
    assert (spread > 1e-3) if name in OWN_THETA else (spread < 1e-12)


def test_an_invariant_that_is_broken_is_seen():
    y = rows(0)
    kept = {"tracker": y + 1, "gradient": y, "correction": y - y.mean(0) + 2}
    kept["mass"] = torch.full((N, 1), 1.25, dtype=F64)
    values = kept_values(moment(y, kept), Stacked(N))
    assert values["tracker_bias"] == pytest.approx(sqrt(D))
    assert values["correction_bias"] == pytest.approx(2 * sqrt(D))
    assert values["mass_error"] == pytest.approx(0.25)


def test_values_are_those_of_the_definitions_on_any_number_of_processes():
    x, kept = rows(1), {"error": rows(2), "estimate": rows(3), "anchor": rows(4)}
    error, estimate, anchor = (each.numpy() for each in kept.values())
    delta = anchor - x.numpy()
    lengths, mean = np.linalg.norm(delta, axis=1), delta.mean(0)
    expected = {
        "error_norm": sqrt((error**2).sum(1).mean()),
        "estimate_error": sqrt(((x.numpy() - estimate) ** 2).sum(1).mean()),
        "estimate_consensus": sqrt(((estimate - estimate.mean(0)) ** 2).sum(1).mean()),
        "anchor_spread": np.linalg.norm(anchor - anchor.mean(0), axis=1).max(),
        "pseudo_norm": np.linalg.norm(mean),
        "pseudo_agreement": (mean**2).sum() / (lengths**2).mean(),
        "pseudo_cosine": (delta @ mean / lengths).mean() / np.linalg.norm(mean),
    }
    assert kept_values(moment(x, kept), Stacked(N)) == pytest.approx(expected, rel=1e-12)

    def mine(comm):
        here = slice(comm.hosted.start, comm.hosted.stop)
        return kept_values(moment(x[here], {k: v[here] for k, v in kept.items()}), comm)

    for values in on_processes(N, 3, mine):
        assert values == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("done", "agreement", "cosine"),
    [(torch.ones(N, N), 1.0, 1.0), (torch.eye(N), 1 / N, 1 / sqrt(N)),
     (torch.zeros(N, N), None, None)],
    ids=["agreed", "orthogonal", "just begun"],
)  # fmt: skip
def test_pseudo_gradients_that_agree_and_that_do_not(done, agreement, cosine):
    theta = rows(5, N)
    values = kept_values(moment(theta - done.double(), {"anchor": theta}), Stacked(N))
    if agreement is None:
        assert isnan(values["pseudo_agreement"])
        assert isnan(values["pseudo_cosine"])
        return
    assert values["pseudo_agreement"] == pytest.approx(agreement)
    assert values["pseudo_cosine"] == pytest.approx(cosine)


@pytest.mark.parametrize("steps", [0, 1, 5])
def test_the_rate_of_a_round_of_gradient_descent_is_its_closed_form(steps):
    """Delta = (I - (I - alpha H)^k) e and g = H e; after one step it is alpha."""
    task, alpha = Quadratic(), 0.05
    best = task.train.inputs.mean(0)
    theta = task.init(1)
    power = torch.linalg.matrix_power(torch.eye(task.d, dtype=F64) - alpha * task.hessian, steps)
    e = theta - best
    g, delta = task.hessian @ e, e - power @ e
    now = moment((theta - delta).repeat(N, 1), {"anchor": theta.repeat(N, 1)})
    rate = Monitor(task)(now, Stacked(N))["alpha_e_round"]
    if not steps:
        assert isnan(rate)
        return
    assert rate == pytest.approx(float(delta @ g / (g @ g)), rel=1e-9)
    assert steps > 1 or rate == pytest.approx(alpha, rel=1e-9)


@pytest.mark.parametrize(
    ("name", "order", "topology"),
    [("dpsgd", "awc", "ring"), ("dpsgd", "atc", "ring"), ("dpsgd", "awc", "exponential"),
     ("d2", "awc", "torus")],
)  # fmt: skip
def test_noise_alone_leads_to_the_variance_that_the_spectrum_predicts(name, order, topology):
    """Of 8 learners and 4000 coordinates, over 20 steps: within 3 %."""
    n, d, alpha, start = 8, 4000, 0.1, 80
    draw = torch.Generator().manual_seed(1)
    algorithm = ALGORITHMS[name](problems.optimizer(), PLAIN._replace(order=order))
    w, comm = build(topology, n).matrix(0), Stacked(n)
    w = csr_array((w + w.T) / 2)
    state, found, expected = algorithm.init(torch.zeros(d, dtype=F64), n), [], []
    for t in range(start + 20):
        noise = torch.randn(n, d, dtype=F64, generator=draw)
        after, step = algorithm.step(
            state, lambda x, noise=noise: Gradients(noise, x.sum(1)), w, lambda *_: alpha, comm
        )
        if t >= start:
            now = moment(after.x, after.rows, state.x)
            now = replace(now, gradients=step.gradients, flat_spread=algorithm.flat_spread(w))
            expected.append(kept_values(now, comm)["sigma_w2_flat"])
            found.append(float((state.x - state.x.mean(0)).square().sum()) / n**2)
        state = after
    assert np.mean(found) == pytest.approx(np.mean(expected), rel=0.03)


@pytest.mark.parametrize(
    ("changed", "has"),
    [({}, True), ({"topology": "one-peer-exponential"}, False),
     ({"topology": "exponential", "learners": 5}, False), ({"mix_every": 2}, False),
     ({"momentum": 0.9}, False), ({"optimizer": "adam"}, False),
     ({"layer_ratio": "fixed"}, False)],
)  # fmt: skip
def test_a_formula_is_used_only_where_it_holds(changed, has):
    """Not of changing or asymmetric W, of rare mixings, or beside another optimizer."""
    rate = {k: v for k, v in changed.items() if k in ("momentum", "optimizer", "layer_ratio")}
    gossip = {"learners": 4} | {k: v for k, v in changed.items() if k not in rate}
    config = Config(
        algorithm=("dpsgd",),
        gossip=Averaging(**gossip),
        data=Data(dataset="digits", batch_size=4),
        rate=Rate(lr=0.1, **rate),
    )
    study = prepare(config, Stacked(gossip["learners"]))
    assert ("sigma_w2_flat" in columns(study, "dpsgd")) == has
    assert "sigma_w2_flat" not in columns(study, "ssgd")


@pytest.mark.parametrize("w", [[[0, 1], [1, 0]], [[1, 0], [0, 1]]], ids=["to and fro", "apart"])
@pytest.mark.parametrize("name", ["dpsgd", "d2"])
def test_learners_that_never_come_together_have_no_variance_in_the_end(name, w):
    algorithm = ALGORITHMS[name](problems.optimizer(), PLAIN)
    found = algorithm.flat_spread(csr_array(np.array(w, float)))
    assert (found is None) == (name == "dpsgd" or w[0][0] == 1), "d2 takes as much of W as it can"


def test_learners_with_one_model_have_statistics_of_their_own():
    config = Config(
        algorithm=("ssgd",),
        steps=3,
        gossip=Averaging(learners=3),
        data=Data(dataset="digits", batch_size=8),
        model=Model(model="tests.problems:batch_norm_net"),
        rate=Rate(lr=0.5),
        monitoring=Monitoring(monitor="cheap", single_learners=True),
    )
    study = prepare(config, Stacked(3))
    task = study.task
    x = task.init(1).unsqueeze(0)
    buffers = task.init_buffers(3)
    buffers += torch.arange(3.0).unsqueeze(1)
    everything = np.arange(len(task.test))
    errors = [task.evaluate(x[0], task.test, everything, own).errors for own in buffers]
    found = scores_of_learners(study, x, buffers)
    expected = np.array([min(errors), np.mean(errors), max(errors)]) / len(task.test)
    assert [found[column] for column in LEARNERS] == pytest.approx(expected)
    assert min(errors) < max(errors)


@pytest.mark.parametrize("name", ["dpsgd", "ssgd"])
def test_single_learners_are_judged_by_their_own_models(name):
    config = Config(
        algorithm=(name,),
        steps=6,
        gossip=Averaging(learners=4),
        data=Data(dataset="digits", batch_size=8),
        model=Model(widths=(8,)),
        rate=Rate(lr=0.5),
        monitoring=Monitoring(monitor="cheap", monitor_every=5, single_learners=True),
    )
    study = prepare(config, Stacked(4))
    recorded: list[dict[str, float]] = []
    outcome = loop(study, name)(record=recorded.extend)
    task = study.task
    scores = [task.evaluate(row, task.test, np.arange(len(task.test))) for row in outcome.state.x]
    errors = [wrong / count for _, wrong, count in scores]
    expected = [min(errors), float(np.mean(errors)), max(errors)]
    assert [recorded[-1][column] for column in LEARNERS] == pytest.approx(expected)
    assert all(column in recorded[0] for column in LEARNERS)
    if name == "ssgd":
        assert expected == [pytest.approx(recorded[-1]["test_error"])] * 3
    else:
        assert expected[0] < expected[2]


SENT = {
    "dpsgd": 2.0,
    "ssgd": 2 * 4 / 5,
    "choco-atc": None,
    "diloco": 2 * 4 / 5 / 4,
    "ad-psgd": None,
}
"""Rows that a learner of 5 on a ring sends a step, after 4 steps and a round of 4."""


@pytest.mark.parametrize("level", ["cheap", "standard"])
@pytest.mark.parametrize("name", SENT)
def test_a_trace_has_the_columns_of_its_method_and_what_was_sent(name, level):
    base = Config(
        algorithm=(name,),
        steps=4,
        gossip=Averaging(learners=5),
        data=Data(dataset="digits", batch_size=4),
        model=Model(widths=(4,), dtype="float64"),
        rate=Rate(lr=0.1),
        monitoring=Monitoring(monitor=level, monitor_every=3),
    )
    study = prepare(base if name == "ad-psgd" else fitted(name, base), Stacked(5))
    recorded: list[dict[str, float]] = []
    outcome = loop(study, name)(record=recorded.extend)
    there = {column for row in recorded for column in row} & METHOD.keys()
    assert there == set(columns(study, name)) & METHOD.keys()
    last = [row for row in recorded if "bytes_sent" in row][-1]
    assert last["bytes_sent"] == outcome.bytes_sent_per_learner
    assert last["rows_sent"] == pytest.approx(last["bytes_sent"] / (4 * study.task.d * 8))
    if SENT[name] is not None:
        assert last["rows_sent"] == pytest.approx(SENT[name])
