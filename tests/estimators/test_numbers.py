"""Arrays are computed with in the floats of the module's weights."""

import copy

import numpy as np
import pytest
import torch

pytest.importorskip("skorch")

from gossip.estimators import DampedClassifier, DampedRegressor
from tests.estimators.problems import CLASSES, NUMBERS, Linear


@pytest.mark.parametrize("dtype", [">f8", ">f4", "longdouble", "float16", "uint8", bool])
def test_targets_may_be_numbers_of_any_kind(dtype):
    y = np.abs(10 * NUMBERS[1]).astype(dtype)
    found, expected = (
        DampedRegressor(max_epochs=1, random_state=0).fit(NUMBERS[0], each).predict(NUMBERS[0])
        for each in (y, y.astype(np.float64))
    )
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
@pytest.mark.parametrize(
    ("kind", "data", "outputs"), [(DampedClassifier, CLASSES, 3), (DampedRegressor, NUMBERS, 1)]
)
def test_other_floats_train_to_the_same_by_their_rounding(kind, data, outputs, dtype):
    module = Linear(outputs=outputs)
    other = copy.deepcopy(module).to(dtype)
    found = []
    for each in (module, other):
        net = kind(each, optimizer=torch.optim.SGD, lr=0.05, max_epochs=1, random_state=0)
        net.fit(*data)
        assert next(net.module_.parameters()).dtype == next(each.parameters()).dtype
        found.append(net.predict_proba(data[0]) if outputs > 1 else net.predict(data[0]))
    tolerance = 20 * max(torch.finfo(each).eps for each in (dtype, torch.float32))
    np.testing.assert_allclose(found[1], found[0], atol=tolerance * np.abs(found[0]).max())
