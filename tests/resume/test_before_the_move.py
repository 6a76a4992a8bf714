"""A run folder of the version before the modules were moved (6efe267) is read and gone on with.

`before_the_move` is what a run of six steps had left when it was killed after the last one, with a
checkpoint of step 3: --dataset digits --batch-size 10 --learners 4 --widths 4 --lr 0.1
--momentum 0.9 --dtype float64 --algorithm dpsgd --monitor cheap --monitor-every 2.
"""

import shutil
from pathlib import Path

import numpy as np
import pytest

from gossip import trace
from gossip.report.runs import load_runs
from gossip.run import main

FOLDER = Path(__file__).with_name("before_the_move")


@pytest.mark.usefixtures("no_pictures")
def test_it_goes_on_to_what_that_version_came_to(tmp_path):
    out = shutil.copytree(FOLDER, tmp_path / "run")
    (run,) = load_runs([out])
    assert run.trace.num_rows == 7
    assert main(["--resume", str(out)]) == 0
    before, rows = trace.load(FOLDER), trace.load(out)
    assert rows["step"].to_pylist() == list(range(7))
    names = set(before.column_names) - {"seconds"}
    assert {"train_loss", "alpha_e", "sigma_w2"} < names <= set(rows.column_names)
    for name in names:
        np.testing.assert_allclose(
            trace.column(rows, name),
            trace.column(before, name),
            rtol=1e-7 if name == "lr" else 1e-9,  # it wrote alpha through float32
            atol=1e-12,
            err_msg=name,
        )
