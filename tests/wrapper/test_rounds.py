"""When a step begins and ends: with neighbours that only exist in their messages."""

import gc
from copy import deepcopy

import numpy as np
import pytest
import torch
from torch import nn

import topologies
from gossip import Averager, Gossip, leave
from gossip.wrapper import link
from tests.wrapper.scripted import matrices

EVERY = topologies.build("one-peer-exponential", 4)
INPUT = torch.tensor([[1.0, 2.0]], dtype=torch.float64)


def module() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1)).double()


def weights(model: nn.Module) -> torch.Tensor:
    return nn.utils.parameters_to_vector(model.parameters()).detach().clone()


def forward(model: nn.Module) -> None:
    model(INPUT).sum().backward()


def step(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    optimizer.zero_grad()
    forward(model)
    optimizer.step()


def t(model: Gossip) -> int:
    return model.get_extra_state()["step"]


@pytest.fixture
def model(scripted) -> Gossip:
    return Gossip(module(), EVERY, backend="scripted")


@pytest.fixture
def optimizer(model) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.1)


def test_awc_is_the_increment_at_the_own_weights_plus_the_mixed_ones(scripted, model, optimizer):
    before = weights(model)
    forward(model)
    gradient = torch.cat([p.grad.reshape(-1) for p in model.parameters()])
    assert scripted.under_way == 1  # while the gradient was computed
    optimizer.step()
    expected = (before / 2 + scripted.c / 2) - 0.1 * gradient
    torch.testing.assert_close(weights(model), expected, rtol=1e-14, atol=1e-14)
    assert scripted.under_way == 0


def test_every_step_takes_the_topologys_next_matrix(scripted, model, optimizer):
    for _ in range(5):
        step(model, optimizer)
    expected = [EVERY.matrix(k).toarray() for k in range(5)]
    np.testing.assert_array_equal(matrices(scripted), expected)


def test_with_mix_every_matrices_are_not_left_out(scripted):
    model = Gossip(module(), EVERY, backend="scripted", mix_every=3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(8):
        step(model, optimizer)
    np.testing.assert_array_equal(matrices(scripted), [EVERY.matrix(k).toarray() for k in (0, 1)])
    messages = sum(EVERY.messages_per_step(k).mean() for k in (0, 1))
    assert model.traffic.messages_per_learner == messages
    row_bytes = model._exchange.weights.like[0].nbytes
    assert model.traffic.bytes_sent_per_learner == messages * row_bytes


def test_two_forward_passes_before_the_backward_pass_are_one_step(scripted, model, optimizer):
    (model(INPUT) + model(2 * INPUT)).sum().backward()
    optimizer.step()
    assert (t(model), len(matrices(scripted))) == (1, 1)


def test_accumulated_gradients_are_one_step(scripted, model, optimizer):
    for _ in range(3):
        forward(model)
    optimizer.step()
    assert (t(model), len(matrices(scripted))) == (1, 1)


def test_evaluation_begins_no_step(scripted, model, optimizer):
    with torch.no_grad():
        model(INPUT)
    model.eval()
    model(INPUT)
    assert scripted.under_way == 0


def test_without_a_forward_pass_through_the_wrapper_the_step_itself_mixes(
    scripted, model, optimizer
):
    forward(model.module)
    optimizer.step()
    assert (t(model), len(matrices(scripted))) == (1, 1)


def left_out(model: Gossip, optimizer: torch.optim.Optimizer) -> None:
    """A step that a GradScaler leaves out."""
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0)
    scaler.scale(model(INPUT).sum() * torch.inf).backward()
    scaler.step(optimizer)
    scaler.update()


@pytest.mark.parametrize("order", ["awc", "atc"])
def test_a_step_that_a_scaler_leaves_out_is_mixed_at_once(scripted, order):
    model = Gossip(module(), EVERY, backend="scripted", order=order)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    before = weights(model)
    left_out(model, optimizer)
    torch.testing.assert_close(weights(model), (before + scripted.c) / 2)
    step(model, optimizer)
    assert (t(model), len(matrices(scripted)), scripted.under_way) == (2, 2, 0)


