"""What users' loops do in a step: equal to an independent simulation of the formula, in float64."""

from collections.abc import Callable

import pytest
import torch
from torch import nn

import topologies
from gossip import Gossip
from gossip.errors import UserError
from tests.wrapper.loops import LOOPS, batch_of, fill, flat, loss_of, momentum, net, plain, walked
from tests.wrapper.scripted import matrices

EVERY = topologies.build("one-peer-exponential", 4)


@pytest.mark.parametrize("order", ["awc", "atc"])
@pytest.mark.parametrize("name", LOOPS)
def test_a_users_loop_is_the_formula(scripted, name, order):
    """Learner 0 with neighbours that always send c: W w = (w + c) / 2."""
    loop = LOOPS[name]
    module = loop.build()
    start = flat(module)
    model = Gossip(module, EVERY, backend="scripted", order=order)
    optimizer = loop.optimizer(p for p in model.parameters() if p.requires_grad)
    for t in range(loop.steps):
        loop.body(model, optimizer, batch_of(t, 0), 0)
    assert model.get_extra_state()["step"] == len(matrices(scripted)) == loop.steps

    half = torch.full((2, 2), 0.5, dtype=torch.float64)
    expected = walked(loop, start, [half] * loop.steps, order, send(scripted.c))
    torch.testing.assert_close(flat(module), expected[0], rtol=1e-12, atol=1e-12)


def send(c: float) -> Callable[[torch.Tensor], torch.Tensor]:
    """The second of two learners stands for all neighbours."""

    def wire(x: torch.Tensor) -> torch.Tensor:
        return torch.stack([x[0], torch.full_like(x[1], c)])

    return wire


def by_hand(model: Gossip, t: int) -> None:
    """An update that says nothing of itself."""
    gradients = torch.autograd.grad(loss_of(model, batch_of(t, 0)), list(model.parameters()))
    for p, g in zip(model.parameters(), gradients, strict=True):
        p.data -= 0.1 * g


@pytest.mark.parametrize("order", ["awc", "atc"])
def test_updates_by_hand_that_nobody_averages_are_refused(scripted, order):
    model = Gossip(net(), EVERY, backend="scripted", order=order)
    for t in range(2):
        by_hand(model, t)
    with pytest.raises(UserError, match=r"changed again and again .*call skip_step\(\)") as caught:
        by_hand(model, 2)
    assert "\n" not in str(caught.value)


def test_updates_by_hand_are_refused_behind_an_optimizers_too(scripted):
    """Later, and not by every one: what looks at the weights takes time."""
    model = Gossip(net(), EVERY, backend="scripted")
    plain(model, momentum(model.parameters()), batch_of(0, 0), 0)
    for t in range(63):  # with two forward passes each
        by_hand(model, t)
    with pytest.raises(UserError, match="changed again and again"):
        by_hand(model, 63)


def test_alone_or_in_no_sync_an_update_by_hand_is_ones_own_business(scripted):
    for model in (Gossip(net()), Gossip(net(), EVERY, backend="scripted")):
        with model.no_sync():
            for t in range(5):
                by_hand(model, t)
    model = Gossip(net())
    for t in range(5):
        by_hand(model, t)


@pytest.mark.parametrize("order", ["awc", "atc"])
def test_each_half_of_a_gan_is_mixed_as_often_as_it_is_stepped(scripted, order):
    """The discriminator has a forward and a backward pass in the generator's step, too."""
    torch.manual_seed(0)
    halves = [nn.Linear(2, 4), nn.Linear(4, 1)]
    start = [flat(half.double()) for half in halves]
    wrapped = [Gossip(half, EVERY, backend="scripted", order=order) for half in halves]
    gan(wrapped, [momentum(half.parameters()) for half in halves], lambda half, before: None)
    assert [model.get_extra_state()["step"] for model in wrapped] == [3, 8]
    assert scripted.under_way == (order == "awc")  # sent in the generator's last step

    plain_halves = [nn.Linear(2, 4).double(), nn.Linear(4, 1).double()]
    for half, weights in zip(plain_halves, start, strict=True):
        fill(half, weights)

    def mix(half: nn.Module, before: torch.Tensor) -> None:
        sent = before if order == "awc" else flat(half)
        fill(half, (sent + scripted.c) / 2 + (flat(half) - sent))

    gan(plain_halves, [momentum(half.parameters()) for half in plain_halves], mix)
    for half, expected in zip(halves, plain_halves, strict=True):
        torch.testing.assert_close(flat(half), flat(expected), rtol=1e-12, atol=1e-12)


def gan(halves: list, optimizers: list, stepped: Callable) -> None:
    """Eight steps of the discriminator, a step of the generator behind every third."""
    (generator, discriminator), (of_generator, of_discriminator) = halves, optimizers
    for t in range(8):
        real, noise = batch_of(t, 0), batch_of(t, 1)[:, :2]
        before = flat(discriminator)
        of_discriminator.zero_grad()
        fake = generator(noise).detach()
        (discriminator(fake) - discriminator(real)).square().mean().backward()
        of_discriminator.step()
        stepped(discriminator, before)
        if t in (1, 4, 7):
            before = flat(generator)
            of_generator.zero_grad()
            discriminator(generator(noise)).square().mean().backward()
            of_generator.step()
            stepped(generator, before)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
@pytest.mark.parametrize("how", ["outside", "in place", "inside"])
def test_a_compiled_model_is_one_graph_and_walks_the_same_way(scripted, how):
    """Nothing of the wrapper is compiled: it neither breaks the module's graph nor guards it."""
    graphs = []

    def backend(graph: torch.fx.GraphModule, inputs: list) -> Callable:
        graphs.append([n.op for n in graph.graph.nodes if n.op.startswith("call")])
        return graph.forward

    ends = []
    for compiled in (False, True):
        module = net()
        torch._dynamo.reset()
        inner = torch.compile(module, backend=backend) if compiled and how == "inside" else module
        model = Gossip(inner, EVERY, backend="scripted")
        optimizer = momentum(model.parameters())
        whole = torch.compile(model, backend=backend) if compiled and how == "outside" else model
        if compiled and how == "in place":
            model.compile(backend=backend)
        for t in range(4):
            optimizer.zero_grad()
            whole(batch_of(t, 0)).square().mean().backward()
            optimizer.step()
        ends.append(flat(module))
        assert model.get_extra_state()["step"] == 4
    assert torch.equal(*ends)
    assert len(graphs) == 1
    assert len(graphs[0]) == 3  # linear, tanh, linear


def test_adapters_that_are_added_late_are_refused_and_wrapped_again_are_averaged(scripted):
    module = net().requires_grad_(False)
    module[0].bias.requires_grad_(True)
    model = Gossip(module, EVERY, backend="scripted")
    optimizer = momentum(model.parameters())
    plain(model, optimizer, batch_of(0, 0), 0)
    module.append(nn.Linear(4, 4).double())
    with pytest.raises(UserError, match=r"'3.weight' was added or unfrozen after wrapping"):
        model(batch_of(1, 0))
    del model
    again = Gossip(module, EVERY, backend="scripted")
    before = module[3].weight.detach().clone()
    again.skip_step()
    torch.testing.assert_close(module[3].weight.detach(), (before + scripted.c) / 2)
