"""Interventions on DPSGD's noise: what is kept, what is changed, and how strong it is."""

import math
from pathlib import Path

import pytest
import torch
from torch import Tensor

from gossip.algorithms import Dpsgd, Ssgd
from gossip.algorithms.deviations import NOISES, Deviations, at_strength, recorded_spread
from gossip.algorithms.injected import Injected
from gossip.comm.stacked import Stacked
from gossip.config import Averaging, Config, Data, Model, Monitoring, Rate
from gossip.errors import UserError
from gossip.task.layers import Layer
from gossip.trace import Trace
from tests.problems import complete, optimizer
from tests.quadratics import problem
from tests.resume.walks import same_bits, start_of
from tests.resume.walks import walk as run

N, D, LR = 5, 6, 0.02
P = problem(N, D)
LAYERS = (Layer("a", 0, 4, torch.Size((4,))), Layer("b", 4, 6, torch.Size((2,))))
KINDS = (*NOISES, "twin")
EXACT = ("own", "flipped", "signed", "delayed", "shuffled", "twin")


def walk(algorithm, steps: int, lr=lambda t: LR, x: Tensor | None = None):
    start = torch.ones(D, dtype=torch.float64) if x is None else x
    state = algorithm.init(start, N)
    for t in range(steps):
        before = state
        state, step = algorithm.step(
            state, P.gradient, complete(N), lambda *_, t=t: lr(t), Stacked(N)
        )
        yield before, step, state


def injected(noise: str, **options) -> Injected:
    return Injected(optimizer(layers=LAYERS), noise=noise, **options)


def square(rows: Tensor) -> float:
    return float(rows.square().sum())


@pytest.mark.parametrize(("noise", "options"), [("own", {}), ("twin", {"apart": 0.0})])
def test_its_own_noise_and_that_of_a_twin_that_is_itself_are_dpsgd(noise, options):
    """w_j = w_a + D_j at every step, also where the rate changes."""
    falling = lambda t: LR / (1 + t / 10)  # noqa: E731
    pairs = zip(
        walk(injected(noise, **options), 40, falling),
        walk(Dpsgd(optimizer()), 40, falling),
        strict=True,
    )
    for (_, step, state), (_, gossip, after) in pairs:
        torch.testing.assert_close(step.points.expand(N, -1), gossip.points, rtol=0, atol=1e-12)
        torch.testing.assert_close(state.x[0], after.x.mean(0), rtol=0, atol=1e-12)
    assert square(after.x - after.x.mean(0)) > 1e-6, "learners are apart"


def test_one_rate_for_each_layer_is_that_of_the_deviations_too():
    rate = torch.tensor([LR, LR / 3], dtype=torch.float64)
    own = walk(injected("own"), 20, lambda t: rate)
    dpsgd = walk(Dpsgd(optimizer(layers=LAYERS)), 20, lambda t: rate)
    for (_, step, _), (_, gossip, _) in zip(own, dpsgd, strict=True):
        torch.testing.assert_close(step.points, gossip.points, rtol=0, atol=1e-12)


@pytest.mark.parametrize("noise", KINDS)
def test_without_strength_it_is_ssgd_bit_for_bit(noise):
    noiseless, plain = injected(noise, strength=0.0), Ssgd(optimizer())
    for (_, _, a), (_, _, b) in zip(walk(noiseless, 20), walk(plain, 20), strict=True):
        assert torch.equal(a.x, b.x)
    assert noiseless.pattern == Ssgd.pattern


@pytest.mark.parametrize("noise", KINDS)
def test_noise_sums_to_zero_and_has_the_strength_of_dpsgds_own(noise):
    """Drawn noise on average: the ratio of sums is within 5 standard errors of 1."""
    wanted, given, ratios = 0.0, 0.0, []
    for t, (before, step, _) in enumerate(walk(injected(noise, strength=1.5), 60)):
        delta = step.points - before.x
        own = before.rows["deviations"][:, 0]
        assert delta.sum(0).abs().max() < 1e-12
        if t > 0:
            wanted, given = square(own), square(delta) / 1.5**2
            ratios.append(given / wanted)
    found = torch.tensor(ratios)
    if noise in EXACT:
        torch.testing.assert_close(found, torch.ones_like(found), rtol=1e-5, atol=0)
    else:
        assert abs(found.mean() - 1) < 5 * found.std() / len(found) ** 0.5
        assert found.std() > 0.05, "it is drawn"


