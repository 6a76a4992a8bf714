"""Compressors: their constants on every kind of row, their bytes, and what they must not do."""

import math

import numpy as np
import pytest
import torch

from gossip.compress import OPERATORS, compressed, contraction, operator
from gossip.compress.packing import packed, packed_bytes, unpacked
from gossip.errors import UserError

SPECS = (
    "identity",
    "top-k:0.1",
    "top-k:3",
    "random-k:0.25",
    "unbiased-random-k:0.25",
    "sign",
    "qsgd:1",
    "qsgd:4",
    "qsgd:255",
    "int8:64",
    "int4:16",
    "fp4:32",
    "two-bit:32",
    "dct:16:4",
    "low-rank:2",
)
each = pytest.mark.parametrize("spec", SPECS)
RANDOM = np.random.default_rng(0)
D = 100
ROWS = {
    "noise": RANDOM.standard_normal((3, D)),
    "spiky": np.where(RANDOM.random((3, D)) < 0.03, 1e6, 1e-6) * RANDOM.standard_normal((3, D)),
    "flat": np.sign(RANDOM.standard_normal((3, D))),
    "short": RANDOM.standard_normal((3, 5)),
    "small": 1e-30 * RANDOM.standard_normal((3, D)),
}


def rows(name):
    return torch.from_numpy(ROWS[name])


def keys(count, first=0):
    return torch.arange(first, first + count)


def error(c, x):
    return (c - x).square().sum(1), x.square().sum(1)


def test_every_operator_of_the_table_is_among_the_cases():
    assert {spec.split(":")[0] for spec in SPECS} == set(OPERATORS)


@each
@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_a_payload_has_the_size_it_says_and_decodes_to_numbers(spec, name, dtype):
    made, x = operator(spec), rows(name).to(dtype)
    payload = made.encode(x, keys(3))
    assert payload.dtype == torch.uint8
    assert payload.shape == (3, made.size(x.shape[1], x.element_size()))
    decoded = made.decode(payload, x.shape[1], dtype)
    assert (decoded.shape, decoded.dtype) == (x.shape, dtype)
    assert decoded.isfinite().all()


@each
def test_it_is_a_function_of_row_and_key_alone(spec):
    made, x = operator(spec), rows("noise")
    whole = compressed(made, x, keys(3))
    alone = torch.cat([compressed(made, x[k : k + 1], keys(1, k)) for k in range(3)])
    assert torch.equal(whole, alone)
    strided = torch.empty(D, 3, dtype=x.dtype).T.copy_(x)
    assert torch.equal(compressed(made, strided, keys(3)), whole)
    odd = torch.empty(3, made.size(D, 8) + 1, dtype=torch.uint8)
    odd[:, 1:] = made.encode(x, keys(3))
    assert torch.equal(made.decode(odd[:, 1:], D, x.dtype), whole), "wherever it lies in memory"


@each
def test_zero_is_zero(spec):
    x = torch.zeros(2, D, dtype=torch.float64)
    assert torch.equal(compressed(operator(spec), x, keys(2)).abs(), x)


@each
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_is_seen_at_the_other_end(spec, value):
    if "random-k" in spec:
        pytest.skip("it may leave that number out")
    x = rows("noise").clone()
    x[1, 7] = value
    decoded = compressed(operator(spec), x, keys(3))
    assert not decoded[1].isfinite().all()
    assert decoded[[0, 2]].isfinite().all()


@pytest.mark.parametrize("spec", ["int8:64", "int4:16", "fp4:32", "two-bit:32"])
def test_scales_have_the_range_of_float32(spec):
    x = rows("flat").clone()
    largest = compressed(operator(spec), torch.finfo(torch.float32).max * x, keys(3))
    assert largest.isfinite().all()
    assert not compressed(operator(spec), 1e45 * x, keys(3)).isfinite().any()
    assert not compressed(operator(spec), 1e-60 * x, keys(3)).any()


@each
def test_a_power_of_two_comes_out_as_it_went_in(spec):
    made, x = operator(spec), rows("noise")
    twice = compressed(made, 4 * x, keys(3))
    torch.testing.assert_close(twice, 4 * compressed(made, x, keys(3)), rtol=1e-12, atol=0)


