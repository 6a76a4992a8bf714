"""Columns of lists, as token ids and other sequences are kept, as arrays."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from gossip.errors import UserError

if TYPE_CHECKING:
    import pyarrow as pa


def holds_lists(table: "pa.Table", name: str) -> bool:
    """Whether the cells of a column are lists."""
    return _is_list(table.schema.field(name).type)


def regular(table: "pa.Table", name: str, path: Path) -> np.ndarray:
    """A column of lists of numbers, all of one length, as [N, T]; of lists of those [N, T, k], ...

    Args:
        table: that has it.
        name: of the column.
        path: where the table was, for messages.

    Raises:
        UserError: there is a list of another length, or what is in them is no number.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = table.schema.field(name).type
    cells = pa.concat_arrays(table[name].chunks)
    shape = [len(cells)]
    while _is_list(cells.type):
        lengths = pc.call_function("list_value_length", [cells]).unique()
        if cells.null_count or len(lengths) != 1:
            raise UserError(
                f"{path}: column {name!r} has lists of different lengths, or none in places: give "
                "all one length, by padding or by windows"
            )
        shape.append(lengths[0].as_py())
        cells = cells.flatten()
    numeric = pa.types.is_integer(cells.type) or pa.types.is_floating(cells.type)
    if not numeric or cells.null_count:
        raise UserError(
            f"{path}: column {name!r} is {kind}, or has no value in places: make numbers of it"
        )
    return cells.to_numpy(zero_copy_only=False).reshape(shape)


def _is_list(kind: "pa.DataType") -> bool:
    import pyarrow as pa

    tests = pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list
    return any(test(kind) for test in tests)
