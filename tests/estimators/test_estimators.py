"""The estimators: what scikit-learn's users expect, and that the damper's schedule is followed."""

import pickle

import numpy as np
import pytest
import torch
from torch import nn

pytest.importorskip("skorch")

from sklearn.base import clone
from sklearn.metrics import accuracy_score, r2_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from skorch.callbacks import Callback, Checkpoint, EarlyStopping, EpochScoring
from skorch.dataset import ValidSplit
from torch.optim import Adadelta

from gossip.damping import DAMPERS, GeoDamp, GeoDampLR, PadaDamp, planned
from gossip.estimators import DampedClassifier, DampedRegressor
from gossip.streams import PROBE, generator
from tests.estimators.problems import CLASSES, NUMBERS, WORDS, Linear

N = len(CLASSES[0])
GROWING = {"batch_size": GeoDamp, "batch_size__initial": 8, "batch_size__delay": 1}


def updates(net) -> list[dict]:
    return [row for epoch in net.history for row in epoch["batches"] if "batch_size" in row]


def weights(net) -> list[torch.Tensor]:
    return [p.detach().clone() for p in net.module_.parameters()]


def same(a, b) -> bool:
    return all(torch.equal(p, q) for p, q in zip(weights(a), weights(b), strict=True))


class Drawn(Callback):
    """Keeps what each update draws."""

    def on_train_begin(self, net, X=None, y=None, **kwargs):
        self.indices_ = getattr(self, "indices_", [])

    def on_batch_begin(self, net, batch=None, training=None, **kwargs):
        if training:
            self.indices_.append(batch.indices)


def test_the_printed_example_of_the_paper_runs():
    est = DampedRegressor(
        module=Linear,
        loss=nn.MSELoss,
        optimizer=Adadelta,
        optimizer__weight_decay=1e-7,
        module__features=6,
        max_epochs=2,
    )
    est.set_params(batch_size=GeoDamp, batch_size__delay=60, batch_size__factor=5)
    est.fit(*NUMBERS)
    assert est.optimizer_.param_groups[0]["weight_decay"] == 1e-7
    assert est.optimizer_.param_groups[0]["lr"] == 1.0  # Adadelta's own
    assert est.predict(NUMBERS[0]).shape == NUMBERS[1].shape


def test_every_epoch_sees_each_sample_once_while_the_batch_grows():
    net = DampedClassifier(callbacks=[("drawn", Drawn())], max_epochs=4, **GROWING).fit(*CLASSES)
    drawn = np.concatenate(dict(net.callbacks_)["drawn"].indices_)
    assert len(drawn) == net.meta_["n_data"] >= 4 * N
    for epoch in range(4):
        assert np.array_equal(np.sort(drawn[epoch * N : (epoch + 1) * N]), np.arange(N))


def test_the_schedule_is_the_dampers():
    net = DampedClassifier(
        Linear, module__outputs=3, optimizer=torch.optim.SGD, lr=0.5, max_epochs=4,
        max_batch_size=20, **GROWING,
    ).fit(*CLASSES)  # fmt: skip
    plan = list(planned(GeoDamp(initial=8, delay=1, max_batch=20), 4, N))
    assert [row["batch_size"] for row in updates(net)] == [p.damping.batch for p in plan]
    assert [row["damping"] for row in updates(net)] == [p.damping.damping for p in plan]
    assert [row["lr"] for row in updates(net)] == [0.5 * p.damping.lr_factor for p in plan]
    assert net.optimizer_.param_groups[0]["lr"] == 0.5  # the damper's factor is no part of it
    assert net.meta_["n_updates"] == len(plan)
    assert net.meta_["batch_size_"] == net.batch_size_ == 20
    assert net.meta_["damping_"] == 64


