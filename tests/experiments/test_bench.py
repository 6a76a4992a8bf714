"""The benchmark's arithmetic, its files, and all of its code at a size that means nothing."""

import csv
import json
import math
import os
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.utils import parameters_to_vector

from experiments.bench import catalogue, command, cost_curve, facts, rows, show
from experiments.bench.engines import environment_kept
from experiments.bench.measure import (
    Meeting,
    StoppedError,
    Times,
    Work,
    hidden_fraction,
    interleaved,
    packed,
    summary,
)
from experiments.bench.rows import COLUMNS, Case, Row, rows_of
from experiments.bench.size import SMOKE
from experiments.bench.stacked import loop_over_modules
from experiments.bench.variants import sent_by_mean, sent_by_mixing
from experiments.bench.workload import Bench, Learner, study_of
from gossip.comm.stacked import Stacked
from gossip.config import Model, Rate
from tests import nursery

NAMES = tuple(catalogue.TABLES)


class Echo(Stacked):
    """A communicator whose other process says twice what this one does."""

    def share(self, value):
        if not isinstance(value, dict):
            return [value, value]
        return [value, {k: [(2 * ms, 2 * cpu) for ms, cpu in v] for k, v in value.items()}]


def test_rounds_are_interleaved_after_all_have_warmed_up():
    calls = []
    works = {name: Work(lambda name=name: calls.append(name)) for name in "ab"}
    times = interleaved(works, 3, Meeting(), 0.0)
    assert calls == ["a"] * 5 + ["b"] * 5 + ["a", "b"] * 3
    assert [len(t.wall) for t in times.values()] == [3, 3]


def test_a_blocks_last_messages_are_waited_for_inside_it():
    calls = []
    work = Work(lambda: calls.append("step"), lambda: calls.append("finish"))
    meeting = Meeting(wait=lambda: calls.append("meet"))
    interleaved({"a": work}, 1, meeting, 0.0)
    assert calls == ["step"] * 3 + ["meet", "step", "finish"] * 3


def test_the_slowest_process_counts_and_the_mean_of_their_cpu_time(monkeypatch):
    clock = iter(range(0, 1000, 4))
    monkeypatch.setattr("experiments.bench.measure.time.perf_counter", lambda: next(clock))
    monkeypatch.setattr("experiments.bench.measure.time.process_time", lambda: next(clock) / 2)
    times = interleaved({"a": Work(lambda: None)}, 2, Meeting(Echo(1)), 0.0)["a"]
    # Calls are 4 s apart: CPU clock, wall clock, wall clock, CPU clock.
    assert times == Times([2 * 4e3] * 2, [1.5 * 6e3] * 2, 1)


def test_ratios_are_taken_round_by_round():
    """A machine that is ten times slower in one round does not change them."""
    base = Times([10.0, 1.0, 1.0], [1.0, 1.0, 1.0], 1)
    got = summary(Times([20.0, 2.0, 3.0], [5.0, 7.0, 6.0], 1), base)
    assert (got.wall, got.cpu, got.ratio) == (3.0, 6.0, 2.0)
    assert (got.first_quartile, got.third_quartile) == (2.5, 11.5)
    assert summary(base, base).ratio == 1.0


@pytest.mark.parametrize(
    ("step", "fraction"), [(10.0, 1.0), (14.0, 0.0), (12.0, 0.5), (16.0, -0.5)]
)
def test_hidden_fraction(step, fraction):
    assert hidden_fraction(10.0, 4.0, step) == fraction


@given(
    st.dictionaries(st.integers(0, 30), st.floats(0.1, 10), min_size=1, max_size=12),
    st.floats(0.1, 30),
)
def test_groups_fit_into_memory_with_their_base_and_lose_only_what_does_not(needs, room):
    base = next(iter(needs))
    groups = packed(needs, base, room)
    others = [name for group in groups for name in group[1:]]
    fitting = [n for n in needs if n != base and needs[base] + needs[n] <= room]
    assert others == fitting
    assert all(group[0] == base for group in groups)
    assert all(sum(needs[n] for n in group) <= room * (1 + 1e-9) for group in groups)


def test_bytes_are_those_of_the_algorithms():
    sent = [sent_by_mixing(t, 16) for t in ("ring", "one-peer-exponential", "complete")]
    assert sent == [2.0, 1.0, 15.0]
    assert sent_by_mean(16) == 2 * 15 / 16


def some_rows() -> list[Row]:
    case = Case(table="t", case="c", learners=4, d=10, batch=2)
    times = {"base": Times([2.0, 6.0], [1.0, 1.0], 3), "b": Times([4.0, 6.0], [2.0, 4.0], 5)}
    return rows_of(case, times, "base")


def test_rows_come_back_from_the_file_as_they_were(tmp_path):
    path, written = tmp_path / "t.csv", some_rows()
    rows.append(written[:1], path)
    rows.append(written[1:], path)
    lines = path.read_text().splitlines()
    assert lines[0] == ",".join(COLUMNS)
    assert len(lines) == 3
    assert repr(rows.read(path)) == repr(written)  # NaN is no NaN's equal
    assert [row.learner_steps_per_s for row in written] == [1000.0, 800.0]
    assert rows.read(tmp_path / "none.csv") == []


def test_the_terminal_shows_a_line_per_row_and_the_bad_in_red():
    assert show.table("title", some_rows()).row_count == 3
    fast, slow = some_rows()
    assert show.over(fast, slow) == "0.67 (0.33)"
    assert "[red]" in show.over(slow, fast)


