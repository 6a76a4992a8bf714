"""Which data the models take."""

import pytest
import torch

from gossip.errors import UserError
from gossip.models import MODELS, lenet


@pytest.mark.parametrize("shape", [(4, 4), (3, 4, 5), (8, 8), (1, 28, 28), (3, 32, 19)])
def test_lenet_takes_images_down_to_four_pixels(shape):
    assert lenet(shape, 7)(torch.zeros(2, *shape)).shape == (2, 7)


@pytest.mark.parametrize("shape", [(64,), (), (1, 1, 8, 8), (3, 28), (28, 28, 1)])
def test_lenet_refuses_what_is_no_image_in_one_sentence(shape):
    with pytest.raises(UserError) as caught:
        lenet(shape, 10)
    assert str(caught.value) == (
        "lenet needs images ([height, width] or [channels, height, width]) of at least 4 x 4 "
        f"pixels, got inputs of shape {list(shape)}"
    )


@pytest.mark.parametrize("name", ["mlp", "lenet"])
def test_an_unknown_activation_lists_the_known(name):
    with pytest.raises(UserError, match=r"unknown activation 'rleu': did you mean relu\?"):
        MODELS[name]((8, 8), 10, activation="rleu")
