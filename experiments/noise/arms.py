"""The arms of the study: DPSGD, SSGD, and what DPSGD's noise is replaced by."""

from dataclasses import dataclass

SSGD, OWN, MATCHED = "ssgd", "own", "matched"


@dataclass(frozen=True)
class Arm:
    """One way to train; all have the same data, start, mini-batches and learning rate."""

    label: str
    changed: str
    """The property of DPSGD's noise that it changes."""
    algorithm: str = "ssgd-injected"
    noise: str = ""
    """Kind of noise; none: the arm has its name."""
    is_recorded: bool = False
    """Whether its strength is that of a recorded run of DPSGD, and not of its own gradients."""


def _recorded(noise: str, label: str, changed: str) -> Arm:
    return Arm(f"{label}, DPSGD's σ_w²", changed, noise=noise, is_recorded=True)


ARMS = {
    SSGD: Arm("SSGD", "there is none", "ssgd"),
    OWN: Arm("DPSGD, W = 11ᵀ/n", "nothing: D_j = -α (g_j - g_a)", "dpsgd"),
    "flipped": Arm("flipped", "its sign: -D"),
    "signed": Arm("random sign", "one sign for all learners, drawn at every step"),
    "gaussian": Arm("Gaussian", "its law: Gaussian, of the learners' covariance"),
    "by-layer": Arm("isotropic by layer", "its direction: isotropic, each layer's strength kept"),
    "isotropic": Arm("isotropic", "its direction: isotropic, the whole strength kept"),
    "delayed": Arm("delayed", "its moment: D of 20 steps before"),
    "shuffled": Arm("shuffled", "its moment: D of one of the last 20 steps"),
    "twin": Arm("a twin's", "its run: D of another run of DPSGD, on the same mini-batches"),
    **{
        f"strong-{noise}": _recorded(noise, label, changed)
        for noise, label, changed in (
            ("flipped", "flipped", "its sign: -D"),
            ("signed", "random sign", "its sign, drawn at every step"),
            ("gaussian", "Gaussian", "its law: Gaussian, of the learners' covariance"),
            ("isotropic", "isotropic", "its direction"),
        )
    },
    MATCHED: Arm("SSGD at DPSGD's α_e", "there is none, but its effect on the rate", "ssgd"),
}
STRONG = tuple(name for name, arm in ARMS.items() if arm.is_recorded)
