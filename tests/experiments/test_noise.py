"""The study of DPSGD's noise: its plan, its verdicts, and all of its code on a smoke test."""

from pathlib import Path

import pytest

from experiments.common.scale import smoke
from experiments.noise import claims, command, page, rows
from experiments.noise.arms import ARMS, MATCHED, OWN, SSGD, STRONG
from experiments.noise.groups import Measured
from experiments.noise.plan import RECORDED, follows, key, needed, runs
from experiments.noise.rows import Row
from experiments.noise.size import FULL, SMOKE
from gossip.algorithms.deviations import NOISES
from gossip.algorithms.injected import TWIN_NOISE
from tests.experiments.keeping import assert_table_is_enough


def measured(survivors: dict[str, int]) -> Measured:
    cell = FULL.cells[0]
    made = [
        Row(key=f"{arm}{s}", cell=cell.name, arm=arm, seed=s, steps=1, verdict="", survived=i < k)
        for arm, k in survivors.items()
        for i, s in enumerate(FULL.seeds)
    ]
    return Measured(FULL, cell, tuple(made))


def test_every_kind_of_noise_is_an_arm() -> None:
    injected = {n: arm for n, arm in ARMS.items() if arm.algorithm == "ssgd-injected"}
    assert injected.keys() - set(STRONG) == {*NOISES, TWIN_NOISE} - {OWN}
    assert {injected[name].noise for name in STRONG} < set(NOISES)


def test_arms_differ_in_their_noise_alone() -> None:
    for cell in FULL.cells:
        made = runs("noise", cell, FULL, Path("runs"))
        names = ARMS.keys() - {MATCHED, *STRONG}
        assert len(made) == len(FULL.seeds) * len(names)
        of = {name: made[key(cell, name, 100)] for name in names}
        assert (
            len({(c.data, c.model, c.rate, c.seed, c.steps, c.monitoring) for c in of.values()})
            == 1
        )
        assert {c.gossip.topology for c in of.values()} == {"complete"}


def test_the_matched_arm_follows_the_recorded_run_of_its_seed() -> None:
    cell = FULL.cells[1]
    made = runs("rate", cell, FULL, Path("/runs"))
    follower, leader = (made[key(cell, arm, 107)] for arm in (MATCHED, RECORDED))
    assert follower.rate.lr_trace == f"/runs/{key(cell, RECORDED, 107)}"
    assert (leader.monitoring.monitor_every, follower.algorithm) == (1, ("ssgd",))
    assert (leader.seed, leader.data) == (follower.seed, follower.data)


def test_strong_arms_have_the_strength_of_the_recorded_run_of_their_seed() -> None:
    cell = FULL.cells[1]
    made = runs("strength", cell, FULL, Path("/runs"))
    assert len(made) == len(FULL.seeds) * (1 + len(STRONG))
    for arm in STRONG:
        config = made[key(cell, arm, 107)]
        leader = f"/runs/{key(cell, RECORDED, 107)}"
        options = (f"noise={ARMS[arm].noise}", f"strength_from={leader}")
        assert (config.gossip.algorithm_options, follows(config)) == (options, leader)
    rate = runs("rate", cell, FULL, Path("/runs"))
    assert made[key(cell, RECORDED, 107)] == rate[key(cell, RECORDED, 107)]


@pytest.mark.parametrize(
    ("first", "second", "more", "as_many"),
    [(20, 0, "yes", "yes"), (0, 20, "no", "no"), (10, 10, "open", "open"), (8, 12, "open", "open"),
     (20, 20, "open", "yes"), (14, 4, "yes", "yes")],
)  # fmt: skip
def test_verdicts_are_yes_no_or_open(first: int, second: int, more: str, as_many: str) -> None:
    made = measured({OWN: first, SSGD: second})
    for judge, word in ((claims.more, more), (claims.as_many, as_many)):
        verdict = judge(OWN, SSGD)(made)
        assert verdict is not None
        assert verdict[0] == word


def test_where_no_run_survives_either_way_it_is_no_rescue() -> None:
    made = measured({"isotropic": 0, SSGD: 0})
    words = [judge("isotropic", SSGD)(made) for judge in (claims.more, claims.many_more)]
    assert [verdict and verdict[0] for verdict in words] == ["open", "no"]


def test_nothing_is_judged_before_all_runs_are_there() -> None:
    made = measured({OWN: 20, SSGD: 0})
    half = Measured(FULL, made.cell, made.rows[:-1])
    assert claims.more(OWN, SSGD)(half) is None
    assert claims.more("isotropic", SSGD)(made) is None


def test_recorded_runs_are_made_for_those_that_follow_them_alone() -> None:
    cell, folder = FULL.cells[1], Path("/runs")
    made = runs("rate", cell, FULL, folder)
    assert needed(made, folder) == made
    left = {name: made[name] for name in made if name != key(cell, MATCHED, 107)}
    assert set(made) - set(needed(left, folder)) == {
        key(cell, arm, 107) for arm in (MATCHED, RECORDED)
    }


@pytest.mark.slow
def test_all_runs_are_made_and_shown(tmp_path: Path) -> None:
    assert command.main(["--smoke", "--folder", str(tmp_path), "--jobs", "1"]) == 0
    scale = smoke(tmp_path)
    command.publish(scale)
    page.write(scale)
    (made,) = page.measured(scale)
    assert {row.arm for row in made.rows} == set(ARMS)
    assert len(made.rows) == len(ARMS) * len(SMOKE.seeds)
    assert page.missing([made]) == []
    assert (scale.results / "noise.png").stat().st_size > 1000
    assert "Not run yet" not in page.path(scale).read_text(encoding="utf-8")
    assert_table_is_enough(tmp_path, rows.TABLE, command.main, command.publish)
