"""Kept rows: nothing that was measured is lost, and what is of another plan is made again."""

from dataclasses import dataclass

from experiments.common import kept


@dataclass(frozen=True)
class Row:
    """A row of a study."""

    key: str
    loss: float = 0.0


def test_a_run_made_here_stands_before_a_kept_one_and_no_kept_one_is_lost() -> None:
    rows = [Row("judged-1"), Row("trial"), Row("judged-0")]
    found = kept.merged([Row("trial", 1.0), Row("other", 1.0)], rows, ["other", "trial", "none"])
    assert found == [Row("other", 1.0), Row("trial", 1.0), Row("judged-1"), Row("judged-0")]
