"""A rate that follows the effective rate another run has recorded."""

import json
from dataclasses import replace
from math import nan

import numpy as np
import pytest

from gossip.comm.stacked import Stacked
from gossip.config import Averaging, Config, Data, Model, Monitoring, Rate, from_tables, to_tables
from gossip.config.places import absolute
from gossip.errors import UserError
from gossip.rates import follow
from gossip.trace import FILE, Trace
from tests.rates.cases import made, rates
from tests.resume.walks import walk

STEPS = 40
SEEN = {0: 0.3, 1: nan, 10: -0.2, 20: 0.9, 30: 0.5}
"""Recorded steps, and alpha_e there."""


@pytest.fixture
def run(tmp_path):
    """The folder of a run with that trace, and ||g|| = 1 + step / 10."""
    with Trace(tmp_path, ["alpha_e", "grad_norm"]) as written:
        written.append(
            [{"step": t, "alpha_e": rate, "grad_norm": 1 + t / 10} for t, rate in SEEN.items()]
        )
        written.append([{"step": 39}])
    return tmp_path


@pytest.mark.parametrize("lr", [0.8, 2.0])
def test_the_rate_is_the_recorded_one_whatever_the_base_rate(run, lr):
    seen = rates(made(lr=lr, lr_trace=str(run)))
    expected = np.interp(range(STEPS), [0, 10, 20, 30], [0.3, 0.0, 0.9, 0.5])
    assert seen == pytest.approx(expected, abs=1e-12)


def test_a_window_weighs_by_the_squared_gradient(run):
    seen = rates(made(lr_trace=str(run), lr_trace_window=11))
    g2 = {t: (1 + t / 10) ** 2 for t in SEEN}
    for t, around in {0: (0, 10), 10: (0, 10, 20), 20: (10, 20, 30), 30: (20, 30)}.items():
        mean = sum(SEEN[s] * g2[s] for s in around) / sum(g2[s] for s in around)
        assert seen[t] == pytest.approx(max(0.0, mean), rel=1e-12)


def test_other_factors_multiply_it(run):
    seen = rates(made(lr_trace=str(run), scaling="linear"))
    assert seen[20] == pytest.approx(4 * 0.9)


def test_a_file_is_a_run_too_and_its_place_is_kept_absolute(run, monkeypatch):
    monkeypatch.chdir(run.parent)
    config = absolute(Config(rate=Rate(lr_trace=f"{run.name}/{FILE}")))
    assert config.rate.lr_trace == str(run / FILE)
    assert from_tables(json.loads(json.dumps(to_tables(config)))) == config
    assert rates(made(lr_trace=config.rate.lr_trace))[20] == pytest.approx(0.9)


def test_a_trace_of_few_rates_is_said(run, tmp_path):
    assert follow.remarks(None) == follow.remarks(str(run)) == []
    with Trace(tmp_path / "thin", ["alpha_e"]) as written:
        written.append([{"step": t, "alpha_e": 0.1 if t % 25 == 0 else nan} for t in range(60)])
    (note,) = follow.remarks(str(tmp_path / "thin"))
    assert "recorded at 3 of 60 steps" in note


def test_ssgd_has_the_effective_rates_of_a_dpsgd_run(tmp_path):
    """A duel: recorded at every step, alpha_e is the learning rate that the second run reports."""
    config = Config(
        algorithm=("dpsgd",),
        steps=6,
        gossip=Averaging(learners=4, topology="complete"),
        data=Data(dataset="digits", batch_size=10),
        model=Model(widths=(4,), dtype="float64"),
        rate=Rate(lr=0.3),
        monitoring=Monitoring(monitor_every=1),
    )
    _, first = walk(config, Stacked(4))
    columns = dict.fromkeys(name for row in first for name in row if name != "step")
    with Trace(tmp_path, list(columns)) as written:
        written.append([row for row in first if "alpha_e" in row])
    rate = replace(config.rate, lr_trace=str(tmp_path))
    _, second = walk(replace(config, algorithm=("ssgd",), rate=rate), Stacked(4))
    wanted = [max(0.0, row["alpha_e"]) for row in first if "alpha_e" in row]
    assert [row["lr"] for row in second if "alpha_e" in row] == pytest.approx(wanted, rel=1e-6)
    assert len(set(wanted)) > 1


@pytest.mark.parametrize(
    ("columns", "rate", "complaint"),
    [
        (["train_loss"], {}, "has no alpha_e; record that run with"),
        (["alpha_e"], {"lr_trace_window": 3}, "has no grad_norm"),
        (["alpha_e"], {}, "no step with an alpha_e"),
        (["alpha_e"], {"lr": 0.0}, "give any --lr > 0"),
        (["alpha_e"], {"decay": "cosine"}, "--lr-trace and --decay cosine"),
        (["alpha_e"], {"lr_trace_window": 0}, "lr_trace_window"),
    ],
)
def test_what_cannot_be_followed_is_refused(tmp_path, columns, rate, complaint):
    with Trace(tmp_path, columns) as written:
        written.append([{"step": 0}])
    with pytest.raises(UserError, match=complaint):
        made(**{"lr_trace": str(tmp_path), **rate})


def test_a_run_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(UserError, match="no-such"):
        made(lr_trace=str(tmp_path / "no-such"))
