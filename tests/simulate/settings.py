"""Settings of a few words."""

import numpy as np

import topologies
from gossip import stragglers
from gossip.algorithms import AdPsgd, Dpsgd, DpsgdAtc, Ssgd
from gossip.simulate.compute import ComputeTimes
from gossip.simulate.presets import network
from gossip.simulate.setting import Setting

PATTERNS = {
    "ssgd": Ssgd.pattern,
    "awc": Dpsgd.pattern,
    "atc": DpsgdAtc.pattern,
    "ad-psgd": AdPsgd.pattern,
}
SYNCHRONOUS = [name for name in PATTERNS if name != "ad-psgd"]
EXPONENTIAL = ("shifted-exponential", "c=1", "rate=2")


def setting(algorithm, n, topology="ring", straggler=("none",), **more):
    """C = 1 s x the straggler's factor and no network, unless said otherwise."""
    name, *options = straggler
    made = topologies.build(topology, n)
    chosen = {
        "pattern": PATTERNS[algorithm],
        "mixing": made.matrix,
        "network": network("ideal"),
        "compute": ComputeTimes(n, 1.0, stragglers.make(name, options, n=n, seed=0)),
        "row_bytes": 1e8,
    }
    return Setting(**{**chosen, **more})


class Given:
    """A straggler model: factors [steps, n], repeated."""

    def __init__(self, factors):
        self.factors = np.asarray(factors, float)

    def row(self, t):
        return self.factors[t % len(self.factors)]

    def factor(self, learner, t):
        return float(self.row(t)[learner])