@pytest.fixture
def recorded(tmp_path: Path) -> tuple[str, list[float]]:
    """A run with sigma_w^2 of DPSGD at each step, and these numbers."""
    spread = [
        square(step.points - step.points.mean(0)) / N**2
        for _, step, _ in walk(Dpsgd(optimizer()), 40)
    ]
    with Trace(tmp_path, ["sigma_w2"]) as trace:
        trace.append([{"step": t, "sigma_w2": value} for t, value in enumerate(spread)])
    return str(tmp_path), spread


@pytest.mark.parametrize("noise", KINDS)
def test_noise_has_the_strength_of_a_recorded_run_at_every_step(noise, recorded):
    run, spread = recorded
    walked = walk(injected(noise, strength=2.0, strength_from=run), len(spread))
    found = [square(step.points - before.x) / N**2 / 2.0**2 for before, step, _ in walked]
    assert found == pytest.approx(spread, rel=1e-10)
    assert max(spread) > 1e-6


def test_its_own_noise_at_the_strength_of_its_own_run_is_dpsgd(recorded):
    run, spread = recorded
    pairs = zip(
        walk(injected("own", strength_from=run), len(spread)),
        walk(Dpsgd(optimizer()), len(spread)),
        strict=True,
    )
    for (_, step, _), (_, gossip, _) in pairs:
        torch.testing.assert_close(step.points.expand(N, -1), gossip.points, rtol=0, atol=1e-12)


def test_between_recorded_steps_strength_is_interpolated_and_after_the_last_it_stays(tmp_path):
    with Trace(tmp_path, ["sigma_w2"]) as trace:
        rows = {2: 1.0, 4: 3.0, 6: 5.0, 8: math.inf, 10: math.nan}
        trace.append([{"step": step, "sigma_w2": value} for step, value in rows.items()])
    of = recorded_spread(str(tmp_path))
    assert [of(step) for step in (0, 1, 2, 3, 6, 7, 99)] == [0, 0, 1, 2, 5, 5, 5]


def test_a_run_that_cannot_be_followed_is_refused(tmp_path):
    with pytest.raises(UserError, match="no trace"):
        injected("own", strength_from=str(tmp_path / "nothing"))
    with Trace(tmp_path, ["sigma_w2"]) as trace:
        trace.append([{"step": 0, "sigma_w2": 0.0}])
    with pytest.raises(UserError, match="is 0 at all steps; give a run whose learners are apart"):
        injected("own", strength_from=str(tmp_path))


def draws(noise: str, count: int) -> tuple[Tensor, Tensor]:
    """D [N, D] of one step, and noise made from it at many others, [count, N, D]."""
    *_, (before, _, _) = walk(injected("own"), 5)
    past = before.rows["deviations"]
    made = [
        NOISES[noise].make(Deviations(past, t, 3, LAYERS, Stacked(N))) for t in range(1, count + 1)
    ]
    return past[:, 0], torch.stack(made)


def test_gaussian_noise_has_the_covariance_of_the_learners():
    own, noise = draws("gaussian", 600)
    wanted = own.T @ own / N
    rows = noise.flatten(0, 1)
    found = rows.T @ rows / len(rows)
    assert (found - wanted).abs().max() < 0.15 * wanted.abs().max()
    alone = noise[:, 2].T @ noise[:, 2] / len(noise)
    assert (alone - wanted).abs().max() < 0.3 * wanted.abs().max(), "of each learner"
    # A Gaussian's fourth moment is 3; that of one of the D_j, whichever, would be another.
    along = rows @ torch.linalg.eigh(wanted).eigenvectors[:, -1]
    assert (along / along.std()).pow(4).mean() == pytest.approx(3, abs=0.5)


