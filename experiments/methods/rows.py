"""Each run of the study is one row of a committed table."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType

import numpy as np

from experiments.common import kept, tables
from experiments.common.finished import finished
from experiments.common.scale import Scale
from experiments.methods.methods import BASELINE
from experiments.methods.plan import STUDY, LossOf, chosen, key, runs
from experiments.methods.size import PARTITIONS, Size, study
from gossip.compare import metrics
from gossip.config.reliability import Reliability
from gossip.report import Run
from gossip.simulate.coupling import Coupled, couple
from gossip.simulate.presets import network
from gossip.simulate.scenario import Machines

TABLE = "methods.csv"
NETWORKS: Mapping[str, str] = MappingProxyType(
    {"10GbE": "lan", "1GbE": "office", "home-fibre": "fibre", "4G": "mobile"}
)
"""Networks of `gossip.simulate`, and what columns of `Row` are called of them."""
ALL_REDUCES = ("ring", "halving-doubling")
"""Of an average over all, the one is taken with which the run is over sooner."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One run. Losses and errors are of the final mean model; bytes are sent by each learner."""

    key: str
    cell: str
    method: str
    trial: int
    lr: float
    seed: int
    steps: int
    verdict: str
    lost: bool
    options: str = ""
    """Of the algorithm."""
    validation_loss: float = math.nan
    test_loss: float = math.nan
    test_error: float = math.nan
    train_loss: float = math.nan
    sigma_w2: float = math.nan
    """Where the last gradients were taken."""
    megabytes: float = math.nan
    """Of the whole run, counted by the payloads."""
    reached: float = math.nan
    """Steps until the test loss was first at most the target."""
    lan: float = math.nan
    """Simulated seconds of the whole run ..."""
    office: float = math.nan
    fibre: float = math.nan
    mobile: float = math.nan
    to_lan: float = math.nan
    """... and to the target; NaN: it was not reached."""
    to_office: float = math.nan
    to_fibre: float = math.nan
    to_mobile: float = math.nan
    seconds: float = math.nan
    """Wall time on one thread, evaluation included."""
    versions: str = ""


def losses(scale: Scale) -> LossOf:
    """The validation losses of the finished runs, read from their folders or the kept rows."""
    made = {name: _validation_loss(run) for name, run in finished(scale.runs / STUDY).items()}
    rows = read(scale)
    return ({row.key: final_loss(row) for row in rows} | made).get


def losses_of(rows: Sequence[Row]) -> LossOf:
    """The validation losses of the rows, by name."""
    return {row.key: final_loss(row) for row in rows}.get


def final_loss(row: Row) -> float:
    """Validation loss of the final model, infinite if the run is lost."""
    return math.inf if row.lost else row.validation_loss


def load(scale: Scale) -> list[Row]:
    """The finished runs of the plan, with the kept rows.

    A kept row has the target of its time. The runs that are judged, whose seconds alone are shown,
    are made after all trials, so that theirs was known; rows of trials may have none.
    """
    size, loss = study(scale), losses(scale)
    wanted = runs(size, loss)
    made = finished(scale.runs / STUDY, wanted)
    rows = read(scale)
    ends = {row.key: row.test_loss for row in rows}
    ends |= {name: run.number("test_loss") for name, run in made.items()}
    targets = {cell: target(cell, ends, size, loss) for cell in PARTITIONS}
    fresh = [row_of(run, targets[name.partition("-")[0]], size) for name, run in made.items()]
    return kept.merged(fresh, rows, sorted(wanted))


def target(cell: str, ends: Mapping[str, float], size: Size, loss: LossOf) -> float:
    """The test loss that runs are to come to, by the final ones; NaN as long as it is not known."""
    best = chosen(cell, BASELINE, size, loss)
    found = None if best is None else ends.get(key(cell, BASELINE, best, size.tuning_seed))
    return math.nan if found is None else size.slack * found


def row_of(run: Run, wanted: float, size: Size) -> Row:
    """The numbers of one run, with the test loss that it is to come to."""
    cell, *method, trial, seed = run.folder.name.split("-")
    losses, steps, spread = (run.column(name) for name in ("test_loss", "step", "sigma_w2"))
    hits = np.flatnonzero((losses <= wanted) & (steps > 0))
    seconds: dict[str, float] = {}
    for name, column in NETWORKS.items():
        until = _fastest(run, name, size).seconds
        seconds |= {column: float(until[-1])}
        # A row judges the weights before its step.
        seconds |= {f"to_{column}": float(until[hits[0] - 1]) if len(hits) else math.nan}
    return Row(
        key=run.folder.name,
        cell=cell,
        method="-".join(method),
        trial=int(trial),
        lr=run.setting("lr"),
        options=" ".join(run.setting("algorithm_options") or ()),
        seed=int(seed.removeprefix("seed")),
        steps=int(run.number("steps")),
        verdict=run.verdict,
        lost=metrics.is_lost(run),
        validation_loss=_validation_loss(run),
        test_loss=run.number("test_loss"),
        test_error=run.number("test_error"),
        train_loss=run.number("train_loss"),
        sigma_w2=float(spread[np.isfinite(spread)][-1]),
        megabytes=run.number("bytes_sent_per_learner") / 1e6,
        reached=float(steps[hits[0]]) if len(hits) else math.nan,
        seconds=run.number("wall_seconds", "total"),
        versions=tables.versions(run),
        **seconds,
    )


def _fastest(run: Run, name: str, size: Size) -> Coupled:
    machines = Machines(network=network(name), seconds=size.gradient)
    found = couple(run, machines, Reliability(), seconds=size.gradient, all_reduces=ALL_REDUCES)
    return min(found, key=lambda coupled: float(coupled.seconds[-1]))


def _validation_loss(run: Run) -> float:
    """Of the final model; infinite if the run is lost."""
    found = run.number("validation_loss")
    return math.inf if metrics.is_lost(run) or math.isnan(found) else found


def write(rows: Sequence[Row], results: Path) -> None:
    """Write the table."""
    tables.write([asdict(row) for row in rows], results / TABLE)


def read(scale: Scale) -> list[Row]:
    """The rows that `write` wrote, of runs as long as the plan's; none if there is no file."""
    size = study(scale)
    return kept.of_plan(tables.typed(scale.results / TABLE, Row), lambda row: size.steps)
