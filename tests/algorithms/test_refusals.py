"""What a method cannot do is refused in one sentence, from its properties."""

import re
from dataclasses import replace

import pytest

from gossip.comm.stacked import Stacked
from gossip.config import Averaging, BatchGrowth, Config, Data, Model, Rate
from gossip.config.compute import Compute
from gossip.config.reliability import Reliability
from gossip.errors import UserError
from gossip.study import algorithm, prepare

BASE = Config(
    steps=2,
    gossip=Averaging(learners=8),
    data=Data(dataset="digits", batch_size=10),
    model=Model(model="softmax"),
    rate=Rate(lr=0.1),
)


def prepared(name, *, gossip=None, **sections):
    averaging = replace(BASE.gossip, **(gossip or {}))
    chosen = replace(BASE, algorithm=(name,), gossip=averaging, **sections)
    return algorithm(name, prepare(chosen, Stacked(8)))


REFUSED = [
    ("d2", {"gossip": {"topology": "exponential"}}, "symmetric W"),
    ("d2", {"gossip": {"topology": "matching"}}, "the same W at every step"),
    ("d2", {"gossip": {"mix_every": 2}}, "mix_every above 1"),
    ("d2", {"gossip": {"algorithm_options": ("lazy=off",)}}, "least eigenvalue of W is at most"),
    ("d2", {"gossip": {"wire": "bf16"}}, "--wire full"),
    ("gt-awc", {"gossip": {"topology": "pull"}}, "doubly stochastic"),
    ("gt-awc", {"reliability": Reliability(on_nonfinite="skip")}, "leave one out"),
    ("gt-awc", {"compute": Compute(amp="fp16")}, "--amp fp16"),
    ("relaysgd", {"gossip": {"topology": "ring"}}, "needs a tree"),
    ("qg-dsgdm", {"rate": Rate(lr=0.1, momentum=0.9)}, "momentum of its own"),
    ("edm", {"rate": Rate(lr=0.1, optimizer="adam")}, "momentum of its own"),
    ("decentlam", {"rate": Rate(lr=0.1, layer_ratio="fixed")}, "one for all layers"),
    ("decentlam", {"rate": Rate(lr=0.1, scaling="lena")}, "one for all layers"),
    ("decentlam", {"rate": Rate(lr=0.1, warmup="state-aware")}, "--warmup state-aware"),
    ("qg-dsgdm", {"rate": Rate(lr=0.1, warmup="state-aware")}, "--warmup state-aware"),
    ("slowmo", {"rate": Rate(lr=0.1, warmup="state-aware")}, "--warmup state-aware"),
    ("ef21", {"rate": Rate(lr=0.1, scaling="adascale")}, "estimate of the mean gradient"),
    ("powersgd", {"rate": Rate(lr=0.1, scaling="lena")}, "estimate of the mean gradient"),
    ("ef21", {"rate": Rate(lr=0.1, warmup="state-aware")}, "estimate of the mean gradient"),
    ("powersgd", {"damping": BatchGrowth(damping="noise-scale")}, "estimate of the mean gradient"),
    ("ef21", {"damping": BatchGrowth(damping="radadamp")}, "estimate of the mean gradient"),
    ("dpsgd", {"gossip": {"topology": "random-directed"}}, "cannot keep the mean"),
    ("choco-awc", {"gossip": {"topology": "matching"}}, "the same W at every step"),
    ("gasloc", {"gossip": {"topology": "matching"}}, "the same W at every step"),
    (
        "gasloc",
        {
            "gossip": {
                "topology": "one-peer-exponential",
                "algorithm_options": ("mu=0", "every=6"),
            }
        },
        "only 1 would ever be used",
    ),
    (
        "mixed-state",
        {
            "gossip": {"topology": "star", "weights": "best-constant"},
            "rate": Rate(lr=0.1, optimizer="adam"),
        },
        "negative weights of topology star",
    ),
    (
        "gasloc",
        {"gossip": {"mix_every": 2, "algorithm_options": ("mu=0", "every=5")}},
        "with --mix-every 2 would only every 10",
    ),
    ("sparseloco", {"gossip": {"wire": "bf16"}}, "--wire full"),
    ("ssgd-injected", {"reliability": Reliability(on_nonfinite="skip")}, "leave one out"),
    ("ssgd-injected", {"gossip": {"wire": "bf16"}}, "--wire full"),
]


