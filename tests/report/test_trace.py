import signal
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pyarrow import ipc

from gossip import trace
from gossip.errors import UserError

BATCHES = [
    [{"step": 0, "loss": 2.5, "alpha_e": 1.0}, {"step": 1, "loss": 2.0}],
    [{"step": 2, "loss": float("nan"), "alpha_e": float("inf")}],
    [{"step": 3}, {"step": 4, "loss": 0.1}, {"step": 5, "alpha_e": -0.5}],
]
ENDS = (2, 3, 6)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Bytes of a trace, and its length after the schema and after each batch."""
    path = tmp_path_factory.mktemp("trace") / "t"
    with trace.Trace(path, ["loss", "alpha_e"]) as writer:
        lengths = [path.stat().st_size]
        for rows in BATCHES:
            writer.append(rows)
            lengths.append(path.stat().st_size)
    return path.read_bytes(), lengths


def test_what_was_appended_is_loaded(tmp_path):
    with trace.Trace(tmp_path, ["loss", "alpha_e"]) as writer:
        for rows in BATCHES:
            writer.append(rows)
    table = trace.load(tmp_path)
    assert table.schema.names == ["step", "loss", "alpha_e"]
    assert table["step"].to_pylist() == [0, 1, 2, 3, 4, 5]
    assert table["alpha_e"].to_pylist() == [1.0, None, float("inf"), None, None, -0.5]
    np.testing.assert_array_equal(
        trace.column(table, "loss"), [2.5, 2.0, np.nan, np.nan, 0.1, np.nan]
    )
    assert table["loss"].is_null().to_pylist() == [False, False, False, True, False, True]
    assert not trace.torn(table)
    assert np.isnan(trace.column(table, "never_recorded")).all()


def test_a_finished_trace_opens_in_any_arrow_reader(whole):
    assert ipc.open_stream(whole[0]).read_all().num_rows == 6


def test_a_batch_is_in_the_file_when_append_returns(tmp_path):
    writer = trace.Trace(tmp_path, ["loss"])
    assert trace.load(tmp_path).num_rows == 0
    for t in range(3):
        writer.append([{"step": t}])
        assert trace.load(tmp_path).num_rows == t + 1
    writer.close()
    writer.close()


def test_a_trace_torn_at_any_byte_gives_its_whole_batches(whole, tmp_path):
    data, lengths = whole
    path = tmp_path / "torn"
    for length in range(len(data)):
        path.write_bytes(data[:length])
        if length < lengths[0]:
            with pytest.raises(UserError, match="not a gossip trace"):
                trace.load(path)
            continue
        table = trace.load(path)
        batches = sum(length >= end for end in lengths[1:])
        assert table["step"].to_pylist() == list(range((0, *ENDS)[batches])), length
        # Fewer than four bytes more are the beginning of a length, and read as the end.
        if length in lengths:
            assert not trace.torn(table)
        elif length - max(end for end in lengths if end <= length) >= 8:
            assert trace.torn(table) or length > lengths[-1]


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=400))
@example(b"")
@example(b"ARROW1\x00\x00")
@example(b"\xff\xff\xff\xff\xff\xff\xff\x7f")
@example(b"\xff\xff\xff\xff\x00\x00\x00\x00")
def test_garbage_is_one_clear_error(tmp_path_factory, garbage):
    path = tmp_path_factory.getbasetemp() / "garbage"
    path.write_bytes(garbage)
    with pytest.raises(UserError, match="not a gossip trace"):
        trace.load(path)


@settings(max_examples=600, deadline=None)
@given(st.data())
def test_a_damaged_trace_is_a_shorter_table_or_one_clear_error(tmp_path_factory, whole, data):
    damaged = bytearray(whole[0])
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.getbasetemp() / "damaged"
    path.write_bytes(damaged)
    try:
        table = trace.load(path)
    except UserError:
        return
    assert table.num_rows <= 6
    table.validate(full=True)
    table.to_pydict()
    trace.column(table, "loss")


def _stream(schema, *batches, **options):
    sink = pa.BufferOutputStream()
    with ipc.new_stream(sink, schema, options=ipc.IpcWriteOptions(**options)) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def test_a_compressed_batch_is_not_unpacked(tmp_path):
    with trace.Trace(tmp_path, ["loss"]) as writer:
        writer.append([{"step": t} for t in range(10_000)])
    table = trace.load(tmp_path)
    (tmp_path / "bomb").write_bytes(_stream(table.schema, *table.to_batches(), compression="zstd"))
    bomb = trace.load(tmp_path / "bomb")
    assert bomb.num_rows == 0
    assert trace.torn(bomb)


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (pa.schema([("step", pa.int64())]), "an Arrow stream but not a gossip trace"),
        (pa.schema([("step", pa.int64())], metadata={"gossip.trace": "9"}), "format b'9'"),
        (pa.schema([("step", pa.string())], metadata={"gossip.trace": "1"}), "its columns"),
        (pa.schema([("loss", pa.float64())], metadata={"gossip.trace": "1"}), "its columns"),
        (pa.schema([], metadata={"gossip.trace": "1"}), "its columns"),
    ],
)
def test_another_arrow_stream_is_refused(tmp_path, schema, message):
    path = tmp_path / "other"
    path.write_bytes(_stream(schema))
    with pytest.raises(UserError, match=message):
        trace.load(path)


def test_what_is_no_file_or_too_large_is_refused(tmp_path, monkeypatch):
    for missing in (tmp_path, tmp_path / "no", "/dev/zero"):
        with pytest.raises(UserError, match="no trace"):
            trace.load(missing)
    with (tmp_path / "large").open("wb") as file:
        file.truncate(trace.MAX_BYTES + 1)  # sparse
    with pytest.raises(UserError, match="is read"):
        trace.load(tmp_path / "large")


def test_a_row_outside_the_schema_is_our_error(tmp_path):
    with trace.Trace(tmp_path, ["loss"]) as writer:
        with pytest.raises(KeyError, match="los"):
            writer.append([{"step": 0, "los": 1.0}])
        with pytest.raises(KeyError, match="step"):
            writer.append([{"loss": 1.0}])
        writer.append([])
    assert trace.load(tmp_path).num_rows == 0


@pytest.mark.skipif(sys.platform != "linux", reason="/dev/full")
def test_a_full_disk_is_one_clear_error(tmp_path):
    with pytest.raises(UserError, match="No space left"):
        trace.Trace("/dev/full", ["loss"])
    with pytest.raises(UserError, match="cannot write the trace"):
        trace.Trace(tmp_path / "no" / "folder", ["loss"])


ENDLESS = """
import sys
from pathlib import Path
from gossip.trace import Trace
writer, t = Trace(Path(sys.argv[1]), [f"c{i}" for i in range(20)]), 0
while True:
    writer.append([{"step": t + i, "c0": float(t + i), "c19": 1.0} for i in range(7)])
    t += 7
    print(t, flush=True)
"""


def test_a_killed_process_leaves_all_it_appended(tmp_path):
    child = subprocess.Popen(
        [sys.executable, "-c", ENDLESS, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    for _ in range(50):
        said = int(child.stdout.readline())
    child.send_signal(signal.SIGKILL)
    said = max([said, *map(int, child.stdout.read().split("\n")[:-1])])
    child.wait()
    child.stdout.close()
    table = trace.load(tmp_path)
    assert table.num_rows >= said >= 350
    assert table.num_rows % 7 == 0
    np.testing.assert_array_equal(trace.column(table, "c0"), np.arange(table.num_rows))
