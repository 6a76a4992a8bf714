"""Scikit-learn estimators that train torch modules with batches that grow.

Needs the extra gossip-sgd[sklearn] (scikit-learn and skorch), and gossip-sgd[dask] for a cluster.
"""

from gossip.engines.extras import extra

extra("sklearn", "sklearn")
extra("skorch", "sklearn")

from gossip.estimators.classifier import DampedClassifier  # noqa: E402 - once they are known to be
from gossip.estimators.regressor import DampedRegressor  # noqa: E402

__all__ = ["DampedClassifier", "DampedRegressor"]