def test_one_of_two_optimizers_whose_step_a_scaler_leaves_out(scripted, model):
    """Its parameters are mixed without an update, and the step is one."""
    first, second = (torch.optim.SGD(part.parameters(), lr=0.1) for part in model.module)
    before, scaler = weights(model), torch.amp.GradScaler("cpu", init_scale=1.0)
    scaler.scale(model(INPUT).sum()).backward()
    gradient = model.module[1].weight.grad.reshape(-1).clone()
    model.module[0].bias.grad.fill_(torch.inf)
    for optimizer in (first, second):
        scaler.step(optimizer)
    mixed = (before + scripted.c) / 2
    torch.testing.assert_close(weights(model)[:6], mixed[:6])
    torch.testing.assert_close(weights(model)[6:8], mixed[6:8] - 0.1 * gradient)
    assert (t(model), len(matrices(scripted))) == (1, 1)


@pytest.mark.parametrize("order", ["awc", "atc"])
def test_a_step_whose_closure_fails_is_taken_by_the_next_optimizer(scripted, order):
    model = Gossip(module(), EVERY, backend="scripted", order=order)

    def closure() -> torch.Tensor:
        forward(model)
        raise ValueError("a batch that nobody likes")

    with pytest.raises(ValueError, match="nobody likes"):
        torch.optim.LBFGS(model.parameters()).step(closure)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        step(model, optimizer)
    assert (t(model), len(matrices(scripted)), scripted.under_way) == (2, 2, 0)


def test_a_step_can_be_left_out_in_words(scripted, model, optimizer):
    model(INPUT)  # a loss that nobody likes
    model.skip_step()
    step(model, optimizer)
    model.skip_step()
    assert (t(model), len(matrices(scripted)), scripted.under_way) == (3, 3, 0)


def test_steps_in_no_sync_are_not_counted(scripted, model, optimizer):
    for _ in range(2):
        step(model, optimizer)
        with model.no_sync():
            step(model, optimizer)
    np.testing.assert_array_equal(matrices(scripted), [EVERY.matrix(k).toarray() for k in (0, 1)])


def test_a_mix_that_was_under_way_is_added_by_the_first_step_in_no_sync(scripted, model, optimizer):
    forward(model)
    with model.no_sync():
        optimizer.step()
        step(model, optimizer)
    assert (t(model), len(matrices(scripted)), scripted.under_way) == (1, 1, 0)


def test_a_parameter_without_gradient_is_mixed_and_a_frozen_one_is_not(scripted):
    net = module()
    net[0].bias.requires_grad_(False)
    unused = net[1].weight.detach().clone()
    kept = net[0].bias.detach().clone()
    model = Gossip(net, EVERY, backend="scripted")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    net[0](model(INPUT).detach().expand(1, 2)).sum().backward()  # net[1] gets none
    optimizer.step()
    torch.testing.assert_close(net[1].weight.detach(), (unused + scripted.c) / 2)
    assert torch.equal(net[0].bias, kept)


@pytest.mark.parametrize("order", ["awc", "atc"])
def test_parameters_of_no_optimizer_are_mixed_by_the_next_step(scripted, order):
    net = module()
    backbone = net[0].weight.detach().clone()
    model = Gossip(net, EVERY, backend="scripted", order=order)
    optimizer = torch.optim.SGD(net[1].parameters(), lr=0.1)
    step(model, optimizer)
    model(INPUT)
    torch.testing.assert_close(net[0].weight.detach(), (backbone + scripted.c) / 2)
    assert t(model) == 1


def test_two_optimizers_in_turn_are_two_steps(scripted, model):
    first, second = (torch.optim.SGD(part.parameters(), lr=0.1) for part in model.module)
    for _ in range(2):
        for optimizer in (first, second):
            forward(model)
            optimizer.step()
    assert t(model) == len(matrices(scripted)) == 4


def test_a_closure_that_is_called_again_and_again_is_one_step(scripted, model):
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=4)
    calls = []

    def closure() -> torch.Tensor:
        calls.append(1)
        optimizer.zero_grad()
        loss = model(INPUT).square().sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    assert len(calls) > 1
    assert (t(model), len(matrices(scripted))) == (1, 1)


