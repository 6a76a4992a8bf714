"""Methods in one's own script: the harness's trajectory, their state in state_dict, refusals."""

import copy
import io
import re

import pytest
import torch
from torch import nn

from gossip import Gossip
from gossip.algorithms import ALGORITHMS
from gossip.errors import UserError
from gossip.wrapper.weights import Weights
from tests.fits import properties
from tests.wrapper.loops import flat
from tests.wrapper.replays import (
    LR,
    NAMES,
    STEPS,
    harness,
    loss,
    module,
    optimizer_of,
    options_of,
    scripted,
    step,
    topology_of,
)


@pytest.mark.parametrize("name", NAMES)
def test_alone_it_is_the_harness(name):
    torch.testing.assert_close(scripted(name, 0), harness(name, 1)[0], rtol=1e-12, atol=1e-12)


def test_those_that_need_other_gradients_are_left_out():
    assert set(ALGORITHMS) - set(NAMES) == {
        *("dpsgd", "ssgd", "ssgd-star", "ssgd-injected", "mixed-state", "ef21", "powersgd", "demo")
    }


STREAM = {"algorithm": "streaming-diloco", "every": 4, "fragments": 2, "delay": 1, "merge": 0.5}


def begun(**options):
    own = module()
    model = Gossip(own, **options)
    return own, model, torch.optim.Adam(model.parameters(), lr=0.05)


@pytest.mark.parametrize("at", range(1, STEPS))
def test_it_goes_on_from_a_file_at_every_step_of_a_round(at):
    own, model, optimizer = begun(**STREAM)
    file = io.BytesIO()
    for t in range(STEPS + 4):
        if t == at:
            torch.save((model.state_dict(), optimizer.state_dict()), file)
        step(model, optimizer, t, 0)
    again, other, next_optimizer = begun(**STREAM)
    file.seek(0)
    weights, moments = torch.load(file, weights_only=True)
    other.load_state_dict(weights)
    next_optimizer.load_state_dict(moments)
    for t in range(at, STEPS + 4):
        step(other, next_optimizer, t, 0)
    assert torch.equal(flat(own), flat(again))
    assert other.get_extra_state()["step"] == STEPS + 4


@pytest.mark.parametrize("kept", [4, 5])
def test_an_average_that_is_under_way_is_let_go_where_another_state_is_loaded(kept):
    """After 4 steps one is; loaded into a run of as many, it begins anew."""
    own, model, optimizer = begun(**STREAM)
    states = []
    for t in range(6):
        states.append(copy.deepcopy((model.state_dict(), optimizer.state_dict())))
        step(model, optimizer, t, 0)
    again, other, next_optimizer = begun(**STREAM)
    for t in range(4):
        step(other, next_optimizer, 9 - t, 0)
    other.load_state_dict(states[kept][0])
    next_optimizer.load_state_dict(states[kept][1])
    for t in range(kept, 6):
        step(other, next_optimizer, t, 0)
    assert torch.equal(flat(own), flat(again))


@pytest.mark.parametrize("name", ["slowmo", "gt-awc"])
def test_a_step_that_is_under_way_is_in_the_state(name):
    """One of two optimizers has stepped; what ends the step is the next look at all weights."""
    own, model, _ = begun(algorithm=name, **({"every": 1} if name == "slowmo" else {}))
    half = torch.optim.SGD(own[0].parameters(), lr=0.1)
    for t in range(2):
        model(torch.ones(1, 4, dtype=torch.float64) + t).sum().backward()
        half.step()
    state = model.state_dict()
    again, other, _ = begun(algorithm=name, **({"every": 1} if name == "slowmo" else {}))
    other.load_state_dict(state)
    for each in (model, other):
        with each.average():
            pass
    assert torch.equal(flat(own), flat(again))
    assert str(model.get_extra_state()) == str(other.get_extra_state())


def test_the_state_of_another_method_is_refused():
    _, diloco, _ = begun(algorithm="diloco", every=2)
    for options in ({}, {"algorithm": "slowmo"}):
        with pytest.raises(UserError, match="this state is of algorithm diloco"):
            begun(**options)[1].load_state_dict(diloco.state_dict())


def test_what_is_sent_is_counted(scripted):
    model = Gossip(module(), "complete", algorithm="gasloc", every=2, backend="scripted")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for t in range(4):
        before = len(scripted.mixed)
        step(model, optimizer, t, 0)
        assert len(scripted.mixed) - before == t % 2


def refused(match, *, optimizer=None, **options):
    own = module()
    make = optimizer or momentum
    with pytest.raises(UserError, match=match):  # noqa: PT012 - some are said at the first step
        model = Gossip(own, **options)
        step(model, make(model.parameters()), 0, 0)


def momentum(parameters):
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9)


