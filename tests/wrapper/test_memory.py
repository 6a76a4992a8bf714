"""What lies in one memory is one parameter; what leaves the wrapper is the plain module's."""

import gc
import io
import pickle
from copy import copy, deepcopy
from functools import partial

import pytest
import torch
from safetensors.torch import load_file, save_model
from torch import nn
from torch.optim.swa_utils import AveragedModel, update_bn

import topologies
from gossip import Averager, Gossip
from gossip.errors import UserError
from gossip.task.ties import owners
from gossip.wrapper.weights import Weights
from tests.wrapper.loops import batch_of, flat, momentum, net, plain, tied

EVERY = topologies.build("one-peer-exponential", 4)
STORE = torch.zeros(4, 6)


@pytest.mark.parametrize(
    ("second", "owner"),
    [
        (STORE, "a"),
        (STORE.t(), "a"),
        (STORE.view(-1), "a"),
        (STORE[1:3], "a"),
        (STORE[:, ::2], "a"),
        (STORE[1, 1:1], "b"),  # of no elements
        (torch.zeros(4, 6), "b"),
    ],
)
def test_what_lies_in_anothers_memory_belongs_to_it(second, owner):
    assert owners({"a": STORE, "b": second}) == {"a": "a", "b": owner}
    assert owners({"b": second, "a": STORE})["b"] in (owner, "b")


def test_of_two_with_gaps_each_is_its_own_unless_they_are_the_same():
    left, right = STORE[:, :3], STORE[:, 3:]
    assert owners({"a": left, "b": right, "c": left}) == {"a": "a", "b": "b", "c": "a"}


@pytest.mark.parametrize("other", [STORE[1:], STORE[1:].t(), STORE[:, 1:4], STORE[1::2, ::2]])
def test_what_overlaps_in_part_is_refused(other):
    with pytest.raises(UserError, match=r"'[ab]' and '[ab]' share a part of their memory"):
        owners({"a": STORE[:3], "b": other})


@pytest.mark.parametrize("order", ["awc", "atc"])
@pytest.mark.parametrize("options", [{}, {"transposed": True}, {"part": True}])
def test_alone_tied_weights_stay_tied_and_are_the_plain_ones_bit_for_bit(options, order):
    bare, wrapped = tied(**options), tied(**options)
    model = Gossip(wrapped, order=order)
    for module, whole in ((bare, bare), (wrapped, model)):
        optimizer = momentum(module.parameters())
        for t in range(3):
            plain(whole, optimizer, batch_of(t, 0), 0)
    assert torch.equal(flat(bare), flat(wrapped))
    name = "bias" if "part" in options else "weight"
    assert getattr(wrapped[2], name).data_ptr() == wrapped[0].weight.data_ptr()


def test_the_gradient_of_tied_weights_is_counted_once_in_the_monitor(scripted):
    module = tied(transposed=True)
    model = Gossip(module, EVERY, backend="scripted")
    model(batch_of(0, 0)).sum().backward()
    first, *_ = parts = [p.grad for p in module.parameters()]
    squares = (first + parts[2].t()).square().sum()
    squares += parts[1].square().sum() + parts[3].square().sum()
    assert model.monitor()["grad_norm_max"] == pytest.approx(float(squares.sqrt()), rel=1e-12)


@pytest.mark.parametrize("change", ["tie", "untie"])
def test_a_tie_that_changes_after_wrapping_is_refused(scripted, change):
    module = tied() if change == "untie" else net()
    model = Gossip(module, EVERY, backend="scripted")
    if change == "untie":
        module[2].weight.data = module[2].weight.data.clone()
    else:
        module[2].bias.data = module[0].weight.data[0]
    with pytest.raises(UserError, match=r"'2\.\w+' was tied to another, or untied, after wrapping"):
        model(batch_of(0, 0))


