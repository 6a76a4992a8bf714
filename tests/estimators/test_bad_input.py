"""What cannot be trained on is refused in one sentence with the way out."""

import sys
from importlib import import_module

import numpy as np
import pytest
import torch
from torch import nn

pytest.importorskip("skorch")

from sklearn.exceptions import DataConversionWarning, NotFittedError

from gossip.damping import GeoDamp
from gossip.errors import UserError
from gossip.estimators import DampedClassifier, DampedRegressor
from tests.estimators.problems import CLASSES, NUMBERS, WORDS, Linear

N = len(CLASSES[0])


class Made(Linear):
    """A linear map that something is wrong with."""

    def __init__(self, how: str) -> None:
        super().__init__(outputs=3)
        weight = self.map.weight
        if how == "frozen":
            self.requires_grad_(False)
        elif how == "complex":
            self.map.weight = nn.Parameter(weight.detach().to(torch.complex64))
        else:
            self.other = nn.Parameter(weight.data if how == "tied" else weight.data[1:])


class Flat(Linear):
    """A linear map that gives [n]."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x).squeeze(-1)


CLASSIFIERS = {
    "a batch larger than the data": ({"batch_size": 91}, "91 .*n_samples=90: set batch_size"),
    "a largest batch below the first": (
        {"batch_size": 32, "max_batch_size": 16}, "max_batch=16 is below the first batch of 32",
    ),
    "no cap": (
        {"batch_size": GeoDamp, "batch_size__delay": 1, "batch_size__factor": 9,
         "max_batch_size": float("nan")},
        "288 samples at once and there are 90: set max_batch_size",
    ),
    "no damper": ({"batch_size": "geodam"}, "did you mean geodamp"),
    "half a batch": ({"batch_size": 2.5}, "batch_size=2.5: give a number of samples, a damper"),
    "no batch": ({"batch_size": 0}, "initial=0"),
    "no such option of the damper": (
        {"batch_size": GeoDamp, "batch_size__dely": 1}, "did you mean delay",
    ),
    "an option in words": (
        {"batch_size": GeoDamp, "batch_size__delay": "soon"},
        "GeoDamp cannot be made with .*batch_size__delay='soon' .*give it numbers",
    ),
    "a first batch without end": (
        {"batch_size": GeoDamp, "batch_size__initial": float("inf")}, "batch_size__initial=inf",
    ),
    "noise of one sample": (
        {"batch_size": "noise-scale", "batch_size__initial": 1},
        "NoiseScale compares two parts of a batch.*initial to at least 2",
    ),
    "no such device": ({"device": "gpu"}, "device='gpu': torch cannot compute there"),
    "an optimizer that is made": (
        {"optimizer": torch.optim.SGD(nn.Linear(1, 1).parameters())}, "instance of SGD.*class",
    ),
    "a loss that is a function": ({"loss": nn.functional.cross_entropy}, "loss=.*give a class"),
    "a loss that sums": ({"loss__reduction": "sum"}, "leave loss__reduction at 'mean'"),
    "a module that needs more": ({"module": nn.Linear}, "module=.*as module__x"),
    "a module that is frozen": (
        {"module": Made, "module__how": "frozen"}, "all 2 are frozen.: nothing to train",
    ),
    "a module without parameters": (
        {"module": nn.Flatten}, "module Flatten has no parameter: nothing to train",
    ),
    "complex weights": (
        {"module": Made, "module__how": "complex"}, "'map.weight' is complex64",
    ),
    "a tie that torch does not know of": (
        {"module": Made, "module__how": "tied"},
        "parameters 'other' and 'map.weight' .* same memory",
    ),
    "a tie in part": (
        {"module": Made, "module__how": "partly"}, "share a part of their memory",
    ),
    "too few outputs": ({"module": Linear, "module__outputs": 2}, r"gives \[32, 2\].*\[32, 3\]"),
    "a parameter of nothing": ({"modul__x": 2}, "no parameter 'modul__x'"),
    "no workers": ({"min_workers": 0}, "min_workers=0"),
    "fewer workers than the fewest": ({"min_workers": 4, "max_workers": 2}, "max_workers=2"),
    "no samples for a worker": ({"grads_per_worker": 0}, "grads_per_worker=0"),
    "samples in words": ({"grads_per_worker": "all"}, "grads_per_worker='all': give a whole"),
    "half a worker": ({"max_workers": 2.5}, "max_workers=2.5: give a whole number"),
    "no engine": ({"engine": "dusk"}, "did you mean dask"),
    "a largest batch in words": ({"max_batch_size": "N"}, "max_batch_size='N': give a number"),
    "an option in words that comes beside others": (
        {"batch_size": GeoDamp, "batch_size__max_batch": "all"}, "batch_size__max_batch='all'",
    ),
    "a number for a split": ({"train_split": 5}, r"train_split=5: give skorch's ValidSplit\(5\)"),
    "half an epoch": ({"max_epochs": 0.5}, "max_epochs=0.5: give a whole number"),
    "no learning rate": ({"lr": "high"}, "lr='high': give a learning rate"),
    "no such option of the optimizer": (
        {"optimizer__momentun": 0.9}, "optimizer cannot be made .*'momentun'.*optimizer__x",
    ),
    "no such option of the perceptron": (
        {"module__width": 3}, "module='mlp' cannot be made .*'width'.*module__x",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("params", "said"), CLASSIFIERS.values(), ids=CLASSIFIERS)
def test_parameters(params, said):
    with pytest.raises(UserError, match=said) as caught:
        DampedClassifier(random_state=0).set_params(**params).fit(*CLASSES)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"lr": -1.0}, "lr=-1.0: give a learning rate of at least 0"),
        ({"lr": None}, "lr=None: the optimizer is made"),
        ({"max_epochs": 0.5, "warm_start": True}, "max_epochs=0.5: give a whole number"),
    ],
)
def test_parameters_that_are_set_between_two_trainings(params, said):
    """As refused as at the beginning; what begins anew may go back to the optimizer's own rate."""
    net = DampedClassifier(lr=0.1, max_epochs=1, random_state=0).fit(*CLASSES).set_params(**params)
    with pytest.raises(UserError, match=said):
        net.fit(*CLASSES) if "warm_start" in params else net.partial_fit(*CLASSES)
    if params == {"lr": None}:
        assert net.fit(*CLASSES).meta_["lr_"] == 1e-3  # Adam's


