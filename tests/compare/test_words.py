"""What tables and pictures call the error, and what it leaves of 1."""

from dataclasses import replace

import pytest

from gossip.compare import metrics, pictures, table
from gossip.compare.comparison import Comparison
from gossip.compare.lines import lines
from gossip.compare.plan import choose_values, entries
from gossip.compare.rows import rows
from gossip.config import Config, Data
from gossip.loop.outcome import OF_NUMBERS
from tests.compare.runs import run


@pytest.mark.parametrize(
    ("error", "score", "other"), [("error", "accuracy", "R^2"), (OF_NUMBERS, "R^2", "ccuracy")]
)
def test_a_comparison_says_of_what_its_errors_are(error: str, score: str, other: str) -> None:
    base = Config(epochs=1.0, data=Data(dataset="digits", batch_size=10, validation=50))
    both = Comparison(methods=("lsw", "dpsgd"), learners=(2,), seeds=(0,), samples=100, base=base)
    judged = run([0.9, 0.25], [0.9, 0.3])
    found = {e.key: replace(judged, config={"record": {"error": error}}) for e in entries(both)}
    said = metrics.score(found.values())
    assert said == score
    made = rows(both, choose_values(both, found), found)
    page = table.markdown(made, said, "title", table.meaning(both, made, said))
    assert f"| n | batch | method | {score} | best |" in page
    assert "| 75.00 % |" in page
    assert f"{score}: on held-out training samples" in page
    assert f"test: {score} on the test set" in page
    drawn, looks = lines(made), pictures._looks(lines(made))
    figures = [
        pictures.score_figure(drawn, looks, said),
        pictures.epochs_figure(drawn, looks, said),
        pictures.curves_figure(drawn, looks, found),
    ]
    texts = [
        text
        for figure in figures
        for axes in figure.axes
        for text in (axes.get_title("left"), axes.get_ylabel())
    ]
    assert f"{score} in %, mean ± std over seeds" in texts
    assert f"Epochs to the target {score}" in texts
    assert f"{error} in %" in texts
    assert not any(other in text for text in (page, *texts))
