"""The printed schedules are those of the papers, iteration by iteration."""

import csv
import math
import re
from dataclasses import replace

import pytest
import torch

from gossip.comm.stacked import Stacked
from gossip.rates import DECAYS, Budget, Controller, RateContext
from gossip.run import parse
from gossip.schedule import Schedule, courses
from gossip.schedule.__main__ import main
from gossip.schedule.course import ONE_LAYER
from gossip.study.rate_rule import budget, rule
from gossip.task import Gradients

IMAGENET = {2**q: (2 ** (2.5 + (q - 10) / 2), 10 / 2 ** (15 - q)) for q in range(10, 16)}
GNMT = {2**q: (2 ** (-0.5 + (q - 8) / 2) / 1000, 0.0145 * 2 ** (q - 8)) for q in range(8, 13)}
LENET = (
    "--preset date --samples 60000 --learners 8 --batch-size 1024 --baseline-batch 1024 "
    "--lr 1.25e-3 --warmup-epochs 2 --epochs 30"
)


def runs(flags: str) -> dict[str, Schedule]:
    """The courses of a command line of gossip.run, and --samples."""
    words = flags.split()
    samples = 60_000
    if "--samples" in words:
        at = words.index("--samples")
        samples = int(words[at + 1])
        del words[at : at + 2]
    config = parse(words).options
    return courses(rule(config.rate, budget(config, samples), ONE_LAYER))


def one(flags: str) -> Schedule:
    return runs(flags)[""]


def peak(course: Schedule) -> float:
    return course.rule.base * course.row(1).scale


def epochs_of_warmup(course: Schedule) -> float:
    return course.rule.warmup.steps / course.rule.budget.steps_per_epoch


# DATE -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch", IMAGENET)
def test_date_on_imagenet(batch):
    course = one(
        f"--preset date --samples 1281167 --learners 1 --batch-size {batch} --epochs 90 "
        f"--baseline-batch 1024 --lr {2**2.5} --warmup-epochs {10 / 2**5}"
    )
    lr, epochs = IMAGENET[batch]
    assert peak(course) == pytest.approx(lr, rel=1e-12)
    assert epochs_of_warmup(course) == pytest.approx(epochs, rel=1e-12)


@pytest.mark.parametrize("batch", GNMT)
def test_date_on_gnmt(batch):
    course = one(
        f"--preset date --samples 3500000 --learners 1 --batch-size {batch} --epochs 2 "
        f"--baseline-batch 256 --lr {2**-0.5 / 1000} --warmup-epochs 0.0145"
    )
    lr, epochs = GNMT[batch]
    assert peak(course) == pytest.approx(lr, rel=1e-12)
    assert epochs_of_warmup(course) == pytest.approx(epochs, rel=1e-12)
    # The same number of warm-up iterations, whatever the batch; about 200 of 256.
    assert course.rule.warmup.steps == pytest.approx(0.0145 * 3_500_000 / 256, rel=1e-12)


def test_date_on_mnist():
    course = one(LENET)
    assert course.rule.warmup.steps == 117.1875
    assert epochs_of_warmup(course) == pytest.approx(16)
    assert course.iterations == 220
    assert course.warm_from == 118
    assert peak(course) == pytest.approx(1.25e-3 * math.sqrt(8), rel=1e-12)
    for i in (1, 60, 117):
        assert course.row(i).lr == pytest.approx(i / 117.1875 * peak(course), rel=1e-12)
    total = 30 * 60_000 / 8192
    for i in (118, 200):
        assert course.row(i).lr == pytest.approx(
            (total - i) / (total - 117.1875) * peak(course), rel=1e-12
        )


def test_date_is_continuous_where_its_warmup_ends():
    """Both branches, continued in exact fractions to i_w = 117.1875, meet at the peak."""
    course = one(LENET)
    one_more = course.row(117).lr + 0.1875 * (course.row(117).lr - course.row(116).lr)
    slope = course.row(119).lr - course.row(118).lr
    one_less = course.row(118).lr - 0.8125 * slope
    assert one_more == pytest.approx(peak(course), rel=1e-12)
    assert one_less == pytest.approx(peak(course), rel=1e-12)


