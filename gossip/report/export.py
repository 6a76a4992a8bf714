"""Export of runs: one CSV of all traces."""

from pathlib import Path

import pyarrow as pa
from pyarrow import csv

from gossip.errors import UserError
from gossip.report.runs import Run


def write_csv(runs: list[Run], path: Path) -> Path:
    """Write the rows of all traces below each other, with the run's label before them.

    A cell is empty where a run recorded nothing; numbers are written so that they read back equal.

    Raises:
        UserError: the file cannot be written.
    """
    tables = []
    for run in runs:
        label = pa.array([run.label] * run.trace.num_rows, pa.string())
        tables.append(run.trace.replace_schema_metadata().add_column(0, "run", label))
    try:
        csv.write_csv(pa.concat_tables(tables, promote_options="default"), path)
    except OSError as error:
        raise UserError(f"cannot write {path}: {error}") from error
    return path
