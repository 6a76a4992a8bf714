"""All-reduces of gradients that hide behind the backward pass."""

import math

import numpy as np
import pytest

from gossip.algorithms import Ssgd
from gossip.algorithms.pattern import Every, LocalGradient, Mean
from gossip.simulate import command
from gossip.simulate.collectives import all_reduce
from gossip.simulate.engine import simulate
from gossip.simulate.overlap import Overlap
from tests.simulate.networks import flat
from tests.simulate.settings import EXPONENTIAL, setting

N, STEPS = 6, 20
T = all_reduce("ring", N, 1e8, flat()).seconds


def ssgd(**more):
    return simulate(setting("ssgd", N, straggler=EXPONENTIAL, **{"network": flat()} | more), STEPS)


@pytest.mark.parametrize("omega", [0, 0.1, 0.3, 1])
def test_the_recursion_written_out(omega):
    """T(t + 1) = T(t) + max_j C_j + max(0, T_ar - omega C_bwd), the backward pass two thirds."""
    given = setting("ssgd", N, straggler=EXPONENTIAL)
    time, ends = 0.0, []
    for t in range(STEPS):
        slowest = given.compute.at(t).max()
        time += slowest + max(0.0, T - omega * 2 / 3 * slowest)
        ends.append(time)
    np.testing.assert_allclose(ssgd(overlap=Overlap(omega)).last, ends, rtol=1e-12)


@pytest.mark.parametrize("norm", [1, 2, 10])
def test_a_norm_of_gradient_and_all_reduce(norm):
    given = setting("ssgd", N, straggler=EXPONENTIAL)
    steps = [(given.compute.at(t).max() ** norm + T**norm) ** (1 / norm) for t in range(STEPS)]
    found = ssgd(overlap=Overlap(norm=norm))
    np.testing.assert_allclose(found.last, np.cumsum(steps), rtol=1e-12)


def test_what_hides_is_still_sent_and_nothing_is_faster_than_its_gradients():
    plain, hidden, free = ssgd(), ssgd(overlap=Overlap(1)), ssgd(network=flat(0, 1e-30))
    assert hidden.sent == plain.sent
    assert (free.last <= hidden.last * (1 + 1e-12)).all()
    assert (hidden.last < plain.last).all()
    np.testing.assert_allclose(ssgd(network=flat(0, 1e-30), overlap=Overlap(1)).last, free.last)


def test_only_an_average_right_after_a_gradient_hides():
    """Of two in a row the first; none of a round's weights; gossip overlaps by itself."""
    some, none = Overlap(0.1), Overlap()
    twice = (*Ssgd.pattern, Mean())

    def seconds(overlap, pattern):
        made = setting("ssgd", N, network=flat(), overlap=overlap, pattern=pattern)
        return simulate(made, 1).seconds_per_step

    assert seconds(some, twice) == pytest.approx(1 + T - 0.1 * 2 / 3 + T)
    rounds = (LocalGradient(), Every(1, Mean()))
    assert seconds(some, rounds) == seconds(none, rounds)
    gossip = [setting("awc", N, network=flat(), overlap=overlap) for overlap in (some, none)]
    assert len({simulate(made, 5).seconds_per_step for made in gossip}) == 1


def test_the_command_hides_what_it_is_told_to(capsys):
    words = ["--algorithm", "ssgd", "--all-reduce", "ring", "--network", "1GbE", "--compute", "3"]
    for more, seconds in (
        (["--overlap", "0.5"], 3 + 1.4343 - 1),
        (["--overlap-norm", "2"], math.hypot(3, 1.4343)),
    ):
        assert command.main([*words, *more, "--steps", "3"]) == 0
        assert f"fastest, {seconds:.4g} s a step" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "sentence"),
    [(["--overlap", "1.5"], "overlap=1.5: give the share of the backward pass"),
     (["--overlap-norm", "0.5"], "overlap_norm=0.5: give a number from 1"),
     (["--overlap-norm", "2", "--overlap", "1"], "give one of them")],
)  # fmt: skip
def test_mistakes(words, sentence, capsys):
    assert command.main([*words, "--steps", "2"]) == 2
    said = capsys.readouterr().err
    assert sentence in said
    assert said.count("\n") == 1