def two_rates(parameters):
    first, *rest = parameters
    return torch.optim.SGD([{"params": [first], "lr": 0.1}, {"params": rest, "lr": 0.2}], lr=0.1)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"algorithm": "dilco"}, "did you mean diloco?"),
        ({"algorithm": "ssgd"}, "elsewhere than at the learner's own weights"),
        ({"algorithm": "ssgd-injected"}, "elsewhere"),
        ({"algorithm": "diloco", "moments": "mean"}, "moments=local"),
        ({"algorithm": "diloco", "evry": 3}, "did you mean every?"),
        ({"algorithm": "diloco", "every": 0}, "at least 1 step"),
        ({"algorithm": "streaming-diloco", "every": 9, "fragments": 2}, "do not divide"),
        ({"algorithm": "choco-atc", "compressor": "top-k:99"}, "a model that has 12"),
        ({"algorithm": "relaysgd", "topology": "complete", "order": "atc"}, "dpsgd's"),
        ({"algorithm": "diloco", "mix_every": 2}, "every= if it has rounds"),
        ({"topolgy": "ring"}, "did you mean topology?"),
        ({"every": 5}, "those of a method need it"),
        ({"algorithm": "qg-dsgdm", "optimizer": momentum}, "SGD without momentum"),
        ({"algorithm": "decentlam", "optimizer": torch.optim.Adam}, "SGD without momentum"),
        ({"algorithm": "gt-awc", "optimizer": two_rates}, "one learning rate"),
        ({"algorithm": "slowmo", "optimizer": two_rates}, "give all parameters one"),
    ],
)
def test_it_is_refused_in_one_sentence(options, said):
    refused(re.escape(said), **options)


def test_a_tracker_cannot_leave_a_step_out():
    model = Gossip(nn.Linear(2, 1), algorithm="gt-awc")
    with pytest.raises(UserError, match="cannot leave one out"):
        model.skip_step()


def scaled(fused: bool, overflows: bool = False):
    """A step with a GradScaler."""

    def step_of(model: nn.Module, optimizer: torch.optim.Optimizer, t: int) -> None:
        scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
        optimizer.param_groups[0]["fused"] = fused
        optimizer._step_supports_amp_scaling = fused
        optimizer.zero_grad()
        factor = torch.inf if overflows and t else 1.0
        scaler.scale(factor * loss(model, t, 0)).backward()
        scaler.step(optimizer)

    return step_of


def in_a_closure(model: nn.Module, optimizer: torch.optim.Optimizer, t: int) -> None:
    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        value = loss(model, t, 0)
        value.backward()
        return value

    optimizer.step(closure)


def with_a_graph(model: nn.Module, optimizer: torch.optim.Optimizer, t: int) -> None:
    optimizer.zero_grad()
    loss(model, t, 0).backward(create_graph=True)
    optimizer.step()


STEERING = [name for name in NAMES if properties(name).steers or properties(name).own_momentum]


@pytest.mark.filterwarnings("ignore:Using backward.. with create_graph=True")
@pytest.mark.parametrize("step_of", [in_a_closure, scaled(fused=True), with_a_graph])
@pytest.mark.parametrize("name", STEERING)
def test_a_method_steers_by_the_gradients_of_the_step_however_it_is_taken(name, step_of):
    own = module()
    model = Gossip(own, topology_of(name), algorithm=name, **options_of(name))
    optimizer = optimizer_of(name)(model.parameters())
    for t in range(STEPS):
        step_of(model, optimizer, t)
    torch.testing.assert_close(flat(own), scripted(name, 0), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("fused", [True, False])
def test_a_step_that_a_scaler_leaves_out_is_refused_by_a_tracker(fused):
    own = module()
    model = Gossip(own, algorithm="gt-awc")
    optimizer = optimizer_of("gt-awc")(model.parameters())
    scaled(fused)(model, optimizer, 0)
    with pytest.raises(UserError, match=r"cannot leave one out, as .* a GradScaler"):
        scaled(fused, overflows=True)(model, optimizer, 1)


def test_a_round_that_ends_with_a_step_left_out_has_the_rate_of_the_one_before():
    """SlowMo: u <- mu u + (x_0 - x_H) / alpha, x <- x_0 - alpha u."""
    own = module()
    model = Gossip(own, algorithm="slowmo", every=2, mu=0.5)
    optimizer = torch.optim.SGD(model.parameters(), lr=LR)
    x, u = flat(own), 0.0
    for skips in (True, False):
        step(model, optimizer, 0, 0)
        if skips:
            u = 0.5 * u + (x - flat(own)) / LR
            model.skip_step()
        else:
            before, gradient = flat(own), torch.autograd.grad(loss(own, 1, 0), own.parameters())
            step(model, optimizer, 1, 0)
            g = torch.cat([each.reshape(-1) for each in gradient])
            u = 0.5 * u + (x - (before - LR * g)) / LR
        x = x - LR * u
        torch.testing.assert_close(flat(own), x, rtol=1e-12, atol=1e-12)


def test_a_method_that_needs_a_rate_leaves_no_step_out_before_it_has_one():
    model = Gossip(module(), algorithm="slowmo", every=2)
    with pytest.raises(UserError, match="needs the learning rate, which no optimizer has told"):
        model.skip_step()


def test_a_round_goes_on_where_a_step_is_left_out():
    model = Gossip(nn.Linear(2, 1), algorithm="diloco", every=2)
    before = flat(model.module)
    for _ in range(4):
        model.skip_step()
    assert torch.equal(flat(model.module), before)


def test_a_topology_that_does_not_fit_is_refused(scripted):
    with pytest.raises(UserError, match="use topology ring, torus"):
        Gossip(module(), "one-peer-exponential", algorithm="d2", backend="scripted")


def test_weights_tied_by_memory_have_the_sum_of_their_gradients():
    tied = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    tied[1].weight.data = tied[0].weight.data
    tied(torch.eye(3)).square().sum().backward()
    weights = Weights(dict(tied.named_parameters()), "module")
    rows = [torch.zeros_like(row) for row in weights.rows()]
    weights.collect(rows, torch.optim.SGD(tied.parameters(), lr=0.1))
    found = weights.owners["0.weight"].part(rows)
    assert torch.equal(found, tied[0].weight.grad + tied[1].weight.grad)
