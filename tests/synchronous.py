"""One of each: SSGD, DPSGD in both orders, SSGD* with every kind of noise; from an optimizer."""

from functools import partial

from gossip.algorithms import NOISE_MODES, Dpsgd, DpsgdAtc, Ssgd, SsgdStar

ALGORITHMS = {
    "dpsgd": Dpsgd,
    "dpsgd-atc": DpsgdAtc,
    "ssgd": Ssgd,
    **{
        f"ssgd-star-{mode}".removesuffix("-eval"): partial(SsgdStar, std=0.01, mode=mode, seed=3)
        for mode in NOISE_MODES
    },
}
NOISELESS = [name for name in ALGORITHMS if not name.startswith("ssgd-star")]
