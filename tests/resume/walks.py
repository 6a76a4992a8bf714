"""Short runs on the real digits that are saved on the way and taken up again."""

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch

from gossip.checkpoint import Snapshot, Writer, newest, read
from gossip.comm.base import Communicator
from gossip.config import Averaging, Config, Data, Model, Monitoring, Rate
from gossip.loop.outcome import Outcome, TraceRows
from gossip.study import algorithm, prepare
from gossip.train import train
from tests.rates import cases

STEPS = 14

RULES = {
    "constant": {},
    **cases.RULES,
    "quantile": {"layer_ratio": "quantile", "decay": "cosine"},
}
OPTIMIZERS = {"momentum": {"momentum": 0.9}, "adam": {"optimizer": "adam", "lr": 0.01}}
WALKS = {
    "dpsgd": {"topology": "matching"},
    "dpsgd-atc": {"topology": "one-peer-exponential", "order": "atc"},
    "dpsgd-h3": {"topology": "pull", "mix_every": 3},
    "ssgd": {},
    "ssgd-star": {"noise_mode": "eval"},
    "ssgd-star-persist": {"noise_mode": "persist"},
}
LATE = {
    "streaming-diloco": ("every=4", "fragments=2", "delay=1"),
    "diloco-eager": ("every=4",),
}
"""Methods that have an average under way between steps, of which some are a round's last."""


def late(name: str, learners: int = 4, **more) -> Config:
    """A run of one of `LATE`."""
    gossip = Averaging(learners=learners, algorithm_options=LATE[name])
    return config("dpsgd", algorithm=(name,), gossip=gossip, **more)


def config(walk: str, rule: str = "constant", optimizer: str = "momentum", **more) -> Config:
    """A run of 14 steps, monitored every 5th, so that most checkpoints fall between two rows."""
    name = "ssgd-star" if walk.startswith("ssgd-star") else walk.split("-")[0]
    rate = {"lr": 0.05, **RULES[rule], **OPTIMIZERS[optimizer]}
    return replace(
        Config(
            algorithm=(name,),
            steps=STEPS,
            gossip=Averaging(learners=4, **WALKS[walk]),
            data=Data(dataset="digits", batch_size=10),
            model=Model(widths=(8,)),
            rate=Rate(**rate),
            monitoring=Monitoring(monitor_every=5),
        ),
        **more,
    )


@dataclass
class Saved:
    """Keeps a checkpoint after each of some steps, on disk."""

    folder: Path
    comm: Communicator
    at: Collection[int]
    writer: Writer = field(init=False)

    def __post_init__(self) -> None:
        self.writer = Writer(self.folder, self.comm, keep=99, say=lambda text: None)

    def overdue(self) -> bool:
        return False

    def due(self, step: int) -> bool:
        return step in self.at

    def save(self, snapshot: Snapshot) -> None:
        self.writer.save(snapshot)


def walk(
    chosen: Config,
    comm: Communicator,
    folder: Path | None = None,
    at: Collection[int] = (),
    start: Snapshot | None = None,
) -> tuple[Outcome, TraceRows]:
    """Train; with `folder`, a checkpoint is left after each step in `at`, and the last."""
    study = prepare(chosen, comm)
    rows: TraceRows = []
    keep = Saved(folder, comm, at) if folder else None
    chosen_algorithm = algorithm(chosen.algorithm[0], study)
    outcome = train(study, chosen_algorithm, record=rows.extend, start=start, keep=keep)
    if keep:
        keep.writer.close()
    return outcome, rows


def start_of(folder: Path, step: int, hosted: range) -> Snapshot:
    """The checkpoint after so many steps."""
    (path,) = (path for path in newest(folder) if int(path.name.rpartition("-")[2]) == step)
    return read(path, hosted)


def timeless(rows: TraceRows) -> TraceRows:
    """Without what no two runs have in common."""
    return [{name: v for name, v in row.items() if name != "seconds"} for row in rows]


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.dtype == b.dtype and torch.equal(a, b)
