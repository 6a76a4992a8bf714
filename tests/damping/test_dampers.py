"""Dampers as formulas: schedules of the paper, invariants, and a battery over the table."""

import math
from collections import Counter
from dataclasses import fields
from statistics import fmean

import pytest

from gossip.checkpoint.tree import flattened, rebuilt
from gossip.damping import (
    DAMPERS,
    AdaDamp,
    AdaDampNN,
    CntsDampLR,
    ConstantBatch,
    GeoDamp,
    GeoDampLR,
    GradientDescent,
    Noise,
    NoiseScale,
    PadaDamp,
    RadaDamp,
    Seen,
    count,
    planned,
)
from gossip.errors import UserError

N = 50_000


def seen(k, **values):
    return Seen(update=k, samples=values.pop("samples", 0), population=N, **values)


def course(damper, each):
    """Dampings of updates at each of which the damper sees `each`[k]."""
    state, dampings = damper.init(), []
    for look in each:
        damping, state = damper.update(look, state)
        dampings.append(damping)
    return dampings


@pytest.mark.parametrize(
    ("initial", "cap", "batches", "rates", "updates", "in_one_stream"),
    [
        (128, 128, (128, 128, 128, 128), (1, 1 / 5, 1 / 25, 1 / 125), 78_200, 78_125),
        (128, 640, (128, 640, 640, 640), (1, 1, 1 / 5, 1 / 25), 34_520, 34_376),
        (128, 3_200, (128, 640, 3_200, 3_200), (1, 1, 1, 1 / 5), 29_480, 29_376),
        (128, math.nan, (128, 640, 3_200, 16_000), (1, 1, 1, 1), 29_240, 29_127),
        (256, 5_120, (256, 1_280, 5_120, 5_120), (1, 1, 0.8, 0.16), 14_960, 14_845),
    ],
)
def test_geodamp_has_the_schedules_and_update_counts_of_the_paper(
    initial, cap, batches, rates, updates, in_one_stream
):
    damper = GeoDamp(initial=initial, max_batch=cap, delay=60, factor=5)
    plan = list(planned(damper, 200, N, whole_epochs=True))
    assert len(plan) == updates
    assert sum(1 for _ in planned(damper, 200, N)) == in_one_stream
    for segment, (batch, rate) in enumerate(zip(batches, rates, strict=True)):
        part = {p.damping for p in plan if 60 * segment <= p.epoch < 60 * (segment + 1)}
        assert {d.batch for d in part} == {batch}
        assert [*{d.lr_factor for d in part}] == [pytest.approx(rate, rel=1e-15)]


def test_one_stream_rounds_up_once():
    plan = list(planned(GeoDamp(initial=128, delay=60, factor=5, max_batch=128), 200, N))
    assert len(plan) == math.ceil(200 * N / 128)
    assert [p.epoch * N for p in plan[:3]] == [0, 128, 256]


def test_learners_draw_a_batch_each():
    one = list(planned(GeoDamp(initial=32, delay=1, factor=2, max_batch=256), 4, 4_096))
    four = planned(GeoDamp(initial=8, delay=1, factor=2, max_batch=64), 4, 4_096, learners=4)
    assert [(p.epoch, p.damping.batch) for p in one] == [
        (p.epoch, 4 * p.damping.batch) for p in four
    ]


def test_the_rate_falls_only_at_the_cap():
    damper = GeoDamp(initial=4, max_batch=8, delay=3, factor=2)
    dampings = course(damper, [seen(k, samples=3 * k * N) for k in range(6)])
    assert [d.batch for d in dampings] == [4, 8, 8, 8, 8, 8]
    assert [d.lr_factor for d in dampings] == [1, 1, 1 / 2, 1 / 4, 1 / 8, 1 / 16]


def test_the_rate_comes_back_below_the_cap():
    losses = [8.0, 1.0, 8.0]
    looks = [seen(k, training_loss=loss) for k, loss in enumerate(losses)]
    dampings = course(AdaDamp(initial=4, max_batch=16, dwell=1, wait=0), looks)
    assert [(d.batch, d.lr_factor) for d in dampings] == [(4, 1.0), (16, 0.5), (4, 1.0)]


