"""Which data the models take, how large they are, and that a gradient reaches all of them."""

import inspect
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn
from torch.func import functional_call

from gossip.config import Config, Model
from gossip.errors import UserError
from gossip.models import MODELS, lenet
from gossip.models.attention import TransformerBlock
from gossip.models.inverted import InvertedResidual
from gossip.study import parts
from gossip.task import Task
from tests.problems import ArraySamples

DENSE = ("mlp", "softmax")
LANGUAGE = ("word-lstm", "transformer")
TOKENS = (*LANGUAGE, "seq2seq")
FEATURES = ("lstm", "bilstm")
SEQUENCES = (*FEATURES, *TOKENS)
IMAGES = tuple(name for name in MODELS if name not in (*DENSE, *SEQUENCES))


def small(name, input_shape, num_classes=7):
    """The model with 2 channels, or as many heads, where it has that many to choose."""
    takes = inspect.signature(MODELS[name]).parameters
    narrow = {"width": 2 * takes["heads"].default if "heads" in takes else 2}
    narrow = narrow if "width" in takes else {}
    return MODELS[name](input_shape, num_classes, **narrow)


def sample_of(name, batch=3):
    """Inputs that the model takes: [3, 12, 9] images, [12, 9] sequences or [5] tokens."""
    if name in TOKENS:
        return torch.arange(5 * batch).reshape(batch, 5) % 7
    shape = (12, 9) if name in FEATURES else (3, 12, 9)
    return torch.randn(batch, *shape, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("shape", [(4, 4), (8, 8), (28, 28), (1, 28, 28), (3, 32, 32), (3, 32, 19)])
@pytest.mark.parametrize("name", [*DENSE, *IMAGES])
def test_models_of_images_take_them_with_and_without_channels(name, shape):
    assert small(name, shape).eval()(torch.zeros(2, *shape)).shape == (2, 7)


@pytest.mark.parametrize("name", MODELS)
def test_outputs_are_logits_for_each_sample_or_token(name):
    inputs = sample_of(name)
    tokens = (5,) if name in TOKENS else ()
    assert small(name, inputs.shape[1:])(inputs).shape == (3, *tokens, 7)


@pytest.mark.parametrize("shape", [(4, 4), (3, 4, 5), (8, 8), (1, 28, 28), (3, 32, 19)])
def test_lenet_takes_images_down_to_four_pixels(shape):
    assert lenet(shape, 7)(torch.zeros(2, *shape)).shape == (2, 7)


@pytest.mark.parametrize("shape", [(64,), (), (1, 1, 8, 8), (3, 28), (28, 28, 1)])
@pytest.mark.parametrize("name", IMAGES)
def test_what_is_no_image_is_refused_in_one_sentence(name, shape):
    with pytest.raises(UserError) as caught:
        MODELS[name](shape, 10)
    assert str(caught.value) == (
        f"{name.removesuffix('-bn')} needs images ([height, width] or [channels, height, width]) "
        f"of at least 4 x 4 pixels, got inputs of shape {list(shape)}"
    )


@pytest.mark.parametrize("name", FEATURES)
@pytest.mark.parametrize("shape", [(64,), (), (1, 28, 28)])
def test_an_lstm_refuses_what_is_no_sequence(shape, name):
    with pytest.raises(UserError, match=rf"^{name} needs sequences \(\[steps, features\]"):
        MODELS[name](shape, 10)


@pytest.mark.parametrize("name", TOKENS)
@pytest.mark.parametrize("shape", [(), (28, 28)])
def test_a_model_of_tokens_refuses_what_is_no_window_of_tokens(shape, name):
    with pytest.raises(UserError, match=rf"^{name} needs windows of token ids \(\[steps\]\)"):
        MODELS[name](shape, 10)


@pytest.mark.parametrize("name", TOKENS)
def test_a_model_of_tokens_refuses_numbers_that_are_no_tokens(name):
    with pytest.raises(UserError, match=r"needs token ids \(integers\), got inputs of .*float32"):
        small(name, (5,))(torch.zeros(3, 5))


@pytest.mark.parametrize("heads", [0, 5])
def test_heads_of_attention_share_the_width(heads):
    with pytest.raises(UserError, match=f"heads={heads} of attention share width=64"):
        MODELS["transformer"]((5,), 7, heads=heads)


def test_attention_is_torchs_causal_attention():
    torch.manual_seed(0)
    block, x = TransformerBlock(8, 2).double(), torch.randn(3, 5, 8, dtype=torch.float64)
    own = nn.MultiheadAttention(8, 2, batch_first=True, dtype=torch.float64)
    own.in_proj_weight, own.in_proj_bias = (
        block.queries_keys_values.weight, block.queries_keys_values.bias
    )  # fmt: skip
    own.out_proj.weight, own.out_proj.bias = block.joined.weight, block.joined.bias
    later = torch.ones(5, 5, dtype=torch.bool).triu(1)
    expected, _ = own(x, x, x, attn_mask=later, need_weights=False)
    torch.testing.assert_close(block.attention(x), expected)


@pytest.mark.parametrize("name", ["mlp", "lenet", "cnn", "cnn-bn"])
def test_an_unknown_activation_lists_the_known(name):
    with pytest.raises(UserError, match=r"unknown activation 'rleu': did you mean relu\?"):
        MODELS[name]((8, 8), 10, activation="rleu")


@pytest.mark.parametrize(
    ("name", "shape", "classes", "expected"),
    [
        ("resnet18", (3, 32, 32), 10, 11_173_962),
        ("resnet50", (3, 32, 32), 10, 23_520_842),
        # torchvision's counts for vgg11 and vgg11_bn without their heads.
        ("vgg", (3, 32, 32), 10, 9_220_480 + 512 * 10 + 10),
        ("vgg-bn", (3, 32, 32), 10, 9_220_480 + 2 * 2752 + 512 * 10 + 10),
        # torchvision's counts for mobilenet_v2 and efficientnet_b0: strides have no parameters.
        ("mobilenet", (3, 224, 224), 1000, 3_504_872),
        ("efficientnet", (3, 224, 224), 1000, 5_288_548),
        ("cnn", (28, 28), 10, 39_546),
        ("lstm", (28, 28), 10, 4 * 128 * (28 + 128 + 2) + 128 * 10 + 10),
        (
            "bilstm",
            (21, 40),
            500,
            2 * 4 * 64 * ((40 + 64 + 2) + (2 * 64 + 64 + 2)) + 32 * (2 * 64 + 1) + 500 * 33,
        ),
        (
            "transformer",
            (64,),
            126,
            2 * 12 * 64**2 + 2 * 13 * 64 + 2 * 64 + (2 * 126 + 64) * 64 + 126,
        ),
        ("seq2seq", (12,), 27, (27 + 12) * 128 + 2 * 4 * 128 * (2 * 128 + 2) + 27 * (128 + 1)),
        ("word-lstm", (20,), 10_000, 2 * 4 * 200 * (400 + 2) + 2 * 200 * 10_000 + 10_000),
    ],
)
def test_numbers_of_parameters_are_the_published_ones(name, shape, classes, expected):
    with torch.device("meta"):  # counted, never filled
        model = MODELS[name](shape, classes)
    assert sum(p.numel() for p in model.parameters()) == expected


@pytest.mark.parametrize("name", MODELS)
def test_the_same_seed_draws_the_same_weights(name):
    shape = sample_of(name).shape[1:]
    drawn = []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        drawn.append(torch.nn.utils.parameters_to_vector(small(name, shape).parameters()))
    assert torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])