@pytest.mark.parametrize("module", [None, Linear])
def test_weights_are_loaded_by_an_estimator_that_has_seen_data(module, tmp_path):
    kind = DampedClassifier if module is None else DampedRegressor
    X, y = CLASSES if module is None else NUMBERS
    old = kind(module, max_epochs=1, random_state=0).fit(X, y)
    old.save_params(f_params=tmp_path / "weights.pt")
    new = kind(module, max_epochs=0, random_state=1)
    with pytest.raises(UserError, match=r"has seen none: call fit .*max_epochs=0"):
        new.initialize()
    new.fit(X, y).load_params(f_params=tmp_path / "weights.pt")
    assert np.array_equal(new.predict(X), old.predict(X))


@pytest.mark.parametrize(
    ("y", "said"),
    [
        (WORDS, r"y holds text \('\w+'\) .*: for classes take DampedClassifier"),
        (WORDS.astype(object), "y holds text .*: for classes take DampedClassifier"),
        (np.stack([NUMBERS[1]] * 2, axis=1), r"gives \[32, 1\] for a batch whose y is \[32, 2\]"),
    ],
)
def test_targets_of_a_regressor(y, said):
    with pytest.raises(UserError, match=said):
        DampedRegressor(Linear).fit(NUMBERS[0], y)


def items(inputs: np.ndarray, targets: np.ndarray) -> torch.utils.data.Dataset:
    """A torch data set of (input, target)."""

    class OfItems(torch.utils.data.Dataset):
        def __len__(self) -> int:
            return len(inputs)

        def __getitem__(self, k: int) -> tuple[torch.Tensor, object]:
            return torch.tensor(inputs[k], dtype=torch.float32), targets[k]

    return OfItems()


def test_shapes_of_a_data_set_that_torch_would_broadcast():
    column = items(NUMBERS[0], NUMBERS[1].astype(np.float32)[:, None])
    with pytest.raises(UserError, match=r"gives \[32\] for a batch whose y is \[32, 1\]"):
        DampedRegressor(Flat).fit(column)
    assert DampedRegressor(Linear, max_epochs=1).fit(column).predict(NUMBERS[0]).shape == (N, 1)


class Stream(torch.utils.data.IterableDataset):
    def __iter__(self):
        return iter([(torch.zeros(4), 0)])


class Inputs(torch.utils.data.Dataset):
    def __len__(self):
        return N

    def __getitem__(self, k):
        return torch.zeros(4)


@pytest.mark.parametrize("kind", [DampedClassifier, DampedRegressor])
@pytest.mark.parametrize(
    ("data", "said"),
    [(Stream(), "Stream without length"), (Inputs(), r"a Inputs, is a Tensor: give .*pairs")],
)
def test_a_data_set_without_numbers_or_targets(kind, data, said):
    with pytest.raises(UserError, match=said):
        kind(max_epochs=1).fit(data, CLASSES[1])


def test_numbers_of_a_data_set_are_no_classes():
    """As in an array."""
    for data in ((items(CLASSES[0], NUMBERS[1][:N] + 0.5),), (CLASSES[0], NUMBERS[1][:N] + 0.5)):
        with pytest.raises(ValueError, match="Unknown label type: continuous"):
            DampedClassifier(max_epochs=1).fit(*data)


