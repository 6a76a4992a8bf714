"""Rows in shared memory are never written to while a slow neighbour reads them."""

import random
import threading
import time

import numpy as np
import pytest
import torch

from gossip.comm.node import futex
from gossip.comm.node.window import SLOTS, Window, segment_bytes
from gossip.comm.shutdown.overdue import Waiting

pytestmark = [
    pytest.mark.skipif(not futex.available(), reason="no shared memory to wait on here"),
    pytest.mark.timeout(60),
]

SHAPE = (2, 300)
STEPS = 150


def windows(processes: int) -> list[Window]:
    """The windows of processes that are threads here: memory is memory."""
    num_bytes = segment_bytes(torch.empty(SHAPE, dtype=torch.float64).nbytes)
    memories = {process: np.zeros(num_bytes, np.uint8) for process in range(processes)}
    return [Window(memories, process, Waiting()) for process in range(processes)]


def rows(value: float) -> torch.Tensor:
    return torch.full(SHAPE, value, dtype=torch.float64)


def directed_ring(process, processes, step):
    return [(process - 1) % processes]


def moving_ring(process, processes, step):
    """Everybody reads one other process, another one at each step."""
    return [(process - 1 - step % (processes - 1)) % processes]


def matching(process, processes, step):
    order = np.random.default_rng(step).permutation(processes).tolist()
    place = order.index(process) ^ 1
    return [order[place]] if place < processes else []


def star(process, processes, step):
    return list(range(1, processes)) if process == 0 else [0]


@pytest.mark.parametrize("reads", [directed_ring, moving_ring, matching, star])
def test_slow_readers_see_the_rows_of_their_step_to_the_end(reads):
    """Reader p of step m sees m + p/10 and nothing else, however long it looks."""
    processes = 3
    opened = windows(processes)
    wrong = []

    def walk(me):
        window, late = opened[me], random.Random(me)
        for step in range(STEPS):
            readers = [p for p in range(processes) if me in reads(p, processes, step)]
            x = rows(step + me / 10)
            number, mine = window.post(x, x.dtype, readers)
            for process in reads(me, processes, step):
                theirs = window.rows(process, number, mine)
                expected = rows(step + process / 10)
                before = torch.equal(theirs, expected)
                if late.random() < 0.1:
                    time.sleep(late.random() * 3e-3)
                if not (before and torch.equal(theirs, expected)):
                    wrong.append((step, me, process))
            window.done(number)

    threads = [threading.Thread(target=walk, args=(me,), daemon=True) for me in range(processes)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(40)
        assert not thread.is_alive(), "somebody waits for ever"
    assert not wrong


def test_a_slot_is_not_written_to_before_its_reader_has_read_it():
    writer, reader = windows(2)
    for step in range(SLOTS):
        assert writer.is_free
        number, _ = writer.post(rows(step), torch.float64, [1])
        writer.done(number)
    assert not writer.is_free
    posted = threading.Event()
    thread = threading.Thread(
        target=lambda: (writer.post(rows(SLOTS), torch.float64, [1]), posted.set()), daemon=True
    )
    thread.start()
    for step in range(SLOTS):
        assert not posted.wait(0.02)  # nothing has been read
        assert torch.equal(reader.rows(0, step + 1, rows(0)), rows(step))
    reader.post(rows(0), torch.float64, [])
    reader.done(1)
    assert posted.wait(30)
    assert torch.equal(reader.rows(0, SLOTS + 1, rows(0)), rows(SLOTS))
    assert torch.equal(reader.rows(0, SLOTS, rows(0)), rows(SLOTS - 1))


def test_who_reads_nothing_of_a_process_does_not_hold_it_up():
    writer, _ = windows(2)
    for step in range(4 * SLOTS):
        assert writer.is_free
        number, _ = writer.post(rows(step), torch.float64, [])
        writer.done(number)


def test_new_rows_belong_to_the_tensors_that_view_them():
    window, _ = windows(2)
    first, *others = [window.new_rows(rows(0)) for _ in range(SLOTS - 1)]
    assert len({each.data_ptr() for each in (first, *others)}) == SLOTS - 1
    assert window.new_rows(rows(0)) is None  # one slot is left for rows that come from elsewhere
    view = first[1:]
    first.fill_(7)
    address = first.data_ptr()
    del first
    assert window.new_rows(rows(0)) is None
    assert torch.equal(view, rows(7)[1:])
    del view
    again = window.new_rows(rows(0))
    assert again.data_ptr() == address


def test_new_rows_are_posted_where_they_lie_and_others_elsewhere():
    writer, reader = windows(2)
    new = writer.new_rows(rows(0)).fill_(5)
    number, posted = writer.post(new, torch.float64, [1])
    assert posted.data_ptr() == new.data_ptr()
    writer.done(number)
    for step in range(2):
        number, posted = writer.post(rows(step), torch.float64, [])
        writer.done(number)
        assert posted.data_ptr() != new.data_ptr()
    assert torch.equal(reader.rows(0, 1, rows(0)), rows(5))
    assert torch.equal(new, rows(5))


def test_rows_posted_again_before_they_are_read_are_copied():
    """The reader of the first mix looks for its number, which must stay where it is."""
    writer, reader = windows(2)
    new = writer.new_rows(rows(0)).fill_(5)
    first, _ = writer.post(new, torch.float64, [1])
    second, posted = writer.post(new, torch.float64, [1])
    assert posted.data_ptr() != new.data_ptr()
    for number in (first, second):
        assert torch.equal(reader.rows(0, number, rows(0)), rows(5))
