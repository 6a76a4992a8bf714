"""Traces and straggler files from anybody."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given

from gossip import trace
from gossip.errors import UserError
from gossip.stragglers import make
from tests.hostile.damage import BINARY, TEXT, damaged, fuzz, fuzzed, one_sentence, torn
from tests.report import made_up


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    run = made_up.run(tmp_path_factory.mktemp("trace") / "run", made=made_up.rows(30))
    return run / trace.FILE


def test_a_damaged_trace_is_a_shorter_one_or_one_sentence(whole):
    def read():
        table = trace.load(whole)
        for name in table.column_names:
            assert trace.column(table, name).shape == (table.num_rows,)

    fuzzed(whole, read, 300, most_torn=90)


@pytest.mark.parametrize("step", [-1, -(2**63), 2**53, 2**63 - 1])
def test_a_row_without_a_possible_step_ends_the_trace(step, tmp_path):
    with trace.Trace(tmp_path, ["train_loss"]) as writer:
        writer.append([{"step": 0}, {"step": 1}])
        writer.append([{"step": step}])
    table = trace.load(tmp_path)
    assert trace.column(table, "step").tolist() == [0, 1]
    assert trace.torn(table)


@pytest.mark.parametrize("kind", ["csv", "npy"])
def test_a_damaged_straggler_file_is_a_table_or_one_sentence(kind, tmp_path_factory):
    path = tmp_path_factory.mktemp("straggler") / f"factors.{kind}"
    table = np.arange(24.0).reshape(6, 4)
    np.save(path, table) if kind == "npy" else np.savetxt(path, table, delimiter=",")
    intact = path.read_bytes()

    def read(data):
        path.write_bytes(data)
        with one_sentence():
            straggler = make("trace", [f"file={path}"], n=4, seed=0)
            assert all(0 <= straggler.factor(j, 7) <= 1e6 for j in range(4))

    @fuzz(60)
    @given(data=damaged(intact, BINARY if kind == "npy" else TEXT))
    def check(data):
        read(data)

    check()
    for data in torn(intact, 30):
        read(data)


def test_a_type_of_somebodys_own_is_refused(tmp_path):
    metadata = {b"ARROW:extension:name": b"own", b"ARROW:extension:metadata": b"x"}
    fields = [pa.field("step", pa.int64()), pa.field("a", pa.binary(), metadata=metadata)]
    schema = pa.schema(fields, metadata={b"gossip.trace": b"1"})
    with pa.ipc.new_stream(str(tmp_path / trace.FILE), schema) as stream:
        stream.write_batch(pa.record_batch([[0], [b""]], schema=schema))
    with pytest.raises(UserError, match="its columns are not step and float64 ones"):
        trace.load(tmp_path)
