"""Golden traces: a change that is not meant to change numbers must not.

python -m tests.test_golden [NAME...]    writes them anew, after a change that is meant to
"""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from gossip.algorithms import ALGORITHMS
from gossip.comm.stacked import Stacked
from gossip.config import Averaging, Config, Data, Model, Monitoring, Rate
from gossip.study import algorithm, prepare
from gossip.train import train
from tests.fits import fitted, properties, topologies_of

FOLDER = Path(__file__).parent / "golden"
STEPS = {"demo": 2}
"""Of 20. DeMo sends signs, also of what is zero but for rounding: from then on all is a matter of
the order of sums (MKL_CBWR=COMPATIBLE showed it)."""
COLUMNS = ("train_loss", "test_error", "alpha_e", "sigma_w2", "sigma_w2_mixed", "delta", "delta2")


def trace(name: str) -> dict[str, list[float]]:
    """20 steps or fewer on the real digits, 5 learners on a ring or directed graph, float64."""
    topology = topologies_of(name)[0] if properties(name).columns == "any" else "ring"
    base = Config(
        steps=STEPS.get(name, 20),
        gossip=Averaging(learners=5, noise_std=0.05, topology=topology),
        data=Data(dataset="digits", batch_size=20),
        model=Model(widths=(16,), dtype="float64"),
        rate=Rate(lr=0.5, momentum=0.5, weight_decay=1e-3, decay="cosine"),
        monitoring=Monitoring(monitor="full", monitor_every=5),
    )
    config = fitted(name, base)
    study = prepare(config, Stacked(5))
    rows: list[dict[str, float]] = []
    train(study, algorithm(name, study), record=rows.extend)
    return {column: [row[column] for row in rows if column in row] for column in COLUMNS}


@pytest.mark.parametrize("name", ALGORITHMS)
def test_the_trace_is_the_golden_one(name):
    golden = json.loads((FOLDER / f"{name}.json").read_text())
    for column, values in trace(name).items():
        np.testing.assert_allclose(values, golden[column], rtol=1e-8, atol=1e-14, err_msg=column)


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name in sys.argv[1:] or ALGORITHMS:
        (FOLDER / f"{name}.json").write_text(json.dumps(trace(name), indent=1) + "\n")
