"""Parts that run beside each other: none hides another, and what they print is in their order."""

import os
import signal
import sys

import pytest

from tests import parts
from tests.parts import Part, run_all


def part(name: str, program: str) -> Part:
    return Part(name, (sys.executable, "-c", program))


@pytest.fixture
def ended(capsys):
    """What came of parts, and what was printed."""

    def run(*chosen: Part):
        return run_all(list(chosen), []), capsys.readouterr().out.splitlines()

    return run


def test_parts_print_one_after_the_other_though_they_run_at_once(ended, tmp_path):
    """The first waits for what the second does, and its lines come first all the same."""
    mark = tmp_path / "mark"
    waits = f"""if True:
        import pathlib, time
        print("begins", flush=True)
        while not pathlib.Path({str(mark)!r}).exists():
            time.sleep(0.01)
        print("7 passed in 1 s")"""
    does = f"print('early', flush=True); open({str(mark)!r}, 'w').close()"
    results, lines = ended(part("first", waits), part("second", does))
    said = [line for line in lines if line and not line.startswith((" ", "=="))]
    assert said == ["begins", "7 passed in 1 s", "early"]
    assert [(r.failed, r.counts) for r in results] == [(False, {"passed": 7}), (False, {})]


def test_a_part_that_crashes_or_cannot_be_started_hides_no_other(ended):
    crash = part("crash", "import os; os.abort()")
    none = Part("none", ("/nowhere/python",))
    fails = part("fails", "print('1 failed, 2 passed'); raise SystemExit(1)")
    results, lines = ended(crash, none, fails, part("last", "print('3 passed')"))
    assert [result.code for result in results] == [-signal.SIGABRT, os.EX_UNAVAILABLE, 1, 0]
    assert [result.failed for result in results] == [True, True, True, False]
    assert any("/nowhere/python" in line for line in lines[1:] if not line.startswith("=="))
    assert results[-1].counts == {"passed": 3}


def test_a_parts_cpu_time_is_that_of_its_processes(ended):
    burn = "import time\nwhile time.process_time() < 0.3: pass"
    child = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {burn!r}], check=True)"
    (one, other), _ = ended(part("burns", child), part("sleeps", "import time; time.sleep(0.3)"))
    assert one.cpu_seconds > 0.3 > other.cpu_seconds


def test_what_hangs_is_ended(ended, monkeypatch):
    monkeypatch.setattr(parts, "patience", lambda seconds: 0.2)
    [result], lines = ended(part("hangs", "import time; time.sleep(600)"))
    assert result.code == -signal.SIGTERM
    assert "hangs: still running after 0 s, it is ended" in lines