@pytest.mark.parametrize("noise", ["isotropic", "by-layer"])
def test_isotropic_noise_has_one_variance_and_no_correlations(noise):
    own, drawn = draws(noise, 1500)
    for learner in range(N):
        found = torch.cov(drawn[:, learner].T)
        parts = LAYERS if noise == "by-layer" else (Layer("", 0, D, torch.Size((D,))),)
        wanted = torch.zeros(D, dtype=torch.float64)
        for part in parts:
            columns = slice(part.start, part.stop)
            squares = own[:, columns].square().mean(1)
            # Of learner j, and what taking off the mean brings in of all of them.
            mixed = (1 - 2 / N) * squares[learner] + squares.mean() / N
            wanted[columns] = mixed * N / (N - 1)
        scale = float(wanted.max())
        assert (found - torch.diag(wanted)).abs().max() < 0.2 * scale


@pytest.mark.parametrize(("noise", "back"), [("delayed", 4), ("shuffled", 4)])
def test_noise_out_of_step_is_an_earlier_one_along_its_direction(noise, back):
    seen, lags = [], set()
    for t, (before, step, _) in enumerate(walk(injected(noise, back=back), 40)):
        seen.append(before.rows["deviations"][:, 0])
        if t == 0:
            continue
        delta = (step.points - before.x).flatten()
        earlier = torch.stack(seen[max(1, t - back + 1) :]).flatten(1)
        cosines = torch.nn.functional.cosine_similarity(earlier, delta.unsqueeze(0))
        assert cosines.max() == pytest.approx(1, abs=1e-12)
        if t > back:
            lags.add(len(cosines) - int(cosines.argmax()))
    assert lags == ({back} if noise == "delayed" else set(range(1, back + 1)))


def test_signs_are_drawn_anew_and_common_to_all():
    signs = []
    for before, step, _ in walk(injected("signed"), 60):
        own, delta = before.rows["deviations"][:, 0], step.points - before.x
        if square(own):
            sign = float((own * delta).sum().sign())
            torch.testing.assert_close(delta, sign * own, rtol=0, atol=1e-12)
            signs.append(sign)
    assert 15 < signs.count(1.0) < 45


def test_a_twin_apart_is_dpsgd_from_where_it_begins():
    algorithm = injected("twin", apart=0.5)
    start = algorithm.init(torch.ones(D, dtype=torch.float64), N).rows["twin"]
    assert 0.1 < (start - 1).abs().mean() < 1.5
    assert torch.equal(start, start[:1].expand(N, -1)), "its learners begin together"
    twin = [after.rows["twin"] for _, _, after in walk(algorithm, 20)]
    gossip = [after.x for _, _, after in walk(Dpsgd(optimizer()), 20, x=start[0])]
    torch.testing.assert_close(torch.stack(twin), torch.stack(gossip), rtol=0, atol=1e-12)


@pytest.mark.parametrize("noise", ["shuffled", "twin"])
def test_a_run_goes_on_from_a_checkpoint_bit_for_bit(noise, tmp_path):
    chosen = Config(
        algorithm=("ssgd-injected",),
        steps=7,
        gossip=Averaging(learners=4, algorithm_options=(f"noise={noise}", "back=3")),
        data=Data(dataset="digits", batch_size=10),
        model=Model(widths=(4,)),
        rate=Rate(lr=0.05, momentum=0.9),
        monitoring=Monitoring(monitor="cheap", monitor_every=3),
    )
    whole, _ = run(chosen, Stacked(4), tmp_path, at=[2, 5])
    for point in (2, 5):
        outcome, _ = run(chosen, Stacked(4), start=start_of(tmp_path, point, range(4)))
        assert same_bits(outcome.state.x, whole.state.x)
        assert all(same_bits(outcome.state.rows[k], kept) for k, kept in whole.state.rows.items())


def test_nothing_is_scaled_to_nothing():
    zeros, ones = torch.zeros(N, D), torch.ones(N, D)
    assert torch.equal(at_strength(zeros, ones, Stacked(N)), zeros)
    torch.testing.assert_close(at_strength(ones, 3 * ones, Stacked(N)), 3 * ones)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"noise": "gausian"}, "did you mean gaussian"),
        ({"strength": -1.0}, "strength"),
        ({"apart": float("inf")}, "apart"),
        ({"back": 0}, "back=0"),
    ],
)
def test_what_cannot_be_run_is_refused(options, complaint):
    with pytest.raises(UserError, match=complaint):
        Injected(optimizer(), **options)
