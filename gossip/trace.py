"""The trace of a run: one row per step, readable to its last whole batch whatever happens.

The file is an Arrow IPC stream (any Arrow reader opens a finished one): the column `step` and
float64 columns, null where a step recorded nothing. Batches are not compressed: they are small, so
that zstd took six times as long to write them and, at one row per batch, more space.
"""

import os
import struct
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType

import numpy as np
import pyarrow as pa
from pyarrow import ipc

from gossip.errors import UserError

FILE = "trace.arrows"
"""Name of the trace in its run folder."""

MAX_BYTES = 2**31
"""A trace larger than this is not read: it would not be one of ours."""

_VERSION_KEY, _VERSION = b"gossip.trace", b"1"
_TORN_KEY = b"gossip.torn"
_END_OF_STREAM = b"\xff\xff\xff\xff\x00\x00\x00\x00"
# Of the flatbuffers in the Arrow format's Message.fbs: the indices of fields, and a type.
_HEADER_TYPE, _HEADER, _BODY_LENGTH, _COMPRESSION = 1, 2, 3, 3
_RECORD_BATCH = 3
_UNREADABLE = (pa.ArrowException, OSError, MemoryError, ValueError, struct.error)


class Trace:
    """A trace being written, by one process.

    Each append is handed to the operating system before it returns: it survives the death of the
    process, though not that of the machine.
    """

    def __init__(self, path: Path, columns: Sequence[str], *, keep: int = 0) -> None:
        """Start the file `path`, or go on with it after its first `keep` rows.

        Args:
            path: the file, or the run folder to put trace.arrows into.
            columns: names of the float64 columns; `step` is there without being named.
            keep: how many rows of the file stay; what comes after them is cut off, at once or not
                at all.

        Raises:
            UserError: the file cannot be written, or has fewer rows.
        """
        self.path = _file(Path(path))
        names = dict.fromkeys(name for name in columns if name != "step")
        fields = [pa.field("step", pa.int64(), nullable=False)]
        fields += [pa.field(name, pa.float64()) for name in names]
        self.schema = pa.schema(fields, metadata={_VERSION_KEY: _VERSION})
        kept = self._first_rows(keep) if keep else None
        # Only a trace that is there must not be lost half-way; a new one is written in its place.
        target = self.path.with_name(f".{self.path.name}.partial") if kept else self.path
        try:
            self._stream = open(target, "wb", buffering=0, opener=_without_links)  # noqa: SIM115
            self._write(self.schema.serialize())
            if kept:
                self._write(kept)
                self.sync()
                target.replace(self.path)
        except OSError as error:
            raise UserError(f"cannot write the trace {self.path}: {error.strerror}") from error

    def _first_rows(self, count: int) -> pa.Buffer:
        """The first rows of the file as a message."""
        table = load(self.path)
        if table.num_rows < count:
            raise UserError(
                f"the trace {self.path} has {table.num_rows} rows, fewer than the {count} of the "
                "checkpoint: it belongs to another run, or was lost with the machine"
            )
        arrays = [
            table[name].slice(0, count).combine_chunks()
            if name in table.column_names
            else pa.nulls(count, pa.float64())
            for name in self.schema.names
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema).serialize()

    def append(self, rows: Sequence[Mapping[str, float]]) -> None:
        """Write `rows` as one batch.

        Args:
            rows: column name -> value; `step` must be there, any other may be missing.

        Raises:
            KeyError: a row has a column that the trace was not opened with, or no step.
            UserError: the file cannot be written any more; what was written stays readable.
        """
        if not rows:
            return
        if unknown := set().union(*rows) - set(self.schema.names):
            raise KeyError(f"columns {sorted(unknown)} are not in the trace {self.path}")
        arrays = [pa.array([int(row["step"]) for row in rows], pa.int64())]
        for name in self.schema.names[1:]:
            values = [float(row[name]) if name in row else None for row in rows]
            arrays.append(pa.array(values, pa.float64()))
        self._write(pa.RecordBatch.from_arrays(arrays, schema=self.schema).serialize())

    def sync(self) -> None:
        """Have the rows so far survive the death of the machine.

        Raises:
            UserError: the disk refuses them.
        """
        try:
            os.fsync(self._stream.fileno())
        except OSError as error:
            raise UserError(f"cannot write the trace {self.path}: {error.strerror}") from error

    def close(self) -> None:
        """Mark the end of the stream and close the file; a second call does nothing."""
        if not self._stream.closed:
            self._write(_END_OF_STREAM)
            self._stream.close()

    def _write(self, message: pa.Buffer | bytes) -> None:
        try:
            rest = memoryview(message)
            while rest:
                rest = rest[self._stream.write(rest) :]
        except OSError as error:
            self._stream.close()
            raise UserError(f"cannot write the trace {self.path}: {error.strerror}") from error

    def __enter__(self) -> "Trace":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def load(path: Path | str) -> pa.Table:
    """The whole batches of a trace; a torn tail is dropped (see `torn`).

    The file is not trusted: it is read as numbers of a fixed type, and its size bounds the memory.

    Args:
        path: a run folder, or its trace file.

    Raises:
        UserError: no such file, not a trace of this version, or larger than `MAX_BYTES`.
    """
    file = _file(Path(path))
    data = _read(file)
    plain = _uncompressed(data)
    # Not ipc.MessageReader: it does not verify what it reads, and a damaged file crashes it.
    stream, schema = _open(pa.py_buffer(data)[:plain], file)
    batches, is_torn = [], plain < len(data)
    try:
        batches.extend(_whole(stream))
    except _UNREADABLE:
        is_torn = True
    table = pa.Table.from_batches(batches, schema)
    return table.replace_schema_metadata({**schema.metadata, _TORN_KEY: b"1" if is_torn else b"0"})