@pytest.mark.parametrize(("name", "changes", "said"), REFUSED)
def test_it_is_refused_with_the_way_out(name, changes, said):
    with pytest.raises(UserError) as caught:
        prepared(name, **changes)
    text = str(caught.value)
    assert text.startswith(f"algorithm {name} ")
    assert said in text
    assert "; " in text, "and what to do"
    assert "\n" not in text


FITS = [
    ("d2", {"gossip": {"topology": "ring"}}),
    ("d2", {"gossip": {"algorithm_options": ("lazy=off",), "weights": "lazy"}}),
    ("d2", {"gossip": {"algorithm_options": ("lazy=off",), "mixing_weight": 0.9}}),
    ("gt-semi-atc", {"gossip": {"topology": "matching", "mix_every": 2}}),
    ("gt-semi-atc", {"compute": Compute(amp="bf16"), "rate": Rate(lr=0.1, optimizer="adam")}),
    ("sgp", {"gossip": {"topology": "random-directed"}}),
    ("sgp", {"gossip": {"topology": "pull"}}),
    ("ssgd-injected", {"gossip": {"topology": "random-directed"}}),
    ("gasloc", {"gossip": {"topology": "matching", "algorithm_options": ("mu=0",)}}),
    (
        "gasloc",
        {
            "gossip": {
                "topology": "one-peer-exponential",
                "algorithm_options": ("mu=0", "every=5"),
            }
        },
    ),
    ("gasloc", {"gossip": {"mix_every": 2, "algorithm_options": ("mu=0", "every=1")}}),
    ("noloco", {"gossip": {"topology": "random-directed"}}),
    ("relaysgd", {"gossip": {"topology": "binary-tree"}}),
    ("dpsgd", {"gossip": {"topology": "matcha"}}),
    ("demo", {"rate": Rate(lr=0.1, scaling="adascale")}),
    ("mixed-state", {"gossip": {"topology": "star", "weights": "best-constant"}}),
    (
        "mixed-state",
        {"gossip": {"topology": "matching"}, "rate": Rate(lr=0.1, optimizer="adam")},
    ),
    ("ef21", {"rate": Rate(lr=0.1, scaling="linear"), "damping": BatchGrowth(damping="adadamp")}),
    ("powersgd", {"rate": Rate(lr=0.1, layer_ratio="fixed")}),
    ("qg-dsgdm", {"rate": Rate(lr=0.1, warmup="fixed", scaling="adascale")}),
    ("edm", {"rate": Rate(lr=0.1, warmup="state-aware", scaling="lena")}),
]


@pytest.mark.parametrize(("name", "changes"), FITS)
def test_what_fits_is_not_refused(name, changes):
    prepared(name, **changes)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("beat=0.9",), "did you mean beta?"),
        (("beta=much",), "beta must be a number"),
        (("beta=1.5",), "it is a decay, in [0, 1)"),
        (("direction=up",), "option direction"),
        (("beta",), "write it as key=value"),
        (("lazy=on",), "has no option"),
    ],
)
def test_options_are_checked(given, said):
    with pytest.raises(UserError, match=re.escape(said)):
        prepared("qg-dsgdm", gossip={"algorithm_options": given})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("compressor=topk",), "did you mean top-k?"),
        (("compressor=top-k:100000",), "a model that has 650"),
        (("gamma=0",), "share, in (0, 1]"),
    ],
)
def test_compressors_are_checked(given, said):
    with pytest.raises(UserError, match=re.escape(said)):
        prepared("choco-atc", gossip={"algorithm_options": given})


def test_each_of_several_takes_its_own_options():
    averaging = replace(BASE.gossip, algorithm_options=("beta=0.5", "lazy=off"))
    Config(algorithm=("edm", "qg-dsgdm"), gossip=averaging)
    with pytest.raises(UserError, match="has no option"):
        Config(algorithm=("dpsgd", "qg-dsgdm"), gossip=averaging)


@pytest.mark.parametrize("weight", [0, -0.5, 1.5, float("nan")])
def test_a_mixing_weight_is_a_share(weight):
    with pytest.raises(UserError, match="share of W"):
        Averaging(mixing_weight=weight)