@pytest.mark.parametrize(
    "spec", ["identity", "top-k:0.1", "random-k:0.25", "sign", "fp4:32", "dct:16:4"]
)
def test_projections_are_idempotent(spec):
    made = operator(spec)
    x = rows("noise")[:, :96]  # whole chunks and blocks
    once = compressed(made, x, keys(3))
    torch.testing.assert_close(compressed(made, once, keys(3)), once, rtol=1e-12, atol=1e-12)


# The constants.


@pytest.mark.parametrize("name", ROWS)
def test_top_k_contracts_every_row_and_equal_ones_exactly(name):
    x, made = rows(name), operator("top-k:0.1")
    d = x.shape[1]
    off, whole = error(compressed(made, x, keys(3)), x)
    share = 1 - made.kept(d) / d
    assert (off <= share * whole * (1 + 1e-12)).all()
    if name == "flat":
        torch.testing.assert_close(off, share * whole)


DELTAS = {
    "identity": 1.0,
    "top-k:0.1": 0.1,
    "top-k:3": 0.03,
    "sign": 1 / D,
    "int8:64": 1 - 64 / 254**2,
    "int4:16": 1 - 16 / 14**2,
    "fp4:32": 0.0,
    "two-bit:32": 0.0,
    "dct:16:4": 4 / 16,
    "low-rank:2": 0.0,
}
"""Operator -> delta of every row of numbers, of those without one of their own 0."""


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("spec", DELTAS)
def test_contractive_operators_contract_rows_of_every_kind_and_dtype(spec, dtype):
    slack = 1e-5 if dtype != torch.bfloat16 else 0.02
    for name in ROWS:
        x = rows(name).to(dtype)
        off, whole = error(compressed(operator(spec), x, keys(3)).double(), x.double())
        assert (off <= (1 - DELTAS[spec] + slack) * whole).all(), name


@each
def test_zero_and_what_is_not_finite_in_half_precision(spec):
    x = torch.zeros(3, D, dtype=torch.bfloat16)
    assert not compressed(operator(spec), x, keys(3)).any()
    if "random-k" in spec:  # it may leave that number out
        return
    for value in (math.nan, math.inf):
        x[1, 7] = value
        decoded = compressed(operator(spec), x, keys(3))
        assert not decoded[1].isfinite().all()
        assert not decoded[[0, 2]].any()


def test_of_equal_values_the_first_are_kept():
    x = torch.tensor([[1.0, -2.0, 2.0, 0.5, -2.0]])
    assert compressed(operator("top-k:2"), x, keys(1)).tolist() == [[0, -2, 2, 0, 0]]


def test_random_k_keeps_its_share_on_average():
    x = rows("noise")[:1].expand(4000, -1)
    for spec, factor in (("random-k:0.25", 1 - 0.25), ("unbiased-random-k:0.25", 4 - 1)):
        c = compressed(operator(spec), x, keys(4000))
        off, whole = error(c, x)
        assert float((off / whole).mean()) == pytest.approx(factor, rel=0.03)
        if spec.startswith("unbiased"):
            torch.testing.assert_close(c.mean(0), x[0], rtol=0, atol=0.15)


