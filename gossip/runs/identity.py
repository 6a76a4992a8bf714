"""Fingerprints by which two runs, or two processes, are known to run the same thing."""

import hashlib
import json
from dataclasses import replace
from functools import cache
from pathlib import Path

import gossip
import topologies
from gossip.config import Config, to_tables
from gossip.config.places import topology_file
from gossip.storage.tables import flat
from gossip.study import Study


def fingerprints(study: Study) -> dict[str, str]:
    """What must be the same on all processes of a job."""
    tables = to_tables(study.config)
    tables["data"].pop("data_dir", None)  # hosts may have it elsewhere; the data are compared
    if file := topology_file(study.config.gossip.topology):
        tables["gossip"]["topology"] = file.name
    config = _digest(json.dumps(tables, sort_keys=True).encode())
    device = study.task.numerics.device.type
    return {"config": config, **origin(study), "device": device, "code": code()}


def origin(study: Study) -> dict[str, str]:
    """What a run and its continuation must have in common beyond their configs."""
    w = [study.topology.matrix(t) for t in range(min(study.topology.period or 3, 16))]
    return {
        "topology": _digest(*(m.indices.tobytes() + m.data.tobytes() for m in w)),
        "dataset": study.dataset.sha256,
        "start": _digest(study.task.init(study.config.seed).cpu().numpy().tobytes()),
    }


@cache
def code() -> str:
    """Hash of all source files of gossip and topologies, as they were when first asked."""
    package = Path(gossip.__file__).parent
    sources = sorted([*package.rglob("*.py"), *Path(topologies.__file__).parent.rglob("*.py")])
    return _digest(*(source.read_bytes() for source in sources))


FREE = (
    "steps",
    "epochs",
    "compute.channels_last",
    "compute.compile",
    "compute.cuda_graphs",
    "compute.device",
    "data.data_dir",
    "gossip.backend",
    "monitoring.log",
    "reliability.checkpoint_every",
    "reliability.checkpoint_minutes",
    "reliability.checkpoint_keep",
    "reliability.on_failure",
    "reliability.on_nonfinite",
    "reliability.timeout",
)
"""Options that may be others when a run is taken up again."""


def differences(then: Config, now: Config) -> list[str]:
    """Options, other than those in FREE, in which two configs differ: 'rate.lr: 1.5 -> 1.0'."""
    if topology_file(then.gossip.topology) and topology_file(now.gossip.topology):
        # Wherever they are: a checkpoint knows its matrices.
        now = replace(now, gossip=replace(now.gossip, topology=then.gossip.topology))
    before, after = flat(to_tables(then)), flat(to_tables(now))
    return [
        f"{name}: {before.get(name)} -> {after.get(name)}"
        for name in sorted(before.keys() | after.keys())
        if name not in FREE and before.get(name) != after.get(name)
    ]


def _digest(*parts: bytes) -> str:
    return hashlib.sha256(b"".join(parts)).hexdigest()[:16]