@pytest.mark.parametrize(
    ("reference", "factor"), [("scaled", 1.0032467532467533), ("paper-example", 0.5016233766233766)]
)
def test_the_decay_of_the_worked_example_at_117_of_220(reference, factor):
    """The decay's straight line, drawn back to i = 117, with 220 iterations and w/E = 16/30."""
    limits = Budget(learners=8, batch=1024, samples=60_000, steps=220, baseline_batch=1024)
    setting = RateContext(budget=limits, layers=ONE_LAYER, lr=1.25e-3, warmup=220 * 16 / 30)
    decay = DECAYS["roller-coaster"](setting, reference=reference)
    at_118, at_119 = decay(117 / 220), decay(118 / 220)
    assert at_118 + (at_118 - at_119) == pytest.approx(factor, rel=1e-12)


def test_the_baselines_batch_gives_the_baseline():
    """E4."""
    course = one(
        "--preset date --learners 1 --batch-size 1024 --baseline-batch 1024 --lr 0.5 "
        "--warmup-epochs 2 --epochs 30"
    )
    assert peak(course) == 0.5
    assert epochs_of_warmup(course) == pytest.approx(2)


def test_the_manual_schedule_that_date_is_compared_with():
    """0 to 0.01 in 2 epochs, then x 0.1 at epochs 10, 20 and 27 of 30."""
    milestones = " ".join(str(epoch / 30) for epoch in (10, 20, 27))
    course = one(
        "--samples 61440 --learners 8 --batch-size 1024 --baseline-batch 1024 --lr 0.00125 "
        "--epochs 30 --scaling linear --warmup fixed --warmup-epochs 2 --warmup-options start=0 "
        f"--decay step --decay-at {milestones} --decay-factor 0.1"
    )
    epoch = round(course.rule.budget.steps_per_epoch * 2)  # of two epochs: 15 iterations
    assert course.row(1).lr == pytest.approx(0.01 / epoch)
    assert course.warm_from == epoch
    for number, before, after in [(10, 1e-2, 1e-3), (20, 1e-3, 1e-4), (27, 1e-4, 1e-5)]:
        last = int(number * epoch / 2)
        assert course.row(last).lr == pytest.approx(before)
        assert course.row(last + 1).lr == pytest.approx(before if number % 2 else after)
        assert course.row(last + 2).lr == pytest.approx(after)


def test_a_warmup_longer_than_the_run_never_comes_to_the_peak(capsys):
    assert main([*LENET.split(), "--epochs", "10"]) == 0
    printed = capsys.readouterr()
    assert "longer than the run" in printed.out
    assert "the full learning rate is never reached" in printed.err


# LSW, AdaScale, LENA ----------------------------------------------------------------------------


@pytest.mark.parametrize(("scale", "iterations"), [(8, 4888), (16, 2444), (32, 1222), (64, 611)])
def test_lsw_takes_its_share_of_the_single_learners_iterations(scale, iterations):
    flags = f"--samples {391 * 128} --batch-size 128 --epochs 100 --learners {scale}"
    course = one(f"--preset lsw {flags}")
    assert course.rule.budget.single_worker_steps == pytest.approx(39_100)
    assert course.iterations == iterations
    assert course.rule.warmup.steps == pytest.approx(0.055 * 39_100 / scale)
    # From the base rate to S times as much.
    first = 1 / scale + (1 - 1 / scale) / course.rule.warmup.steps
    assert course.row(1).warm == pytest.approx(first)
    assert course.row(iterations).lr == pytest.approx(1.5 * scale)
    # The published AdaScale runs lie between its bounds.
    bounds = runs(f"--preset adascale {flags}")
    assert bounds["equal"].iterations == 39_100
    assert bounds["orthogonal"].iterations == 1 + math.ceil((39_100 - 1) / scale)
    published = {8: 5850, 16: 3360, 32: 2080, 64: 1410}[scale]
    assert bounds["orthogonal"].iterations < published < bounds["equal"].iterations


