r"""How far apart learners are whose gradients differ by noise alone, from W by itself.

Without curvature the deviations follow D(t+1) = W(t) D(t) - alpha N(t), where N has independent
rows of covariance Sigma, less their mean. Then

.. math:: \sigma_w^2 = \frac{\alpha^2 \,\mathrm{tr}\,\Sigma}{n^2}\, \mathrm{tr}\, C, \qquad
    C(t+1) = W(t)\, C(t)\, W(t)^\top + P, \qquad P = I - \mathbf{1}\mathbf{1}^\top / n

which for one symmetric W comes to tr C = sum_{i >= 2} 1 / (1 - lambda_i^2), and n - 1 for W = J:
`gossip.algorithms.flat` has that for the monitor, where here W may change and the run be young.
"""

from statistics import fmean

import numpy as np

import topologies


def amplification(topology: topologies.Topology, steps: range) -> float:
    """The trace of C over n - 1, averaged over some steps of a run that began with equal rows.

    Args:
        topology: gives W(t).
        steps: those over which sigma_w^2 is averaged too.
    """
    n = topology.n
    p = np.eye(n) - 1 / n
    c, traces = np.zeros((n, n)), []
    for t in range(steps.stop):
        if t in steps:
            traces.append(float(np.trace(c)))
        w = topology.matrix(t).toarray()
        c = w @ c @ w.T + p
    return fmean(traces) / (n - 1)