def test_an_optimizer_of_other_parameters_is_none_of_our_business(scripted, model, optimizer):
    other = nn.Linear(2, 2)
    foreign = torch.optim.SGD(other.parameters(), lr=0.1)
    forward(model)
    other(torch.ones(2)).sum().backward()
    foreign.step()
    assert scripted.under_way == 1
    optimizer.step()
    assert t(model) == 1


@pytest.mark.parametrize("order", ["awc", "atc"])
@pytest.mark.parametrize("when", ["forward", "step", "skip", "half"])
def test_a_state_saved_at_any_moment_goes_on_bit_for_bit(scripted, order, when):
    def run(saved: bool) -> torch.Tensor:
        scripted.mixed.clear()
        model = Gossip(module(), EVERY, backend="scripted", order=order)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        head = torch.optim.SGD(model.module[1].parameters(), lr=0.1)
        step(model, optimizer)
        optimizer.zero_grad()
        if when in ("step", "half"):
            step(model, head if when == "half" else optimizer)
        elif when == "skip":
            left_out(model, optimizer)
        elif when == "forward":
            model(INPUT)
        optimizer.zero_grad()
        if saved:
            state = deepcopy(model.state_dict())
            model = Gossip(module(), EVERY, backend="scripted", order=order)
            model.load_state_dict(state)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        step(model, optimizer)
        step(model, optimizer)
        assert t(model) == (3 if when == "forward" else 4)
        return weights(model)

    assert torch.equal(run(saved=True), run(saved=False))


@pytest.mark.parametrize(("order", "parts"), [("awc", 1), ("atc", 0)])
def test_the_others_are_told_of_every_step_that_the_learner_has_had_its_part_in(
    scripted, order, parts
):
    """What is sent in a step counts, even if the step is not finished; what is loaded does not."""
    position = link.connected("scripted", 600.0, "cpu").position
    models = [Gossip(module(), EVERY, backend="scripted", order=order) for _ in range(2)]
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.1) for model in models]
    saved = models[0].state_dict()
    for _ in range(3):
        for model, optimizer in zip(models, optimizers, strict=True):
            step(model, optimizer)
    assert position.step == 6
    models[0].load_state_dict(saved)
    assert position.step == 6
    forward(models[1])
    del model, models, optimizer, optimizers
    gc.collect()
    assert position.step == 6 + parts


@pytest.mark.parametrize("make", [Gossip, Averager])
def test_one_that_has_left_stays_so_until_its_next_step(scripted, make):
    """A kill is then no learner's death, whatever it has looked at meanwhile."""
    net = module()
    wrapper = make(net if make is Gossip else net.parameters(), EVERY, backend="scripted")
    position = link.connected("scripted", 600.0, "cpu").position
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    def go() -> None:
        step(wrapper if make is Gossip else net, optimizer)
        if make is Averager:
            wrapper.step()

    go()
    position.leave()
    wrapper.load_state_dict(wrapper.state_dict())
    wrapper.monitor()
    with wrapper.average():
        pass
    assert position.left
    go()
    assert not position.left


def test_a_forward_pass_that_is_collected_after_the_end_does_not_undo_it(scripted):
    model = Gossip(module(), EVERY, backend="scripted")
    position = link.connected("scripted", 600.0, "cpu").position
    forward(model)
    position.leave()
    del model
    gc.collect()
    assert (position.left, position.step) == (True, 1)


def test_leaving_ends_the_step_that_others_may_wait_in(scripted, model):
    """One of two optimizers has stepped: only the next step, or the end, tells that it is over."""
    head = torch.optim.SGD(model.module[1].parameters(), lr=0.1)
    step(model, head)
    assert model._rounds.t == 0
    leave()
    assert (model._rounds.t, scripted.under_way) == (1, 0)


def test_an_averager_takes_the_next_matrix_at_each_call(scripted):
    net = module()
    averager = Averager(net.parameters(), EVERY, backend="scripted", mix_every=2)
    before = weights(net)
    averager.step()
    assert torch.equal(weights(net), before)
    averager.step()
    torch.testing.assert_close(weights(net), (before + scripted.c) / 2)
    again = Averager(module().parameters(), EVERY, backend="scripted", mix_every=2)
    again.load_state_dict(averager.state_dict())
    again.step()
    again.step()
    np.testing.assert_array_equal(matrices(scripted), [EVERY.matrix(k).toarray() for k in (0, 1)])
