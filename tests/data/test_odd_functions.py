"""What a user's data function may return, and what is said of all else."""

# ruff: noqa: NPY002 - users draw from the global generator
import numpy as np
import pytest
import torch

from gossip.data import load, splits
from gossip.errors import UserError
from tests.data import odd_functions


def spec(function) -> str:
    return f"{function.__module__}:{function.__name__}"


@pytest.mark.parametrize("function", odd_functions.TAKEN, ids=lambda f: f.__name__)
def test_arrays_in_any_guise_are_the_same_data(function):
    dataset, plain = load(spec(function)), load(spec(odd_functions.a_tuple))
    assert (dataset.sha256, dataset.num_classes) == (plain.sha256, 3)
    inputs, labels = splits(dataset, "raw").train.batch(np.arange(24))
    np.testing.assert_array_equal(inputs, odd_functions.X)
    np.testing.assert_array_equal(labels, odd_functions.Y)


@pytest.mark.parametrize("function", odd_functions.DRAWN, ids=lambda f: f.__name__)
def test_a_function_that_draws_gives_the_same_data_to_everybody(function):
    before = torch.get_rng_state()
    one = load(spec(function))
    assert torch.equal(torch.get_rng_state(), before)
    np.random.rand(3)
    torch.rand(3)
    assert load(spec(function)).sha256 == one.sha256


@pytest.mark.parametrize("function", odd_functions.REFUSED, ids=lambda f: f.__name__)
def test_what_is_no_data_set_is_refused_in_a_sentence(function):
    with pytest.raises(UserError) as error:
        load(spec(function))
    assert odd_functions.REFUSED[function] in str(error.value)
    assert "\n" not in str(error.value)
