"""Compressors of messages: operators with their constants, and payloads that are really packed."""

from collections.abc import Callable

from gossip.compress.low_rank import LowRank
from gossip.compress.operator import Contracted, Operator, Unbiased, compressed
from gossip.compress.quantise import Fp4, Integers, Qsgd, ScaledSign, TwoBit
from gossip.compress.sparse import DctTopK, Identity, RandomK, TopK, UnbiasedRandomK
from gossip.errors import UserError, lookup


def _int8(block: int = 256) -> Operator:
    return Integers(8, block)


def _int4(block: int = 32) -> Operator:
    return Integers(4, block)


OPERATORS: dict[str, tuple[Callable[..., Operator], tuple[type, ...]]] = {
    "identity": (Identity, ()),
    "top-k": (TopK, (float,)),
    "random-k": (RandomK, (float,)),
    "unbiased-random-k": (UnbiasedRandomK, (float,)),
    "sign": (ScaledSign, ()),
    "qsgd": (Qsgd, (int,)),
    "int8": (_int8, (int,)),
    "int4": (_int4, (int,)),
    "fp4": (Fp4, (int,)),
    "two-bit": (TwoBit, (int,)),
    "dct": (DctTopK, (int, int)),
    "low-rank": (LowRank, (int,)),
}
"""Name -> what makes the operator, and the kinds of its numbers. A new one is a line here."""


def operator(spec: str) -> Operator:
    """The operator of a text, name:number:number with the numbers that it has, as top-k:0.01.

    Raises:
        UserError: there is none of that name, or its numbers are not such.
    """
    name, *numbers = spec.split(":")
    make, kinds = lookup(OPERATORS, name, "compressor")
    if len(numbers) > len(kinds):
        raise UserError(f"compressor {spec}: {name} has at most {len(kinds)} numbers")
    try:
        given = [kind(text) for kind, text in zip(kinds, numbers, strict=False)]
    except ValueError:
        wanted = ":".join([name, *("NUMBER" if kind is float else "COUNT" for kind in kinds)])
        raise UserError(f"compressor {spec}: write it as {wanted}") from None
    return make(*given)


def contraction(spec: str) -> Operator:
    """The operator of a text, scaled such that it contracts where it does not by itself.

    Raises:
        UserError: there is none.
    """
    made = operator(spec)
    return Contracted(made) if isinstance(made, Unbiased) else made


def wire(spec: str) -> Operator:
    """The operator of a text, for rows that are mixed without a memory of what is left out.

    Raises:
        UserError: there is none, or it leaves out too much for that.
    """
    made = operator(spec)
    if made.leaves_out:
        fit = ", ".join(name for name in OPERATORS if not operator(name).leaves_out)
        raise UserError(
            f"wire {spec}: averaging what it makes of weights would lose their mean or leave "
            "learners apart, as nobody remembers what is left out; use one that is precise "
            f"({fit}), or --algorithm choco-awc --algorithm-options compressor={spec}"
        )
    return made


__all__ = [
    "OPERATORS",
    "Contracted",
    "DctTopK",
    "Fp4",
    "Identity",
    "Integers",
    "LowRank",
    "Operator",
    "Qsgd",
    "RandomK",
    "ScaledSign",
    "TopK",
    "TwoBit",
    "Unbiased",
    "UnbiasedRandomK",
    "compressed",
    "contraction",
    "operator",
    "wire",
]
