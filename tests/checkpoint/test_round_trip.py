"""What is saved comes back to the bit, whatever number of processes writes and reads."""

import tempfile
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from safetensors.torch import load_file

from gossip.checkpoint import Snapshot, facts, newest, read, verify
from gossip.checkpoint.files import DTYPES
from gossip.comm.stacked import Stacked
from gossip.errors import UserError
from tests.checkpoint.jobs import Job, bits, part, saved, snapshot, whole


@pytest.mark.parametrize("processes", [1, 2, 4])
@pytest.mark.parametrize("readers", [1, 2, 4])
def test_any_number_of_processes_reads_what_any_number_wrote(processes, readers, tmp_path):
    (path,) = saved(tmp_path / "checkpoint", 7, processes=processes)
    verify(path)
    for comm in Job(tmp_path / "other", readers).comms:
        assert bits(read(path, comm.hosted)) == bits(part(snapshot(7), comm.hosted))


def test_rows_across_blocks(tmp_path):
    (path,) = saved(tmp_path, 7, processes=4)
    for hosted in (range(1, 3), range(3, 4), range(3)):
        assert bits(read(path, hosted)) == bits(part(snapshot(7), hosted))


def test_the_stacked_communicator_is_one_process(tmp_path):
    job = Job(tmp_path)
    job.writers[0]._comm = Stacked(4)
    job.save(snapshot(1))
    assert bits(whole(newest(tmp_path)[0])) == bits(snapshot(1))


def test_one_shared_row_for_all(tmp_path):
    """The synchronous algorithms keep no rows at all."""
    job, state = Job(tmp_path, 4), snapshot(3)
    job.save(Snapshot(step=3, rows={}, shared=state.shared, facts={}))
    (path,) = newest(tmp_path)
    verify(path)
    found = read(path, range(2, 4))
    assert found.rows == {}
    assert bits(found)[1] == [entry for entry in bits(state)[1] if entry[0] == "shared"]


def test_the_files_are_what_the_format_says(tmp_path):
    """The package itself reads them, all at once."""
    (path,) = saved(tmp_path, 7, processes=2)
    state = snapshot(7)
    first, second = (load_file(path / f"block-0000{process}.safetensors") for process in (0, 1))
    for name, rows in state.rows.items():
        assert torch.equal(torch.cat([first[name], second[name]]), rows)
    assert load_file(path / "shared.safetensors").keys() == state.shared.keys()


def test_every_dtype_comes_back(tmp_path):
    raw = torch.arange(64, dtype=torch.uint8).remainder(2)
    rows = {str(dtype): raw.view(dtype).reshape(4, -1) for dtype in DTYPES}
    state = Snapshot(step=0, rows=rows, shared=rows, facts={})
    Job(tmp_path, 2).save(state)
    assert bits(whole(newest(tmp_path)[0])) == bits(state)


def test_views_come_back_as_what_they_show(tmp_path):
    base = torch.randn(6, 4)
    rows = {"turned": base.T, "one": base[0].expand(3, 4).T, "every": torch.randn(8, 3)[::2]}
    rows["graph"] = torch.randn(4, 2, requires_grad=True)
    state = Snapshot(step=0, rows=rows, shared={}, facts={})
    Job(tmp_path).save(state)
    found = whole(newest(tmp_path)[0])
    for name, value in rows.items():
        assert torch.equal(found.rows[name], value)
        assert not found.rows[name].requires_grad


def test_what_was_read_outlives_its_file(tmp_path):
    (path,) = saved(tmp_path, 7)
    found = whole(path)
    for file in path.glob("*.safetensors"):
        file.write_bytes(b"\0" * file.stat().st_size)
    assert bits(found) == bits(snapshot(7))


def test_facts_alone(tmp_path):
    (path,) = saved(tmp_path, 7)
    (path / "shared.safetensors").unlink()
    assert repr(facts(path)) == repr(snapshot(7).facts)


def test_learners_that_are_not_there(tmp_path):
    (path,) = saved(tmp_path, 7)
    with pytest.raises(UserError, match="has learners 0 to 3, not range"):
        read(path, range(3, 5))


names = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
numbers = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
values = st.recursive(
    numbers,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=10,
)
dtypes = st.sampled_from(["<f8", "<f4", "<f2", "<i8", "<i4", "<i2", "<i1", "<u1", "?"])


def tensors(shapes):
    arrays = dtypes.flatmap(lambda dtype: hnp.arrays(np.dtype(dtype), shapes))
    return st.dictionaries(names, arrays.map(lambda array: torch.from_numpy(array.copy())))


def shapes(min_dims, **sides):
    return hnp.array_shapes(min_dims=min_dims, max_dims=3, min_side=0, max_side=3, **sides)


@settings(max_examples=60)
@given(
    rows=tensors(shapes(0).map(lambda shape: (4, *shape))),
    shared=tensors(shapes(0)),
    facts=st.dictionaries(names, values, max_size=4).map(lambda f: {**f, "attempt": 3}),
    step=st.integers(0, 10**12),
    processes=st.sampled_from([1, 2, 4]),
)
def test_anything_comes_back(rows, shared, facts, step, processes):
    state = Snapshot(step=step, rows=rows, shared=shared, facts=facts)
    with tempfile.TemporaryDirectory() as folder:
        job = Job(Path(folder), processes)
        job.save(state)
        assert job.said == []
        assert bits(whole(newest(Path(folder))[0])) == bits(state)
