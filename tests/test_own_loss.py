"""A loss of one's own in the harness: the same trajectory however it is computed and hosted."""

import math
import sys
import types

import numpy as np
import pytest
import torch

from gossip.comm.stacked import Stacked
from gossip.config import Averaging, Config, Data, Model, Monitoring, load
from gossip.errors import UserError
from gossip.storage import folder
from gossip.study import Study, algorithm, prepare
from gossip.train import train


def same(logits, labels):
    """Cross-entropy."""
    return torch.nn.functional.cross_entropy(logits, labels)


def squares(logits, labels):
    """Brier's score."""
    wanted = torch.nn.functional.one_hot(labels, logits.shape[-1])
    return (logits.softmax(-1) - wanted).square().sum(-1).mean()


def in_turn(logits, labels):
    """Squares, by a branch that depends on data."""
    return squares(logits, labels) if float(logits.detach().abs().max()) < 1e9 else logits.sum()


def a_sum(logits, labels):
    return len(labels) * same(logits, labels)


def of_rows(logits, labels):
    return torch.nn.functional.cross_entropy(logits, labels, reduction="none")


def raising(logits, labels):
    raise KeyError("no such label")


@pytest.fixture(autouse=True)
def module(monkeypatch):
    own = types.ModuleType("own_loss")
    for f in (same, squares, in_turn, a_sum, of_rows, raising):
        setattr(own, f.__name__, f)
    monkeypatch.setitem(sys.modules, "own_loss", own)


def study(loss="cross-entropy") -> Study:
    config = Config(
        algorithm=("dpsgd",),
        steps=6,
        gossip=Averaging(learners=3),
        data=Data(dataset="digits", batch_size=10),
        model=Model(widths=(8,), dtype="float64", loss=loss),
        monitoring=Monitoring(monitor="full", monitor_every=1),
    )
    return prepare(config, Stacked(3))


def walked(chosen):
    rows = []
    outcome = train(chosen, algorithm("dpsgd", chosen), record=rows.extend)
    return outcome, rows


def test_cross_entropy_of_ones_own_is_the_default():
    (own, rows), (default, expected) = walked(study("own_loss:same")), walked(study())
    torch.testing.assert_close(own.state.x, default.state.x, rtol=1e-12, atol=1e-12)
    for name in ("alpha_e", "delta_s", "delta2_hessian", "loss_mean_model"):
        a, b = ([row[name] for row in found if name in row] for found in (rows, expected))
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-15)
    assert own.final["test_loss"] == pytest.approx(default.final["test_loss"], rel=1e-12)


def test_what_cannot_be_batched_is_taken_in_turn_and_walks_the_same_way():
    batched, turned = study("own_loss:squares"), study("own_loss:in_turn")
    assert (batched.task.engine, turned.task.engine) == ("perceptrons", "loop")
    assert "cannot be batched" in " ".join(turned.task.notes)
    (one, rows), (other, _) = walked(batched), walked(turned)
    torch.testing.assert_close(one.state.x, other.state.x, rtol=1e-11, atol=1e-12)
    assert rows[-1]["loss_mean_model"] < 1.5  # of a score that is at most 2
    assert not one.verdict.diverged


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("own_loss:a_sum", "no mean over samples"),
        ("own_loss:of_rows", "does not give one number"),
        ("own_loss:raising", "cannot take logits .* no such label"),
        ("own_loss:absent", "has no 'absent'"),
    ],
)
def test_what_is_no_loss_is_refused(name, message):
    with pytest.raises(UserError, match=message):
        study(name)


def test_an_unknown_name_is_refused_and_a_file_may_not_name_code(tmp_path):
    with pytest.raises(UserError, match="unknown loss 'hinge'"):
        Model(loss="hinge")
    folder.write_config(tmp_path, {"model": {"loss": "os:abort"}})
    with pytest.raises(UserError, match="names code, loss = 'os:abort'"):
        load(tmp_path / folder.CONFIG)


def test_a_loss_that_is_no_cross_entropy_is_not_judged_by_its_constant_predictor():
    from gossip.loop.verdict import Verdict

    own, entropy = Verdict(None), Verdict(10)
    for verdict in (own, entropy):
        verdict.end(5, math.log(10))
    assert not own.diverged
    assert entropy.diverged