@pytest.mark.parametrize("name", MODELS)
def test_a_gradient_through_functional_call_is_the_models_own_at_those_weights(name):
    inputs = sample_of(name).to(torch.int64 if name in TOKENS else torch.float64)
    torch.manual_seed(0)
    model = small(name, inputs.shape[1:]).double()
    other = small(name, inputs.shape[1:]).double()
    weights = {key: p.detach().clone().requires_grad_() for key, p in other.named_parameters()}

    loss = functional_call(model, weights, (inputs,)).square().sum()
    found = torch.autograd.grad(loss, list(weights.values()))

    other(inputs).square().sum().backward()
    for gradient, parameter in zip(found, other.parameters(), strict=True):
        torch.testing.assert_close(gradient, parameter.grad)
    assert all(gradient.isfinite().all() for gradient in found)
    assert any(gradient.any() for gradient in found)


@pytest.mark.parametrize("name", LANGUAGE)
def test_a_language_model_sees_its_window_up_to_the_token_alone(name):
    model, tokens = small(name, (5,)), sample_of(name)
    assert torch.equal(model(tokens), model(tokens))
    torch.testing.assert_close(model(tokens)[1:], model(tokens[1:]))
    changed = tokens.clone()
    changed[:, 3] = (changed[:, 3] + 1) % 7
    torch.testing.assert_close(model(changed)[:, :3], model(tokens)[:, :3])  # no look ahead
    assert not torch.equal(model(changed)[:, 3:], model(tokens)[:, 3:])