def test_geodamp_lr_is_step_decay():
    looks = [seen(k, samples=k * N) for k in range(12)]
    dampings = course(GeoDampLR(initial=32, delay=3, factor=5), looks)
    assert {d.batch for d in dampings} == {32}
    assert [d.lr_factor for d in dampings] == [pytest.approx(5.0 ** -(k // 3)) for k in range(12)]


def test_geodamp_lr_falls_to_nothing_without_overflow():
    (damping,) = course(GeoDampLR(initial=32, delay=1e-3), [seen(0, samples=10 * N)])
    assert 0 < damping.lr_factor < 1e-12


def test_padadamp_adds_a_constant():
    dampings = course(PadaDamp(initial=3, rate=0.1), [seen(k) for k in range(50)])
    assert [d.batch for d in dampings] == [3 + -(-k // 10) for k in range(50)]


def test_cntsdamp_lr_falls_as_one_over_k():
    dampings = course(CntsDampLR(initial=10, rate=2), [seen(k) for k in range(50)])
    assert [d.lr_factor for d in dampings] == [10 / (13 + 2 * k) for k in range(50)]


def test_gradient_descent_takes_all():
    assert course(GradientDescent(initial=8), [seen(0)])[0].batch == N
    assert course(GradientDescent(initial=8), [seen(0, learners=16)])[0] == (N // 16, 1.0, N // 16)


@pytest.mark.parametrize(
    ("damper", "field"), [(AdaDamp, "training_loss"), (AdaDampNN, "training_gradient_square")]
)
def test_adadamp_begins_at_the_first_batch_and_grows_as_what_it_follows_falls(damper, field):
    values = [2.0 * 0.9**k for k in range(40)]
    looks = [seen(k, **{field: value}) for k, value in enumerate(values)]
    batches = [d.batch for d in course(damper(initial=32, dwell=1, wait=0), looks)]
    assert batches[0] == 32
    assert batches == sorted(batches)
    assert batches == [math.ceil(round(32 * 0.9**-k, 9)) for k in range(40)]


def test_adadamp_measures_from_the_best_loss():
    looks = [seen(0, training_loss=2.0), seen(1, training_loss=1.1)]
    damper = AdaDamp(initial=32, dwell=1, wait=0, best_train_loss=1.0)
    assert course(damper, looks)[1].batch == 320
    with pytest.raises(UserError, match=r"best_train_loss=2.0 is not below the first"):
        course(AdaDamp(best_train_loss=2.0), looks)


def test_a_loss_that_is_not_finite_gives_the_noisiest_batch():
    looks = [seen(0, training_loss=2.0), seen(1, training_loss=math.nan)]
    assert course(AdaDamp(initial=32, dwell=1, wait=0), looks)[1].batch == 1


def test_where_nothing_is_left_the_batch_is_the_largest():
    looks = [seen(0, training_loss=2.0), seen(1, training_loss=0.0)]
    damping = course(AdaDamp(initial=32, dwell=1, wait=0, max_batch=64), looks)[1]
    assert damping.batch == 64
    assert 0 < damping.lr_factor < 1e-12


def test_dwell_and_wait_say_when_the_loss_is_looked_at():
    damper = AdaDamp(initial=32)
    looked = [k for k in range(165) if damper.looks_at(k)]
    assert looked == [0, 100, 120, 140, 160]
    assert not GeoDamp().looks_at(0)


@pytest.mark.parametrize(("reduction", "reduced"), [("min", min), ("mean", fmean)])
def test_radadamp_stays_up_to_its_first_evaluation_and_grows_by_its_formula(reduction, reduced):
    damper = RadaDamp(initial=100, dwell=2, wait=4, reduction=reduction)
    losses, squares = [4.0, 8.0, 6.0, 6.0, 2.0, 3.0], [10.0, 30.0, 20.0, 20.0, 15.0, 8.0]
    looks = [
        seen(k, loss=loss, gradient_square=square)
        for k, (loss, square) in enumerate(zip([None, *losses], [None, *squares], strict=True))
    ]
    batches = [d.batch for d in course(damper, looks)]
    # Those of updates 0 to 3 are the first values, those of 4 and 5 enter the averages.
    left = [0.2 + 0.8 * reduced(v[4:]) / reduced(v[:4]) for v in (losses, squares)]
    assert batches == [100] * 6 + [math.ceil(100 / fmean(left))]


def test_noise_scale_is_the_ratio_of_averages_shared_by_the_learners():
    damper = NoiseScale(initial=2, dwell=1, wait=0, theta=0.5, scale=2.0)
    noises = [None, Noise(1e3, 2.0), Noise(3e3, -0.5), Noise(math.nan, 1.0), Noise(1e3, -2.0)]
    looks = [seen(k, noise=noise, learners=4) for k, noise in enumerate(noises)]
    batches = [d.batch for d in course(damper, looks)]
    ratio = (0.25 * 1e3 + 0.5 * 3e3) / (0.25 * 2 + 0.5 * -0.5)
    assert batches == [2, 250, 2 * ratio / 4, 2 * ratio / 4, N // 4]


@pytest.mark.parametrize("signal", [-9.0, 0.0, 1e-300, 1e-12])
def test_a_signal_lost_in_the_noise_gives_the_largest_batch_at_the_full_rate(signal):
    looks = [seen(0), seen(1, noise=Noise(5.0, signal), learners=4)]
    damping = course(NoiseScale(initial=2, dwell=1, wait=0), looks)[1]
    assert damping == (N // 4, 1.0, N // 4)


@pytest.mark.parametrize("lost", [math.nan, math.inf])
@pytest.mark.parametrize(
    ("damper", "field"), [(AdaDamp, "training_loss"), (AdaDampNN, "training_gradient_square")]
)
def test_the_first_value_that_is_finite_is_what_others_are_compared_with(damper, field, lost):
    looks = [seen(k, **{field: value}) for k, value in enumerate([lost, 2.0, 0.5])]
    assert [d.batch for d in course(damper(initial=8, dwell=1, wait=0), looks)] == [1, 8, 32]


BATTERY = [seen(0, training_loss=1.0, training_gradient_square=1.0)] + [
    seen(
        k,
        samples=500 * k,
        loss=1 / k,
        gradient_square=1 / k,
        noise=Noise(100.0 * k, 1.0),
        training_loss=1 / (1 + k),
        training_gradient_square=1 / (1 + k),
    )
    for k in range(1, 300)
]


def in_battery(name):
    """A damper that moves within the battery, and meets its cap."""
    given = {"delay": 0.5, "rate": 0.5}
    kind = DAMPERS[name]
    known = {field.name for field in fields(kind)}
    cap = {} if name.endswith("-lr") else {"max_batch": 150}
    return kind(initial=30, **cap, **{k: v for k, v in given.items() if k in known})


@pytest.mark.parametrize("name", DAMPERS)
def test_the_noise_level_is_that_of_the_batch_without_a_cap(name):
    dampings = course(in_battery(name), BATTERY)
    for d in dampings:
        assert d.lr_factor / d.batch == pytest.approx(1 / d.damping, rel=1e-15)
        assert isinstance(d.batch, int)
        assert 1 <= d.batch <= 150
    moved = {d.damping for d in dampings}
    assert len(moved) == 1 if name in ("none", "gradient-descent") else len(moved) > 1


@pytest.mark.parametrize("name", DAMPERS)
def test_a_damper_goes_on_from_a_checkpoint(name):
    damper = in_battery(name)
    state = damper.init()
    for look in BATTERY[:170]:
        _, state = damper.update(look, state)
    numbers, tensors = flattened(state, "damping")
    assert not tensors
    again = rebuilt(damper.init(), "damping", numbers, tensors)
    for look in BATTERY[170:]:
        expected, state = damper.update(look, state)
        found, again = damper.update(look, again)
        assert found == expected


@pytest.mark.parametrize("name", DAMPERS)
def test_what_a_damper_does_not_look_at_it_does_not_need(name):
    damper = in_battery(name)
    always = {"update", "samples", "population", "learners"}
    least = [
        Seen(**{k: v for k, v in look._asdict().items() if k in always | damper.looks_at(t)})
        for t, look in enumerate(BATTERY)
    ]
    assert course(damper, least) == course(damper, BATTERY)


@pytest.mark.parametrize("name", DAMPERS)
def test_only_what_follows_no_loss_can_be_planned(name):
    damper = in_battery(name)
    if damper.observes:
        with pytest.raises(UserError, match="known only once it has run"):
            list(planned(damper, 1, N))
    else:
        drawn = Counter(p.damping.batch for p in planned(damper, 1, N))
        assert sum(b * count for b, count in drawn.items()) >= N


@pytest.mark.parametrize("name", DAMPERS)
@pytest.mark.parametrize("epochs", [1e-6, 1, 1.37, 2])
def test_updates_are_counted_as_they_are_planned(name, epochs):
    damper = in_battery(name)
    if damper.observes:
        with pytest.raises(UserError, match="known only once it has run"):
            count(damper, epochs, 997, learners=3)
    else:
        plan = list(planned(damper, epochs, 997, learners=3))
        assert count(damper, epochs, 997, learners=3) == len(plan)


def test_a_batch_that_is_constant_is_counted_at_once():
    assert count(GeoDampLR(initial=30), 1e12, N, learners=3) == math.ceil(1e12 * N / 90)


def test_more_learners_than_samples_are_planned_only_with_a_cap():
    for kind in (ConstantBatch, GeoDamp, GradientDescent):
        with pytest.raises(UserError, match=r"3 samples among 4 learners .* give fewer learners"):
            next(planned(kind(), 1, 3, learners=4))
        with pytest.raises(UserError, match="3 samples among 4 learners"):
            count(kind(), 1, 3, learners=4)
    assert count(GeoDamp(max_batch=1), 8, 3, learners=4) == 6


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: GeoDamp(initial=32, max_batch=8), "max_batch=8 is below .* or inf for no cap"),
        (lambda: GeoDampLR(initial=32, max_batch=64), "GeoDampLR, which keeps the batch"),
        (lambda: ConstantBatch(initial=0), "initial=0: it must be a whole number from 1 up"),
        (lambda: GeoDamp(delay=0), "delay=0: it must be a positive number of epochs"),
        (lambda: GeoDamp(factor=0.5), "factor=0.5"),
        (lambda: PadaDamp(rate=-1), "rate=-1"),
        (lambda: PadaDamp(dwell=0), "dwell=0"),
        (lambda: AdaDamp(share=0), "share=0"),
        (lambda: AdaDamp(initial=4, min_batch=2.5), "min_batch=2.5: it must be a whole number"),
        (lambda: RadaDamp(rho=1), "rho=1"),
        (lambda: RadaDamp(reduction="max"), "unknown reduction of RadaDamp 'max'"),
        (lambda: NoiseScale(scale=0), "scale=0"),
    ],
)
def test_bad_options_are_refused_in_a_sentence(make, message):
    with pytest.raises(UserError, match=message):
        make()