def test_the_loop_over_modules_takes_the_steps_of_stacked_dpsgd():
    """The two sides of the comparison do the same work, from the same weights."""
    n, float64 = 3, Model(widths=(5,), dtype="float64")
    bench = Bench(study_of(n, 4, dataset="few", model=float64, rate=Rate(lr=0.1)), Stacked(n))
    step, modules = loop_over_modules([Learner.of(bench, j) for j in range(n)])
    for _ in range(3):
        bench.step()
        step()
    found = torch.stack([parameters_to_vector(m.parameters()).detach() for m in modules])
    torch.testing.assert_close(found, bench.state.x, rtol=1e-12, atol=1e-12)


def test_all_processes_stop_before_the_next_block():
    works = {"a": Work(lambda: None)}
    with pytest.raises(StoppedError):
        interleaved(works, 1, Meeting(stopped=lambda: True), 0.0)


def test_what_was_measured_before_ctrl_c_is_kept(tmp_path, monkeypatch, capsys):
    def interrupted(size, meeting):
        yield some_rows()
        raise KeyboardInterrupt

    monkeypatch.setitem(catalogue.TABLES, "mixing", catalogue.Table("t", here=interrupted))
    assert command.main(["--smoke", "--only", "mixing", "monitor", "--out", str(tmp_path)]) == 130
    assert len(rows.read(tmp_path / "mixing.csv")) == 2
    assert not (tmp_path / "monitor.csv").exists()
    assert "load_average_at_end" in json.loads((tmp_path / "machine.json").read_text())
    assert "keeps what was measured" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--only", "trainin"], "did you mean training?"),
        (["--full", "--smoke"], "choose one"),
    ],
)
def test_a_users_mistake_is_one_sentence(tmp_path, capsys, options, said):
    assert command.main([*options, "--out", str(tmp_path / "out")]) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("load", "busy"), [(0.9, False), (1.1, True)])
def test_a_busy_machine_is_held_against_the_numbers(load, busy):
    said = facts.warning({"load_average_at_start": [load, 0.0, 0.0], "cores": 2})
    assert (said is not None) == busy
    assert not busy or "load average 1.1 on 2 cores" in said


def test_peak_memory_is_that_of_the_program_and_not_of_what_it_was_forked_from(
    tmp_path, monkeypatch
):
    status = tmp_path / "status"
    status.write_text("Name:\tpython\nVmPeak:\t 9999 kB\nVmHWM:\t    2048 kB\nVmRSS:\t 1024 kB\n")
    monkeypatch.setattr(cost_curve, "STATUS", status)
    assert cost_curve.peak_mib() == 2.0
    monkeypatch.setattr(cost_curve, "STATUS", tmp_path / "none")
    assert math.isnan(cost_curve.peak_mib())


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Everything, once: in this process, in others, and two under mpirun.

    Over 10 s: there are many rivals, and those under mpirun are imported there.
    """
    path = tmp_path_factory.mktemp("bench")
    with nursery.forking():
        assert command.main(["--smoke", "--out", str(path)]) == 0
    return path


@pytest.mark.parametrize("name", NAMES)
def test_every_table_has_its_rows(folder, name):
    found = rows.read(folder / f"{name}.csv")
    assert {row.table for row in found} == {name}
    assert all(row.wall_ms > 0 and row.cpu_ms >= 0 and row.rounds > 0 for row in found)
    assert all(row.wall_ms_q1 <= row.wall_ms <= row.wall_ms_q3 for row in found)
    bases = [row for row in found if row.variant == row.base]
    assert name == "cost_curve" or {row.case for row in bases} == {row.case for row in found}
    assert all(row.ratio == 1 for row in bases)


def test_columns_that_only_some_tables_fill(folder):
    with (folder / "exchange.csv").open(encoding="utf-8") as file:
        assert tuple(csv.DictReader(file).fieldnames or ()) == COLUMNS
    steps = [row for row in rows.read(folder / "overlap.csv") if row.variant == "step"]
    assert len(steps) == 3
    assert all(math.isfinite(row.hidden) for row in steps)
    curve = rows.read(folder / "cost_curve.csv")
    assert [row.learners for row in curve] == list(SMOKE.curve)
    assert all(row.peak_mib > 10 for row in curve) or not cost_curve.STATUS.exists()
    assert (folder / "cost_curve.png").stat().st_size > 1000


def test_the_machine_is_described(folder):
    found = json.loads((folder / "machine.json").read_text())
    assert found["torch"] == torch.__version__
    assert found["cores"] >= 1
    assert found["mpi_library"]
    assert len(found["load_average_at_start"]) == len(found["load_average_at_end"]) == 3
    assert found["tables"] == list(NAMES)


def test_the_summary_compares_ours_with_each_peer_on_its_topology_and_with_our_best():
    one, two = some_rows()
    ring = {"topology": "ring", "table": "training"}
    mine = replace(two, variant="gossip DPSGD", **ring)
    best = replace(one, variant="gossip SSGD", topology="complete")
    theirs = replace(one, variant="decent-dp", ratio=3.0, **ring)
    (line,) = show.lines([mine, best, theirs])
    assert line[0] == "decent-dp, ring"
    assert (line[1].split()[0], line[2].split()[0]) == ("[red]0.50", "0.33")
    assert line[3] == "gossip SSGD, complete"


def test_workers_leave_the_environment_of_later_jobs_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOSSIP_TEST_KEPT", "before")
    before = dict(os.environ)
    with environment_kept():
        os.environ.update(GOSSIP_TEST_KEPT="after", MALLOC_TRIM_THRESHOLD_="65536")
    assert dict(os.environ) == before