@pytest.mark.parametrize("name", MODELS)
def test_gradients_of_stacked_learners_are_those_of_each_alone(name):
    learners, batch = 2, 6
    inputs = sample_of(name, learners * batch)
    inputs = inputs if name in TOKENS else inputs.double()
    labels = torch.arange(len(inputs)) % 7
    samples = ArraySamples(inputs, inputs if name in TOKENS else labels)
    task = Task(partial(small, name, inputs.shape[1:]), samples, samples, dtype=torch.float64)
    x = torch.stack([task.init(seed) for seed in range(learners)])
    drawn = samples.batch(np.arange(len(inputs)).reshape(learners, batch))
    buffers = task.init_buffers(learners) if task.has_buffers else None
    found = task.gradient(x, *drawn, buffers=buffers)
    for k, (row, own, wanted) in enumerate(zip(x, *drawn, strict=True)):
        model = small(name, inputs.shape[1:]).double()
        nn.utils.vector_to_parameters(row, model.parameters())
        loss = nn.functional.cross_entropy(model(own).flatten(0, -2), wanted.flatten())
        loss.backward()
        torch.testing.assert_close(found.losses[k], loss.detach(), rtol=1e-12, atol=0)
        gradient = torch.cat([p.grad.flatten() for p in model.parameters()])
        torch.testing.assert_close(found.values[k], gradient, rtol=1e-9, atol=1e-12)
        if buffers is not None:
            running = [b.flatten() for b in model.buffers() if b.is_floating_point()]
            torch.testing.assert_close(buffers[k], torch.cat(running), rtol=1e-12, atol=0)


def test_what_a_seq2seq_model_writes_depends_on_all_that_it_has_read_and_on_the_place_alone():
    torch.manual_seed(0)
    model, tokens = small("seq2seq", (5,)), sample_of("seq2seq")
    torch.testing.assert_close(model(tokens)[1:], model(tokens[1:]))
    for step in range(5):
        changed = tokens.clone()
        changed[0, step] = (changed[0, step] + 1) % 7
        differs = (model(changed) != model(tokens)).any(dim=2)
        assert differs.tolist() == [[True] * 5, [False] * 5, [False] * 5]
    _, state = model.encoder(model.embedding(tokens))
    for place in range(5):  # the writer takes its steps one by one, and nothing but its place in
        one, state = model.decoder(
            model.places.weight[None, place : place + 1].expand(3, 1, -1), state
        )
        torch.testing.assert_close(model.linear(one)[:, 0], model(tokens)[:, place])


@pytest.mark.parametrize("first", [0, 1])
def test_a_bidirectional_lstm_sees_its_whole_window_and_each_sample_by_itself(first):
    torch.manual_seed(0)
    model, x = small("bilstm", (5, 3)), torch.randn(2, 5, 3)
    torch.testing.assert_close(model(x)[first:], model(x[first:]))
    for step in (0, 4):
        changed = x.clone()
        changed[first, step] += 1
        differs = (model(changed) != model(x)).any(dim=1)
        assert differs.tolist() == [first == 0, first == 1]


@pytest.mark.parametrize(("side", "stride"), [(32, 1), (32, 2), (8, 1)])
@pytest.mark.parametrize(("name", "added"), [("mobilenet", 10), ("efficientnet", 9)])
def test_inverted_residuals_halve_images_to_two_pixels_and_add_where_shapes_agree(
    name, added, side, stride
):
    model, sides = MODELS[name]((3, side, side), 10, width=8, stride=stride), []
    blocks = [m for m in model if isinstance(m, InvertedResidual)]
    for block in blocks:
        block.register_forward_hook(lambda block, x, y: sides.append((block, *x, y)))
    model(torch.randn(2, 3, side, side))
    assert sides[-1][-1].shape == (2, 80, 2, 2)
    assert sum(block.added for block in blocks) == added
    for block, x, y in sides:
        assert block.added == (x.shape == y.shape)


@pytest.mark.parametrize(
    "name", ["vgg", "vgg-bn", "alexnet", "resnet18", "mobilenet", "efficientnet"]
)
def test_deep_nets_tell_images_apart_before_any_training(name):
    torch.manual_seed(0)
    model = MODELS[name]((3, 32, 32), 10, width=16)
    logits = model(torch.randn(8, 3, 32, 32))
    assert logits.std(dim=0).mean() > 0.1


def test_models_of_numbers_refuse_token_ids_and_name_those_that_take_them():
    words = SimpleNamespace(
        name="brown",
        input_shape=(8,),
        num_classes=5,
        train_inputs=np.zeros((4, 8), np.int32),
    )
    with pytest.raises(UserError, match="token ids; use --model word-lstm, seq2seq or transformer"):
        parts.model(Config(), words)
    takes = Config(model=Model(model="transformer", model_options=("depth=1",)))
    assert isinstance(parts.model(takes, words)(), nn.Module)
