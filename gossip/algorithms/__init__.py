"""The table of algorithms: name -> what makes one."""

from collections.abc import Callable, Iterable

from gossip.algorithms.adpsgd import AdPsgd
from gossip.algorithms.base import Algorithm, Gradient, LearningRate, Startable, State, Step
from gossip.algorithms.beer import Beer
from gossip.algorithms.choco import ChocoAtc, ChocoAwc
from gossip.algorithms.dcd import Dcd, Ecd
from gossip.algorithms.deep_squeeze import DeepSqueeze
from gossip.algorithms.demo import DeMo
from gossip.algorithms.diffusion import D2, Edm
from gossip.algorithms.dpsgd import Dpsgd, DpsgdAtc
from gossip.algorithms.exchanged import Ef21
from gossip.algorithms.injected import Injected
from gossip.algorithms.moments import MixedState
from gossip.algorithms.momentum import DecentLam, MixedMomentum, MomentumTracking, QuasiGlobal
from gossip.algorithms.options import AlgorithmSettings, MakeOptimizer, WithOptions, refuse_unknown
from gossip.algorithms.outer import DiLoCo, Lookahead, Outer, PostLocal, SlowMo
from gossip.algorithms.partners import Gasloc, NoLoCo
from gossip.algorithms.power_gossip import PowerGossip
from gossip.algorithms.power_sgd import PowerSgd
from gossip.algorithms.push_sum import PushDiging, Sgp
from gossip.algorithms.relay import Relay
from gossip.algorithms.sparse_rounds import SparseLoCo, Sparta
from gossip.algorithms.ssgd import Ssgd
from gossip.algorithms.ssgd_star import NOISE_MODES, SsgdStar
from gossip.algorithms.streaming import Eager, Streaming
from gossip.algorithms.tracking import TrackingAtc, TrackingAwc, TrackingSemi

ORDERS = {"awc": Dpsgd, "atc": DpsgdAtc}
"""What `--order` offers for DPSGD."""


ALGORITHMS: dict[str, Callable[[MakeOptimizer, AlgorithmSettings], Algorithm]] = {
    "dpsgd": lambda optimizer, s: ORDERS[s.order](optimizer),
    "ssgd": lambda optimizer, s: Ssgd(optimizer),
    # Its pattern depends on its mode, so it is the instance's and not the class's.
    # pyrefly: ignore[bad-assignment]
    "ssgd-star": lambda optimizer, s: SsgdStar(optimizer, s.noise_std, s.noise_mode, s.seed),
    **{
        name: WithOptions(name, kind)
        for name, kind in {
            "ssgd-injected": Injected,
            "ef21": Ef21,
            "powersgd": PowerSgd,
            "demo": DeMo,
            "d2": D2,
            "edm": Edm,
            "gt-awc": TrackingAwc,
            "gt-atc": TrackingAtc,
            "gt-semi-atc": TrackingSemi,
            "momentum-tracking": MomentumTracking,
            "mixed-momentum": MixedMomentum,
            "mixed-state": MixedState,
            "qg-dsgdm": QuasiGlobal,
            "decentlam": DecentLam,
            "sgp": Sgp,
            "push-diging": PushDiging,
            "relaysgd": Relay,
            "choco-atc": ChocoAtc,
            "choco-awc": ChocoAwc,
            "dcd": Dcd,
            "ecd": Ecd,
            "deepsqueeze": DeepSqueeze,
            "beer": Beer,
            "powergossip": PowerGossip,
            "local-sgd": Outer,
            "post-local-sgd": PostLocal,
            "lookahead": Lookahead,
            "slowmo": SlowMo,
            "diloco": DiLoCo,
            "diloco-eager": Eager,
            "streaming-diloco": Streaming,
            "noloco": NoLoCo,
            "gasloc": Gasloc,
            "sparta": Sparta,
            "sparseloco": SparseLoCo,
        }.items()
    },
}
"""What `--algorithm` offers. A new algorithm is a file like `dpsgd.py` and a line here."""

ASYNCHRONOUS: dict[str, Callable[[MakeOptimizer, AlgorithmSettings], AdPsgd]] = {
    "ad-psgd": lambda optimizer, s: AdPsgd(optimizer),
}
"""What `--algorithm` offers without a common step: `gossip.asynchronous` runs these."""


def check_options(names: Iterable[str], given: Iterable[str]) -> None:
    """Refuse an option that none of the named algorithms has.

    Raises:
        UserError: there is such.
    """
    refuse_unknown(ALGORITHMS, names, given)


NAMES = (*ALGORITHMS, *ASYNCHRONOUS)

__all__ = [
    "ALGORITHMS",
    "ASYNCHRONOUS",
    "NAMES",
    "NOISE_MODES",
    "ORDERS",
    "AdPsgd",
    "Algorithm",
    "AlgorithmSettings",
    "Dpsgd",
    "DpsgdAtc",
    "Gradient",
    "LearningRate",
    "Ssgd",
    "SsgdStar",
    "Startable",
    "State",
    "Step",
    "check_options",
]
