"""A flat row is a model: engines agree, sums are sums, Hessian products are exact."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from gossip.errors import UserError
from gossip.models import lenet, mlp, softmax
from gossip.task import Task
from gossip.task.layers import Layer, layer_squares
from gossip.task.likeness import unlike
from gossip.task.samples import CHUNK
from tests.problems import ArraySamples, digits_task

LOCAL, BATCH = 5, 12
SMALL = {
    "mlp": (mlp, {"widths": (9, 7)}),
    "tanh": (mlp, {"widths": (8,), "activation": "tanh"}),
    "sigmoid": (mlp, {"widths": (8,), "activation": "sigmoid"}),
    "softmax": (softmax, {}),
    "lenet": (lenet, {}),
}


def rows_and_batch(task: Task):
    generator = torch.Generator().manual_seed(3)
    noise = torch.randn(LOCAL, task.d, generator=generator, dtype=torch.float64)
    x = task.init(0) + 0.05 * noise
    return x, *task.train.batch(np.arange(LOCAL * BATCH).reshape(LOCAL, BATCH))


@pytest.mark.parametrize("name", SMALL)
def test_vmap_loop_and_plain_gradients_agree(name):
    build, options = SMALL[name]
    vmap, loop = (digits_task(build, engine=e, **options) for e in ("vmap", "loop"))
    x, inputs, labels = rows_and_batch(vmap)
    together, losses, _ = vmap.gradient(x, inputs, labels)
    in_turn, losses_in_turn, _ = loop.gradient(x, inputs, labels)
    torch.testing.assert_close(together, in_turn, rtol=1e-12, atol=1e-13)
    torch.testing.assert_close(losses, losses_in_turn, rtol=1e-12, atol=0)

    model = build((8, 8), 10, **options).double()
    torch.nn.utils.vector_to_parameters(x[2], model.parameters())
    loss = nn.functional.cross_entropy(model(inputs[2]), labels[2])
    loss.backward()
    plain = torch.cat([p.grad.reshape(-1) for p in model.parameters()])
    torch.testing.assert_close(together[2], plain, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize(("bias", "named"), [(-1e-16, []), (1e-9, ["bias"]), (None, [])])
def test_what_is_zero_but_for_rounding_is_no_gradient_of_another_kind(bias, named):
    one = {"weight": torch.tensor([1.0]).double(), "bias": torch.tensor([2e-16]).double()}
    other = {"weight": one["weight"] * (1 + 1e-12)}
    other |= {} if bias is None else {"bias": torch.tensor([bias]).double()}
    assert unlike(one, other) == named


def test_a_gradient_that_is_not_finite_hides_no_difference():
    one = {"weight": torch.tensor([torch.inf, 1.0]), "hidden": torch.tensor([1.0])}
    assert unlike(one, one) == []
    assert unlike(one, one | {"hidden": torch.tensor([1.5])}) == ["hidden"]
    half = {name: tensor.bfloat16() for name, tensor in one.items()} | {"weight": one["hidden"]}
    assert unlike(half, half | {"hidden": torch.tensor([1.5]).bfloat16()}) == ["hidden"]


class Words(nn.Module):
    """Linear maps of sequences, of frozen weights, without bias, and one used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.again = nn.Linear(8, 6, bias=False), nn.Linear(6, 6)
        self.frozen, self.last = nn.Linear(6, 6).requires_grad_(False), nn.Linear(6, 10)

    def forward(self, x):
        x = torch.tanh(self.first(x.view(-1, 8, 8)))
        x = self.again(torch.tanh(self.again(x))).view(len(x), -1)
        return self.last(self.frozen(x.view(len(x), -1, 6))).mean(dim=1)


def test_linear_maps_of_any_shape_agree_and_their_gradients_need_no_turning(monkeypatch):
    vmap, loop = (digits_task(lambda shape, classes: Words(), engine=e) for e in ("vmap", "loop"))
    x, inputs, labels = rows_and_batch(vmap)
    shapes = []
    cat = torch.cat
    monkeypatch.setattr(
        torch, "cat", lambda parts, **more: shapes.extend(parts) or cat(parts, **more)
    )
    together, losses, _ = vmap.gradient(x, inputs, labels)
    of_weights = [part for part in shapes if part.shape[1] > 10]
    in_turn, losses_in_turn, _ = loop.gradient(x, inputs, labels)
    torch.testing.assert_close(together, in_turn, rtol=1e-12, atol=1e-13)
    torch.testing.assert_close(losses, losses_in_turn, rtol=1e-12, atol=0)
    # A gradient that is a view of a whole product is in the order of the row.
    assert len(of_weights) == 3
    assert all(part._base is not None and part._base.is_contiguous() for part in of_weights)


