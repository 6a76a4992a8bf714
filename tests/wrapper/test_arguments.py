"""What is given to a wrapper: taken where it is clear what is meant, else refused in a sentence."""

from pathlib import Path

import networkx as nx
import numpy as np
import pytest
import torch
from scipy.sparse import csr_array
from torch import nn

import topologies
from gossip import Averager, Gossip
from gossip.errors import UserError
from gossip.wrapper.options import topology_for
from tests.wrapper.scripted import matrices

RING = topologies.build("ring", 4)
W = RING.matrix(0).toarray()


@pytest.mark.parametrize(
    ("topology", "expected"),
    [
        (W, W),
        (W.tolist(), W),
        (torch.from_numpy(W), W),
        (csr_array(W), W),
        (np.stack([W, W @ W]), W),
        ([W, np.eye(4)], W),
        (RING, W),
        (nx.cycle_graph(4), W),
        ([nx.cycle_graph(4), nx.path_graph(4)], topologies.from_graph(nx.cycle_graph(4)).matrix(0)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_topology_is_a_matrix_a_graph_or_a_list_of_them(scripted, topology, expected):
    averager = Averager(nn.Linear(2, 2).parameters(), topology, backend="scripted")
    averager.step()
    dense = expected if isinstance(expected, np.ndarray) else expected.toarray()
    np.testing.assert_allclose(matrices(scripted)[0], dense, rtol=0, atol=1e-15)


def test_a_topology_in_a_file_is_named_by_a_path_too(scripted, tmp_path):
    np.save(tmp_path / "w.npy", W)
    averager = Averager(nn.Linear(2, 2).parameters(), tmp_path / "w.npy", backend="scripted")
    averager.step()
    np.testing.assert_allclose(matrices(scripted)[0], W, rtol=0, atol=1e-15)


LAYER = nn.Linear(2, 2)


@pytest.mark.parametrize(
    "parameters",
    [
        LAYER.parameters,
        LAYER.named_parameters,
        lambda: dict(LAYER.named_parameters()),
        lambda: [{"params": LAYER.weight, "lr": 0.1}, {"params": [LAYER.bias], "lr": 0.2}],
        lambda: [{"params": LAYER.named_parameters()}],
        lambda: torch.optim.SGD(LAYER.parameters(), lr=0.1).param_groups,
        lambda: {"params": [*LAYER.parameters(), *LAYER.parameters()]},
        lambda: [LAYER.weight.detach().requires_grad_(), LAYER.bias],
    ],
)
def test_parameters_are_given_as_to_an_optimizer(scripted, parameters):
    with torch.no_grad():
        LAYER.weight.fill_(3.0)
        LAYER.bias.fill_(5.0)
    averager = Averager(parameters(), RING, backend="scripted")
    averager.step()
    own = W[0, 0]
    for tensor, before in ((LAYER.weight, 3.0), (LAYER.bias, 5.0)):
        expected = torch.full_like(tensor, own * before + (1 - own) * scripted.c)
        torch.testing.assert_close(tensor.detach(), expected)
    assert averager._exchange.weights.d == 6


def net() -> nn.Module:
    return nn.Linear(2, 2)


def named_twice() -> list[tuple[str, torch.Tensor]]:
    return [("w", parameter) for parameter in net().parameters()]


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: Gossip("resnet18"), r"Gossip\(str\): give the torch.nn.Module"),
        (lambda: Gossip(net().parameters()), r"Gossip\(generator\): give the torch.nn.Module"),
        (lambda: Gossip(None), r"Gossip\(NoneType\): give the torch.nn.Module"),
        (lambda: Gossip(net(), None), "topology=None is a NoneType: give a name"),
        (lambda: Gossip(net(), 4), "topology=4 is a int: give a name"),
        (lambda: Gossip(net(), topologies.build), "is a function: give a name"),
        (lambda: Gossip(net(), {"ring": 4}), "is a dict: give a name"),
        (lambda: Gossip(net(), []), "the list of matrices is empty"),
        (lambda: Gossip(net(), ["ring"]), "expected a matrix of numbers"),
        (lambda: Gossip(net(), W), "has 4 learners, but there are 1"),
        (lambda: Gossip(net(), W[:2]), r"is square, \[n, n\], got shape \(2, 4\)"),
        (lambda: Gossip(net(), 2 * np.eye(1)), "sum"),
        (lambda: Gossip(net(), np.array(["a"])), "expected a matrix of numbers"),
        (lambda: Gossip(net(), Path("no.npy")), "no.npy"),
        (lambda: Gossip(net(), W, topology_options={"k": 2}), "no option"),
        (lambda: Gossip(net(), "ring", topology_options=3), "topology_options=3: give a dict"),
        (lambda: Gossip(net(), "ring", weights=0.5), "weights=0.5: give the name of a rule"),
        (lambda: Gossip(net(), "matching", seed="one"), "seed='one': give a whole number"),
        (lambda: Gossip(net(), order=None), "unknown order None"),
        (lambda: Gossip(net(), order=["awc"]), r"unknown order \['awc'\]"),
        (lambda: Gossip(net(), buffers=0), "unknown buffers policy 0"),
        (lambda: Gossip(net(), mix_every=1.5), "mix_every=1.5: give 1"),
        (lambda: Gossip(net(), mix_every=True), "mix_every=True: give 1"),
        (lambda: Gossip(net(), mix_every="2"), "mix_every='2': give 1"),
        (lambda: Gossip(net(), timeout="600"), "timeout='600': give seconds"),
        (lambda: Gossip(net(), timeout=None), "timeout=None: give seconds"),
        (lambda: Gossip(net(), timeout=float("nan")), "timeout=nan: give seconds"),
        (lambda: Gossip(net(), backend=None), "backend=None: give a name"),
        (lambda: Averager(net()), "an Averager of a Linear: give a list or generator"),
        (lambda: Averager(net().weight), "an Averager of a Parameter: give a list"),
        (lambda: Averager("weights"), "an Averager of a str: give a list"),
        (lambda: Averager(None), "an Averager of a NoneType: give a list"),
        (lambda: Averager(["weight"]), "an Averager of a str among its parameters"),
        (lambda: Averager([np.zeros(2)]), "an Averager of a ndarray among its parameters"),
        (lambda: Averager([[net().weight]]), "an Averager of a list among its parameters"),
        (lambda: Averager([{"lr": 0.1}]), "an Averager of a dict among its parameters"),
        (lambda: Averager([2 * net().weight]), "'number 0' is computed from others"),
        (lambda: Averager(named_twice()), "two parameters have the name 'w'"),
        (
            lambda: Averager([torch.eye(2).to_sparse().requires_grad_()]),
            "'number 0' is sparse_coo: make it to_dense",
        ),
    ],
)
def test_what_has_the_wrong_type_is_one_sentence(make, text):
    with pytest.raises(UserError, match=text) as caught:
        make()
    assert "\n" not in str(caught.value)


def test_a_directed_graph_that_keeps_no_mean_is_for_other_methods():
    with pytest.raises(UserError, match="keeps no mean"):
        topology_for("random-directed", 5, None, None, 0)
