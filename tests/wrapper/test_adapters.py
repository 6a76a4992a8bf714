"""Every adapter with odd parameters, two optimizers and an exception: a table over both.

Learner 0 of 4, whose neighbours always send c; in float64 the formula, simulated, to 1e-12.
"""

from collections.abc import Callable
from importlib.util import find_spec

import pytest
import torch
from torch import nn

import topologies
from gossip.errors import UserError
from tests.wrapper.adapters import ADAPTERS, NEEDS, STEPS, step
from tests.wrapper.loops import fill, flat, net

EVERY = topologies.build("one-peer-exponential", 4)


def frozen() -> nn.Module:
    module = net()
    module[0].requires_grad_(False)
    return module


def tied() -> nn.Module:
    torch.manual_seed(5)
    one, other = nn.Linear(4, 4), nn.Linear(4, 4)
    other.weight = one.weight
    return nn.Sequential(one, nn.Tanh(), other).double()


def unused() -> nn.Module:
    module = net()
    module.spare = nn.Parameter(torch.full((3,), 7.0, dtype=torch.float64))
    module.forward = lambda x: module[2](module[1](module[0](x)))
    return module


def late(module: nn.Module) -> Callable[[int], None]:
    def before(t: int) -> None:
        if t == 2:
            module.late = nn.Parameter(torch.ones(2, dtype=torch.float64))

    return before


def one(module: nn.Module) -> list[torch.optim.Optimizer]:
    trained = [p for p in module.parameters() if p.requires_grad]
    return [torch.optim.SGD(trained, lr=0.1, momentum=0.9)]


def two(module: nn.Module) -> list[torch.optim.Optimizer]:
    first, *others = module.parameters()
    return [torch.optim.SGD([first], lr=0.1), torch.optim.Adam(others, lr=0.01)]


CASES = {"frozen": (frozen, one), "tied": (tied, one), "unused": (unused, one), "two": (net, two)}
TABLE = [
    pytest.param(adapter, case, marks=[pytest.mark.slow] if adapter in NEEDS else [])
    for adapter in ADAPTERS
    for case in CASES
    if (adapter, case) != ("trainer", "two")  # it has one optimizer
]


@pytest.fixture(autouse=True)
def libraries(request, monkeypatch):
    name = NEEDS.get(request.node.callspec.params["adapter"])
    if name and find_spec(name) is None:
        pytest.skip(f"{name} is not installed")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")


def formula(module: nn.Module, make: Callable, order: str) -> torch.Tensor:
    """The weights after `STEPS` steps, W w = (w + c) / 2 with c = 1."""
    optimizers = make(module)
    trained = torch.cat([torch.full((p.numel(),), p.requires_grad) for p in module.parameters()])
    for _ in range(STEPS):
        before = flat(module)
        step(module, optimizers)
        after = flat(module)
        sent = before if order == "awc" else after
        fill(module, torch.where(trained, (sent + 1) / 2 + (after - sent), after))
    return flat(module)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("adapter", "case"), TABLE)
def test_it_is_the_formula(scripted, adapter, case):
    build, make = CASES[case]
    module = build()
    order = ADAPTERS[adapter](module, lambda: make(module), EVERY, lambda t: None)
    torch.testing.assert_close(flat(module), formula(build(), make, order), rtol=1e-12, atol=1e-12)
    if case == "frozen":
        assert torch.equal(module[0].weight, build()[0].weight)
    if case == "tied":
        assert module[0].weight is module[2].weight


BY_ADAPTER = [
    pytest.param(adapter, marks=[pytest.mark.slow] if adapter in NEEDS else [])
    for adapter in ADAPTERS
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("adapter", BY_ADAPTER)
def test_what_is_added_late_is_refused_or_left_to_the_learner(scripted, adapter):
    """An Averager has the parameters it was given: another one stays the learner's own."""
    module = net()
    order = "atc" if adapter in ("averager", "trainer") else "awc"

    def go() -> None:
        ADAPTERS[adapter](module, lambda: one(module), EVERY, late(module))

    if order == "awc":
        with pytest.raises(UserError, match=r"'late' was added or unfrozen after wrapping"):
            go()
        return
    go()
    assert torch.equal(module.late, torch.ones(2, dtype=torch.float64))
    del module.late
    torch.testing.assert_close(flat(module), formula(net(), one, order), rtol=1e-12, atol=1e-12)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("adapter", BY_ADAPTER)
def test_an_exception_leaves_the_loop_as_it_is(scripted, adapter):
    """So it comes to the end of the process, where the wrapper tells of it and ends the job."""
    failure = ArithmeticError("on one process")

    def fail(t: int) -> None:
        if t == 2:
            raise failure

    module = net()
    with pytest.raises(ArithmeticError) as caught:
        ADAPTERS[adapter](module, lambda: one(module), EVERY, fail)
    assert caught.value is failure
    assert scripted.under_way <= 1  # what was sent by then
