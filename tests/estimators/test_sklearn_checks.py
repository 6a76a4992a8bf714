"""Scikit-learn's own checks of estimators, of which none is expected to fail."""

import pytest
import torch

pytest.importorskip("skorch")

from sklearn.utils.estimator_checks import parametrize_with_checks

from gossip.estimators import DampedClassifier, DampedRegressor

# One update an epoch, whatever the check's data: the checks count samples, we would count updates.
CHECKED = {"batch_size": "gradient-descent", "lr": 0.1, "max_epochs": 12}
EXPECTED_TO_FAIL: dict[str, str] = {}
"""Name of a check -> why it does not hold."""


@pytest.fixture(autouse=True)
def double():
    """Some checks compare to 1e-9 what is computed in different batches."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.mark.filterwarnings("default")  # the checks give data that have to be warned about
@parametrize_with_checks(
    [DampedClassifier(**CHECKED), DampedRegressor(**CHECKED)],
    expected_failed_checks=lambda estimator: EXPECTED_TO_FAIL,
    xfail_strict=True,
)
def test_check(estimator, check):
    check(estimator)