@pytest.mark.parametrize("name", ["noise", "spiky", "flat"])
def test_the_error_of_scaled_sign_is_known(name):
    x = rows(name)
    off, whole = error(compressed(operator("sign"), x, keys(3)), x)
    torch.testing.assert_close(off, whole - x.abs().sum(1) ** 2 / D, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("levels", [1, 4, 16])
def test_qsgd_has_no_bias_and_its_variance(levels):
    x = rows("noise")[:1]
    c = compressed(operator(f"qsgd:{levels}"), x.expand(4000, -1), keys(4000))
    norm = float(x.norm())
    p = (x.abs() / norm * levels) % 1
    variance = (norm / levels) ** 2 * float((p * (1 - p)).sum())
    off, whole = error(c, x.expand(4000, -1))
    assert float(off.mean()) == pytest.approx(variance, rel=0.05)
    assert variance / float(whole[0]) <= min(D / levels**2, math.sqrt(D) / levels)
    assert (c.mean(0) - x[0]).abs().max() < 5 * norm / levels / math.sqrt(4000)


@pytest.mark.parametrize(
    ("spec", "omega"),
    # d/k - 1, and the lesser of d/s^2 and sqrt(d)/s.
    [("unbiased-random-k:0.1", 9), ("qsgd:1", 10), ("qsgd:4", 2.5), ("qsgd:255", 100 / 255**2)],
)
@pytest.mark.parametrize("name", ["noise", "spiky", "flat"])
def test_unbiased_operators_contract_when_they_are_scaled(spec, omega, name):
    x = rows(name)[:1].expand(2000, -1)
    made, plain, tau = contraction(spec), operator(spec), 1 + omega
    off, whole = error(compressed(made, x, keys(2000)), x)
    assert float((off / whole).mean()) <= (1 - 1 / tau) * 1.02 + 1e-12
    assert torch.equal(made.encode(x, keys(2000)), plain.encode(x, keys(2000))), "what travels"
    torch.testing.assert_close(
        tau * compressed(made, x, keys(2000)), compressed(plain, x, keys(2000))
    )


@pytest.mark.parametrize(("spec", "block", "most"), [("int8:64", 64, 254), ("int4:16", 16, 14)])
def test_integers_are_at_most_half_a_scale_off(spec, block, most):
    for name in ("noise", "spiky", "flat"):
        x = rows(name)
        off = (compressed(operator(spec), x, keys(3)) - x).abs()
        for at in range(0, D, block):
            largest = x[:, at : at + block].abs().amax(1, keepdim=True)
            assert (off[:, at : at + block] <= largest / most * (1 + 1e-6)).all()


def test_fp4_is_monotone_odd_and_a_fifth_off_at_most():
    x = torch.linspace(-6, 6, 32 * 40, dtype=torch.float64).reshape(-1, 32)
    x[:, 0] = 6  # so that all blocks have the unit 1
    c = compressed(operator("fp4:32"), x, keys(len(x)))
    order = x[:, 1:].flatten().argsort()
    assert (c[:, 1:].flatten()[order].diff() >= 0).all()
    # But where it is half way between two.
    torch.testing.assert_close(compressed(operator("fp4:32"), -x, keys(len(x))), -c)
    normal = x.abs() >= 1
    assert ((c - x).abs()[normal] <= x.abs()[normal] / 5 + 1e-12).all()
    assert set(c.abs().unique().tolist()) <= {0, 0.5, 1, 1.5, 2, 3, 4, 6}


def test_the_error_of_dct_is_the_energy_left_out():
    x, made = rows("noise")[:, :96], operator("dct:16:4")
    off, whole = error(compressed(made, x, keys(3)), x)
    assert (off <= (1 - 4 / 16) * whole).all()
    every = compressed(operator("dct:16:16"), x, keys(3))
    torch.testing.assert_close(every, x, rtol=1e-12, atol=1e-12)
    smooth = torch.cos(torch.arange(96, dtype=torch.float64) * 0.05)[None]
    off, whole = error(compressed(made, smooth, keys(1)), smooth)
    assert off / whole < 1e-3, "a slow wave has few coefficients"


@pytest.mark.parametrize("spec", ["two-bit:32", "low-rank:2"])
@pytest.mark.parametrize("name", ["noise", "spiky", "flat"])
def test_the_error_of_a_projection_is_the_energy_left_out(spec, name):
    x = rows(name)
    c = compressed(operator(spec), x, keys(3))
    off, whole = error(c, x)
    torch.testing.assert_close(off + c.square().sum(1), whole, rtol=1e-6, atol=0)
    assert (off < whole).all()


def test_two_bits_keep_the_mean_of_every_block():
    x = rows("noise")[:, :96]
    c = compressed(operator("two-bit:32"), x, keys(3))
    means = [part.reshape(3, 3, 32).mean(2) for part in (c, x)]
    torch.testing.assert_close(*means, rtol=1e-6, atol=1e-6)
    assert all(len(block.unique()) <= 4 for block in c.reshape(9, 32))


def test_two_bits_part_a_block_at_multiples_of_its_deviation():
    """Mean 0 and deviation 2: parted at -4.5, -1.5 and 1.5, each bin comes out as its mean."""
    x = torch.tensor([[-5.0, -4, -2, -1, *[0] * 15, 1, 2, 4, 5]], dtype=torch.float64)
    assert (float(x.mean()), float(x.std(correction=0))) == (0, 2)
    c = compressed(operator("two-bit:23"), x, keys(1))
    assert c[0].tolist() == pytest.approx([-5, -3, -3, *[0] * 17, *[11 / 3] * 3])


def test_low_rank_keeps_its_share_on_average_and_all_of_a_low_rank_matrix():
    x = rows("noise")[:1]  # a matrix of 10 x 10
    off, whole = error(compressed(operator("low-rank:2"), x.expand(500, -1), keys(500)), x)
    assert float(off.mean() / whole) < 1 - 2 / 10
    once = compressed(operator("low-rank:2"), x, keys(1))
    again = compressed(operator("low-rank:2"), once, keys(1, 7))
    torch.testing.assert_close(again, once, rtol=1e-9, atol=1e-9)
    every = compressed(operator("low-rank:10"), x, keys(1))
    torch.testing.assert_close(every, x, rtol=1e-12, atol=1e-12)
    outer = (x[:, :10, None] * x[:, None, 10:20]).flatten(1)
    torch.testing.assert_close(compressed(operator("low-rank:1"), outer, keys(1)), outer)
    best = torch.linalg.svdvals(x.view(10, 10))[2:].square().sum()
    assert off.min() >= best * (1 - 1e-12), "no rank 2 does better than the singular vectors"


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("topk", "did you mean top-k?"),
        ("top-k:0", "share in"),
        ("top-k:1.5", "whole number"),
        ("top-k:inf", "inf of the numbers: give a share"),
        ("random-k:1e400", "inf of the numbers: give a share"),
        ("unbiased-random-k:nan", "nan of the numbers: give a share"),
        ("top-k:many", "write it as top-k:NUMBER"),
        ("sign:3", "at most 0 numbers"),
        ("qsgd:0", "levels"),
        ("int8:0", "at least 1"),
        ("dct:8:9", "coefficients"),
        ("low-rank:0", "at least 1"),
        ("two-bit:0", "at least 1"),
    ],
)
def test_a_wrong_operator_is_refused(spec, said):
    with pytest.raises(UserError) as caught:
        operator(spec)
    assert said in str(caught.value)


