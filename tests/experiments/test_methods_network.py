"""Methods between hosts: what the tables say of a target, and that rivals train as ours do."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from experiments.common import hosts
from experiments.common.learners import ask, learners, module
from experiments.common.scale import smoke
from experiments.methods import command
from experiments.methods.network import claims, measured, rows, section
from experiments.methods.network.learner import Answer, Question
from experiments.methods.network.rows import Measured, Run, Steps
from experiments.methods.network.size import FULL, MNIST, SMOKE, TEXT, Network, Size
from experiments.methods.network.ways import BASELINE, WAYS, compared
from tests import nursery

LAN = MNIST.networks[0]
RATES = MNIST.task.rates


def steps(way: str, step: float, network: Network = LAN) -> Steps:
    return Steps(
        mbits=network.mbits, delay_ms=network.delay_ms, way=way, turns=1, timed=20,
        first=100 * step, step=step, slowest=step, first_bytes=3e6, step_bytes=1e5,
    )  # fmt: skip


def runs(way: str, reached: list[float], best: int = 1) -> list[Run]:
    """Trials, of which one wins, and judged runs at it with these steps to the target."""
    losses = [0.5 + (i != best) for i in range(len(RATES))]
    tried = [
        Run(way=way, trial=i, lr=lr, seed=MNIST.task.tuning_seed, validation_loss=losses[i],
            test_loss=losses[i])
        for i, lr in enumerate(RATES)
    ]  # fmt: skip
    return tried + [
        Run(way=way, trial=best, lr=RATES[best], seed=s, test_loss=0.4, reached=value)
        for s, value in zip(MNIST.task.seeds, reached, strict=True)
    ]


@pytest.mark.parametrize("size", FULL.values(), ids=FULL)
def test_all_ways_have_equally_many_trials(size: Size) -> None:
    tried = {name: way.trials(size.task) for name, way in compared(size).items()}
    assert {len(set(each)) for each in tried.values()} == {len(size.task.rates)}
    assert set(tried) == set(size.ways or WAYS)
    assert BASELINE in tried
    assert "after=10" in tried["post-local"][0].options
    assert "delay=4" in tried["streaming"][0].options


def test_seconds_to_a_target_are_those_of_a_first_round_and_the_steps_behind_it() -> None:
    never = math.nan
    made = Measured(MNIST, runs("ddp", [5, 10, 40]), [steps("ddp", 0.1)])
    assert made.chosen("ddp") == 1
    assert made.target == MNIST.task.slack * 0.5
    assert made.seconds(LAN, "ddp") == pytest.approx([5, 10, 10 + 30 * 0.1])
    assert made.megabytes("ddp") == pytest.approx([1.5, 3, 3 + 30 * 0.1])
    assert made.seconds(MNIST.networks[1], "ddp") is None
    assert Measured(MNIST, made.runs[:-1], made.steps).seconds(LAN, "ddp") is None
    late = Measured(MNIST, runs("ddp", [5, never, 40]), made.steps)
    assert math.isnan(rows.mean(late.seconds(LAN, "ddp")))
    assert Measured(MNIST, made.runs[1:], []).chosen("ddp") is None
    assert math.isnan(Measured(MNIST, made.runs[1:], []).target)


@pytest.mark.parametrize(
    ("ours", "theirs", "sooner", "no_slower"),
    [
        ([20, 21, 20], [40, 41, 40], "yes", "yes"),
        ([41, 41, 41], [40, 40, 40], "no", "yes"),
        ([80, 81, 80], [40, 40, 41], "no", "no"),
        ([20, math.nan, 20], [40, 40, 40], "no", "no"),
        ([20, 20, 20], [40, math.nan, 40], "yes", "yes"),
    ],
)
def test_verdicts_are_on_ratios_of_one_seed(
    ours: list[float], theirs: list[float], sooner: str, no_slower: str
) -> None:
    made = Measured(
        MNIST,
        runs("one-peer", ours) + runs(BASELINE, theirs),
        [steps("one-peer", 0.1), steps(BASELINE, 0.1)],
    )
    for judge, word in ((claims.sooner, sooner), (claims.no_slower, no_slower)):
        verdict = judge(*LAN, "one-peer", BASELINE)(made)
        assert verdict is not None
        assert verdict[0] == word
    assert claims.fewer_bytes("one-peer", BASELINE)(made) is not None
    assert claims.first(*LAN)(made) is None  # others are missing


def test_who_is_first_is_said_with_who_is_before(tmp_path: Path) -> None:
    made = Measured(
        MNIST,
        [row for way in WAYS for row in runs(way, [30, 30, 30])],
        [steps(way, {"decent-ring": 0.1, "diloco": 0.2}.get(way, 0.4)) for way in WAYS],
    )
    verdict = claims.first(*LAN)(made)
    assert verdict == (False, "DiLoCo: 24 s, place 2 behind decent-dp, ring: 12 s")
    assert list(section._losing(made)) == [
        "10 Mbit/s, 0 ms: the first of ours is DiLoCo, 24 s; sooner are decent-dp, ring (2 times)."
    ]


def test_tables_hold_the_rows_of_all_tasks(tmp_path: Path) -> None:
    made = Measured(MNIST, runs("ddp", [30, 30, 30]), [steps("ddp", 0.1)])
    text = Measured(
        TEXT,
        [replace(run, task=TEXT.name) for run in runs("dpsgd", [20, 20, 20])],
        [replace(steps("dpsgd", 0.2, TEXT.networks[0]), task=TEXT.name)],
    )
    for each in (text, made, text):
        rows.write(each, tmp_path)
    for each in (text, made):
        found = rows.read(tmp_path, each.size)
        assert [run.key for run in found.runs] == [run.key for run in each.runs]
        assert [(row.network, row.way) for row in found.steps] == [
            (row.network, row.way) for row in each.steps
        ]


def test_ways_have_their_turns_together_and_slow_ones_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, int]] = []
    each = {"dpsgd": 0.01, BASELINE: 1.0}

    def answer(who: object, question: dict[str, Any]) -> list[dict[str, object]]:
        way, behind = question["way"], question["steps"] - question["warm"]
        asked.append((way, behind))
        first, rest = (each[way] * count for count in (question["warm"], behind))
        found = Answer(first=first, rest=rest, first_bytes=10, rest_bytes=behind)
        return [msgspec.to_builtins(found)] * 2

    monkeypatch.setattr(measured, "ask", answer)
    size = replace(MNIST, ways=tuple(each), networks=(LAN,))
    made = Measured(size, [row for way in each for row in runs(way, [30, 30, 30])], [])
    job = measured._Job(smoke(tmp_path), [], made)
    job.steps_on(LAN, None)
    assert asked == [("dpsgd", 0), ("dpsgd", 80), ("ddp", 0), ("ddp", 20), ("dpsgd", 80)]
    assert [(row.way, row.step, row.turns) for row in job.made.steps] == [
        ("dpsgd", pytest.approx(0.01), 2),
        ("ddp", pytest.approx(1.0), 1),
    ]
    job.steps_on(LAN, None)
    assert len(asked) == 5  # what is there is not measured again


def test_where_no_hosts_can_be_made_the_command_says_why(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setattr(hosts, "why_not", lambda: "it needs root")
    assert command.main(["--parts", "network"]) == 2
    assert capsys.readouterr().err == "error: no hosts can be made here: it needs root\n"
    assert command.main(["--parts", "netwrok"]) == 2
    assert "netwrok" in capsys.readouterr().err


@pytest.mark.slow
def test_rivals_train_as_ours_do(tmp_path: Path) -> None:
    """DDP is SSGD, torch's post-local SGD is ours, and bf16 rounds; processes of one host.

    Over 10 s: two processes train by each way on two tasks, on several seeds, a hundred times.
    """
    with nursery.forking():
        assert command.main(["--smoke", "--parts", "network", "--folder", str(tmp_path)]) == 0
    scale = smoke(tmp_path)
    for size in SMOKE.values():
        assert_alike(rows.read(scale.results, size))
    text = "\n".join(section.parts(scale))
    assert all(way.label in text for way in WAYS.values())
    assert "nan" not in text.split()


def assert_alike(made: Measured) -> None:
    task = made.size.task
    loss = {(run.way, run.seed): run.test_loss for run in made.runs}
    for seed in (*task.seeds, task.tuning_seed):
        ddp = loss["ddp", seed]
        assert loss["ssgd", seed] == pytest.approx(ddp, rel=1e-5)
        assert loss["torch-post-local", seed] == pytest.approx(loss["post-local", seed], rel=1e-5)
        assert loss["post-local", seed] != pytest.approx(ddp, rel=1e-5)
        assert loss["ddp-bf16", seed] == pytest.approx(ddp, rel=1e-2)
    assert any(loss["ddp-bf16", seed] != loss["ddp", seed] for seed in task.seeds)
    assert (
        {run.way for run in made.runs}
        == {each.way for each in made.steps}
        == set(compared(made.size))
    )
    assert all(math.isfinite(run.validation_loss) for run in made.runs)
    assert all(each.step > 0 and each.first > 0 for each in made.steps)


@pytest.mark.slow
def test_between_hosts_an_interface_sends_what_the_way_says() -> None:
    """Of two, both an all-reduce and a ring send one row a step; a round sends one in H."""
    if (reason := hosts.why_not()) is not None:
        pytest.skip(f"no hosts can be made here: {reason}")
    sent = {}
    with hosts.hosts(2, first=()) as made:
        made.shape(100e6, 0)
        words = module("experiments.methods.network.learner")
        commands = [made.command(j, words) for j in range(2)]
        with learners(commands, hosts.address(0), 29_700, hosts.INTERFACE) as started:
            for way in ("ddp", "dpsgd", "diloco"):
                question = Question(
                    smoke=True, task=MNIST.name, way=way, trial=0, seed=0, warm=4, steps=24
                )
                found = ask(started, msgspec.to_builtins(question))
                sent[way] = sum(each["rest_bytes"] for each in found) / 2 / 20
    row = 4 * (64 * 8 + 8 + 8 * 10 + 10)
    for way, share in (("ddp", 1.0), ("dpsgd", 1.0), ("diloco", 1 / SMOKE[MNIST.name].task.every)):
        assert share * row < sent[way] < share * row + row, way  # headers and acknowledgements
