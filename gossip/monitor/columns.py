"""Columns that each level of the monitor adds to the trace, with their meaning."""

from gossip.errors import lookup

_CHEAP = {
    "sigma_w2": "n^-2 sum ||delta w_j||^2 where gradients are taken, before mixing (trace of C)",
    "sigma_w2_mixed": "the same of W X, after mixing and before the update",
    "sigma_w2_coord": "variance of one coordinate, the sigma_w^2 of Theorem 1",
    "consensus_distance": "root mean square distance of the learners' weights from their mean",
    "displacement_norm": "||w_a(t+1) - w_a(t)||",
    "grad_a_norm": "||g_a||, of the mean stochastic gradient",
    "gradient_bound": "largest gradient norm of the last 100 steps, a lower estimate of G",
    "ls_est": "2 G / sigma_w, smoothness of the averaged loss; infinite: nothing is smoothed",
    "lr_max": "1 / ls_est; 0: nothing is smoothed",
}
_STANDARD = {
    "alpha_e": "effective learning rate -(Delta w_a . g) / ||g||^2, of any optimizer",
    "alpha_e_ratio": "alpha_e / alpha",
    "alpha_e_sgd": "alpha (g_a . g) / ||g||^2, the paper's form; alpha_e itself for plain SGD",
    "delta": "Delta, squared length of the mean model's step across g",
    "delta_sgd": "Delta of the step -alpha g_a; delta itself for plain SGD",
    "grad_norm": "||g||, the sampling noise taken out; NaN where noise is all there is",
    "grad_norm_sampled": "length of the sampled g with its noise; ||g|| where g is exact",
    "g_samples": "training samples behind g",
    "g_is_probe": "1 where g is an estimate, 0 where it is exact",
    "loss_mean_model": "training loss of the mean model on the samples behind g",
}
_FULL = {
    "alpha_e_s": "alpha (g_S . g) / ||g||^2, the same mini-batches at the mean model",
    "delta_s": "Delta_S, what the mini-batches alone cause",
    "delta2": "alpha^2 ||g_a - g_S||^2, Eq. 5 as the paper has it",
    "delta2_perp": "the part of delta2 across g; delta_sgd = delta_s + delta_cross + delta2_perp",
    "delta_cross": "2 alpha^2 <g_S, g_a - g_S> across g, of either sign",
    "delta2_diff": "delta_sgd - delta_s",
    "delta2_hessian": "alpha^2 n^-2 sum ||H delta w_j||^2, Eq. 5's second line",
    "delta2_hessian_minibatch": "alpha^2 ||mean of H_j delta w_j||^2, first order of delta2",
    "hessian_samples": "training samples behind delta2_hessian",
}

_LIPSCHITZ = {
    "lipschitz": "L(x, g) = g'Hg / ||g||^2 at the mean model on a fixed probe",
    "lipschitz_step": "1 / L(x, g); infinite where L is not positive",
}

METHOD: dict[str, str] = {
    "sigma_w2_flat": "sigma_w2 to which W's spectrum and this step's gradients would lead without "
    "curvature",
    "error_norm": "root mean square of ||e_j||, what compression has left out and not sent yet",
    "estimate_error": "root mean square of ||w_j - what the neighbours take it for||",
    "estimate_consensus": "consensus distance of what they take the weights for",
    "tracker_consensus": "consensus distance of the trackers",
    "tracker_bias": "||mean tracker - mean gradient||; 0 but for rounding",
    "correction_bias": "||mean correction||; 0 but for rounding",
    "mass_error": "|mean mass of push-sum - 1|; 0 but for rounding",
    "anchor_spread": "largest ||theta_j - mean theta||; 0 where all learners build on one theta",
    "pseudo_norm": "||mean Delta||, Delta_j = theta_j - w_j what the round has done so far",
    "pseudo_agreement": "||mean Delta||^2 / mean ||Delta_j||^2: 1 if all agree, 1/n of noise alone",
    "pseudo_cosine": "mean of cos(Delta_j, mean Delta)",
    "alpha_e_round": "mean Delta . g(theta) / ||g(theta)||^2, rate of the round so far; standard",
}
"""Columns of methods that keep such things, after the step: see `gossip.monitor.kept`. A round that
has just begun has no Delta, and NaN."""

LIPSCHITZ: tuple[str, ...] = tuple(_LIPSCHITZ)
"""What the local Lipschitz constant adds, if it is measured."""

MEANINGS: dict[str, str] = _CHEAP | _STANDARD | _FULL
"""Column -> what it is, in one line."""

LEVELS: dict[str, tuple[str, ...]] = {
    "cheap": tuple(_CHEAP),
    "standard": tuple(_CHEAP | _STANDARD),
    "full": tuple(MEANINGS),
}
"""Level -> its columns. cheap takes no extra gradient, standard adds g, full g_S and Hessians."""


def columns(level: str) -> tuple[str, ...]:
    """The columns that a level yields, in order; all are float64.

    Raises:
        UserError: there is no such level.
    """
    return lookup(LEVELS, level, "monitor level")
