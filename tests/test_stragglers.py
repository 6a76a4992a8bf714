"""Who is slow, how slow on average, and that everybody is told the same."""

import math

import numpy as np
import pytest

from gossip.errors import UserError
from gossip.stragglers import MAX_TRACE_BYTES, STRAGGLERS, delay, make

DRAWS = {5: 16_000, 16: 4_000, 128: 1_000, 1024: 1_000}
"""Number of learners -> steps that give the mean of the maximum to well within 1 %."""
OPTIONS = {"trace": ["file=factors.npy"]}


def factors(name, *options, n, steps, seed=0):
    """sigma_j(t), [steps, n]."""
    straggler = make(name, options, n=n, seed=seed)
    return np.array([straggler.row(t) for t in range(steps)])


def harmonic(n):
    return sum(1 / k for k in range(1, n + 1))


@pytest.mark.slow
@pytest.mark.parametrize("n", DRAWS)
def test_the_slowest_of_n_is_as_slow_as_the_formulas_say(n):
    drawn = factors("bernoulli", "p=0.1", "s=3", n=n, steps=DRAWS[n])
    assert set(np.unique(drawn)) == {1.0, 3.0}
    assert drawn.max(axis=1).mean() == pytest.approx(1 + 2 * (1 - 0.9**n), rel=0.01)
    drawn = factors("shifted-exponential", "c=1", "rate=2", n=n, steps=DRAWS[n])
    assert drawn.min() >= 1
    assert drawn.max(axis=1).mean() == pytest.approx(1 + harmonic(n) / 2, rel=0.01)


def test_the_logarithms_of_heavy_tails_have_their_moments():
    drawn = np.log(factors("lognormal", "sigma=0.5", n=16, steps=2000))
    assert drawn.mean() == pytest.approx(0, abs=0.01)
    assert drawn.std() == pytest.approx(0.5, rel=0.01)
    drawn = np.log(factors("pareto", "a=3", n=16, steps=2000))
    assert drawn.min() >= 0
    assert drawn.mean() == pytest.approx(1 / 3, rel=0.02)  # log of a Pareto is Exp(a)
    assert drawn.std() == pytest.approx(1 / 3, rel=0.02)


