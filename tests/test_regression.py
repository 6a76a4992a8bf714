"""Labels that are real numbers: gradients, errors and verdicts against their closed forms."""

import collections
import sys
import types
from io import StringIO

import numpy as np
import pytest
import torch
from rich.console import Console

from gossip import run
from gossip.comm.stacked import Stacked
from gossip.config import Averaging, Config, Data, Model, Monitoring, Rate
from gossip.data import PARTITIONS, from_arrays
from gossip.data.partition import Population
from gossip.errors import UserError
from gossip.landscape.command import table as landscape_table
from gossip.landscape.measure import Landscape
from gossip.loop.verdict import Verdict
from gossip.report import load_runs
from gossip.report.page.build import page
from gossip.report.table import summary_table
from gossip.simulate.coupling import Coupled, sentence
from gossip.study import algorithm, prepare
from gossip.train import train
from gossip.watch.curves import PanelStyle, picture

K = 2
DRAWS = np.random.default_rng(3)
X, EXTRA = DRAWS.standard_normal((40, 3)), DRAWS.standard_normal((15, 3))
TRUE = DRAWS.standard_normal((3, K))
NOISE = 0.3 * DRAWS.standard_normal((55, K))
Y, Y_EXTRA = 5 + 7 * (X @ TRUE + NOISE[:40]), 5 + 7 * (EXTRA @ TRUE + NOISE[40:])


def numbers():
    """Two numbers for each sample, far from standardised."""
    return X, Y, EXTRA, Y_EXTRA


def one_number():
    return X, Y[:, 0], EXTRA, Y_EXTRA[:, 0]


def constant():
    return X, np.full(40, 0.5), EXTRA, Y_EXTRA[:, 0]


def classes():
    return X, np.arange(40) % 3, EXTRA, np.arange(15) % 3


def square(outputs, labels):
    """What mse is."""
    return torch.nn.functional.mse_loss(outputs, labels)


def absolute(outputs, labels):
    return (outputs - labels).abs().mean()


@pytest.fixture(autouse=True)
def module(monkeypatch):
    own = types.ModuleType("own_numbers")
    for f in (numbers, one_number, constant, classes, square, absolute):
        setattr(own, f.__name__, f)
    monkeypatch.setitem(sys.modules, "own_numbers", own)


def study(dataset="numbers", loss="mse", n=2, batch_size=20, steps=1, lr=0.1, every=1, **data):
    return prepare(
        Config(
            algorithm=("dpsgd",),
            steps=steps,
            gossip=Averaging(learners=n, topology="complete"),
            data=Data(
                dataset=f"own_numbers:{dataset}", batch_size=batch_size, inputs="raw", **data
            ),
            model=Model(model="softmax", dtype="float64", loss=loss),
            rate=Rate(lr=lr),
            monitoring=Monitoring(monitor="full", monitor_every=every),
        ),
        Stacked(n),
    )


def walked(chosen):
    rows = []
    return train(chosen, algorithm("dpsgd", chosen), record=rows.extend), rows


def predicted(row, inputs):
    """What the linear model of a row says of inputs [N, 3]: its weights [K, 3], then its biases."""
    w, b = row[: 3 * K].reshape(K, 3).numpy(), row[3 * K :].numpy()
    return inputs.astype(np.float32) @ w.T + b


def unexplained(y, found):
    """1 - R^2, the mean over the numbers of a label."""
    return np.mean(np.square(y - found).sum(0) / np.square(y - y.mean(0)).sum(0))


@pytest.mark.parametrize("targets", ["standardised", "raw"])
def test_a_step_is_that_of_least_squares_and_the_error_1_minus_r2(targets):
    chosen = study(targets=targets, lr=0.01)
    shift, factor = (Y.mean(0), Y.std(0)) if targets == "standardised" else (0.0, 1.0)
    y, y_test = ((part - shift) / factor for part in (Y, Y_EXTRA))
    first = chosen.task.init(0)
    outcome, rows = walked(chosen)
    # Two learners with all samples between them: the mean of the gradients is that of all.
    residual = predicted(first, X) - y
    slope = 2 * residual.T @ X / (40 * K)
    expected = first.numpy() - 0.01 * np.concatenate([slope.ravel(), residual.mean(0) * 2 / K])
    np.testing.assert_allclose(outcome.state.x.mean(0), expected, rtol=1e-5)
    final = predicted(outcome.state.x.mean(0), EXTRA)
    assert outcome.final["test_error"] == pytest.approx(unexplained(y_test, final), rel=1e-5)
    assert outcome.final["test_loss"] == pytest.approx(np.square(final - y_test).mean(), rel=1e-5)
    assert rows[0]["test_error"] > outcome.final["test_error"]


