"""--fit: constants come back from the seconds they made, and residuals say where they cannot."""

from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace

import pytest

from gossip.comm.stacked import Stacked
from gossip.errors import UserError
from gossip.report.runs import load_runs
from gossip.simulate import command, fit, fitting, observed, pingpong, presets
from gossip.simulate.compute import ComputeTimes
from gossip.simulate.engine import simulate
from gossip.simulate.fit import Timing
from gossip.simulate.presets import uniform
from tests.report import made_up
from tests.simulate.settings import setting

ALPHA, BANDWIDTH = 3e-4, 4e7


def seen(algorithm, topology, row_bytes, *, n=8, compute=1e-4, off=1.0):
    """An observation of a step that takes `off` times what the simulator says."""
    made = setting(algorithm, n, topology, row_bytes=row_bytes, compute=ComputeTimes(n, compute))

    def predict(network):
        return simulate(replace(made, network=network), 6).seconds_per_step

    seconds = off * predict(uniform("true", ALPHA, BANDWIDTH))
    return Timing(f"{algorithm} {topology} {row_bytes:g}", seconds, predict)


def test_what_made_the_seconds_is_found_again():
    made = [seen("awc", "ring", 1e3), seen("awc", "ring", 1e6), seen("ssgd", "ring", 1e5)]
    fitted = fit.fit(made)
    assert fitted.latency == pytest.approx(ALPHA, rel=1e-4)
    assert fitted.bandwidth == pytest.approx(BANDWIDTH, rel=1e-4)
    assert abs(fitted.errors).max() < 1e-6
    assert fitted.undetermined == ()
    unseen = seen("atc", "exponential", 3e5)
    assert unseen.predict(fitted.network()) == pytest.approx(unseen.seconds, rel=1e-4)


def test_errors_that_cannot_be_fitted_are_shared_and_said():
    pair = [seen("awc", "ring", 1e6), seen("awc", "ring", 1e6, off=1.21)]
    fitted = fit.fit([*pair, seen("awc", "ring", 1e3)])
    # In logarithms the middle of 1 and 1.21 is 1.1.
    assert fitted.errors[:2] == pytest.approx([0.1, 1.1 / 1.21 - 1], abs=1e-4)
    assert "off by 9.1% in the median of 3, and by 10.0% at worst" in fit.sentence(fitted)


def test_what_no_measurement_depends_on_is_said_to_be_open():
    hidden = [seen("awc", "ring", 1e3, compute=5.0), seen("awc", "matching", 1e3, compute=5.0)]
    assert set(fit.fit(hidden).undetermined) == {"latency", "bandwidth"}
    large = [seen("awc", "ring", 1e10), seen("awc", "one-peer-exponential", 1e10)]
    assert fit.fit(large).undetermined == ("latency",)
    assert "The latency is not determined" in fit.sentence(fit.fit(large))


def test_the_file_is_the_network(tmp_path):
    fitted = fit.fit([seen("awc", "ring", 1e3), seen("awc", "ring", 1e6)])
    file = tmp_path / "lab.toml"
    file.write_text(fit.toml(fitted, "a test"))
    link = presets.network(str(file)).links["rack"]
    assert (link.latency, link.up, link.down) == pytest.approx(
        (ALPHA, BANDWIDTH, BANDWIDTH), rel=1e-4
    )
    assert "# 0.0503, 0.0503, " in file.read_text()


def test_one_measurement_or_none_that_took_time_is_refused():
    with pytest.raises(UserError, match="1 measurement to fit latency and bandwidth to"):
        fit.fit([seen("awc", "ring", 1e3)])
    nothing = [seen("awc", "ring", 1e3, off=0.0)] * 2
    with pytest.raises(UserError, match=r"measured 0\.0 seconds; it must be above 0"):
        fit.fit(nothing)


class Pair(Stacked):
    """Two learners that say they are two processes."""

    def __init__(self, n):
        super().__init__(n)
        self.processes = 2

    def share(self, value):
        return [value, value]


def test_a_ping_pong_is_an_exchange_of_pairs_through_the_communicator(monkeypatch):
    clock = iter(float(k) for k in range(10_000))
    monkeypatch.setattr(pingpong, "time", SimpleNamespace(perf_counter=lambda: next(clock)))
    comm = Pair(4)
    seen = pingpong.measure(comm)
    assert [each.seconds for each in seen] == [1.0] * len(pingpong.BYTES)
    assert comm.traffic.messages_per_learner == len(seen) * (pingpong.ROUNDS + 1)
    for each, size in zip(seen, pingpong.BYTES, strict=True):
        assert each.predict(uniform("n", ALPHA, BANDWIDTH)) == pytest.approx(
            ALPHA + size / BANDWIDTH
        )


