"""What is known of a run without curvature, from its method and its topology."""

from gossip.algorithms import Startable
from gossip.study import Study


def flat_spread(study: Study, algorithm: Startable) -> float | None:
    """Stationary n sigma_w^2 where alpha and the noise are 1; None where there is no formula.

    There is one for some methods with plain SGD, one rate for all layers, and the same symmetric W
    at every step.
    """
    formula, rate = getattr(algorithm, "flat_spread", None), study.config.rate
    plain = rate.optimizer == "sgd" and not rate.momentum and not study.rule.per_layer
    static = study.topology.period == 1 and study.config.gossip.mix_every == 1
    if formula is None or not plain or not static:
        return None
    return formula(study.topology.matrix(0))