def test_classes_of_a_data_set_may_be_of_any_kind():
    """Words, and numbers that do not begin at 0, are told apart as they are in an array."""
    options = {"max_epochs": 2, "random_state": 0}
    expected = DampedClassifier(**options).fit(CLASSES[0], WORDS)
    for labels in (WORDS, 3 * CLASSES[1] - 4):
        data = items(CLASSES[0], labels)
        net = DampedClassifier(**options).fit(data)
        found = net.predict_proba(CLASSES[0])
        assert np.array_equal(found, expected.predict_proba(CLASSES[0]))
        assert set(net.predict(data)) <= set(labels)
        assert net.score(data) == expected.score(CLASSES[0], WORDS)


def test_a_y_that_is_not_that_of_the_data_set():
    """It may be given along, to be stratified by; what is trained on is in the items."""
    classes, numbers = items(*CLASSES), items(*NUMBERS)
    for net, data, y, said in (
        (DampedClassifier(), classes, WORDS, "a sample has the class 0, .*without y, or with"),
        (DampedClassifier(), classes, CLASSES[1][:50], "inconsistent numbers of samples"),
        (DampedRegressor(), numbers, 2 * NUMBERS[1], r"y\[0\] is .*without y, or with"),
        (DampedRegressor(), numbers, NUMBERS[1][:50], "inconsistent numbers of samples"),
    ):
        with pytest.raises(ValueError, match=said):
            net.fit(data, y)
    DampedClassifier(max_epochs=1).fit(classes, CLASSES[1])
    DampedRegressor(max_epochs=1).fit(numbers, NUMBERS[1])


@pytest.mark.parametrize("estimator", [DampedClassifier, DampedRegressor])
def test_a_data_set_of_nothing(estimator):
    with pytest.raises(UserError, match="of 0 samples: there is nothing to learn from, give"):
        estimator().fit(items(CLASSES[0][:0], CLASSES[1][:0]))


def test_a_column_of_numbers_is_taken_as_scikit_learn_takes_it():
    with pytest.warns(DataConversionWarning, match="column-vector"):
        column = DampedRegressor(Linear, random_state=0, max_epochs=2).fit(
            NUMBERS[0], NUMBERS[1][:, None]
        )
    flat = DampedRegressor(Linear, random_state=0, max_epochs=2).fit(*NUMBERS)
    assert np.array_equal(column.predict(NUMBERS[0]), flat.predict(NUMBERS[0]))
    assert flat.predict(NUMBERS[0]).shape == (N,)


def test_divergence_is_said():
    net = DampedRegressor(Linear, optimizer=torch.optim.SGD, lr=1e20, random_state=0)
    with pytest.raises(UserError, match="training has diverged; lower lr"):
        net.fit(*NUMBERS)


@pytest.mark.parametrize("estimator", [DampedClassifier, DampedRegressor])
def test_data_are_refused_in_scikit_learns_words(estimator):
    x, y = CLASSES
    with_nan = x.copy()
    with_nan[0, 0] = np.nan
    for inputs, labels, said in (
        (with_nan, y, "Input X contains NaN"),
        (x[:0], y[:0], r"0 sample\(s\)"),
        (x, y[:-1], "inconsistent numbers of samples"),
    ):
        with pytest.raises(ValueError, match=said):
            estimator().fit(inputs, labels)
    with pytest.raises(NotFittedError, match="call fit first"):
        estimator().predict(x)


def test_a_class_that_comes_too_late():
    net = DampedClassifier(batch_size=4).partial_fit(CLASSES[0][:20], CLASSES[1][:20] % 2)
    with pytest.raises(UserError, match=r"y has the class 2, .*first partial_fit, classes="):
        net.partial_fit(*CLASSES)
    net = DampedClassifier(batch_size=4)
    net.partial_fit(CLASSES[0][:20], CLASSES[1][:20] % 2, classes=[0, 1, 2]).partial_fit(*CLASSES)
    assert net.predict_proba(CLASSES[0]).shape == (N, 3)
    net.partial_fit(*CLASSES, classes=[2, 1, 0])
    for others in ([0, 1, 2, 3], [0, 1]):
        with pytest.raises(UserError, match=r"are not those that training began with, \[0, 1, 2\]"):
            net.partial_fit(*CLASSES, classes=others)


def test_without_skorch_the_extra_is_named(monkeypatch):
    for name in [name for name in sys.modules if name.startswith("gossip.estimators")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "skorch", None)
    with pytest.raises(UserError, match=r"skorch cannot be imported.*gossip-sgd\[sklearn\]"):
        import_module("gossip.estimators")