def test_more_numbers_than_there_are_do_not_fit():
    with pytest.raises(UserError, match="a model that has 5"):
        operator("top-k:6").check(5)
    operator("top-k:5").check(5)


def bit_by_bit(codes, bits):
    """The bytes of codes [rows, m], each the sum of its eight bits."""
    spread = codes.unsqueeze(-1) >> torch.arange(bits) & 1
    flat = spread.reshape(len(codes), codes.shape[1] * bits)
    flat = torch.nn.functional.pad(flat, (0, -flat.shape[1] % 8))
    octets = flat.reshape(len(codes), packed_bytes(codes.shape[1], bits), 8)
    return (octets << torch.arange(8)).sum(dim=-1).to(torch.uint8)


@pytest.mark.parametrize("bits", [1, 2, 3, 4, 5, 8, 9, 17])
@pytest.mark.parametrize(("rows", "count"), [(1, 1), (3, 7), (2, 8), (2, 101), (0, 5), (2, 0)])
def test_codes_are_packed_low_bits_first(bits, rows, count):
    random = torch.Generator().manual_seed(bits)
    codes = torch.randint(2**bits, (rows, count), generator=random)
    data = packed(codes, bits)
    assert data.dtype == torch.uint8
    assert torch.equal(data, bit_by_bit(codes, bits))
    assert torch.equal(unpacked(data, bits, count), codes)


def test_bytes_are_packed_without_a_number_for_each_bit():
    codes = torch.randint(256, (1, 10**5))
    with torch.profiler.profile(profile_memory=True) as profile:
        packed(codes, 8)
    assert sum(max(event.self_cpu_memory_usage, 0) for event in profile.events()) <= 2 * 10**5
