"""The curves in the terminal: which cells a line sets, and when a drawing is the last."""

import io

import numpy as np
import pytest
from rich.console import Console

from gossip import trace
from gossip.report.runs import load_runs
from gossip.storage import folder
from gossip.watch.command import main, watch
from gossip.watch.curves import PanelStyle, picture
from gossip.watch.grid import braille, dots, marks
from tests.report import made_up


def printed(runs, width, **look):
    console = Console(width=width, file=io.StringIO())
    console.print(picture(runs, PanelStyle(width, **look)), highlight=False)
    return console.file.getvalue()


def test_the_diagonal_sets_the_anti_diagonal_of_the_grid():
    ends = np.array([0.0, 1.0])
    assert np.array_equal(dots(ends, ends, 8, 8), np.eye(8, dtype=bool)[::-1])


def test_a_gap_is_not_bridged():
    xs, ys = np.linspace(0, 1, 5), np.array([0, 0, np.nan, 1, 1])
    expected = ["   ##", "##   "]
    assert marks(dots(xs, ys, 2, 5), "#") == expected


def test_braille_has_the_dots_of_unicode():
    assert braille(np.eye(4, 2, dtype=bool)) == ["⠑"]  # dots 1 and 5
    assert braille(np.ones((4, 2), bool)) == ["⣿"]
    assert braille(np.zeros((4, 4), bool)) == ["  "]


@pytest.mark.parametrize("width", [40, 60, 120])
def test_a_run_fits_the_terminal(tmp_path, width):
    runs = load_runs([made_up.run(tmp_path / "a")])
    text = printed(runs, width)
    assert max(map(len, text.splitlines())) <= width
    for name in ("train loss", "test error", "alpha_e/alpha", "sigma_w2"):
        assert name in text
    assert any("⠀" < letter <= "⣿" for letter in text)


def test_two_runs_in_ascii_have_a_mark_each(tmp_path):
    made_up.run(tmp_path / "a")
    made_up.run(tmp_path / "b", tables=made_up.config(algorithm="ssgd"))
    text = printed(load_runs([tmp_path]), 40, marks=True)
    assert text.isascii()
    assert "* DPSGD: step 99" in text
    assert "o SSGD: step 99" in text


def test_a_run_that_goes_on_is_drawn_until_its_end(tmp_path):
    out = folder.create(tmp_path / "a")
    folder.write_config(out, made_up.config())
    made = made_up.rows(30)
    console = Console(width=80, file=io.StringIO())
    with trace.Trace(out, made_up.COLUMNS) as writer:
        writer.append(made[:10])
        waits = []

        def wait(seconds):
            waits.append(seconds)
            writer.append(made[10 * len(waits) : 10 * len(waits) + 10])
            if len(waits) == 2:
                folder.write_summary(out, made_up.summary())

        watch([out], every=3.0, console=console, wait=wait)
    assert waits == [3.0, 3.0]
    text = console.file.getvalue()
    assert [text.count(f": step {last}\n") for last in (9, 19, 29)] == [1, 1, 1]


def test_what_goes_on_is_left_with_130(tmp_path, monkeypatch, capsys):
    out = made_up.run(tmp_path / "a", killed=True)

    def interrupted(seconds):
        raise KeyboardInterrupt

    monkeypatch.setitem(watch.__kwdefaults__, "wait", interrupted)
    assert main([str(out)]) == 130
    assert main([str(out), "--once"]) == 0
    assert "step 99" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "expected"), [([], "no run in"), (["--every", "0"], "every=0: give seconds")]
)
def test_a_mistake_is_one_sentence(tmp_path, capsys, words, expected):
    assert main([str(tmp_path), *words]) == 2
    assert capsys.readouterr().err.startswith(f"error: {expected}")
