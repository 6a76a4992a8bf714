"""What a model does in a trial is found out once, and anew where anything could change it."""

import pytest
import torch
from torch import nn

from gossip.models.dense import mlp
from gossip.task.loss import cross_entropy
from gossip.task.trial import NEEDED
from tests import tried


class Own(nn.Linear):
    """Of a test."""


def built(activation: str = "relu") -> nn.Module:
    torch.manual_seed(0)
    return mlp((3,), 2, widths=(4,), activation=activation)


@pytest.fixture
def trials(monkeypatch):
    """What is tried from now on."""
    seen: list[nn.Module] = []

    def conduct(model, *rest):
        seen.append(model)
        return len(seen)

    monkeypatch.setattr(tried, "conduct", conduct)
    monkeypatch.setattr(tried, "_found", {})
    return seen


def conduct_once(model, shift=0.0, loss=cross_entropy):
    inputs = torch.arange(3.0 * NEEDED).view(-1, 3) + shift
    return tried.conduct_once(model, inputs, torch.arange(NEEDED) % 2, loss, 2)


def test_the_same_model_is_tried_once(trials):
    assert conduct_once(built()) == conduct_once(built()) == 1
    assert len(trials) == 1


def test_another_is_tried_too(trials):
    others = [built("tanh"), built().double(), built().requires_grad_(False), built()]
    with torch.no_grad():
        others[-1][1].weight[0, 0] += 1
    for model in (built(), *others):
        conduct_once(model)
    conduct_once(built(), shift=1.0)
    conduct_once(built(), loss=lambda logits, labels: logits.sum())
    assert len(trials) == len(others) + 3


def hooked() -> nn.Module:
    model = built()
    model[0].register_forward_hook(lambda *_: None)
    return model


def overridden() -> nn.Module:
    model = built()
    model.forward = lambda inputs: inputs
    return model


@pytest.mark.parametrize("make", [hooked, overridden, lambda: nn.Sequential(Own(3, 2))])
def test_what_a_test_brings_along_is_tried_each_time(trials, make):
    conduct_once(make())
    conduct_once(make())
    assert len(trials) == 2