@pytest.mark.parametrize("name", STRAGGLERS)
def test_a_factor_depends_on_seed_learner_and_step_and_on_nothing_else(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("factors.npy", np.arange(12.0).reshape(3, 4))
    options = OPTIONS.get(name, [])
    one = make(name, options, n=4, seed=7)
    forwards = {(j, t): one.factor(j, t) for t in range(9) for j in range(4)}
    other = make(name, options, n=4, seed=7)
    backwards = {(j, t): other.factor(j, t) for j in (3, 1, 2, 0) for t in range(8, -1, -1)}
    assert forwards == backwards
    if name in ("shifted-exponential", "lognormal", "pareto"):
        assert len(set(forwards.values())) == len(forwards)
        assert make(name, options, n=4, seed=8).factor(0, 0) != one.factor(0, 0)


def test_a_process_waits_for_the_slowest_learner_it_hosts_and_never_less_than_nothing():
    straggler = make("lognormal", [], n=6, seed=1)
    for t in range(20):
        own = [delay(straggler, range(j, j + 1), t, 0.1) for j in range(6)]
        assert own == pytest.approx([max(0, 0.1 * (straggler.factor(j, t) - 1)) for j in range(6)])
        assert delay(straggler, range(6), t, 0.1) == max(own)
        assert delay(straggler, range(3), t, 0.1) == max(own[:3])
        assert min(own) >= 0
    assert delay(make("none", [], n=6, seed=1), range(6), 3, 0.1) == 0


def test_constant_slows_the_learners_that_are_named():
    drawn = factors("constant", "s=2.5", "learners=0,5", n=6, steps=2)
    assert drawn.tolist() == [[2.5, 1, 1, 1, 1, 2.5]] * 2
    assert factors("constant", n=3, steps=1).tolist() == [[3, 1, 1]]


@pytest.mark.parametrize("suffix", ["csv", "npy"])
def test_a_trace_begins_again_when_its_steps_run_out(suffix, tmp_path):
    table, file = np.array([[1, 2.5, 1], [4, 1, 0]]), tmp_path / f"t.{suffix}"
    np.save(file, table) if suffix == "npy" else np.savetxt(file, table, delimiter=",")
    drawn = factors("trace", f"file={file}", n=3, steps=5)
    assert drawn.tolist() == [*table.tolist(), *table.tolist(), table[0].tolist()]
    straggler = make("trace", [f"file={file}"], n=3, seed=0)
    assert [[straggler.factor(j, t) for j in range(3)] for t in range(5)] == drawn.tolist()


def seconds_per_step(c, scheme):
    """The recursions of synchronous schemes without communication, for compute times c [T, n]."""
    ready = np.zeros(c.shape[1])
    for row in c:
        done = ready + row
        if scheme == "ssgd":
            ready = np.full_like(done, done.max())
        else:  # awc: neighbours sent what they had before their gradient; atc: what they made of it
            sent = ready if scheme == "ring_awc" else done
            ready = np.maximum(done, np.maximum(np.roll(sent, 1), np.roll(sent, -1)))
    return ready.mean() / len(c)


@pytest.mark.parametrize("scheme", ["ssgd", "ring_awc", "ring_atc"])
def test_synchronous_schemes_take_as_long_as_was_simulated(scheme):
    published = {"ssgd": 2.68, "ring_awc": 1.67, "ring_atc": 2.13}[scheme]
    c = factors("shifted-exponential", "c=1", "rate=2", n=16, steps=3000)
    assert seconds_per_step(c, scheme) == pytest.approx(published, rel=0.01)
    # Of one learner that is always slow all others learn in the end.
    c = factors("constant", "s=3", "learners=4", n=16, steps=1000)
    assert seconds_per_step(c, scheme) == pytest.approx(3.0, rel=0.01)


BAD = [
    ("sloth", [], "unknown straggler model 'sloth'; there are none, constant"),
    ("none", ["s=3"], "straggler none has no option 's': it has none"),
    ("constant", ["learner=0"], r"no option 'learner' \(did you mean 'learners'\?\)"),
    ("constant", ["s"], "straggler option 's': write it as key=value"),
    ("constant", ["s=2", "s=3"], "straggler option 's' is given twice"),
    ("constant", ["s=fast"], "s must be a number, got 'fast'"),
    ("constant", ["s=-1"], "s=-1.0: it must be a number from 0 to"),
    ("constant", ["s=inf"], "s=inf: it must be"),
    ("constant", ["learners=1;2"], "learners=1;2: give learner numbers, for example"),
    ("constant", ["learners=0,4"], r"learner 4 is not one of 0\.\.3"),
    ("constant", ["learners=-1"], r"learner -1 is not one of 0\.\.3"),
    ("bernoulli", ["p=1.5"], "p=1.5: it must be a number from 0 to 1"),
    ("bernoulli", ["s=nan"], "s=nan: it must be"),
    ("shifted-exponential", ["rate=0"], "rate=0.0: it must be a number from 1e-06"),
    ("lognormal", ["sigma=99"], "sigma=99.0: it must be"),
    ("pareto", ["a=1"], "a=1.0: the mean of a Pareto distribution is finite only for a above 1"),
    ("trace", [], "needs a file: give file=FILE.csv"),
    ("trace", ["file=/dev/zero"], r"file=/dev/zero: give a file .csv or .npy"),
    ("trace", ["file=nowhere.csv"], "nowhere.csv: there is no such file"),
]


@pytest.mark.parametrize(("name", "options", "sentence"), BAD)
def test_a_mistake_is_answered_in_one_sentence(name, options, sentence):
    with pytest.raises(UserError, match=sentence) as caught:
        make(name, options, n=4, seed=0)
    assert "\n" not in str(caught.value)


def test_a_bad_trace_is_answered_in_one_sentence(tmp_path):
    def refused(data, sentence, suffix="csv"):
        file = tmp_path / f"bad.{suffix}"
        file.write_bytes(data) if isinstance(data, bytes) else np.save(file, data)
        with pytest.raises(UserError, match=sentence) as caught:
            make("trace", [f"file={file}"], n=2, seed=0)
        assert "\n" not in str(caught.value)

    refused(b"", "not a table of numbers")
    refused(b"1,2\n3\n", "not a table of numbers")
    refused(b"1,x\n", "not a table of numbers")
    refused(b"\xff\xfe", "not a table of numbers")
    refused(b"1,2,3\n", r"shape \(1, 3\); give factors \[steps, n\] with n = 2 columns")
    refused(b"1,nan\n", "a factor is a number from 0 to")
    refused(b"1,-2\n", "a factor is a number from 0 to")
    refused(np.array([[1, None]], dtype=object), "not a table of numbers", "npy")
    refused(np.array([["1", "2"]]), "not a table of numbers", "npy")
    refused(np.zeros((0, 2)), "shape", "npy")
    with (tmp_path / "large.csv").open("wb") as file:
        file.truncate(MAX_TRACE_BYTES + 1)
    with pytest.raises(UserError, match=f"at most {MAX_TRACE_BYTES} are read"):
        make("trace", [f"file={tmp_path / 'large.csv'}"], n=2, seed=0)
    assert math.isfinite(make("pareto", ["a=1.001"], n=2, seed=0).factor(0, 0))


@pytest.mark.parametrize("name", [name for name in STRAGGLERS if name != "trace"])
def test_a_row_is_what_each_learner_is_told_and_does_not_change_with_their_number(name):
    few, many = (make(name, [], n=n, seed=3) for n in (5, 40))
    for t in (0, 7):
        assert few.row(t).tolist() == [few.factor(j, t) for j in range(5)]
        assert many.row(t)[:5].tolist() == few.row(t).tolist()
