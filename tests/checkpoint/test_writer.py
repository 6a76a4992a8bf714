"""Saving in the background: what a step waits for, what is kept, and what is left behind."""

import threading
import weakref

import pytest
import torch

from gossip.checkpoint import Snapshot, files, layout, newest, saving, verify
from gossip.storage.names import step_folder
from tests.checkpoint.jobs import Job, bits, part, saved, snapshot, whole

LONG = 30.0
"""Seconds that nothing here takes, unless it hangs."""


class Gate:
    """Stands before every file of tensors; `reached` when somebody waits there."""

    def __init__(self, monkeypatch):
        self.reached, self.open = threading.Event(), threading.Event()
        self.tensors: list[weakref.ref] = []
        write_tensors = files.write_tensors

        def wait_and_write(path, tensors):
            self.tensors += [weakref.ref(tensor) for tensor in tensors.values()]
            self.reached.set()
            assert self.open.wait(LONG)
            return write_tensors(path, tensors)

        monkeypatch.setattr(saving, "write_tensors", wait_and_write)


@pytest.fixture
def gate(monkeypatch):
    gate = Gate(monkeypatch)
    yield gate
    gate.open.set()


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_step_waits_for_a_copy_not_for_the_disk(gate, tmp_path):
    """The live tensors and facts may be written to as soon as `save` is back."""
    job, live = Job(tmp_path), snapshot(1)
    job.writers[0].save(live)
    assert gate.reached.wait(LONG)
    for tensor in (*live.rows.values(), *live.shared.values()):
        tensor.zero_()
    live.facts["list"][1]["a"].append("changed")
    assert newest(tmp_path) == []
    gate.open.set()
    job.close()
    assert bits(whole(newest(tmp_path)[0])) == bits(snapshot(1))


def test_the_next_save_waits_for_the_one_before(gate, tmp_path):
    """So there is never a second copy in memory."""
    job = Job(tmp_path)
    job.writers[0].save(snapshot(1))
    second = threading.Thread(target=job.writers[0].save, args=(snapshot(2),), daemon=True)
    second.start()
    second.join(0.1)
    assert second.is_alive()
    gate.open.set()
    second.join(LONG)
    assert not second.is_alive()
    job.close()
    assert [path.name for path in newest(tmp_path)] == ["step-000000002", "step-000000001"]


def test_no_copy_and_no_thread_stay(gate, tmp_path):
    gate.open.set()
    before, job = threading.active_count(), Job(tmp_path, 2)
    assert threading.active_count() == before
    job.save(snapshot(1))
    assert threading.active_count() == before
    assert gate.tensors
    assert not any(tensor() is not None for tensor in gate.tensors)
    job.close()  # a second time


def test_the_last_ones_are_kept(tmp_path):
    job = Job(tmp_path, 2, keep=3)
    for step in range(10, 60, 10):
        job.save(snapshot(step))
    assert names(tmp_path) == [step_folder(step) for step in (30, 40, 50)]
    for path in newest(tmp_path):
        verify(path)
    Job(tmp_path, 2, keep=1).save(snapshot(60))
    assert names(tmp_path) == [step_folder(60)]


def test_a_step_of_more_digits_than_usual(tmp_path):
    saved(tmp_path, 999_999_999, 1_000_000_000, 10**12)
    steps = [layout.step_of(path) for path in newest(tmp_path)]
    assert steps == [10**12, 1_000_000_000, 999_999_999]


def test_process_0_waits_for_all_and_the_others_for_nobody(tmp_path):
    job, state = Job(tmp_path, 4), snapshot(1)
    for comm, writer in list(zip(job.comms, job.writers, strict=True))[1:]:
        writer.save(part(state, comm.hosted))
        writer.close()
        assert newest(tmp_path) == []
    job.writers[0].save(part(state, job.comms[0].hosted))
    job.close()
    assert bits(whole(newest(tmp_path)[0])) == bits(state)


def test_a_process_may_be_a_checkpoint_ahead(tmp_path):
    job = Job(tmp_path, 2)
    for step in (1, 2):
        job.writers[1].save(part(snapshot(step), range(2, 4)))
    for step in (1, 2):
        job.writers[0].save(part(snapshot(step), range(2)))
    job.close()
    assert [bits(whole(path)) for path in newest(tmp_path)] == [bits(snapshot(s)) for s in (2, 1)]


def test_a_process_that_never_comes(tmp_path, monkeypatch):
    """Process 0 gives up, says so once, and the checkpoints before are left alone."""
    saved(tmp_path, 1)
    monkeypatch.setattr(saving, "PATIENCE", 0.05)
    job = Job(tmp_path, 2)
    job.writers[0].save(part(snapshot(2), range(2)))
    job.close()
    sentence = (
        "cannot keep the checkpoint of step 2: process 1 has not written its part; "
        "the one of step 1 stays"
    )
    assert job.said == [(0, sentence)]
    assert job.failures == [1, 0]
    assert names(tmp_path) == [step_folder(1)]
    job.save(snapshot(3))
    assert [layout.step_of(path) for path in newest(tmp_path)] == [3, 1]
    assert job.failures == [1, 0]


