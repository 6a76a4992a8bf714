"""Disks that are full, read-only or gone: the run goes on, and what was kept stays."""

import shutil
import subprocess
import sys
from contextlib import contextmanager, suppress

import pytest
import torch

from gossip.checkpoint import Snapshot, files, layout, newest, verify
from gossip.storage.names import step_folder
from tests.checkpoint.jobs import Job, bits, saved, snapshot, whole


@contextmanager
def disk(path, size="1m"):
    """A file system of its own, of so many bytes."""
    path.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(path)]
    if sys.platform != "linux" or not shutil.which("mount"):
        pytest.skip("mounts a tmpfs")
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("mounting is not permitted here")
    try:
        yield path / "checkpoint"
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True)


def large(step, kilobytes):
    """So many bytes for each of 4 learners."""
    rows = {"x": torch.full((4, 128 * kilobytes), step, dtype=torch.float64)}
    return Snapshot(step=step, rows=rows, shared={"t": torch.tensor(step)}, facts={})


def remount(folder, how):
    subprocess.run(["mount", "-o", f"remount,{how}", str(folder.parent)], check=True)


def fill(path):
    """Use up the last page of a disk."""
    with path.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(b"\0" * 4096)


def partial(folder):
    return [path for path in folder.iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize("processes", [1, 2, 4])
def test_a_full_disk(processes, tmp_path):
    """1 MiB has room for one checkpoint of 600 kB, and for one more of 40 kB."""
    with disk(tmp_path / "disk") as folder:
        job = Job(folder, processes, keep=1)
        job.save(large(400, 150))
        assert job.said == []
        job.save(large(500, 150))
        assert job.failures[0] == 1
        sentence = dict(job.said)[0]
        assert sentence.startswith("cannot keep the checkpoint of step 500: ")
        assert sentence.endswith("No space left on device; the one of step 400 stays")
        assert len(job.said) == sum(job.failures) <= processes
        assert [layout.step_of(path) for path in newest(folder)] == [400]
        assert bits(whole(newest(folder)[0])) == bits(large(400, 150))
        assert partial(folder) == []
        said = len(job.said)
        job.save(large(600, 10))
        assert [layout.step_of(path) for path in newest(folder)] == [600]
        job.save(large(700, 150))
        assert [layout.step_of(path) for path in newest(folder)] == [700]
        verify(newest(folder)[0])
        assert len(job.said) == said


def test_room_again_because_somebody_made_some(tmp_path):
    with disk(tmp_path / "disk") as folder:
        rubbish = folder.parent / "rubbish"
        rubbish.write_bytes(b"\0" * 900_000)
        job = Job(folder)
        job.save(large(1, 150))
        assert job.said[0][1].endswith("No space left on device; there is no other")
        rubbish.unlink()
        job.save(large(2, 150))
        assert [layout.step_of(path) for path in newest(folder)] == [2]
        assert job.failures == [1]


@pytest.mark.parametrize("processes", [1, 2])
def test_not_a_single_page_left(processes, tmp_path):
    """There is not even room to say so."""
    with disk(tmp_path / "disk") as folder:
        job = Job(folder, processes)
        job.save(large(1, 1))
        fill(folder.parent / "rubbish")
        job.save(large(2, 1))
        assert job.failures == [1] * processes
        assert [layout.step_of(path) for path in newest(folder)] == [1]
        (folder.parent / "rubbish").unlink()
        job.save(large(3, 1))
        assert [layout.step_of(path) for path in newest(folder)] == [3, 1]
        assert partial(folder) == []


@pytest.mark.parametrize("processes", [1, 2])
def test_a_disk_that_becomes_read_only(processes, tmp_path):
    with disk(tmp_path / "disk") as folder:
        job = Job(folder, processes)
        job.save(snapshot(1))
        remount(folder, "ro")
        job.save(snapshot(2))
        assert job.failures == [1] * processes
        for _, text in job.said:
            assert "of step 2: Read-only file system; the one of step 1 stays" in text
        remount(folder, "rw")
        job.save(snapshot(3))
        assert [layout.step_of(path) for path in newest(folder)] == [3, 1]
        assert job.failures == [1] * processes


def test_a_disk_that_becomes_read_only_in_between(tmp_path):
    """Process 0 cannot even report to itself, and does not wait for that."""
    with disk(tmp_path / "disk") as folder:
        job = Job(folder)
        (folder / layout.partial(1, 0)).mkdir(parents=True)
        remount(folder, "ro")
        job.save(snapshot(1))
        assert job.failures == [1]
        remount(folder, "rw")
        job.save(snapshot(2))
        assert [path.name for path in folder.iterdir()] == [step_folder(2)]


def test_a_file_where_the_folder_should_be(tmp_path):
    (tmp_path / "checkpoint").write_text("not a folder")
    job = Job(tmp_path / "checkpoint", 2)
    job.save(snapshot(1))
    assert job.failures == [1, 1]
    assert job.said[0][1].startswith("cannot keep the checkpoint of step 1: File exists")
    assert (tmp_path / "checkpoint").read_text() == "not a folder"
    (tmp_path / "checkpoint").unlink()
    job.save(snapshot(2))
    assert bits(whole(newest(tmp_path / "checkpoint")[0])) == bits(snapshot(2))


def test_something_else_of_the_checkpoints_name(tmp_path):
    saved(tmp_path, 1)
    (tmp_path / step_folder(2)).write_text("mine")
    job = Job(tmp_path)
    job.save(snapshot(2))
    job.save(snapshot(3))
    assert job.failures == [0]
    assert [layout.step_of(path) for path in newest(tmp_path)] == [3, 2]


@pytest.mark.parametrize("processes", [1, 4])
def test_the_folder_is_removed_between_two_checkpoints(processes, tmp_path):
    job = Job(tmp_path / "run" / "checkpoint", processes)
    job.save(snapshot(1))
    shutil.rmtree(tmp_path / "run")
    job.save(snapshot(2))
    assert job.failures == [0] * processes
    (path,) = newest(tmp_path / "run" / "checkpoint")
    assert bits(whole(path)) == bits(snapshot(2))


@pytest.mark.parametrize("when", [1, 2, 3, 4])
def test_the_folder_is_removed_while_a_checkpoint_is_written(when, tmp_path, monkeypatch):
    """Before block, shared tensors, report or manifest."""
    folder, calls, sync = tmp_path / "checkpoint", [], files.os.fsync

    def remove_and_sync(descriptor):
        calls.append(descriptor)
        if len(calls) == when + 1:  # the first is for the new folder's own name
            shutil.rmtree(folder)
        sync(descriptor)

    job = Job(folder)
    monkeypatch.setattr(files.os, "fsync", remove_and_sync)
    job.save(snapshot(1))
    assert job.failures == [1]
    assert len(job.said) == 1
    assert "there is no other" in job.said[0][1]
    job.save(snapshot(2))
    assert job.failures == [1]
    assert bits(whole(newest(folder)[0])) == bits(snapshot(2))