class Masked(nn.Module):
    """Buffers whose elements share memory, as masks that are the same for all heads."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = net()
        self.register_buffer("mask", torch.tril(torch.ones(3, 3)).expand(2, 3, 3))
        self.register_buffer("place", torch.arange(3).view(3, 1).expand(3, 5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x)


def test_expanded_buffers_are_averaged_and_given_back(scripted):
    module = Masked()
    mask, place = module.mask.clone(), module.place.clone()
    model = Gossip(module, EVERY, backend="scripted")
    with model.average():
        assert torch.equal(module.mask, mask)
        module.mask.data[0] = 7.0
    plain(model, momentum(model.parameters()), batch_of(0, 0), 0)
    assert torch.equal(module.mask, mask)
    assert torch.equal(module.place, place)


def test_an_autocast_computes_with_the_weights_that_are_lent():
    """It keeps copies of the weights in fewer bits until its block ends."""
    module = nn.Linear(4, 1)
    weights = Weights(dict(module.named_parameters()), "module")
    own = weights.rows()
    x = torch.ones(1, 4)
    with torch.autocast("cpu", torch.bfloat16), torch.no_grad():
        before = module(x)
        weights.lend([torch.zeros_like(row) for row in own])
        assert not module(x).any()
        weights.lend(own)
        assert torch.equal(module(x), before)


def test_an_expanded_parameter_is_refused():
    module = nn.Module()
    module.a = nn.Parameter(torch.zeros(1).expand(5))
    with pytest.raises(UserError, match=r"'a' is expanded, its elements share memory: clone\(\)"):
        Gossip(module)


def test_a_plain_checkpoint_of_the_module_is_what_it_was_before_wrapping(scripted, tmp_path):
    module = nn.Sequential(nn.Linear(500, 500), nn.Linear(500, 2))
    model = Gossip(module, EVERY, backend="scripted")
    momentum(model.parameters()).step()
    save_model(model.module, tmp_path / "module.safetensors")
    save_model(model, tmp_path / "model.safetensors")
    saved = load_file(tmp_path / "module.safetensors")
    assert saved.keys() == module.state_dict().keys()
    assert {f"module.{name}" for name in saved} == load_file(tmp_path / "model.safetensors").keys()
    head = io.BytesIO()
    torch.save(model.module[1].state_dict(), head)
    assert head.tell() < 4 * 1002 + 4096


def test_keys_without_their_prefix_fit_the_plain_module(scripted):
    model = Gossip(net(), EVERY, backend="scripted")
    plain(model, momentum(model.parameters()), batch_of(0, 0), 0)
    state = model.state_dict()
    bare = net()
    bare.load_state_dict({k.removeprefix("module."): v for k, v in state.items()}, strict=True)
    assert torch.equal(flat(bare), flat(model.module))


@pytest.mark.parametrize("how", ["saved", "key", "apart"])
def test_the_step_comes_back(scripted, how):
    model = Gossip(net(), EVERY, backend="scripted")
    optimizer = momentum(model.parameters())
    for t in range(3):
        plain(model, optimizer, batch_of(t, 0), 0)
    again = Gossip(net(), EVERY, backend="scripted")
    if how == "saved":
        file = io.BytesIO()
        torch.save({"model": model.state_dict()}, file)
        file.seek(0)
        again.load_state_dict(torch.load(file, weights_only=True)["model"])
    elif how == "key":  # as state dicts had it up to 0.1
        again.load_state_dict({**model.state_dict(), "_extra_state": {"step": 3, "due": False}})
    else:
        with pytest.warns(UserWarning, match="the step stays 0, on which W depends here"):
            again.load_state_dict(dict(model.state_dict()))
        again.set_extra_state(model.get_extra_state())
    assert again.get_extra_state() == {"step": 3, "due": False}
    assert torch.equal(flat(again), flat(model))


@pytest.mark.parametrize(
    "how",
    [copy, deepcopy, pickle.dumps, lambda model: torch.save(model, io.BytesIO()), AveragedModel],
)
def test_a_copy_of_the_wrapper_is_one_sentence_that_names_the_module(scripted, how):
    model = Gossip(net(), EVERY, backend="scripted")
    with pytest.raises(UserError, match=r"not copied or pickled.*model\.module") as caught:
        how(model)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("how", [copy, deepcopy, pickle.dumps])
def test_a_copy_of_an_averager_is_one_sentence(scripted, how):
    with pytest.raises(UserError, match=r"not copied or pickled: save its state_dict\(\)"):
        how(Averager(net().parameters(), EVERY, backend="scripted"))


def test_the_module_is_copied_pickled_and_followed_by_an_average_as_before(scripted):
    module = nn.Sequential(net(), nn.BatchNorm1d(4).double())
    model = Gossip(module, EVERY, backend="scripted")
    optimizer = momentum(model.parameters())
    followed, path = AveragedModel(model.module), [flat(module)]
    for t in range(3):
        followed.update_parameters(model.module)
        path.append(flat(module))
        plain(model, optimizer, batch_of(t, 0), 0)
    torch.testing.assert_close(flat(followed.module), torch.stack(path[1:]).mean(0))
    update_bn([batch_of(0, 0)], followed)
    file = io.BytesIO()
    torch.save(model.module, file)
    file.seek(0)
    for other in (deepcopy(module), torch.load(file, weights_only=False)):
        before, mixes = flat(module), len(scripted.mixed)
        plain(other, momentum(other.parameters()), batch_of(9, 0), 0)
        assert torch.equal(flat(module), before)
        assert not torch.equal(flat(other), before)
        assert len(scripted.mixed) == mixes


def shared_backbone() -> tuple[nn.Module, nn.Module]:
    backbone = nn.Linear(4, 4)
    return nn.Sequential(backbone, nn.Linear(4, 1)), nn.Sequential(nn.ReLU(), backbone)


def shared_memory() -> tuple[nn.Module, nn.Module]:
    first, second = nn.Sequential(nn.Linear(4, 4)), nn.Sequential(nn.ReLU(), nn.Linear(4, 4))
    second[1].weight.data = first[0].weight.data.t()
    return first, second


@pytest.mark.parametrize("make", [shared_backbone, shared_memory, lambda: (nn.Linear(2, 2),) * 2])
@pytest.mark.parametrize("second", [Gossip, lambda m, *a, **k: Averager(m.parameters(), *a, **k)])
def test_what_is_averaged_already_is_named(scripted, make, second):
    one, other = make()
    model = Gossip(one, EVERY, backend="scripted")
    with pytest.raises(UserError, match=r"is averaged already, as '(0.)?weight' of ") as caught:
        second(other, EVERY, backend="scripted")
    assert "by another wrapper" in str(caught.value)
    del model, caught
    gc.collect()
    second(other, EVERY, backend="scripted")


def test_what_could_not_be_wrapped_can_be_wrapped_afterwards(scripted):
    """Also while the exception is still there, as in a notebook."""
    module = net()
    with pytest.raises(UserError, match="rign") as kept:
        Gossip(module, "rign", backend="scripted")
    Gossip(module, EVERY, backend="scripted")
    assert kept.value


def test_wrappers_of_modules_that_share_a_storage_but_no_element(scripted):
    store = torch.zeros(2, 4)
    modules = [nn.Linear(4, 1, bias=False) for _ in range(2)]
    for module, row in zip(modules, store, strict=True):
        module.weight.data = row.view(1, 4)
    wrap = partial(Gossip, topology=EVERY, backend="scripted")
    assert len({wrap(module) for module in modules}) == 2