def test_an_update_is_that_of_plain_torch():
    net = DampedRegressor(
        Linear, optimizer=torch.optim.SGD, lr=0.1, batch_size="gradient-descent",
        grads_per_worker=25, max_epochs=3, random_state=0,
    ).fit(*NUMBERS)  # fmt: skip
    other = clone(net).set_params(max_epochs=0).fit(*NUMBERS)
    module, optimizer = other.module_, torch.optim.SGD(other.module_.parameters(), lr=0.1)
    inputs, targets = (torch.tensor(a, dtype=torch.float32) for a in NUMBERS)
    for _ in range(3):
        optimizer.zero_grad()
        nn.functional.mse_loss(module(inputs).squeeze(-1), targets).backward()
        optimizer.step()
    for found, expected in zip(weights(net), module.parameters(), strict=True):
        assert torch.allclose(found, expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("batch_size", [GeoDamp, "adadamp", "noise-scale", 7])
def test_so_many_partial_fits_are_one_fit(batch_size):
    options = {} if batch_size == 7 else {"batch_size__initial": 8}
    net = DampedClassifier(
        Linear, module__outputs=3, module__dropout=0.3, batch_size=batch_size, max_epochs=3,
        random_state=5, **options,
    )  # fmt: skip
    fitted, partly = clone(net).fit(*CLASSES), clone(net)
    for _ in range(3):
        partly = pickle.loads(pickle.dumps(partly.partial_fit(*CLASSES)))
    assert same(fitted, partly)
    for name in ("n_updates", "n_data", "epochs", "damping_"):
        assert fitted.meta_[name] == partly.meta_[name]
    assert partly.meta_["partial_fit__calls"] == 3


@pytest.mark.parametrize("name", DAMPERS)
def test_every_damper_of_the_table_trains(name):
    options = {}
    if name in ("adadamp", "adadamp-nn", "radadamp", "noise-scale"):
        options = {"batch_size__dwell": 1, "batch_size__wait": 0}
    net = DampedRegressor(
        Linear, optimizer=torch.optim.SGD, lr=0.1, batch_size=name, max_epochs=4,
        random_state=0, **options,
    ).fit(*NUMBERS)  # fmt: skip
    assert net.history[-1, "train_loss"] < net.history[0, "train_loss"]
    if name in ("adadamp", "adadamp-nn"):
        assert updates(net)[0]["damping"] == 32
        assert updates(net)[-1]["damping"] > 32


def test_clone_get_and_set_go_round():
    net = DampedClassifier(
        Linear, module__outputs=3, optimizer__eps=1e-7, callbacks=[EarlyStopping()], **GROWING
    )
    params = clone(net).get_params(deep=False)
    assert set(params) == set(net.get_params(deep=False))
    again = DampedClassifier().set_params(**params)
    assert again.get_params(deep=False) == params
    assert params["batch_size__delay"] == 1
    assert params["module"] is Linear


def test_a_damper_may_be_class_instance_name_or_number():
    made = {}
    for given, options in (
        (GeoDamp, {"batch_size__delay": 1.0}),
        (GeoDamp(initial=32, delay=1.0), {}),
        ("geodamp", {"batch_size__delay": 1.0}),
    ):
        net = DampedClassifier(batch_size=given, max_epochs=3, random_state=0, **options)
        made[str(given)] = clone(net).fit(*CLASSES)
    first, *others = made.values()
    assert {row["batch_size"] for row in updates(first)} == {32, 64, 90}
    assert all(same(first, other) for other in others)


def test_labels_of_any_kind_come_back_and_score_is_higher_for_better():
    net = DampedClassifier(lr=0.05, random_state=0).fit(CLASSES[0], WORDS)
    assert list(net.classes_) == ["ash", "beech", "cedar"]
    assert net.score(CLASSES[0], WORDS) == accuracy_score(WORDS, net.predict(CLASSES[0])) > 0.8
    assert net.score(CLASSES[0], np.roll(WORDS, 1)) < 0.8
    assert net.n_features_in_ == 6
    assert net.meta_["score__calls"] == 2
    regressor = DampedRegressor(lr=0.05, random_state=0).fit(*NUMBERS)
    assert regressor.score(*NUMBERS) == r2_score(NUMBERS[1], regressor.predict(NUMBERS[0])) > 0.8
    assert not hasattr(regressor, "predict_proba")


def test_the_losses_have_their_probabilities():
    class LogSoftmax(Linear):
        def forward(self, x):
            return super().forward(x).log_softmax(dim=1)

    two = CLASSES[1] > 0
    for net, labels in (
        (DampedClassifier(LogSoftmax, nn.NLLLoss, module__outputs=3), WORDS),
        (DampedClassifier(Linear, nn.BCEWithLogitsLoss), two),
    ):
        net.set_params(lr=0.05, random_state=0).fit(CLASSES[0], labels)
        found = net.predict_proba(CLASSES[0])
        assert found.shape == (N, len(net.classes_))
        assert np.allclose(found.sum(axis=1), 1, atol=1e-6)
        assert net.score(CLASSES[0], labels) > 0.75


def test_random_state_decides_weights_order_and_dropout():
    net = DampedClassifier(Linear, module__outputs=3, module__dropout=0.5, max_epochs=2)
    first, again, other = (
        clone(net).set_params(random_state=seed).fit(*CLASSES) for seed in (1, 1, 2)
    )
    assert same(first, again)
    assert not same(first, other)
    torch.manual_seed(3)
    before = torch.get_rng_state()
    clone(net).set_params(random_state=1).fit(*CLASSES)
    assert torch.equal(torch.get_rng_state(), before)


def test_early_stopping_ends_and_validation_samples_are_not_trained_on():
    net = DampedClassifier(
        batch_size=8, max_epochs=50, train_split=ValidSplit(3, stratified=True), lr=0.1,
        random_state=0,
        callbacks=[
            ("drawn", Drawn()),
            ("valid_acc", EpochScoring("accuracy", lower_is_better=False, name="valid_acc")),
            ("stop", EarlyStopping(patience=2)),
        ],
        callbacks__stop__sink=lambda text: None,
    ).fit(CLASSES[0], WORDS)  # fmt: skip
    assert len(net.history) < 50
    assert 0.4 < net.history[-1, "valid_acc"] <= 1
    assert len(np.unique(np.concatenate(dict(net.callbacks_)["drawn"].indices_))) == 60


def test_set_params_on_a_fitted_net_changes_what_it_says():
    net = DampedClassifier(batch_size=8, max_epochs=1, random_state=0).fit(*CLASSES)
    net.set_params(batch_size=PadaDamp, batch_size__initial=30, optimizer__weight_decay=0.5)
    net.partial_fit(*CLASSES)
    assert updates(net)[-1]["batch_size"] == 31
    assert net.optimizer_.param_groups[0]["weight_decay"] == 0.5


def test_other_data_are_as_many_epochs_as_their_own_number_says():
    """A step of the batch every two epochs comes after two, of whatever sizes they were."""
    net = DampedClassifier(batch_size=GeoDamp, batch_size__initial=5, batch_size__delay=2)
    x, y = CLASSES
    for epochs, n in enumerate((N, N, N, 30, 30, 60), 1):
        net.partial_fit(x[:n], y[:n])
        assert net.meta_["epochs"] == pytest.approx(epochs, abs=20 / n)
        assert net.batch_size_ == 5 * 2 ** ((epochs - 1) // 2)


@pytest.mark.parametrize("kind", [np.int64, float])
@pytest.mark.parametrize("name", ["none", "geodamp", "adadamp"])
def test_whole_numbers_of_any_kind_are_numbers_of_samples(kind, name, tmp_path):
    x, y = NUMBERS
    net = DampedRegressor(batch_size=name, batch_size__initial=kind(16), max_epochs=1)
    if name == "adadamp":
        net.set_params(batch_size__min_batch=kind(16), batch_size__dwell=kind(1))
        net.set_params(batch_size__wait=kind(0), optimizer=torch.optim.SGD, lr=0.0)
    net.fit(x, y).save_params(f_history=tmp_path / "history.json")  # JSON knows no int64
    assert net.batch_size_ == 16
    assert type(net.batch_size_) is type(net.meta_["n_data"]) is int


def test_a_checkpoint_of_skorch_brings_the_best_weights_back(tmp_path):
    best = Checkpoint(monitor="valid_loss_best", dirname=tmp_path, load_best=True)
    net = DampedClassifier(
        train_split=ValidSplit(3), callbacks=[best], lr=0.1, max_epochs=6, random_state=0
    ).fit(*CLASSES)
    losses = net.history[:, "valid_loss"]
    assert len(losses) < 6  # the history is that of the best epoch, too
    _, held_out = net.get_split_datasets(*CLASSES)
    ((x, y),) = net.get_iterator(held_out)
    found = net.get_loss(net.infer(torch.as_tensor(x)), y)
    assert found.item() == pytest.approx(losses[-1], rel=1e-5)


@pytest.mark.parametrize("before", [8, "adadamp", "radadamp"])
@pytest.mark.parametrize("after", ["adadamp", "adadamp-nn"])
def test_a_damper_that_comes_later_compares_with_what_it_has_measured_itself(before, after):
    ready = {"batch_size__dwell": 1, "batch_size__wait": 0}
    net = DampedRegressor(Linear, torch.nn.MSELoss, torch.optim.SGD, lr=0.0, random_state=0)
    net.set_params(batch_size=before, batch_size__initial=9)
    if before == 8:
        del net.batch_size__initial
    net.partial_fit(*NUMBERS)
    net.set_params(batch_size=after, batch_size__initial=9, **ready).partial_fit(*NUMBERS)
    assert {row["batch_size"] for row in net.history[-1, "batches"]} == {9}  # nothing moves


@pytest.mark.parametrize(
    ("batch_size", "share"),
    [(9, None), ("geodamp", None), ("radadamp", None), ("adadamp", 1), ("adadamp", 0.5)],
)
def test_samples_are_drawn_to_be_measured_only_where_a_share_of_them_is(
    batch_size, share, monkeypatch
):
    drawn = []

    def counted(seed, *address):
        drawn.extend([address] if address[0] == PROBE else [])
        return generator(seed, *address)

    monkeypatch.setattr("gossip.estimators.updates.generator", counted)
    net = DampedRegressor(Linear, nn.MSELoss, torch.optim.SGD, lr=0.0, max_epochs=1)
    options = {"batch_size__initial": 9, "batch_size__dwell": 1, "batch_size__wait": 0}
    options |= {} if share is None else {"batch_size__share": share}
    net.set_params(batch_size=batch_size, **({} if batch_size == 9 else options)).fit(*NUMBERS)
    assert len(drawn) == (net.meta_["n_updates"] if share == 0.5 else 0)


def test_tensors_images_and_data_sets_are_taken():
    inputs = torch.tensor(CLASSES[0], dtype=torch.float32)
    labels = torch.tensor(CLASSES[1])
    options = {"max_epochs": 2, "random_state": 0}
    of_arrays = DampedClassifier(**options).fit(*CLASSES)
    of_tensors = DampedClassifier(**options).fit(inputs, labels)
    dataset = torch.utils.data.TensorDataset(inputs, labels)
    of_items = DampedClassifier(**options).fit(dataset)
    assert same(of_arrays, of_tensors)
    assert same(of_arrays, of_items)
    assert of_items.score(dataset) == of_arrays.score(*CLASSES)
    images = inputs.reshape(-1, 1, 2, 3)
    assert same(of_arrays, DampedClassifier(**options).fit(images, labels))


@pytest.mark.parametrize(
    ("kind", "data"), [(DampedClassifier, CLASSES), (DampedRegressor, NUMBERS)]
)
def test_without_a_batch_size_few_samples_are_one_batch(kind, data):
    for n, batch in ((20, 20), (N, 32)):
        assert kind(max_epochs=1).fit(data[0][:n], data[1][:n]).batch_size_ == batch


def test_a_module_instance_is_copied():
    module = Linear(outputs=3)
    before = module.map.weight.clone()
    net = DampedClassifier(module, max_epochs=1).fit(*CLASSES)
    assert torch.equal(module.map.weight, before)
    assert not torch.equal(net.module_.map.weight, before)


def test_it_goes_through_a_pipeline_and_a_pickle():
    pipe = make_pipeline(StandardScaler(), DampedClassifier(lr=0.05, random_state=0))
    pipe = pickle.loads(pickle.dumps(pipe)).fit(*CLASSES)
    again = pickle.loads(pickle.dumps(pipe))
    assert np.array_equal(again.predict_proba(CLASSES[0]), pipe.predict_proba(CLASSES[0]))


def test_the_learning_rate_falls_where_the_batch_may_not_grow():
    net = DampedRegressor(
        Linear, lr=0.1, batch_size=GeoDampLR, batch_size__initial=45, batch_size__delay=1,
        max_epochs=3,
    ).fit(*NUMBERS)  # fmt: skip
    assert [row["lr"] for row in updates(net)] == pytest.approx(
        [0.1, 0.1, 0.05, 0.05, 0.025, 0.025]
    )
    assert {row["batch_size"] for row in updates(net)} == {45}


def test_the_picture_and_the_line_of_progress(capfd, monkeypatch):
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    net = DampedClassifier(max_epochs=2, verbose=1, **GROWING).fit(*CLASSES)
    assert "epoch" in capfd.readouterr().err
    sizes, rates, workers = net.plot_schedule().axes
    assert list(sizes.lines[0].get_ydata()) == [row["batch_size"] for row in updates(net)]
    assert set(workers.lines[0].get_ydata()) == {1}
    assert rates.get_ylabel() == "learning rate"
    pickle.dumps(net)
