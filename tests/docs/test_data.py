"""The page of data sets and models has all that there are by name, as large as they are."""

import pytest
import torch

from gossip.data import DATASETS
from gossip.models import MODELS
from tests.docs import pages

PAGE = (pages.ROOT / "docs" / "data.md").read_text(encoding="utf-8")
ON = {"MNIST": ((28, 28), 10), "CIFAR-10": ((3, 32, 32), 10), "phone-speech": ((21, 24), 839)}
ON |= {"Brown": ((20,), 10_000), "Brown's bytes": ((64,), 123), "Brown backwards": ((12,), 27)}
"""Shape of a sample and number of classes."""


def cells(name):
    """The other cells of the table row that begins with the name."""
    row = next(line for line in PAGE.splitlines() if line.startswith(f"| `{name}` |"))
    return [cell.strip() for cell in row.strip("|").split("|")[1:]]


@pytest.mark.parametrize("name", DATASETS)
def test_a_data_set_has_the_samples_that_its_row_says(name):
    source, (samples, shape, _) = DATASETS[name], cells(name)
    assert samples == f"{source.num_train:,} + {source.num_test:,}"
    assert shape.split()[0] == "x".join(map(str, source.input_shape))


@pytest.mark.parametrize("name", MODELS)
def test_a_model_has_the_parameters_that_its_row_says(name):
    _, parameters, on = cells(name)
    with torch.device("meta"):
        model = MODELS[name](*ON[on])
    assert parameters == f"{sum(p.numel() for p in model.parameters()):,}"