@pytest.mark.parametrize("at_once", [1, 2, LOCAL, 99])
@pytest.mark.parametrize("engine", ["vmap", "loop"])
@pytest.mark.parametrize("name", SMALL)
def test_squares_of_a_shared_row_are_those_of_each_learners_gradient(
    name, engine, at_once, monkeypatch
):
    build, options = SMALL[name]
    shared = digits_task(build, engine=engine, **options)
    x, inputs, labels = rows_and_batch(shared)
    monkeypatch.setattr("gossip.task.row_gradients.ROWS_AT_ONCE", at_once * shared.d)
    values, losses, squares = shared.gradient(x[:1], inputs, labels, squares=True)
    each = [
        shared.gradient(x[:1], inputs[j : j + 1], labels[j : j + 1], squares=True)
        for j in range(LOCAL)
    ]
    rows = torch.cat([own.values for own in each])
    expected = [
        [float(row[layer.start : layer.stop].square().sum()) for layer in shared.layers]
        for row in rows
    ]
    mean = torch.tensor(expected, dtype=torch.float64).mean(dim=0, keepdim=True)
    torch.testing.assert_close(squares, mean, rtol=1e-11, atol=1e-24)
    torch.testing.assert_close(values, rows.mean(dim=0, keepdim=True), rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(losses, torch.stack([own.losses for own in each]).mean(dim=0))
    joint = shared.gradient(x[:1], inputs, labels)
    assert joint.squares is None
    torch.testing.assert_close(values, joint.values, rtol=1e-11, atol=1e-13)


def test_squares_are_double_where_gradients_are_single():
    rows = torch.full((2, 3), 1e-25)
    layers = (Layer("a", 0, 3, torch.Size([3])),)
    torch.testing.assert_close(layer_squares(rows, layers), torch.full((2, 1), 3e-50).double())


@pytest.mark.parametrize("name", SMALL)
def test_one_row_on_all_batches_is_the_mean_of_the_learners_gradients(name):
    build, options = SMALL[name]
    task = digits_task(build, **options)
    x, inputs, labels = rows_and_batch(task)
    same = x[:1].expand(LOCAL, task.d).contiguous()
    each, losses, _ = task.gradient(same, inputs, labels)
    shared, loss, _ = task.gradient(x[:1], inputs, labels)
    torch.testing.assert_close(shared[0], each.mean(0), rtol=1e-12, atol=1e-13)
    torch.testing.assert_close(loss[0], losses.mean(), rtol=1e-12, atol=0)


def test_layers_cover_the_row_in_parameter_order():
    task = digits_task(widths=(9, 7))
    model = mlp((8, 8), 10, widths=(9, 7))
    assert [layer.name for layer in task.layers] == [name for name, _ in model.named_parameters()]
    assert [layer.start for layer in task.layers[1:]] == [layer.stop for layer in task.layers[:-1]]
    assert task.layers[0].start == 0
    assert task.d == sum(p.numel() for p in model.parameters())


def test_initial_weights_are_torchs_own_under_the_seed_and_leave_its_generator_alone():
    task = digits_task()
    torch.manual_seed(7)
    expected = torch.cat([p.detach().reshape(-1) for p in mlp((8, 8), 10).parameters()]).double()
    torch.manual_seed(99)
    before = torch.random.get_rng_state()
    assert torch.equal(task.init(7), expected)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert not torch.equal(task.init(8), expected)


def test_the_784_50_50_10_network_has_the_papers_number_of_parameters():
    model = mlp((28, 28), 10)
    assert sum(p.numel() for p in model.parameters()) == 784 * 50 + 50 + 50 * 50 + 50 + 50 * 10 + 10


def test_sums_over_chunks_are_the_gradient_of_the_whole_set():
    task = digits_task(softmax)
    x = task.init(1)
    many = np.arange(CHUNK + 321) % len(task.train)  # more than one chunk
    total, loss_sum = task.gradient_sum(x, task.train, many)
    inputs, labels = task.train.batch(many)
    gradient, loss, _ = task.gradient(x[None], inputs[None], labels[None])
    torch.testing.assert_close(total / len(many), gradient[0], rtol=1e-12, atol=1e-14)
    assert loss_sum / len(many) == pytest.approx(float(loss), rel=1e-12)
    scores = task.evaluate(x, task.train, many)
    assert scores.loss == pytest.approx(loss_sum, rel=1e-12)
    assert scores.labels == len(many)


def test_errors_are_counted():
    task = digits_task(softmax)
    everything = np.arange(len(task.test))
    zero = torch.zeros(task.d, dtype=torch.float64)  # all logits equal: predicts class 0
    _, labels = task.test.batch(everything)
    assert task.evaluate(zero, task.test, everything).errors == int((labels != 0).sum())


@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_hessian_vector_products_are_the_dense_hessians(activation):
    task = digits_task(widths=(4,), activation=activation)
    x, few = task.init(0), np.arange(30)
    inputs, labels = task.train.batch(few)

    def loss(row: torch.Tensor) -> torch.Tensor:
        shapes = {
            layer.name: row[layer.start : layer.stop].view(layer.shape) for layer in task.layers
        }
        return task._model.loss(shapes, inputs, labels)

    dense = torch.autograd.functional.hessian(loss, x)
    vectors = torch.from_numpy(np.random.default_rng(0).standard_normal((3, task.d)))
    products = task.hessian_vector_sums(x, vectors, task.train, few) / len(few)
    torch.testing.assert_close(products, vectors @ dense, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("outputs", [nn.Linear(4, 2), nn.Unflatten(1, (2, 2))])
def test_a_model_that_gives_no_logits_for_the_classes_is_refused(outputs):
    samples = ArraySamples(torch.zeros(4, 4), torch.zeros(4, dtype=torch.int64))
    with pytest.raises(UserError, match=r"needed are logits, \[1, 3\]"):
        Task(lambda: nn.Sequential(nn.Linear(4, 4), outputs), samples, samples, num_classes=3)


class Spare(nn.Module):
    """Has a parameter that its output does not depend on."""

    def __init__(self) -> None:
        super().__init__()
        self.used, self.spare = nn.Linear(64, 10), nn.Linear(3, 3)

    def forward(self, x):
        return self.used(x.flatten(1))


class Branching(Spare):
    """Looks at its data to decide what to do, which vmap cannot batch."""

    def forward(self, x):
        return super().forward(x if x.sum().item() > 0 else -x)


class Flattening(Spare):
    """Views what its linear map gives as one vector, which must lie in order."""

    def forward(self, x):
        return super().forward(x).view(-1).view(len(x), -1)


class Attending(Spare):
    """Has a part that vmap does in turn, for want of a batching rule."""

    def forward(self, x):
        rows = x.unsqueeze(1)
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):  # the plain formula can be batched
            rows = rows + nn.functional.scaled_dot_product_attention(rows, rows, rows)
        return super().forward(rows.squeeze(1))


@pytest.mark.parametrize(
    ("net", "engine"),
    [(Spare, "vmap"), (Branching, "loop"), (Flattening, "loop"), (Attending, "loop")],
)
def test_unused_parameters_have_gradient_zero_and_any_model_finds_its_engine(net, engine):
    # torch may say only once what tells.
    first, task = (digits_task(lambda shape, classes: net()) for _ in range(2))
    assert (first.engine, task.engine) == (engine, engine)
    x, inputs, labels = rows_and_batch(task)
    gradients = task.gradient(x, inputs, labels).values
    spare = next(layer for layer in task.layers if layer.name == "spare.weight")
    assert (gradients[:, spare.start : spare.stop] == 0).all()
    assert (gradients[:, : spare.start] != 0).any()
    vector = torch.ones(1, task.d, dtype=torch.float64)
    assert torch.isfinite(task.hessian_vector_sums(x[0], vector, task.train, np.arange(5))).all()


def test_a_model_without_parameters_is_refused():
    samples = ArraySamples(torch.zeros(4, 4), torch.zeros(4, dtype=torch.int64))
    with pytest.raises(UserError, match="no parameter: nothing to train"):
        Task(nn.Flatten, samples, samples)
