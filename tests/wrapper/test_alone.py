"""Without others the wrapper is the identity, bit for bit, and what it refuses it says."""

import gc
import subprocess
import sys
from functools import partial

import pytest
import torch
from torch import nn
from torch.optim import optimizer as torch_optimizer

import topologies
from gossip import Averager, Gossip
from gossip.errors import UserError
from gossip.models import MODELS


def net() -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(
        nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.Flatten(), nn.Linear(48, 5)
    )


def walk(model: nn.Module, optimizer: torch.optim.Optimizer, steps: int = 4) -> None:
    for t in range(steps):
        torch.manual_seed(t)
        optimizer.zero_grad()
        model(torch.randn(4, 2, 6, 6)).square().mean().backward()
        optimizer.step()


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize(
    "make",
    [
        partial(torch.optim.SGD, lr=0.1, momentum=0.9, weight_decay=0.01),
        partial(torch.optim.Adam, lr=0.01),
        partial(torch.optim.Adafactor, lr=0.01),
    ],
    ids=["momentum", "adam", "adafactor"],
)
@pytest.mark.parametrize("order", ["awc", "atc"])
def test_alone_it_is_the_plain_optimizer_bit_for_bit(order, make, layout):
    plain, wrapped = (net().to(memory_format=layout) for _ in range(2))
    walk(plain, make(plain.parameters()))
    model = Gossip(wrapped, order=order)
    walk(model, make(model.parameters()))
    for name, value in plain.state_dict().items():
        assert torch.equal(wrapped.state_dict()[name], value), name
    assert wrapped[0].weight.stride() == plain[0].weight.stride()
    assert model.get_extra_state()["step"] == 4


def test_the_weights_fit_the_bare_module():
    model = Gossip(net())
    walk(model, torch.optim.SGD(model.parameters(), lr=0.1))
    bare = net()
    bare.load_state_dict(model.module.state_dict())
    assert torch.equal(bare[4].weight, model.module[4].weight)
    again = Gossip(net())
    again.load_state_dict(model.state_dict())
    assert torch.equal(again.module[4].weight, model.module[4].weight)
    assert again.get_extra_state() == model.get_extra_state()


def test_tied_parameters_are_there_once():
    module = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    module[1].weight = module[0].weight
    model = Gossip(module)
    assert model._exchange.weights.d == 9 + 3 + 3
    assert module[1].weight is module[0].weight


def test_rows_are_one_for_each_dtype():
    module = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 2).double(), nn.Linear(2, 2))
    rows = Gossip(module)._exchange.weights.rows()
    assert [row.dtype for row in rows] == [torch.float32, torch.float64]


def test_the_hooks_go_with_the_wrapper():
    gc.collect()
    before = len(torch_optimizer._global_optimizer_pre_hooks)
    model = Gossip(net())
    assert len(torch_optimizer._global_optimizer_pre_hooks) == before + 1
    del model
    gc.collect()
    assert len(torch_optimizer._global_optimizer_pre_hooks) == before
    assert len(torch_optimizer._global_optimizer_post_hooks) == before


def test_gossip_itself_needs_no_torch():
    code = "import gossip, sys; assert 'torch' not in sys.modules; assert gossip.__getattr__"
    subprocess.run([sys.executable, "-c", code], check=True)
    import gossip

    assert gossip.__getattr__("Averager") is gossip.Averager
    with pytest.raises(AttributeError, match="Gosip"):
        gossip.Gosip  # noqa: B018


def frozen() -> nn.Module:
    return nn.Linear(2, 2).requires_grad_(False)