def torn(table: pa.Table) -> bool:
    """Whether `load` met something unreadable after the rows of `table`, and dropped it."""
    return (table.schema.metadata or {}).get(_TORN_KEY) == b"1"


def column(table: pa.Table, name: str) -> np.ndarray:
    """A column as float64, [rows]; NaN where nothing was recorded, also if there is no such one."""
    if name not in table.column_names:
        return np.full(table.num_rows, np.nan)
    return table[name].cast(pa.float64()).to_numpy()


def _without_links(path: str, flags: int) -> int:
    """A run folder may come from anybody: what is written stays in it."""
    return os.open(path, flags | os.O_NOFOLLOW, 0o666)


def _file(path: Path) -> Path:
    return path / FILE if path.is_dir() else path


def _read(file: Path) -> bytes:
    if not file.is_file():
        raise UserError(f"no trace {file}: give a run folder, or the {FILE} in it")
    if (size := file.stat().st_size) > MAX_BYTES:
        raise UserError(f"{file} has {size} bytes; a trace of at most {MAX_BYTES} is read")
    try:
        return file.read_bytes()
    except OSError as error:
        raise UserError(f"cannot read {file}: {error.strerror}") from error


def _open(data: pa.Buffer, file: Path) -> tuple[ipc.RecordBatchStreamReader, pa.Schema]:
    """The stream and its schema, checked."""
    try:
        stream = ipc.open_stream(data)
        schema = stream.schema
        names = schema.names
    except _UNREADABLE as error:
        raise UserError(
            f"{file} is not a gossip trace, or its run was killed before the first row"
        ) from error
    version = (schema.metadata or {}).get(_VERSION_KEY)
    if version is None:
        raise UserError(f"{file} is an Arrow stream but not a gossip trace")
    if version != _VERSION:
        raise UserError(f"{file} has trace format {version!r}; this gossip reads {_VERSION!r}")
    types = [pa.int64()] + [pa.float64()] * (len(names) - 1)
    if names[:1] != ["step"] or schema.types != types or len(set(names)) < len(names):
        raise UserError(f"{file} is not a gossip trace: its columns are not step and float64 ones")
    return stream, schema


def _whole(stream: ipc.RecordBatchStreamReader) -> Iterator[pa.RecordBatch]:
    for batch in stream:
        # Lengths come from the file: a wrong one would be read past the end of a buffer.
        batch.validate(full=True)
        steps = batch.column(0)
        if steps.null_count or not ((steps.to_numpy() >= 0) & (steps.to_numpy() < 2**53)).all():
            raise ValueError("a row without a step, or none that float64 can hold")
        yield batch


def _uncompressed(data: bytes) -> int:
    """Length of the part of `data` before a message that a trace does not have.

    That is one that holds no record batch, or a compressed one, which could unpack to any size. A
    message is -1, the length of its flatbuffer as an int32, the flatbuffer and a body. Where that
    cannot be followed, Arrow, which verifies it all, stops as well.
    """
    position = 0
    try:
        while position < len(data):
            marker, length = struct.unpack_from("<ii", data, position)
            if marker != -1:
                return position
            if length == 0:
                break
            message = position + 8 + struct.unpack_from("<I", data, position + 8)[0]
            if position and not _is_plain_batch(data, message):
                return position
            body = _field(data, message, _BODY_LENGTH)
            size = struct.unpack_from("<q", data, body)[0] if body else 0
            if length < 0 or size < 0:
                break
            position += 8 + length + size
    except struct.error:
        pass
    return len(data)


def _is_plain_batch(data: bytes, message: int) -> bool:
    kind = _field(data, message, _HEADER_TYPE)
    header = _field(data, message, _HEADER)
    if not kind or not header or struct.unpack_from("<B", data, kind)[0] != _RECORD_BATCH:
        return False
    return not _field(data, header + struct.unpack_from("<I", data, header)[0], _COMPRESSION)


def _field(data: bytes, table: int, index: int) -> int:
    """Position of a field of the flatbuffer table at `table`; 0 if it is not set."""
    entries = table - struct.unpack_from("<i", data, table)[0]
    entry = 4 + 2 * index
    if entry >= struct.unpack_from("<H", data, entries)[0]:
        return 0
    offset = struct.unpack_from("<H", data, entries + entry)[0]
    return table + offset if offset else 0