def test_a_loss_of_ones_own_beside_mse_and_the_loop_beside_the_batch():
    own, default = study(loss="own_numbers:square", steps=6), study(steps=6)
    default.task._gradients.engine = "loop"
    (one, rows), (other, expected) = walked(own), walked(default)
    torch.testing.assert_close(one.state.x, other.state.x, rtol=1e-12, atol=1e-12)
    for name in ("alpha_e", "delta_s", "delta2_hessian", "test_error"):
        a, b = ([row[name] for row in found if name in row] for found in (rows, expected))
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-15)
    robust, _ = walked(study("one_number", "own_numbers:absolute", steps=100, every=100))
    assert robust.final["test_error"] < 0.5
    assert robust.verdict.as_dict()["verdict"] == "converged"


def test_who_says_the_mean_has_diverged_and_so_has_what_explodes():
    dead = Verdict(None, variance=2.0)
    dead.end(5, 2.01)
    assert "within 1 % of the labels' variance" in dead.reason
    alive = Verdict(None, variance=2.0)
    alive.end(5, 1.9)
    assert not alive.diverged
    still, _ = walked(study(lr=0.0))
    assert still.verdict.as_dict()["verdict"] == "converged"  # a bad start is no constant
    exploded, _ = walked(study(lr=10.0, steps=300, every=100))
    assert exploded.verdict.diverged


def test_a_validation_set_is_judged_by_its_own_variance():
    chosen = study(validation=10, steps=2, batch_size=15)
    outcome, _ = walked(chosen)
    held = chosen.task.validation
    inputs, y = (part.numpy() for part in held.batch(np.arange(10)))
    found = predicted(outcome.state.x.mean(0), inputs)
    assert outcome.final["validation_error"] == pytest.approx(unexplained(y, found), rel=1e-5)


@pytest.mark.parametrize(
    ("dataset", "options", "message"),
    [
        ("numbers", {"loss": "cross-entropy"}, "one of classes, .* use --loss mse"),
        ("classes", {"loss": "mse"}, "one of real numbers, .* use --loss cross-entropy"),
        ("constant", {}, "label 0 of 1 is the same for all training samples"),
        ("numbers", {"partition": "dirichlet"}, "dirichlet skews classes, and these labels are"),
    ],
)
def test_what_does_not_go_together_is_one_sentence(dataset, options, message):
    with pytest.raises(UserError, match=message) as caught:
        study(dataset, **options)
    assert "\n" not in str(caught.value)


def test_a_model_of_another_number_of_outputs_is_refused(monkeypatch):
    sys.modules["own_numbers"].net = lambda shape, k: torch.nn.Linear(3, k + 1)
    config = Config(
        data=Data(dataset="own_numbers:numbers", batch_size=5),
        model=Model(model="own_numbers:net", loss="mse"),
    )
    with pytest.raises(UserError, match=r"needed is a number for each label, \[1, 2\]"):
        prepare(config, Stacked(16))


def test_labels_that_are_classes_are_not_scaled_and_the_user_is_told():
    notes = study("classes", "cross-entropy", targets="raw").warnings
    assert any("targets=raw has no effect" in note for note in notes)
    assert not any("targets" in note for note in study("classes", "cross-entropy").warnings)


def test_numbers_have_finite_values_and_a_row_each():
    with pytest.raises(UserError, match="not all finite"):
        from_arrays("mine", "", (X, np.full(40, np.inf), EXTRA, Y_EXTRA[:, 0]))
    with pytest.raises(UserError, match="floats, k numbers to be predicted"):
        from_arrays("mine", "", (X, Y[:-1], EXTRA, Y_EXTRA))
    with pytest.raises(UserError, match="skews classes"):
        PARTITIONS["dirichlet"](Population(num_samples=40, n=2, seed=0, labels=Y))


def test_a_run_on_real_data_is_shown_with_what_its_error_is(tmp_path, capsys, no_pictures):
    pytest.importorskip("sklearn")
    words = (
        "--dataset diabetes --loss mse --inputs standardised --widths 16 --lr 0.05 --algorithm "
        f"dpsgd --learners 4 --batch-size 8 --steps 60 --monitor-every 30 --out {tmp_path / 'd'}"
    )
    assert run.main(words.split()) == 0
    assert "test 1 - R^2" in capsys.readouterr().err
    (found,) = load_runs([tmp_path / "d"])
    assert found.error == "1 - R^2"
    assert found.number("test_error") < 0.7  # least squares: 0.5 to 0.6
    console = Console(width=160, record=True, file=StringIO())
    flat = Landscape(60, 4, collections.defaultdict(float))
    tables = (
        summary_table([found]),
        picture([found], PanelStyle(width=100)),
        landscape_table([(found.folder, flat)]),
    )
    for shown in tables:
        console.print(shown)
        assert "test 1 - R^2" in console.export_text()
    text = page([found])
    assert "<th>test 1 - R^2" in text
    assert '"names": {"test_error": "test 1 - R^2"}' in text
    steps = len(found.column("step"))
    coupled = Coupled("d", found, 60, np.arange(steps, dtype=float), np.zeros(steps), 1.0)
    assert "comes first to a test 1 - R^2 of 70.00%, in " in sentence([coupled], 0.7, "a network")
