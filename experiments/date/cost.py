"""Duration of the DATE study's runs, estimated from the throughput measured on one core."""

import math

from experiments.date import lipschitz, plan
from experiments.date.plan import LIPSCHITZ, PARTS
from experiments.date.size import Study
from gossip.config import Config
from gossip.data import DATASETS

TRAINED = {"lenet": 8_500, "lstm": 3_500, "seq2seq": 4_000, "word-lstm": 1_200}
"""Samples per second of a gradient, by model, with the other core busy."""
JUDGED = {"lenet": 20_000, "lstm": 15_000, "seq2seq": 15_000, "word-lstm": 4_000}
"""Samples per second of an evaluation, by model."""
PROBED = 2_200
"""Samples per second of L(x, g): a gradient and a Hessian-vector product."""
STARTED = 5.0
"""Seconds before the first step, first touch of the memory included."""


def seconds(config: Config) -> float:
    """Seconds that one run takes."""
    model, monitoring = config.model.model, config.monitoring
    data = DATASETS[config.data.dataset]
    drawn = (config.epochs or 0.0) * (data.num_train - config.data.validation)
    points = 1 + math.ceil(drawn / config.data.batch_size / monitoring.monitor_every)
    judged = (points + 1) * (data.num_test + config.data.validation) + data.num_train
    probed = points * monitoring.lipschitz_samples / PROBED
    return STARTED + drawn / TRAINED[model] + judged / JUDGED[model] + probed


def hours(part: str, size: Study) -> tuple[int, float]:
    """Runs and core hours of a part, if none is there yet and no grid grows."""
    if part == LIPSCHITZ:
        made = lipschitz.runs(size)
    else:
        made = {}
        for cell in PARTS[part]:
            # Errors that are least in the middle of the grid.
            middle = plan.grid(cell, size).rates[1]
            best = plan.key(cell.tuned_at, middle, size.tuning_seed, size)
            made |= plan.runs(cell, size, lambda key, best=best: float(key != best))
    return len(made), sum(map(seconds, made.values())) / 3600
