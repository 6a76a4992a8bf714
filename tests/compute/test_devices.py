"""The whole harness on a device that is not the CPU's memory, as far as that shows without one."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from gossip.checkpoint import newest, read
from gossip.comm.stacked import Stacked
from gossip.comm.startup.launchers import Launched
from gossip.config import Averaging, Config, Data, Model, Monitoring, Rate, compute
from gossip.config.reliability import Reliability
from gossip.data import device as data_device
from gossip.data import load, on_device, splits
from gossip.errors import UserError
from gossip.runs.dispatch import loop
from gossip.runs.identity import origin
from gossip.study import prepare
from gossip.task import cuda_graphs, device
from tests.compute.elsewhere import ELSEWHERE, Elsewhere, is_elsewhere, replayed
from tests.resume.walks import Saved, timeless

CASES = {
    "dpsgd": {"rate": Rate(lr=0.1, momentum=0.9)},
    "ssgd": {"rate": Rate(lr=0.1, scaling="adascale", warmup="fixed")},
    "dpsgd-atc": {"gossip": Averaging(learners=4, order="atc", mix_every=2)},
    "ssgd-star": {"gossip": Averaging(learners=4, noise_mode="persist")},
    "ad-psgd": {"rate": Rate(lr=0.1, optimizer="adam")},
    "dpsgd-lena": {"rate": Rate(lr=0.1, scaling="lena", warmup="state-aware", optimizer="lars")},
    "dpsgd-ratio": {"rate": Rate(lr=0.01, layer_ratio="quantile", optimizer="adamw")},
    "ssgd-batch-norm": {"model": Model(model="tests.problems:batch_norm_net", dtype="float64")},
    "dpsgd-batch-norm": {
        "model": Model(model="tests.problems:batch_norm_net", batch_norm="average", dtype="float64")
    },
    "dpsgd-probe": {
        "monitoring": Monitoring(
            monitor="full",
            monitor_every=3,
            monitor_source="probe",
            probe=50,
            hessian_samples=20,
            lipschitz_samples=20,
        )
    },
    "ssgd-skip": {"reliability": Reliability(on_nonfinite="skip")},
    "dpsgd-skip": {"reliability": Reliability(on_nonfinite="skip"), "rate": Rate(lr=1e200)},
    "dpsgd-validation": {
        "data": Data(dataset="digits", batch_size=8, validation=100, inputs="standardised")
    },
}


def config(case: str) -> Config:
    name = next(name for name in ("ssgd-star", "ad-psgd", "ssgd", "dpsgd") if case.startswith(name))
    common = Config(
        algorithm=(name,),
        steps=7,
        gossip=Averaging(learners=4),
        data=Data(dataset="digits", batch_size=8),
        model=Model(widths=(6,), dtype="float64"),
        rate=Rate(lr=0.1),
        monitoring=Monitoring(monitor_every=3, monitor_source="split-half", probe=40),
    )
    return replace(common, **CASES[case])


def walked(chosen: Config, folder=None, start=None):
    study, rows = prepare(chosen, Stacked(4)), []
    origin(study)
    keep = Saved(folder, study.comm, [4]) if folder else None
    outcome = loop(study, chosen.algorithm[0])(record=rows.extend, start=start, keep=keep)
    if keep:
        keep.writer.close()
    return outcome, rows


def first_checkpoint(folder):
    return read(newest(folder)[-1], range(4))


@pytest.mark.parametrize("case", CASES)
def test_every_part_keeps_to_the_device(case, tmp_path, monkeypatch):
    """Losses, weights and checkpoints are those of the CPU; no operation is on two devices."""
    expected, expected_rows = walked(config(case))
    monkeypatch.setattr(compute, "place", lambda name: ELSEWHERE)
    monkeypatch.setattr(cuda_graphs, "capture", replayed)
    with Elsewhere():
        outcome, rows = walked(config(case), tmp_path)
        again, tail = walked(config(case), start=first_checkpoint(tmp_path))
        assert is_elsewhere(outcome.state.x)
        assert is_elsewhere(again.state.x)
        assert torch.equal(again.state.x, outcome.state.x)
    torch.testing.assert_close(outcome.state.x, expected.state.x, rtol=1e-9, atol=1e-12)
    assert str(timeless(tail)) == str(timeless(rows)[len(rows) - len(tail) :])
    for row, other in zip(timeless(rows), timeless(expected_rows), strict=True):
        assert row.keys() == other.keys()
        np.testing.assert_allclose(list(row.values()), list(other.values()), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(
    "mistake",
    [
        lambda there: there + torch.zeros(3),
        lambda there: torch.zeros(3).add_(there),
        lambda there: torch.cat([there, torch.zeros(3)]),
        lambda there: torch.tensor(0.0).add_(there.sum()),
        lambda there: there.numpy(),
        lambda there: np.asarray(there),
    ],
    ids=["add", "add_", "cat", "number", "numpy", "array"],
)
def test_the_device_that_is_not_there_complains(mistake):
    with Elsewhere(), pytest.raises((RuntimeError, TypeError), match=r"two devices|numpy"):
        mistake(torch.zeros(3, device=ELSEWHERE))


@pytest.mark.parametrize("limit", [0, 2**30], ids=["streamed", "resident"])
@pytest.mark.parametrize("validation", [0, 100])
def test_batches_are_the_same_on_every_device(limit, validation, monkeypatch):
    monkeypatch.setattr(data_device, "RESIDENT_BYTES", limit)
    indices = np.random.default_rng(0).integers(0, 90, (4, 5))
    for split in splits(load("digits"), "standardised", validation=validation):
        if split is None:
            continue
        with Elsewhere():
            moved = on_device(split, ELSEWHERE)
            batch = moved.batch(indices)
            assert all(is_elsewhere(tensor) for tensor in batch)
        assert len(moved) == len(split)
        for there, here in zip(batch, split.batch(indices), strict=True):
            assert torch.equal(there, here)


def test_gpus_are_dealt_to_the_processes_of_a_host(monkeypatch):
    chosen = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "set_device", chosen.append)
    for rank, local, expected in ((0, 0, 0), (5, 1, 1), (6, 2, 0), (3, None, 1)):
        monkeypatch.setattr(device, "launched", lambda r=rank, k=local: Launched(r, 8, 4, k))
        assert device.place("auto") == torch.device("cuda", expected) == chosen[-1]
    monkeypatch.setattr(device, "launched", lambda: None)
    assert device.place("cuda") == torch.device("cuda", 0)
    assert device.place("cpu") == torch.device("cpu")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_a_gpu_that_is_not_there_is_one_sentence():
    assert device.place("auto") == torch.device("cpu")
    with pytest.raises(UserError, match=r"device=cuda: torch .* (without CUDA|sees 0 GPUs)"):
        device.place("cuda")