def run(folder, wait, *, topology="ring", parameters=10**6, processes=16, **tables):
    seconds = {"data": 1.0, "gradient": 2.0, "communication_wait": wait, "optimizer": 3.0}
    outcome = made_up.summary(
        parameters=parameters, learners=16, processes=processes, steps=100, wall_seconds=seconds
    )
    settings = {"algorithm": "dpsgd", "gossip": {"learners": 16, "topology": topology}}
    return made_up.run(folder, tables=settings | tables, outcome=outcome)


def test_runs_are_explained_by_their_own_steps(tmp_path, capsys):
    m = 4e6
    wait = {name: 100 * (ALPHA + d * m / BANDWIDTH) - 2 for name, d in (("ring", 2), ("star", 15))}
    runs = [run(tmp_path / name, wait[name], topology=name) for name in wait]
    file = tmp_path / "lab.toml"
    assert command.main([*map(str, runs), "--fit", str(file)]) == 0
    assert "off by 0.0% in the median of 2" in (said := capsys.readouterr().out)
    assert said.count("a gradient takes 0.02 s (--compute)") == 2
    assert presets.network(str(file)).links["rack"].up == pytest.approx(BANDWIDTH, rel=0.01)


def test_rounds_longer_than_the_simulation_are_simulated_whole(tmp_path):
    settings = {
        "algorithm": "diloco",
        "gossip": {"learners": 16, "algorithm_options": ["every=40"]},
    }
    seconds = {"data": 0.0, "gradient": 2.0, "communication_wait": 0.0, "optimizer": 0.0}
    outcome = made_up.summary(
        parameters=10**6, learners=16, processes=16, steps=100, wall_seconds=seconds
    )
    made = observed.observation(
        load_runs([made_up.run(tmp_path / "run", tables=settings, outcome=outcome)])[0]
    )
    # A ring all-reduce: 2 (n - 1) messages of M / n, in one of 40 steps.
    mean = 30 * (ALPHA + 4e6 / 16 / BANDWIDTH)
    assert made.predict(uniform("n", ALPHA, BANDWIDTH)) == pytest.approx(0.02 + mean / 40)


class Second(Pair):
    """The second of two processes, whom the first tells that all is well."""

    def __init__(self, n):
        super().__init__(n)
        self.process = 1

    def share(self, value):
        return [(None, None), value]


def test_the_first_process_alone_fits_to_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(fitting, "connect", lambda backend, n: Second(2))
    monkeypatch.setattr(fitting, "ending_the_job", lambda *_: nullcontext())
    runs = [run(tmp_path / name, 1.0, topology=name) for name in ("ring", "star")]
    fitting.fit_to(runs, tmp_path / "lab.toml")
    assert not (tmp_path / "lab.toml").exists()
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    "words", [["--csv", "x.csv"], ["--figure", "x.png"], ["--topology", "star"]]
)
def test_options_that_fit_does_not_look_at_are_refused(words, tmp_path, capsys):
    assert command.main([str(tmp_path), "--fit", str(tmp_path / "lab.toml"), *words]) == 2
    error = capsys.readouterr().err
    assert f"simulates nothing else: leave {words[0]} away" in error
    assert error.count("\n") == 1


def test_what_cannot_be_fitted_to_is_answered_in_one_sentence(tmp_path, capsys):
    stacked = run(tmp_path / "stacked", 1.0, processes=1)
    slowed = run(tmp_path / "slowed", 1.0, reliability={"straggler": "lognormal"})
    killed = made_up.run(tmp_path / "killed", killed=True)
    file = str(tmp_path / "x.toml")
    for words, said in (
        ([str(stacked)], "16 learners in 1 process(es); latency and bandwidth show where"),
        ([str(slowed)], "its learners were slowed on purpose"),
        ([str(killed)], "it has no timing (was it killed?)"),
        ([], "only one process, which sends nothing"),
    ):
        assert command.main([*words, "--fit", file]) == 2
        error = capsys.readouterr().err
        assert said in error
        assert error.count("\n") == 1
    assert command.main([str(stacked), "--fit", "x.csv"]) == 2
    assert "a network is a .toml file" in capsys.readouterr().err
