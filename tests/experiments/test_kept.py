"""Kept rows: nothing that was measured is lost, and what is of another plan is made again."""

from dataclasses import dataclass

from experiments.common import kept
from gossip.config import Config


@dataclass(frozen=True)
class Row:
    """A row of a study."""

    key: str
    loss: float = 0.0
    verdict: str = "converged"
    steps: int | None = 300


def test_a_run_made_here_stands_before_a_kept_one_and_no_kept_one_is_lost() -> None:
    rows = [Row("judged-1"), Row("trial"), Row("judged-0")]
    found = kept.merged([Row("trial", 1.0), Row("other", 1.0)], rows, ["other", "trial", "none"])
    assert found == [Row("other", 1.0), Row("trial", 1.0), Row("judged-1"), Row("judged-0")]


def test_a_row_of_other_steps_is_of_an_older_plan_and_its_run_is_made() -> None:
    rows = [
        Row("same"),
        Row("longer", steps=600),
        Row("shorter", steps=100),
        Row("diverged", verdict="diverged", steps=100),
        Row("unknown", steps=None),
    ]
    found = kept.of_plan(rows, lambda row: 300)
    assert [row.key for row in found] == ["same", "diverged", "unknown"]
    assert list(kept.missing({row.key: Config() for row in rows}, found)) == ["longer", "shorter"]
