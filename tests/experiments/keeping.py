"""A study whose run folders are lost goes on from its committed table."""

from collections.abc import Callable, Sequence
from pathlib import Path
from shutil import rmtree

from experiments.common.scale import Scale, smoke


def assert_table_is_enough(
    folder: Path,
    table: str,
    main: Callable[[Sequence[str]], int],
    publish: Callable[[Scale], None],
) -> None:
    """Without its runs, the smoke study in a folder makes none again and its table stays."""
    scale = smoke(folder)
    before = (scale.results / table).read_bytes()
    rmtree(scale.runs)
    assert main(["--smoke", "--folder", str(folder), "--jobs", "1"]) == 0
    assert not scale.runs.exists()
    publish(scale)
    assert (scale.results / table).read_bytes() == before