def complex_one() -> nn.Module:
    module = nn.Linear(2, 2)
    module.phase = nn.Parameter(torch.zeros(2, dtype=torch.complex64))
    return module


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: Gossip(nn.ReLU()), "ReLU has no parameter: nothing to average"),
        (lambda: Gossip(frozen()), "all 2 are frozen"),
        (lambda: Gossip(nn.LazyLinear(2)), "'weight' has no shape yet"),
        (lambda: Gossip(complex_one()), "'phase' is complex64.*float32, float64"),
        (lambda: Gossip(net(), "rign"), "unknown topology 'rign'"),
        (
            lambda: Gossip(net(), topologies.build("ring", 5)),
            "has 5 learners, but there are 1",
        ),
        (lambda: Gossip(net(), topologies.build("ring", 1), weights="lazy"), "made already"),
        (lambda: Gossip(net(), "ring", topology_options={"k": 2}), "no option"),
        (lambda: Gossip(net(), order="act"), "unknown order 'act'.*awc, atc"),
        (lambda: Gossip(net(), buffers="mean"), "unknown buffers policy 'mean'"),
        (lambda: Gossip(net(), mix_every=0), "mix_every=0: give 1"),
        (lambda: Gossip(net(), timeout=-1), "timeout=-1"),
        (lambda: Gossip(net(), backend="ncll"), "unknown backend 'ncll'"),
        (lambda: Averager([]), "has no parameter"),
    ],
)
def test_a_mistake_is_one_sentence(make, text):
    with pytest.raises(UserError, match=text) as caught:
        make()
    assert "\n" not in str(caught.value)


@pytest.mark.filterwarnings("ignore:.*quantize:DeprecationWarning", "ignore:torch.ao:Warning")
def test_what_has_no_bytes_to_send_is_refused():
    module = nn.Linear(2, 2)
    module.register_buffer("sparse", torch.eye(2).to_sparse())
    with pytest.raises(UserError, match="'sparse' is sparse_coo, which cannot be sent"):
        Gossip(module)


@pytest.mark.parametrize("change", ["half", "assign", "added", "unfrozen"])
def test_what_changes_after_wrapping_is_noticed(change):
    module = net()
    module[0].bias.requires_grad_(False)
    model = Gossip(module)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    walk(model, optimizer)
    text = "was moved or converted after wrapping"
    if change == "half":
        module.double()
    elif change == "assign":
        module.load_state_dict(net().state_dict(), assign=True)
        text = "moved or converted|added or unfrozen"
    elif change == "added":
        module.append(nn.Linear(5, 5))
        text = "'5.weight' was added or unfrozen"
    else:
        module[0].bias.requires_grad_(True)
        text = "'0.bias' was added or unfrozen"
    with pytest.raises(UserError, match=text):
        model(torch.randn(4, 2, 6, 6))
    if change != "assign":  # torch's optimizer has none of these parameters any more
        with pytest.raises(UserError, match=text):
            optimizer.step()


def test_loading_in_place_of_the_parameters_is_refused():
    model = Gossip(net())
    with pytest.raises(UserError, match="use assign=False"):
        model.load_state_dict(model.state_dict(), assign=True)


def test_a_step_inside_average_is_refused_and_the_weights_come_back():
    model = Gossip(net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    walk(model, optimizer)
    before = {name: value.clone() for name, value in model.module.state_dict().items()}
    with pytest.raises(UserError, match="leave the block first"), model.average():
        walk(model, optimizer, 1)
    for name, value in model.module.state_dict().items():
        if "running" not in name and "tracked" not in name:
            assert torch.equal(value, before[name]), name
    with pytest.raises(UserError, match="leave the block first"), model.average():
        model.load_state_dict(model.state_dict())
    walk(model, optimizer, 1)


def test_samples_have_to_fit_the_policy():
    with pytest.raises(UserError, match="looks at no samples"), Gossip(net()).average([]):
        pass
    model = Gossip(net(), buffers="recalibrate")
    with pytest.raises(UserError, match=r"average\(loader\)"), model.average():
        pass


def test_recalibration_leaves_modes_and_statistics_as_they_were():
    module = MODELS["resnet18"]((3, 8, 8), 10, width=4)
    model = Gossip(module, buffers="recalibrate")
    norms = [m for m in module.modules() if isinstance(m, nn.BatchNorm2d)]
    norms[0].eval()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    assert norms[-1].running_mean.abs().max() == 0
    inputs = torch.randn(16, 3, 8, 8)
    with model.average([(inputs, None)]):
        assert norms[0].num_batches_tracked == 1
        assert norms[-1].running_mean.abs().max() > 0
    assert [norm.training for norm in norms] == [False] + [True] * (len(norms) - 1)
    for name, value in module.state_dict().items():
        assert torch.equal(value, before[name]), name
