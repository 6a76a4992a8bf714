"""Phase diagrams: the fastest on each network is the one of the closed forms."""

import csv
from collections import Counter

import numpy as np
import pytest

from gossip.errors import UserError
from gossip.simulate import command, presets
from gossip.simulate.network import Link, Network
from gossip.simulate.phase_diagram import Fastest, Grid, diagram, sentence
from tests.report import made_up
from tests.simulate.networks import flat

N, M, C = 8, 4e6, 0.1
SSGD, RING, PEER = "ssgd by ring all-reduce", "dpsgd on ring", "dpsgd on one-peer-exponential"
SMALL = ["--phase-diagram", "--points", "4", "--steps", "3", "--parameters", "1e6"]


def by_hand(alpha, beta):
    """Seconds a step, the one that averages exactly first."""
    return {
        SSGD: C + 2 * (N - 1) * alpha + 2 * (N - 1) / N * M * beta,
        RING: max(C, alpha + 2 * M * beta),
        PEER: max(C, alpha + M * beta),
    }


def rows(tmp_path, *words):
    file = tmp_path / "phases.csv"
    assert command.main([*SMALL, *words, "--csv", str(file)]) == 0
    with file.open() as lines:
        return list(csv.DictReader(lines))


def test_each_network_is_won_by_the_fastest_of_the_closed_forms(tmp_path, capsys):
    words = ["--topology", "ring", "one-peer-exponential", "--all-reduce", "ring"]
    picture = tmp_path / "phases.svg"
    found = rows(tmp_path, *words, "--points", "6", "--figure", str(picture))
    for row in found:
        seconds = by_hand(float(row["latency"]), 8 / float(row["bandwidth"]))
        as_fast = [name for name, s in seconds.items() if s <= 1.01 * min(seconds.values())]
        assert row["fastest"] == as_fast[0]
        assert float(row["seconds"]) == pytest.approx(seconds[as_fast[0]], rel=1e-12)
        others = {name: s for name, s in seconds.items() if name != as_fast[0]}
        assert float(row["next_seconds"]) == pytest.approx(min(others.values()), rel=1e-12)
    points = {(float(row["bandwidth"]), float(row["latency"])) for row in found}
    np.testing.assert_allclose(sorted({b for b, _ in points}), np.geomspace(1e7, 1e13, 6))
    np.testing.assert_allclose(sorted({a for _, a in points}), np.geomspace(1e-6, 1e-1, 6))
    assert len(points) == 36
    won = Counter(row["fastest"] for row in found)
    assert set(won) == {SSGD, RING, PEER}
    *_, said, table, drawn = capsys.readouterr().out.splitlines()
    assert [table, drawn] == [f"wrote {tmp_path / 'phases.csv'}", f"wrote {picture}"]
    best, count = won.most_common(1)[0]
    assert said.startswith(f"8 learners: {best} is fastest on {count / 36:.0%} of 36 networks; ")
    assert picture.read_text().count("<svg") == 1


def test_learners_of_a_host_keep_what_joins_them():
    """Two hosts of four: a ring crosses twice, and all else of the network stays as it is."""
    fast = Link(latency=1e-6, up=1e12, down=1e12, shared_by="learner")
    slow = Link(latency=1.0, up=1.0, down=2.0, jitter=1e-3, duplex="half")
    network = Network(name="lab", links={"host": fast, "rack": slow}, learners_per_host=4, cores=2)
    made = network.between_hosts(1e-4, 1e9)
    assert made.links["host"] == fast
    assert made.links["rack"] == Link(latency=1e-4, up=1e9, down=1e9, jitter=1e-3, duplex="half")
    assert (made.learners_per_host, made.cores) == (4, 2)


def test_runs_are_timed_to_their_target(tmp_path):
    """SSGD comes there in 20 steps, DPSGD in 30; a third never does."""
    for name, needed in (("ssgd", 20), ("dpsgd", 30), ("atc", 1000)):
        algorithm = "ssgd" if name == "ssgd" else "dpsgd"
        order = {"order": "atc"} if name == "atc" else {}
        tables = {"algorithm": algorithm, "gossip": {"learners": N, "topology": "ring", **order}}
        made = [{"step": t, "test_error": 0.1 if t + 1 >= needed else 0.9} for t in range(50)]
        outcome = made_up.summary(parameters=1e6, steps=50)
        made_up.run(tmp_path / "runs" / name, tables=tables, made=made, outcome=outcome)
    words = [str(tmp_path / "runs"), "--target", "0.1", "--compute", "0.1", "--all-reduce", "ring"]
    for row in rows(tmp_path, *words, "--network", "10GbE"):
        step = by_hand(float(row["latency"]), 8 / float(row["bandwidth"]))
        seconds = {"by ring": 20 * step[SSGD], "dpsgd": 30 * step[RING]}
        winner = min(seconds.values())
        assert float(row["seconds"]) == pytest.approx(winner, rel=1e-9)
        assert ("by ring all-reduce" in row["fastest"]) == (winner == seconds["by ring"])


def test_who_wins_is_said_in_a_sentence():
    cells = [Fastest(1e9 * 10**k, 1e-6, "ab"[k > 2], 1.0, "c", 2.0) for k in range(4)]
    said = "8 learners: a is fastest on 75% of 4 networks; b on 25%, from 1 Tbit/s up."
    assert sentence(cells, "8 learners") == said


def test_one_choice_alone_has_no_next():
    grid = Grid(bandwidths=(1e6, 1e9), latencies=(1e-6, 1e-3), points=2)
    made = diagram(grid, flat(), lambda network: {"a": network.links["rack"].latency})
    assert [(cell.fastest, cell.seconds, cell.next) for cell in made] == [
        ("a", latency, "") for latency in (1e-6, 1e-6, 1e-3, 1e-3)
    ]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [(["--points", "1"], "points=1: it must be at least 2"),
     (["--bandwidths", "0", "1e9"], "bandwidths=0 1e+09: give the least and the largest"),
     (["--latencies", "1", "0.1"], "latencies=1 0.1: give the least and the largest"),
     (["--network", "host.toml"], "has no links between hosts whose bandwidth and latency"),
     (["--learners", "0"], "learners=0: it must be at least 1"),
     (["--algorithm", "dpsgd", "--learners"], "nothing to simulate: give --algorithm")],
)  # fmt: skip
def test_a_mistake_is_answered_in_one_sentence(words, sentence, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "host.toml").write_text("[links.host]\nlatency=0\nbandwidth=1")
    assert command.main([*SMALL, *words]) == 2
    said = capsys.readouterr().err
    assert sentence in said
    assert said.count("\n") == 1


def test_a_target_that_no_run_comes_to_is_said(tmp_path, capsys):
    tables = {"algorithm": "ssgd", "gossip": {"learners": 4}}
    folder = made_up.run(tmp_path / "A", tables=tables, made=made_up.rows(4))
    assert command.main([*SMALL, str(folder), "--target", "0.01"]) == 2
    assert "none of the runs comes to a test error of 0.01" in capsys.readouterr().err


def test_every_preset_has_links_between_hosts():
    for name in presets.PRESETS:
        with_links = presets.network(name).between_hosts(1e-3, 1e6)
        assert with_links.links["rack"].latency == 1e-3
    with pytest.raises(UserError, match="has no links between hosts"):
        Network(name="one host", links={"host": flat().links["host"]}).between_hosts(1e-3, 1e6)
