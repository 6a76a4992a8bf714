"""Networks with round numbers."""

from gossip.simulate.network import Network
from gossip.simulate.presets import uniform

ALPHA, BETA = 5e-6, 0.8e-9


def flat(alpha: float = ALPHA, beta: float = BETA, **link) -> Network:
    return uniform("flat", alpha, 1 / beta, **link)