def leave(folder, processes, step, *, seed, attempt=0):
    """What an attempt leaves of which process 0 was killed before the others were done."""
    job, state = Job(folder, processes), snapshot(step, seed=seed)
    state.facts["attempt"] = attempt
    for comm, writer in list(zip(job.comms, job.writers, strict=True))[1:]:
        writer.save(part(state, comm.hosted))
        writer.close()
    assert names(folder) == [layout.partial(step, attempt)]


def test_what_a_killed_attempt_left_is_not_taken_for_this_ones(tmp_path, monkeypatch):
    """Even if a part of the same step, of a process that has not yet come, is there."""
    monkeypatch.setattr(saving, "PATIENCE", 0.05)
    leave(tmp_path, 2, 5, seed=1)
    job = Job(tmp_path, 2)
    job.writers[0].save(part(snapshot(5), range(2)))
    job.close()
    assert newest(tmp_path) == []
    job.save(snapshot(5))
    assert bits(whole(newest(tmp_path)[0])) == bits(snapshot(5))


def test_attempts_do_not_mix(tmp_path, monkeypatch):
    """Not even if what the earlier one left cannot be removed."""
    monkeypatch.setattr(saving, "PATIENCE", 0.05)
    monkeypatch.setattr(layout, "remove_partial", lambda *args, **kwargs: None)
    leave(tmp_path, 2, 5, seed=1)
    job, state = Job(tmp_path, 2), snapshot(5)
    state.facts["attempt"] = 1
    job.writers[0].save(part(state, range(2)))
    job.close()
    assert newest(tmp_path) == []
    job.save(state)
    assert bits(whole(newest(tmp_path)[0])) == bits(state)


def test_leftovers_of_earlier_steps_go_when_there_is_a_new_checkpoint(tmp_path):
    job = Job(tmp_path)
    for step in (1, 3):
        (tmp_path / layout.partial(step, 0)).mkdir()
        (tmp_path / layout.partial(step, 0) / "block-00007.safetensors").write_bytes(b"1")
    (tmp_path / ".mine").mkdir()
    job.save(snapshot(2))
    # One of a later step may be of a process which is ahead.
    assert names(tmp_path) == [".mine", layout.partial(3, 0), step_folder(2)]


def test_a_good_checkpoint_of_the_step_is_kept(tmp_path):
    (path,) = saved(tmp_path, 5, processes=4)
    job = Job(tmp_path, 2)
    job.save(snapshot(5, seed=1))
    assert bits(whole(path)) == bits(snapshot(5))
    assert names(tmp_path) == [path.name]
    assert job.failures == [0, 0]


def test_a_damaged_checkpoint_of_the_step_is_replaced(tmp_path):
    (path,) = saved(tmp_path, 5, processes=4)
    (path / "shared.safetensors").write_bytes(b"")
    Job(tmp_path, 2).save(snapshot(5, seed=1))
    assert bits(whole(path)) == bits(snapshot(5, seed=1))
    assert names(tmp_path) == [path.name]


def test_a_damaged_checkpoint_of_a_later_step_costs_no_good_one(tmp_path):
    """A run that went on from step 2 because that of step 4 was damaged."""
    later, _ = saved(tmp_path, 2, 4)
    (later / "shared.safetensors").write_bytes(b"")
    job = Job(tmp_path, keep=1)
    job.save(snapshot(3))
    assert names(tmp_path) == [step_folder(step) for step in (3, 4)]
    job.save(snapshot(4))
    assert names(tmp_path) == [step_folder(4)]
    verify(later)


def test_what_the_format_cannot_hold_is_said(tmp_path):
    job = Job(tmp_path, 2)
    odd = torch.zeros(4, dtype=torch.complex64)
    job.save(Snapshot(step=1, rows={"z": odd}, shared={}, facts={}))
    said = dict(job.said)
    assert "'z' is of dtype torch.complex64; there is no other" in said[0]
    assert job.failures == [1, 1]
    job.save(Snapshot(step=2, rows={}, shared={}, facts={"text": "a" * 2**23}))
    assert "its facts have" in job.said[-1][1]
    job.save(snapshot(3))
    assert names(tmp_path) == [step_folder(3)]


def test_facts_that_are_not_json_are_a_mistake_of_the_caller(tmp_path):
    writer = Job(tmp_path).writers[0]
    with pytest.raises(TypeError, match="not JSON"):
        writer.save(Snapshot(step=1, rows={}, shared={}, facts={"x": torch.zeros(1)}))
