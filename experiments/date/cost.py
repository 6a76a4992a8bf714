"""Duration of the DATE study's runs, estimated from the throughput measured on one core."""

import math

from experiments.date.plan import runs
from experiments.date.size import Study
from gossip.config import Config

TRAINED = {"lenet": 11_500, "lstm": 4_300}
"""Samples per second of a gradient, by model."""
JUDGED = {"lenet": 20_000, "lstm": 15_000}
"""Samples per second of an evaluation, by model."""
PROBED = 2_200
"""Samples per second of L(x, g): a gradient and a Hessian-vector product."""
STARTED = 5.0
"""Seconds before the first step, first touch of the memory included."""
TEST = 10_000


def seconds(config: Config, size: Study) -> float:
    """Seconds that one run takes."""
    model, monitoring = config.model.model, config.monitoring
    drawn = (config.epochs or 0.0) * size.samples
    points = 1 + math.ceil(drawn / config.data.batch_size / monitoring.monitor_every)
    judged = (points + 1) * (TEST + config.data.validation) + size.samples
    probed = points * monitoring.lipschitz_samples / PROBED
    return STARTED + drawn / TRAINED[model] + judged / JUDGED[model] + probed


def minutes(part: str, size: Study) -> float:
    """Core minutes of a part, if none of its runs is there yet and none ends early."""
    configs = runs(part, size, lambda key: 0.0).values()
    return sum(seconds(config, size) for config in configs) / 60
