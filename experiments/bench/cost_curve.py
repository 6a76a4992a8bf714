"""Time and memory of a step grow with the number of learners that are stacked in one process.

Each n is measured by a process of its own, since the largest resident memory never falls.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

import torch

from experiments.bench.measure import Meeting, Work, interleaved
from experiments.bench.rows import NAN, Case, Row, rows_of
from experiments.bench.size import SIZES, Size
from experiments.bench.workload import Bench, study_of
from experiments.common.figures import new_figure, save
from gossip.comm.stacked import Stacked
from gossip.config import Model

BATCH = 8
MODELS = {
    "softmax": Model(model="softmax"),
    "mlp 784-16-10": Model(widths=(16,)),
}
BASE = "fewest learners, per learner"
STATUS = Path("/proc/self/status")


def rows(size: Size, meeting: Meeting) -> Iterator[list[Row]]:
    """A case for each model, a row for each n; `ratio` compares the time per learner."""
    for model in size.curve_models:
        found: list[Row] = []
        for n in size.curve:
            meeting.say(f"cost_curve: {model}, n={n}")
            row = _measured_apart(model, n, size.name)
            base = (found or [row])[0]
            ratio = (row.wall_ms / row.learners) / (base.wall_ms / base.learners)
            found.append(replace(row, ratio=ratio))
        yield found


def draw(found: list[Row], path: Path) -> None:
    """Time per step and memory over n, a line per model."""
    with new_figure(8, 3.2) as figure:
        time, memory = figure.subplots(1, 2)
        for case in dict.fromkeys(row.case for row in found):
            line = [row for row in found if row.case == case]
            n = [row.learners for row in line]
            time.loglog(n, [row.wall_ms for row in line], "o-", label=case)
            memory.loglog(n, [row.peak_mib for row in line], "o-", label=case)
        time.set(xlabel="learners n in one process", ylabel="step [ms]")
        memory.set(xlabel="learners n in one process", ylabel="peak resident memory [MiB]")
        time.legend()
        save(figure, path)


def measured(model: str, n: int, size: Size) -> Row:
    """One point, in this process."""
    bench = Bench(study_of(n, BATCH, dataset="few", model=MODELS[model]), Stacked(n))
    case = Case(
        table="cost_curve",
        case=f"{model}, B={BATCH}, ring",
        learners=n,
        d=bench.study.task.d,
        batch=BATCH,
    )
    times = interleaved({f"n={n}": Work(bench.step)}, size.rounds, Meeting(), size.block_ms())
    (row,) = rows_of(case, times, f"n={n}")
    return replace(row, base=BASE, peak_mib=peak_mib())


def peak_mib() -> float:
    """Largest resident memory of this process so far; NaN where the system is not Linux.

    Not getrusage's: that begins with what the process was forked from.
    """
    if not STATUS.exists():
        return NAN
    (line,) = (line for line in STATUS.read_text().splitlines() if line.startswith("VmHWM:"))
    return float(line.split()[1]) / 1024


def _measured_apart(model: str, n: int, size: str) -> Row:
    command = [sys.executable, "-m", __name__, model, str(n), size]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return Row(**json.loads(done.stdout))


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(json.dumps(asdict(measured(sys.argv[1], int(sys.argv[2]), SIZES[sys.argv[3]]))))