def test_the_exponential_decay_comes_to_its_factor_at_the_end_of_the_budget():
    course = one("--decay exponential --steps 1000")
    ratio = course.row(2).lr / course.row(1).lr
    assert course.row(1000).lr * ratio == pytest.approx(0.01 * 1.5, rel=1e-9)
    assert course.rule.decay(1.0) == pytest.approx(0.01)


@pytest.mark.parametrize("preset", ["adascale", "lena", "lena-official"])
@pytest.mark.parametrize("name", ["equal", "orthogonal"])
def test_a_course_is_what_the_rule_gives_step_after_step(preset, name):
    """Told at once or stepped through, and with gradients that really are equal or orthogonal."""
    n, steps = 4, 30
    course = runs(
        f"--preset {preset} --learners {n} --steps {steps} --decay exponential "
        + ("--warmup state-aware --warmup-share 0.1" if preset == "adascale" else "")
    )[name]
    rows = 1e6 * (torch.eye(n, dtype=torch.float64) if name == "orthogonal" else torch.ones(n, n))
    layers = (ONE_LAYER[0]._replace(stop=n, shape=torch.Size([n])),)
    controller = Controller(replace(course.rule, layers=layers), Stacked(n))
    t = 0
    while controller.progress < 1:
        lr = controller.at(t)(rows, Gradients(rows.double(), torch.zeros(n)), rows.double().mean(0))
        assert course.row(t + 1).lr == pytest.approx(float(lr), rel=1e-9)
        t += 1
    assert course.iterations == t


def test_the_state_aware_warmup_ends_between_theta_over_n_and_theta():
    bounds = runs("--preset lena --steps 1500")
    assert bounds["equal"].warm_from == 0.05 * 16 * 1500
    assert bounds["orthogonal"].warm_from == 0.05 * 1500


def test_one_learner_has_one_course():
    assert list(runs("--preset lena --learners 1")) == [""]


# Recipes ----------------------------------------------------------------------------------------


def test_goyal():
    """8192 in a batch: 0.1 to 3.2 in 5 epochs, x 0.1 at epochs 30, 60 and 90 of 100."""
    course = one(f"--preset goyal --samples {8192 * 100} --learners 32 --batch-size 256")
    assert course.iterations == 100 * 100
    assert course.row(1).lr == pytest.approx(0.1 + 3.1 / 500)
    assert course.warm_from == 500
    for epoch, factor in [(30, 1.0), (60, 0.1), (90, 0.01)]:
        assert course.row(100 * epoch).lr == pytest.approx(3.2 * factor)
        assert course.row(100 * epoch + 1).lr == pytest.approx(0.32 * factor)
    assert course.row(10_000).lr == pytest.approx(0.0032)


@pytest.mark.parametrize("batch", [2048, 4096, 8192])
def test_ibm_asr(batch):
    """0.1 to 0.1 B / 256 in 10 epochs, then x 1/sqrt(2) at the start of each of ten more."""
    course = one(
        f"--preset ibm-asr --samples {batch * 50} --learners 16 --batch-size {batch // 16}"
    )
    top = 0.1 * batch / 256
    assert course.iterations == 20 * 50
    assert course.row(1).lr == pytest.approx(0.1 + (top - 0.1) / 500)
    assert course.row(500).lr == pytest.approx(top)
    for k in range(10):
        first = 500 + 50 * k + 1
        for i in (first, first + 49):
            assert course.row(i).lr == pytest.approx(top / math.sqrt(2) ** (k + 1))


def test_wolf_naacl():
    """250 iterations from 0 to 2.5e-4, then half a cosine to 0."""
    course = one("--preset wolf-naacl --samples 64000 --learners 16 --batch-size 16 --epochs 200")
    assert course.iterations == 200 * 250
    assert course.row(1).lr == pytest.approx(2.5e-4 / 250)
    assert course.warm_from == 250
    assert course.row(250).lr == pytest.approx(2.5e-4, rel=1e-4)
    assert course.row(25_001).lr == pytest.approx(1.25e-4)
    assert course.row(50_000).lr == pytest.approx(0, abs=1e-12)


# The command ------------------------------------------------------------------------------------


def first_numbers(text: str) -> list[int]:
    """The first column of a printed table."""
    return [int(found) for found in re.findall(r"^│ +(\d+) │", text, flags=re.M)]


def test_the_command_prints_heading_and_table(capsys):
    assert main(LENET.split()) == 0
    printed = capsys.readouterr().out
    for part in (
        "8 learners x 1024 = 8192 of 60000",
        "k         8 = 8192 / 1024",
        "peak rate 0.003535534 = 0.00125 x 2.828427",
        "117.1875 iterations, 16 epochs (legw)",
        "total     220 iterations",
        "its factor, within [0.1, 10], is left out",
    ):
        assert part in printed
    shown = first_numbers(printed)
    assert shown == sorted(shown)
    assert {1, 118, 220} <= set(shown)
    assert 10 <= len(shown) <= 25


def test_every_decides_the_rows(capsys):
    assert main([*LENET.split(), "--every", "50"]) == 0
    assert first_numbers(capsys.readouterr().out) == [1, 50, 100, 118, 150, 200, 220]


def test_the_samples_are_those_of_the_dataset_less_the_validation_set(capsys):
    assert main(["--dataset", "digits", "--validation", "437"]) == 0
    assert "of 1000 training samples" in capsys.readouterr().out


def test_csv_holds_every_iteration_to_the_last_digit(tmp_path):
    path = tmp_path / "rates.csv"
    assert main([*LENET.split(), "--csv", str(path)]) == 0
    course = one(LENET)
    with path.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [int(row["iteration"]) for row in rows] == list(range(1, 221))
    assert [float(row["lr"]) for row in rows] == [course.row(i).lr for i in range(1, 221)]
    assert float(rows[0]["epoch"]) == 8192 / 60_000


def test_csv_of_two_courses_leaves_the_shorter_empty(tmp_path, capsys):
    path = tmp_path / "rates.csv"
    flags = "--preset adascale --learners 4 --steps 10"
    assert main([*flags.split(), "--csv", str(path)]) == 0
    assert "after 11 to 40 iterations" in capsys.readouterr().out
    with path.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 40
    assert [row["lr_orthogonal"] == "" for row in rows] == [i > 11 for i in range(1, 41)]
    assert float(rows[1]["lr_orthogonal"]) == 4 * float(rows[1]["lr_equal"])


@pytest.mark.parametrize("flags", [LENET, "--preset lena --steps 40"])
def test_a_picture(flags, tmp_path):
    path = tmp_path / "rates.png"
    assert main([*flags.split(), "--plot", str(path)]) == 0
    assert path.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        ("--samples 0", "samples=0: it must be at least 1"),
        ("--every 0", "every=0: it must be at least 1"),
        ("--preset dat", "unknown preset 'dat': did you mean date?"),
        ("--preset date", "give --baseline-batch"),
        ("--dataset mine:data", "say its size with --samples"),
        ("--validation 60000", "nothing is left of mnist's 60000"),
        ("--scaling lena --scaling-options clop=1", "clop"),
        ("--plot rates.bmp", "a figure ends in one of"),
        ("--csv /nowhere/at/all.csv", "cannot write /nowhere/at/all.csv"),
        ("--config /nowhere.toml", "cannot read the config file"),
    ],
)
def test_a_mistake_is_one_sentence(flags, complaint, capsys):
    assert main(flags.split()) == 2
    said = capsys.readouterr().err
    assert said.startswith("gossip.schedule: ")
    assert complaint in said
    assert said.count("\n") == 1
